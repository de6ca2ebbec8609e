//! `etcd`: members, health and snapshots of an etcd cluster.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Args, Check, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec,
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

/// A member of the cluster.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
struct Member {
    #[serde(rename = "ID")]
    id: u64,
    #[serde(default)]
    name: String,
    #[serde(rename = "peerURLs", default)]
    peer_urls: Vec<String>,
    #[serde(rename = "clientURLs", default)]
    client_urls: Vec<String>,
    #[serde(rename = "isLearner", default)]
    learner: bool,
}

/// What an endpoint answered when asked for its health.
#[derive(Debug, Clone, Deserialize, PartialEq)]
struct Health {
    endpoint: String,
    health: bool,
    #[serde(default)]
    error: String,
    #[serde(default)]
    took: String,
}

impl Health {
    fn to_json(&self) -> Value {
        json!({ "endpoint": self.endpoint, "healthy": self.health, "took": self.took, "error": self.error })
    }
}

impl Member {
    fn id(&self) -> String {
        format!("{:x}", self.id)
    }

    fn healthy(&self, health: &[Health]) -> bool {
        health.iter().any(|endpoint| endpoint.health && self.client_urls.contains(&endpoint.endpoint))
    }

    /// What it is called in a sentence: one that has not started yet has no name.
    fn called(&self) -> String {
        if self.name.is_empty() { self.peer_urls.join(", ") } else { self.name.clone() }
    }
}

fn unreadable(what: &str, text: &str) -> Failure {
    let start: String = text.chars().take(200).collect();
    Failure::new(format!("What etcdctl printed for {what} cannot be read: {start:?}."))
}

/// The members from `member list`.
fn members(text: &str) -> Result<Vec<Member>, Failure> {
    #[derive(Deserialize)]
    struct List {
        members: Vec<Member>,
    }
    serde_json::from_str::<List>(text).map(|list| list.members).map_err(|_| unreadable("member list", text))
}

/// The answers of `endpoint health`; 3.4 may name an endpoint twice.
fn health(text: &str) -> Result<Vec<Health>, Failure> {
    let line = text.lines().find(|line| line.starts_with('[')).ok_or_else(|| unreadable("endpoint health", text))?;
    let answers: Vec<Health> = serde_json::from_str(line).map_err(|_| unreadable("endpoint health", text))?;
    let mut unique: Vec<Health> = Vec::new();
    for answer in answers {
        if !unique.iter().any(|known| known.endpoint == answer.endpoint) {
            unique.push(answer);
        }
    }
    Ok(unique)
}

