//! `kubeadm`: adds nodes to a cluster, keeps them in it, and removes them.
//!
//! The state of a node is read from its files and, on control planes, from its API server. A marker file records an
//! unfinished change, so that the next run recognises and completes an interrupted one.

use std::time::Duration;

use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Plan, Return, Spec};

mod decide;
mod join;
mod lock;
mod node;
mod planes;
mod publish;
mod reconfigure;
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
    summary: "Add nodes to a Kubernetes cluster with kubeadm",
    description: &[
        "`init` creates the first control plane, `join` adds a further node. Both examine the node first: they leave \
         a member alone, complete an interrupted `init` or `join`, and refuse any other node.",
        "`token` creates a token for joining, and `certificate_key` uploads the certificates for further control planes. \
         `token_absent` deletes them. `init` deletes the token that kubeadm creates, unless the configuration has tokens.",
        "`reset` removes a node, `upgrade` moves a node to another version.",
        "`reconfigured` applies a changed configuration to the static pods of a control plane. It writes only manifests \
         that differ, one after the other, and waits until each component answers. If one does not, its former manifest \
         is put back. Issues the API server's certificate again if it lacks names. With diff, prints changed flags.",
        "Resets, upgrades or restarts a control plane only while a majority of the others is healthy. With stacked etcd, a \
         majority of etcd members must remain too. `can_stop` and `can_restart` only check this and fail otherwise.",
        "Changes one control plane of a cluster at a time, also when several hosts or runs ask for it: the Lease \
         `kube-system/windlass-control-planes` is held from the last check to the end of the change. Waits an hour for it \
         at most. With `allow_unsafe`, or where all control planes go together, neither is done.",
        "Passes tokens and keys in files that only root can read, never as arguments of a process.",
    ],
    options: &[
        Opt::required("state", Kind::Str, "State of the node, or operation to perform.").choices(&[
            "init",
            "join",
            "token",
            "token_absent",
            "certificate_key",
            "reset",
            "upgrade",
            "reconfigured",
            "can_stop",
            "can_restart",
        ]),
        Opt::new("config", Kind::Path, "Path of a kubeadm configuration file on the host."),
        Opt::new("config_content", Kind::Str, "Content of the kubeadm configuration, instead of a file.").secret(),
        Opt::new("control_plane", Kind::Bool, "Join or upgrade the node as a control plane.").default("false"),
        Opt::new("skip_phases", Kind::List(&Kind::Str), "Phases to skip, such as `addon/coredns`.").default("[]"),
        Opt::new("ignore_preflight_errors", Kind::List(&Kind::Str), "Preflight checks whose errors count as warnings.")
            .default("[]"),
        Opt::new(
            "upload_certs",
            Kind::Bool,
            "With `init`: upload the certificates for control planes that join within two hours.",
        )
        .default("true"),
        Opt::new(
            "api_endpoint",
            Kind::Str,
            "With `join` and no configuration: `host:port` of the API server to join through. With `reconfigured` and \
             `first`: address to publish for nodes that join.",
        ),
        Opt::new(
            "token",
            Kind::Str,
            "With `join` and no configuration: bootstrap token to use. With `token`: bootstrap token to create unless it \
             exists; default: a new random one. With `token_absent`: bootstrap token to delete.",
        )
        .secret(),
        Opt::new(
            "ca_cert_hash",
            Kind::List(&Kind::Str),
            "With `join` and no configuration: hash of the cluster's CA, as `sha256:...`.",
        )
        .default("[]"),
        Opt::new(
            "certificate_key",
            Kind::Str,
            "With `join` as control plane and no configuration: key of the uploaded certificates. With `token_absent`: \
             the uploaded certificates are deleted too.",
        )
        .secret(),
        Opt::new(
            "advertise_address",
            Kind::Str,
            "With `join` as control plane and no configuration: address of the node's API server.",
        ),
        Opt::new("token_ttl", Kind::Str, "With `token`: lifetime of a new token.").default("\"30m0s\""),
        Opt::new("version", Kind::Str, "With `upgrade`: version to move to, such as `v1.31.2`."),
        Opt::new(
            "first",
            Kind::Bool,
            "With `upgrade`: treat this node as the first control plane, which upgrades the cluster's own \
             configuration. With `reconfigured`: store the configuration and `api_endpoint` in the cluster.",
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
            "Name of the node. Default: the name in the configuration, otherwise the host name.",
        ),
        Opt::new("cri_socket", Kind::Str, "Socket of the container runtime."),
        Opt::new(
            "cert_dir",
            Kind::Path,
            "Folder of the cluster's certificates. Default: the folder in the configuration, otherwise kubeadm's own \
             default.",
        ),
        Opt::new("kubeadm", Kind::Str, "Name or path of the kubeadm program.").default("\"kubeadm\""),
        Opt::new("kubectl", Kind::Str, "Name or path of the kubectl program, which queries the API server.")
            .default("\"kubectl\""),
        Opt::new(
            "etcdctl",
            Kind::Str,
            "Name or path of the etcdctl program, which lists the members of stacked etcd. Learners do not count in the \
             majority. Without it, every pod of etcd counts as a voter.",
        )
        .default("\"etcdctl\""),
        Opt::new("timeout", Kind::Int, "Seconds to allow kubeadm.").default("900"),
        Opt::new(
            "api_timeout",
            Kind::Int,
            "Seconds to wait for the API server of a node that is already a member. With `reconfigured`: seconds to wait \
             for each component.",
        )
        .default("120"),
        Opt::new(
            "names",
            Kind::List(&Kind::Str),
            "With `can_stop`, `can_restart` and `reset`: nodes that stop together. Default: this node. If they are \
             all control planes, the task means the whole cluster.",
        )
        .default("[]"),
        Opt::new(
            "control_planes",
            Kind::Dict,
            "All control planes that the caller knows: node names with the URLs of their API servers (empty: the \
             node's own address). The names are used only while no API server answers.",
        ),
        Opt::new("api_port", Kind::Int, "Port of API servers that `control_planes` does not name.").default("6443"),
        Opt::new(
            "kubeconfig",
            Kind::Path,
            "Path of the administrator's kubeconfig, used to query other control planes. With `reconfigured`, the folder \
             `manifests` beside it has the static pods.",
        )
        .default("\"/etc/kubernetes/admin.conf\""),
        Opt::new(
            "allow_unsafe",
            Kind::Bool,
            "Override a refusal. Without the last API server the cluster cannot be changed, and without etcd's \
             majority its data is lost.",
        )
        .default("false"),
    ],
    mutually_exclusive: &[&["config", "config_content"]],
    required_if: &[("state", "upgrade", &["version"]), ("state", "token_absent", &["token"])],
    check: Check::Full,
    examples: "- name: The first control plane\n  windlass.kubernetes.kubeadm:\n    state: init\n    config: /etc/kubernetes/kubeadm-config.yaml\n    skip_phases: [addon/coredns]\n  register: first\n  no_log: true\n\n- name: Further control planes\n  windlass.kubernetes.kubeadm:\n    state: join\n    control_plane: true\n    config: /etc/kubernetes/kubeadm-join.yaml\n",
    returns: &[
        Return {
            name: "action",
            kind: "str",
            when: "always",
            doc: "Operation that was (or would be) performed: none, init, repair, join, finish, reset, upgrade, \
                  reconfigure, create, delete.",
        },
        Return {
            name: "components",
            kind: "list",
            when: "reconfigured",
            doc: "Static pods whose manifests changed (or would).",
        },
        Return {
            name: "added_names",
            kind: "list",
            when: "reconfigured",
            doc: "Names that the API server's certificate lacked.",
        },
        Return { name: "reason", kind: "str", when: "init, join", doc: "Reason for the operation." },
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
            doc: "Whether no control plane would remain.",
        },
        Return {
            name: "refused",
            kind: "bool",
            when: "failed",
            doc: "Whether the majority or the lock forbade the change.",
        },
        Return { name: "token", kind: "str", when: "token", doc: "Bootstrap token." },
        Return {
            name: "ca_cert_hash",
            kind: "str",
            when: "init, token, certificate_key",
            doc: "Hash of the cluster's CA, for `caCertHashes`.",
        },
        Return {
            name: "certificate_key",
            kind: "str",
            when: "certificate_key",
            doc: "Key of the uploaded certificates.",
        },
        Return {
            name: "stdout",
            kind: "str",
            when: "changed",
            doc: "Standard output of kubeadm, without tokens and keys.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

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
            "token_absent" => tokens::plan_token_absent(tool, args),
            "certificate_key" => tokens::plan_certificate_key(tool),
            "reset" => reset::plan(tool, args, host),
            "upgrade" => upgrade::plan(tool, args, host),
            "reconfigured" => reconfigure::plan(tool, args, host),
            "can_stop" => planes::plan(&tool, args, Purpose::Stop, host),
            "can_restart" => planes::plan(&tool, args, Purpose::Restart, host),
            other => Err(Failure::new(format!("state {other} is not known to kubeadm."))),
        }
    }
}

fn seconds(args: &Args, name: &str, default: u64) -> Duration {
    args.seconds(name, default).max(Duration::from_secs(1))
}
