//! Inventory plugins and vars plugins in Python.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::stand_ins;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The parts of ansible-core that load an inventory plugin and hold what it adds.
const CORE: &[(&str, &str)] = &[
    ("core/ansible/context.py", "CLIARGS = {}\n"),
    ("core/ansible/module_utils/common/collections.py", "ImmutableDict = dict\n"),
    (
        "core/ansible/parsing/dataloader.py",
        r#"class DataLoader:
    def set_basedir(self, folder):
        pass

    def set_vault_secrets(self, secrets):
        self.secrets = secrets
"#,
    ),
    (
        "core/ansible/parsing/vault.py",
        r#"class VaultSecret:
    def __init__(self, secret):
        self.bytes = secret

class EncryptedString(str):
    pass

class VaultSecretsContext:
    current = None

    def __init__(self, secrets):
        self.secrets = secrets

    @classmethod
    def initialize(cls, context):
        if cls.current:
            raise RuntimeError('initialized twice')
        cls.current = context
"#,
    ),
    (
        "core/ansible/inventory/data.py",
        r#"class Group:
    def __init__(self, name):
        self.name, self.hosts, self.child_groups, self.vars = name, [], [], {}
        self.priority = 1

class Host:
    def __init__(self, name):
        self.name, self.vars = name, {'inventory_file': 'x', 'inventory_dir': 'y'}

class InventoryData:
    def __init__(self):
        self.groups = {name: Group(name) for name in ('all', 'ungrouped')}
        self.hosts = {}

    def add_group(self, name):
        self.groups.setdefault(name, Group(name))

    def add_host(self, name, group='ungrouped'):
        self.hosts.setdefault(name, Host(name))
        self.groups[group].hosts.append(self.hosts[name])

    def set_variable(self, name, key, value):
        if key == 'ansible_group_priority':
            self.groups[name].priority = int(value)
        else:
            (self.hosts.get(name) or self.groups[name]).vars[key] = value

    def reconcile_inventory(self):
        pass
"#,
    ),
    (
        "core/ansible/plugins/loader.py",
        r#"import os

from ansible.folders import Folders

def init_plugin_loader(collections):
    pass

def add_all_plugin_dirs(folder):
    inventory_loader.add_directory(os.path.join(folder, 'inventory_plugins'))

class InventoryLoader(Folders):
    def get(self, name):
        plugin = self.find(name.removeprefix('ansible.legacy.'))
        return plugin and plugin.InventoryModule()

class VarsLoader(Folders):
    def get(self, name):
        plugin = self.find(name)
        return plugin and plugin.VarsModule()

inventory_loader = InventoryLoader()
vars_loader = VarsLoader()
"#,
    ),
    (
        "core/ansible/inventory/group.py",
        "class Group:\n    def __init__(self, name):\n        self.name, self.kind = name, 'group'\n",
    ),
    (
        "core/ansible/inventory/host.py",
        "class Host:\n    def __init__(self, name):\n        self.name, self.kind = name, 'host'\n",
    ),
    (
        "core/ansible/_internal/_datatag/_tags.py",
        "class TrustedAsTemplate:\n    @staticmethod\n    def is_tagged_on(text):\n        return type(text).__name__ == 'Trusted'\n",
    ),
];

/// A plugin whose `parse` has these lines.
fn plugin(parse: &str) -> String {
    format!(
        r#"import json
import time

from ansible import context
from ansible.parsing.vault import EncryptedString, VaultSecretsContext

class InventoryModule:
    trusted_by_default = 'trusting' in __file__

    def verify_file(self, path):
        return path.endswith('.cloud.yml')

    def parse(self, inventory, loader, path, cache=True):
        {}
"#,
        parse.trim().replace('\n', "\n        ")
    )
}

fn project(plugins: &[(&str, &str)], files: &[(&str, &str)]) -> TempDir {
    let plugins: Vec<(String, String)> =
        plugins.iter().map(|(name, parse)| (format!("inventory_plugins/{name}.py"), plugin(parse))).collect();
    let plugins: Vec<(&str, &str)> = plugins.iter().map(|(name, code)| (name.as_str(), code.as_str())).collect();
    stand_ins::project(CORE.iter().chain(files).chain(&plugins))
}

