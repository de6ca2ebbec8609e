//! `dpkg_selections`: selection states of packages in dpkg.

use crate::{Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, process::Command};

/// The `dpkg_selections` module.
pub struct DpkgSelections;

static SPEC: Spec = Spec {
    name: "dpkg_selections",
    summary: "Set the dpkg selection state of a package",
    description: &[
        "`hold` keeps a package at its version. Nothing is installed or removed; the next `apt-get dselect-upgrade` \
         acts on the selections.",
        "Fails for a package that dpkg does not know: install it first, or update dpkg's list of available packages.",
    ],
    options: &[
        Opt::required("name", Kind::Str, "Name of the package.").line(),
        Opt::required("selection", Kind::Str, "Selection state to set.").choices(&[
            "install",
            "hold",
            "deinstall",
            "purge",
        ]),
    ],
    examples: "- name: Keep the kubelet at its version\n  ansible.builtin.dpkg_selections:\n    name: kubelet\n    selection: hold\n",
    returns: &[
        Return { name: "before", kind: "str", when: "always", doc: "Selection state before the task." },
        Return { name: "after", kind: "str", when: "always", doc: "Selection state after the task." },
    ],
    ..Spec::EMPTY
}
.compiled();

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
