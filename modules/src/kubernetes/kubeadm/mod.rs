//! `kubeadm`: make a node a member of a cluster, keep it one, and take it out.
//!
//! What a node is comes from the node: its files and, where there is one, its API server. A marker file on the node says that a change
//! was begun and not finished, so that a run that was killed half way is recognised and completed by the next.

use std::time::Duration;

use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Plan, Return, Spec};

mod decide;
mod join;
mod node;
mod planes;
mod reset;
mod start;
mod tokens;
mod tool;
mod upgrade;

use planes::Purpose;

/// The `kubeadm` module.
pub struct Kubeadm;

static SPEC: Spec = Spec {
    name: "kubeadm",
    collection: "windlass.kubernetes",
    summary: "Make a node a member of a Kubernetes cluster with kubeadm",
    description: &[
        "`init` makes the first control plane, `join` a further node. Both look at what the node is first: a member is left alone, a node \
         where an earlier `init` or `join` was interrupted is completed, and a node that is something else is refused.",
        "`token` and `certificate_key` hand out what further nodes need to join; `reset` takes a node out; `upgrade` moves a node to \
         another version.",
        "A control plane is reset or upgraded only while a majority of the other control planes serves and, if etcd runs in their pods, a \
         majority of its members stays. `can_stop` and `can_restart` change nothing and fail if that is not so.",
        "Tokens and keys travel in files that only root can read, never as arguments of a process.",
    ],
    options: &[
        Opt::required("state", Kind::Str, "What the node is to be, or what is wanted of it.").choices(&[
            "init",
            "join",
            "token",
            "certificate_key",
            "reset",
            "upgrade",
            "can_stop",
            "can_restart",
        ]),
        Opt::new("config", Kind::Path, "A kubeadm configuration file on the host."),
        Opt::new("config_content", Kind::Str, "The configuration itself, instead of a file.").secret(),
        Opt::new("control_plane", Kind::Bool, "The node joins (or is upgraded) as a control plane.").default("false"),
        Opt::new("skip_phases", Kind::List(&Kind::Str), "Phases to leave out, such as `addon/coredns`.").default("[]"),
        Opt::new("ignore_preflight_errors", Kind::List(&Kind::Str), "Preflight checks whose errors count as warnings.")
            .default("[]"),
        Opt::new(
            "upload_certs",
            Kind::Bool,
            "With `init`: hand the certificates to control planes that join within two hours.",
        )
        .default("true"),
        Opt::new(
            "api_endpoint",
            Kind::Str,
            "With `join` and no configuration: `host:port` of the API server to join through.",
        ),
        Opt::new(
            "token",
            Kind::Str,
            "With `join` and no configuration: the bootstrap token. With `token`: the token that is to exist.",
        )
        .secret(),
        Opt::new(
            "ca_cert_hash",
            Kind::List(&Kind::Str),
            "With `join` and no configuration: `sha256:...` of the cluster's authority.",
        )
        .default("[]"),
        Opt::new(
            "certificate_key",
            Kind::Str,
            "With `join` as control plane and no configuration: the key of the uploaded certificates.",
        )
        .secret(),
        Opt::new(
            "advertise_address",
            Kind::Str,
            "With `join` as control plane and no configuration: the address of the node's API server.",
        ),
        Opt::new("token_ttl", Kind::Str, "With `token`: how long a new token is valid.").default("\"24h0m0s\""),
        Opt::new("version", Kind::Str, "With `upgrade`: the version to move to, such as `v1.31.2`."),
        Opt::new(
            "first",
            Kind::Bool,
            "With `upgrade`: this is the first control plane, which moves the cluster's own configuration.",
        )
        .default("false"),
        Opt::new(
            "repeat",
            Kind::Bool,
            "With `upgrade`: run kubeadm even if the node has the version, because an earlier run may have been interrupted.",
        )
        .default("false"),
        Opt::new(
            "node_name",
            Kind::Str,
            "The node's name; the configuration's or else the host's, if it is not given.",
        ),
        Opt::new("cri_socket", Kind::Str, "The socket of the container runtime."),
        Opt::new(
            "cert_dir",
            Kind::Path,
            "Where the cluster's certificates are; the configuration's, or else kubeadm's usual folder.",
        ),
        Opt::new("kubeadm", Kind::Str, "The program.").default("\"kubeadm\""),
        Opt::new("kubectl", Kind::Str, "The program that asks the API server.").default("\"kubectl\""),
        Opt::new("timeout", Kind::Int, "Seconds that kubeadm may take.").default("900"),
        Opt::new("api_timeout", Kind::Int, "Seconds to wait for the API server of a node that is a member already.")
            .default("120"),
        Opt::new(
            "names",
            Kind::List(&Kind::Str),
            "With `can_stop`, `can_restart` and `reset`: the nodes that stop together; this one, if there are none. When they are all \
             control planes, the whole cluster is meant.",
        )
        .default("[]"),
        Opt::new(
            "control_planes",
            Kind::Dict,
            "All control planes as the caller knows them: node names with the URLs of their API servers (empty: the node's own address). \
             The names count only while no API server answers.",
        ),
        Opt::new("api_port", Kind::Int, "The port of API servers that `control_planes` does not name.").default("6443"),
        Opt::new("kubeconfig", Kind::Path, "The administrator's kubeconfig, with which other control planes are asked.")
            .default("\"/etc/kubernetes/admin.conf\""),
        Opt::new(
            "allow_unsafe",
            Kind::Bool,
            "Override a refusal. Without the last API server the cluster cannot be changed, and without etcd's majority its data is lost.",
        )
        .default("false"),
    ],
    mutually_exclusive: &[&["config", "config_content"]],
    required_if: &[("state", "upgrade", &["version"])],
    check: Check::Full,
    examples: "- name: The first control plane\n  windlass.kubernetes.kubeadm:\n    state: init\n    config: /etc/kubernetes/kubeadm-config.yaml\n    skip_phases: [addon/coredns]\n  register: first\n  no_log: true\n\n- name: Further control planes\n  windlass.kubernetes.kubeadm:\n    state: join\n    control_plane: true\n    config: /etc/kubernetes/kubeadm-join.yaml\n",
    returns: &[
        Return {
            name: "action",
            kind: "str",
            when: "always",
            doc: "What was (or would be) done: none, init, repair, join, finish, reset, upgrade, create.",
        },
        Return { name: "reason", kind: "str", when: "init, join", doc: "Why, in a sentence." },
        Return {
            name: "initialized",
            kind: "bool",
            when: "init, reset",
            doc: "Whether the node is an initialised control plane now.",
        },
        Return { name: "joined", kind: "bool", when: "join, reset", doc: "Whether the node is a member now." },
        Return {
            name: "whole_cluster",
            kind: "bool",
            when: "can_stop, can_restart",
            doc: "Whether no control plane would stay.",
        },
        Return { name: "token", kind: "str", when: "token", doc: "A bootstrap token." },
        Return {
            name: "ca_cert_hash",
            kind: "str",
            when: "init, token, certificate_key",
            doc: "The hash of the cluster's authority, for `caCertHashes`.",
        },
        Return {
            name: "certificate_key",
            kind: "str",
            when: "certificate_key",
            doc: "The key of the uploaded certificates.",
        },
        Return { name: "stdout", kind: "str", when: "changed", doc: "What kubeadm printed, without tokens and keys." },
    ],
    ..Spec::EMPTY
};

impl Module for Kubeadm {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let tool = tool::Tool::of(args, host)?;
        match args.required("state")? {
            "init" => start::plan(tool, args, host),
            "join" => join::plan(tool, args, host),
            "token" => tokens::plan_token(tool, args, host),
            "certificate_key" => tokens::plan_certificate_key(tool),
            "reset" => reset::plan(tool, args, host),
            "upgrade" => upgrade::plan(tool, args, host),
            "can_stop" => planes::plan(&tool, args, Purpose::Stop, host),
            "can_restart" => planes::plan(&tool, args, Purpose::Restart, host),
            other => Err(Failure::new(format!("state {other} is not known to kubeadm."))),
        }
    }
}

fn seconds(args: &Args, name: &str, default: u64) -> Duration {
    args.seconds(name, default).max(Duration::from_secs(1))
}
