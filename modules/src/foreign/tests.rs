//! Tests of foreign modules with shell scripts: every protocol of arguments, results in noisy output, missing programs.

use std::{
    io::{Cursor, Read},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use windlass_protocol::{Content, Delivery, Event};

use super::run;
use crate::{Failure, Host, Sink};

/// Controller with a single content that counts how often it is read.
struct Controller {
    content: Vec<u8>,
    read: AtomicUsize,
}

impl Sink for Controller {
    fn event(&self, _event: Event, _blob: &[u8]) {}

    fn content(&self, _index: usize) -> Result<Box<dyn Read>, Failure> {
        self.read.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Cursor::new(self.content.clone())))
    }
}

fn host(content: &[u8]) -> (Arc<Controller>, Host) {
    let controller = Arc::new(Controller { content: content.to_vec(), read: AtomicUsize::new(0) });
    let description = Content {
        name: "module".into(),
        size: content.len() as u64,
        sha1: "0123".into(),
        sha256: None,
        mode: 0o644,
        delivery: Delivery::OnDemand,
    };
    let host = Host::new(Arc::<Controller>::clone(&controller)).with_contents(vec![description]);
    (controller, host)
}

fn answer(protocol: &str, interpreter: &[&str], script: &str, arguments: Value) -> Value {
    let request = json!({
        "module": "m", "protocol": protocol, "file": "m.sh", "interpreter": interpreter, "arguments": arguments,
    });
    run(&request, &host(script.as_bytes()).1)
}

#[test]
fn script_receives_arguments_as_pairs_file() {
    let script = r#". "$1"; echo "{\"msg\": \"$name-$flag-$(basename "$0")\"}""#;
    let result = answer("key_value_file", &["/bin/sh"], script, json!({"name": "it's me", "flag": true}));
    assert_eq!(result, json!({"msg": "it's me-True-m.sh"}));
}

#[test]
fn job_keeps_output_beside_result() {
    let script = "echo careful >&2; echo '{\"changed\": true}'";
    let request = json!({
        "module": "m", "protocol": "json_file", "file": "m.sh", "interpreter": ["/bin/sh"], "arguments": {},
    });
    let mut host = host(script.as_bytes()).1;
    assert_eq!(run(&request, &host), json!({"changed": true}));
    host.detached = true;
    assert_eq!(run(&request, &host), json!({"changed": true, "module_stderr": "careful\n"}));
}

#[test]
fn script_receives_arguments_as_json_file() {
    let script = r#"printf '{"got": %s}' "$(cat "$1")""#;
    let result = answer("json_file", &["/bin/sh"], script, json!({"list": [1, null]}));
    assert_eq!(result["got"]["list"], json!([1, null]));
}

#[test]
fn script_receives_arguments_in_its_text() {
    let script = "cat <<'END'\n{\"got\": <<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>}\nEND\n";
    let result = answer("json_in_text", &["/bin/sh"], script, json!({"a": "b\\c'd"}));
    assert_eq!(result["got"]["a"], "b\\c'd");
}

#[test]
fn program_runs_without_interpreter() {
    let result = answer("json_file", &[], "#!/bin/sh\necho '{\"changed\": true}'\n", json!({}));
    assert_eq!(result, json!({"changed": true}));
}

#[test]
fn output_around_result_ignored() {
    let script = "echo 'Last login: now'; printf '{\\n\"a\": \"\\\\udc80x\", \"b\": NaN\\n}\\nbye\\n'";
    assert_eq!(answer("json_file", &["/bin/sh"], script, json!({})), json!({"a": "\u{fffd}x", "b": null}));
}

#[test]
fn module_without_result_fails() {
    let result = answer("json_file", &["/bin/sh"], "echo out; echo 'boom' >&2; exit 3", json!({}));
    assert_eq!((&result["failed"], &result["rc"]), (&json!(true), &json!(3)));
    assert_eq!((&result["module_stdout"], &result["module_stderr"]), (&json!("out\n"), &json!("boom\n")));
    assert!(result["msg"].as_str().unwrap().starts_with("MODULE FAILURE"), "{result}");
}

#[test]
fn missing_interpreter_named_with_remedy() {
    let message = answer("json_file", &["/no/such/perl"], "", json!({}))["msg"].clone();
    let message = message.as_str().unwrap();
    assert!(message.contains("/no/such/perl") && message.contains("ansible_perl_interpreter"), "{message}");
}

#[test]
fn missing_python_named_with_candidates() {
    let request = json!({"module": "m", "protocol": "python", "candidates": ["python9.9", "/opt/python9"]});
    let message = run(&request, &host(b"").1)["msg"].clone();
    let message = message.as_str().unwrap();
    assert!(message.contains("python9.9, /opt/python9") && message.contains("ansible_python_interpreter"), "{message}");
}

#[test]
fn module_transferred_once_per_session() {
    let (controller, host) = host(b"echo '{}'");
    let request = json!({"module": "m", "protocol": "json_file", "file": "m", "interpreter": ["/bin/sh"]});
    for _ in 0..3 {
        assert_eq!(run(&request, &host), json!({}));
    }
    assert_eq!(controller.read.load(Ordering::Relaxed), 1);
    host.store.clear();
    assert_eq!(run(&request, &host), json!({}));
    assert_eq!(controller.read.load(Ordering::Relaxed), 2);
}
