//! `variables`: refuses inventory variables that the cluster's roles would ignore.
//!
//! The controller collects the settings of the inventory. A pure function judges them by the table of Kubespray's
//! variables and the names that the roles know.

mod judgement;
mod names;
mod table;

pub use judgement::{Given, Judgement, Setting};
pub use names::{Names, names_of_roles};
pub use table::Table;

use crate::{Kind, Opt, Return, Spec};

/// Specification of the action `variables`.
pub static SPEC: Spec = Spec {
    name: "variables",
    collection: "windlass.kubernetes",
    summary: "Refuse inventory variables that would have no effect",
    description: &[
        "Compares all variables from the inventory and `-e`, for any host, with a table of Kubespray's variables. \
         Fails if one of them is unsupported or has another name here, unless its value changes nothing.",
        "Fails for an unknown name that looks like a typing error of a known one. Other names belong to the user.",
        "Evaluates only values that matter for the decision, without lookups or templates that need a running play. \
         Runs on the control machine without connecting to hosts; one task with `run_once` judges all hosts.",
    ],
    options: &[
        Opt::required("table", Kind::Str, "File with the table, searched for in `files` of the role."),
        Opt::required(
            "roles",
            Kind::Str,
            "Folder of the roles. Variables in their `defaults` and argument specifications are supported regardless \
             of the table.",
        ),
        Opt::new("own", Kind::List(&Kind::Str), "Names of your own variables that resemble variables of the roles.")
            .default("[]"),
    ],
    examples: "- name: Check the variables that are set\n  windlass.kubernetes.variables:\n    table: kubespray-variables.yml\n    roles: \"{{ role_path | dirname }}\"\n  run_once: true\n",
    returns: &[
        Return { name: "refusals", kind: "list", when: "failure", doc: "A message for each refused variable." },
        Return {
            name: "not_needed",
            kind: "list",
            when: "always",
            doc: "Variables that are set although the roles do not need them.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();
