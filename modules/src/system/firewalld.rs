//! `firewalld`: zones and rules of firewalld.

use serde_json::Value;

use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    process::{Command, Output},
};

/// The `firewalld` module.
pub struct Firewalld;

const FORWARD: &[Opt] = &[
    Opt::required("port", Kind::Str, "Port of incoming packets."),
    Opt::required("proto", Kind::Str, "Protocol of the packets.").choices(&["udp", "tcp"]),
    Opt::required("toport", Kind::Str, "Port to forward to."),
    Opt::new("toaddr", Kind::Str, "Address to forward to. Default: this host."),
];

static SPEC: Spec = Spec {
    name: "firewalld",
    collection: "ansible.posix",
    summary: "Manage the firewall with firewalld",
    description: &[
        "Allows services, ports and other traffic in a zone, or revokes them; creates and removes zones. `permanent` \
         changes the stored configuration and `immediate` the running firewall. Without `permanent`, only the \
         running firewall is changed.",
        "If firewalld is not running, `permanent` changes go through firewall-offline-cmd.",
    ],
    options: &[
        Opt::required(
            "state",
            Kind::Str,
            "`enabled` sets the setting, `disabled` removes it. `present` and `absent` create and remove a zone.",
        )
        .choices(&["absent", "disabled", "enabled", "present"]),
        Opt::new("zone", Kind::Str, "Name of the zone. Default: firewalld's default zone.").line(),
        Opt::new("permanent", Kind::Bool, "Change the stored configuration.").default("false"),
        Opt::new("immediate", Kind::Bool, "Change the running firewall.").default("false"),
        Opt::new("offline", Kind::Bool, "Skip `immediate` if firewalld is not running.").default("false"),
        Opt::new(
            "timeout",
            Kind::Int,
            "Seconds after which firewalld reverts a change of the running firewall; 0 keeps it.",
        )
        .default("0"),
        Opt::new("service", Kind::Str, "Name of a service to allow.").line(),
        Opt::new("protocol", Kind::Str, "Name of a protocol to allow."),
        Opt::new("port", Kind::Str, "Port or range of ports to allow, with `/` and the protocol."),
        Opt::new("port_forward", Kind::List(&Kind::Dict), "Port to forward.").options(FORWARD),
        Opt::new("rich_rule", Kind::Str, "Rule in firewalld's rich language."),
        Opt::new("source", Kind::Str, "Address or network to assign to the zone."),
        Opt::new("interface", Kind::Str, "Interface to assign to the zone."),
        Opt::new("icmp_block", Kind::Str, "ICMP type to block."),
        Opt::new("icmp_block_inversion", Kind::Bool, "Block all ICMP types except the listed ones."),
        Opt::new("forward", Kind::Bool, "Forward packets between the interfaces of the zone."),
        Opt::new("masquerade", Kind::Bool, "Masquerade forwarded packets."),
        Opt::new("target", Kind::Str, "Treatment of packets that no rule of the zone matches.").choices(&[
            "default",
            "ACCEPT",
            "DROP",
            "%%REJECT%%",
        ]),
    ],
    mutually_exclusive: &[&[
        "icmp_block",
        "icmp_block_inversion",
        "service",
        "protocol",
        "port",
        "port_forward",
        "rich_rule",
        "interface",
        "forward",
        "masquerade",
        "source",
        "target",
    ]],
    required_by: &[("interface", &["zone"]), ("target", &["zone"]), ("source", &["permanent"])],
    examples: "- name: Let HTTPS in, now and after the next boot\n  ansible.posix.firewalld:\n    service: https\n    state: enabled\n    \
               permanent: true\n    immediate: true\n\n- name: A zone of its own for the cluster\n  ansible.posix.firewalld:\n    zone: cluster\n    \
               state: present\n    permanent: true\n",
    returns: &[Return { name: "msg", kind: "str", when: "always", doc: "Summary of the changes." }],
    ..Spec::EMPTY
}
.compiled();