fn windlass(folder: &Path, arguments: &[&str]) -> Output {
    stand_ins::windlass(folder, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn listed(folder: &TempDir, more: &[&str]) -> Value {
    let output = windlass(folder.path(), &[&["inventory", "-i", "a.cloud.yml", "--list"], more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Standard error for an inventory that cannot be read.
fn refused(folder: &TempDir) -> String {
    text(&windlass(folder.path(), &["inventory", "-i", "a.cloud.yml", "--list"]).stderr)
}

#[test]
fn module_of_the_working_directory_is_not_imported() {
    let evil = "open('imported', 'w').close()\nraise SystemExit(3)\n";
    let files: Vec<(String, &str)> = ["base64", "json", "typing", "threading", "signal", "mmap", "shlex", "traceback"]
        .iter()
        .map(|name| (format!("{name}.py"), evil))
        .collect();
    let mut files: Vec<(&str, &str)> = files.iter().map(|(name, code)| (name.as_str(), *code)).collect();
    files.push(("a.cloud.yml", "plugin: cloud\n"));
    let folder = project(&[("cloud", "inventory.add_host('vm1')")], &files);
    assert_eq!(listed(&folder, &[])["ungrouped"]["hosts"], json!(["vm1"]));
    assert!(!folder.path().join("imported").exists());
}

#[test]
fn inventory_plugin_in_python_runs() {
    let parse = r#"
inventory.add_group('web')
inventory.add_group('prod')
inventory.groups['prod'].child_groups.append(inventory.groups['web'])
inventory.add_host('vm1', 'web')
inventory.add_host('vm2')
inventory.set_variable('prod', 'level', 3)
for name in 'first', 'second':
    inventory.add_group(name)
    inventory.add_host('vm1', name)
    inventory.set_variable(name, 'chosen', name)
inventory.set_variable('first', 'ansible_group_priority', 10)
inventory.set_variable('vm1', 'ansible_host', '192.0.2.1')
inventory.set_variable('vm1', 'tags', {'Name': 'one', 'zones': ('a', 'b')})
inventory.set_variable('vm2', 'given', json.loads(context.CLIARGS['extra_vars'][0])['region'])
print('what a plugin prints is no answer')
"#;
    let folder = project(&[("cloud", parse)], &[("a.cloud.yml", "plugin: cloud\n")]);
    let found = listed(&folder, &["-e", "region=north"]);
    let hostvars = &found["_meta"]["hostvars"];
    assert_eq!(hostvars["vm1"]["level"], 3);
    assert_eq!(hostvars["vm1"]["chosen"], json!({"__ansible_unsafe": "first"}), "it has a higher priority");
    assert_eq!(hostvars["vm1"]["tags"]["zones"], json!([{"__ansible_unsafe": "a"}, {"__ansible_unsafe": "b"}]));
    assert_eq!(hostvars["vm2"]["given"], json!({"__ansible_unsafe": "north"}));
    assert_eq!(hostvars["vm1"]["inventory_file"], Value::Null);
    assert_eq!((&found["web"]["hosts"], &found["prod"]["children"]), (&json!(["vm1"]), &json!(["web"])));
    assert_eq!(found["ungrouped"]["hosts"], json!(["vm2"]));
}

#[test]
fn plugin_of_the_project_found_in_ansible_legacy() {
    let files = [("a.cloud.yml", "plugin: ansible.legacy.cloud\n")];
    let folder = project(&[("cloud", "inventory.add_host('vm1')")], &files);
    assert_eq!(listed(&folder, &[])["ungrouped"]["hosts"], json!(["vm1"]));
}

#[test]
fn text_of_a_cloud_is_data_unless_the_plugin_trusts_it() {
    let parse = r#"
inventory.add_host('vm1')
inventory.set_variable('vm1', 'name', '{{ 6 * 7 }}')
inventory.set_variable('vm1', 'odd', {'k' * 3000: 'a\x7f\u2028\ufeff', '<<': {'!x': '*a'}})
"#;
    let play =
        "- hosts: vm1\n  connection: local\n  gather_facts: false\n  tasks:\n    - debug: {msg: 'name={{ name }}'}\n";
    for (name, expected) in [("cloud", "name={{ 6 * 7 }}"), ("trusting", "name=42")] {
        let configuration = format!("plugin: {name}\n");
        let folder = project(&[(name, parse)], &[("a.cloud.yml", &configuration), ("p.yml", play)]);
        let output = windlass(folder.path(), &["playbook", "-i", "a.cloud.yml", "p.yml"]);
        assert!(text(&output.stdout).contains(expected), "{}{}", text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn secret_that_a_plugin_decrypts_is_masked() {
    let parse = r#"
inventory.add_host('vm1')
inventory.set_variable('vm1', 'token', EncryptedString('harbour-7'))
passwords = loader.secrets, VaultSecretsContext.current.secrets
inventory.set_variable('vm1', 'unlocked', all(secrets[0][1].bytes == b'sesame' for secrets in passwords))
"#;
    let play = "- hosts: vm1\n  connection: local\n  gather_facts: false\n  tasks:\n    - debug: {msg: '{{ unlocked }} {{ token }} {{ token | upper }}'}\n";
    let files = [("a.cloud.yml", "plugin: cloud\n"), ("p.yml", play), ("password", "sesame\n")];
    let folder = project(&[("cloud", parse)], &files);
    let arguments = ["playbook", "-i", "a.cloud.yml", "--vault-password-file", "password", "p.yml"];
    let said = text(&windlass(folder.path(), &arguments).stdout);
    assert!(said.contains("True ") && !said.contains("harbour-7"), "{said}");
}

#[test]
fn secret_of_configuration_is_masked_in_error() {
    let secret = windlass_vault::Secret::new("default", "sesame");
    let envelope = windlass_vault::encrypt(b"harbour-7", &secret).unwrap();
    let envelope = envelope.trim().replace('\n', "\n    ");
    let configuration = format!("plugin: cloud\nkeys:\n- token: !vault |\n    {envelope}\n");
    let files = [("a.cloud.yml", configuration.as_str()), ("p.yml", "- hosts: all\n"), ("password", "sesame\n")];
    let folder = project(&[("cloud", "raise ValueError('harbour-7 is no token')")], &files);
    let arguments = ["playbook", "-i", "a.cloud.yml", "--vault-password-file", "password", "p.yml"];
    let said = text(&windlass(folder.path(), &arguments).stderr);
    assert!(said.contains("is no token") && !said.contains("harbour-7"), "{said}");
}

#[test]
fn inventory_plugin_leaves_no_trace_in_process_of_filters() {
    let parse = "inventory.add_host('vm1')\nimport builtins\nbuiltins.trace = 1";
    let filter = "import builtins\n\nclass FilterModule:\n    def filters(self):\n        return {'trace': lambda _: hasattr(builtins, 'trace')}\n";
    let play = "- hosts: vm1\n  connection: local\n  gather_facts: false\n  tasks:\n    - debug: {msg: 'trace={{ 1 | trace }}'}\n";
    let files = [("a.cloud.yml", "plugin: cloud\n"), ("p.yml", play), ("filter_plugins/trace.py", filter)];
    let folder = project(&[("cloud", parse)], &files);
    let output = windlass(folder.path(), &["playbook", "-i", "a.cloud.yml", "p.yml"]);
    assert!(text(&output.stdout).contains("trace=False"), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn refreshed_inventory_comes_from_no_cache() {
    let parse = "inventory.add_host('vm1')\ninventory.set_variable('vm1', 'cached', cache)";
    let play = "- hosts: vm1\n  connection: local\n  gather_facts: false\n  tasks:\n    - debug: {msg: 'cached={{ cached }}'}\n    - meta: refresh_inventory\n    - debug: {msg: 'cached={{ cached }}'}\n";
    let folder = project(&[("cloud", parse)], &[("a.cloud.yml", "plugin: cloud\n"), ("p.yml", play)]);
    let said = text(&windlass(folder.path(), &["playbook", "-i", "a.cloud.yml", "p.yml"]).stdout);
    let (before, after) = (said.find("cached=True"), said.find("cached=False"));
    assert!(before.is_some() && before < after, "{said}");
}

#[test]
fn plugin_that_fails_is_an_error_at_its_name() {
    let cases = [
        ("raise ValueError('no such region')", "a.cloud.yml:1:9: The inventory plugin `cloud` failed: no such region."),
        ("time.sleep(60)", "The inventory plugin `cloud` failed: the Python process that runs it"),
        ("import os; os._exit(3)", "The inventory plugin `cloud` failed: the Python process that runs it has ended"),
        ("inventory.groups['all'].vars = ['x']", "`vars` of the group `all` must be a mapping, but this is a list."),
    ];
    for (parse, expected) in cases {
        // Only the one that never ends: a busy machine may take seconds to start Python.
        let config = if parse.starts_with("time") { "[windlass]\ncommand_timeout = 3\n" } else { "" };
        let files = [("a.cloud.yml", "plugin: cloud\n"), ("ansible.cfg", config)];
        let said = refused(&project(&[("cloud", parse)], &files));
        assert!(said.contains(expected), "{parse}: {said}");
    }
}

#[test]
fn plugin_that_is_not_there_is_named_with_a_remedy() {
    let says = |configuration: &str| refused(&project(&[], &[("a.cloud.yml", configuration)]));
    let said = says("plugin: amazon.aws.aws_ec2\n");
    assert!(said.contains("install it with `windlass galaxy collection install amazon.aws`"), "{said}");
    let said = says("plugin: clod\n");
    assert!(said.contains("The inventory plugin `clod` failed: ansible-core does not find it."), "{said}");
    for name in ["../../x", "a..b", "a/b.c.d", "\"a\\0b\"", "''"] {
        let said = says(&format!("plugin: {name}\n"));
        assert!(said.contains("this is not the name of a plugin"), "{name}: {said}");
    }
    let folder = project(&[("cloud", "pass")], &[("a.cloud.yml", "plugin: cloud\n")]);
    fs::remove_dir_all(folder.path().join("core")).unwrap();
    let said = refused(&folder);
    assert!(said.contains("needs ansible-core, but there is no ansible-core in"), "{said}");
}

#[test]
fn control_characters_that_a_plugin_prints_are_escaped() {
    let parse = r#"
print('tag \x1b]0;x\x07 of a cloud', '\u202e')
inventory.add_host('vm1')
"#;
    let folder = project(&[("cloud", parse)], &[("a.cloud.yml", "plugin: cloud\n")]);
    let said = refused(&folder);
    assert!(said.contains(r"tag \u{1b}]0;x\u{7} of a cloud \u{202e}"), "{said}");
}

#[test]
fn only_enabled_plugins_run() {
    let parse = "inventory.add_host('vm1')";
    let files =
        [("a.cloud.yml", "plugin: cloud\n"), ("ansible.cfg", "[inventory]\nenable_plugins = yaml, other, typo\n")];
    let folder = project(&[("cloud", parse), ("other", parse)], &files);
    let said = refused(&folder);
    assert!(said.contains("The inventory plugin `typo` of `enable_plugins` is unknown and ignored"), "{said}");
    assert!(said.contains("Unable to parse") && !said.contains("`other`"), "{said}");
    fs::write(folder.path().join("a.cloud.yml"), "plugin: other\n").unwrap();
    let output = windlass(folder.path(), &["inventory", "-i", "a.cloud.yml", "--list"]);
    assert!(text(&output.stdout).contains("vm1"), "{}", text(&output.stderr));
}

/// A vars plugin whose `get_vars` has these lines for each entity.
fn vars_plugin(lines: &str) -> String {
    format!(
        r#"import os

from ansible.parsing.vault import EncryptedString

class Trusted(str):
    pass

class VarsModule:
    def get_vars(self, loader, path, entities):
        found = {{}}
        for entity in entities:
            {}
        return found
"#,
        lines.trim().replace('\n', "\n            ")
    )
}

/// Standard output and standard error of a play that prints `text`.
fn printed(plugin: &str, printed: &str, files: &[(&str, &str)]) -> (String, String) {
    let play = format!(
        "- hosts: web\n  connection: local\n  gather_facts: false\n  tasks:\n    - debug: {{msg: \"{printed}\"}}\n"
    );
    let code = vars_plugin(plugin);
    let own = [("p.yml", play.as_str()), ("hosts", "[web]\nw1\n"), ("vars_plugins/mine.py", code.as_str())];
    let folder = project(&[], &[&own, files].concat());
    let output = windlass(folder.path(), &["playbook", "-i", "hosts", "p.yml"]);
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn vars_plugin_gives_variables_below_files_of_the_same_owner() {
    let plugin = r#"
found.update(of=entity.kind + ' ' + entity.name, place=os.path.basename(path), file='plugin', number=6)
if entity.name == 'all':
    found['only_all'] = [1, {'k': None}]
"#;
    let files = [("group_vars/web.yml", "of: a file of the group\n"), ("host_vars/w1.yml", "file: file\n")];
    let (stdout, stderr) = printed(plugin, "{{ of }}, {{ file }}, {{ number + 1 }}, {{ only_all }}", &files);
    assert!(stdout.contains(r"host w1, file, 7, [1, {'k': None}]"), "{stdout}{stderr}");
}

#[test]
fn text_of_vars_plugin_is_a_template_only_if_tagged() {
    let mark = "found['x'] = '{{ 6 * 7 }}'";
    let (stdout, stderr) = printed(mark, "x={{ x }}", &[]);
    assert!(stdout.contains("x={{ 6 * 7 }}"), "{stdout}{stderr}");
    let (stdout, stderr) = printed("found['x'] = Trusted('{{ 6 * 7 }}')", "x={{ x }}", &[]);
    assert!(stdout.contains("x=42"), "{stdout}{stderr}");
}

#[test]
fn vars_plugin_that_must_be_enabled_runs_only_then() {
    let plugin = "found['x'] = 1";
    let code = vars_plugin(plugin).replace("class VarsModule:", "class VarsModule:\n    REQUIRES_ENABLED = True\n");
    let files = [("elsewhere/other.py", code.as_str())];
    let with = |enabled: &str| {
        let settings = format!("[defaults]\nvars_plugins = elsewhere\nvars_plugins_enabled = {enabled}\n");
        let files = [&files[..], &[("ansible.cfg", settings.as_str())]].concat();
        printed("found['y'] = 1", "x={{ x | default('none') }} y={{ y }}", &files)
    };
    let (stdout, stderr) = with("host_group_vars");
    assert!(stdout.contains("x=none y=1"), "{stdout}{stderr}");
    let (stdout, stderr) = with("host_group_vars, other");
    assert!(stdout.contains("x=1 y=1"), "{stdout}{stderr}");
}

#[test]
fn secret_of_vars_plugin_is_masked() {
    let (stdout, stderr) = printed("found['x'] = EncryptedString('harbour-7')", "x={{ x }} {{ x | length }}", &[]);
    assert!(stdout.contains("x=******** 9"), "{stdout}{stderr}");
}

#[test]
fn vars_plugin_that_fails_ends_the_run() {
    for (plugin, expected) in [
        ("raise ValueError('no such store')", "A vars plugin failed: mine: no such store."),
        ("import time; time.sleep(60)", "A vars plugin failed: the Python process that runs it: it did not end"),
        ("return [1]", "A vars plugin failed: mine: it must return a mapping, and not list."),
    ] {
        let files = [("ansible.cfg", "[windlass]\ncommand_timeout = 3\n")];
        let (stdout, stderr) = printed(plugin, "x", &files);
        assert!(stderr.contains(expected) && !stdout.contains("ok: [w1]"), "{plugin}: {stdout}{stderr}");
    }
}

#[test]
fn run_whose_vars_plugin_gives_other_variables_is_not_resumed() {
    let code = vars_plugin("found['x'] = open(os.path.dirname(__file__) + '/../' + entity.name).read()");
    let play = "- hosts: web\n  connection: local\n  gather_facts: false\n  tasks:\n    - debug: {msg: 'x={{ x }}'}\n    - command: test -e {{ playbook_dir }}/mended\n";
    let files = [("p.yml", play), ("hosts", "[web]\nw1\n"), ("vars_plugins/mine.py", code.as_str())];
    let entities = ["all", "ungrouped", "web", "w1", "localhost"].map(|name| (name, "Quartz9Wombat"));
    let folder = project(&[], &[&files[..], &entities].concat());
    let run = |words: &[&str]| {
        let output = windlass(folder.path(), &[&["playbook", "-i", "hosts", "p.yml"], words].concat());
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, said) = run(&[]);
    assert!(code == Some(2) && said.contains("x=Quartz9Wombat"), "{said}");
    fs::write(folder.path().join("mended"), "").unwrap();
    for (name, owner) in [("web", "group `web`"), ("w1", "host `w1`")] {
        fs::write(folder.path().join(name), "Other7Answer").unwrap();
        let (code, said) = run(&["--resume"]);
        let refused = format!("vars plugins give other variables to the {owner}");
        assert!(code == Some(5) && said.contains(&refused) && said.contains("--resume-anyway"), "{said}");
        fs::write(folder.path().join(name), "Quartz9Wombat").unwrap();
    }
    let (code, said) = run(&["--resume"]);
    assert_eq!(code, Some(0), "{said}");
}
