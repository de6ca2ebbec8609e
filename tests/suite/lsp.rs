//! `windlass lsp`: a client speaks the protocol with the binary over its standard input and output.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Time for an answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A project with a running server.
struct Editor {
    project: TempDir,
    server: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    /// Notifications that arrived while something else was awaited.
    early: Vec<Value>,
    id: i64,
}

impl Editor {
    /// Starts a server for a project, and initializes it.
    fn new(files: &[(&str, &str)], words: &[&str]) -> Editor {
        let mut editor = Editor::silent(files, words);
        let root = editor.uri("");
        let answer = editor.request("initialize", json!({"processId": null, "rootUri": root, "capabilities": {}}));
        assert_eq!(answer["result"]["capabilities"]["positionEncoding"], "utf-16");
        editor.notify("initialized", json!({}));
        editor
    }

    fn silent(files: &[(&str, &str)], words: &[&str]) -> Editor {
        let project = tempfile::tempdir().unwrap();
        for (path, text) in files.iter().chain(&[("ansible.cfg", "[defaults]\ninventory = hosts.yml\n")]) {
            let path = project.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut server = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .arg("lsp")
            .args(words)
            .current_dir(std::env::temp_dir())
            .env("HOME", std::env::temp_dir())
            .env_remove("ANSIBLE_CONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = server.stdin.take().unwrap();
        let mut output = BufReader::new(server.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            loop {
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    if output.read_line(&mut line).unwrap() == 0 {
                        return;
                    }
                    match line.trim().strip_prefix("Content-Length: ") {
                        Some(number) => length = number.parse().unwrap(),
                        None if line.trim().is_empty() => break,
                        None => panic!("an unknown header: {line}"),
                    }
                }
                let mut body = vec![0; length];
                output.read_exact(&mut body).unwrap();
                if sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                    return;
                }
            }
        });
        Editor { project, server, input, messages, early: Vec::new(), id: 0 }
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.project.path().join(path)
    }

    fn uri(&self, path: &str) -> String {
        format!("file://{}", self.path(path).display())
    }

    fn raw(&mut self, body: &str) {
        write!(self.input, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        self.input.flush().unwrap();
    }

    fn notify(&mut self, method: &str, params: Value) {
        self.raw(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let id = self.id;
        self.raw(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        self.wait(|message| message["id"] == id)
    }

    /// Waits for a message; others are kept.
    fn wait(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.early.iter().position(&is_it) {
            return self.early.remove(at);
        }
        loop {
            let message = self.messages.recv_timeout(PATIENCE).unwrap();
            if is_it(&message) {
                return message;
            }
            self.early.push(message);
        }
    }

    fn open(&mut self, path: &str, text: &str) {
        let item = json!({"uri": self.uri(path), "languageId": "yaml", "version": 1, "text": text});
        self.notify("textDocument/didOpen", json!({"textDocument": item}));
    }

    fn change(&mut self, path: &str, version: i32, text: &str) {
        let document = json!({"uri": self.uri(path), "version": version});
        self.notify("textDocument/didChange", json!({"textDocument": document, "contentChanges": [{"text": text}]}));
    }

    /// Diagnostics of a version of a document.
    fn diagnostics(&mut self, path: &str, version: i32) -> Vec<Value> {
        let uri = self.uri(path);
        let message = self.wait(|message| {
            message["method"] == "textDocument/publishDiagnostics"
                && message["params"]["uri"] == uri
                && message["params"]["version"] == version
        });
        message["params"]["diagnostics"].as_array().unwrap().clone()
    }

    /// The same as `rule line:start-end`.
    fn findings(&mut self, path: &str, version: i32) -> Vec<String> {
        let shown = |found: &Value| {
            let (start, end) = (&found["range"]["start"], &found["range"]["end"]);
            assert_eq!(start["line"], end["line"]);
            let code = found["code"].as_str().unwrap();
            format!("{code} {}:{}-{}", start["line"], start["character"], end["character"])
        };
        self.diagnostics(path, version).iter().map(shown).collect()
    }

    /// Opens a text with `^` at the cursor, waits for its check, and sends a request for that position.
    fn at_cursor(&mut self, method: &str, path: &str, text: &str) -> Value {
        let before = text.split('^').next().unwrap();
        let line = before.matches('\n').count();
        let character = before.rsplit('\n').next().unwrap().encode_utf16().count();
        self.open(path, &text.replace('^', ""));
        self.diagnostics(path, 1);
        let position = json!({"line": line, "character": character});
        let context = json!({"includeDeclaration": true, "triggerKind": 1});
        let params = json!({"textDocument": {"uri": self.uri(path)}, "position": position, "context": context});
        let answer = self.request(method, params);
        self.notify("textDocument/didClose", json!({"textDocument": {"uri": self.uri(path)}}));
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    fn completed(&mut self, path: &str, text: &str) -> Vec<String> {
        let list = self.at_cursor("textDocument/completion", path, text);
        let items = list["items"].as_array().unwrap();
        items.iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect()
    }

    fn hovered(&mut self, path: &str, text: &str) -> String {
        let hover = self.at_cursor("textDocument/hover", path, text);
        hover["contents"]["value"].as_str().unwrap_or_default().to_owned()
    }

    /// Definitions as `path:line:start`.
    fn defined(&mut self, path: &str, text: &str) -> Vec<String> {
        let root = self.uri("");
        let found = self.at_cursor("textDocument/definition", path, text);
        let shown = |location: &Value| {
            let start = &location["range"]["start"];
            let uri = location["uri"].as_str().unwrap();
            let below = uri.strip_prefix(&root).unwrap_or(uri);
            format!("{below}:{}:{}", start["line"], start["character"])
        };
        let mut places: Vec<String> = found.as_array().unwrap().iter().map(shown).collect();
        places.sort();
        places
    }

    /// Ends the server, and returns its exit code.
    fn end(mut self) -> i32 {
        assert_eq!(self.request("shutdown", Value::Null)["result"], Value::Null);
        self.notify("exit", Value::Null);
        self.server.wait().unwrap().code().unwrap()
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

const HOSTS: (&str, &str) = ("hosts.yml", "web:\n  hosts:\n    web1:\n    web2:\ndb:\n  hosts:\n    db1:\n");

/// A playbook with these tasks, which begin at line 3 from 0.
fn play(tasks: &str) -> String {
    format!("- name: Play\n  hosts: web\n  tasks:\n{tasks}")
}

#[test]
fn buffer_checked_instead_of_file() {
    let bad = play("    - name: Copy\n      copy: {dets: /x, mode: \"0644\", content: a}\n");
    let good = bad.replace("dets", "dest");
    let mut editor = Editor::new(&[HOSTS, ("site.yml", &bad)], &[]);
    editor.open("site.yml", &good);
    assert_eq!(editor.findings("site.yml", 1), Vec::<String>::new());
    editor.change("site.yml", 2, &bad);
    let found = editor.diagnostics("site.yml", 2);
    let is_it = |finding: &&Value| finding["message"].as_str().unwrap().contains("no option `dets`");
    let first = found.iter().find(is_it).unwrap();
    assert_eq!((first["code"].as_str(), first["severity"].as_i64()), (Some("module-option"), Some(1)));
    assert!(first["codeDescription"]["href"].as_str().unwrap().ends_with("lint-rules.md#module-option"), "{first}");
    let place = json!({"start": {"line": 4, "character": 13}, "end": {"line": 4, "character": 17}});
    assert_eq!(first["range"], place);
    // The file was never written.
    assert_eq!(fs::read_to_string(editor.path("site.yml")).unwrap(), bad);
    assert_eq!(editor.end(), 0);
}

#[test]
fn ranges_count_utf16_units() {
    let mut editor = Editor::new(&[HOSTS], &["--severity", "warning"]);
    let text = play("    - name: Größe 🚀\n      debug: {msg: 'größe 🚀 {{ größenlos }} {{ nothing_at_all }}'}\n");
    editor.open("site.yml", &text);
    let line = text.lines().nth(4).unwrap();
    let start = line[..line.find("nothing_at_all").unwrap()].encode_utf16().count();
    let expected = format!("undefined-variable 4:{start}-{}", start + "nothing_at_all".len());
    assert!(editor.findings("site.yml", 1).contains(&expected), "{expected}");
    let text = play("    - name: X\n      debug: {msg: \"größe 🚀\", verbsity: 1}\n");
    editor.change("site.yml", 2, &text);
    let line = text.lines().nth(4).unwrap();
    let start = line[..line.find("verbsity").unwrap()].encode_utf16().count();
    assert_eq!(editor.findings("site.yml", 2), [format!("module-option 4:{start}-{}", start + 8)]);
}

#[test]
fn broken_document_reported_and_survived() {
    let mut editor = Editor::new(&[HOSTS], &[]);
    editor.open("site.yml", "- hosts: web\n  tasks: [\n");
    let found = editor.findings("site.yml", 1);
    assert!(found.iter().all(|finding| finding.starts_with("syntax-error")) && found.len() == 1, "{found:?}");
    editor.change("site.yml", 2, "- hosts: web\n\ttasks: {{{\u{0}\n  %&*\n");
    assert_eq!(editor.findings("site.yml", 2).len(), 1);
    editor.change("site.yml", 3, &play("    - name: Ping\n      ping:\n"));
    assert_eq!(editor.findings("site.yml", 3), Vec::<String>::new());
    // Deep nesting and a text that is larger than checks read.
    editor.change("site.yml", 4, &format!("- hosts: {}", "[".repeat(100_000)));
    assert_eq!(editor.findings("site.yml", 4).len(), 1);
    editor.change("site.yml", 5, &"# a\n".repeat(600_000));
    assert!(editor.diagnostics("site.yml", 5)[0]["message"].as_str().unwrap().contains("not checked"));
    assert_eq!(editor.end(), 0);
}

#[test]
fn burst_of_changes_checked_once() {
    let mut editor = Editor::new(&[HOSTS], &[]);
    let text = play("    - name: Ping\n      ping:\n");
    editor.open("site.yml", &text);
    editor.diagnostics("site.yml", 1);
    for version in 2..=40 {
        editor.change("site.yml", version, &text);
    }
    editor.diagnostics("site.yml", 40);
    let uri = editor.uri("site.yml");
    let others = editor.early.iter().filter(|message| message["params"]["uri"] == uri).count();
    assert_eq!(others, 0, "{:?}", editor.early);
}

#[test]
fn closed_document_has_no_findings() {
    let text = play("    - nme: X\n      ping:\n");
    let mut editor = Editor::new(&[HOSTS, ("site.yml", &text)], &[]);
    editor.open("site.yml", &text);
    assert!(!editor.diagnostics("site.yml", 1).is_empty());
    let uri = editor.uri("site.yml");
    editor.notify("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
    let message = editor.wait(|message| message["params"]["uri"] == uri);
    assert_eq!(message["params"]["diagnostics"], json!([]));
}

#[test]
fn unknown_group_found_in_saved_inventory() {
    let text = play("    - name: X\n      ping:\n").replace("hosts: web", "hosts: wbe");
    let mut editor = Editor::new(&[HOSTS], &[]);
    editor.open("site.yml", &text);
    assert_eq!(editor.findings("site.yml", 1), ["unknown-group 1:9-12"]);
    let mut file = fs::OpenOptions::new().append(true).open(editor.path("hosts.yml")).unwrap();
    file.write_all(b"wbe:\n").unwrap();
    let uri = editor.uri("hosts.yml");
    editor.notify("textDocument/didSave", json!({"textDocument": {"uri": uri}}));
    assert_eq!(editor.findings("site.yml", 1), Vec::<String>::new());
}

#[test]
fn file_changed_on_disk_read_again() {
    let mut editor = Editor::new(&[HOSTS, ("group_vars/all.yml", "other: 1\n")], &[]);
    editor.open("site.yml", &play("    - name: X\n      debug: {msg: \"{{ wanted }}\"}\n"));
    assert_eq!(editor.findings("site.yml", 1), ["undefined-variable 4:23-29"]);
    fs::write(editor.path("group_vars/all.yml"), "wanted: 1\n").unwrap();
    let uri = editor.uri("group_vars/all.yml");
    editor.notify("textDocument/didSave", json!({"textDocument": {"uri": uri}}));
    assert_eq!(editor.findings("site.yml", 1), Vec::<String>::new());
}

#[test]
fn unsaved_buffer_defines_names() {
    let mut editor = Editor::new(&[HOSTS, ("group_vars/all.yml", "other: 1\n")], &[]);
    editor.open("group_vars/all.yml", "wanted: 1\n");
    editor.diagnostics("group_vars/all.yml", 1);
    editor.open("site.yml", &play("    - name: X\n      debug: {msg: \"{{ wanted }} {{ other }}\"}\n"));
    assert_eq!(editor.findings("site.yml", 1), ["undefined-variable 4:36-41"]);
    // A document that is no YAML for now defines nothing, and does not spoil the findings of others.
    editor.change("group_vars/all.yml", 2, "wanted: [\n");
    editor.diagnostics("group_vars/all.yml", 2);
    let uri = editor.uri("site.yml");
    assert!(!editor.early.iter().any(|message| message["params"]["uri"] == uri), "{:?}", editor.early);
}

#[test]
fn mistakes_of_an_inventory_found_while_it_is_written() {
    let text = play("    - name: X\n      ping:\n");
    let files =
        [("ansible.cfg", "[defaults]\ninventory = hosts.ini\n"), ("hosts.ini", "[web]\nw1\n"), ("site.yml", &text)];
    let mut editor = Editor::new(&files, &["-i", "hosts.ini"]);
    editor.open("hosts.ini", "[web-front]\nw1\n[all:children]\nweb\n");
    assert_eq!(editor.findings("hosts.ini", 1), ["inventory-syntax 3:0-3"]);
    editor.change("hosts.ini", 2, "[wbes]\nw1.example\nw1.example a=1\n");
    assert_eq!(editor.findings("hosts.ini", 2), ["duplicate-host 2:0-10"]);
    // Plays are compared with the text in the editor, and not with the file.
    editor.open("site.yml", &text.replace("hosts: web", "hosts: wbes_"));
    assert_eq!(editor.findings("hosts.ini", 2), ["misspelt-group 0:1-5", "duplicate-host 2:0-10"]);
    assert_eq!(editor.findings("site.yml", 1), ["unknown-group 1:9-14"]);
    editor.change("hosts.ini", 3, "[wbes_]\nw1.example\n");
    assert_eq!(editor.findings("hosts.ini", 3), Vec::<String>::new());
    assert_eq!(editor.findings("site.yml", 1), Vec::<String>::new());
}

#[test]
fn mistakes_of_a_yaml_inventory_have_ranges() {
    let mut editor = Editor::new(&[HOSTS], &[]);
    editor.open("hosts.yml", "all:\n  hosts: {a1: }\n  child:\n    web:\n");
    assert_eq!(editor.findings("hosts.yml", 1), ["inventory-syntax 2:2-7"]);
    editor.change("hosts.yml", 2, "all:\n  hosts: [a1]\n");
    assert_eq!(editor.findings("hosts.yml", 2).len(), 1);
    editor.change("hosts.yml", 3, "all: [\n");
    assert_eq!(editor.findings("hosts.yml", 3).len(), 1);
    editor.change("hosts.yml", 4, "all:\n  hosts: {a1: }\n");
    assert_eq!(editor.findings("hosts.yml", 4), Vec::<String>::new());
}

#[test]
fn inventory_script_never_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut editor = Editor::silent(&[("hosts.yml", "#!/bin/sh\ntouch \"$(dirname \"$0\")/ran\"\necho '{}'\n")], &[]);
    fs::set_permissions(editor.path("hosts.yml"), fs::Permissions::from_mode(0o755)).unwrap();
    let root = editor.uri("");
    editor.request("initialize", json!({"rootUri": root, "capabilities": {}}));
    editor.open("site.yml", &play("    - name: X\n      debug: {msg: \"{{ lookup('pipe', 'touch ran') }}\"}\n"));
    editor.diagnostics("site.yml", 1);
    assert!(!editor.path("ran").exists());
}

#[test]
fn malformed_messages_answered_and_survived() {
    let mut editor = Editor::silent(&[HOSTS], &[]);
    let answer = editor.request("textDocument/hover", json!({}));
    assert_eq!(answer["error"]["code"], -32002);
    editor.raw("{\"jsonrpc\": ");
    assert_eq!(editor.wait(|message| message["id"].is_null())["error"]["code"], -32700);
    assert!(editor.request("initialize", json!(7))["result"].is_object());
    assert_eq!(editor.request("textDocument/hover", json!({"textDocument": 5}))["error"]["code"], -32602);
    assert_eq!(editor.request("textDocument/nothing", json!(null))["error"]["code"], -32601);
    editor.notify("textDocument/didOpen", json!([1, 2]));
    let shown = editor.wait(|message| message["method"] == "window/showMessage");
    assert!(shown["params"]["message"].as_str().unwrap().contains("invalid"), "{shown}");
    editor.raw(&" ".repeat(17 << 20));
    let shown = editor.wait(|message| message["method"] == "window/showMessage");
    assert!(shown["params"]["message"].as_str().unwrap().contains("17 MiB was skipped"), "{shown}");
    editor.notify(
        "textDocument/didOpen",
        json!({"textDocument": {"uri": "untitled:1", "languageId": "yaml", "version": 1, "text": "- a"}}),
    );
    editor.open("site.yml", &play("    - name: X\n      ping:\n"));
    editor.diagnostics("site.yml", 1);
    assert_eq!(editor.end(), 0);
}

#[test]
fn exit_without_shutdown_fails() {
    let mut editor = Editor::new(&[], &[]);
    editor.notify("exit", Value::Null);
    assert_eq!(editor.server.wait().unwrap().code(), Some(1));
}

/// A role with tasks, handlers, defaults, a template and a file.
const ROLE: &[(&str, &str)] = &[
    HOSTS,
    (
        "roles/web/tasks/main.yml",
        "- name: Install\n  package: {name: nginx}\n  tags: [packages, web]\n- name: More\n  include_tasks: more.yml\n",
    ),
    ("roles/web/tasks/more.yml", "- name: Ping\n  ping:\n"),
    (
        "roles/web/handlers/main.yml",
        "- name: Restart nginx\n  service: {name: nginx, state: restarted}\n  listen: web changed\n",
    ),
    ("roles/web/defaults/main.yml", "web_port: 80\n"),
    ("roles/web/templates/site.conf.j2", "listen {{ web_port }};\n"),
    ("roles/web/files/logo.svg", "<svg/>\n"),
    ("group_vars/web.yml", "web_port: 8080\n"),
    ("host_vars/web1.yml", "größe: 1\nweb_port: 8081\n"),
    ("more.yml", "- name: More\n  ping:\n"),
    ("other.yml", "- name: Other\n  hosts: db\n  vars: {web_port: 9}\n  tasks: []\n"),
];

#[test]
fn completion_offers_what_fits() {
    let mut editor = Editor::new(ROLE, &[]);
    let task = |line: &str| play(&format!("    - name: X\n{line}\n"));
    let has = |found: &[String], names: &[&str]| {
        for name in names {
            assert!(found.iter().any(|found| found == name), "{name} is missing in {found:?}");
        }
    };
    let found = editor.completed("site.yml", &task("      cop^"));
    assert_eq!(found[0], "copy");
    has(&found, &["ansible.builtin.copy"]);
    has(&editor.completed("site.yml", &task("      ansible.builtin.tem^")), &["ansible.builtin.template"]);
    has(&editor.completed("site.yml", &task("      beco^")), &["become", "become_user"]);
    assert_eq!(editor.completed("site.yml", &task("      file: {path: /x, state: dir^}")), ["directory"]);
    let found = editor.completed("site.yml", &task("      copy:\n        dest: /x\n        ^"));
    has(&found, &["src", "content", "mode"]);
    assert!(!found.contains(&"dest".to_owned()) && !found.contains(&"copy".to_owned()), "{found:?}");
    assert_eq!(editor.completed("site.yml", &task("      file:\n        state: dir^")), ["directory"]);
    assert_eq!(editor.completed("site.yml", &task("      copy:\n        remote_src: t^")), ["true"]);
    has(&editor.completed("site.yml", "- name: X\n  gather_^\n"), &["gather_facts"]);
    has(&editor.completed("site.yml", "- name: X\n  hosts: we^\n"), &["web", "web1", "web2"]);
    has(&editor.completed("site.yml", "- name: X\n  hosts: web:d^\n"), &["db", "db1"]);
    has(&editor.completed("site.yml", &task("      ping:\n      tags: [web, pa^]")), &["packages"]);
    has(&editor.completed("site.yml", &task("      ping:\n      notify:\n        - Re^")), &["Restart nginx"]);
    assert_eq!(editor.completed("site.yml", "- hosts: web\n  roles:\n    - we^\n")[0], "web");
    assert_eq!(editor.completed("site.yml", "- hosts: web\n  roles:\n    - role: w^\n"), ["web"]);
    assert_eq!(editor.completed("site.yml", &task("      include_role:\n        name: w^")), ["web"]);
    assert_eq!(editor.completed("site.yml", &task("      import_tasks: mo^")), ["more.yml"]);
    has(&editor.completed("site.yml", &task("      debug:\n        msg: \"{{ web_^\"")), &["web_port"]);
    has(&editor.completed("site.yml", &task("      debug:\n        msg: \"{{ x | def^ }}\"")), &["default"]);
    has(&editor.completed("site.yml", &task("      ping:\n      when: x is def^")), &["defined"]);
    has(&editor.completed("roles/web/tasks/main.yml", "- name: X\n  serv^\n"), &["service"]);
    assert_eq!(editor.completed("site.yml", &task("      ping: # co^")), Vec::<String>::new());
}

#[test]
fn completion_replaces_word_before_cursor() {
    let mut editor = Editor::new(ROLE, &[]);
    let text = play("    - name: größe 🚀\n      copy: {}\n      notif^\n");
    let list = editor.at_cursor("textDocument/completion", "site.yml", &text);
    let edit = &list["items"][0]["textEdit"];
    assert_eq!(edit["newText"], "notify: ");
    assert_eq!(edit["range"], json!({"start": {"line": 5, "character": 6}, "end": {"line": 5, "character": 11}}));
    let text = play("    - name: X\n      debug: {msg: '🚀 {{ web_^ }}'}\n");
    let list = editor.at_cursor("textDocument/completion", "site.yml", &text);
    let start = &list["items"][0]["textEdit"]["range"]["start"];
    assert_eq!(start["character"], "      debug: {msg: '".len() + 6);
}

#[test]
fn hover_documents_word() {
    let mut editor = Editor::new(ROLE, &[]);
    let task = |line: &str| play(&format!("    - name: X\n{line}\n"));
    assert!(editor.hovered("site.yml", &task("      co^py:\n        dest: /x")).contains("**ansible.builtin.copy**"));
    let option = editor.hovered("site.yml", &task("      file:\n        path: /x\n        sta^te: touch"));
    assert!(option.contains("`state` of `file` (str") && option.contains("Choices: "), "{option}");
    let option = editor.hovered("site.yml", &task("      ansible.builtin.copy:\n        for^ce: true"));
    assert!(option.contains("Default: `true`"), "{option}");
    assert!(editor.hovered("site.yml", &task("      file: {path: /x, sta^te: touch}")).contains("`state` of `file`"));
    assert!(editor.hovered("site.yml", &task("      ping:\n      wh^en: x")).contains("a keyword of: "));
    assert!(editor.hovered("site.yml", "- hosts: web\n  gather_fa^cts: no\n").contains("a keyword of: Play"));
    assert!(
        editor.hovered("site.yml", &task("      debug:\n        msg: \"{{ x | to_j^son }}\"")).contains("a filter")
    );
    assert!(editor.hovered("site.yml", &task("      ping:\n      when: x is not def^ined")).contains("a test"));
    let variable = editor.hovered("site.yml", &task("      ping:\n      when: web_po^rt > 1"));
    assert!(variable.contains("group_vars/web.yml:1: `web_port: 8080`"), "{variable}");
    assert_eq!(editor.hovered("site.yml", &task("      ping:\n      vars: {a: b^}")), "");
}

#[test]
fn hover_right_after_opening_waits_for_the_first_check() {
    let mut editor = Editor::new(ROLE, &[]);
    editor.open("site.yml", &play("    - name: X\n      ping:\n      when: web_port > 1\n"));
    let params = json!({"textDocument": {"uri": editor.uri("site.yml")}, "position": {"line": 5, "character": 15}});
    let answer = editor.request("textDocument/hover", params);
    let text = answer["result"]["contents"]["value"].as_str().unwrap_or_default();
    assert!(text.contains("group_vars/web.yml:1: `web_port: 8080`"), "{answer}");
}

#[test]
fn loop_control_offers_only_what_a_run_accepts() {
    let mut editor = Editor::new(ROLE, &[]);
    let found = editor.completed("site.yml", &play("    - name: X\n      ping:\n      loop_control:\n        ^\n"));
    let offers = |word: &str| found.contains(&word.to_owned());
    assert!(offers("extended_allitems") && offers("parallel") && !offers("until"), "{found:?}");
}

#[test]
fn definition_finds_all_places() {
    let mut editor = Editor::new(ROLE, &[]);
    let task = |line: &str| play(&format!("    - name: X\n{line}\n"));
    let role = ["roles/web/tasks/main.yml:0:0"];
    assert_eq!(editor.defined("site.yml", "- hosts: web\n  roles:\n    - we^b\n"), role);
    assert_eq!(editor.defined("site.yml", "- hosts: web\n  roles:\n    - {role: web}\n    - role: we^b\n"), role);
    assert_eq!(editor.defined("site.yml", "- hosts: web\n  roles:\n    - {role: we^b, tags: x}\n"), role);
    assert_eq!(editor.defined("site.yml", &task("      include_role:\n        name: w^eb")), role);
    assert_eq!(editor.defined("site.yml", &task("      import_tasks: mo^re.yml")), ["more.yml:0:0"]);
    assert_eq!(editor.defined("site.yml", "- import_playbook: oth^er.yml\n"), ["other.yml:0:0"]);
    let in_role = |line: &str| format!("- name: X\n{line}\n");
    let tasks = "roles/web/tasks/main.yml";
    assert_eq!(editor.defined(tasks, &in_role("  include_tasks: mo^re.yml")), ["roles/web/tasks/more.yml:0:0"]);
    assert_eq!(
        editor.defined(tasks, &in_role("  template:\n    src: site.c^onf.j2\n    dest: /x")),
        ["roles/web/templates/site.conf.j2:0:0"]
    );
    assert_eq!(
        editor.defined(tasks, &in_role("  copy:\n    src: lo^go.svg\n    dest: /x")),
        ["roles/web/files/logo.svg:0:0"]
    );
    let handler = ["roles/web/handlers/main.yml:0:8"];
    assert_eq!(editor.defined(tasks, &in_role("  ping:\n  notify: Restart ngi^nx")), handler);
    let topic = ["roles/web/handlers/main.yml:2:10"];
    assert_eq!(editor.defined(tasks, &in_role("  ping:\n  notify:\n    - web ch^anged")), topic);
    assert_eq!(
        editor.defined(tasks, &in_role("  ping:\n  when: web_po^rt > 1")),
        ["group_vars/web.yml:0:0", "host_vars/web1.yml:1:0", "other.yml:2:9", "roles/web/defaults/main.yml:0:0"]
    );
    assert_eq!(editor.defined("site.yml", "- hosts: w^eb\n"), ["hosts.yml:0:0"]);
    assert_eq!(editor.defined("site.yml", "- hosts: all:!we^b\n"), ["hosts.yml:0:0"]);
    assert_eq!(editor.defined("site.yml", "- hosts: [db, we^b1]\n"), ["hosts.yml:2:4"]);
    assert_eq!(editor.defined("site.yml", &task("      ping:\n      delegate_to: web^1")), ["hosts.yml:2:4"]);
    assert_eq!(editor.defined("roles/web/defaults/main.yml", "web_^port: 80\n").len(), 4);
    assert_eq!(editor.defined("roles/web/templates/site.conf.j2", "listen {{ web_p^ort }};\n").len(), 4);
}

/// Files of the project after a rename of the word at `^`, or the error.
fn renamed(editor: &mut Editor, path: &str, text: &str, new: &str) -> Result<Vec<(String, String)>, String> {
    let before = text.split('^').next().unwrap();
    let (line, character) = (before.matches('\n').count(), before.rsplit('\n').next().unwrap().encode_utf16().count());
    editor.open(path, &text.replace('^', ""));
    editor.diagnostics(path, 1);
    let uri = editor.uri(path);
    let position = json!({"line": line, "character": character});
    let answer = editor
        .request("textDocument/rename", json!({"textDocument": {"uri": uri}, "position": position, "newName": new}));
    editor.notify("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
    if let Some(error) = answer["error"]["message"].as_str() {
        return Err(error.to_owned());
    }
    let root = editor.uri("");
    let mut files = Vec::new();
    for (uri, edits) in answer["result"]["changes"].as_object().unwrap() {
        let name = uri.strip_prefix(&root).unwrap();
        let mut lines: Vec<String> =
            if name == path { text.replace('^', "") } else { fs::read_to_string(editor.path(name)).unwrap() }
                .split('\n')
                .map(str::to_owned)
                .collect();
        let mut edits = edits.as_array().unwrap().clone();
        edits.sort_by_key(|edit| std::cmp::Reverse(edit["range"]["start"]["character"].as_u64()));
        for edit in &edits {
            let at = |end: &str, part: &str| edit["range"][end][part].as_u64().unwrap() as usize;
            let line = &mut lines[at("start", "line")];
            let units: Vec<u16> = line.encode_utf16().collect();
            let (start, end) = (at("start", "character"), at("end", "character"));
            let part = |range: &[u16]| String::from_utf16(range).unwrap();
            *line = part(&units[..start]) + edit["newText"].as_str().unwrap() + &part(&units[end..]);
        }
        files.push((name.to_owned(), lines.join("\n")));
    }
    files.sort();
    Ok(files)
}

const NAMES: &[(&str, &str)] = &[
    HOSTS,
    ("roles/web/defaults/main.yml", "web_port: 80\nweb_port_tls: 443\n"),
    ("roles/web/meta/argument_specs.yml", "argument_specs:\n  main:\n    options:\n      web_port: {type: int}\n"),
    (
        "roles/web/templates/a.j2",
        "größe {{ web_port }} {{ web_port_tls }} {% if web_port == 80 %}web_port{% endif %}\n",
    ),
    ("roles/web/handlers/main.yml", "- name: Restart nginx\n  ping:\n"),
    ("group_vars/web.yml", "\"web_port\": 8080\nurl: \"http://x:{{ web_port }}/{{ 'web_port' }}\"\n"),
];

#[test]
fn variable_renamed_in_all_files() {
    let mut editor = Editor::new(NAMES, &[]);
    let tasks = "- name: Check\n  ping:\n  when: web_^port > 1 and web_port_tls != web_port\n  notify: Restart nginx\n";
    let files = renamed(&mut editor, "roles/web/tasks/main.yml", tasks, "web_listen").unwrap();
    let expected = [
        ("group_vars/web.yml", "\"web_listen\": 8080\nurl: \"http://x:{{ web_listen }}/{{ 'web_port' }}\"\n"),
        ("roles/web/defaults/main.yml", "web_listen: 80\nweb_port_tls: 443\n"),
        (
            "roles/web/meta/argument_specs.yml",
            "argument_specs:\n  main:\n    options:\n      web_listen: {type: int}\n",
        ),
        (
            "roles/web/tasks/main.yml",
            "- name: Check\n  ping:\n  when: web_listen > 1 and web_port_tls != web_listen\n  notify: Restart nginx\n",
        ),
        (
            "roles/web/templates/a.j2",
            "größe {{ web_listen }} {{ web_port_tls }} {% if web_listen == 80 %}web_port{% endif %}\n",
        ),
    ];
    assert_eq!(files, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    assert_eq!(editor.end(), 0);
}

#[test]
fn handler_renamed_with_its_notifications() {
    let mut editor = Editor::new(NAMES, &[]);
    let tasks = "- name: Check\n  ping:\n  notify:\n    - Restart ng^inx\n";
    let files = renamed(&mut editor, "roles/web/tasks/main.yml", tasks, "Reload nginx").unwrap();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["roles/web/handlers/main.yml", "roles/web/tasks/main.yml"]);
    assert!(files.iter().all(|(_, text)| text.contains("Reload nginx") && !text.contains("Restart")), "{files:?}");
}

#[test]
fn rename_refused_where_it_would_break_something() {
    let broken = ("roles/web/templates/broken.j2", "{{ web_port_tls\n");
    let inventory = ("hosts.yml", "web: {hosts: {web1: {of_inventory: 1}}}\n");
    let mut editor = Editor::new(&[&NAMES[1..], &[broken, inventory]].concat(), &[]);
    let mut refused = |text: &str, new: &str| {
        let text = format!("- name: Check\n  ping:\n  when: {text}\n  notify: Restart nginx\n");
        renamed(&mut editor, "roles/web/tasks/main.yml", &text, new).unwrap_err()
    };
    assert!(refused("web_p^ort > 1", "web-port").contains("is not a variable name"));
    assert!(refused("web_p^ort > 1", "url").contains("has a variable `url` already"));
    assert!(refused("web_port^_tls > 1", "tls").contains("broken.j2 mentions `web_port_tls`"));
    assert!(refused("of_inv^entory > 1", "other").contains("the inventory itself sets"));
    assert!(refused("ansible^_host > 1", "other").contains("no file of the project defines"));
    assert!(refused("web_port > 1\n  tags: a^b", "other").contains("only variables and handlers"));
}

#[test]
fn references_are_all_places_of_a_name() {
    let mut editor = Editor::new(NAMES, &[]);
    let tasks = "- name: Check\n  ping:\n  when: web_^port > 1\n";
    let found = editor.at_cursor("textDocument/references", "roles/web/tasks/main.yml", tasks);
    assert_eq!(found.as_array().unwrap().len(), 7, "{found}");
}

#[test]
fn code_action_corrects_finding() {
    let mut editor = Editor::new(&[HOSTS], &[]);
    let text = play("    - name: größe 🚀\n      copy: {dest: '🚀', content: a, mode: 644}\n      become: yes\n");
    editor.open("site.yml", &text);
    let found = editor.diagnostics("site.yml", 1);
    let wanted = found.iter().find(|found| found["code"] == "risky-octal").unwrap();
    let uri = editor.uri("site.yml");
    let params = json!({"textDocument": {"uri": uri}, "range": wanted["range"], "context": {"diagnostics": []}});
    let answer = editor.request("textDocument/codeAction", params.clone());
    let actions = answer["result"].as_array().unwrap();
    assert_eq!(actions.len(), 1, "{actions:?}");
    let edit = &actions[0]["edit"]["changes"][&uri][0];
    assert_eq!((edit["newText"].as_str(), &edit["range"]), (Some("\"0644\""), &wanted["range"]));
    // A fix for an older text would destroy the newer one.
    editor.change("site.yml", 2, &format!("# new\n{text}"));
    assert_eq!(editor.request("textDocument/codeAction", params)["result"], json!([]));
}

#[test]
fn role_of_project_without_workspace_found() {
    let mut editor = Editor::silent(ROLE, &[]);
    editor.request("initialize", json!({"capabilities": {}}));
    assert!(Path::new(&editor.path("roles/web")).is_dir());
    assert_eq!(editor.completed("site.yml", "- hosts: web\n  roles:\n    - we^\n")[0], "web");
}
