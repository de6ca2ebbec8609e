//! `kube`: objects of a Kubernetes cluster, through kubectl on the host.

use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Plan, Return, Spec};

mod apply;
mod client;
mod marks;
mod nodes;
mod objects;
mod wait;

/// The `kube` module.
pub struct Kube;

static SPEC: Spec = Spec {
    name: "kube",
    collection: "windlass.kubernetes",
    summary: "Apply, delete, read, mark and await Kubernetes objects",
    description: &[
        "Works through `kubectl` on the host, so that nothing else is needed there. A task is changed only if an object was.",
        "With `labels`, `annotations` or `taints`, the object is read first and only what differs is set; an empty value (`null`), or a \
         taint that ends in `-`, is taken away.",
        "In check mode the API server itself predicts (a server-side dry run); with `--diff`, `kubectl diff` shows what would change.",
    ],
    options: &[
        Opt::new(
            "state",
            Kind::Str,
            "`present` and `latest` apply; `absent` deletes; `get` and `exists` read; `wait` waits for a condition; `reloaded` \
             replaces; `cordoned`, `uncordoned` and `drained` are for a node that is to get no new pods, some again, or none at all.",
        )
        .default("\"present\"")
        .choices(&["present", "latest", "reloaded", "absent", "get", "exists", "wait", "cordoned", "uncordoned", "drained"]),
        Opt::new("src", Kind::List(&Kind::Path), "Files or folders with objects, on the host.").aliases(&["filename", "file", "files"]).default("[]"),
        Opt::new("definition", Kind::Raw, "Objects as text, as a mapping or as a list of mappings.").aliases(&["content"]),
        Opt::new("recursive", Kind::Bool, "Take files in folders below those of `src` too.").default("false"),
        Opt::new("kustomize", Kind::Path, "A folder with a kustomization."),
        Opt::new("kind", Kind::Str, "The kind of object, such as `deployment`, also as `deployments.apps`.").aliases(&["resource"]),
        Opt::new("name", Kind::Str, "The object's name."),
        Opt::new("namespace", Kind::Str, "The namespace."),
        Opt::new("all_namespaces", Kind::Bool, "Read or await objects of every namespace.").default("false"),
        Opt::new("all", Kind::Bool, "Every object of the kind.").default("false"),
        Opt::new("label_selector", Kind::Str, "Objects with these labels; `drained`: only pods with them.").aliases(&["label", "selector"]),
        Opt::new("field_selector", Kind::Str, "Objects with these fields."),
        Opt::new("labels", Kind::Dict, "Labels that the object is to have."),
        Opt::new("annotations", Kind::Dict, "Annotations that the object is to have."),
        Opt::new("taints", Kind::List(&Kind::Str), "Taints that the node is to have, as `key=value:Effect`; with `-` at the end, not to have.")
            .default("[]"),
        Opt::new(
            "for",
            Kind::Str,
            "What `wait` waits for: `Ready` or another condition, `Ready=False`, `delete`, `rollout`, or `jsonpath=...`.",
        )
        .aliases(&["condition"])
        .default("\"Ready\""),
        Opt::new("wait", Kind::Bool, "After a deletion, wait until the objects are gone.").default("false"),
        Opt::new("force", Kind::Bool, "Delete and create what cannot be changed in place; `drained`: delete pods that nothing brings back.").default("false"),
        Opt::new("grace_period", Kind::Int, "`drained`: seconds a pod has to end; each pod's own, if it is not given."),
        Opt::new("ignore_daemonsets", Kind::Bool, "`drained`: leave pods of DaemonSets, which would come back at once.").default("true"),
        Opt::new("delete_emptydir_data", Kind::Bool, "`drained`: evict pods whose data on the node goes with them.").default("true"),
        Opt::new("disable_eviction", Kind::Bool, "`drained`: delete pods, even against a disruption budget.").default("false"),
        Opt::new("server_side", Kind::Bool, "Apply on the server, which tracks the owner of every field.").default("false"),
        Opt::new("timeout", Kind::Int, "Seconds to wait.").default("300"),
        Opt::new("request_timeout", Kind::Int, "Seconds to wait for a single answer of the API server.").default("30"),
        Opt::new("kubeconfig", Kind::Path, "Which cluster, as whom. Without it, `KUBECONFIG` or the administrator's file of the node."),
        Opt::new("context", Kind::Str, "The context of the kubeconfig."),
        Opt::new("server", Kind::Str, "The API server's address, instead of the kubeconfig's."),
        Opt::new("kubectl", Kind::Str, "The program.").default("\"kubectl\""),
        Opt::new("log_level", Kind::Int, "How much kubectl tells.").default("0"),
    ],
    mutually_exclusive: &[&["src", "definition", "kustomize"]],
    check: Check::Full,
    examples: "- name: Apply manifests\n  windlass.kubernetes.kube:\n    src: [/etc/kubernetes/addons/dns.yaml]\n\n- name: Mark a node\n  windlass.kubernetes.kube:\n    kind: node\n    name: worker1\n    labels:\n      disk: ssd\n      old: null\n    taints: [\"dedicated=db:NoSchedule\"]\n\n- name: Wait for the nodes\n  windlass.kubernetes.kube:\n    state: wait\n    kind: node\n    all: true\n    for: Ready\n    timeout: 600\n",
    returns: &[
        Return {
            name: "resources",
            kind: "list",
            when: "always",
            doc: "Of `get`, `exists` and marks: the objects. Of the others: each with `kind`, `name` and `action` (created, configured, unchanged, deleted).",
        },
        Return { name: "exists", kind: "bool", when: "get, exists", doc: "Whether there is at least one." },
        Return { name: "stdout", kind: "str", when: "changed", doc: "What kubectl printed." },
    ],
    ..Spec::EMPTY
};

impl Module for Kube {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let client = client::Client::of(args);
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
                "Labels, annotations and taints are taken away with state present: give the label no value, or end the taint with `-`.",
            )),
            "absent" => apply::plan_absent(client, args, host),
            _ if marked => marks::plan(client, args, host),
            state => apply::plan_present(client, args, state == "reloaded", host),
        }
    }
}
