//! Traces of runs for OpenTelemetry: the shape that OTLP publishes, and collectors that take or refuse them.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output};
use std::thread::JoinHandle;

use serde_json::Value;

const PLAYBOOK: &str = "- name: Web servers\n  hosts: all\n  gather_facts: false\n  tasks:\n    - name: Several items\n      command: echo {{ item }}\n      loop: [one, two]\n      loop_control: {parallel: 2}\n    - name: Show the secret\n      command: echo {{ ansible_password }}\n    - name: Fails\n      command: sh -c 'echo {{ ansible_password }} >&2; exit 3'\n      when: inventory_hostname == 'b'\n";

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new() -> Project {
        let project = Project { folder: tempfile::tempdir().unwrap() };
        let hosts = "a\nb\n[all:vars]\nansible_connection=local\nansible_password=harbour-7-lantern\n";
        fs::write(project.folder.path().join("hosts"), hosts).unwrap();
        fs::write(project.folder.path().join("play.yml"), PLAYBOOK).unwrap();
        project
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(words);
        crate::project::enter(&mut command, self.folder.path());
        command.env("WINDLASS_PENDING_HANDLERS", "skip").env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        command.output().unwrap()
    }
}

/// A collector that answers one request with a status; returns its address, and the request line with the body.
fn collector(status: &'static str) -> (String, JoinHandle<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: 2\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{{}}"
        );
        stream.write_all(answer.as_bytes()).unwrap();
        (head, String::from_utf8(body).unwrap())
    });
    (address, served)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("`{name}` is not text in {value}"))
}

/// Value of an attribute, which names its type.
fn attribute(of: &Value, name: &str) -> Option<Value> {
    let found = of["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == name)?;
    let typed = found["value"].as_object().unwrap();
    assert_eq!(typed.len(), 1, "{found}");
    let (kind, value) = typed.iter().next().unwrap();
    assert!(["stringValue", "boolValue", "intValue", "arrayValue"].contains(&kind.as_str()), "{found}");
    Some(value.clone())
}

/// Checks a request against `ExportTraceServiceRequest` in JSON: hexadecimal ids, 64-bit numbers as texts, and spans
/// within their parents. Returns the spans.
fn spans(request: &Value) -> Vec<Value> {
    let resource = &request["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name").unwrap(), "windlass");
    let scope = &request["resourceSpans"][0]["scopeSpans"][0];
    assert_eq!(text(&scope["scope"], "name"), "windlass");
    let spans = scope["spans"].as_array().unwrap().clone();
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
    };
    let time = |span: &Value, name: &str| text(span, name).parse::<u64>().unwrap();
    let known: HashMap<&str, &Value> = spans.iter().map(|span| (text(span, "spanId"), span)).collect();
    assert_eq!(known.len(), spans.len(), "ids are unique");
    for span in &spans {
        assert!(is_hex(text(span, "traceId"), 32) && is_hex(text(span, "spanId"), 16), "{span}");
        assert_eq!(span["traceId"], spans[0]["traceId"]);
        assert_eq!(span["kind"], 1);
        assert!(time(span, "startTimeUnixNano") <= time(span, "endTimeUnixNano"), "{span}");
        match text(span, "parentSpanId") {
            "" => assert_eq!(span["spanId"], spans[0]["spanId"], "the run is the root"),
            parent => {
                let parent = known[parent];
                assert!(time(parent, "startTimeUnixNano") <= time(span, "startTimeUnixNano"), "{parent} {span}");
            }
        }
    }
    spans
}

fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

#[test]
fn collector_gets_run_plays_tasks_hosts_and_items_without_secrets() {
    let project = Project::new();
    let (address, served) = collector("200 OK");
    let output = project.run(&["playbook", "-i", "hosts", "play.yml", "--otlp", &address]);
    assert_eq!(output.status.code(), Some(2));
    let (head, body) = served.join().unwrap();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
    assert!(head.to_lowercase().contains("content-type: application/json"), "{head}");
    assert!(!body.contains("harbour-7"), "{body}");
    let spans = spans(&serde_json::from_str(&body).unwrap());
    let run = &spans[0];
    assert_eq!(text(run, "name"), "play.yml");
    assert_eq!(attribute(run, "cicd.pipeline.result").unwrap(), "failure");
    assert_eq!(run["status"]["code"], 2);
    let play = named(&spans, "Web servers")[0];
    assert_eq!(play["parentSpanId"], run["spanId"]);
    let task = named(&spans, "Fails")[0];
    assert_eq!(task["parentSpanId"], play["spanId"]);
    assert!(attribute(task, "code.file.path").unwrap().as_str().unwrap().ends_with("play.yml"));
    assert_eq!(attribute(task, "code.line.number").unwrap(), "11");
    let failed = spans.iter().find(|span| span["parentSpanId"] == task["spanId"] && span["name"] == "b").unwrap();
    assert_eq!(failed["status"]["code"], 2);
    assert_eq!(attribute(failed, "error.type").unwrap(), "failed");
    assert_eq!(attribute(failed, "host.name").unwrap(), "b");
    assert_eq!((named(&spans, "a").len(), named(&spans, "b").len(), named(&spans, "two").len()), (3, 3, 2));
}

#[test]
fn report_of_a_run_is_the_same_trace() {
    let project = Project::new();
    let (address, served) = collector("200 OK");
    project.run(&["playbook", "-i", "hosts", "play.yml", "--otlp", &address]);
    let sent: Value = serde_json::from_str(&served.join().unwrap().1).unwrap();
    let output = project.run(&["report", "--format", "otlp"]);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(spans(&printed), spans(&sent));
}

#[test]
fn collector_that_fails_is_a_warning() {
    let project = Project::new();
    let (address, served) = collector("503 Service Unavailable");
    let of_host = ["playbook", "-i", "hosts", "play.yml", "-l", "a", "--otlp"];
    let with = |address: &str| project.run(&[&of_host[..], &[address]].concat());
    let refused = with(&address);
    served.join().unwrap();
    let absent = with("http://127.0.0.1:1");
    let unrecorded = project.run(&[&of_host[..], &[&address, "--no-journal"]].concat());
    for (output, says) in [
        (refused, "The trace of the run was not sent: `http://127.0.0.1:"),
        (absent, "The trace of the run was not sent: `http://127.0.0.1:1`"),
        (unrecorded, "The run has no journal, so its trace was not sent."),
    ] {
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.replace('\n', " ").contains(says), "{says}: {text}");
    }
}
