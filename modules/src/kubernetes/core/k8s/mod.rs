//! `k8s`: creates, changes and deletes objects of a cluster.

mod apply;
mod definitions;
mod difference;
mod hash;
mod labels;
mod lists;
mod object;
mod schema;
mod settle;

use serde_json::{Value, json};

use super::{
    access::with_cluster,
    client::{ApiError, Client},
    k8s_info::unanswered,
    objects::hidden,
    wait::{self, Patience, Until},
};
use crate::{Args, Check, Failure, Host, Kind, Map, Module, Opt, Outcome, Plan, Return, Spec};

/// The `k8s` module.
pub struct K8s;

/// Specification of `k8s`.
pub static SPEC: Spec = Spec {
    name: "k8s",
    collection: "kubernetes.core",
    summary: "Create, change and delete Kubernetes objects",
    description: &[
        "Connects to the API server directly, without kubectl or Python. Patches an existing object with the \
         definition; the task is changed if the object differs afterwards.",
        "With `apply`, stores the last applied definition in an annotation, like `kubectl apply`, and removes fields \
         that the new definition drops.",
        "In check mode the server itself predicts (a dry run), so it also reports refusals. With `--diff`, the \
         result contains the differences.",
        "`src` and `kubeconfig` are files on the host. If the host is the control machine, they are searched for \
         like files of `copy`. `template` names one or more files of the project.",
    ],
    options: with_cluster![
        Opt::new(
            "state",
            Kind::Str,
            "`present` creates or patches, `patched` only patches existing objects, `absent` deletes."
        )
        .choices(&["present", "absent", "patched"])
        .default("\"present\""),
        Opt::new("kind", Kind::Str, "Kind of the object, if the definition does not contain it."),
        Opt::new("name", Kind::Str, "Name of the object, if the definition does not contain it."),
        Opt::new("namespace", Kind::Str, "Namespace of the object, if the definition does not contain it."),
        Opt::new("api_version", Kind::Str, "Group and version of the kind, if the definition does not contain it.")
            .aliases(&["api", "version"])
            .default("\"v1\""),
        Opt::new(
            "resource_definition",
            Kind::Raw,
            "Object as a mapping, a list of mappings, or YAML with one or more documents."
        )
        .aliases(&["definition", "inline"]),
        Opt::new("src", Kind::Path, "File with objects on the host, or its URL."),
        Opt::new(
            "template",
            Kind::Raw,
            "Template with objects: its path, a mapping with `path` and the options of `template`, or a list of both.",
        ),
        Opt::new("force", Kind::Bool, "Replace an existing object instead of patching it.").default("false"),
        Opt::new("apply", Kind::Bool, "Compare with the last applied definition, like `kubectl apply`.")
            .default("false"),
        Opt::new(
            "server_side_apply",
            Kind::Dict,
            "With `apply`: apply on the server, which tracks the owner of every field."
        )
        .options(&[
            Opt::required("field_manager", Kind::Str, "Name of the owner of the fields."),
            Opt::new("force_conflicts", Kind::Bool, "Take over fields that others own.").default("false"),
        ]),
        Opt::new(
            "merge_type",
            Kind::List(&Kind::Str),
            "Patch types to try in order until the server accepts one. Default: `strategic-merge`, then `merge`."
        )
        .choices(&["merge", "strategic-merge"]),
        Opt::new("append_hash", Kind::Bool, "Append a hash of the content to the name of a ConfigMap or Secret.")
            .default("false"),
        Opt::new("generate_name", Kind::Str, "Prefix from which the server generates a name."),
        Opt::new(
            "label_selectors",
            Kind::List(&Kind::Str),
            "Labels that definitions, or objects to delete, must have."
        ),
        Opt::new(
            "delete_all",
            Kind::Bool,
            "With `state: absent` and no name: delete all objects of the kind in the namespace."
        )
        .aliases(&["all"])
        .default("false"),
        Opt::new("delete_options", Kind::Dict, "Options for deleting an object.").options(&[
            Opt::new("propagationPolicy", Kind::Str, "Handling of dependent objects.").choices(&[
                "Foreground",
                "Background",
                "Orphan"
            ]),
            Opt::new("gracePeriodSeconds", Kind::Int, "Seconds for a pod to terminate."),
            Opt::new("preconditions", Kind::Dict, "Conditions that must hold for the deletion.").options(&[
                Opt::new("resourceVersion", Kind::Str, "Resource version that the object must have."),
                Opt::new("uid", Kind::Str, "UID that the object must have."),
            ]),
        ]),
        Opt::new("validate", Kind::Dict, "Validate definitions against the server's schema before sending them.")
            .options(&[
                Opt::new("fail_on_error", Kind::Bool, "Fail on an invalid definition instead of warning."),
                Opt::new(
                    "version",
                    Kind::Str,
                    "No effect, because the server's version applies; accepted for compatibility."
                ),
                Opt::new("strict", Kind::Bool, "Reject fields that the kind does not have.").default("true"),
            ]),
        Opt::new("continue_on_error", Kind::Bool, "With several objects, continue after one that failed.")
            .default("false"),
        Opt::new(
            "hidden_fields",
            Kind::List(&Kind::Str),
            "Fields to remove from the result, such as `metadata.managedFields`."
        ),
        wait::OPTIONS[0],
        wait::OPTIONS[1],
        wait::OPTIONS[2],
        wait::OPTIONS[3],
    ],
    mutually_exclusive: &[
        &["resource_definition", "src"],
        &["merge_type", "apply"],
        &["template", "resource_definition"],
        &["template", "src"],
        &["name", "generate_name"],
    ],
    check: Check::Full,
    examples: "- name: A namespace\n  kubernetes.core.k8s:\n    kind: Namespace\n    name: shop\n    kubeconfig: /etc/kubernetes/admin.conf\n\n\
               - name: A deployment that is up\n  kubernetes.core.k8s:\n    template: deployment.yml.j2\n    namespace: shop\n    wait: true\n\n\
               - name: An address that nobody needs\n  kubernetes.core.k8s:\n    state: absent\n    kind: Service\n    namespace: shop\n    name: old\n",
    returns: &[
        Return {
            name: "result",
            kind: "dict",
            when: "success",
            doc: "Object after the task. With several objects, `results` holds one such result for each.",
        },
        Return {
            name: "method",
            kind: "str",
            when: "one object",
            doc: "Operation that was performed: `create`, `update`, `replace`, `apply`, `delete`.",
        },
        Return { name: "duration", kind: "int", when: "`wait`", doc: "Seconds spent waiting." },
        Return {
            name: "diff",
            kind: "dict",
            when: "`--diff` and the object existed",
            doc: "Differences of the object: `before` and `after`.",
        },
        Return { name: "error", kind: "dict", when: "`continue_on_error`, in `results`", doc: "Error of this object." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for K8s {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let task = Task::of(args, host)?;
        if host.check() {
            // In check mode the server predicts.
            let mut plan = Plan::unchanged();
            task.run(host, &mut plan.outcome)?;
            return Ok(plan);
        }
        Ok(Plan::change(move |host, outcome| task.run(host, outcome)))
    }
}

/// The parsed arguments.
struct Task {
    client: Client,
    definitions: Vec<Value>,
    state: State,
    apply: bool,
    force: bool,
    merge_types: Vec<String>,
    append_hash: bool,
    label_selectors: Vec<String>,
    delete_options: Map,
    server_side_apply: Option<ServerSide>,
    hidden_fields: Vec<String>,
    continue_on_error: bool,
    until: Option<Until>,
    patience: Patience,
    validation: Option<Validation>,
}

/// Validation of definitions before they are sent.
struct Validation {
    fail: bool,
    strict: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Present,
    Patched,
    Absent,
}

struct ServerSide {
    manager: String,
    force: bool,
}

/// Outcome for one object.
#[derive(Default)]
struct Done {
    changed: bool,
    /// Keys of the result other than `changed`.
    data: Map,
    warnings: Vec<String>,
}

impl Task {
    fn of(args: &Args, host: &Host) -> Result<Task, Failure> {
        let client = Client::of(args, host)?;
        let texts = |name: &str| -> Vec<String> { args.list(name).into_iter().map(str::to_owned).collect() };
        let state = match args.required("state")? {
            "absent" => State::Absent,
            "patched" => State::Patched,
            _ => State::Present,
        };
        let alone = ["name", "resource_definition", "src"].iter().all(|name| args.value(name).is_none());
        let definitions = if args.bool("delete_all") && state == State::Absent && alone {
            all_of_kind(&client, args, host)?
        } else {
            definitions::of(args, host)?
        };
        let given = |name: &str| args.value(name).and_then(Value::as_object);
        Ok(Task {
            client,
            definitions,
            state,
            apply: args.bool("apply"),
            force: args.bool("force"),
            merge_types: texts("merge_type"),
            append_hash: args.bool("append_hash"),
            label_selectors: texts("label_selectors"),
            delete_options: given("delete_options").map(without_nulls).unwrap_or_default(),
            server_side_apply: given("server_side_apply").map(|options| ServerSide {
                manager: options.get("field_manager").and_then(Value::as_str).unwrap_or_default().to_owned(),
                force: options.get("force_conflicts").and_then(Value::as_bool).unwrap_or(false),
            }),
            hidden_fields: texts("hidden_fields"),
            continue_on_error: args.bool("continue_on_error"),
            until: args.bool("wait").then(|| if state == State::Absent { Until::Absent } else { Until::of(args) }),
            patience: Patience::of(args),
            validation: given("validate").map(|options| Validation {
                fail: options.get("fail_on_error").and_then(Value::as_bool).unwrap_or(false),
                strict: options.get("strict").and_then(Value::as_bool).unwrap_or(true),
            }),
        })
    }

    /// Processes all objects, or has the server predict.
    fn run(self, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
        outcome.changed = false;
        let mut all = Vec::new();
        let mut complaints = self.complaints(host)?.into_iter();
        for definition in &self.definitions {
            host.check_cancelled()?;
            let complaints = complaints.next().unwrap_or_default();
            let mut done = match self.object(definition.clone(), host) {
                Ok(done) => done,
                Err(failure) if self.continue_on_error => {
                    let mut error = failure.data;
                    error.insert("msg".into(), failure.message.into());
                    let data = [("result".to_owned(), json!({})), ("error".to_owned(), error.into())];
                    Done { data: data.into_iter().collect(), ..Done::default() }
                }
                Err(failure) => return Err(failure),
            };
            done.warnings.extend(complaints);
            all.push(done);
        }
        outcome.changed = all.iter().any(|done| done.changed);
        if all.len() == 1 {
            for done in all {
                outcome.data.extend(done.data);
                outcome.warnings.extend(done.warnings);
            }
            return Ok(());
        }
        let results: Vec<Value> = all.into_iter().map(Done::into_json).collect();
        outcome.set("result", json!({ "results": results }));
        Ok(())
    }

    /// Validation errors of each definition, if requested.
    fn complaints(&self, host: &Host) -> Result<Vec<Vec<String>>, Failure> {
        let Some(validation) = &self.validation else { return Ok(Vec::new()) };
        let schemas = schema::Schemas::of(&self.client, host).map_err(|error| unanswered(&error))?;
        let mut all = Vec::new();
        for definition in &self.definitions {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let object = format!("{} {}", text(&definition["kind"]), text(&definition["metadata"]["name"]));
            let unknown = || vec!["the server has no schema of it, so it is not checked".to_owned()];
            let found = schemas.errors(definition, validation.strict);
            let is_wrong = found.as_ref().is_some_and(|errors| !errors.is_empty());
            let complaints: Vec<String> =
                found.unwrap_or_else(unknown).into_iter().map(|error| format!("{object}: {error}")).collect();
            if is_wrong && validation.fail {
                return Err(Failure::new(complaints.join("\n")));
            }
            all.push(complaints);
        }
        Ok(all)
    }

    fn shown(&self, object: &Value) -> Value {
        let fields: Vec<&str> = self.hidden_fields.iter().map(String::as_str).collect();
        hidden(object, &fields)
    }
}

impl Done {
    fn into_json(self) -> Value {
        let mut data = self.data;
        data.insert("changed".into(), self.changed.into());
        if !self.warnings.is_empty() {
            data.insert("warnings".into(), json!(self.warnings));
        }
        data.into()
    }
}

fn without_nulls(map: &Map) -> Map {
    let pairs = map.iter().filter(|(_, value)| !value.is_null());
    pairs
        .map(|(key, value)| {
            (key.clone(), value.as_object().map_or_else(|| value.clone(), |inner| without_nulls(inner).into()))
        })
        .collect()
}

/// All objects of a kind in a namespace.
fn all_of_kind(client: &Client, args: &Args, host: &Host) -> Result<Vec<Value>, Failure> {
    let kind =
        args.str("kind").ok_or_else(|| Failure::new("'kind' option is required to specify the resource type."))?;
    let version = args.required("api_version")?;
    let resource = object::resource(client, kind, version, host)?;
    let which = super::client::Selection {
        namespace: args.str("namespace").map(str::to_owned),
        labels: args.list("label_selectors").into_iter().map(str::to_owned).collect(),
        ..Default::default()
    };
    match client.read(&resource, &which, host) {
        Ok(list) => Ok(super::objects::items(&list).to_vec()),
        Err(ApiError { status: 404 | 405, .. }) => Ok(Vec::new()),
        Err(error) => Err(error.failure("Failed to retrieve requested object")),
    }
}
