//! `etcd`: members, health and snapshots of an etcd cluster.

use std::path::Path;

use serde_json::{Value, json};

mod cluster;

use cluster::{Health, Member, health, list, members, refuse_addition, refuse_removal, snapshot_status, statuses};

use crate::{
    Args, Check, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec,
    process::{self, Command},
};

/// The `etcd` module.
pub struct Etcd;

static SPEC: Spec = Spec {
    name: "etcd",
    collection: "windlass.kubernetes",
    summary: "Look after the members of an etcd cluster",
    description: &[
        "Asks and changes an etcd cluster through `etcdctl` on the host. Adding and removing a member are idempotent: a member that is \
         there, or gone, already is not a change.",
        "A removal that would leave the cluster without a majority of healthy members is refused, and so is an addition that would.",
        "A snapshot counts only after its own check (`snapshot status`) has succeeded.",
    ],
    options: &[
        Opt::required("state", Kind::Str, "What to do.").aliases(&["action"]).choices(&[
            "status",
            "health",
            "member_list",
            "member_add",
            "member_remove",
            "snapshot",
        ]),
        Opt::new("name", Kind::Str, "The member, by name (or, for a removal, by its hexadecimal id)."),
        Opt::new("peer_urls", Kind::List(&Kind::Str), "The addresses at which the member's peers reach it.")
            .aliases(&["peer_url"])
            .default("[]"),
        Opt::new("learner", Kind::Bool, "Add the member as a learner, which has no vote yet.").default("false"),
        Opt::new("path", Kind::Path, "Where the snapshot is written."),
        Opt::new("endpoints", Kind::List(&Kind::Str), "The addresses of the members to ask.")
            .default("[\"http://127.0.0.1:2379\"]"),
        Opt::new("cacert", Kind::Path, "The authority that the members' certificates are checked against."),
        Opt::new("cert", Kind::Path, "The certificate to show to the members."),
        Opt::new("key", Kind::Path, "The key of that certificate (a path, not the key itself)."),
        Opt::new("etcdctl", Kind::Str, "The program.").default("\"etcdctl\""),
        Opt::new("timeout", Kind::Int, "Seconds to wait for an answer.").default("10"),
    ],
    required_if: &[("state", "member_add", &["name", "peer_urls"]), ("state", "snapshot", &["path"])],
    required_together: &[&["cert", "key"]],
    check: Check::Full,
    examples: "- name: Is every member well?\n  windlass.kubernetes.etcd:\n    state: health\n    endpoints: [\"https://127.0.0.1:2379\"]\n    cacert: /etc/ssl/etcd/ssl/ca.pem\n    cert: /etc/ssl/etcd/ssl/admin.pem\n    key: /etc/ssl/etcd/ssl/admin-key.pem\n\n- name: Take a member out\n  windlass.kubernetes.etcd:\n    state: member_remove\n    name: etcd3\n    endpoints: \"{{ etcd_endpoints }}\"\n",
    returns: &[
        Return {
            name: "members",
            kind: "list",
            when: "status, member_list, member_add, member_remove",
            doc: "Each with `id` (hexadecimal), `name`, `peer_urls`, `client_urls`, `learner`, `started` and, where it was asked for, `healthy`.",
        },
        Return { name: "healthy", kind: "bool", when: "health, status", doc: "Whether every member answers." },
        Return { name: "endpoints", kind: "list", when: "health, status", doc: "What each endpoint answered." },
        Return { name: "leader", kind: "str", when: "status", doc: "The id of the leader." },
        Return {
            name: "snapshot",
            kind: "dict",
            when: "snapshot",
            doc: "`path`, `hash`, `revision`, `total_keys`, `total_size`.",
        },
    ],
    ..Spec::EMPTY
};

impl Module for Etcd {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let client = Client::of(args);
        if let Some(guess) = super::guess_without(&client.program, host) {
            return Ok(guess);
        }
        match args.required("state")? {
            "health" => {
                let health = client.health(host, false)?;
                let healthy = health.iter().all(|endpoint| endpoint.health);
                Ok(Plan::unchanged()
                    .with("healthy", healthy)
                    .with("endpoints", json!(health.iter().map(Health::to_json).collect::<Vec<_>>())))
            }
            "status" => status(&client, host),
            "member_list" => Ok(Plan::unchanged().with("members", list(&client.members(host)?, None))),
            "member_add" => add(&client, args, host),
            "member_remove" => remove(&client, args, host),
            "snapshot" => snapshot(client, args),
            other => Err(Failure::new(format!("state {other} is not known to etcd."))),
        }
    }
}

