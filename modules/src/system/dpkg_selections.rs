//! `dpkg_selections`: what dpkg is to do with a package.

use crate::{Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, process::Command};

/// The `dpkg_selections` module.
pub struct DpkgSelections;

static SPEC: Spec = Spec {
    name: "dpkg_selections",
    summary: "Set what dpkg is to do with a package",
    description: &[
        "`hold` keeps a package at its version. Nothing is installed or removed; that is done by the next `apt-get dselect-upgrade`.",
        "A package that dpkg has never heard of is an error: install it first, or let `dpkg` read the list of available packages.",
    ],
    options: &[
        Opt::required("name", Kind::Str, "The package.").line(),
        Opt::required("selection", Kind::Str, "What dpkg is to do with it.").choices(&[
            "install",
            "hold",
            "deinstall",
            "purge",
        ]),
    ],
    examples: "- name: Keep the kubelet at its version\n  ansible.builtin.dpkg_selections:\n    name: kubelet\n    selection: hold\n",
    returns: &[
        Return { name: "before", kind: "str", when: "always", doc: "The selection before." },
        Return { name: "after", kind: "str", when: "always", doc: "The selection after." },
    ],
    ..Spec::EMPTY
};

impl Module for DpkgSelections {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let name = args.required("name")?.to_owned();
        let selection = args.required("selection")?.to_owned();
        let output = Command::new("dpkg").plain_locale().args(["--get-selections", &name]).check_run(host)?;
        let text = output.stdout_text();
        let found = text.split_whitespace().nth(1).map(str::to_owned);
        let Some(current) = found else {
            return Err(Failure::new(format!(
                "Failed to find package '{name}' to perform selection '{selection}': dpkg does not know it."
            )));
        };
        let plan = if current == selection {
            Plan::unchanged()
        } else {
            let line = format!("{name} {selection}");
            Plan::change(move |host, _| {
                Command::new("dpkg").plain_locale().arg("--set-selections").input(line).check_run(host).map(|_| ())
            })
        };
        Ok(plan.with("before", current).with("after", selection))
    }
}
