//! Writes a rule as arguments of iptables(8), in the order of Ansible's module.

use serde_json::Value;

use crate::Args;

/// An address family, with its own program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// The family to show a rule for.
    pub(super) fn of(version: &str) -> Family {
        if version == "ipv6" { Family::V6 } else { Family::V4 }
    }

    pub(super) fn program(self) -> &'static str {
        match self {
            Family::V4 => "iptables",
            Family::V6 => "ip6tables",
        }
    }

    fn icmp_option(self) -> &'static str {
        match self {
            Family::V4 => "--icmp-type",
            Family::V6 => "--icmpv6-type",
        }
    }
}

/// A rule under construction.
struct Rule<'a> {
    args: &'a Args,
    words: Vec<String>,
}

impl Rule<'_> {
    fn text(&self, name: &str) -> Option<String> {
        self.args.filled(name).map(str::to_owned)
    }

    fn has(&self, name: &str) -> bool {
        self.text(name).is_some() || !self.args.list(name).is_empty()
    }

    fn push(&mut self, words: &[&str]) {
        self.words.extend(words.iter().map(|word| (*word).to_owned()));
    }

    /// Adds an option with its value. A leading `!` moves before the option.
    fn option(&mut self, name: &str, flag: &str) {
        let Some(text) = self.text(name) else { return };
        match text.strip_prefix('!') {
            Some(rest) => self.push(&["!", flag, rest.trim_start()]),
            None => self.push(&[flag, &text]),
        }
    }

    /// Adds several values as one, separated by commas.
    fn joined(&mut self, name: &str, flag: &str) {
        let values = self.args.list(name);
        if !values.is_empty() {
            let joined = values.join(",");
            self.push(&[flag, &joined]);
        }
    }

    /// Adds an extension if one of these options needs it and the task does not name it.
    fn extension(&mut self, name: &str, needed_by: &[&str]) {
        if needed_by.iter().any(|option| self.has(option)) {
            self.push(&["-m", name]);
        }
    }

    fn matches(&self, extension: &str) -> bool {
        self.args.list("match").contains(&extension)
    }

    fn target(&mut self, name: &str, target: &str) {
        if self.has(name) {
            self.push(&["-j", target]);
        }
    }

    fn set(&mut self) {
        self.option("match_set", "--match-set");
        if let (true, Some(flags)) = (self.has("match_set"), self.text("match_set_flags")) {
            self.push(&[&flags]);
        }
    }

    fn tcp_flags(&mut self) {
        let Some(Value::Object(flags)) = self.args.value("tcp_flags") else { return };
        let names = |key: &str| -> Option<String> {
            let names = flags.get(key)?.as_array()?.iter().filter_map(Value::as_str);
            Some(names.collect::<Vec<_>>().join(","))
        };
        if let (Some(looked_at), Some(set)) = (names("flags"), names("flags_set")) {
            self.push(&["--tcp-flags", &looked_at, &set]);
        }
    }
}

