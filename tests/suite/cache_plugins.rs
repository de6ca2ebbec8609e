//! Cache plugins in Python, which keep facts between runs.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::stand_ins;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The parts of ansible-core that load a cache plugin.
const CORE: &[(&str, &str)] = &[
    (
        "core/ansible/config/ansible_builtin_runtime.yml",
        "plugin_routing:\n  cache:\n    redis:\n      redirect: community.general.redis\n",
    ),
    (
        "core/ansible/plugins/loader.py",
        r#"from ansible.folders import Folders

def init_plugin_loader(collections):
    pass

class Loader(Folders):
    def get(self, name):
        plugin = self.find(name)
        return plugin and plugin.CacheModule()

cache_loader = Loader()
"#,
    ),
];

/// A plugin that keeps everything in `store.json`, and writes down its calls. `more` are lines for its methods.
fn plugin(more: &str) -> String {
    format!(
        r#"import atexit
import json
import os
import time

def log(*words):
    with open('calls', 'a') as calls:
        print(*words, file=calls)

class CacheModule:
    def __init__(self):
        log('start', os.environ.get('ANSIBLE_CACHE_PLUGIN_CONNECTION'))
        atexit.register(log, 'end')
        self.read = set()

    def stored(self):
        try:
            with open('store.json') as store:
                return json.load(store)
        except FileNotFoundError:
            return {{}}

    def save(self, everything):
        with open('store.json', 'w') as store:
            json.dump(everything, store)

    def contains(self, host):
        return host in self.stored()

    def get(self, host):
        {0}
        log('get', host)
        facts = self.stored()[host]
        self.read.add(host)
        return facts

    def set(self, host, facts):
        {0}
        log('set', host)
        self.save({{**self.stored(), host: facts}})

    def delete(self, host):
        {0}
        self.read.remove(host)
        log('delete', host)
        everything = self.stored()
        del everything[host]
        self.save(everything)
"#,
        more.trim().replace('\n', "\n        ")
    )
}

const SETTINGS: &str = "[defaults]\nfact_caching = mine\nfact_caching_mine_colour = blue\ngathering = smart\n";
const HOSTS: &str = "web1 ansible_connection=local\nweb2 ansible_connection=local\n";
const SET: &str = "- hosts: web1\n  gather_facts: false\n  tasks:\n    - set_fact: {colour: red, cacheable: true}\n";
const SHOW: &str =
    "- hosts: all\n  gather_facts: false\n  tasks:\n    - debug: {msg: \"colour={{ colour | default('none') }}\"}\n";

/// A project with a cache plugin whose methods begin with these lines.
fn project(more: &str, files: &[(&str, &str)]) -> TempDir {
    let code = plugin(more);
    let own = [
        ("cache_plugins/mine.py", code.as_str()),
        ("ansible.cfg", SETTINGS),
        ("hosts", HOSTS),
        ("set.yml", SET),
        ("show.yml", SHOW),
    ];
    stand_ins::project(CORE.iter().chain(&own).chain(files))
}