/// How etcdctl is called.
#[derive(Clone)]
struct Client {
    program: String,
    endpoints: Vec<String>,
    credentials: Vec<String>,
    timeout: i64,
}

impl Client {
    fn of(args: &Args) -> Client {
        let credentials = ["cacert", "cert", "key"]
            .into_iter()
            .filter_map(|name| Some(format!("--{name}={}", args.str(name)?)))
            .collect();
        Client {
            program: args.str("etcdctl").unwrap_or("etcdctl").to_owned(),
            endpoints: args.list("endpoints").into_iter().map(str::to_owned).collect(),
            credentials,
            timeout: args.int("timeout").unwrap_or(10).max(1),
        }
    }

    fn command(&self, endpoints: &[String]) -> Command {
        Command::new(&self.program)
            .plain_locale()
            .variable("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", endpoints.join(",")))
            .args(&self.credentials)
            .arg(format!("--command-timeout={}s", self.timeout))
            .args(["-w", "json"])
    }

    /// Runs a command that must succeed.
    fn run(&self, host: &Host, words: &[&str]) -> Result<String, Failure> {
        let output = self.command(&self.endpoints).args(words.iter().copied()).run(host)?;
        if output.success() {
            return Ok(output.stdout_text());
        }
        let error = output.stderr_text();
        let reason = error
            .lines()
            .rev()
            .find(|line| line.starts_with("Error"))
            .or_else(|| error.lines().next_back())
            .unwrap_or_default();
        let message = format!("etcdctl {} failed at {}: {reason}", words.join(" "), self.endpoints.join(", "));
        Err(Failure::new(message).with("rc", output.rc).with("stdout", output.stdout_text()).with("stderr", error))
    }

    fn members(&self, host: &Host) -> Result<Vec<Member>, Failure> {
        members(&self.run(host, &["member", "list"])?)
    }

    /// The health of the given endpoints, or of every member. An unhealthy one is an answer, not a failure.
    fn health(&self, host: &Host, whole_cluster: bool) -> Result<Vec<Health>, Failure> {
        let mut command = self.command(&self.endpoints).args(["endpoint", "health"]);
        if whole_cluster {
            command = command.arg("--cluster");
        }
        let output = command.run(host)?;
        health(&output.stdout_text()).map_err(|failure| {
            let error = output.stderr_text();
            let reason = error.lines().next_back().unwrap_or_default();
            Failure::new(format!("{} etcdctl said: {reason}", failure.message)).with("stderr", error.as_str())
        })
    }
}

fn status(client: &Client, host: &Host) -> Result<Plan, Failure> {
    let members = client.members(host)?;
    let health = client.health(host, true)?;
    let output = client.command(&client.endpoints).args(["endpoint", "status"]).run(host)?;
    let endpoints: Vec<Value> = serde_json::from_str(output.stdout_text().trim()).unwrap_or_default();
    let (endpoints, leader) = statuses(&endpoints);
    let healthy = members.iter().all(|member| member.healthy(&health));
    Ok(Plan::unchanged()
        .with("members", list(&members, Some(&health)))
        .with("endpoints", endpoints)
        .with("leader", leader)
        .with("healthy", healthy))
}

fn add(client: &Client, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let name = args.required("name")?.to_owned();
    let peers: Vec<String> = args.list("peer_urls").into_iter().map(str::to_owned).collect();
    let known = client.members(host)?;
    if let Some(member) = known.iter().find(|member| member.peer_urls.iter().any(|url| peers.contains(url))) {
        if !member.name.is_empty() && member.name != name {
            return Err(Failure::new(format!(
                "The etcd member at {} is called {}, not {name}. Remove it first, or give this one another address.",
                member.peer_urls.join(", "),
                member.name
            )));
        }
        return Ok(Plan::unchanged().with("members", list(&known, None)));
    }
    if let Some(member) = known.iter().find(|member| member.name == name) {
        return Err(Failure::new(format!(
            "etcd member {name} exists already, at {}. Remove it before it is added at {}.",
            member.peer_urls.join(", "),
            peers.join(", ")
        )));
    }
    let health = client.health(host, true)?;
    if let Some(reason) = refuse_addition(&known, &health) {
        return Err(Failure::new(reason).with("members", list(&known, Some(&health))));
    }
    let client = client.clone();
    let learner = args.bool("learner");
    Ok(Plan::change(move |host, outcome| {
        let urls = format!("--peer-urls={}", peers.join(","));
        let mut words = vec!["member", "add", &name, &urls];
        if learner {
            words.push("--learner");
        }
        let answer = client.run(host, &words)?;
        // With etcdctl 3.4 the answer has the whole list; later ones are asked again.
        let members = members(&answer).or_else(|_| client.members(host))?;
        outcome.set("members", list(&members, None));
        Ok(())
    })
    .with("members", list(&known, None)))
}

