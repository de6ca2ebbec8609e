//! `ufw`: the firewall of Ubuntu and Debian.

use crate::{
    Args, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec,
    process::{self, Command},
};

/// The `ufw` module.
pub struct Ufw;

static SPEC: Spec = Spec {
    name: "ufw",
    collection: "community.general",
    summary: "Manage the firewall with ufw",
    description: &[
        "Adds and removes rules, sets default policies and logging, and switches the firewall on and off. Once \
         enabled, the firewall drops incoming packets unless `default` says otherwise: allow SSH first.",
    ],
    options: &[
        Opt::new(
            "state",
            Kind::Str,
            "`enabled` and `disabled` switch the firewall on and off, `reloaded` reloads it, `reset` disables it and \
             removes all rules.",
        )
        .choices(&["enabled", "disabled", "reloaded", "reset"]),
        Opt::new("default", Kind::Str, "Policy for packets that no rule matches.")
            .aliases(&["policy"])
            .choices(&["allow", "deny", "reject"]),
        Opt::new(
            "direction",
            Kind::Str,
            "Direction: `incoming`, `outgoing` or `routed` for `default`; `in` or `out` for a rule.",
        )
        .choices(&["in", "incoming", "out", "outgoing", "routed"]),
        Opt::new("logging", Kind::Str, "Amount of logging.").choices(&["full", "high", "low", "medium", "off", "on"]),
        Opt::new("rule", Kind::Str, "Action of the rule.").choices(&["allow", "deny", "limit", "reject"]),
        Opt::new("delete", Kind::Bool, "Remove the rule.").default("false"),
        Opt::new("insert", Kind::Int, "Number to insert the rule at."),
        Opt::new("insert_relative_to", Kind::Str, "Position that `insert` counts from.")
            .default("\"zero\"")
            .choices(&["zero", "first-ipv4", "last-ipv4", "first-ipv6", "last-ipv6"]),
        Opt::new("route", Kind::Bool, "Apply the rule to forwarded packets.").default("false"),
        Opt::new("log", Kind::Bool, "Log new connections that match the rule.").default("false"),
        Opt::new("from_ip", Kind::Str, "Source address.").word().aliases(&["from", "src"]).default("\"any\""),
        Opt::new("from_port", Kind::Str, "Source port."),
        Opt::new("to_ip", Kind::Str, "Destination address.").word().aliases(&["dest", "to"]).default("\"any\""),
        Opt::new("to_port", Kind::Str, "Destination port or ports.").aliases(&["port"]),
        Opt::new("proto", Kind::Str, "Protocol of the packets.")
            .aliases(&["protocol"])
            .choices(&["ah", "any", "esp", "ipv6", "tcp", "udp", "gre", "igmp", "vrrp"]),
        Opt::new("name", Kind::Str, "Application profile from /etc/ufw/applications.d.").word().aliases(&["app"]),
        Opt::new("interface", Kind::Str, "Interface for the rule, in the given `direction`.").word().aliases(&["if"]),
        Opt::new("interface_in", Kind::Str, "Interface that packets arrive on.").aliases(&["if_in"]),
        Opt::new("interface_out", Kind::Str, "Interface that packets leave by.").aliases(&["if_out"]),
        Opt::new("comment", Kind::Str, "Comment of the rule."),
    ],
    mutually_exclusive: &[
        &["name", "proto", "logging"],
        &["direction", "interface_in"],
        &["direction", "interface_out"],
    ],
    required_one_of: &[&["state", "default", "rule", "logging"]],
    required_by: &[("interface", &["direction"])],
    examples: "- name: Let SSH in\n  community.general.ufw:\n    rule: limit\n    port: ssh\n    proto: tcp\n\n\
               - name: Switch the firewall on\n  community.general.ufw:\n    state: enabled\n    policy: deny\n",
    returns: &[
        Return { name: "commands", kind: "list", when: "always", doc: "Commands that were run." },
        Return { name: "msg", kind: "str", when: "not in check mode", doc: "Status of ufw after the task." },
    ],
    ..Spec::EMPTY
}
.compiled();

/// Files in which ufw stores user rules.
const RULES: &[&str] = &[
    "/lib/ufw/user.rules",
    "/lib/ufw/user6.rules",
    "/etc/ufw/user.rules",
    "/etc/ufw/user6.rules",
    "/var/lib/ufw/user.rules",
    "/var/lib/ufw/user6.rules",
];

/// One of the four operations a task can request.
#[derive(Clone)]
enum Step {
    State(String),
    Logging(String),
    Default(String, Option<String>),
    Rule { words: Vec<String>, addresses: [String; 2] },
}

