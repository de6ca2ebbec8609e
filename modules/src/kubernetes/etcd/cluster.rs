//! Parsers of etcdctl's output; nothing here queries or changes the cluster.

use std::fmt;

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::quorum::{Condition, Standing};
use crate::{Args, Failure, Map};

#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub(super) struct Member {
    #[serde(rename = "ID")]
    pub(super) id: u64,
    #[serde(default)]
    pub(super) name: String,
    #[serde(rename = "peerURLs", default)]
    pub(super) peer_urls: Vec<String>,
    #[serde(rename = "clientURLs", default)]
    pub(super) client_urls: Vec<String>,
    #[serde(rename = "isLearner", default)]
    pub(super) learner: bool,
}

/// Answer of an endpoint to a health query.
#[derive(Debug, Clone, Deserialize, PartialEq)]
pub(super) struct Health {
    pub(super) endpoint: String,
    pub(super) health: bool,
    #[serde(default)]
    pub(super) error: String,
    #[serde(default)]
    took: String,
}

impl Health {
    pub(super) fn to_json(&self) -> Value {
        json!({ "endpoint": self.endpoint, "healthy": self.health, "took": self.took, "error": self.error })
    }
}

impl Member {
    pub(super) fn id(&self) -> String {
        format!("{:x}", self.id)
    }

    pub(super) fn healthy(&self, health: &[Health]) -> bool {
        health.iter().any(|endpoint| endpoint.health && self.client_urls.contains(&endpoint.endpoint))
    }

    /// Name for messages; a member that has not started yet has no name of its own.
    pub(super) fn called(&self) -> String {
        if self.name.is_empty() { self.peer_urls.join(", ") } else { self.name.clone() }
    }
}

/// Members that a task names: by name, hexadecimal id or peer address.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub(super) names: Vec<String>,
    peer_urls: Vec<String>,
}

impl Wanted {
    pub(super) fn of(args: &Args) -> Result<Wanted, Failure> {
        let mut names: Vec<String> = args.list("names").into_iter().map(str::to_owned).collect();
        names.extend(args.filled("name").map(str::to_owned));
        let peer_urls: Vec<String> = args.list("peer_urls").into_iter().map(str::to_owned).collect();
        if names.is_empty() && peer_urls.is_empty() {
            return Err(Failure::new("Name the etcd member with `name`, `names` or `peer_urls`."));
        }
        Ok(Wanted { names, peer_urls })
    }

    fn is(&self, member: &Member) -> bool {
        let id = member.id();
        self.names.iter().any(|name| *name == id || *name == member.name)
            || member.peer_urls.iter().any(|url| self.peer_urls.contains(url))
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&if self.names.is_empty() { self.peer_urls.join(", ") } else { self.names.join(", ") })
    }
}

/// Members and the health of their addresses at one moment.
#[derive(Debug, Clone)]
pub(super) struct Observed {
    pub(super) members: Vec<Member>,
    pub(super) health: Vec<Health>,
}

impl Observed {
    /// Conditions for the rules of [`super::super::quorum`].
    pub(super) fn standings(&self) -> Vec<Standing> {
        let condition = |member: &Member| match member {
            member if member.learner => Condition::Learner,
            member if member.name.is_empty() => Condition::Unstarted,
            member if member.healthy(&self.health) => Condition::Healthy,
            _ => Condition::Unhealthy,
        };
        let one = |member: &Member| Standing { name: member.called(), condition: condition(member) };
        self.members.iter().map(one).collect()
    }

    pub(super) fn find(&self, wanted: &Wanted) -> impl Iterator<Item = (usize, &Member)> {
        self.members.iter().enumerate().filter(|(_, member)| wanted.is(member))
    }

    /// Indices of members, by id.
    pub(super) fn positions(&self, members: &[Member]) -> Vec<usize> {
        let known = self.members.iter().enumerate();
        known.filter(|(_, known)| members.iter().any(|member| member.id == known.id)).map(|(at, _)| at).collect()
    }

    /// Names of all members, for messages.
    pub(super) fn called(&self) -> String {
        self.members.iter().map(Member::called).collect::<Vec<_>>().join(", ")
    }
}

pub(super) fn unreadable(what: &str, text: &str) -> Failure {
    let start: String = text.chars().take(200).collect();
    Failure::new(format!("The output of etcdctl for {what} cannot be read: {start:?}."))
}

/// Parses the members from `member list`.
pub(super) fn members(text: &str) -> Result<Vec<Member>, Failure> {
    #[derive(Deserialize)]
    struct List {
        members: Vec<Member>,
    }
    serde_json::from_str::<List>(text).map(|list| list.members).map_err(|_| unreadable("member list", text))
}

/// Parses the answers of `endpoint health`; version 3.4 may name an endpoint twice.
pub(super) fn health(text: &str) -> Result<Vec<Health>, Failure> {
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

pub(super) fn list(members: &[Member], health: Option<&[Health]>) -> Value {
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

/// Normalises the answers of `endpoint status`, without duplicates, and finds the id of the leader.
pub(super) fn statuses(answers: &[Value]) -> (Value, Option<String>) {
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
            // Alarms, such as NOSPACE, are reported here.
            "errors": status["errors"].as_array().cloned().unwrap_or_default(),
        });
        if !seen.iter().any(|known| known["endpoint"] == entry["endpoint"]) {
            seen.push(entry);
        }
    }
    (seen.into(), leader)
}

pub(super) fn snapshot_status(text: &str) -> Result<Map, Failure> {
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
    fn etcdctl_output_parsed() {
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

    #[test]
    fn member_conditions_derived_from_etcdctl_output() {
        let observed = Observed { members: members(MEMBERS).unwrap(), health: health(HEALTH).unwrap() };
        let conditions: Vec<Condition> = observed.standings().iter().map(|member| member.condition).collect();
        assert_eq!(conditions, [Condition::Unstarted, Condition::Healthy]);
        assert_eq!(observed.called(), "http://127.0.0.1:23801, a");
        let by = |names: &[&str], urls: &[&str]| Wanted {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            peer_urls: urls.iter().map(|url| (*url).to_owned()).collect(),
        };
        let found = |wanted: Wanted| observed.find(&wanted).map(|(at, _)| at).collect::<Vec<_>>();
        assert_eq!(found(by(&["a"], &[])), [1]);
        assert_eq!(found(by(&["2e1259d415f2a040", "b"], &[])), [1]);
        assert_eq!(found(by(&["b"], &["http://127.0.0.1:23801"])), [0]);
        assert_eq!(found(by(&[], &["http://127.0.0.1:1"])), [] as [usize; 0]);
    }
}
