//! `fetch`: a file for the controller. Where it is kept there is the controller's affair alone.

use std::{
    fs::File,
    io::{ErrorKind, Read},
    path::Path,
};

use super::checksum::{self, Hasher};
use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, process::reason};

/// The `fetch` module.
pub struct Fetch;

/// What it takes and returns.
pub static SPEC: Spec = Spec {
    name: "fetch",
    summary: "Bring a file of a host to the control machine",
    description: &[
        "The file is kept below `dest`, in a directory named after the host and its path there, unless `flat` is set. A file that is there \
         already with the same content does not travel again.",
    ],
    options: &[
        Opt::required("src", Kind::Path, "The file on the host."),
        Opt::new("dest", Kind::Str, "The directory on the control machine."),
        Opt::new("fail_on_missing", Kind::Bool, "A file that is missing or unreadable is a failure.").default("true"),
        Opt::new(
            "flat",
            Kind::Bool,
            "Keep the file at `dest` itself, or below it under its own name if `dest` ends with `/`.",
        )
        .default("false"),
        Opt::new("validate_checksum", Kind::Bool, "Compare the checksums after the transfer.").default("true"),
        Opt::new("_checksum", Kind::Str, "The SHA-1 of the file that the controller has."),
    ],
    examples: "- name: Collect the logs\n  ansible.builtin.fetch:\n    src: /var/log/app.log\n    dest: logs/\n",
    returns: &[
        Return { name: "checksum", kind: "str", when: "success", doc: "The SHA-1 of the file." },
        Return { name: "size", kind: "int", when: "success", doc: "Its size in bytes." },
        Return { name: "src", kind: "str", when: "always", doc: "The file on the host." },
    ],
    missing: Some("src and dest are required"),
    // The controller skips it.
    check: Check::None,
    ..Spec::EMPTY
};

/// How much of a file travels in one piece.
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
        let file = File::open(&src).and_then(|file| Ok((file.metadata()?, file)));
        let (found, _) = match file {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return missing("the remote file does not exist".to_owned());
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return missing("the remote file is not readable".to_owned());
            }
            Err(error) => return missing(format!("the remote file cannot be read: {}", reason(&error))),
        };
        if found.is_dir() {
            return missing("remote file is a directory, fetch cannot work on directories".to_owned());
        }
        let plan = |plan: Plan| plan.with("src", src.as_str()).with("file", src.as_str()).with("size", found.len());
        if let Some(known) = args.str("_checksum") {
            let sum = checksum::of_file(Hasher::sha1(), Path::new(&src), host)?;
            if sum == known {
                return Ok(plan(Plan::unchanged()).with("checksum", sum));
            }
        }
        let path = src.clone();
        Ok(plan(Plan::change(move |host, outcome| {
            // The checksum is of what was sent, even if the file is being written right now.
            let refuse = |error: std::io::Error| Failure::new(format!("{path} could not be read: {}.", reason(&error)));
            let mut file = File::open(&path).map_err(refuse)?;
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
