//! `kubernetes.core` against a small API server of our own; the lab tests it against a real one.

use std::{collections::BTreeMap, sync::Mutex};

use serde_json::{Value, json};

use crate::{
    case::Bench,
    server::{Answer, Asked, Server},
    with,
};

/// An API server with ConfigMaps, pods and nodes.
fn start() -> Server {
    let objects: Mutex<BTreeMap<String, Value>> = Mutex::default();
    let node = json!({ "kind": "Node", "metadata": { "name": "n1" }, "spec": {} });
    objects.lock().unwrap().insert("/api/v1/nodes/n1".into(), node);
    Server::start(move |asked| answer(asked, &mut objects.lock().unwrap()))
}

fn json_answer(status: u16, value: &Value) -> Answer {
    Answer::of(status, value.to_string()).with("Content-Type", "application/json")
}

fn answer(asked: &Asked, objects: &mut BTreeMap<String, Value>) -> Answer {
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    let refused = |status: u16, message: &str| json_answer(status, &json!({ "kind": "Status", "message": message }));
    if asked.header("authorization") != "Bearer secret" {
        return refused(401, "Unauthorized");
    }
    let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    match (asked.method.as_str(), path) {
        ("GET", "/api/v1") => {
            let resource = |name: &str, kind: &str, namespaced: bool| json!({ "name": name, "kind": kind, "namespaced": namespaced, "singularName": "" });
            let mut eviction = resource("pods/eviction", "Eviction", true);
            eviction["group"] = json!("policy");
            eviction["version"] = json!("v1beta1");
            let all = [
                resource("configmaps", "ConfigMap", true),
                resource("pods", "Pod", true),
                resource("nodes", "Node", false),
                eviction,
            ];
            json_answer(200, &json!({ "kind": "APIResourceList", "resources": all }))
        }
        ("GET", "/apis") => json_answer(200, &json!({ "groups": [] })),
        ("GET", "/openapi/v2") => json_answer(
            200,
            &json!({ "definitions": { "cm": {
            "type": "object",
            "properties": { "apiVersion": {}, "kind": {}, "metadata": {}, "data": { "type": "object", "additionalProperties": { "type": "string" } } },
            "x-kubernetes-group-version-kind": [{ "group": "", "version": "v1", "kind": "ConfigMap" }],
        } } }),
        ),
        ("GET", _) => match objects.get(path) {
            Some(object) => json_answer(200, object),
            None if path.ends_with('s') => {
                let items: Vec<&Value> = objects
                    .iter()
                    .filter(|(at, object)| {
                        at.contains("/namespaces/")
                            && object["kind"] == if path.ends_with("pods") { "Pod" } else { "ConfigMap" }
                    })
                    .map(|(_, object)| object)
                    .collect();
                json_answer(
                    200,
                    &json!({ "kind": if path.ends_with("pods") { "PodList" } else { "ConfigMapList" }, "apiVersion": "v1", "items": items }),
                )
            }
            None => refused(404, "not found"),
        },
        (_, _) if body["metadata"]["name"] == "forbidden" => refused(403, "robot may not do that"),
        ("POST", _) if path.ends_with("/eviction") => json_answer(201, &json!({ "kind": "Status" })),
        ("POST", _) => {
            if !query.contains("dryRun") {
                objects.insert(format!("{path}/{}", body["metadata"]["name"].as_str().unwrap()), body.clone());
            }
            json_answer(201, &body).with("Warning", "299 - \"this is old\"")
        }
        ("PATCH", _) => {
            let mut object = objects[path].clone();
            for part in ["data", "spec"] {
                if let Some(changes) = body[part].as_object() {
                    object[part].as_object_mut().unwrap().extend(changes.clone());
                }
            }
            // Every request increments the counters of a counted object, whether or not it changes.
            if let Some(generation) = object["metadata"]["generation"].as_u64() {
                object["metadata"]["generation"] = json!(generation + 1);
                object["metadata"]["managedFields"] = json!([{ "time": generation + 1 }]);
            }
            if !query.contains("dryRun") {
                objects.insert(path.to_owned(), object.clone());
            }
            json_answer(200, &object)
        }
        ("DELETE", _) => {
            if !query.contains("dryRun") {
                objects.remove(path);
            }
            json_answer(200, &json!({ "kind": "Status", "status": "Success" }))
        }
        _ => refused(405, "no"),
    }
}

fn access(server: &Server) -> Value {
    json!({ "host": format!("http://{}/", server.authority), "api_key": "secret" })
}

