//! `etcd`: members, health and snapshots of an etcd cluster.

use serde_json::json;

mod client;
mod cluster;
mod keep;
mod lock;
mod members;
mod snapshot;

use client::Client;
use cluster::{Health, list, statuses};

use super::quorum::Standing;
use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Plan, Return, Spec};

/// The `etcd` module.
pub struct Etcd;

static SPEC: Spec = Spec {
    name: "etcd",
    collection: "windlass.kubernetes",
    summary: "Manage the members of an etcd cluster",
    description: &[
        "Queries and changes an etcd cluster with `etcdctl` on the host. Adding an existing member, or removing a \
         missing one, changes nothing.",
        "Refuses a removal, restart, stop or addition that would leave the cluster without a majority of healthy \
         members, and reports the count. Adds a voter only while all others are healthy; `learner` with \
         `member_promote` adds one without risk.",
        "Changes one member of a cluster at a time, also when several hosts or runs ask for it: the lock \
         `/windlass/members` in etcd is held from the last check to the end of the change. Waits an hour for it at most. \
         If its holder is killed, the lock expires.",
        "`can_stop` changes nothing. It fails if the cluster would lose its majority without the named members. If \
         they are all members, the task means the end of the whole cluster and passes.",
        "Keeps a snapshot only after `snapshot status` has verified it.",
    ],
    options: &[
        Opt::required("state", Kind::Str, "Operation to perform.").aliases(&["action"]).choices(&[
            "status",
            "health",
            "member_list",
            "member_add",
            "member_promote",
            "member_remove",
            "restarted",
            "can_stop",
            "snapshot",
        ]),
        Opt::new("name", Kind::Str, "Member, by name or hexadecimal id. A member to add needs its name."),
        Opt::new(
            "names",
            Kind::List(&Kind::Str),
            "With `member_remove` and `can_stop`: several members, judged together.",
        )
        .default("[]"),
        Opt::new(
            "expected",
            Kind::List(&Kind::Str),
            "With `can_stop`: all members that the caller knows. Used only if no member answers; if `names` contains \
             all of them, the task means the whole cluster.",
        )
        .default("[]"),
        Opt::new(
            "allow_unsafe",
            Kind::Bool,
            "Override a refusal. Without a majority the cluster neither reads nor writes, and data that only the \
             lost members had is gone.",
        )
        .default("false"),
        Opt::new("service", Kind::Str, "With `restarted`: systemd unit of the member on this host.")
            .default("\"etcd.service\""),
        Opt::new(
            "wait",
            Kind::Int,
            "Seconds to wait for a restarted member to be healthy, or for a learner to catch up.",
        )
        .default("120"),
        Opt::new("peer_urls", Kind::List(&Kind::Str), "Peer URLs of the member to add.")
            .aliases(&["peer_url"])
            .default("[]"),
        Opt::new("learner", Kind::Bool, "Add the member as a learner, which has no vote yet.").default("false"),
        Opt::new("path", Kind::Path, "Path to write the snapshot to."),
        Opt::new("endpoints", Kind::List(&Kind::Str), "Client URLs of the members to query.")
            .default("[\"http://127.0.0.1:2379\"]"),
        Opt::new("cacert", Kind::Path, "CA certificate that verifies the members' certificates."),
        Opt::new("cert", Kind::Path, "Client certificate for authentication at the members."),
        Opt::new("key", Kind::Path, "Path of the client certificate's private key."),
        Opt::new("etcdctl", Kind::Str, "Name or path of the program.").default("\"etcdctl\""),
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
            when: "status, member_list, member_add, member_promote, member_remove, can_stop",
            doc: "Members, each with `id` (hexadecimal), `name`, `peer_urls`, `client_urls`, `learner`, `started` \
                 and, if queried, `healthy`.",
        },
        Return { name: "whole_cluster", kind: "bool", when: "can_stop", doc: "Whether no member would remain." },
        Return { name: "refused", kind: "bool", when: "failed", doc: "Whether the majority or a lock forbade the change." },
        Return { name: "healthy", kind: "bool", when: "health, status", doc: "Whether every member answers." },
        Return { name: "endpoints", kind: "list", when: "health, status", doc: "Answers of the endpoints." },
        Return { name: "leader", kind: "str", when: "status", doc: "Id of the leader." },
        Return {
            name: "snapshot",
            kind: "dict",
            when: "snapshot",
            doc: "Snapshot with `path`, `hash`, `revision`, `total_keys` and `total_size`.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

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
                let health = client.health(host, &client.endpoints)?;
                let healthy = health.iter().all(|endpoint| endpoint.health);
                Ok(Plan::unchanged()
                    .with("healthy", healthy)
                    .with("endpoints", json!(health.iter().map(Health::to_json).collect::<Vec<_>>())))
            }
            "status" => status(&client, host),
            "member_list" => Ok(Plan::unchanged().with("members", list(&client.members(host)?, None))),
            "member_add" => members::plan_add(&client, args, host),
            "member_promote" => members::plan_promote(&client, args, host),
            "member_remove" => members::plan_remove(&client, args, host),
            "restarted" => keep::plan_restart(&client, args, host),
            "can_stop" => keep::plan_can_stop(&client, args, host),
            "snapshot" => snapshot::plan(client, args),
            other => Err(Failure::new(format!("state {other} is not known to etcd."))),
        }
    }
}

/// Peer URLs and condition of each member in a pod of a control plane, from the first endpoint that knows them: a
/// learner does not answer. None if no endpoint answers or etcdctl is missing.
pub(super) fn stacked(
    program: &str,
    folder: &str,
    endpoints: &[String],
    host: &Host,
) -> Option<Vec<(Vec<String>, Standing)>> {
    let client = Client::stacked(program, folder, endpoints.to_vec());
    let observed = endpoints.iter().find_map(|endpoint| client.at(endpoint).observe(host).ok())?;
    let peers = observed.members.iter().map(|member| member.peer_urls.clone());
    Some(peers.zip(observed.standings()).collect())
}

fn status(client: &Client, host: &Host) -> Result<Plan, Failure> {
    let observed = client.observe(host)?;
    let (endpoints, leader) = statuses(&client.statuses(host, &client.endpoints)?);
    let healthy = observed.members.iter().all(|member| member.healthy(&observed.health));
    Ok(Plan::unchanged()
        .with("members", list(&observed.members, Some(&observed.health)))
        .with("endpoints", endpoints)
        .with("leader", leader)
        .with("healthy", healthy))
}