impl Module for Ufw {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let steps = steps(args, host)?;
        let mut ufw = Program::of(host);
        let before = (ufw.run(&["status", "verbose"], host)?, ufw.rules());
        if host.check() {
            let mut changed = false;
            for step in &steps {
                changed |= step.predict(&before.0, &before.1, &mut ufw, host)?;
            }
            let plan = if changed { Plan::change(|_, _| Ok(())) } else { Plan::unchanged() };
            return Ok(plan.with("commands", ufw.commands));
        }
        Ok(Plan::change(move |host, outcome| carry_out(&steps, before, ufw, host, outcome)))
    }
}

fn carry_out(
    steps: &[Step],
    before: (String, String),
    mut ufw: Program,
    host: &Host,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let mut changed = false;
    for step in steps {
        changed |= step.always_changes(&before.0);
        let words = step.words();
        if matches!(step, Step::Rule { .. }) {
            ufw.note(&["--version"]);
        }
        ufw.run(&words.iter().map(String::as_str).collect::<Vec<_>>(), host)?;
    }
    let status = ufw.run(&["status", "verbose"], host)?;
    outcome.set("msg", status.trim_end());
    outcome.changed = changed || before != (status, ufw.rules());
    outcome.set("commands", ufw.commands);
    Ok(())
}

/// The program, and the commands of a task as Ansible lists them.
struct Program {
    program: String,
    grep: String,
    commands: Vec<String>,
}

impl Program {
    fn of(host: &Host) -> Program {
        let found =
            |name: &str| process::find(host, name).map_or_else(|| name.to_owned(), |path| path.display().to_string());
        Program { program: found("ufw"), grep: found("grep"), commands: Vec::new() }
    }

    fn note(&mut self, words: &[&str]) {
        let mut command = self.program.clone();
        let mut is_quoted = false;
        for word in words {
            command += &if is_quoted { format!(" '{word}'") } else { format!(" {word}") };
            is_quoted = matches!(*word, "app" | "comment");
        }
        self.commands.push(command);
    }

    /// Runs ufw and returns what it prints.
    fn run(&mut self, words: &[&str], host: &Host) -> Result<String, Failure> {
        self.note(words);
        let output = Command::new("ufw").plain_locale().args(words.iter().copied()).run(host)?;
        if output.success() {
            return Ok(output.stdout_text());
        }
        // With its newline, as in Ansible.
        let error = output.stderr_text();
        let message = if error.is_empty() { output.stdout_text() } else { error };
        Err(Failure::new(message).with("commands", self.commands.clone()))
    }

    /// The rule lines of ufw's files, which Ansible finds with grep.
    fn rules(&mut self) -> String {
        self.commands.push(format!("{} -h '^### tuple' {}", self.grep, RULES.join(" ")));
        let texts = RULES.iter().filter_map(|path| std::fs::read_to_string(path).ok());
        texts.map(|text| tuples(&text)).collect()
    }
}

fn tuples(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| line.starts_with("### tuple")).collect()
}

fn steps(args: &Args, host: &Host) -> Result<Vec<Step>, Failure> {
    let mut steps = Vec::new();
    let direction = args.str("direction");
    if let Some(state) = args.str("state") {
        steps.push(Step::State(state.to_owned()));
    }
    if let Some(policy) = args.str("default") {
        if matches!(direction, Some("in" | "out")) {
            return Err(Failure::new(
                "For default, direction must be one of \"outgoing\", \"incoming\" and \"routed\", or direction must not be specified.",
            ));
        }
        steps.push(Step::Default(policy.to_owned(), direction.map(str::to_owned)));
    }
    if let Some(rule) = args.str("rule") {
        if matches!(direction, Some("incoming" | "outgoing" | "routed")) {
            return Err(Failure::new(
                "For rules, direction must be one of \"in\" and \"out\", or direction must not be specified.",
            ));
        }
        if !args.bool("route") && args.str("interface_in").is_some() && args.str("interface_out").is_some() {
            return Err(Failure::new("Only route rules can combine interface_in and interface_out"));
        }
        let place = if args.bool("delete") { None } else { place(args, host)? };
        let addresses = ["from_ip", "to_ip"].map(|name| args.str(name).unwrap_or("any").to_owned());
        steps.push(Step::Rule { words: rule_words(args, rule, place), addresses });
    }
    if let Some(level) = args.str("logging") {
        steps.push(Step::Logging(level.to_owned()));
    }
    Ok(steps)
}

