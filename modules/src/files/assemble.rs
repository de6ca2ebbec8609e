//! `assemble`: joins fragments on the host into one file.
//!
//! The controller itself joins fragments of the project, and sends the result like `copy`.

use std::path::{Path, PathBuf};

use windlass_python_regex::{Flags, compile};

use super::{
    attributes::Attributes,
    checksum::{Hasher, of_bytes},
    way,
    write::{BACKUP, Source, VALIDATE, Wanted},
};
use crate::{Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, process::reason, with_attributes};

/// The `assemble` module.
pub struct Assemble;

/// Specification of `assemble`.
pub static SPEC: Spec = Spec {
    name: "assemble",
    summary: "Assemble a file from fragments",
    description: &["Joins all files of a directory into one file, in the order of their names."],
    options: with_attributes![
        Opt::required("src", Kind::Path, "Directory that contains the fragments."),
        Opt::required("dest", Kind::Path, "Path of the file to write."),
        Opt::new("delimiter", Kind::Str, "Text between fragments, with escapes such as `\\n`."),
        BACKUP,
        Opt::new("remote_src", Kind::Bool, "Take `src` from the host instead of the project.").default("true"),
        Opt::new("regexp", Kind::Str, "Regular expression that file names must match."),
        Opt::new("ignore_hidden", Kind::Bool, "Skip files whose name begins with a dot.").default("false"),
        VALIDATE,
        Opt::new("decrypt", Kind::Bool, "Decrypt fragments of the project that are encrypted with vault.")
            .default("true"),
    ],
    examples: "- name: The configuration from its parts\n  ansible.builtin.assemble:\n    src: /etc/app/conf.d\n    dest: /etc/app/app.conf\n    \
               regexp: '\\.conf$'\n    validate: app --check %s\n",
    returns: &[
        Return { name: "src", kind: "str", when: "success", doc: "Directory that contains the fragments." },
        Return { name: "dest", kind: "str", when: "success", doc: "Path of the file." },
        Return { name: "checksum", kind: "str", when: "success", doc: "SHA-1 checksum of the file." },
        Return { name: "md5sum", kind: "str", when: "success", doc: "MD5 checksum of the file." },
        Return { name: "msg", kind: "str", when: "success", doc: "Always `OK`." },
        Return {
            name: "backup_file",
            kind: "str",
            when: "a backup was made",
            doc: "Path of the backup of the old file.",
        },
    ],
    missing: Some("src and dest are required"),
    ..Spec::EMPTY
}
.compiled();

impl Module for Assemble {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let (src, dest) = (args.required("src")?, args.required("dest")?);
        let bytes = assembled(Path::new(src), args, host)?;
        let md5 = of_bytes(Hasher::Md5(Default::default()), &bytes);
        let wanted = Wanted {
            source_name: src.to_owned(),
            attributes: Attributes::of(args, host)?,
            backup: args.bool("backup"),
            validate: args.str("validate").map(str::to_owned),
            ..Wanted::new(dest, Source::Bytes(bytes))
        };
        let plan = wanted.plan(host)?;
        Ok(plan.with("src", src).with("dest", dest).with("md5sum", md5).with("msg", "OK"))
    }
}

fn assembled(src: &Path, args: &Args, host: &Host) -> Result<Vec<u8>, Failure> {
    let shown = src.display();
    if !src.is_dir() {
        let what = if src.exists() { "is not a directory" } else { "does not exist" };
        return Err(Failure::new(format!("Source ({shown}) {what}")));
    }
    let pattern = args.str("regexp").map(|text| compile(text, Flags::default()));
    let pattern = pattern.transpose().map_err(|message| Failure::new(format!("Invalid Regexp: {message}.")))?;
    let unreadable = |path: &Path, error: &std::io::Error| {
        Failure::new(format!("The fragment {} could not be read: {}.", path.display(), reason(error)))
    };
    let entries = std::fs::read_dir(src)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>, _>>());
    let mut paths = Vec::new();
    for path in entries.map_err(|error| unreadable(src, &error))? {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let hidden = args.bool("ignore_hidden") && name.starts_with('.');
        let chosen = match &pattern {
            Some(pattern) => pattern.is_match(&name)?,
            None => true,
        };
        if chosen && !hidden && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    let fragments = paths.iter().map(|path| {
        host.check_cancelled()?;
        way::read(path).map_err(|error| unreadable(path, &error))
    });
    joined(fragments, args.str("delimiter"))
}

/// Joins fragments. Each starts on a new line, with the delimiter before it except for the first.
pub fn joined<E>(fragments: impl Iterator<Item = Result<Vec<u8>, E>>, delimiter: Option<&str>) -> Result<Vec<u8>, E> {
    let delimiter = delimiter.map(unescaped).filter(|delimiter| !delimiter.is_empty());
    let mut bytes: Vec<u8> = Vec::new();
    for (index, fragment) in fragments.enumerate() {
        let fragment = fragment?;
        if index > 0 {
            end_line(&mut bytes);
            if let Some(delimiter) = &delimiter {
                bytes.extend(delimiter.as_bytes());
                end_line(&mut bytes);
            }
        }
        bytes.extend(fragment);
    }
    Ok(bytes)
}

fn end_line(bytes: &mut Vec<u8>) {
    if bytes.last() != Some(&b'\n') {
        bytes.push(b'\n');
    }
}

/// Resolves the escapes of newline, tab, carriage return and backslash.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match rest.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('\\') | None => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
        }
    }
    out
}