fn run(folder: &TempDir, arguments: &[&str]) -> (String, String) {
    let output = finished(folder.path(), arguments);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

fn finished(folder: &Path, arguments: &[&str]) -> Output {
    stand_ins::windlass(folder, &[&["playbook", "-i", "hosts"], arguments].concat()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn stored(folder: &TempDir) -> Value {
    serde_json::from_slice(&fs::read(folder.path().join("store.json")).unwrap()).unwrap()
}

fn calls(folder: &TempDir) -> String {
    fs::read_to_string(folder.path().join("calls")).unwrap_or_default()
}

#[test]
fn facts_of_one_run_are_read_by_the_next() {
    let folder = project("", &[]);
    let (_, stderr) = run(&folder, &["set.yml"]);
    assert!(!stderr.contains("WARN"), "{stderr}");
    assert_eq!(stored(&folder), json!({"web1": {"colour": "red", "_windlass_free": []}}));
    let (stdout, stderr) = run(&folder, &["show.yml"]);
    assert!(stdout.contains("colour=red") && stdout.contains("colour=none"), "{stdout}{stderr}");
}

#[test]
fn smart_gathering_skips_hosts_in_the_cache() {
    let play = "- hosts: all\n  tasks:\n    - debug: {msg: 'family={{ ansible_facts.os_family }}'}\n";
    let folder = project("", &[("p.yml", play)]);
    let (first, stderr) = run(&folder, &["-l", "web1", "p.yml"]);
    assert!(first.contains("TASK [Gathering Facts]"), "{first}{stderr}");
    let (second, stderr) = run(&folder, &["-l", "web1", "p.yml"]);
    assert!(!second.contains("TASK [Gathering Facts]") && second.contains("family="), "{second}{stderr}");
    let (third, stderr) = run(&folder, &["p.yml"]);
    assert!(!third.contains("ok: [web1]\nok: [web2]"), "{third}{stderr}");
    assert!(third.contains("TASK [Gathering Facts]"), "{third}{stderr}");
}

#[test]
fn clear_facts_removes_the_host_from_the_cache() {
    let clear = "- hosts: web1\n  gather_facts: false\n  tasks:\n    - meta: clear_facts\n";
    let folder = project(
        "",
        &[("store.json", r#"{"web1": {"colour": "red"}, "web2": {"colour": "blue"}}"#), ("clear.yml", clear)],
    );
    run(&folder, &["clear.yml"]);
    assert_eq!(stored(&folder), json!({"web2": {"colour": "blue"}}));
}

#[test]
fn flush_cache_removes_hosts_that_the_plugin_has_not_read() {
    let store = r#"{"web1": {"colour": "red"}, "localhost": {"colour": "red"}, "elsewhere": {"colour": "red"}}"#;
    let folder = project("", &[("store.json", store)]);
    let (stdout, stderr) = run(&folder, &["--flush-cache", "show.yml"]);
    assert!(!stdout.contains("colour=red"), "{stdout}{stderr}");
    assert_eq!(stored(&folder), json!({"elsewhere": {"colour": "red"}}));
}

#[test]
fn ansible_core_2_18_asks_for_existence_before_it_reads() {
    let files = [("core/ansible/vars/fact_cache.py", ""), ("store.json", r#"{"web1": {"colour": "red"}}"#)];
    let folder = project("", &files);
    let (stdout, stderr) = run(&folder, &["show.yml"]);
    assert!(stdout.contains("colour=red"), "{stdout}{stderr}");
    assert!(!calls(&folder).contains("get web2"), "{}", calls(&folder));
}

#[test]
fn one_process_serves_all_hosts_and_ends_by_itself() {
    let names: String = (0..300).map(|number| format!("h{number} ansible_connection=local\n")).collect();
    let folder = project("", &[("hosts", names.as_str())]);
    let (stdout, _) = run(&folder, &["-l", "h0", "--timings", "show.yml"]);
    let calls = calls(&folder);
    let words: Vec<&str> = calls.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!((words.first(), words.last()), (Some(&"start"), Some(&"end")), "{calls}");
    assert_eq!(words.iter().filter(|word| **word == "get").count(), 301);
    let cost = stdout.lines().find(|line| line.ends_with("  cache plugin mine")).unwrap_or_else(|| panic!("{stdout}"));
    assert_eq!(cost.split_whitespace().nth(1), Some("1"), "one request: {cost}");
}

#[test]
fn timings_show_the_cost_of_vars_plugins() {
    let code = "class VarsModule:\n    def get_vars(self, loader, path, entities):\n        return {}\n";
    let core = "class Group:\n    def __init__(self, name):\n        self.name = name\n";
    let loader = CORE.iter().find(|(name, _)| name.ends_with("loader.py")).unwrap().1;
    let loader = loader.replace("CacheModule", "VarsModule").replace("cache_loader", "vars_loader");
    let files = [
        ("vars_plugins/mine.py", code),
        ("core/ansible/plugins/loader.py", loader.as_str()),
        ("core/ansible/inventory/group.py", core),
        ("core/ansible/inventory/host.py", &core.replace("Group", "Host")),
        (
            "core/ansible/parsing/dataloader.py",
            "class DataLoader:\n    def set_basedir(self, folder):\n        pass\n\n    def set_vault_secrets(self, secrets):\n        pass\n",
        ),
        ("core/ansible/parsing/vault.py", ""),
        ("ansible.cfg", ""),
    ];
    let folder = project("", &files);
    let (stdout, stderr) = run(&folder, &["--timings", "show.yml"]);
    assert!(stdout.lines().any(|line| line.ends_with("  vars plugins")), "{stdout}{stderr}");
}

#[test]
fn hostile_cache_entry_is_data_and_costs_no_other_host() {
    let entry = json!({
        "colour": "{{ lookup('pipe', 'touch evaluated') }}", "ansible_connection": "ssh", "ansible_host": "192.0.2.1",
    });
    // Python's JSON has halves of surrogate pairs and numbers that others have not.
    let half = r#"{"colour": "half \ud800", "nan": NaN}"#;
    let deep = format!("{{\"colour\": {}1{}}}", "[".repeat(200), "]".repeat(200));
    let hosts =
        ["web1", "web2", "deep", "list", "fine"].map(|name| format!("{name} ansible_connection=local\n")).concat();
    let fine = json!({"colour": {"__ansible_unsafe": "green"}});
    let store = format!(r#"{{"web1": {entry}, "web2": {half}, "deep": {deep}, "list": ["x"], "fine": {fine}}}"#);
    let folder = project("", &[("store.json", store.as_str()), ("hosts", hosts.as_str())]);
    let (stdout, stderr) = run(&folder, &["show.yml"]);
    assert!(!folder.path().join("evaluated").exists());
    for expected in ["colour=half ?", "colour=green"] {
        assert!(stdout.contains(expected), "{expected}: {stdout}{stderr}");
    }
    let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "cannot read the facts of deep: recursion limit exceeded",
        "cannot read the facts of list: TypeError: it must give a mapping, and not list. They count as not gathered.",
    ] {
        assert!(stderr.contains(expected), "{expected}: {stdout}{stderr}");
    }
}

#[test]
fn cached_variables_of_a_connection_are_dropped() {
    let entry = r#"{"web1": {"colour": "{{ 6 * 7 }}", "ansible_connection": "ssh", "ansible_host": "192.0.2.1"}}"#;
    let folder = project("", &[("store.json", entry)]);
    let (stdout, stderr) = run(&folder, &["show.yml"]);
    assert!(stdout.contains("colour={{ 6 * 7 }}"), "{stdout}{stderr}");
    assert!(
        stderr.contains("web1: facts in the cache that would change how the host is reached were dropped"),
        "{stderr}"
    );
}

#[test]
fn host_whose_name_leads_out_of_a_directory_is_not_cached() {
    let play = "- hosts: all\n  gather_facts: false\n  tasks:\n    - add_host: {name: ../../x, ansible_connection: local}\n\
                - hosts: ../../x\n  gather_facts: false\n  tasks:\n    - set_fact: {colour: red, cacheable: true}\n";
    let folder = project("", &[("p.yml", play)]);
    let (_, stderr) = run(&folder, &["p.yml"]);
    assert!(stderr.contains("cannot store the facts of ../../x"), "{stderr}");
    assert!(!calls(&folder).contains("../x"), "{}", calls(&folder));
}

#[test]
fn cache_that_fails_is_a_warning_and_facts_are_gathered() {
    let play = "- hosts: all\n  tasks:\n    - debug: {msg: 'family={{ ansible_facts.os_family }}'}\n";
    let settings = format!("{SETTINGS}[windlass]\ncommand_timeout = 3\n");
    let read = "cannot read the facts of localhost, web1, web2: ConnectionError: no route. They count as not gathered.";
    let store = "cannot store the facts of web1, web2: ConnectionError: no route. The next run may find older ones.";
    for (fails, expected) in [
        ("raise ConnectionError('no route')", &[read, store][..]),
        (
            "time.sleep(60)",
            &["The cache plugin `mine` failed: the Python process that runs it: it did not end within 3 s"],
        ),
        (
            "os._exit(3)",
            &["The cache plugin `mine` failed: the Python process that runs it has ended (exit status: 3). This run \
               gathers facts and stores them nowhere."],
        ),
        ("raise SystemExit('ended')", &["The cache plugin `mine` failed: ended."]),
        ("raise ValueError('x' * 100000)", &["an error with a message of 100012 characters, which is not shown"]),
    ] {
        let folder = project(fails, &[("p.yml", play), ("ansible.cfg", settings.as_str())]);
        let (stdout, stderr) = run(&folder, &["p.yml"]);
        assert!(stdout.contains("family="), "{fails}: {stdout}{stderr}");
        let said = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in expected {
            assert!(said.contains(expected), "{fails}: {said}");
        }
        assert_eq!(
            said.matches("`mine` failed").count(),
            usize::from(expected.len() == 1 && !fails.contains("ValueError"))
        );
    }
}

#[test]
fn store_that_does_not_answer_is_tried_for_few_hosts() {
    let names: String = (0..100).map(|number| format!("h{number} ansible_connection=local\n")).collect();
    let fails = "log('tried')\nraise ConnectionError('no route')";
    let folder = project(fails, &[("hosts", names.as_str())]);
    let (_, stderr) = run(&folder, &["-l", "h0", "show.yml"]);
    assert!(stderr.contains("the facts of h0, h1, h10 and 98 more"), "{stderr}");
    assert_eq!(calls(&folder).matches("tried").count(), 3);
}

#[test]
fn cache_plugin_that_cannot_be_used_is_named_with_a_remedy() {
    let says = |name: &str, plugin: Option<&str>| {
        let settings = format!("[defaults]\nfact_caching = {name}\n");
        let folder = project("", &[("ansible.cfg", settings.as_str())]);
        if let Some(code) = plugin {
            fs::write(folder.path().join("cache_plugins/other.py"), code).unwrap();
        }
        let (stdout, stderr) = run(&folder, &["show.yml"]);
        assert!(stdout.contains("colour=none"), "{stdout}{stderr}");
        stderr.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = says("jsonfle", None);
    let expected = "The cache plugin `jsonfle` cannot be used: neither the project nor ansible-core has a cache plugin of \
                    this name (did you mean `jsonfile`?). This run gathers facts and stores them nowhere.";
    assert!(said.contains(expected), "{said}");
    for name in ["community.general.redis", "redis"] {
        let said = says(name, None);
        assert!(said.contains("install it with `windlass galaxy collection install community.general`"), "{said}");
    }
    let said = says("../../x", None);
    assert!(said.contains("cannot be used: this is not the name of a plugin"), "{said}");
    let said = says("other", Some("import a_store\n"));
    assert!(
        said.contains("cannot be started by ")
            && said.contains("No module named 'a_store'. It needs a library; install it for this Python."),
        "{said}"
    );
    let said = says(
        "other",
        Some("class CacheModule:\n    def __init__(self):\n        raise ValueError('no connection is set')\n"),
    );
    assert!(said.contains("ValueError: no connection is set. This run"), "{said}");
}

#[test]
fn cache_plugin_without_ansible_core_is_a_warning() {
    let folder = project("", &[]);
    fs::remove_dir_all(folder.path().join("core")).unwrap();
    let (_, stderr) = run(&folder, &["show.yml"]);
    let said = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("The cache plugin `mine` needs ansible-core, but there is no ansible-core in"), "{said}");
}

#[test]
fn cache_plugin_of_a_configured_directory_runs() {
    let settings = format!("{SETTINGS}cache_plugins = elsewhere\n");
    let folder = project("", &[("ansible.cfg", settings.as_str())]);
    fs::rename(folder.path().join("cache_plugins"), folder.path().join("elsewhere")).unwrap();
    run(&folder, &["set.yml"]);
    assert_eq!(stored(&folder), json!({"web1": {"colour": "red", "_windlass_free": []}}));
}

#[test]
fn full_name_of_built_in_cache_needs_no_python() {
    for (name, expected) in [("ansible.builtin.memory", false), ("ansible.builtin.jsonfile", true)] {
        let settings = format!("[defaults]\nfact_caching = {name}\nfact_caching_connection = kept\n");
        let folder = project("", &[("ansible.cfg", settings.as_str())]);
        fs::remove_dir_all(folder.path().join("core")).unwrap();
        let (_, stderr) = run(&folder, &["set.yml"]);
        assert_eq!(stderr, "", "{name}");
        assert_eq!(folder.path().join("kept/s1_web1").exists(), expected, "{name}");
    }
}

#[test]
fn password_of_the_connection_is_masked() {
    let settings = format!("{SETTINGS}fact_caching_connection = localhost:6379:0:harbour-7\n");
    let folder = project("raise ValueError('harbour-7 is wrong')", &[("ansible.cfg", settings.as_str())]);
    let (stdout, stderr) = run(&folder, &["-vvv", "show.yml"]);
    assert!(stderr.contains("is wrong") && !format!("{stdout}{stderr}").contains("harbour-7"), "{stdout}{stderr}");
    let output = stand_ins::windlass(folder.path(), &["config", "dump", "--only-changed"]).output().unwrap();
    let stdout = text(&output.stdout);
    assert!(stdout.contains("localhost:6379:0:********") && !stdout.contains("harbour-7"), "{stdout}");
}