/// The position for a new rule; `None` if it is beyond the last rule, because ufw rejects larger numbers.
fn place(args: &Args, host: &Host) -> Result<Option<i64>, Failure> {
    let Some(insert) = args.int("insert") else { return Ok(None) };
    let relative = args.str("insert_relative_to").unwrap_or("zero");
    if relative == "zero" {
        return Ok(Some(insert));
    }
    let listing = Program::of(host).run(&["status", "numbered"], host)?;
    Ok(relative_place(&listing, insert, relative))
}

fn relative_place(listing: &str, insert: i64, relative: &str) -> Option<i64> {
    let numbered = listing.lines().filter_map(|line| {
        let number = line.strip_prefix('[')?.split_once(']')?.0.trim().parse::<i64>().ok()?;
        Some((number, line.contains("(v6)")))
    });
    let numbered: Vec<(i64, bool)> = numbered.collect();
    let last = numbered.iter().map(|(number, _)| *number).max().unwrap_or(0);
    let last_v4 = numbered.iter().filter(|(_, v6)| !v6).map(|(number, _)| *number).max();
    let has_v6 = numbered.iter().any(|(_, v6)| *v6);
    let start = match relative {
        "last-ipv4" => last_v4.unwrap_or(1),
        "first-ipv6" => last_v4.map_or(1, |last| last + 1),
        "last-ipv6" if has_v6 => last,
        "last-ipv6" => last + 1,
        _ => 1,
    };
    Some(insert + start).filter(|place| *place <= last)
}

fn rule_words(args: &Args, rule: &str, place: Option<i64>) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut push = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    for name in ["route", "delete"] {
        if args.bool(name) {
            push(&[name]);
        }
    }
    if let Some(place) = place {
        push(&["insert", &place.to_string()]);
    }
    push(&[rule]);
    if let Some(direction) = args.str("direction") {
        push(&[direction]);
    }
    for (name, before) in
        [("interface", &["on"][..]), ("interface_in", &["in", "on"]), ("interface_out", &["out", "on"])]
    {
        if let Some(interface) = args.str(name) {
            push(before);
            push(&[interface]);
        }
    }
    if args.bool("log") {
        push(&["log"]);
    }
    for (name, word) in [
        ("from_ip", "from"),
        ("from_port", "port"),
        ("to_ip", "to"),
        ("to_port", "port"),
        ("proto", "proto"),
        ("name", "app"),
        ("comment", "comment"),
    ] {
        if let Some(text) = args.filled(name) {
            push(&[word, text]);
        }
    }
    words
}

impl Step {
    fn words(&self) -> Vec<String> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            Step::State(state) => {
                let verb = match state.as_str() {
                    "enabled" => "enable",
                    "disabled" => "disable",
                    "reloaded" => "reload",
                    _ => "reset",
                };
                owned(&["-f", verb])
            }
            Step::Logging(level) => owned(&["logging", level]),
            Step::Default(policy, None) => owned(&["default", policy]),
            Step::Default(policy, Some(direction)) => owned(&["default", policy, direction]),
            Step::Rule { words, .. } => words.clone(),
        }
    }

    /// Whether the step counts as a change even if the status stays the same.
    fn always_changes(&self, status: &str) -> bool {
        match self {
            Step::State(state) => matches!(state.as_str(), "reloaded" | "reset"),
            Step::Logging(level) => logging_changes(status, level),
            _ => false,
        }
    }

    fn predict(&self, status: &str, rules: &str, ufw: &mut Program, host: &Host) -> Result<bool, Failure> {
        let on = status.contains(" active");
        Ok(match self {
            Step::State(state) if state == "enabled" => !on,
            Step::State(state) if state == "disabled" => on,
            Step::State(_) | Step::Logging(_) => self.always_changes(status),
            Step::Default(policy, direction) => {
                let found = default_of(status, direction.as_deref().unwrap_or("incoming"));
                found.is_none_or(|found| found != policy && found != "disabled")
            }
            Step::Rule { words, addresses } => {
                let mut all = vec!["--dry-run"];
                all.extend(words.iter().map(String::as_str));
                ufw.note(&["--version"]);
                rule_changes(&ufw.run(&all, host)?, rules, addresses)
            }
        })
    }
}

/// Compares with a line such as `Logging: on (low)`.
fn logging_changes(status: &str, wanted: &str) -> bool {
    let Some(line) = status.lines().find_map(|line| line.strip_prefix("Logging: ")) else { return true };
    let (state, level) = line.split_once(' ').unwrap_or((line, ""));
    match (wanted, state) {
        ("off", state) => state != "off",
        (_, "off") => true,
        ("on", _) => false,
        (wanted, _) => wanted != level.trim_matches(['(', ')']),
    }
}

