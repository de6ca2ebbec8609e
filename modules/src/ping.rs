//! `ping`: tests the connection to a host, and that modules can run there.

use crate::{Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec};

/// The `ping` module.
pub struct Ping;

static SPEC: Spec = Spec {
    name: "ping",
    summary: "Test the connection to a host",
    description: &["Returns `pong`. Unlike ICMP ping, it tests the login and the execution of modules."],
    options: &[Opt::new("data", Kind::Str, "Value to return; `crash` makes the module fail.").default("\"pong\"")],
    examples: "- name: Is everyone there?\n  ansible.builtin.ping:\n",
    returns: &[Return { name: "ping", kind: "str", when: "success", doc: "Value of `data`." }],
    ..Spec::EMPTY
}
.compiled();

impl Module for Ping {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, _host: &Host) -> Result<Plan, Failure> {
        match args.str("data") {
            // Like a Python module that raises an exception.
            Some("crash") => Err(Failure::new("boom")
                .with("module_stdout", "")
                .with("module_stderr", "Exception: boom\n")
                .with("exception", "Exception: boom\n")
                .with("rc", 1)),
            data => Ok(Plan::unchanged().with("ping", data.unwrap_or("pong"))),
        }
    }
}
