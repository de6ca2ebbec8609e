//! `slurp`: returns the content of a small file.

use std::{
    io::{ErrorKind, Read as _},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};

use super::way;
use crate::{Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, process::reason};

/// The `slurp` module.
pub struct Slurp;

static SPEC: Spec = Spec {
    name: "slurp",
    summary: "Read a file into the result",
    description: &[
        "Returns the content in base64, which preserves any bytes; decode text with `b64decode`. For large files, \
         use `fetch`.",
    ],
    options: &[Opt::required("src", Kind::Path, "Path of the file.").aliases(&["path"])],
    examples: "- name: Read the host key\n  ansible.builtin.slurp:\n    src: /etc/ssh/ssh_host_ed25519_key.pub\n  register: key\n\n\
               - name: Show it\n  ansible.builtin.debug:\n    msg: \"{{ key.content | b64decode }}\"\n",
    returns: &[
        Return { name: "content", kind: "str", when: "success", doc: "Content in base64." },
        Return { name: "encoding", kind: "str", when: "success", doc: "Always `base64`." },
        Return { name: "source", kind: "str", when: "success", doc: "Path of the file." },
    ],
    ..Spec::EMPTY
}
.compiled();

/// Larger files would not fit into a result.
const MAX_SIZE: u64 = 32 << 20;

impl Module for Slurp {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, _host: &Host) -> Result<Plan, Failure> {
        let source = args.required("src")?;
        let size = std::fs::metadata(source).map_or(0, |found| found.len());
        let too_many = |size: &str| Failure::new(format!("{source} has {size} bytes, too many for slurp; use fetch."));
        if size > MAX_SIZE {
            return Err(too_many(&size.to_string()));
        }
        // A special file has no size and may never end.
        let mut bytes = Vec::new();
        let read = way::open(Path::new(source)).and_then(|file| file.take(MAX_SIZE + 1).read_to_end(&mut bytes));
        read.map_err(|error| {
            Failure::new(match error.kind() {
                ErrorKind::NotFound => format!("File not found: {source}"),
                ErrorKind::PermissionDenied if error.raw_os_error().is_some() => {
                    format!("file is not readable: {source}")
                }
                ErrorKind::IsADirectory => format!("Source is a directory and must be a file: {source}"),
                _ => format!("unable to slurp file: {source}: {}.", reason(&error)),
            })
        })?;
        if bytes.len() as u64 > MAX_SIZE {
            return Err(too_many(&format!("more than {MAX_SIZE}")));
        }
        Ok(Plan::unchanged().with("content", STANDARD.encode(bytes)).with("source", source).with("encoding", "base64"))
    }
}
