//! `openssh_keypair`: SSH key pairs.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::old::Old;
use crate::{
    Args, Diff, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec,
    files::{
        attributes::Attributes,
        mode::Mode,
        scratch::Scratch,
        way::{self, Link, Place},
        write::{Source, Wanted},
    },
    process::{Command, Output, reason},
    run, with_attributes,
};

/// The `openssh_keypair` module.
pub struct OpensshKeypair;

static SPEC: Spec = Spec {
    name: "openssh_keypair",
    collection: "community.crypto",
    summary: "Manage an SSH key pair",
    description: &[
        "Generates a private and a public key with `ssh-keygen`, and regenerates them if they differ from the \
         options. The public key has the path of the private key with `.pub` appended.",
        "Never passes the passphrase as a program argument.",
    ],
    options: with_attributes![
        Opt::required("path", Kind::Path, "Path of the private key."),
        Opt::new("state", Kind::Str, "`present` generates the key pair, `absent` removes it.")
            .default("\"present\"")
            .choices(&["present", "absent"]),
        Opt::new("type", Kind::Str, "Type of the key.")
            .default("\"rsa\"")
            .choices(&["rsa", "dsa", "rsa1", "ecdsa", "ed25519"]),
        Opt::new("size", Kind::Int, "Size of the key in bits. Default: 4096 for rsa, 256 for ecdsa."),
        Opt::new("comment", Kind::Str, "Comment of the public key.").line(),
        Opt::new("passphrase", Kind::Str, "Passphrase that encrypts the private key.").secret(),
        Opt::new("force", Kind::Bool, "Regenerate the key pair.").default("false"),
        Opt::new(
            "regenerate",
            Kind::Str,
            "Handling of an existing key: `partial_idempotence` regenerates it if it differs, `full_idempotence` \
             also if it is unreadable, `fail` fails in these cases.",
        )
        .default("\"partial_idempotence\"")
        .choices(&["never", "fail", "partial_idempotence", "full_idempotence", "always"]),
        Opt::new("backend", Kind::Str, "No effect, because ssh-keygen is always used; accepted for compatibility.")
            .default("\"auto\"")
            .choices(&["auto", "cryptography", "opensshbin"]),
        Opt::new(
            "private_key_format",
            Kind::Str,
            "Format of the private key; `auto` and `ssh` mean OpenSSH's own format."
        )
        .default("\"auto\"")
        .choices(&["auto", "pkcs1", "pkcs8", "ssh"]),
    ],
    examples: "- name: A key for deployments\n  community.crypto.openssh_keypair:\n    path: /srv/deploy/id_ed25519\n    type: ed25519\n    owner: deploy\n",
    returns: &[
        Return { name: "filename", kind: "str", when: "present", doc: "Path of the private key." },
        Return { name: "public_key", kind: "str", when: "present", doc: "Public key." },
        Return { name: "fingerprint", kind: "str", when: "present", doc: "Fingerprint of the public key." },
        Return { name: "size", kind: "int", when: "present", doc: "Size of the key in bits." },
        Return { name: "type", kind: "str", when: "present", doc: "Type of the key." },
        Return { name: "comment", kind: "str", when: "present", doc: "Comment of the public key." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for OpensshKeypair {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let path = PathBuf::from(args.required("path")?);
        let public = PathBuf::from(format!("{}.pub", path.display()));
        if path.is_dir() {
            return Err(Failure::new(format!("{} is a directory. Please specify a path to a file.", path.display())));
        }
        let task = Task::of(args)?;
        if args.str("state") == Some("absent") {
            let old = Old::read(&path)?.filter(Old::is_private);
            let found = old.and_then(|old| task.derive(&old.bytes, host).transpose()).transpose()?;
            let comment = comment_of(&public, "");
            let data = match &found {
                Some(found) => found.described(&path, &comment),
                None => task.described(&path, &comment),
            };
            let plan = removal(vec![path, public]);
            return Ok(plan.with("public_key", "").with("fingerprint", "").with_all(data));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir() && !host.check()) {
            return Err(Failure::new(format!(
                "The directory {} does not exist or the file is not a directory",
                folder.display()
            )));
        }
        let attributes = Attributes::of(args, host)?;
        let old = Old::read(&path)?.filter(Old::is_private);
        let found = old.as_ref().and_then(|old| task.derive(&old.bytes, host).transpose()).transpose()?;
        let before = if host.diff() { compared(found.as_ref(), &public) } else { Value::Null };
        // The properties of a new key cannot be predicted.
        let foreseen = (host.diff() && host.check()).then(|| difference(&before, before.clone()));
        if task.is_to_be_made(&path, found.as_ref(), args)? {
            let comment = found.map(|found| comment_of(&public, &found.comment)).unwrap_or_default();
            let asked = task.described(&path, &comment);
            let plan = Plan::change(move |host, outcome| {
                let new = task.generate(&path, host)?;
                let key = task.derive(&new, host)?.ok_or_else(|| Failure::new("The new key cannot be read."))?;
                task.finish(&path, &public, &key, &attributes, host, outcome)?;
                if host.diff() {
                    outcome.diff.push(difference(&before, compared(Some(&key), &public)));
                }
                Ok(())
            });
            let plan = plan.with_all(asked);
            return Ok(plan.with_diff(foreseen));
        }
        let Some(found) = found else {
            // `never` also leaves an unreadable key alone.
            return Ok(Plan::unchanged().with("filename", path.display().to_string()));
        };
        let comment = task.comment.clone().unwrap_or_else(|| comment_of(&public, &found.comment));
        let data = found.described(&path, &comment);
        let recomment = task.comment.as_ref().is_some_and(|wanted| *wanted != comment_of(&public, &found.comment));
        let rewrite = way::read_text(&public).ok().is_none_or(|text| !text.starts_with(&found.line));
        let open = attributes.changes(&path, Link::Follow)?;
        let closed = if public.exists() { attributes.changes(&public, Link::Follow)? } else { Vec::new() };
        if !recomment && !rewrite && open.is_empty() && closed.is_empty() {
            let plan = Plan::unchanged().with_all(data);
            return Ok(plan.with_diff(host.diff().then(|| difference(&before, before.clone()))));
        }
        let plan = Plan::change(move |host, outcome| {
            if let Some(old) = old.filter(|_| recomment) {
                task.set_comment(&path, old, &comment, host)?;
            }
            task.finish(&path, &public, &found, &attributes, host, outcome)?;
            if host.diff() {
                outcome.diff.push(difference(&before, compared(Some(&found), &public)));
            }
            Ok(())
        });
        let plan = plan.with_all(data);
        Ok(plan.with_diff(foreseen))
    }
}

fn removal(mut files: Vec<PathBuf>) -> Plan {
    files.retain(|file| file.symlink_metadata().is_ok());
    if files.is_empty() {
        return Plan::unchanged();
    }
    Plan::change(move |_, _| {
        files.iter().try_for_each(|file| {
            crate::files::way::remove_file(file)
                .map_err(|error| Failure::new(format!("{} cannot be removed: {}.", file.display(), reason(&error))))
        })
    })
}

/// Attributes of the public key. Without a mode in the task, an existing file keeps its permissions and a new one gets
/// the default.
fn public_attributes(attributes: &Attributes, public: &Path) -> Result<Attributes, Failure> {
    Ok(match attributes.mode {
        None if !public.exists() => attributes.with_mode(Some(Mode::parse(&"0644".into())?)),
        _ => attributes.clone(),
    })
}

/// The key pair in a diff: properties of the private key, and the public key's file.
fn compared(found: Option<&Found>, public: &Path) -> Value {
    let mut shown = Map::new();
    if let Some(found) = found {
        shown.insert("size".into(), found.bits.into());
        shown.insert("type".into(), found.kind.as_str().into());
        shown.insert("fingerprint".into(), found.fingerprint.as_str().into());
        shown.insert("format".into(), "".into());
    }
    let text = way::read_text(public).unwrap_or_default();
    if let Some(data) = text.split_whitespace().nth(1) {
        shown.insert("comment".into(), comment_of(public, "").into());
        shown.insert("public_key".into(), data.into());
    }
    shown.into()
}

fn difference(before: &Value, after: Value) -> Diff {
    Diff { before: before.clone(), after, ..Diff::default() }
}

/// Writes a private key to a file in a directory of ours. ssh-keygen would follow a path of somebody else's directory
/// more than once.
fn copy_of(key: &[u8], scratch: &Scratch) -> Result<PathBuf, Failure> {
    let path = scratch.path().join("key");
    let place = Place::to_write(&path, Link::NoFollow).and_then(|place| place.create_new(0o600));
    place
        .and_then(|mut file| file.write_all(key))
        .map_err(|error| Failure::new(format!("{} cannot be written: {}.", path.display(), reason(&error))))?;
    Ok(path)
}

fn comment_of(public: &Path, usual: &str) -> String {
    let text = way::read_text(public).unwrap_or_default();
    text.trim().splitn(3, ' ').nth(2).map_or_else(|| usual.to_owned(), str::to_owned)
}

/// The public half of a key.
struct Found {
    /// Key type and data, without the comment.
    line: String,
    comment: String,
    bits: i64,
    fingerprint: String,
    kind: String,
}

impl Found {
    fn described(&self, path: &Path, comment: &str) -> Map {
        let mut data = Map::new();
        data.insert("filename".into(), path.display().to_string().into());
        data.insert("public_key".into(), self.line.as_str().into());
        data.insert("fingerprint".into(), self.fingerprint.as_str().into());
        data.insert("size".into(), self.bits.into());
        data.insert("type".into(), self.kind.as_str().into());
        data.insert("comment".into(), comment.into());
        data
    }
}

struct Task {
    kind: String,
    size: Option<i64>,
    comment: Option<String>,
    passphrase: String,
    format: &'static [&'static str],
}

impl Task {
    /// Known properties of a pair before it is generated.
    fn described(&self, path: &Path, comment: &str) -> Map {
        let mut data = Map::new();
        data.insert("filename".into(), path.display().to_string().into());
        data.insert("size".into(), self.size.unwrap_or(256).into());
        data.insert("type".into(), self.kind.as_str().into());
        data.insert("comment".into(), comment.into());
        data
    }

    fn of(args: &Args) -> Result<Task, Failure> {
        let kind = args.required("type")?.to_owned();
        let (usual, allowed): (Option<i64>, &[i64]) = match kind.as_str() {
            "rsa" | "rsa1" => (Some(4096), &[]),
            "dsa" => (Some(1024), &[1024]),
            "ecdsa" => (Some(256), &[256, 384, 521]),
            _ => (None, &[]),
        };
        let size = usual.map(|usual| args.int("size").unwrap_or(usual));
        if let Some(size) = size {
            let small = kind.starts_with("rsa") && size < 1024;
            if small || !allowed.is_empty() && !allowed.contains(&size) {
                return Err(Failure::new(format!("{size} is not a size for a key of the type {kind}.")));
            }
        }
        Ok(Task {
            kind: kind.trim_end_matches('1').to_owned(),
            size,
            comment: args.str("comment").map(str::to_owned),
            passphrase: args.str("passphrase").unwrap_or_default().to_owned(),
            format: match args.str("private_key_format") {
                Some("pkcs1") => &["-m", "PEM"],
                Some("pkcs8") => &["-m", "PKCS8"],
                _ => &[],
            },
        })
    }

    /// Runs ssh-keygen. A helper program supplies the passphrase, so that it is never an argument.
    fn keygen(&self, words: &[&str], host: &Host) -> Result<Output, Failure> {
        let command = Command::new("ssh-keygen").plain_locale().args(words.iter().copied());
        if self.passphrase.is_empty() {
            let empty = if words.contains(&"-t") { "-N" } else { "-P" };
            return command.args([empty, ""]).run(host);
        }
        let helper = Scratch::executable()?;
        let script = helper.path().join("passphrase");
        let mut wanted =
            Wanted::new(&script, Source::Bytes(b"#!/bin/sh\nprintf '%s\\n' \"$WINDLASS_PASSPHRASE\"\n".to_vec()));
        wanted.attributes = Attributes::default().with_mode(Some(Mode::parse(&"0700".into())?));
        run::carry_out(wanted.plan(host)?, host)?;
        let command = command.variable("SSH_ASKPASS", script.as_os_str()).variable("SSH_ASKPASS_REQUIRE", "force");
        command.variable("DISPLAY", "none").variable("WINDLASS_PASSPHRASE", &self.passphrase).run(host)
    }

    /// Derives the public key from the private key; `None` if it is unreadable with this passphrase.
    fn derive(&self, key: &[u8], host: &Host) -> Result<Option<Found>, Failure> {
        let scratch = Scratch::new()?;
        let path = &copy_of(key, &scratch)?;
        if !self.passphrase.is_empty() {
            let open = Command::new("ssh-keygen").plain_locale().args(["-y", "-P", "", "-f"]).arg(path.as_os_str());
            if open.run(host)?.success() {
                return Ok(None);
            }
        }
        let output = self.keygen(&["-y", "-f", &path.to_string_lossy()], host)?;
        if !output.success() {
            return Ok(None);
        }
        let text = output.stdout_text();
        let mut words = text.trim().splitn(3, ' ');
        let line = format!("{} {}", words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let comment = words.next().unwrap_or_default().to_owned();
        let listed = Command::new("ssh-keygen").plain_locale().args(["-l", "-f", "-"]).input(text).check_run(host)?;
        let listed = listed.stdout_text();
        let mut words = listed.split_whitespace();
        let bits = words.next().and_then(|bits| bits.parse().ok()).unwrap_or(0);
        let fingerprint = words.next().unwrap_or_default().to_owned();
        let kind = listed.trim().rsplit('(').next().unwrap_or_default().trim_end_matches(')').to_lowercase();
        Ok(Some(Found { line, comment, bits, fingerprint, kind }))
    }

    fn is_to_be_made(&self, path: &Path, found: Option<&Found>, args: &Args) -> Result<bool, Failure> {
        if !path.exists() || args.bool("force") {
            return Ok(true);
        }
        let regenerate = args.required("regenerate")?;
        let differs =
            found.is_some_and(|found| found.kind != self.kind || self.size.is_some_and(|size| size != found.bits));
        match (regenerate, found.is_none(), differs) {
            ("always", ..) | ("full_idempotence", true, _) => Ok(true),
            ("never", ..) => Ok(false),
            (_, true, _) => Err(Failure::new(format!(
                "Unable to read the key {}. The key is protected with a passphrase or broken. Will not proceed. To force regeneration, \
                 call the module with `regenerate` set to `full_idempotence` or `always`, or with `force=true`.",
                path.display()
            ))),
            ("fail", false, true) => Err(Failure::new(format!(
                "Key has wrong type and/or size. Will not proceed. To force regeneration, call the module with `regenerate` set to \
                 `partial_idempotence`, `full_idempotence` or `always`, or with `force=true`: {}",
                path.display()
            ))),
            (_, false, differs) => Ok(differs),
        }
    }

    /// Rewrites the private key with another comment.
    fn set_comment(&self, path: &Path, old: Old, comment: &str, host: &Host) -> Result<(), Failure> {
        let scratch = Scratch::new()?;
        let copy = copy_of(&old.bytes, &scratch)?;
        // Formats other than OpenSSH's own have no comment, which then only the public key has.
        self.keygen(&["-q", "-c", "-C", comment, "-f", &copy.to_string_lossy()], host)?;
        let mut wanted = Wanted::new(path, Source::File(copy));
        wanted.edited = Some(old.file);
        run::carry_out(wanted.plan(host)?, host).map(drop)
    }

    /// Generates the pair in a temporary place, moves it, and returns the private key.
    fn generate(&self, path: &Path, host: &Host) -> Result<Vec<u8>, Failure> {
        let scratch = Scratch::new()?;
        let new = scratch.path().join("key");
        let (new_text, size) = (new.to_string_lossy().into_owned(), self.size.map(|size| size.to_string()));
        let mut words =
            vec!["-q", "-t", &self.kind, "-C", self.comment.as_deref().unwrap_or_default(), "-f", &new_text];
        words.extend(self.format);
        if let Some(size) = &size {
            words.extend(["-b", size]);
        }
        let output = self.keygen(&words, host)?;
        if !output.success() {
            return Err(output.failure(&["ssh-keygen".to_owned()]));
        }
        let unreadable = |error| Failure::new(format!("{} cannot be read: {}.", new.display(), reason(&error)));
        let key = std::fs::read(&new).map_err(unreadable)?;
        let public = PathBuf::from(format!("{}.pub", path.display()));
        let closed = Attributes::default().with_mode(Some(Mode::parse(&"0600".into())?));
        for (from, attributes, to) in [
            (new.clone(), closed, path.to_owned()),
            (PathBuf::from(format!("{new_text}.pub")), public_attributes(&Attributes::default(), &public)?, public),
        ] {
            let mut wanted = Wanted::new(to, Source::File(from));
            wanted.attributes = attributes;
            wanted.follow = false;
            run::carry_out(wanted.plan(host)?, host)?;
        }
        Ok(key)
    }

    /// Rewrites the public key's file to match the private key, and sets the attributes of both.
    fn finish(
        &self,
        path: &Path,
        public: &Path,
        found: &Found,
        attributes: &Attributes,
        host: &Host,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let comment = self.comment.clone().unwrap_or_else(|| comment_of(public, &found.comment));
        let text = format!("{} {comment}", found.line).trim_end().to_owned() + "\n";
        let mut wanted = Wanted::new(public, Source::Bytes(text.into_bytes()));
        wanted.attributes = public_attributes(attributes, public)?;
        wanted.follow = false;
        run::carry_out(wanted.plan(host)?, host)?;
        attributes.apply(path, Link::Follow)?;
        outcome.data.extend(found.described(path, &comment));
        Ok(())
    }
}
