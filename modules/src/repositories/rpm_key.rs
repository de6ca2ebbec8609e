//! `rpm_key`: keys that sign RPM packages.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::key::{self, Download};
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Spec,
    files::scratch::Scratch,
    process::{Command, reason},
};

/// The `rpm_key` module.
pub struct RpmKey;

static SPEC: Spec = Spec {
    name: "rpm_key",
    summary: "Manage RPM's trusted keys",
    description: &["Adds a key to RPM's database, or removes it. Identifies the key with `gpg` first."],
    options: &[
        Opt::required("key", Kind::Str, "File on the host, or URL; with `absent` also a key id.").address(),
        Opt::new("state", Kind::Str, "`present` adds the key, `absent` removes it.")
            .default("\"present\"")
            .choices(&["absent", "present"]),
        Opt::new("validate_certs", Kind::Bool, "Verify the server's certificate.").default("true"),
        Opt::new(
            "fingerprint",
            Kind::List(&Kind::Str),
            "Accepted fingerprints. The task fails if the key has none of them.",
        ),
    ],
    examples: "- name: Trust the key of the repository\n  ansible.builtin.rpm_key:\n    key: https://packages.example.org/RPM-GPG-KEY\n    \
               fingerprint: EBC6 E12C 62B1 C734 026B 2122 A20E 5214 6B8D 79E6\n",
    ..Spec::EMPTY
}
.compiled();

/// A key and its location.
struct Found {
    /// Last eight digits of the id in lower case, as in RPM's database.
    id: String,
    /// File with the key, and its temporary folder, if any.
    file: Option<(PathBuf, Option<Scratch>)>,
}

impl Module for RpmKey {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let key = args.required("key")?;
        let present = args.str("state") != Some("absent");
        let found = find(key, args, host)?;
        if is_known(&found.id, host)? == present {
            return Ok(Plan::unchanged());
        }
        if present {
            let Some((file, _)) = &found.file else {
                return Err(Failure::new("When importing a key, a valid file must be given"));
            };
            check_fingerprints(file, args, host)?;
        }
        Ok(Plan::change(move |host, _| {
            let Found { id, file } = &found;
            let command = Command::new("rpm").plain_locale();
            let command = match file {
                Some((file, _)) if present => command.arg("--import").arg(file),
                _ => command.args(["--erase", "--allmatches", &format!("gpg-pubkey-{id}")]),
            };
            command.check_run(host).map(|_| ())
        }))
    }
}

fn find(key: &str, args: &Args, host: &Host) -> Result<Found, Failure> {
    let local = Path::new(key);
    let (file, scratch) = if key.contains("://") {
        let scratch = Scratch::new()?;
        let path = scratch.path().join("key");
        let bytes = Download { url: key, what: "key" }.read(args, host)?;
        if !key::is_armored(&bytes) {
            return Err(Failure::new(format!("Not a public key: {key}")));
        }
        std::fs::write(&path, bytes)
            .map_err(|error| Failure::new(format!("{} could not be written: {}.", path.display(), reason(&error))))?;
        (path, Some(scratch))
    } else if local.is_file() {
        (local.to_owned(), None)
    } else {
        let digits = key.trim().trim_start_matches("0x").to_lowercase();
        if digits.len() < 8 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Failure::new(format!("Not a valid key {key}")));
        }
        return Ok(Found { id: short(&digits), file: None });
    };
    let ids = key::listed(&file, host)?;
    let id = ids.first().ok_or_else(|| Failure::new(format!("Unexpected gpg output: {key} holds no public key.")))?;
    Ok(Found { id: short(&id.id), file: Some((file, scratch)) })
}

/// The last eight digits of an id.
fn short(id: &str) -> String {
    id.get(id.len().saturating_sub(8)..).unwrap_or(id).to_lowercase()
}

fn check_fingerprints(file: &Path, args: &Args, host: &Host) -> Result<(), Failure> {
    let bare = |text: &str| text.replace(' ', "").to_uppercase();
    let wanted: BTreeSet<String> = args.list("fingerprint").into_iter().map(bare).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let found: BTreeSet<String> = key::listed(file, host)?.into_iter().map(|key| key.fingerprint).collect();
    if wanted.is_subset(&found) {
        return Ok(());
    }
    let shown = |set: BTreeSet<String>| format!("{{'{}'}}", set.into_iter().collect::<Vec<_>>().join("', '"));
    Err(Failure::new(format!(
        "The specified fingerprint, '{}', does not match any key fingerprints in '{}'",
        shown(wanted),
        shown(found)
    )))
}

/// Whether RPM's database contains the key.
fn is_known(id: &str, host: &Host) -> Result<bool, Failure> {
    let output = Command::new("rpm").plain_locale().args(["-q", "gpg-pubkey", "--qf", "%{VERSION}\n"]).run(host)?;
    // The query fails if the database is empty.
    Ok(output.success() && output.stdout_text().lines().any(|version| short(version) == id))
}