fn config_map(name: &str, value: &str) -> Value {
    json!({ "definition": { "kind": "ConfigMap", "metadata": { "name": name, "namespace": "a" }, "data": { "key": value } } })
}

#[test]
fn object_created_changed_read_and_deleted() {
    let (bench, server) = (Bench::new(), start());
    let access = access(&server);
    let args = with(&access, config_map("c", "1"));
    let predicted = bench.run("kubernetes.core.k8s", args.clone(), true);
    assert_eq!((&predicted["changed"], &predicted["method"]), (&json!(true), &json!("create")), "{predicted}");
    let made = bench.run("k8s", args.clone(), false);
    assert_eq!((&made["changed"], &made["result"]["data"]["key"]), (&json!(true), &json!("1")), "{made}");
    assert_eq!(made["warnings"], json!(["this is old"]));
    let same = bench.run("k8s", args, false);
    assert_eq!((&same["changed"], &same["diff"], &same["method"]), (&json!(false), &json!({}), &json!("update")));
    let changed = bench.run("k8s", with(&access, config_map("c", "2")), false);
    assert_eq!(changed["diff"], json!({ "before": { "data": { "key": "1" } }, "after": { "data": { "key": "2" } } }));
    let which = with(&access, json!({ "kind": "configmaps", "name": "c", "namespace": "a" }));
    let found = bench.run("k8s_info", which.clone(), false);
    assert_eq!((&found["api_found"], &found["resources"][0]["data"]["key"]), (&json!(true), &json!("2")), "{found}");
    let gone = bench.run("k8s", with(&which, json!({ "state": "absent" })), false);
    assert_eq!((&gone["changed"], &gone["method"]), (&json!(true), &json!("delete")), "{gone}");
    let none = bench.run("k8s_info", which.clone(), false);
    assert_eq!((&none["resources"], none.get("failed")), (&json!([]), None));
    assert_eq!(bench.run("k8s", with(&which, json!({ "state": "absent" })), false)["changed"], false);
}

#[test]
fn hidden_server_fields_are_no_change() {
    let (bench, server) = (Bench::new(), start());
    let mut args = with(&access(&server), config_map("c", "1"));
    args["definition"]["metadata"]["generation"] = json!(1);
    bench.run("k8s", args.clone(), false);
    let told = bench.run("k8s", args.clone(), false);
    assert_eq!(told["changed"], true, "{told}");
    let same = bench.run("k8s", with(&args, json!({ "hidden_fields": ["metadata.managedFields"] })), false);
    assert_eq!((&same["changed"], same["result"]["metadata"].get("managedFields")), (&json!(false), None), "{same}");
}

#[test]
fn several_objects_have_separate_results_continue_on_error() {
    let (bench, server) = (Bench::new(), start());
    let text = "kind: ConfigMap\nmetadata: {name: one, namespace: a}\n---\nkind: ConfigMap\nmetadata: {name: forbidden, namespace: a}\n---\nkind: ConfigMap\nmetadata: {name: two, namespace: a}\n";
    let args = with(&access(&server), json!({ "definition": text, "continue_on_error": true }));
    let result = bench.run("k8s", args.clone(), false);
    let results = &result["result"]["results"];
    assert_eq!((&results[0]["method"], &results[2]["changed"]), (&json!("create"), &json!(true)), "{result}");
    assert_eq!(results[1]["error"]["reason"], "Forbidden");
    let failed = bench.run("k8s", with(&args, json!({ "continue_on_error": false })), false);
    assert!(failed["msg"].as_str().unwrap().contains("robot may not do that"), "{failed}");
}

#[test]
fn impossible_request_fails_with_reason() {
    let (bench, server) = (Bench::new(), start());
    let access = access(&server);
    let message = |module: &str, args: Value| {
        let result = bench.run(module, args, false);
        assert_eq!(result["failed"], true, "{result}");
        result["msg"].as_str().unwrap().to_owned()
    };
    let kind = message("k8s", with(&access, json!({ "kind": "Nothing", "name": "x" })));
    assert_eq!(kind, "Failed to find exact match for v1.Nothing by [kind, name, singularName, shortNames]");
    let namespace = message("k8s", with(&access, json!({ "kind": "ConfigMap", "name": "x" })));
    assert_eq!(namespace, "Failed to create object: Namespace is required for v1.ConfigMap");
    let refused = message("k8s_info", with(&access, json!({ "kind": "Pod", "api_key": "wrong" })));
    assert!(refused.contains("401") && refused.contains("Unauthorized"), "{refused}");
    let down = message("k8s_info", json!({ "kind": "Pod", "host": "http://127.0.0.1:1", "api_key": "secret" }));
    assert!(down.contains("127.0.0.1:1"), "{down}");
    let broken = message("k8s", with(&access, json!({ "definition": "a: [1" })));
    assert!(broken.starts_with("Failed to load resource definition: "), "{broken}");
    let file = message("k8s", with(&access, json!({ "src": "@/none.yml" })));
    assert!(file.contains("none.yml could not be read"), "{file}");
    let config = message("k8s_info", json!({ "kind": "Pod", "kubeconfig": "@/none" }));
    assert!(config.starts_with("Could not create API client: there is no kubeconfig"), "{config}");
}

