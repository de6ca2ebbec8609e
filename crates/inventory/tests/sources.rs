//! Sources of every kind, and the messages about invalid ones.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use windlass_inventory::{Error, GroupNames, Host, Inventory, LayerOrigin, LoadOptions, Place, Warning, export};
use windlass_vault::Secret;
use windlass_yaml::{Node, Value, python_str};

fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn load(path: &Path) -> (Inventory, Vec<Warning>) {
    load_with(path, &LoadOptions::default())
}

fn load_with(path: &Path, options: &LoadOptions) -> (Inventory, Vec<Warning>) {
    Inventory::load(&[path.display().to_string()], options).unwrap()
}

fn variable(inventory: &Inventory, host: &str, name: &str) -> Option<Node> {
    let layers = inventory.layers(inventory.host(host).unwrap()).unwrap();
    export::merge(&layers, false).get(name).cloned()
}

fn shown(inventory: &Inventory, host: &str, name: &str) -> String {
    variable(inventory, host, name).map(|node| python_str(&node)).unwrap_or_default()
}

fn only_warning(warnings: &[Warning]) -> String {
    warnings.first().map(ToString::to_string).unwrap_or_default()
}

fn executable(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn values_keep_their_positions() {
    let files = directory(&[
        ("hosts", "[web]\nw1 port=80  name='a b'\n[web:vars]\nside = front\n"),
        ("group_vars/web.yml", "tier: 1\n"),
        ("host_vars/w1.yml", "own: 2\n"),
    ]);
    let (inventory, _) = load(&files.path().join("hosts"));
    let place = |name| {
        let span = variable(&inventory, "w1", name).unwrap().span;
        (Path::new(&span.source.name).file_name().unwrap().to_str().unwrap().to_owned(), span.line, span.column)
    };
    assert_eq!(place("port"), ("hosts".into(), 2, 9));
    assert_eq!(place("name"), ("hosts".into(), 2, 19));
    assert_eq!(place("side"), ("hosts".into(), 4, 8));
    assert_eq!(place("tier"), ("web.yml".into(), 1, 7));
    assert_eq!(place("own"), ("w1.yml".into(), 1, 6));
    assert_eq!(inventory.host("w1").unwrap().span().line, 2);
    assert_eq!(inventory.host("w1").unwrap().inventory_dir().unwrap(), files.path());
}

#[test]
fn layers_sorted_by_precedence() {
    let files = directory(&[
        ("inv/hosts", "[all:vars]\nv=all\n[web]\nw1 v=host\n[web:vars]\nv=web\n"),
        ("inv/group_vars/all.yml", "v: all file\n"),
        ("inv/group_vars/web.yml", "v: web file\n"),
        ("inv/host_vars/w1.yml", "v: host file\n"),
        ("group_vars/all.yml", "v: all playbook\n"),
        ("group_vars/web/a.yml", "v: web playbook\n"),
        ("host_vars/w1", "v: host playbook\n"),
    ]);
    let options = LoadOptions { playbook_dir: Some(files.path().to_owned()), ..LoadOptions::default() };
    let (inventory, warnings) = load_with(&files.path().join("inv/hosts"), &options);
    assert!(warnings.is_empty());
    let layers = inventory.layers(inventory.host("w1").unwrap()).unwrap();
    let values: Vec<String> = layers.iter().map(|layer| python_str(layer.vars.get("v").unwrap())).collect();
    assert_eq!(
        values,
        ["all", "web", "all file", "all playbook", "web file", "web playbook", "host", "host file", "host playbook"]
    );
    assert!(
        matches!(&layers[3].origin, LayerOrigin::GroupFile { group, place: Place::Playbook, .. } if &**group == "all")
    );
    assert_eq!(layers[6].origin, LayerOrigin::HostInventory);
    let mut other = inventory.clone();
    other.set_playbook_dir(None);
    assert_eq!(shown(&other, "w1", "v"), "host file");
    // The implicit localhost gets the variables of `all`, but no group contains it.
    let localhost = inventory.host("localhost").unwrap();
    assert!(localhost.is_implicit() && inventory.groups_of(localhost).is_empty());
    assert_eq!(shown(&inventory, "localhost", "v"), "all playbook");
    assert_eq!(shown(&inventory, "localhost", "ansible_connection"), "local");
}

#[test]
fn group_precedence_follows_depth_priority_and_name() {
    let files = directory(&[(
        "hosts",
        "[b]\nh\n[a]\nh\n[c]\nh\n[deep]\nh\n[b:children]\ndeep\n[a:vars]\nv=a\nw=a\n[b:vars]\nv=b\nw=b\nansible_group_priority=5\n[c:vars]\nv=c\n[deep:vars]\nv=deep\n",
    )]);
    let (inventory, _) = load(&files.path().join("hosts"));
    let names: Vec<_> =
        inventory.groups_of(inventory.host("h").unwrap()).iter().map(|group| group.name().to_string()).collect();
    assert_eq!(names, ["all", "a", "c", "b", "deep"]);
    assert_eq!(shown(&inventory, "h", "v"), "deep");
    assert_eq!(shown(&inventory, "h", "w"), "b");
    assert_eq!(variable(&inventory, "h", "ansible_group_priority"), None);
}

#[test]
fn script_with_meta_loads_all_hosts() {
    let files = directory(&[(
        "inventory.sh",
        "#!/bin/sh\n[ \"$1\" = --list ] || exit 9\ncat <<'END'\n{\"web\": {\"hosts\": [\"w1\", \"w2\"], \"vars\": {\"v\": 1}, \"children\": [\"front\"]},\n \"front\": [\"w3\"], \"lone\": {\"x\": 1},\n \"_meta\": {\"hostvars\": {\"w1\": {\"t\": \"{{ v }}\", \"u\": {\"__ansible_unsafe\": \"{{ v }}\"}}, \"nowhere\": {}}}}\nEND\n",
    )]);
    let path = files.path().join("inventory.sh");
    executable(&path);
    let (inventory, warnings) = load(&path);
    assert!(warnings.iter().all(|warning| matches!(warning, Warning::GroupAndHost { .. })), "{warnings:?}");
    let names: Vec<_> = inventory.hosts().map(|host| host.name().to_string()).collect();
    assert_eq!(names, ["w1", "w2", "w3", "lone"]);
    assert_eq!(shown(&inventory, "w3", "v"), "1");
    assert_eq!(shown(&inventory, "lone", "x"), "1");
    assert!(matches!(variable(&inventory, "w1", "t").unwrap().value, Value::String(_)));
    assert!(matches!(variable(&inventory, "w1", "u").unwrap().value, Value::Literal(_)));
}

#[test]
fn script_without_meta_called_for_each_host() {
    let files = directory(&[(
        "inventory",
        "#!/bin/sh\nif [ \"$1\" = --host ]; then echo \"{\\\"me\\\": \\\"$2\\\"}\"; else echo '{\"web\": [\"w1\"]}'; fi\n",
    )]);
    let path = files.path().join("inventory");
    executable(&path);
    let (inventory, _) = load(&path);
    assert_eq!(shown(&inventory, "w1", "me"), "w1");
}

#[test]
fn failing_script_quoted_hanging_script_killed() {
    let files = directory(&[
        ("fails", "#!/bin/sh\necho no credentials >&2\nexit 3\n"),
        ("hangs", "#!/bin/sh\nexec sleep 600\n"),
        ("babbles", "#!/bin/sh\necho 'hello: ['\n"),
    ]);
    for name in ["fails", "hangs", "babbles"] {
        executable(&files.path().join(name));
    }
    let options = LoadOptions { script_timeout: Some(Duration::from_millis(300)), ..LoadOptions::default() };
    let warning = |name| only_warning(&load_with(&files.path().join(name), &options).1);
    let fails = warning("fails");
    assert!(fails.contains("exit status: 3") && fails.contains("no credentials"), "{fails}");
    assert!(warning("hangs").contains("took longer than"));
    assert!(warning("babbles").contains("did not print JSON"));
}

#[test]
fn encrypted_files_are_decrypted() {
    let secret = Secret::new("default", "harbour");
    let files = directory(&[("hosts", "w1\n")]);
    fs::create_dir(files.path().join("group_vars")).unwrap();
    let envelope = windlass_vault::encrypt(b"token: s3cret\nlist: [", &secret).unwrap();
    fs::write(files.path().join("group_vars/all.yml"), envelope).unwrap();
    fs::write(files.path().join("inv.yml"), windlass_vault::encrypt(b"all: {hosts: {w2: {x: 1}}}", &secret).unwrap())
        .unwrap();
    let mut options = LoadOptions::default();
    let (inventory, _) = load_with(&files.path().join("hosts"), &options);
    let error = inventory.layers(inventory.host("w1").unwrap()).unwrap_err().to_string();
    assert!(error.contains("all.yml: Attempting to decrypt"), "{error}");
    options.secrets.push(secret.clone());
    let (inventory, _) = load_with(&files.path().join("hosts"), &options);
    let error = inventory.layers(inventory.host("w1").unwrap()).unwrap_err().to_string();
    assert!(error.contains("all.yml:3:1") && !error.contains("list"), "a decrypted line is shown: {error}");
    let envelope = windlass_vault::encrypt(b"token: s3cret\n", &secret).unwrap();
    fs::write(files.path().join("group_vars/all.yml"), envelope).unwrap();
    let (inventory, _) = load_with(&files.path().join("hosts"), &options);
    assert_eq!(shown(&inventory, "w1", "token"), "s3cret");
    let (inventory, _) = load_with(&files.path().join("inv.yml"), &options);
    assert_eq!(shown(&inventory, "w2", "x"), "1");
}

#[test]
fn ini_mistake_reported_with_position() {
    for (text, place, message) in [
        ("[web\nh1\n", "hosts:1:1: The host pattern `[web` has a `[`", ""),
        ("[web ]\n", "hosts:1:1: `[web ]` is not a valid section", ""),
        ("[web:var]\n", "hosts:1:1: The section [web:var] is of an unknown kind", "[group:vars]"),
        ("h1 a=1 b\n", "hosts:1:8: `b` is not of the form name=value", "quotes"),
        ("h1 a='x\n", "hosts:1:6: In this line a quote is opened", ""),
        ("[web]\nh[1:\n", "hosts:2:1: The host pattern `h[1:` has a `[` without its `]`", ""),
        ("[web]\nh1\n[web:vars]\nfoo\n", "hosts:4:1: `foo` is not of the form name = value", "[web:vars]"),
        ("h1\n[nope:vars]\na=1\n", "hosts:2:1: Variables are given for the group `nope`", "[nope]"),
        ("[a:children]\nnope\n", "hosts:2:1: The group `nope` should be a child of `a`", "[nope]"),
        ("[a]\n[b:children]\na\n[a:children]\nb\n", "hosts:5:1: The group `b` cannot be a child of `a`", ""),
        ("[web]\nh1:\n", "hosts:2:1: The host `h1:` ends with a colon", "YAML"),
    ] {
        let files = directory(&[("hosts", text)]);
        let (inventory, warnings) = load(&files.path().join("hosts"));
        let told = only_warning(&warnings);
        assert!(told.contains(place) && told.contains(message), "{text:?}:\n{told}");
        assert_eq!(inventory.hosts().len(), 0, "nothing of a broken source is used");
        let strict = LoadOptions { unparsed_is_error: true, ..LoadOptions::default() };
        let error = Inventory::load(&[files.path().join("hosts").display().to_string()], &strict);
        assert!(matches!(error, Err(Error::Unparsed { .. })));
    }
}

#[test]
fn yaml_mistake_reported_with_position() {
    for (text, expected) in [
        (
            "all:\n  hosts:\n    - h1\n",
            "hosts.yml:3:5: `hosts` of the group `all` must be a mapping, but this is a list",
        ),
        ("- h1\n", "hosts.yml:1:1: A YAML inventory is a mapping of groups, but this is a list"),
        (
            "plugin: amazon.aws.aws_ec2\n",
            "hosts.yml:1:1: This file configures the inventory plugin `amazon.aws.aws_ec2`",
        ),
        ("all:\n  hosts:\n    1:\n", "hosts.yml:3:5: Host pattern 1 must be a string, but this is an integer"),
        ("all:\n  hosts:\n    h1: x\n", "hosts.yml:3:9: The variables of the host `h1` must be a mapping"),
        ("all:\n  vars: {a: {{ b }}}\n", "hosts.yml:2:14"),
    ] {
        let files = directory(&[("hosts.yml", text)]);
        let told = only_warning(&load(&files.path().join("hosts.yml")).1);
        assert!(told.contains(expected), "{text:?}:\n{told}");
    }
    let files = directory(&[("hosts.yml", "all:\n  hosts: {h1: }\n  host: {h2: }\nweb: 5\n")]);
    let (inventory, warnings) = load(&files.path().join("hosts.yml"));
    assert!(only_warning(&warnings).contains("hosts.yml:3:3: `host` in the group `all` is ignored"));
    assert_eq!((inventory.hosts().len(), warnings.len()), (1, 2));
}

#[test]
fn missing_source_warns() {
    let (inventory, warnings) = load(Path::new("/nonexistent/hosts"));
    assert_eq!(inventory.hosts().len(), 0);
    assert!(only_warning(&warnings).contains("/nonexistent/hosts"));
    assert!(matches!(warnings.last(), Some(Warning::NoInventory)));
}

#[test]
fn host_without_comma_gets_one() {
    let load = |source: &str| Inventory::load(&[source.to_owned()], &LoadOptions::default()).unwrap().1;
    let shown = load("web1").iter().map(ToString::to_string).collect::<String>();
    assert!(shown.contains("If `web1` is a host, write a comma behind it: `web1,`."), "{shown}");
    let shown = load("inventories/web1").iter().map(ToString::to_string).collect::<String>();
    assert!(!shown.contains("comma"), "{shown}");
}

#[test]
fn files_of_variables_must_be_mappings() {
    let files = directory(&[("hosts", "h1\n"), ("group_vars/all.yml", "- a\n"), ("host_vars/h1.yml", "")]);
    let (inventory, _) = load(&files.path().join("hosts"));
    let error = inventory.layers(inventory.host("h1").unwrap()).unwrap_err().to_string();
    assert!(error.contains("all.yml:1:1: A file of variables must be a mapping, but this is a list."), "{error}");
}

#[test]
fn hosts_and_groups_can_be_added_while_running() {
    let files = directory(&[("hosts", "h1\n"), ("group_vars/new.yml", "from: file\n")]);
    let (mut inventory, _) = load(&files.path().join("hosts"));
    let vars = [(
        windlass_yaml::Key::string("x", windlass_yaml::Span::none()),
        Node::literal("1", windlass_yaml::Span::none()),
    )];
    let vars = windlass_yaml::Mapping::from(vars.to_vec());
    assert!(inventory.add_host("h2", &["new"], &vars));
    assert!(!inventory.add_host("h2", &["new"], &vars));
    assert_eq!(shown(&inventory, "h2", "from"), "file");
    assert_eq!(shown(&inventory, "h2", "x"), "1");
    assert!(inventory.layers(inventory.host("h1").unwrap()).unwrap().is_empty());
    assert!(inventory.add_host_to_group("h1", "new"));
    assert_eq!(shown(&inventory, "h1", "from"), "file");
    assert!(inventory.direct_hosts_of_group("ungrouped").is_empty());
    assert!(inventory.add_child("parent", "new").unwrap());
    assert!(matches!(inventory.add_child("new", "parent"), Err(Error::Loop { .. })));
    assert_eq!(inventory.matching("parent").unwrap().hosts.len(), 2);
}

#[test]
fn the_implicit_localhost_can_be_grouped() {
    let files = directory(&[("hosts", "h1\n"), ("group_vars/local.yml", "v: 1\n")]);
    let (mut inventory, _) = load(&files.path().join("hosts"));
    assert!(inventory.add_host_to_group("localhost", "local"));
    assert_eq!(inventory.matching("local").unwrap().hosts.join(" "), "localhost");
    assert_eq!(inventory.matching("all").unwrap().hosts.join(" "), "h1");
    assert_eq!(inventory.matching("*").unwrap().hosts.join(" "), "h1 localhost");
    assert_eq!(shown(&inventory, "localhost", "v"), "1");
}

#[test]
fn ten_thousand_hosts_share_their_layers() {
    let files = directory(&[
        ("hosts", "[web]\nw[1:10000] a=1\n[front:children]\nweb\n"),
        ("group_vars/all.yml", "x: 1\n"),
        ("group_vars/front.yml", "y: 1\n"),
        ("host_vars/w5.yml", "z: 1\n"),
    ]);
    let (inventory, _) = load(&files.path().join("hosts"));
    let layers: Vec<_> = inventory.hosts().map(|host| inventory.layers(host).unwrap()).collect();
    assert_eq!(layers.len(), 10_000);
    for (first, other) in layers[0].iter().zip(&layers[9_999]) {
        assert!(std::sync::Arc::ptr_eq(&first.vars, &other.vars));
    }
    assert_eq!((layers[0].len(), layers[4].len()), (3, 4));
}

#[test]
fn invalid_names_warn() {
    let files = directory(&[("hosts", "[my-group]\nboth\n[both]\nx\n")]);
    let told: Vec<String> = load(&files.path().join("hosts")).1.iter().map(ToString::to_string).collect();
    assert!(told[0].contains("my-group") && told[1].contains("`both`"), "{told:?}");
}

#[test]
fn short_names_end_at_the_first_dot_unless_they_are_addresses() {
    let (inventory, _) =
        Inventory::load(&["web.example.com,192.0.2.1,2001:db8::1".into()], &LoadOptions::default()).unwrap();
    let names: Vec<&str> = inventory.hosts().map(Host::short_name).collect();
    assert_eq!(names, ["web", "192.0.2.1", "2001:db8::1"]);
}

#[test]
fn built_in_plugin_configured_by_each_of_its_names() {
    for prefix in ["", "ansible.builtin.", "ansible.legacy."] {
        let text = format!("plugin: {prefix}generator\nhosts: {{name: 'h{{{{ n }}}}'}}\nlayers: {{n: [1, 2]}}\n");
        let files = directory(&[("made.yml", &text)]);
        // The plugin is found: it lacks only the template engine, which this crate does not have.
        let warnings = load(&files.path().join("made.yml")).1;
        assert!(warnings[0].to_string().contains("There is no template engine"), "{prefix}: {warnings:?}");
    }
}

#[test]
fn only_enabled_plugins_read_sources() {
    let files = directory(&[("hosts.yml", "all: {hosts: {h1: }}\n"), ("hosts.ini", "h2\n")]);
    let sources = ["hosts.yml", "hosts.ini"].map(|name| files.path().join(name).display().to_string());
    let enabled = |names: &[&str]| LoadOptions {
        enabled: names.iter().map(|name| (*name).to_owned()).collect(),
        ..LoadOptions::default()
    };
    let (inventory, warnings) = Inventory::load(&sources, &enabled(&["ansible.builtin.ini", "cloud"])).unwrap();
    assert_eq!(inventory.matching("all").unwrap().hosts.join(" "), "h2");
    assert!(only_warning(&warnings).contains("`cloud`"), "{warnings:?}");
    assert!(warnings[1].to_string().starts_with("Unable to parse"), "{warnings:?}");
    assert!(matches!(Inventory::load(&sources, &enabled(&["cloud"])), Err(Error::NoPlugins { .. })));
    let ranges = enabled(&["advanced_host_list"]);
    let (inventory, _) = Inventory::load(&["a[1:2],b:22".to_owned()], &ranges).unwrap();
    assert_eq!(inventory.matching("all").unwrap().hosts.join(" "), "a1 a2 b");
    let (inventory, warnings) = Inventory::load(&["a[1:],b".to_owned()], &ranges).unwrap();
    assert_eq!(inventory.matching("all").unwrap().hosts.join(" "), "a[1:] b");
    assert!(only_warning(&warnings).contains("leaving unchanged"), "{warnings:?}");
    let strict = LoadOptions { nothing_is_error: true, ..ranges };
    assert!(matches!(Inventory::load(&["a[1:j],".to_owned()], &strict), Err(Error::NoInventory { .. })));
}

#[test]
fn invalid_group_name_replaced() {
    let files =
        directory(&[("hosts", "[a-b]\nh1\n[a-b:vars]\nv=1\n[c:children]\na-b\n"), ("more", "[a-b:vars]\nw=2\n")]);
    let sources = ["hosts", "more"].map(|name| files.path().join(name).display().to_string());
    let options = |group_names| LoadOptions { group_names, ..LoadOptions::default() };
    for (group_names, name, told) in [
        (GroupNames::Never, "a-b", "not replaced: a-b"),
        (GroupNames::Ignore, "a-b", ""),
        (GroupNames::Always, "a_b", "replaced: a-b"),
        (GroupNames::Silently, "a_b", ""),
    ] {
        let (inventory, warnings) = Inventory::load(&sources, &options(group_names)).unwrap();
        assert_eq!(inventory.matching(name).unwrap().hosts.join(" "), "h1");
        assert_eq!((shown(&inventory, "h1", "v"), shown(&inventory, "h1", "w")), ("1".to_owned(), "2".to_owned()));
        assert!(only_warning(&warnings).contains(told) && warnings.is_empty() == told.is_empty(), "{warnings:?}");
    }
}

#[test]
fn toml_mistake_reported_with_position() {
    for (text, expected) in [
        ("[web\n", "hosts.toml:1:5: The text is not valid TOML"),
        ("[web]\nhosts = [\"h1\"]\n", "hosts.toml:2:9: `hosts` of the group `web` must be a table, but this is a list"),
        ("[web]\nchildren = {a = 1}\n", "hosts.toml:2:12: `children` of the group `web` must be a list"),
        ("[web.hosts]\nh1 = 5\n", "hosts.toml:2:6: `hosts.h1` of the group `web` must be a table"),
        ("[web.hosts]\n\"h[1:\" = {}\n", "hosts.toml:2:1: The host pattern `h[1:`"),
    ] {
        let files = directory(&[("hosts.toml", text)]);
        let told = only_warning(&load(&files.path().join("hosts.toml")).1);
        assert!(told.contains(expected), "{text:?}:\n{told}");
    }
}

#[test]
fn folder_without_sources_warns() {
    let files = directory(&[("inv/readme.md", "nothing")]);
    let told = only_warning(&load(&files.path().join("inv")).1);
    assert!(told.starts_with("Unable to parse") && told.contains("/inv"), "{told}");
}

/// A cluster's inventory beside the sources that it shares with others.
fn subset(configuration: &str) -> (TempDir, Inventory, Vec<Warning>) {
    let files = directory(&[
        (
            "hosts.ini",
            "[all:vars]\nshared=everywhere\n[eu]\ne1 port=1\ne2\n[eu:vars]\nregion=eu\n[us]\nu1\n\
             [kube_control_plane]\ne1\nu1\n[calico_rr]\n[kube_node:children]\nbig\n[big]\nu1\ne2\n\
             [big:vars]\nansible_group_priority=7\n",
        ),
        ("group_vars/eu.yml", "of_file: shared file\nown: no\n"),
        ("clusters/eu/group_vars/eu.yml", "own: yes\n"),
        ("clusters/eu/hosts.yml", configuration),
    ]);
    let (inventory, warnings) = load(&files.path().join("clusters/eu/hosts.yml"));
    (files, inventory, warnings)
}

#[test]
fn hosts_of_one_group_form_an_inventory() {
    let (files, inventory, warnings) = subset("plugin: windlass.group\ngroup: eu\nsources: ../../hosts.ini\n");
    assert!(warnings.is_empty(), "{}", only_warning(&warnings));
    let names = |hosts: Vec<&Host>| hosts.iter().map(|host| host.name().to_string()).collect::<Vec<_>>();
    assert_eq!(names(inventory.hosts().collect()), ["e1", "e2"]);
    assert_eq!(names(inventory.hosts_of_group("kube_control_plane")), ["e1"]);
    assert_eq!(names(inventory.hosts_of_group("kube_node")), ["e2"]);
    assert!(inventory.group("calico_rr").is_some() && inventory.hosts_of_group("us").is_empty());
    assert_eq!(inventory.group("big").unwrap().priority(), 7);
    for (name, value) in
        [("shared", "everywhere"), ("port", "1"), ("region", "eu"), ("of_file", "shared file"), ("own", "True")]
    {
        assert_eq!(shown(&inventory, "e1", name), value, "{name}");
    }
    // Files that a run writes beside the inventory belong to this cluster.
    assert_eq!(inventory.host("e1").unwrap().inventory_dir().unwrap(), files.path().join("clusters/eu"));
    assert!(inventory.included_sources()[0].ends_with("clusters/eu/../../hosts.ini"));
}

/// Many playbooks treat the first host of `kube_control_plane` specially.
#[test]
fn hosts_of_one_group_keep_the_order_of_the_other_groups() {
    let hosts = "[kube_control_plane]\ncp1\ncp2\n[etcd]\ncp2\ncp1\n[eu]\ncp2\ncp1\n[us]\nu1\n";
    let files = directory(&[
        ("hosts", hosts),
        ("first", "[eu]\ne0\n[eu:vars]\nansible_group_priority=5\n"),
        ("eu/hosts.yml", "plugin: windlass.group\ngroup: eu\nsources: ../hosts\n"),
    ]);
    let (inventory, _) = load(&files.path().join("eu/hosts.yml"));
    let names =
        |group: &str| inventory.hosts_of_group(group).iter().map(|host| host.name().to_string()).collect::<Vec<_>>();
    assert_eq!(
        (names("kube_control_plane"), names("etcd")),
        (vec!["cp1".into(), "cp2".into()], vec!["cp2".into(), "cp1".into()])
    );
    assert_eq!(inventory.hosts().map(|host| &**host.name()).collect::<Vec<_>>(), ["cp1", "cp2"]);
    // A priority that the sources do not set stays that of another source.
    let sources = ["first", "eu/hosts.yml"].map(|name| files.path().join(name).display().to_string());
    let (inventory, _) = Inventory::load(&sources, &LoadOptions::default()).unwrap();
    assert_eq!(inventory.group("eu").unwrap().priority(), 5);
}

#[test]
fn included_directory_may_hold_the_files_that_include_it() {
    let (_files, inventory, warnings) = subset("plugin: windlass.group\ngroup: eu\nsources: [../..]\n");
    assert!(warnings.is_empty(), "{}", only_warning(&warnings));
    assert_eq!(inventory.hosts().len(), 2);
}

#[test]
fn errors_of_windlass_group_name_place_and_remedy() {
    for (configuration, expected) in [
        ("group: ue\nsources: [../../hosts.ini]", ":2:8: The sources have no group `ue`."),
        ("group: ue\nsources: [../../hosts.ini]", "Groups with hosts: eu, us, kube_control_plane, kube_node, big."),
        ("group: calico_rr\nsources: [../../hosts.ini]", ":2:8: The group `calico_rr` has no hosts in the sources."),
        ("group: eu\nsources: [../../host.ini]", "host.ini` cannot be read."),
        ("group: eu\nsources: hosts.yml", "is a file of `windlass.group` itself"),
        ("group: eu", "A configuration of `windlass.group` needs `sources`."),
        ("group: [eu]\nsources: x", ":2:8: This must be a text, but it is a list."),
        ("groups: eu\nsources: x", ":2:1: The plugin `windlass.group` has no option `groups`."),
    ] {
        let (_files, inventory, warnings) = subset(&format!("plugin: windlass.group\n{configuration}\n"));
        let told: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert!(told.join("\n").contains(expected), "{configuration}: {told:?}");
        assert_eq!(inventory.hosts().len(), 0);
    }
}
