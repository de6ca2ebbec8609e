//! Lookups: `lookup('name', term, ...)`, `query('name', term, ...)` and `with_name: terms`.

mod call;
mod config;
pub(crate) mod files;
mod key_value;
mod loops;
mod password;
mod process;
mod structured;
mod template;
mod url;
mod variables;

use crate::registry::Lookup;
use call::Entry;

/// Lookups that only depend on their arguments and variables. All others read data that may change between calls.
const COMPUTED: &[&str] = &[
    "cartesian",
    "dict",
    "flattened",
    "indexed_items",
    "inventory_hostnames",
    "items",
    "list",
    "nested",
    "random_choice",
    "sequence",
    "subelements",
    "together",
    "vars",
];

/// Whether a lookup, by its full or plain name, reads anything but variables.
pub(crate) fn reads_outside(name: &str) -> bool {
    !COMPUTED.contains(&name.strip_prefix("ansible.builtin.").unwrap_or(name))
}

/// Lookups that run programs, send requests or write files.
const ACTIVE: &[&str] = &["lines", "password", "pipe", "url"];

/// Whether a lookup, by its full or plain name, does more than read.
pub(crate) fn is_active(name: &str) -> bool {
    ACTIVE.contains(&name.rsplit('.').next().unwrap_or(name))
}

/// All lookups. A name without a dot is also reachable as `ansible.builtin.name`.
pub const LOOKUPS: &[&dyn Lookup] = &[
    // Ansible's.
    &Entry { names: &["config"], run: config::config },
    &Entry { names: &["csvfile"], run: structured::csvfile },
    &Entry { names: &["dict"], run: loops::dict },
    &Entry { names: &["env"], run: process::env },
    &Entry { names: &["file"], run: files::file },
    &Entry { names: &["fileglob"], run: files::fileglob },
    &Entry { names: &["first_found"], run: files::first_found },
    &Entry { names: &["indexed_items"], run: loops::indexed_items },
    &Entry { names: &["ini"], run: structured::ini },
    &Entry { names: &["inventory_hostnames"], run: variables::inventory_hostnames },
    &Entry { names: &["items"], run: loops::items },
    &Entry { names: &["lines"], run: process::lines },
    &Entry { names: &["list"], run: loops::list },
    &Entry { names: &["nested"], run: loops::nested },
    &Entry { names: &["password"], run: password::password },
    &Entry { names: &["pipe"], run: process::pipe },
    &Entry { names: &["random_choice"], run: loops::random_choice },
    &Entry { names: &["sequence"], run: loops::sequence },
    &Entry { names: &["subelements"], run: loops::subelements },
    &Entry { names: &["template"], run: template::template },
    &Entry { names: &["together"], run: loops::together },
    &Entry { names: &["unvault"], run: files::unvault },
    &Entry { names: &["url"], run: url::url },
    &Entry { names: &["varnames"], run: variables::varnames },
    &Entry { names: &["vars"], run: variables::vars },
    // community.general; older playbooks use the plain names.
    &Entry { names: &["community.general.cartesian", "cartesian"], run: loops::cartesian },
    &Entry { names: &["community.general.filetree", "filetree"], run: files::filetree },
    &Entry { names: &["community.general.flattened", "flattened"], run: loops::flattened },
    &Entry { names: &["community.general.merge_variables"], run: variables::merge_variables },
    &Entry { names: &["community.general.random_string"], run: password::random_string },
];