#[test]
fn kubeconfig_selects_server_and_credentials() {
    let (bench, server) = (Bench::new(), start());
    let config = json!({
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://{}", server.authority) } }],
        "users": [{ "name": "u", "user": { "token": "secret" } }, { "name": "v", "user": { "token": "old" } }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }, { "name": "y", "context": { "cluster": "c", "user": "v" } }],
        "current-context": "y",
    });
    bench.write("config", &config.to_string());
    for args in [json!({ "kubeconfig": "@/config", "context": "x" }), json!({ "kubeconfig": config, "context": "x" })] {
        let result = bench.run("k8s_info", with(&args, json!({ "kind": "Node", "name": "n1" })), false);
        assert_eq!(result["resources"][0]["metadata"]["name"], "n1", "{result}");
    }
    let result = bench.run("k8s_info", json!({ "kubeconfig": "@/config", "kind": "Node" }), false);
    assert_eq!(result["reason"], "Unauthorized", "{result}");
}

#[test]
fn definitions_validated_before_sending() {
    let (bench, server) = (Bench::new(), start());
    let wrong = json!({ "definition": { "kind": "ConfigMap", "metadata": { "name": "c", "namespace": "a" }, "data": { "key": 1 }, "dat": {} } });
    let args = with(&access(&server), wrong);
    let refused = bench.run("k8s", with(&args, json!({ "validate": { "fail_on_error": true } })), false);
    assert_eq!(
        refused["msg"],
        "ConfigMap c: data.key (1) is not of type 'string'\nConfigMap c: the object has 'dat', which is not a property of it"
    );
    assert!(server.asked().iter().all(|asked| asked.method == "GET"));
    let warned = bench.run("k8s", with(&args, json!({ "validate": { "strict": false } })), false);
    assert_eq!((&warned["changed"], warned["warnings"].as_array().unwrap().len()), (&json!(true), 2), "{warned}");
}

#[test]
fn node_drained_or_restored() {
    let (bench, server) = (Bench::new(), start());
    let access = access(&server);
    let args = with(&access, json!({ "name": "n1" }));
    let cordon = with(&args, json!({ "state": "cordon" }));
    assert_eq!(
        bench.run("kubernetes.core.k8s_drain", cordon.clone(), false)["result"],
        "node n1 marked unschedulable."
    );
    assert_eq!(bench.run("k8s_drain", cordon, false)["result"], "node n1 already marked unschedulable.");
    bench.run("k8s_drain", with(&args, json!({ "state": "uncordon" })), false);
    let pod = json!({ "definition": { "kind": "Pod", "metadata": { "name": "p", "namespace": "a" }, "spec": { "nodeName": "n1" }, "status": { "phase": "Running" } } });
    bench.run("k8s", with(&access, pod), false);
    let refused = bench.run("k8s_drain", args.clone(), false);
    assert!(refused["msg"].as_str().unwrap().contains("(use option force set to yes): a/p."), "{refused}");
    let node = bench.run("k8s_info", with(&access, json!({ "kind": "Node", "name": "n1" })), false);
    assert_eq!(node["resources"][0]["spec"]["unschedulable"], false);
    server.asked();
    let options = json!({ "delete_options": { "force": true, "terminate_grace_period": 0 } });
    let drained = bench.run("k8s_drain", with(&args, options), false);
    assert_eq!(drained["result"], "node n1 marked unschedulable. 1 Pod(s) deleted from node.", "{drained}");
    let eviction = server.asked().into_iter().find(|asked| asked.path.ends_with("/eviction")).unwrap();
    let body: Value = serde_json::from_slice(&eviction.body).unwrap();
    assert_eq!(
        (&body["apiVersion"], &body["deleteOptions"]["gracePeriodSeconds"]),
        (&json!("policy/v1beta1"), &json!(0))
    );
}