impl Module for Firewalld {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let state = args.required("state")?;
        let Some(setting) = Setting::of(args)? else {
            return Ok(Plan::unchanged().with("msg", ""));
        };
        let zone_level = matches!(setting, Setting::Zone | Setting::Target(_));
        if matches!(state, "present" | "absent") && !zone_level {
            return Err(Failure::new("absent and present state can only be used in zone level operations"));
        }
        let running = Command::new("firewall-cmd").plain_locale().arg("--state").run(host)?.success();
        let (permanent, mut immediate) = (args.bool("permanent"), args.bool("immediate"));
        if args.bool("offline") {
            if !permanent {
                return Err(Failure::new("offline cannot be enabled unless permanent changes are allowed"));
            }
            immediate &= running;
        }
        immediate |= !permanent;
        if immediate && !running {
            return Err(Failure::new(
                "firewall is not currently running, unable to perform immediate actions without a running firewall daemon",
            ));
        }
        if immediate && zone_level {
            return Err(Failure::new(
                "Zone operations must be permanent. Make sure you didn't set the 'permanent' flag to 'false' or the 'immediate' flag to 'true'.",
            ));
        }
        let firewall = Firewall { running, timeout: args.int("timeout").unwrap_or(0) };
        let zone = match args.filled("zone") {
            Some(zone) => zone.to_owned(),
            None => firewall.must(false, &["--get-default-zone".to_owned()], host)?.stdout_text().trim().to_owned(),
        };
        let wanted = setting.wanted(matches!(state, "enabled" | "present"));
        let mut places = Vec::new();
        for place in [permanent.then_some(true), immediate.then_some(false)].into_iter().flatten() {
            if setting.is_set(&firewall, place, &zone, wanted, host)? != wanted {
                places.push(place);
            }
        }
        let operation = match (permanent, immediate) {
            (true, true) => "Permanent and Non-Permanent(immediate) operation",
            (true, false) => "Permanent operation",
            _ => "Non-permanent operation",
        };
        let mut said = vec![operation.to_owned()];
        if !places.is_empty() {
            // Check mode predicts no more of a change.
            if host.check() {
                return Ok(Plan::change(|_, _| Ok(())));
            }
            said.extend(setting.message(wanted, state, &zone));
        }
        if !running {
            said.push("(offline operation: only on-disk configs were altered)".to_owned());
        }
        let plan = if places.is_empty() {
            Plan::unchanged()
        } else {
            Plan::change(move |host, _| {
                places.into_iter().try_for_each(|permanent| {
                    let done = setting.set(&firewall, permanent, &zone, wanted, host);
                    done.map_err(|failure| while_changing(failure, operation))
                })
            })
        };
        Ok(plan.with("msg", said.join(", ")))
    }
}

/// The single setting that a task manages.
enum Setting {
    /// An element of a list of the zone: the option's name here, its name in firewalld's programs, and the element.
    Element {
        name: &'static str,
        option: &'static str,
        element: String,
    },
    /// A setting that is on or off, and whether `enabled` means on.
    Switch {
        name: &'static str,
        option: &'static str,
        on: bool,
    },
    Target(String),
    Zone,
}

const ELEMENTS: [(&str, &str); 7] = [
    ("icmp_block", "icmp-block"),
    ("service", "service"),
    ("protocol", "protocol"),
    ("source", "source"),
    ("rich_rule", "rich-rule"),
    ("interface", "interface"),
    ("port", "port"),
];
const SWITCHES: [(&str, &str); 3] =
    [("icmp_block_inversion", "icmp-block-inversion"), ("forward", "forward"), ("masquerade", "masquerade")];

