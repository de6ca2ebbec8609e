//! The contract of roles/README.md: files, descriptions and variables of every component.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use windlass_yaml::{Node, Options, Source, parse};

fn roles() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("roles")
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// `KIND/NAME` of the folders two levels down with `meta` or `tasks`, and `NAME` of the fixed roles with a description.
fn components() -> (Vec<String>, Vec<String>) {
    let is_role = |path: &Path| path.join("meta").is_dir() || path.join("tasks").is_dir();
    let (kinds, fixed): (Vec<String>, Vec<String>) = names(&roles())
        .into_iter()
        .filter(|name| roles().join(name).is_dir())
        .partition(|name| !is_role(&roles().join(name)));
    let of_kind = |kind: String| names(&roles().join(&kind)).into_iter().map(move |name| format!("{kind}/{name}"));
    let fixed = fixed.into_iter().filter(|name| roles().join(name).join("meta/component.yml").is_file());
    (kinds.into_iter().flat_map(of_kind).filter(|name| roles().join(name).is_dir()).collect(), fixed.collect())
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The document in a file; null if it is empty.
fn yaml(path: &Path) -> Node {
    let loaded = parse(Source::new(path.display().to_string(), read(path)), &Options::default());
    let loaded = loaded.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(loaded.warnings.is_empty(), "{}: {:?}", path.display(), loaded.warnings);
    loaded.documents.into_iter().next().unwrap_or_else(|| Node::null(windlass_yaml::Span::none()))
}

fn keys(node: &Node) -> Vec<String> {
    node.as_map().into_iter().flat_map(|map| map.keys().map(|key| key.to_text()).collect::<Vec<_>>()).collect()
}

/// Names of the variables in a role's `defaults`.
fn defaults(role: &str) -> Vec<String> {
    variables(role, "defaults")
}

/// Names of the variables in a role's `vars`.
fn derived(role: &str) -> Vec<String> {
    variables(role, "vars")
}

fn variables(role: &str, folder: &str) -> Vec<String> {
    let folder = roles().join(role).join(folder);
    let single = folder.join("main.yml");
    let many = names(&folder.join("main")).into_iter().map(|name| folder.join("main").join(name));
    single.is_file().then_some(single).into_iter().chain(many).flat_map(|file| keys(&yaml(&file))).collect()
}

fn texts(node: Option<&Node>) -> Vec<String> {
    let text = |node: &Node| node.as_str().unwrap_or_else(|| panic!("{}: not a text", node.span)).to_owned();
    node.and_then(Node::as_list).unwrap_or_default().iter().map(text).collect()
}

#[test]
fn every_component_has_its_files() {
    let (components, _) = components();
    assert!(components.iter().any(|name| name == "runtime/containerd"), "{components:?}");
    for name in components {
        for file in [
            "README.md",
            "meta/component.yml",
            "meta/main.yml",
            "tasks/validate.yml",
            "tasks/install.yml",
            "tasks/remove.yml",
        ] {
            assert!(roles().join(&name).join(file).is_file(), "roles/{name} has no {file}");
        }
        let depends = yaml(&roles().join(&name).join("meta/main.yml"));
        let roles = depends.get("dependencies").and_then(Node::as_list).unwrap_or_default();
        let cluster = roles.iter().any(|role| role.get("role").and_then(Node::as_str) == Some("cluster"));
        assert!(cluster, "roles/{name}/meta/main.yml does not depend on the role cluster");
    }
}

#[test]
fn every_description_is_known_and_complete() {
    let (components, fixed) = components();
    let catalog = names(&roles().join("catalog/defaults/main"));
    let files: Vec<Node> = catalog.iter().map(|name| yaml(&roles().join("catalog/defaults/main").join(name))).collect();
    let entries = |table: &str| -> Vec<String> {
        files.iter().flat_map(|file| file.get(table).map(keys).unwrap_or_default()).collect()
    };
    let (artifacts, images) = (entries("catalog_artifacts"), entries("catalog_images"));
    let shared: Vec<String> = defaults("cluster").into_iter().chain(defaults("catalog")).collect();
    for name in components.iter().chain(&fixed) {
        let file = roles().join(name).join("meta/component.yml");
        let description = yaml(&file);
        let at = file.display();
        let mut known = vec!["summary", "kubernetes", "artifacts", "optional_artifacts", "images", "packages"];
        known.extend(["optional_images", "manifests", "chart_artifacts", "chart_repositories", "read_addresses"]);
        known.extend(["package_variables", "kernel", "kernel_modules", "selinux_booleans", "ports", "conflicts"]);
        known.push("ipv6_only");
        let own = match name.split_once('/').map(|(kind, _)| kind) {
            Some("runtime") => vec!["cri_socket", "service"],
            Some("load_balancer") => vec!["endpoint"],
            Some("addon") if description.get("cloud").is_some() => vec!["cloud"],
            Some("addon") => vec!["enabled_by"],
            _ => vec![],
        };
        for field in own.iter().chain(["summary"].iter()) {
            assert!(description.get(field).and_then(Node::as_str).is_some(), "{at} has no text for `{field}`");
        }
        known.extend(own);
        if name.starts_with("network/") {
            known.extend(["nodes_ready", "policies", "every_node", "own_addresses", "replaces_kube_proxy"]);
        }
        if name.starts_with("runtime/") {
            known.push("dockershim_socket");
        }
        if name.starts_with("addon/") {
            known.extend(["order", "provisioners"]);
        }
        if name.starts_with("load_balancer/") {
            known.extend(["address", "port", "static_pods", "user"]);
        }
        let named = ["address", "port", "replaces_kube_proxy"];
        for variable in named.into_iter().filter_map(|field| description.get(field)?.as_str()) {
            let found = defaults(name).iter().chain(&shared).any(|known| known == variable);
            assert!(found, "{at}: there is no default for `{variable}`");
        }
        for key in keys(&description) {
            assert!(known.contains(&key.as_str()), "{at}: `{key}` is unknown");
        }
        if let Some(endpoint) = description.get("endpoint").and_then(Node::as_str) {
            assert!(["local", "address", "first_control_plane"].contains(&endpoint), "{at}: endpoint `{endpoint}`");
            assert_eq!(endpoint == "local", description.get("user").is_some(), "{at}: `user` of the endpoint");
        }
        for (limit, node) in description.get("kubernetes").and_then(Node::as_map).iter().flat_map(|map| map.iter()) {
            let text = node.as_str();
            assert!(["min", "max"].contains(&limit.to_text().as_str()) && text.is_some(), "{at}: quote the releases");
        }
        let optional = description.get("optional_artifacts").and_then(Node::as_map);
        for variable in optional.iter().flat_map(|map| map.keys()) {
            assert!(
                shared.contains(&variable.to_text()),
                "{at}: there is no shared default for `{}`",
                variable.to_text()
            );
        }
        let optional = optional.into_iter().flat_map(|map| map.values()).flat_map(|names| texts(Some(names)));
        for artifact in texts(description.get("artifacts")).into_iter().chain(optional) {
            assert!(artifacts.contains(&artifact), "{at}: the catalog has no artifact `{artifact}`");
        }
        let optional = description.get("optional_images").and_then(Node::as_map);
        let optional = optional.into_iter().flat_map(|map| map.values()).flat_map(|names| texts(Some(names)));
        for image in texts(description.get("images")).into_iter().chain(optional) {
            assert!(images.contains(&image), "{at}: the catalog has no image `{image}`");
        }
        let lists = ["manifests", "chart_artifacts", "chart_repositories", "read_addresses"];
        for variable in lists.into_iter().flat_map(|field| texts(description.get(field))) {
            assert!(derived(name).contains(&variable), "{at}: `vars` does not have `{variable}`");
        }
        for variable in texts(description.get("package_variables")) {
            let found = defaults(name).contains(&variable) || derived(name).contains(&variable);
            assert!(found, "{at}: neither `defaults` nor `vars` has `{variable}`");
        }
        for other in texts(description.get("conflicts")) {
            assert!(components.contains(&other) || fixed.contains(&other), "{at}: there is no role `{other}`");
        }
        texts(description.get("packages"));
        texts(description.get("kernel_modules"));
        for entry in description.get("selinux_booleans").and_then(Node::as_list).unwrap_or_default() {
            assert!(entry.get("boolean").and_then(Node::as_str).is_some(), "{at}: an entry has no text for `boolean`");
        }
        for port in description.get("ports").and_then(Node::as_list).unwrap_or_default() {
            for key in keys(port) {
                assert!(["port", "protocol", "group", "for"].contains(&key.as_str()), "{at}: a port has `{key}`");
            }
            assert!(port.get("for").and_then(Node::as_str).is_some(), "{at}: a port says nothing under `for`");
            let number = port.get("port").unwrap_or_else(|| panic!("{at}: a port without number"));
            if let Some(variable) = number.as_str() {
                let variable = variable.to_owned();
                let known = [&shared[..], &defaults(name), &derived("cluster")].concat();
                assert!(known.contains(&variable), "{at}: there is no default for the port `{variable}`");
            } else {
                assert!(number.as_int().is_some(), "{at}: a port is a number or the name of a variable");
            }
        }
    }
}

#[test]
fn every_variable_has_a_type_and_is_documented() {
    let (components, fixed) = components();
    for name in components.iter().chain(fixed.iter().filter(|name| *name != "cluster")) {
        let variables = defaults(name);
        let readme = read(&roles().join(name).join("README.md"));
        let specs = roles().join(name).join("meta/argument_specs.yml");
        let options = match specs.is_file() {
            true => {
                let specs = yaml(&specs);
                let entry = specs.get("argument_specs").and_then(|specs| specs.get("validate"));
                entry.and_then(|entry| entry.get("options")).map(keys).unwrap_or_default()
            }
            false => Vec::new(),
        };
        let prefix = format!("{}_", name.rsplit('/').next().unwrap());
        for variable in variables {
            assert!(options.contains(&variable), "roles/{name}: `{variable}` has no type in meta/argument_specs.yml");
            assert!(
                variable.starts_with(&prefix) || readme.contains(&format!("`{variable}`")),
                "roles/{name}: `{variable}` neither begins with {prefix} nor is it in README.md"
            );
        }
    }
}

#[test]
fn no_variable_has_two_defaults() {
    let (components, fixed) = components();
    let mut seen: Vec<(String, String)> = Vec::new();
    let more = ["catalog", "registry", "reset", "remove_node", "verify"].map(str::to_owned);
    for role in components.into_iter().chain(fixed).chain(more) {
        for variable in defaults(&role) {
            let first = seen.iter().find(|(known, _)| *known == variable);
            assert!(first.is_none(), "`{variable}` has defaults in roles/{role} and roles/{}", first.unwrap().1);
            seen.push((variable, role.clone()));
        }
    }
}

/// All files in a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let below = |name: String| {
        let path = folder.join(name);
        if path.is_dir() && !path.is_symlink() { files(&path) } else { vec![path] }
    };
    names(folder).into_iter().flat_map(below).collect()
}