/// Output of Helm 3.8, from files that represent its state.
const HELM: &str = r#"echo "$@" >> $ROOT/calls
case "$1 $2" in
version*) echo 'version.BuildInfo{Version:"v3.8.1", GitCommit:"5cb9af4"}' ;;
'repo list') [ -e $ROOT/repo ] || { echo 'Error: no repositories to show' >&2; exit 1; }; printf -- '- name: demo\n  url: %s\n' "$(cat $ROOT/repo)" ;;
'repo add') echo "$4" > $ROOT/repo; echo "\"$3\" has been added to your repositories" ;;
'repo rm') rm $ROOT/repo ;;
'plugin list') printf 'NAME\tVERSION\tDESCRIPTION\n' ;;
'show chart') printf 'apiVersion: v2\nappVersion: "1.0"\nname: demo\nversion: 0.1.0\n' ;;
list*) if [ -e $ROOT/values ]; then printf -- '- app_version: "1.0"\n  chart: demo-0.1.0\n  name: web\n  namespace: shop\n  revision: "1"\n  status: deployed\n  updated: 2026-01-01 00:00:00 UTC\n'; else echo '[]'; fi ;;
'get values') cat $ROOT/values ;;
'upgrade -i') for word in "$@"; do case $word in -f=*) cat ${word#-f=} > $ROOT/values ;; esac; done; [ -e $ROOT/values ] || echo null > $ROOT/values; echo done ;;
uninstall*) rm $ROOT/values; echo 'release "web" uninstalled' ;;
*) echo "Error: unknown: $*" >&2; exit 1 ;;
esac
"#;

#[test]
fn helm_repository_added_and_removed() {
    let bench = Bench::new().program("helm", HELM);
    let args = json!({ "name": "demo", "repo_url": "https://charts.example" });
    let added = bench.run("kubernetes.core.helm_repository", args.clone(), false);
    assert!(added["command"].as_str().unwrap().ends_with("helm repo add demo https://charts.example"), "{added}");
    assert_eq!(added["stdout"], "\"demo\" has been added to your repositories\n");
    let same = bench.run("helm_repository", args.clone(), false);
    assert_eq!((&same["changed"], &same["repo_url"]), (&json!(false), &json!("https://charts.example")));
    let other = bench.run("helm_repository", with(&args, json!({ "repo_url": "https://other.example" })), false);
    assert_eq!(other["msg"], "Repository already have a repository named demo");
    let secret = json!({ "force": true, "username": "u", "password": "hidden" });
    let forced = bench.run("helm_repository", with(&args, secret), false);
    assert!(forced["command"].as_str().unwrap().ends_with("--username=u --password=****** --force-update"), "{forced}");
    let absent = json!({ "name": "demo", "state": "absent" });
    assert_eq!(bench.run("helm_repository", absent.clone(), true)["changed"], true);
    assert_eq!(bench.run("helm_repository", absent.clone(), false)["changed"], true);
    assert_eq!(bench.run("helm_repository", absent, false)["changed"], false);
}

#[test]
fn helm_release_installed_upgraded_and_removed() {
    let bench = Bench::new().program("helm", HELM);
    let args = json!({ "name": "web", "namespace": "shop", "chart_ref": "demo/demo", "values": { "colour": "red" } });
    let predicted = bench.run("kubernetes.core.helm", args.clone(), true);
    assert_eq!(predicted["changed"], true, "{predicted}");
    assert_eq!(predicted["status"], json!({ "values": { "current": {}, "declared": {} } }));
    let installed = bench.run("helm", args.clone(), false);
    assert_eq!(
        (&installed["changed"], &installed["status"]["values"]["colour"]),
        (&json!(true), &json!("red")),
        "{installed}"
    );
    assert!(installed["command"].as_str().unwrap().ends_with("web 'demo/demo'"), "{installed}");
    let same = bench.run("helm", args.clone(), false);
    assert_eq!((&same["changed"], &same["stdout"]), (&json!(false), &json!("")), "{same}");
    assert!(same["warnings"][0].as_str().unwrap().contains("Install helm diff"));
    assert_eq!(bench.run("helm", with(&args, json!({ "values": { "colour": "blue" } })), false)["changed"], true);
    let old = bench.run("helm", with(&args, json!({ "take_ownership": true })), false);
    assert_eq!(old["msg"], "take_ownership requires helm >= 3.17.0, current version is 3.8.1");
    let absent = json!({ "name": "web", "namespace": "shop", "state": "absent", "wait": true });
    let removed = bench.run("helm", absent.clone(), false);
    assert!(removed["command"].as_str().unwrap().ends_with("uninstall  --wait web"), "{removed}");
    let none = bench.run("helm", absent, false);
    assert_eq!((&none["changed"], &none["status"]), (&json!(false), &Value::Null));
}