impl Setting {
    /// The setting in the arguments; `None` if they only name a zone and the state is neither `present` nor `absent`.
    fn of(args: &Args) -> Result<Option<Setting>, Failure> {
        if args.str("port").is_some_and(|port| {
            !matches!(port.trim().split_once('/'), Some((number, protocol)) if !number.is_empty() && !protocol.is_empty())
        }) {
            return Err(Failure::new("improper port format (missing protocol?)"));
        }
        for (name, option) in ELEMENTS {
            if let Some(element) = args.str(name) {
                return Ok(Some(Setting::Element { name, option, element: element.trim().to_owned() }));
            }
        }
        for (name, option) in SWITCHES {
            if let Some(on) = args.maybe_bool(name) {
                return Ok(Some(Setting::Switch { name, option, on }));
            }
        }
        if let Some(Value::Array(forwards)) = args.value("port_forward") {
            let [forward] = forwards.as_slice() else {
                return Err(Failure::new("Only one port forward supported at a time"));
            };
            let part = |name: &str| forward.get(name).and_then(Value::as_str).unwrap_or_default();
            let parts = ["port", "proto", "toport", "toaddr"].map(|name| format!("{name}={}", part(name)));
            return Ok(Some(Setting::Element {
                name: "port_forward",
                option: "forward-port",
                element: parts.join(":"),
            }));
        }
        if let Some(target) = args.str("target") {
            return Ok(Some(Setting::Target(target.to_owned())));
        }
        Ok(matches!(args.str("state"), Some("present" | "absent")).then_some(Setting::Zone))
    }

    /// Whether the setting must be on, for a state that is or is not `enabled`.
    fn wanted(&self, enabled: bool) -> bool {
        match self {
            Setting::Switch { on, .. } => enabled == *on,
            _ => enabled,
        }
    }

    fn is_set(
        &self,
        firewall: &Firewall,
        permanent: bool,
        zone: &str,
        wanted: bool,
        host: &Host,
    ) -> Result<bool, Failure> {
        let zoned = format!("--zone={zone}");
        match self {
            Setting::Element { option, element, .. } => {
                let words = [zoned, format!("--query-{option}={}", shown(option, element))];
                match firewall.query(permanent, &words, host) {
                    // An object unknown to firewalld is in no zone, so nothing has to be removed.
                    Err(failure) if !wanted && is_unknown(&failure) => Ok(false),
                    answer => answer,
                }
            }
            Setting::Switch { option, .. } => firewall.query(permanent, &[zoned, format!("--query-{option}")], host),
            Setting::Target(target) => {
                let found = firewall.must(permanent, &[zoned, "--get-target".to_owned()], host)?;
                Ok(found.stdout_text().trim() == target)
            }
            Setting::Zone => {
                let zones = firewall.must(permanent, &["--get-zones".to_owned()], host)?.stdout_text();
                Ok(zones.split_whitespace().any(|known| known == zone))
            }
        }
    }

    fn set(&self, firewall: &Firewall, permanent: bool, zone: &str, on: bool, host: &Host) -> Result<(), Failure> {
        let zoned = format!("--zone={zone}");
        let verb = if on { "add" } else { "remove" };
        let words = match self {
            // An interface is in one zone only, so adding it removes it from the other.
            Setting::Element { option: "interface", element, .. } if on => {
                vec![zoned, format!("--change-interface={element}")]
            }
            // firewall-offline-cmd interprets the plain option as one of an older program.
            Setting::Element { option: "service", element, .. } if !on && !firewall.running => {
                vec![zoned, format!("--remove-service-from-zone={element}")]
            }
            Setting::Element { option, element, .. } => {
                let mut words = vec![zoned, format!("--{verb}-{option}={}", shown(option, element))];
                if on && !permanent && firewall.timeout > 0 && !matches!(*option, "source" | "interface") {
                    words.push(format!("--timeout={}", firewall.timeout));
                }
                words
            }
            Setting::Switch { option, .. } => vec![zoned, format!("--{verb}-{option}")],
            Setting::Target(target) => {
                vec![zoned, format!("--set-target={}", if on { target.as_str() } else { "default" })]
            }
            Setting::Zone if on => vec![format!("--new-zone={zone}")],
            Setting::Zone => vec![format!("--delete-zone={zone}")],
        };
        firewall.must(permanent, &words, host).map(drop)
    }