fn list(members: &[Member], health: Option<&[Health]>) -> Value {
    let one = |member: &Member| {
        let mut map = Map::new();
        map.insert("id".into(), member.id().into());
        map.insert("name".into(), member.name.as_str().into());
        map.insert("peer_urls".into(), member.peer_urls.clone().into());
        map.insert("client_urls".into(), member.client_urls.clone().into());
        map.insert("learner".into(), member.learner.into());
        map.insert("started".into(), (!member.name.is_empty()).into());
        if let Some(health) = health {
            map.insert("healthy".into(), member.healthy(health).into());
        }
        Value::from(map)
    };
    members.iter().map(one).collect()
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

/// The answers of `endpoint status` in our own shape, once each, with the id of the leader.
fn statuses(answers: &[Value]) -> (Value, Option<String>) {
    let mut seen: Vec<Value> = Vec::new();
    let mut leader = None;
    for answer in answers {
        let status = &answer["Status"];
        let id = |value: &Value| value.as_u64().filter(|id| *id != 0).map(|id| format!("{id:x}"));
        leader = leader.or_else(|| id(&status["leader"]));
        let entry = json!({
            "endpoint": answer["Endpoint"],
            "id": id(&status["header"]["member_id"]),
            "version": status["version"],
            "db_size": status["dbSize"],
            "db_size_in_use": status["dbSizeInUse"],
            "raft_index": status["raftIndex"],
            "raft_term": status["raftTerm"],
            "leader": id(&status["leader"]).is_some() && status["leader"] == status["header"]["member_id"],
            "learner": status["isLearner"].as_bool().unwrap_or(false),
        });
        if !seen.iter().any(|known| known["endpoint"] == entry["endpoint"]) {
            seen.push(entry);
        }
    }
    (seen.into(), leader)
}

/// How many members must agree.
fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// Why a member must not be added now, if so.
fn refuse_addition(members: &[Member], health: &[Health]) -> Option<String> {
    let voters = members.iter().filter(|member| !member.learner).count();
    let healthy = members.iter().filter(|member| !member.learner && member.healthy(health)).count();
    let needed = majority(voters + 1);
    (healthy < voters && healthy < needed).then(|| {
        let ill: Vec<String> = members.iter().filter(|member| !member.healthy(health)).map(Member::called).collect();
        format!(
            "Another etcd member would raise the majority to {needed}, but only {healthy} of {voters} members are healthy. First repair or \
             remove {}.",
            ill.join(", ")
        )
    })
}

/// Why a member must not be removed now, if so.
fn refuse_removal(members: &[Member], target: &Member, health: &[Health]) -> Option<String> {
    if target.learner {
        return None;
    }
    let others: Vec<&Member> = members.iter().filter(|member| member.id != target.id && !member.learner).collect();
    let healthy = others.iter().filter(|member| member.healthy(health)).count();
    if others.is_empty() {
        return Some(format!("{} is the only etcd member; removing it would end the cluster.", target.called()));
    }
    let needed = majority(others.len());
    (healthy < needed).then(|| {
        let ill: Vec<String> = others.iter().filter(|member| !member.healthy(health)).map(|member| member.called()).collect();
        format!(
            "Removing etcd member {} would leave {healthy} healthy of {} members, and {needed} are needed for a majority. First bring back {}.",
            target.called(),
            others.len(),
            ill.join(", ")
        )
    })
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

fn snapshot_status(text: &str) -> Result<Map, Failure> {
    let Ok(Value::Object(status)) = serde_json::from_str(text.trim()) else {
        return Err(unreadable("snapshot status", text));
    };
    let mut map = Map::new();
    for (ours, theirs) in
        [("hash", "hash"), ("revision", "revision"), ("total_keys", "totalKey"), ("total_size", "totalSize")]
    {
        map.insert(ours.to_owned(), status.get(theirs).cloned().unwrap_or(Value::Null));
    }
    if status.get("totalSize").and_then(Value::as_u64).unwrap_or(0) == 0 {
        return Err(Failure::new("The snapshot is empty."));
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Printed by etcdctl 3.4.23.
    const MEMBERS: &str = r#"{"header":{"cluster_id":324952591200643719,"member_id":3319814642761637952,"raft_term":2},"members":[{"ID":1213860407580470757,"peerURLs":["http://127.0.0.1:23801"]},{"ID":3319814642761637952,"name":"a","peerURLs":["http://127.0.0.1:23800"],"clientURLs":["http://127.0.0.1:23790"]}]}"#;
    const HEALTH: &str = r#"[{"endpoint":"http://127.0.0.1:23790","health":true,"took":"13.727929ms"},{"endpoint":"http://127.0.0.1:23790","health":true,"took":"12.357972ms"},{"endpoint":"http://127.0.0.1:1","health":false,"took":"3.001231359s","error":"context deadline exceeded"}]"#;
    const STATUS: &str = r#"[{"Endpoint":"http://127.0.0.1:23790","Status":{"header":{"cluster_id":324952591200643719,"member_id":3319814642761637952,"revision":1,"raft_term":2},"version":"3.4.23","dbSize":20480,"leader":3319814642761637952,"raftIndex":4,"raftTerm":2,"raftAppliedIndex":4,"dbSizeInUse":16384}}]"#;

    #[test]
    fn what_etcdctl_prints_is_read() {
        let members = members(MEMBERS).unwrap();
        assert_eq!(members[1].id(), "2e1259d415f2a040");
        assert!(members[0].name.is_empty());
        let health = health(HEALTH).unwrap();
        assert_eq!(health.len(), 2);
        assert!(members[1].healthy(&health) && !members[0].healthy(&health));
        let (endpoints, leader) = statuses(&serde_json::from_str::<Vec<Value>>(STATUS).unwrap());
        assert_eq!(leader.as_deref(), Some("2e1259d415f2a040"));
        assert_eq!(endpoints[0]["leader"], true);
        let snapshot =
            snapshot_status("{\"hash\":2115940634,\"revision\":0,\"totalKey\":3,\"totalSize\":20480}\n").unwrap();
        assert_eq!(snapshot["total_keys"], 3);
        assert!(super::members("Error: context deadline exceeded").is_err());
    }

    fn cluster(states: &[(&str, bool)]) -> (Vec<Member>, Vec<Health>) {
        let members = states.iter().enumerate().map(|(number, (name, _))| Member {
            id: number as u64 + 1,
            name: (*name).to_owned(),
            peer_urls: vec![format!("https://{name}:2380")],
            client_urls: vec![format!("https://{name}:2379")],
            learner: false,
        });
        let health = states.iter().map(|(name, healthy)| Health {
            endpoint: format!("https://{name}:2379"),
            health: *healthy,
            error: String::new(),
            took: String::new(),
        });
        (members.collect(), health.collect())
    }

    #[test]
    fn the_majority_is_never_given_away() {
        let (members, health) = cluster(&[("a", true), ("b", true), ("c", false)]);
        assert_eq!(refuse_removal(&members, &members[2], &health), None);
        let reason = refuse_removal(&members, &members[0], &health).unwrap();
        assert!(reason.contains("would leave 1 healthy of 2 members, and 2 are needed"), "{reason}");
        assert!(refuse_addition(&members, &health).unwrap().contains("remove c"));

        let (members, health) = cluster(&[("a", true), ("b", true), ("c", true)]);
        assert_eq!(refuse_removal(&members, &members[0], &health), None);
        assert_eq!(refuse_addition(&members, &health), None);

        let (members, health) = cluster(&[("a", true)]);
        assert!(refuse_removal(&members, &members[0], &health).unwrap().contains("only etcd member"));
        assert_eq!(refuse_addition(&members, &health), None);
    }
}
