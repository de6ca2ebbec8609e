//! `subversion`: working copies of Subversion repositories.

use std::{io::ErrorKind, path::Path};

use serde_json::{Value, json};

use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    files::way::{Link, Place},
    net::address::Address,
    process::{Command, Output, reason},
};

/// The `subversion` module.
pub struct Subversion;

static SPEC: Spec = Spec {
    name: "subversion",
    summary: "Manage a working copy of a Subversion repository",
    description: &[
        "Checks out, switches, updates or exports with the host's `svn`. Passes the password on standard input.",
    ],
    options: &[
        Opt::required("repo", Kind::Str, "URL of the repository.").address().word().aliases(&["name", "repository"]),
        Opt::new("dest", Kind::Path, "Path of the working copy. Not needed to query only the remote revision.").word(),
        Opt::new("revision", Kind::Str, "Revision to check out.")
            .word()
            .aliases(&["rev", "version"])
            .default("\"HEAD\""),
        Opt::new("force", Kind::Bool, "Discard local changes; for an export, overwrite existing files.")
            .default("false"),
        Opt::new("in_place", Kind::Bool, "Turn an existing folder into a working copy.").default("false"),
        Opt::new("username", Kind::Str, "User name for authentication.").line(),
        Opt::new("password", Kind::Str, "Password for authentication.").line().secret(),
        Opt::new("executable", Kind::Path, "Path of `svn`."),
        Opt::new("checkout", Kind::Bool, "Check out if no working copy exists.").default("true"),
        Opt::new("update", Kind::Bool, "Update an existing working copy.").default("true"),
        Opt::new("export", Kind::Bool, "Export the files without version control data.").default("false"),
        Opt::new("switch", Kind::Bool, "Switch to the URL before the update.").default("true"),
        Opt::new("validate_certs", Kind::Bool, "Verify the server's certificate.").default("false"),
    ],
    examples: "- name: Check out\n  ansible.builtin.subversion:\n    repo: svn+ssh://svn.example.org/repo\n    dest: /srv/checkout\n",
    returns: &[
        Return {
            name: "before",
            kind: "list",
            when: "the working copy existed",
            doc: "Revision and URL before the task.",
        },
        Return { name: "after", kind: "list", when: "success", doc: "Revision and URL after the task." },
    ],
    ..Spec::EMPTY
}
.compiled();

/// Settings of `svn` calls.
#[derive(Clone)]
struct Client {
    program: String,
    options: Vec<String>,
    password: Option<String>,
    repo: String,
    dest: String,
    revision: String,
}

impl Module for Subversion {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let [export, checkout, update, force] = ["export", "checkout", "update", "force"].map(|name| args.bool(name));
        if args.str("dest").is_none() && (checkout || update || export) {
            return Err(Failure::new(
                "the destination directory must be specified unless checkout=no, update=no, and export=no",
            ));
        }
        let client = Client::of(args)?;
        if !export && !update && !checkout {
            let told = client.run(&["info", &client.repo], host)?.stdout_text();
            return Ok(Plan::unchanged().with("after", revision_of(&told).unwrap_or("Unable to get remote revision")));
        }
        let exists = match Place::to_write(Path::new(&client.dest), Link::Follow) {
            Ok(place) => place.node().is_some(),
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(Failure::new(format!("{} cannot be used: {}.", client.dest, reason(&error)))),
        };
        if export || !exists {
            if !export && !checkout {
                return Ok(Plan::unchanged());
            }
            return Ok(Plan::change(move |host, outcome| {
                client.fetch(if export { "export" } else { "checkout" }, export && force, host)?;
                if !export {
                    outcome.set("before", Value::Null);
                    outcome.set("after", client.state(host)?);
                }
                Ok(())
            }));
        }
        if !client.is_working_copy(host)? {
            if !args.bool("in_place") {
                return Err(Failure::new(format!(
                    "ERROR: {} folder already exists, but its not a subversion repository.",
                    client.dest
                )));
            }
            return Ok(Plan::change(move |host, outcome| {
                client.fetch("checkout", true, host)?;
                if force && client.is_modified(host)? {
                    client.run(&["revert", "-R", &client.dest], host)?;
                }
                outcome.set("before", Value::Null);
                outcome.set("after", client.state(host)?);
                Ok(())
            }));
        }
        if !update {
            return Ok(Plan::unchanged());
        }
        let modified = client.is_modified(host)?;
        if modified && !force {
            return Err(Failure::new("ERROR: modified files exist in the repository."));
        }
        if host.check() {
            return client.predict(host);
        }
        let before = client.state(host)?;
        let switch = args.bool("switch");
        Ok(Plan::change(move |host, outcome| {
            let mut changed = modified;
            if switch {
                let output =
                    client.run(&["switch", "--revision", &client.revision, &client.repo, &client.dest], host)?;
                changed |= touched(&output.stdout_text());
            }
            if modified {
                client.run(&["revert", "-R", &client.dest], host)?;
            }
            let output = client.run(&["update", "-r", &client.revision, &client.dest], host)?;
            changed |= touched(&output.stdout_text());
            outcome.changed = changed;
            outcome.set("after", client.state(host)?);
            Ok(())
        })
        .with("before", before))
    }
}