/// Parses a line such as `Default: deny (incoming), allow (outgoing), disabled (routed)`.
fn default_of<'a>(status: &'a str, direction: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix("Default: "))?;
    let end = format!("({direction})");
    line.split(", ").find_map(|part| part.strip_suffix(&end)).map(str::trim)
}

/// Compares the existing rules with the output of a dry run. The dry run prints one address family only if the rule has
/// one.
fn rule_changes(dry: &str, rules: &str, addresses: &[String; 2]) -> bool {
    let skipped = dry.lines().filter(|line| line.contains("Skipping")).count();
    if skipped > 0 && skipped == dry.lines().count() {
        return false;
    }
    let dry = tuples(dry);
    let v4 = |text: &str| text.split(['/', ' ']).any(|word| word.parse::<std::net::Ipv4Addr>().is_ok());
    let v6 = |text: &str| text.split(['/', ' ']).any(|word| word.parse::<std::net::Ipv6Addr>().is_ok());
    let only = |text: &str, family: &dyn Fn(&str) -> bool| -> String {
        text.split_inclusive('\n').filter(|line| family(line.trim_end())).collect()
    };
    if addresses.iter().any(|address| v4(address)) {
        only(rules, &v4) != only(&dry, &v4)
    } else if addresses.iter().any(|address| v6(address)) {
        only(rules, &v6) != only(&dry, &v6)
    } else {
        rules != dry
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const STATUS: &str =
        "Status: active\nLogging: on (low)\nDefault: deny (incoming), allow (outgoing), disabled (routed)\n";

    #[test]
    fn rule_formatted_as_words() {
        for (arguments, expected) in [
            (json!({"rule": "allow", "port": "22", "proto": "tcp"}), "allow from any to any port 22 proto tcp"),
            (
                json!({"rule": "deny", "src": "10.0.0.0/8", "delete": true, "comment": "not here"}),
                "delete deny from 10.0.0.0/8 to any comment not here",
            ),
            (
                json!({"rule": "allow", "interface": "eth0", "direction": "in", "log": true}),
                "allow in on eth0 log from any to any",
            ),
            (
                json!({"rule": "allow", "route": true, "if_in": "a", "if_out": "b", "insert": 2}),
                "route insert 2 allow in on a out on b from any to any",
            ),
            (json!({"rule": "limit", "name": "OpenSSH"}), "limit from any to any app OpenSSH"),
        ] {
            let host = Host::alone().with_check(true);
            let args = Args::validate(&SPEC, &arguments, &host).unwrap();
            let [Step::Rule { words, .. }] = &steps(&args, &host).unwrap()[..] else { panic!("no rule") };
            assert_eq!(words.join(" "), expected);
        }
    }

    #[test]
    fn changes_derived_from_status() {
        assert!(!logging_changes(STATUS, "on") && !logging_changes(STATUS, "low"));
        assert!(logging_changes(STATUS, "off") && logging_changes(STATUS, "full"));
        assert_eq!((default_of(STATUS, "incoming"), default_of(STATUS, "routed")), (Some("deny"), Some("disabled")));
        let any = ["any".to_owned(), "any".to_owned()];
        let rules = "### tuple ### allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 in\n";
        assert!(!rule_changes(&format!("*filter\n{rules}COMMIT\n"), rules, &any));
        assert!(rule_changes("*filter\nCOMMIT\n", rules, &any));
        assert!(!rule_changes("Skipping adding existing rule\nSkipping adding existing rule (v6)\n", "", &any));
        let listing = "[ 1] 22 ALLOW IN\n[ 2] 80 ALLOW IN\n[ 3] 22 (v6) ALLOW IN\n";
        assert_eq!(relative_place(listing, 0, "first-ipv6"), Some(3));
        assert_eq!(relative_place(listing, 1, "last-ipv6"), None);
        assert_eq!(relative_place(listing, -1, "last-ipv4"), Some(1));
    }

    #[test]
    fn direction_invalid_for_command_refused() {
        for arguments in [
            json!({"default": "deny", "direction": "in"}),
            json!({"rule": "allow", "direction": "incoming"}),
            json!({"rule": "allow", "if_in": "a", "if_out": "b"}),
            json!({"rule": "allow", "interface": "eth0"}),
            json!({}),
        ] {
            assert_eq!(crate::run(&Ufw, &arguments, &Host::alone().with_check(true))["failed"], true);
        }
    }
}
