//! `kube`: objects of a Kubernetes cluster, through kubectl on the host.

use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Plan, Return, Spec};

mod apply;
pub(super) mod kubectl;
mod marks;
mod nodes;
mod objects;
mod wait;

/// The `kube` module.
pub struct Kube;

static SPEC: Spec = Spec {
    name: "kube",
    collection: "windlass.kubernetes",
    summary: "Apply, delete, read, label and wait for Kubernetes objects",
    description: &[
        "Runs `kubectl` on the host, which is the only requirement. The task is changed only if an object changed.",
        "With `labels`, `annotations` or `taints`, reads the object first and sets only what differs. A `null` \
         value, or a taint that ends in `-`, removes the mark.",
        "In check mode the API server itself predicts (a server-side dry run). With `--diff`, `kubectl diff` shows \
         the changes.",
    ],
    options: &[
        Opt::new(
            "state",
            Kind::Str,
            "`present` and `latest` apply, `reloaded` replaces, `absent` deletes, `get` and `exists` read, `wait` \
             waits for a condition. `cordoned` and `uncordoned` stop and resume scheduling on a node; `drained` also \
             evicts its pods.",
        )
        .default("\"present\"")
        .choices(&[
            "present",
            "latest",
            "reloaded",
            "absent",
            "get",
            "exists",
            "wait",
            "cordoned",
            "uncordoned",
            "drained",
        ]),
        Opt::new("src", Kind::List(&Kind::Path), "Files or folders with objects, on the host.")
            .aliases(&["filename", "file", "files"])
            .default("[]"),
        Opt::new("definition", Kind::Raw, "Objects as text, as a mapping or as a list of mappings.")
            .aliases(&["content"]),
        Opt::new("recursive", Kind::Bool, "Include files in subfolders of `src`.").default("false"),
        Opt::new("kustomize", Kind::Path, "Folder with a kustomization."),
        Opt::new("kind", Kind::Str, "Kind of the object, such as `deployment` or `deployments.apps`.")
            .aliases(&["resource"]),
        Opt::new("name", Kind::Str, "Name of the object."),
        Opt::new("namespace", Kind::Str, "Namespace of the object."),
        Opt::new("all_namespaces", Kind::Bool, "Read or wait for objects of all namespaces.").default("false"),
        Opt::new("all", Kind::Bool, "Select all objects of the kind.").default("false"),
        Opt::new(
            "label_selector",
            Kind::Str,
            "Select objects with these labels; with `drained`, evict only pods with them.",
        )
        .aliases(&["label", "selector"]),
        Opt::new("field_selector", Kind::Str, "Select objects with these fields."),
        Opt::new("labels", Kind::Dict, "Labels to set on the object."),
        Opt::new("annotations", Kind::Dict, "Annotations to set on the object."),
        Opt::new(
            "taints",
            Kind::List(&Kind::Str),
            "Taints to set on the node, as `key=value:Effect`; a trailing `-` removes the taint.",
        )
        .default("[]"),
        Opt::new(
            "for",
            Kind::Str,
            "With `wait`: condition to wait for, such as `Ready`, `Ready=False`, `delete`, `rollout` or \
             `jsonpath=...`.",
        )
        .aliases(&["condition"])
        .default("\"Ready\""),
        Opt::new("wait", Kind::Bool, "Wait until deleted objects are gone.").default("false"),
        Opt::new(
            "force",
            Kind::Bool,
            "Delete and recreate objects that cannot be changed in place. With `drained`: delete pods that no \
             controller recreates. With `absent`: delete at once, without waiting for the end of pods.",
        )
        .default("false"),
        Opt::new(
            "grace_period",
            Kind::Int,
            "With `drained`: seconds for a pod to terminate. Default: the pod's own grace period.",
        ),
        Opt::new(
            "ignore_daemonsets",
            Kind::Bool,
            "With `drained`: skip pods of DaemonSets, which would be recreated immediately.",
        )
        .default("true"),
        Opt::new(
            "delete_emptydir_data",
            Kind::Bool,
            "With `drained`: evict pods that use emptyDir volumes, whose data is lost.",
        )
        .default("true"),
        Opt::new(
            "disable_eviction",
            Kind::Bool,
            "With `drained`: delete pods instead of evicting them, which ignores disruption budgets.",
        )
        .default("false"),
        Opt::new("server_side", Kind::Bool, "Apply on the server, which tracks the owner of every field.")
            .default("false"),
        Opt::new("timeout", Kind::Int, "Seconds to wait before failing.").default("300"),
        Opt::new("request_timeout", Kind::Int, "Seconds to wait for a single answer of the API server.").default("30"),
        Opt::new(
            "kubeconfig",
            Kind::Path,
            "Path of the kubeconfig. Default: `KUBECONFIG`, or the administrator's file of the node.",
        ),
        Opt::new("context", Kind::Str, "Context of the kubeconfig."),
        Opt::new("server", Kind::Str, "Address of the API server; overrides the kubeconfig."),
        Opt::new("kubectl", Kind::Str, "Name or path of the program.").default("\"kubectl\""),
        Opt::new("log_level", Kind::Int, "Log level of kubectl.").default("0"),
    ],
    mutually_exclusive: &[&["src", "definition", "kustomize"]],
    check: Check::Full,
    examples: "- name: Apply manifests\n  windlass.kubernetes.kube:\n    src: [/etc/kubernetes/addons/dns.yaml]\n\n- name: Mark a node\n  windlass.kubernetes.kube:\n    kind: node\n    name: worker1\n    labels:\n      disk: ssd\n      old: null\n    taints: [\"dedicated=db:NoSchedule\"]\n\n- name: Wait for the nodes\n  windlass.kubernetes.kube:\n    state: wait\n    kind: node\n    all: true\n    for: Ready\n    timeout: 600\n",
    returns: &[
        Return {
            name: "resources",
            kind: "list",
            when: "always",
            doc: "With `get`, `exists` and marks: the objects. Otherwise `kind`, `name` and `action` (created, \
                 configured, unchanged, deleted) of each object.",
        },
        Return { name: "exists", kind: "bool", when: "get, exists", doc: "Whether at least one object exists." },
        Return { name: "stdout", kind: "str", when: "changed", doc: "Standard output of kubectl." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Kube {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let client = kubectl::Kubectl::of(args);
        if let Some(guess) = client.guess(host) {
            return Ok(guess);
        }
        let marked =
            ["labels", "annotations"].iter().any(|name| args.value(name).is_some()) || !args.list("taints").is_empty();
        let state = args.required("state")?;
        match state {
            "get" | "exists" => {
                let found = client.get(args, host)?;
                Ok(Plan::unchanged().with("exists", !found.is_empty()).with("resources", found))
            }
            "wait" => wait::plan(client, args, host),
            "cordoned" | "uncordoned" => nodes::plan_cordon(client, args, state == "cordoned", host),
            "drained" => nodes::plan_drain(client, args, host),
            "absent" if marked => Err(Failure::new(
                "Labels, annotations and taints are removed with state present: give the label no value, or end the taint with `-`.",
            )),
            "absent" => apply::plan_absent(client, args, host),
            _ if marked => marks::plan(client, args, host),
            state => apply::plan_present(client, args, state == "reloaded", host),
        }
    }
}
