//! `variables`: refuses variables that an inventory sets and the cluster's roles would ignore.
//!
//! The controller collects the settings of the inventory. The judgement is a pure function of these, of the table of Kubespray's variables
//! and of the names that the roles know.

mod judgement;
mod names;
mod table;

pub use judgement::{Given, Judgement, Setting};
pub use names::{Names, names_of_roles};
pub use table::Table;

use crate::{Kind, Opt, Return, Spec};

/// The action `variables`.
pub static SPEC: Spec = Spec {
    name: "variables",
    collection: "windlass.kubernetes",
    summary: "Refuse variables of the inventory that would have no effect",
    description: &[
        "Compares all variables that the inventory and `-e` set, for any host, with a table of Kubespray's variables. It fails if one of them \
         is not supported or has another name here, unless its value changes nothing.",
        "A name that nobody knows fails too if it differs from a known one by a slip of the pen. Other names are the user's own.",
        "Only values that decide are evaluated, so templates that need a running play, and lookups, are left alone. The action runs on the \
         control machine and reaches for no host; one task with `run_once` judges all hosts.",
    ],
    options: &[
        Opt::required("table", Kind::Str, "The file with the table, looked for in `files` of the role."),
        Opt::required(
            "roles",
            Kind::Str,
            "The folder of the roles. Variables in their `defaults` and argument specifications are supported, whatever the table says.",
        ),
        Opt::new("own", Kind::List(&Kind::Str), "Your own variables that resemble one of the roles.").default("[]"),
    ],
    examples: "- name: Check the variables that are set\n  windlass.kubernetes.variables:\n    table: kubespray-variables.yml\n    roles: \"{{ role_path | dirname }}\"\n  run_once: true\n",
    returns: &[
        Return {
            name: "refusals",
            kind: "list",
            when: "failure",
            doc: "A sentence for each variable that is refused.",
        },
        Return {
            name: "not_needed",
            kind: "list",
            when: "always",
            doc: "Variables that are set and that the roles do not need.",
        },
    ],
    ..Spec::EMPTY
};