impl Client {
    fn of(args: &Args) -> Result<Client, Failure> {
        let mut options = vec!["--non-interactive".to_owned(), "--no-auth-cache".to_owned()];
        if !args.bool("validate_certs") {
            options.push("--trust-server-cert".to_owned());
        }
        // svn ignores a password in the URL but shows it to every user of the host.
        let mut repo = args.required("repo")?.to_owned();
        let address = Address::parse(&repo);
        let (mut user, mut password) = (None, None);
        if let Some((address, (name, word))) =
            address.as_ref().and_then(|found| Some((found, found.credentials.clone()?)))
            && !word.is_empty()
            && address.scheme != "svn+ssh"
        {
            repo = address.url();
            (user, password) = (Some(name), Some(word));
        }
        let user = args.str("username").map(str::to_owned).or(user);
        if let Some(user) = user {
            options.extend(["--username".to_owned(), user]);
        }
        let password = args.filled("password").map(str::to_owned).or(password);
        if password.is_some() {
            options.push("--password-from-stdin".to_owned());
        }
        Ok(Client {
            program: args.str("executable").unwrap_or("svn").to_owned(),
            options,
            password,
            repo,
            dest: args.str("dest").unwrap_or_default().to_owned(),
            revision: args.required("revision")?.to_owned(),
        })
    }

    fn command(&self, words: &[&str]) -> Command {
        // Only messages are English; file names keep their encoding.
        let command = Command::new(&self.program).variable("LC_MESSAGES", "C").variable("LANGUAGE", "C");
        let command = command.args(self.options.clone()).args(words.iter().copied());
        match &self.password {
            Some(password) => command.input(password.as_bytes()),
            None => command,
        }
    }

    fn run(&self, words: &[&str], host: &Host) -> Result<Output, Failure> {
        let output = self.command(words).run(host)?;
        if output.success() {
            return Ok(output);
        }
        let shown: Vec<String> =
            std::iter::once(self.program.as_str()).chain(words.iter().copied()).map(str::to_owned).collect();
        let failure = output.failure(&shown);
        let said = output.stderr_text().trim_end().to_owned();
        Err(if said.is_empty() { failure } else { Failure { message: said, ..failure } })
    }

    fn fetch(&self, verb: &str, force: bool, host: &Host) -> Result<(), Failure> {
        let mut words = vec![verb];
        if force {
            words.push("--force");
        }
        words.extend(["-r", &self.revision, &self.repo, &self.dest]);
        self.run(&words, host).map(|_| ())
    }

    fn is_working_copy(&self, host: &Host) -> Result<bool, Failure> {
        Ok(self.command(&["info", &self.dest]).run(host)?.success())
    }

    /// Whether versioned files were changed.
    fn is_modified(&self, host: &Host) -> Result<bool, Failure> {
        let output = self.run(&["status", "--quiet", "--ignore-externals", &self.dest], host)?;
        Ok(output.stdout_text().lines().any(|line| !line.is_empty() && !line.starts_with(['?', 'X'])))
    }

    /// The working copy's lines with revision and URL, as the result shows them.
    fn state(&self, host: &Host) -> Result<Value, Failure> {
        let text = self.run(&["info", &self.dest], host)?.stdout_text();
        let url = text.lines().find(|line| line.starts_with("URL:") || line.starts_with("URL :"));
        Ok(json!([revision_of(&text).unwrap_or("Unable to get revision"), url.unwrap_or("Unable to get URL")]))
    }

    fn predict(&self, host: &Host) -> Result<Plan, Failure> {
        let here = self.run(&["info", &self.dest], host)?.stdout_text();
        let there = self.run(&["info", "-r", &self.revision, &self.dest], host)?.stdout_text();
        let line = |text: &str| revision_of(text).unwrap_or("Unable to get revision").to_owned();
        let (before, after) = (line(&here), line(&there));
        let number = |line: &str| line.rsplit(':').next().and_then(|number| number.trim().parse::<u64>().ok());
        let newer = number(&before) < number(&after);
        let plan = if newer { Plan::change(|_, _| Ok(())) } else { Plan::unchanged() };
        Ok(plan.with("before", before).with("after", after))
    }
}

/// Parses the line `Revision: 12`.
fn revision_of(text: &str) -> Option<&str> {
    text.lines().find(|line| {
        let number = line.strip_prefix("Revision").map(|rest| rest.trim_start_matches([' ', ':']));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// Whether the output reports added, removed or changed files.
fn touched(text: &str) -> bool {
    text.lines().any(|line| {
        line.starts_with(['A', 'B', 'D', 'U', 'C', 'G', 'E']) && line.chars().nth(1).is_some_and(char::is_whitespace)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn svn_output_parsed() {
        assert_eq!(revision_of("Path: x\nURL: file:///r\nRevision: 12\n"), Some("Revision: 12"));
        assert!(touched("Updating 'x':\nA    x/y\nUpdated to revision 3.\n"));
        assert!(!touched("Updating 'x':\nAt revision 3.\n"));
    }
}
