//! `windlass config validate`: reports unknown settings.

use super::{Described, Validate, Which};
use crate::cli::stdout::print;
use crate::error::Result;
use crate::output::{Printer, Secrets};
use crate::settings::{Color, base, extended, galaxy_servers};

/// Runs the subcommand. Returns the exit code.
pub(super) fn validate(which: &Which, format: Validate) -> Result<u8> {
    let config = which.config()?;
    let mut settings: Vec<Described> = Vec::new();
    if which.base() {
        settings.extend(base().iter().map(Described::base));
    }
    for callback in which.callbacks()? {
        settings.extend(callback.all_options().map(Described::option));
    }
    settings.extend(which.plugins().map(|entry| Described::base(&entry.setting)));
    let servers = if which.base() { galaxy_servers(&config)? } else { Vec::new() };
    let mut wrong = Vec::new();
    match (format, &config.file) {
        (Validate::Ini, Some(file)) => {
            let file = file.display();
            let mut keys: Vec<(&str, &str)> = Vec::new();
            settings.iter().flat_map(|setting| setting.ini.iter()).for_each(|key| keys.push(*key));
            let of_servers = servers.iter().flat_map(|server| &server.options);
            keys.extend(of_servers.map(|option| (option.section.as_str(), option.name)));
            if which.base() {
                extended().for_each(|key| keys.push(key));
            }
            for (section, key) in config.keys() {
                if !keys.iter().any(|(known, _)| *known == section) {
                    wrong.push(format!("Found unknown section '{section}' in '{file}'."));
                } else if !keys.contains(&(section, key)) {
                    wrong.push(format!("Found unknown key '{key}' in section '{section}' in '{file}'."));
                }
            }
        }
        (Validate::Ini, None) => {}
        (Validate::Env, _) => {
            let ours = ["ANSIBLE_CONFIG", "ANSIBLE_DEV_HOME"];
            let mut names: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
            names.sort();
            for name in names {
                let other = ["ANSIBLE_TEST_", "ANSIBLE_LINT_"].iter().any(|prefix| name.starts_with(prefix));
                // Only the sections of Galaxy servers are known, as in Ansible.
                let known = settings.iter().any(|setting| setting.env.contains(&name.as_str()));
                if name.starts_with("ANSIBLE_") && !other && !ours.contains(&name.as_str()) && !known {
                    wrong.push(format!("Found unknown environment variable '{name}'."));
                }
            }
        }
    }
    wrong.dedup();
    if wrong.is_empty() {
        print("All configurations seem valid!\n")?;
        return Ok(0);
    }
    let printer = Printer::plain(Secrets::default());
    wrong.iter().for_each(|sentence| printer.error_line(&format!("[ERROR]: {sentence}"), Color::Error));
    Ok(1)
}
