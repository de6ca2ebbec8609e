//! `etcd`: members, health and snapshots of an etcd cluster.

use serde_json::json;

mod client;
mod cluster;
mod keep;
mod members;
mod snapshot;

use client::Client;
use cluster::{Health, list, statuses};

use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Plan, Return, Spec};

/// The `etcd` module.
pub struct Etcd;

static SPEC: Spec = Spec {
    name: "etcd",
    collection: "windlass.kubernetes",
    summary: "Look after the members of an etcd cluster",
    description: &[
        "Asks and changes an etcd cluster through `etcdctl` on the host. Adding and removing a member are idempotent: a member that is \
         there, or gone, already is not a change.",
        "A change that would leave the cluster without a majority of healthy members is refused with the count: a removal, a restart, a \
         stop, or an addition. A voter is added only while every other one is healthy; `learner` and `member_promote` add one without \
         risk.",
        "`can_stop` changes nothing. It fails if the cluster would lose its majority without the members named, except when these are \
         all of its members: then the end of the whole cluster is meant.",
        "A snapshot counts only after its own check (`snapshot status`) has succeeded.",
    ],
    options: &[
        Opt::required("state", Kind::Str, "What to do.").aliases(&["action"]).choices(&[
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
        Opt::new("name", Kind::Str, "The member, by name (or, unless it is added, by its hexadecimal id)."),
        Opt::new("names", Kind::List(&Kind::Str), "With `member_remove` and `can_stop`: several members, judged together.")
            .default("[]"),
        Opt::new(
            "expected",
            Kind::List(&Kind::Str),
            "With `can_stop`: all members as the caller knows them. The list counts only if no member answers; when `names` has all of \
             them, the whole cluster is meant.",
        )
        .default("[]"),
        Opt::new(
            "allow_unsafe",
            Kind::Bool,
            "Override a refusal. Without a majority the cluster neither reads nor writes, and data that only the lost members had is gone.",
        )
        .default("false"),
        Opt::new("service", Kind::Str, "With `restarted`: systemd's unit of the member on this host.")
            .default("\"etcd.service\""),
        Opt::new(
            "wait",
            Kind::Int,
            "Seconds in which a restarted member has to be healthy, or a learner to have caught up.",
        )
        .default("120"),
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
            when: "status, member_list, member_add, member_promote, member_remove, can_stop",
            doc: "Each with `id` (hexadecimal), `name`, `peer_urls`, `client_urls`, `learner`, `started` and, where it was asked for, `healthy`.",
        },
        Return {
            name: "whole_cluster",
            kind: "bool",
            when: "can_stop",
            doc: "Whether no member would stay.",
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
