//! `iptables`: rules, chains and policies of the packet filter.

mod rule;

use crate::{
    Args, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    process::{Command, Output},
};
use rule::Family;

/// The `iptables` module.
pub struct Iptables;

const TCP_FLAGS: &[Opt] = &[
    Opt::new("flags", Kind::List(&Kind::Str), "TCP flags to examine."),
    Opt::new("flags_set", Kind::List(&Kind::Str), "Examined flags that must be set."),
];

const LEVELS: &[&str] =
    &["0", "1", "2", "3", "4", "5", "6", "7", "emerg", "alert", "crit", "error", "warning", "notice", "info", "debug"];

static SPEC: Spec = Spec {
    name: "iptables",
    summary: "Manage iptables rules",
    description: &[
        "Adds and removes single rules with `iptables` and `ip6tables`, sets the policy of a chain, and creates, \
         flushes and deletes chains.",
        "Changes rules in memory only: a reboot discards them unless they are saved by other means.",
    ],
    options: &[
        Opt::new("table", Kind::Str, "Name of the table.")
            .default("\"filter\"")
            .choices(&["filter", "nat", "mangle", "raw", "security"]),
        Opt::new("state", Kind::Str, "`present` adds the rule, or the chain if no rule is given; `absent` removes it.")
            .default("\"present\"")
            .choices(&["absent", "present"]),
        Opt::new("action", Kind::Str, "`append` adds a new rule at the end of the chain, `insert` at the beginning.")
            .default("\"append\"")
            .choices(&["append", "insert"]),
        Opt::new("rule_num", Kind::Str, "Number to insert the rule at."),
        Opt::new("ip_version", Kind::Str, "IP version of the packets that the rule matches.")
            .default("\"ipv4\"")
            .choices(&["ipv4", "ipv6", "both"]),
        Opt::new("chain", Kind::Str, "Name of the chain, such as `INPUT`."),
        Opt::new(
            "protocol",
            Kind::Str,
            "Protocol to match. A leading `!` negates the match, as in most other options.",
        ),
        Opt::new("wait", Kind::Str, "Seconds to wait for the lock of the table."),
        Opt::new("source", Kind::Str, "Source address or network."),
        Opt::new("destination", Kind::Str, "Destination address or network."),
        Opt::new("tcp_flags", Kind::Dict, "TCP flags to match.").options(TCP_FLAGS),
        Opt::new("match", Kind::List(&Kind::Str), "Match extensions to load.").default("[]"),
        Opt::new("jump", Kind::Str, "Target of the rule, such as `ACCEPT`."),
        Opt::new("gateway", Kind::Str, "With the target TEE: host to send a copy to."),
        Opt::new("log_prefix", Kind::Str, "Prefix of log lines."),
        Opt::new("log_level", Kind::Str, "Level of log lines.").choices(LEVELS),
        Opt::new("goto", Kind::Str, "Chain to continue in, without returning."),
        Opt::new("in_interface", Kind::Str, "Interface that packets arrive on."),
        Opt::new("out_interface", Kind::Str, "Interface that packets leave by."),
        Opt::new("fragment", Kind::Str, "Match second and further fragments only."),
        Opt::new("set_counters", Kind::Str, "Initial packet and byte counters of the rule."),
        Opt::new("source_port", Kind::Str, "Source port or range `first:last`."),
        Opt::new("destination_port", Kind::Str, "Destination port or range `first:last`."),
        Opt::new("destination_ports", Kind::List(&Kind::Str), "Destination ports; needs a protocol with ports.")
            .default("[]"),
        Opt::new("to_ports", Kind::Str, "With the target REDIRECT: port or ports to redirect to."),
        Opt::new("to_destination", Kind::Str, "With the target DNAT: new destination."),
        Opt::new("to_source", Kind::Str, "With the target SNAT: new source."),
        Opt::new("syn", Kind::Str, "`match` selects packets that open a connection, `negate` all others.")
            .default("\"ignore\"")
            .choices(&["ignore", "match", "negate"]),
        Opt::new("set_dscp_mark_class", Kind::Str, "With the target DSCP: class to set."),
        Opt::new("set_dscp_mark", Kind::Str, "With the target DSCP: value to set."),
        Opt::new("comment", Kind::Str, "Comment of the rule."),
        Opt::new("ctstate", Kind::List(&Kind::Str), "Connection states to match, such as `NEW`.").default("[]"),
        Opt::new("src_range", Kind::Str, "Range of source addresses to match."),
        Opt::new("dst_range", Kind::Str, "Range of destination addresses to match."),
        Opt::new("match_set", Kind::Str, "Name of an ipset to match."),
        Opt::new("match_set_flags", Kind::Str, "With `match_set`: addresses to look up in the set.")
            .choices(&["src", "dst", "src,dst", "dst,src", "src,src", "dst,dst"]),
        Opt::new("limit", Kind::Str, "Maximum average rate of matches, such as `3/minute`."),
        Opt::new("limit_burst", Kind::Str, "Number of packets to match before `limit` applies."),
        Opt::new("uid_owner", Kind::Str, "User whose process sent the packet."),
        Opt::new("gid_owner", Kind::Str, "Group of the process that sent the packet."),
        Opt::new("reject_with", Kind::Str, "With the target REJECT: error to send back."),
        Opt::new("icmp_type", Kind::Str, "ICMP type to match."),
        Opt::new("flush", Kind::Bool, "Remove all rules of the chain, or of the table.").default("false"),
        Opt::new("policy", Kind::Str, "Policy of the chain for packets that no rule matches.")
            .choices(&["ACCEPT", "DROP", "QUEUE", "RETURN"]),
        Opt::new("chain_management", Kind::Bool, "Create and delete the chain itself, if no rule is given.")
            .default("false"),
        Opt::new("numeric", Kind::Bool, "Do not resolve host names when listing a chain.").default("false"),
    ],
    mutually_exclusive: &[&["set_dscp_mark", "set_dscp_mark_class"], &["flush", "policy"]],
    required_by: &[("set_dscp_mark", &["jump"]), ("set_dscp_mark_class", &["jump"])],
    required_if: &[("jump", "TEE", &["gateway"]), ("jump", "tee", &["gateway"]), ("flush", "False", &["chain"])],
    examples: "- name: Let SSH in\n  ansible.builtin.iptables:\n    chain: INPUT\n    protocol: tcp\n    destination_port: 22\n    ctstate: [NEW]\n    \
               jump: ACCEPT\n    comment: Accept new connections of SSH\n",
    returns: &[
        Return { name: "rule", kind: "str", when: "always", doc: "Rule as iptables arguments." },
        Return { name: "chain", kind: "str", when: "always", doc: "Name of the chain." },
        Return { name: "table", kind: "str", when: "always", doc: "Name of the table." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Iptables {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let version = args.str("ip_version").unwrap_or("ipv4");
        let shown = rule::words(args, args.str("jump"), Family::of(version)).join(" ");
        let logs = ["log_prefix", "log_level"].iter().any(|name| args.filled(name).is_some());
        let jump = match args.str("jump") {
            None if logs => Some("LOG"),
            Some(other) if logs && other != "LOG" => {
                return Err(Failure::new("Logging options can only be used with the LOG jump target."));
            }
            jump => jump,
        };
        let families = match version {
            "ipv6" => vec![Family::V6],
            "both" => vec![Family::V4, Family::V6],
            _ => vec![Family::V4],
        };
        let plans = families.into_iter().map(|family| {
            let table = Table {
                family,
                table: args.str("table").unwrap_or("filter").to_owned(),
                chain: args.str("chain").map(str::to_owned),
                numeric: args.bool("numeric"),
                wait: args.filled("wait").map(str::to_owned),
            };
            table.plan(args, rule::words(args, jump, family), shown.is_empty(), host)
        });
        let plan = Plan::sequence(plans.collect::<Result<_, _>>()?);
        let mut data = Map::new();
        data.insert("ip_version".into(), version.into());
        for name in ["table", "chain", "flush", "state", "chain_management", "wait"] {
            data.insert(name.into(), args.value(name).cloned().unwrap_or_default());
        }
        data.insert("rule".into(), shown.into());
        Ok(plan.with_all(data))
    }
}

/// A table of one address family, and the chain in it.
struct Table {
    family: Family,
    table: String,
    chain: Option<String>,
    numeric: bool,
    wait: Option<String>,
}

impl Table {
    fn command(&self, verb: &str) -> Command {
        let command = Command::new(self.family.program()).plain_locale().args(["-t", self.table.as_str()]);
        let wait = self.wait.iter().flat_map(|seconds| ["-w", seconds]);
        command.args(wait).arg(verb).args(self.chain.clone())
    }

    fn list(&self, host: &Host) -> Result<Output, Failure> {
        let command = self.command("-L");
        if self.numeric { command.arg("--numeric") } else { command }.run(host)
    }

    fn plan(&self, args: &Args, words: Vec<String>, without_rule: bool, host: &Host) -> Result<Plan, Failure> {
        let present = args.str("state") != Some("absent");
        if args.bool("flush") {
            return Ok(change(vec![self.command("-F")]));
        }
        if let Some(policy) = args.str("policy") {
            let output = self.list(host)?;
            let text = output.stdout_text();
            let found = policy_of(&text).ok_or_else(|| {
                let said = output.stderr_text();
                Failure::new(format!("Can't detect current policy of {}. {}", self.name(), said.trim()))
            })?;
            return Ok(if found == policy { Plan::unchanged() } else { change(vec![self.command("-P").arg(policy)]) });
        }
        if without_rule {
            let exists = self.list(host)?.success();
            if exists == present {
                return Ok(Plan::unchanged());
            }
            let verb = if present { "-N" } else { "-X" };
            // Without chain_management, only reports the difference.
            return Ok(change(if args.bool("chain_management") { vec![self.command(verb)] } else { Vec::new() }));
        }
        let known = self.command("-C").args(words.clone()).run(host)?.success();
        if known == present {
            return Ok(Plan::unchanged());
        }
        let command = match (present, args.str("action")) {
            (false, _) => self.command("-D"),
            (true, Some("insert")) => self.command("-I").args(args.str("rule_num").map(str::to_owned)),
            (true, _) => self.command("-A"),
        };
        Ok(change(vec![command.args(words)]))
    }

    fn name(&self) -> String {
        format!("{} in the table {}", self.chain.as_deref().unwrap_or("the chain"), self.table)
    }
}

fn change(commands: Vec<Command>) -> Plan {
    Plan::change(move |host, _| {
        for command in commands {
            command.check_run(host)?;
        }
        Ok(())
    })
}

/// Parses the policy in the listing of a chain: `Chain INPUT (policy ACCEPT)`.
fn policy_of(listing: &str) -> Option<&str> {
    let (_, rest) = listing.split_once("(policy ")?;
    rest.split([')', ' ']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_parsed_from_listing() {
        assert_eq!(policy_of("Chain INPUT (policy DROP)\ntarget prot\n"), Some("DROP"));
        assert_eq!(policy_of("Chain INPUT (policy ACCEPT 3 packets, 7 bytes)\n"), Some("ACCEPT"));
        assert_eq!(policy_of("Chain mine (0 references)\n"), None);
    }
}
