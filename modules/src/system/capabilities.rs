//! `capabilities`: privileges of a program beyond its user's.

use std::path::Path;

use crate::{Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, files::way, process::Command};

/// The `capabilities` module.
pub struct Capabilities;

static SPEC: Spec = Spec {
    name: "capabilities",
    collection: "community.general",
    summary: "Manage capabilities of program files",
    description: &["Adds one capability to a file, or removes it, with `getcap` and `setcap`."],
    options: &[
        Opt::required("path", Kind::Str, "Path of the program.").word().aliases(&["key"]),
        Opt::required(
            "capability",
            Kind::Str,
            "Capability with operator and flags, such as `cap_net_bind_service+ep`.",
        )
        .word()
        .aliases(&["cap"]),
        Opt::new("state", Kind::Str, "`present` adds the capability, `absent` removes it.")
            .default("\"present\"")
            .choices(&["absent", "present"]),
    ],
    examples: "- name: The server opens low ports\n  community.general.capabilities:\n    path: /usr/local/bin/server\n    capability: cap_net_bind_service+ep\n",
    returns: &[Return { name: "msg", kind: "str", when: "changed", doc: "Confirms that capabilities changed." }],
    ..Spec::EMPTY
}
.compiled();

/// A capability, its operator and its flags.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Capability {
    name: String,
    operator: char,
    flags: String,
}

impl Capability {
    fn parse(text: &str) -> Option<Capability> {
        let (at, operator) = text.char_indices().find(|(_, character)| matches!(character, '=' | '-' | '+'))?;
        let (name, flags) = text.split_at(at);
        Some(Capability { name: name.to_owned(), operator, flags: flags.get(1..).unwrap_or_default().to_owned() })
    }

    fn text(&self) -> String {
        format!("{}{}{}", self.name, self.operator, self.flags)
    }
}

impl Module for Capabilities {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let path = args.required("path")?.trim().to_owned();
        let given = args.required("capability")?.trim().to_lowercase();
        let state = args.str("state").unwrap_or("present").to_owned();
        let present = state == "present";
        let wanted = Capability::parse(&given);
        if present && wanted.is_none() {
            return Err(Failure::new("Couldn't find operator (one of: ('=', '-', '+'))"));
        }
        let name = wanted.as_ref().map_or(given, |wanted| wanted.name.clone());
        let output = Command::new("getcap").plain_locale().args(["-v", &path]).run(host)?;
        let (text, errors) = (output.stdout_text(), output.stderr_text());
        if !output.success() || !errors.is_empty() || text.trim_end().ends_with(')') {
            return Err(Failure::new(format!("Unable to get capabilities of {path}"))
                .with("stdout", text.trim())
                .with("stderr", errors));
        }
        way::checked(Path::new(&path))?;
        let known = listed(text.trim().strip_prefix(&path).unwrap_or_default());
        let same = match &wanted {
            // getcap prints a single operator.
            Some(wanted) if present => known
                .iter()
                .any(|known| known.name == wanted.name && known.flags == wanted.flags && wanted.operator != '-'),
            _ => !known.iter().any(|known| known.name == name),
        };
        if same {
            return Ok(Plan::unchanged().with("state", state));
        }
        let mut left: Vec<Capability> = known.into_iter().filter(|known| known.name != name).collect();
        left.extend(wanted.filter(|_| present));
        let text = left.iter().map(Capability::text).collect::<Vec<_>>().join(" ");
        let plan = Plan::change(move |host, outcome| {
            let output = Command::new("setcap").plain_locale().args([&text, &path]).run(host)?;
            if !output.success() {
                return Err(Failure::new(format!("Unable to set capabilities of {path}"))
                    .with("stdout", output.stdout_text())
                    .with("stderr", output.stderr_text()));
            }
            outcome.set("stdout", output.stdout_text());
            Ok(())
        });
        // Check mode reports no `state`.
        let plan = if host.check() { plan } else { plan.with("state", state) };
        Ok(plan.with("msg", "capabilities changed"))
    }
}

/// Parses the text that getcap prints after the path: ` cap_a,cap_b=ep`, in older releases ` = cap_a,cap_b+ep`.
fn listed(text: &str) -> Vec<Capability> {
    let text = text.trim().to_lowercase();
    let text = text.strip_prefix("= ").unwrap_or(&text);
    let mut all = Vec::new();
    for group in text.split_whitespace() {
        let Some(last) = Capability::parse(group) else { continue };
        let names: Vec<String> = last.name.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        all.extend(names.into_iter().map(|name| Capability { name, ..last.clone() }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn getcap_listings_of_old_and_new_releases_parsed() {
        for text in [" cap_chown,cap_net_raw=ep", " = cap_chown,cap_net_raw+ep"] {
            let found = listed(text);
            assert_eq!(found.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(), ["cap_chown", "cap_net_raw"]);
            assert_eq!(found[0].flags, "ep");
        }
        assert!(listed("").is_empty() && listed(" =").is_empty());
        assert_eq!(Capability::parse("cap_x"), None);
    }
}
