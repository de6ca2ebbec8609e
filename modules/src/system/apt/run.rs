//! Runs of apt-get(8): simulations for check mode, real runs, and repairs of interrupted ones.

use std::time::Duration;

use super::{Database, settings::Settings};
use crate::{
    Failure, Host,
    process::{Command, Output},
};

/// A non-interactive command with English messages.
pub(super) fn environment(command: Command) -> Command {
    command.plain_locale().variable("DEBIAN_FRONTEND", "noninteractive").variable("DEBIAN_PRIORITY", "critical")
}

/// The apt-get command.
pub(super) fn command() -> Command {
    environment(Command::new("apt-get"))
}

/// Runs apt-get to change the host.
pub(super) fn apt_get(words: &[String], settings: &Settings, lock: Duration, host: &Host) -> Result<Output, Failure> {
    // Another process may take the lock between the check and the start.
    let waits = format!("DPkg::Lock::Timeout={}", lock.as_secs());
    let command = command().args(settings.words()).args(["-o", &waits]).args(words.iter().cloned()).live();
    let shown = command.words().join(" ");
    let output = command.run(host)?;
    if output.success() { Ok(output) } else { Err(failure(&shown, &output)) }
}

fn failure(shown: &str, output: &Output) -> Failure {
    let error = output.stderr_text();
    let unknown = error.lines().find_map(|line| line.strip_prefix("E: Unable to locate package "));
    if let Some(name) = unknown {
        return Failure::new(format!("No package matching '{}' is available", name.trim()));
    }
    if let Some((name, version)) = error.lines().find_map(missing_version) {
        return Failure::new(format!("no available installation candidate for {name}={version}"));
    }
    let message = format!("'{shown}' failed: {}", error.trim());
    Failure::new(message).with("rc", output.rc).with("stdout", output.stdout_text()).with("stderr", error)
}

/// Parses the package and version in `E: Version '1.0' for 'name' was not found`.
fn missing_version(line: &str) -> Option<(&str, &str)> {
    let (version, rest) = line.strip_prefix("E: Version '")?.split_once("' for '")?;
    Some((rest.strip_suffix("' was not found")?, version))
}

/// The outcome of an apt-get simulation.
pub(super) struct Prediction {
    pub(super) changes: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) warning: Option<String>,
}

/// Simulates a run of apt-get. An unknown package may become known if the package lists are updated first.
pub(super) fn simulate(
    commands: &[Vec<String>],
    settings: &Settings,
    lists_to_come: bool,
    host: &Host,
) -> Result<Prediction, Failure> {
    let mut prediction = Prediction { changes: false, stdout: String::new(), stderr: String::new(), warning: None };
    for words in commands {
        if words.first().is_some_and(|verb| verb == "clean") {
            prediction.changes = true;
            continue;
        }
        let command = command().arg("--simulate").args(settings.words()).args(words.iter().cloned());
        let shown = command.words().join(" ");
        let output = command.run(host)?;
        if !output.success() {
            let failure = failure(&shown, &output);
            if lists_to_come {
                prediction.changes = true;
                prediction.warning = Some(format!("With the lists of packages as they are: {}", failure.message));
                continue;
            }
            return Err(failure);
        }
        let text = output.stdout_text();
        prediction.changes |= simulated_something(&text);
        prediction.stdout.push_str(&text);
        prediction.stderr.push_str(&output.stderr_text());
    }
    Ok(prediction)
}

/// Whether a simulation lists any package.
fn simulated_something(text: &str) -> bool {
    text.lines().any(|line| ["Inst ", "Remv ", "Purg ", "Conf ", "Del "].iter().any(|start| line.starts_with(start)))
}

/// Whether a real run changed anything: `3 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.`
pub(super) fn did_something(text: &str) -> bool {
    let summary = text.lines().find(|line| line.contains(" upgraded, ") && line.contains(" newly installed, "));
    let numbers = summary.map(|line| {
        let words = line.split([' ', ',']).filter_map(|word| word.parse::<u32>().ok());
        words.take(3).sum::<u32>()
    });
    numbers.map_or_else(|| text.lines().any(|line| line.starts_with("Del ")), |numbers| numbers > 0)
}

/// The part of the output that announces the packages and their number, before apt-get begins.
pub(super) fn announced(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().position(|line| *line == "Reading state information...").map_or(0, |found| found + 1);
    let counts = |line: &&str| {
        let rest = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
        rest.len() < line.len() && (rest.starts_with(" upgraded") || rest.starts_with(" packages upgraded"))
    };
    let end = lines.iter().position(counts).map_or(lines.len(), |found| found + 1);
    lines.get(start..end).unwrap_or_default().join("\n")
}

/// Completes an interrupted installation; dpkg refuses other work before that.
pub(super) fn repair(settings: &Settings, host: &Host) -> Result<(), Failure> {
    let journal = std::fs::read_dir("/var/lib/dpkg/updates").map(|entries| entries.count()).unwrap_or(0);
    let broken = Database::of_host().broken;
    if journal == 0 && broken.is_empty() {
        return Ok(());
    }
    let names = if broken.is_empty() { "packages".to_owned() } else { broken.join(", ") };
    host.warn(format!(
        "An earlier installation of {names} was interrupted; it is completed with dpkg --configure -a first."
    ));
    let output = environment(Command::new("dpkg"))
        .args(settings.dpkg_options.clone())
        .args(["--configure", "-a"])
        .live()
        .run(host)?;
    if output.success() {
        return Ok(());
    }
    let error = output.stderr_text();
    Err(Failure::new(format!(
        "An earlier installation was interrupted, and dpkg --configure -a cannot complete it: {}",
        error.trim()
    ))
    .with("rc", output.rc)
    .with("stdout", output.stdout_text())
    .with("stderr", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_get_output_shows_changes() {
        assert!(simulated_something("Inst socat (1.7.4 Debian:12 [amd64])\nConf socat (1.7.4)\n"));
        assert!(!simulated_something("0 upgraded, 0 newly installed, 0 to remove and 3 not upgraded.\n"));
        assert!(did_something("1 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n"));
        assert!(!did_something("0 upgraded, 0 newly installed, 0 to remove and 7 not upgraded.\n"));
        assert!(did_something("Reading package lists...\nDel socat 1.7 [300 kB]\n"));
    }

    #[test]
    fn announcement_extracted_for_diff() {
        let text = "Reading package lists...\nReading state information...\nThe following NEW packages will be installed:\n  curl libcurl4\nSuggested packages:\n  wget\n0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.\nUnpacking\n";
        assert_eq!(
            announced(text),
            "The following NEW packages will be installed:\n  curl libcurl4\nSuggested packages:\n  wget\n0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded."
        );
    }

    #[test]
    fn unknown_package_named_in_failure() {
        let output = Output {
            rc: 100,
            stdout: Vec::new(),
            stderr: b"E: Unable to locate package nope\n".to_vec(),
            overlong: None,
        };
        assert_eq!(failure("apt-get", &output).message, "No package matching 'nope' is available");
    }
}