fn remove(client: &Client, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let name = args.str("name").filter(|name| !name.is_empty());
    let peers = args.list("peer_urls");
    if name.is_none() && peers.is_empty() {
        return Err(Failure::new("To remove an etcd member, say which one with name or peer_urls."));
    }
    let known = client.members(host)?;
    let matches = |member: &&Member| {
        name.is_some_and(|name| member.name == name || member.id() == name)
            || member.peer_urls.iter().any(|url| peers.contains(&url.as_str()))
    };
    let Some(target) = known.iter().find(matches).cloned() else {
        return Ok(Plan::unchanged().with("members", list(&known, None)));
    };
    let health = client.health(host, true)?;
    if let Some(reason) = refuse_removal(&known, &target, &health) {
        return Err(Failure::new(reason).with("members", list(&known, Some(&health))));
    }
    let client = client.clone();
    Ok(Plan::change(move |host, outcome| {
        // The member itself may be the one that answers; the others are asked where there are any.
        let others: Vec<String> =
            client.endpoints.iter().filter(|url| !target.client_urls.contains(url)).cloned().collect();
        let client = Client { endpoints: if others.is_empty() { client.endpoints.clone() } else { others }, ..client };
        client.run(host, &["member", "remove", &target.id()])?;
        let rest: Vec<Member> = client.members(host).unwrap_or_default();
        outcome.set("members", list(&rest, None));
        Ok(())
    })
    .with("members", list(&known, Some(&health))))
}

fn snapshot(client: Client, args: &Args) -> Result<Plan, Failure> {
    let path = args.required("path")?.to_owned();
    let folder = Path::new(&path).parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        return Err(Failure::new(format!("The folder {} for the snapshot does not exist.", folder.display())));
    }
    Ok(Plan::change(move |host, outcome| take_snapshot(&client, &path, host, outcome)))
}

fn take_snapshot(client: &Client, path: &str, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
    // A snapshot is of one member: the first that is healthy.
    let health = client.health(host, false)?;
    let Some(endpoint) = health.iter().find(|endpoint| endpoint.health) else {
        let errors: Vec<String> =
            health.iter().map(|endpoint| format!("{}: {}", endpoint.endpoint, endpoint.error)).collect();
        return Err(Failure::new(format!(
            "No etcd member is healthy, so no snapshot was taken ({}).",
            errors.join("; ")
        )));
    };
    // The name changes only after the check, so that a good older snapshot is never replaced by a bad one.
    let draft = format!("{path}.unverified");
    let one = Client { endpoints: vec![endpoint.endpoint.clone()], ..client.clone() };
    let result = one.run(host, &["snapshot", "save", &draft]).and_then(|_| {
        let utility = process::find(host, "etcdutl");
        let program = utility.map_or_else(|| client.program.clone(), |path| path.to_string_lossy().into_owned());
        let checked = Command::new(program)
            .plain_locale()
            .variable("ETCDCTL_API", "3")
            .args(["snapshot", "status", &draft, "-w", "json"]);
        snapshot_status(&checked.check_run(host)?.stdout_text())
    });
    let mut status = match result {
        Ok(status) => status,
        Err(failure) => {
            let _ = std::fs::remove_file(&draft);
            return Err(failure);
        }
    };
    std::fs::rename(&draft, path)
        .map_err(|error| Failure::new(format!("The snapshot could not be renamed to {path}: {error}.")))?;
    status.insert("path".into(), path.into());
    status.insert("endpoint".into(), endpoint.endpoint.as_str().into());
    outcome.set("snapshot", status);
    Ok(())
}
