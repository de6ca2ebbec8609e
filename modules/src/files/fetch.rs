//! `fetch`: sends a file to the controller, which alone decides where to store it.

use std::{
    io::{ErrorKind, Read, Seek},
    path::Path,
};

use super::{
    checksum::{self, Hasher},
    way,
};
use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, process::reason};

/// The `fetch` module.
pub struct Fetch;

/// Specification of `fetch`.
pub static SPEC: Spec = Spec {
    name: "fetch",
    summary: "Copy a file from a host to the control machine",
    description: &[
        "Stores the file below `dest`, in a directory with the host's name and the file's path, unless `flat` is \
         set. A file with the same content is not transferred again.",
    ],
    options: &[
        Opt::required("src", Kind::Path, "Path of the file on the host."),
        Opt::new("dest", Kind::Str, "Directory on the control machine."),
        Opt::new("fail_on_missing", Kind::Bool, "Fail if the file is missing or unreadable.").default("true"),
        Opt::new(
            "flat",
            Kind::Bool,
            "Store the file as `dest` itself, or under its own name in `dest` if that ends with `/`.",
        )
        .default("false"),
        Opt::new("validate_checksum", Kind::Bool, "Compare checksums after the transfer.").default("true"),
        Opt::new("_checksum", Kind::Str, "SHA-1 checksum of the controller's copy."),
    ],
    examples: "- name: Collect the logs\n  ansible.builtin.fetch:\n    src: /var/log/app.log\n    dest: logs/\n",
    returns: &[
        Return { name: "checksum", kind: "str", when: "success", doc: "SHA-1 checksum of the file." },
        Return { name: "size", kind: "int", when: "success", doc: "Size of the file in bytes." },
        Return { name: "src", kind: "str", when: "always", doc: "Path of the file on the host." },
    ],
    missing: Some("src and dest are required"),
    // The controller skips the task in check mode.
    check: Check::None,
    ..Spec::EMPTY
}
.compiled();

/// Bytes of a file in one piece.
const PIECE: usize = 256 << 10;

impl Module for Fetch {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let src = args.required("src")?.to_owned();
        let missing = |text: String| {
            if args.bool("fail_on_missing") {
                return Err(Failure::new(text).with("file", src.as_str()));
            }
            Ok(Plan::unchanged().with("file", src.as_str()).with("msg", format!("{text}, not transferring, ignored")))
        };
        // Every part of the work reads the file that is opened here.
        let file = way::open(Path::new(&src)).and_then(|file| Ok((file.metadata()?, file)));
        let (found, mut file) = match file {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return missing("the remote file does not exist".to_owned());
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_some() => {
                return missing("the remote file is not readable".to_owned());
            }
            Err(error) => return missing(format!("the remote file cannot be read: {}", reason(&error))),
        };
        if found.is_dir() {
            return missing("remote file is a directory, fetch cannot work on directories".to_owned());
        }
        let plan = |plan: Plan| plan.with("src", src.as_str()).with("file", src.as_str()).with("size", found.len());
        if let Some(known) = args.str("_checksum") {
            let sum = checksum::of_reader(Hasher::sha1(), &mut file, host)
                .map_err(|error| Failure::new(format!("{src} could not be read: {}.", reason(&error))))?;
            if sum == known {
                return Ok(plan(Plan::unchanged()).with("checksum", sum));
            }
        }
        let path = src.clone();
        Ok(plan(Plan::change(move |host, outcome| {
            // The checksum covers the sent bytes, even if the file changes meanwhile.
            let refuse = |error: std::io::Error| Failure::new(format!("{path} could not be read: {}.", reason(&error)));
            file.rewind().map_err(refuse)?;
            let mut hasher = Hasher::sha1();
            let mut buffer = vec![0; PIECE];
            let mut size = 0;
            loop {
                host.check_cancelled()?;
                match file.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => {
                        let bytes = buffer.get(..count).unwrap_or_default();
                        hasher.update(bytes);
                        host.send_file_data(bytes);
                        size += count as u64;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(refuse(error)),
                }
            }
            outcome.set("checksum", hasher.finish());
            outcome.set("size", size);
            Ok(())
        })))
    }
}