    /// The message about a change.
    fn message(&self, on: bool, state: &str, zone: &str) -> Vec<String> {
        match self {
            Setting::Element { name: "source", element, .. } => {
                vec![format!("{} {element} {} zone {zone}", done(on), if on { "to" } else { "from" })]
            }
            Setting::Element { name: "interface", element, .. } if on => {
                vec![format!("Changed {element} to zone {zone}")]
            }
            Setting::Element { name: "interface", element, .. } => vec![format!("Removed {element} from zone {zone}")],
            Setting::Element { name: "icmp_block", element, .. } => {
                vec![format!("Changed icmp-block {element} to {state}")]
            }
            Setting::Element { name, element, .. } => vec![format!("Changed {name} {element} to {state}")],
            Setting::Switch { name: "icmp_block_inversion", on: given, .. } => {
                let given = if *given { "True" } else { "False" };
                vec![format!("Changed icmp-block-inversion {given} to {state}")]
            }
            Setting::Switch { name, .. } => {
                vec![format!("{} {name} {} zone {zone}", done(on), if on { "to" } else { "from" })]
            }
            Setting::Target(target) if on => vec![format!("Set zone {zone} target to {target}")],
            Setting::Target(_) => vec![format!("Reset zone {zone} target to default")],
            Setting::Zone => {
                vec![format!("{} zone {zone}", done(on)), format!("Changed zone {zone} to {state}")]
            }
        }
    }
}

fn done(on: bool) -> &'static str {
    if on { "Added" } else { "Removed" }
}

/// An element as the programs take it; a forwarded port has no empty address.
fn shown<'a>(option: &str, element: &'a str) -> &'a str {
    if option == "forward-port" { element.strip_suffix(":toaddr=").unwrap_or(element) } else { element }
}

/// The programs of firewalld.
struct Firewall {
    running: bool,
    timeout: i64,
}

impl Firewall {
    fn run(&self, permanent: bool, words: &[String], host: &Host) -> Result<Output, Failure> {
        let command = match (self.running, permanent) {
            (true, true) => Command::new("firewall-cmd").arg("--permanent"),
            (true, false) => Command::new("firewall-cmd"),
            (false, _) => Command::new("firewall-offline-cmd"),
        };
        command.plain_locale().args(words.iter().map(String::as_str)).run(host)
    }

    fn must(&self, permanent: bool, words: &[String], host: &Host) -> Result<Output, Failure> {
        let output = self.run(permanent, words, host)?;
        if output.success() { Ok(output) } else { Err(refused(&output)) }
    }

    /// Runs a query that answers by its exit status.
    fn query(&self, permanent: bool, words: &[String], host: &Host) -> Result<bool, Failure> {
        let output = self.run(permanent, words, host)?;
        match output.rc {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err(refused(&output)),
        }
    }
}

fn refused(output: &Output) -> Failure {
    Failure::new(format!("ERROR: Exception caught: {}", output.message().trim_start_matches("Error: ")))
}

/// Whether firewalld does not know a service, or the port number is invalid. An unknown zone is still an error.
fn is_unknown(failure: &Failure) -> bool {
    failure.message.contains("INVALID_") && !failure.message.contains("INVALID_ZONE")
}

/// Names the failed operation in the failure.
fn while_changing(failure: Failure, operation: &str) -> Failure {
    let hint = match failure.message.contains("INVALID_SERVICE") {
        true => {
            ", Services are defined by port/tcp relationship and named as they are in /etc/services (on most systems)"
        }
        false => "",
    };
    Failure { message: format!("{} {operation}{hint}", failure.message), ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_service_absent_unknown_zone_fails() {
        assert!(is_unknown(&Failure::new("ERROR: Exception caught: INVALID_SERVICE: cockpit")));
        assert!(!is_unknown(&Failure::new("ERROR: Exception caught: INVALID_ZONE: nowhere")));
    }
}
