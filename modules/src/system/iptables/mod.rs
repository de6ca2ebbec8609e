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
    Opt::new("flags", Kind::List(&Kind::Str), "The flags that are looked at."),
    Opt::new("flags_set", Kind::List(&Kind::Str), "Those of them that must be set."),
];

const LEVELS: &[&str] =
    &["0", "1", "2", "3", "4", "5", "6", "7", "emerg", "alert", "crit", "error", "warning", "notice", "info", "debug"];

static SPEC: Spec = Spec {
    name: "iptables",
    summary: "Manage rules of the packet filter",
    description: &[
        "Adds and removes single rules with `iptables` and `ip6tables`, sets the policy of a chain, makes, empties and removes chains.",
        "The rules are those in memory: they are gone after a restart unless they are saved by other means.",
    ],
    options: &[
        Opt::new("table", Kind::Str, "The table.")
            .default("\"filter\"")
            .choices(&["filter", "nat", "mangle", "raw", "security"]),
        Opt::new("state", Kind::Str, "Whether the rule, or without one the chain, exists.")
            .default("\"present\"")
            .choices(&["absent", "present"]),
        Opt::new("action", Kind::Str, "Whether a new rule goes to the end of the chain or to its beginning.")
            .default("\"append\"")
            .choices(&["append", "insert"]),
        Opt::new("rule_num", Kind::Str, "Insert the rule at this place."),
        Opt::new("ip_version", Kind::Str, "Which packets the rule is for.")
            .default("\"ipv4\"")
            .choices(&["ipv4", "ipv6", "both"]),
        Opt::new("chain", Kind::Str, "The chain, such as `INPUT`."),
        Opt::new(
            "protocol",
            Kind::Str,
            "The protocol; a `!` before it, as before most others, turns the meaning round.",
        ),
        Opt::new("wait", Kind::Str, "Seconds to wait for the lock of the table."),
        Opt::new("source", Kind::Str, "Where packets come from."),
        Opt::new("destination", Kind::Str, "Where they go to."),
        Opt::new("tcp_flags", Kind::Dict, "The flags of a packet of TCP.").options(TCP_FLAGS),
        Opt::new("match", Kind::List(&Kind::Str), "Extensions that test a packet.").default("[]"),
        Opt::new("jump", Kind::Str, "What becomes of a packet, such as `ACCEPT`."),
        Opt::new("gateway", Kind::Str, "With the target TEE: the host that gets a copy."),
        Opt::new("log_prefix", Kind::Str, "What stands before a line of the log."),
        Opt::new("log_level", Kind::Str, "How important the line is.").choices(LEVELS),
        Opt::new("goto", Kind::Str, "Go on in this chain, without coming back."),
        Opt::new("in_interface", Kind::Str, "The interface a packet came through."),
        Opt::new("out_interface", Kind::Str, "The interface it will leave by."),
        Opt::new("fragment", Kind::Str, "Second and further fragments only."),
        Opt::new("set_counters", Kind::Str, "The rule's first counts of packets and bytes."),
        Opt::new("source_port", Kind::Str, "A port or range `first:last`."),
        Opt::new("destination_port", Kind::Str, "A port or range `first:last`."),
        Opt::new("destination_ports", Kind::List(&Kind::Str), "Several ports; needs a protocol with ports.")
            .default("[]"),
        Opt::new("to_ports", Kind::Str, "With the target REDIRECT: the port or ports."),
        Opt::new("to_destination", Kind::Str, "With the target DNAT: the new destination."),
        Opt::new("to_source", Kind::Str, "With the target SNAT: the new source."),
        Opt::new("syn", Kind::Str, "Packets that open a connection, or only others.")
            .default("\"ignore\"")
            .choices(&["ignore", "match", "negate"]),
        Opt::new("set_dscp_mark_class", Kind::Str, "The class for the target DSCP."),
        Opt::new("set_dscp_mark", Kind::Str, "The number for the target DSCP."),
        Opt::new("comment", Kind::Str, "A comment of the rule."),
        Opt::new("ctstate", Kind::List(&Kind::Str), "States of the connection, such as `NEW`.").default("[]"),
        Opt::new("src_range", Kind::Str, "A range of sources."),
        Opt::new("dst_range", Kind::Str, "A range of destinations."),
        Opt::new("match_set", Kind::Str, "A set made by ipset."),
        Opt::new("match_set_flags", Kind::Str, "Which address is looked up in it.")
            .choices(&["src", "dst", "src,dst", "dst,src", "src,src", "dst,dst"]),
        Opt::new("limit", Kind::Str, "How often the rule may match, such as `3/minute`."),
        Opt::new("limit_burst", Kind::Str, "How many packets before that limit counts."),
        Opt::new("uid_owner", Kind::Str, "The user whose process sent the packet."),
        Opt::new("gid_owner", Kind::Str, "The group of that process."),
        Opt::new("reject_with", Kind::Str, "With the target REJECT: what the sender is told."),
        Opt::new("icmp_type", Kind::Str, "The kind of an ICMP packet."),
        Opt::new("flush", Kind::Bool, "Remove all rules of the chain, or of the table.").default("false"),
        Opt::new("policy", Kind::Str, "What becomes of packets that no rule of the chain takes.")
            .choices(&["ACCEPT", "DROP", "QUEUE", "RETURN"]),
        Opt::new("chain_management", Kind::Bool, "Without a rule, make and remove the chain itself.").default("false"),
        Opt::new("numeric", Kind::Bool, "Do not look names of hosts up when a chain is listed.").default("false"),
    ],
    mutually_exclusive: &[&["set_dscp_mark", "set_dscp_mark_class"], &["flush", "policy"]],
    required_by: &[("set_dscp_mark", &["jump"]), ("set_dscp_mark_class", &["jump"])],
    required_if: &[("jump", "TEE", &["gateway"]), ("jump", "tee", &["gateway"]), ("flush", "False", &["chain"])],
    examples: "- name: Let SSH in\n  ansible.builtin.iptables:\n    chain: INPUT\n    protocol: tcp\n    destination_port: 22\n    ctstate: [NEW]\n    \
               jump: ACCEPT\n    comment: Accept new connections of SSH\n",
    returns: &[
        Return { name: "rule", kind: "str", when: "always", doc: "The rule as arguments of iptables." },
        Return { name: "chain", kind: "str", when: "always", doc: "The chain." },
        Return { name: "table", kind: "str", when: "always", doc: "The table." },
    ],
    ..Spec::EMPTY
};

impl Module for Iptables {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let version = args.str("ip_version").unwrap_or("ipv4");
        let shown = rule::words(args, args.str("jump"), Family::of(version)).join(" ");
        let logs = ["log_prefix", "log_level"].iter().any(|name| args.str(name).is_some_and(|text| !text.is_empty()));
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
                wait: args.str("wait").filter(|seconds| !seconds.is_empty()).map(str::to_owned),
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

/// A table of one family of addresses, and the chain in it.
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
            // Without chain_management only the difference is told.
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

/// The policy in the listing of a chain: `Chain INPUT (policy ACCEPT)`.
fn policy_of(listing: &str) -> Option<&str> {
    let (_, rest) = listing.split_once("(policy ")?;
    rest.split([')', ' ']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_stands_in_the_listing() {
        assert_eq!(policy_of("Chain INPUT (policy DROP)\ntarget prot\n"), Some("DROP"));
        assert_eq!(policy_of("Chain INPUT (policy ACCEPT 3 packets, 7 bytes)\n"), Some("ACCEPT"));
        assert_eq!(policy_of("Chain mine (0 references)\n"), None);
    }
}
