//! `k8s_info`: reads objects of a cluster.

use serde_json::{Value, json};

use super::{
    access::with_cluster,
    client::{ApiError, Client, Selection},
    discovery::Resource,
    objects::{exists, hidden, is_list, items},
    wait::{self, Interrupted, Patience, Until, wait},
};
use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Plan, Return, Spec};

/// The `k8s_info` module.
pub struct K8sInfo;

/// Specification of `k8s_info`.
pub static SPEC: Spec = Spec {
    name: "k8s_info",
    collection: "kubernetes.core",
    summary: "Read Kubernetes objects",
    description: &[
        "Reads one object by its name, or all objects in a namespace or in the cluster that match the selectors. \
         Connects to the API server directly.",
        "A missing object is not a failure; `resources` is empty. An unknown kind is not a failure either; \
         `api_found` is false.",
    ],
    options: with_cluster![
        Opt::required("kind", Kind::Str, "Kind of the object: `Deployment`, also `deployments` or `deploy`."),
        Opt::new("api_version", Kind::Str, "Group and version of the kind, such as `apps/v1`.")
            .aliases(&["api", "version"])
            .default("\"v1\""),
        Opt::new("name", Kind::Str, "Name of the object. Default: all objects."),
        Opt::new("namespace", Kind::Str, "Namespace of the object. Default: all namespaces."),
        Opt::new("label_selectors", Kind::List(&Kind::Str), "Labels that the objects must have, such as `app=web`.")
            .default("[]"),
        Opt::new(
            "field_selectors",
            Kind::List(&Kind::Str),
            "Fields that the objects must have, such as `status.phase=Running`."
        )
        .default("[]"),
        Opt::new(
            "hidden_fields",
            Kind::List(&Kind::Str),
            "Fields to remove from the result, such as `metadata.managedFields` or `spec.containers[0].env[3].value`."
        ),
        wait::OPTIONS[0],
        wait::OPTIONS[1],
        wait::OPTIONS[2],
        wait::OPTIONS[3],
    ],
    check: Check::Full,
    examples: "- name: The pods of an application\n  kubernetes.core.k8s_info:\n    kind: Pod\n    namespace: shop\n    label_selectors: [app=web]\n    \
               kubeconfig: /etc/kubernetes/admin.conf\n  register: pods\n\n- name: Wait for a deployment\n  kubernetes.core.k8s_info:\n    \
               kind: Deployment\n    api_version: apps/v1\n    name: web\n    namespace: shop\n    wait: true\n    wait_timeout: 300\n",
    returns: &[
        Return { name: "api_found", kind: "bool", when: "always", doc: "Whether the server knows the kind." },
        Return { name: "resources", kind: "list", when: "always", doc: "Objects that were found." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for K8sInfo {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let client = Client::of(args, host)?;
        let (kind, version) = (args.required("kind")?, args.required("api_version")?);
        let found = client.find(kind, version, host).map_err(|error| unanswered(&error))?;
        let Some(resource) = found else {
            let message = format!("Failed to find API for resource with apiVersion \"{version}\" and kind \"{kind}\"");
            return Ok(Plan::unchanged().with("resources", json!([])).with("msg", message).with("api_found", false));
        };
        let resources = find(&client, &resource, args, host)?;
        Ok(Plan::unchanged().with("resources", resources).with("api_found", true))
    }
}

fn find(client: &Client, resource: &Resource, args: &Args, host: &Host) -> Result<Vec<Value>, Failure> {
    let text = |name: &str| args.filled(name).map(str::to_owned);
    let list = |name: &str| args.list(name).into_iter().map(str::to_owned).collect();
    let which = Selection {
        name: text("name"),
        namespace: text("namespace"),
        labels: list("label_selectors"),
        fields: list("field_selectors"),
    };
    let patience = if args.bool("wait") { Patience::of(args) } else { Patience::NONE };
    let first = match wait(client, resource, &which, &Until::Exists, patience, host) {
        Ok(waited) => waited.object,
        // The server answers 400, for example, to a selector that the kind does not support.
        Err(Interrupted::Api(error)) if error.status == 400 => None,
        Err(interrupted) => return Err(interrupted.failure()),
    };
    let Some(first) = first.filter(|object| exists(Some(object))) else { return Ok(Vec::new()) };
    let found = if is_list(&first) { items(&first).to_vec() } else { vec![first] };
    let fields = args.list("hidden_fields");
    if !args.bool("wait") {
        return Ok(found.iter().map(|object| hidden(object, &fields)).collect());
    }
    let until = Until::of(args);
    let mut ready = Vec::new();
    for object in &found {
        let waited =
            wait(client, resource, &Selection::of(object), &until, patience, host).map_err(Interrupted::failure)?;
        if !waited.met {
            return Err(Failure::new(format!(
                "Failed to gather information about {}(s) even after waiting for {} seconds",
                resource.kind, waited.seconds
            )));
        }
        ready.extend(waited.object.map(|object| hidden(&object, &fields)));
    }
    Ok(ready)
}

impl Interrupted {
    pub(super) fn failure(self) -> Failure {
        match self {
            Interrupted::Api(error) => unanswered(&error),
            Interrupted::Cancelled(failure) => failure,
        }
    }
}

/// The failure if the server refused a query or was not reached.
pub(super) fn unanswered(error: &ApiError) -> Failure {
    match error.status {
        0 => Failure::new(error.body.clone()),
        status => Failure::new(format!(
            "The API server refused ({status} {}): {}.",
            error.reason,
            error.sentence().trim_end_matches('.')
        ))
        .with("status", status)
        .with("reason", error.reason.as_str()),
    }
}