/// The words of a rule, in Ansible's order.
pub(super) fn words(args: &Args, jump: Option<&str>, family: Family) -> Vec<String> {
    let mut rule = Rule { args, words: Vec::new() };
    for (name, flag) in [("protocol", "-p"), ("source", "-s"), ("destination", "-d")] {
        rule.option(name, flag);
    }
    for extension in args.list("match") {
        rule.push(&["-m", extension]);
    }
    rule.tcp_flags();
    if let Some(jump) = jump {
        rule.push(&["-j", jump]);
        if jump.eq_ignore_ascii_case("tee") {
            rule.option("gateway", "--gateway");
        }
    }
    for (name, flag) in
        [("log_prefix", "--log-prefix"), ("log_level", "--log-level"), ("to_destination", "--to-destination")]
    {
        rule.option(name, flag);
    }
    rule.extension("multiport", &["destination_ports"]);
    rule.joined("destination_ports", "--dports");
    for (name, flag) in [
        ("to_source", "--to-source"),
        ("goto", "-g"),
        ("in_interface", "-i"),
        ("out_interface", "-o"),
        ("fragment", "-f"),
        ("set_counters", "-c"),
        ("source_port", "--source-port"),
        ("destination_port", "--destination-port"),
        ("to_ports", "--to-ports"),
        ("set_dscp_mark", "--set-dscp"),
        ("set_dscp_mark_class", "--set-dscp-class"),
    ] {
        rule.option(name, flag);
    }
    match args.str("syn") {
        Some("match") => rule.push(&["--syn"]),
        Some("negate") => rule.push(&["!", "--syn"]),
        _ => {}
    }
    if rule.matches("state") && !rule.matches("conntrack") {
        rule.joined("ctstate", "--state");
    } else {
        if !rule.matches("conntrack") {
            rule.extension("conntrack", &["ctstate"]);
        }
        rule.joined("ctstate", "--ctstate");
    }
    if !rule.matches("iprange") {
        rule.extension("iprange", &["src_range", "dst_range"]);
    }
    rule.option("src_range", "--src-range");
    rule.option("dst_range", "--dst-range");
    if !rule.matches("set") {
        rule.extension("set", &["match_set"]);
    }
    rule.set();
    rule.extension("limit", &["limit", "limit_burst"]);
    rule.option("limit", "--limit");
    rule.option("limit_burst", "--limit-burst");
    for (name, flag) in [("uid_owner", "--uid-owner"), ("gid_owner", "--gid-owner")] {
        rule.extension("owner", &[name]);
        rule.option(name, flag);
    }
    if jump.is_none() {
        rule.target("reject_with", "REJECT");
    }
    rule.option("reject_with", "--reject-with");
    rule.option("icmp_type", family.icmp_option());
    rule.extension("comment", &["comment"]);
    if let Some(comment) = rule.text("comment") {
        rule.push(&["--comment", &comment]);
    }
    rule.words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Host, Module};

    fn rule(arguments: Value) -> String {
        let args = Args::validate(super::super::Iptables.spec(), &arguments, &Host::alone()).unwrap();
        words(&args, args.str("jump"), Family::of(args.str("ip_version").unwrap())).join(" ")
    }

    #[test]
    fn rule_formatted_as_words() {
        for (arguments, expected) in [
            (
                json!({"chain": "INPUT", "protocol": "tcp", "destination_port": 8080, "jump": "REJECT"}),
                "-p tcp -j REJECT --destination-port 8080",
            ),
            (json!({"chain": "INPUT", "source": "! 10.0.0.0/8", "jump": "DROP"}), "! -s 10.0.0.0/8 -j DROP"),
            (
                json!({"chain": "INPUT", "ctstate": "ESTABLISHED,RELATED", "jump": "ACCEPT"}),
                "-j ACCEPT -m conntrack --ctstate ESTABLISHED,RELATED",
            ),
            (json!({"chain": "INPUT", "match": "state", "ctstate": ["NEW"]}), "-m state --state NEW"),
            (
                json!({"chain": "INPUT", "protocol": "tcp", "destination_ports": ["80", "443"], "jump": "ACCEPT"}),
                "-p tcp -j ACCEPT -m multiport --dports 80,443",
            ),
            (
                json!({"chain": "FORWARD", "tcp_flags": {"flags": "ALL", "flags_set": ["ACK", "RST"]}, "syn": "negate"}),
                "--tcp-flags ALL ACK,RST ! --syn",
            ),
            (
                json!({"chain": "INPUT", "reject_with": "tcp-reset", "comment": "no way", "wait": "5"}),
                "-j REJECT --reject-with tcp-reset -m comment --comment no way",
            ),
            (
                json!({"chain": "INPUT", "match_set": "admins", "match_set_flags": "src", "limit": "3/min", "uid_owner": "! bob"}),
                "-m set --match-set admins src -m limit --limit 3/min -m owner ! --uid-owner bob",
            ),
            (
                json!({"chain": "INPUT", "ip_version": "ipv6", "protocol": "ipv6-icmp", "icmp_type": "echo-request"}),
                "-p ipv6-icmp --icmpv6-type echo-request",
            ),
            (json!({"chain": "mine"}), ""),
        ] {
            assert_eq!(rule(arguments), expected);
        }
    }
}
