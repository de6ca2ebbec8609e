//! What etcdctl prints, and the rules that keep a majority; nothing here reads or changes anything.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Failure, Map};

/// A member of the cluster.
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

/// What an endpoint answered when asked for its health.
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

    /// What it is called in a sentence: one that has not started yet has no name.
    pub(super) fn called(&self) -> String {
        if self.name.is_empty() { self.peer_urls.join(", ") } else { self.name.clone() }
    }
}

pub(super) fn unreadable(what: &str, text: &str) -> Failure {
    let start: String = text.chars().take(200).collect();
    Failure::new(format!("What etcdctl printed for {what} cannot be read: {start:?}."))
}

/// The members from `member list`.
pub(super) fn members(text: &str) -> Result<Vec<Member>, Failure> {
    #[derive(Deserialize)]
    struct List {
        members: Vec<Member>,
    }
    serde_json::from_str::<List>(text).map(|list| list.members).map_err(|_| unreadable("member list", text))
}

/// The answers of `endpoint health`; 3.4 may name an endpoint twice.
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

/// The answers of `endpoint status` in our own shape, once each, with the id of the leader.
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
        });
        if !seen.iter().any(|known| known["endpoint"] == entry["endpoint"]) {
            seen.push(entry);
        }
    }
    (seen.into(), leader)
}

/// How many members must agree.
pub(super) fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// Why a member must not be added now, if so.
pub(super) fn refuse_addition(members: &[Member], health: &[Health]) -> Option<String> {
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
pub(super) fn refuse_removal(members: &[Member], target: &Member, health: &[Health]) -> Option<String> {
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