/// Files with phases of kubeadm, one of which has the name of a component.
const PHASES: [&str; 2] = ["control_plane/vars/main/kubeadm.yml", "cluster/defaults/main/kubernetes.yml"];

#[test]
fn no_playbook_and_no_fixed_role_names_a_component() {
    let (components, fixed) = components();
    let playbooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("playbooks");
    let more = ["check", "reset", "remove_node", "scale", "verify", "migrate_runtime"].map(str::to_owned);
    let folders = fixed.into_iter().chain(more).map(|role| roles().join(role)).chain([playbooks]);
    for file in
        folders.flat_map(|folder| files(&folder)).filter(|file| file.extension().is_some_and(|end| end == "yml"))
    {
        let text = read(&file);
        for component in &components {
            let conflict = file.ends_with("meta/component.yml");
            let phase = component == "addon/coredns" && PHASES.iter().any(|name| file.ends_with(name));
            assert!(conflict || phase || !text.contains(component.as_str()), "{} names {component}", file.display());
        }
    }
}

#[test]
fn documentation_of_a_role_describes_its_options() {
    let root = env!("CARGO_MANIFEST_DIR");
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        let output = command.args(["doc", "-t", "role"]).args(words).current_dir(root).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(&["etcd"]).split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in
        ["- etcd_cluster_token Name of the cluster. Default: `k8s_etcd`.", "Validity of etcd's certificates"]
    {
        assert!(text.contains(sentence), "{text}");
    }
    let roles: serde_json::Value = serde_json::from_str(&run(&["etcd", "host", "node", "upgrade", "-j"])).unwrap();
    for (role, page) in roles.as_object().unwrap() {
        let options = page["entry_points"]["validate"]["options"].as_object().unwrap();
        let open: Vec<_> = options.iter().filter(|(_, option)| option["description"].is_null()).collect();
        assert!(open.is_empty() && !options.is_empty(), "{role}: {open:?}");
    }
}
