//! Output of kubectl that roles read as lines. Kubelets and tenants of a cluster write any text into some fields, also
//! a newline and then a line about another node, Secret or pod. So lines have only fields that the API server types,
//! parts printed as JSON, and quoted texts.

use std::fs;
use std::path::{Path, PathBuf};

/// Fields whose values the API server restricts to names, numbers, addresses, times, or words of its own.
const TYPED: &[&str] = &[
    ".automountServiceAccountToken",
    ".clientConfig.service.name",
    ".clientConfig.service.namespace",
    ".kind",
    ".metadata.deletionTimestamp",
    ".metadata.generation",
    ".metadata.labels.controller-revision-hash",
    ".metadata.name",
    ".metadata.namespace",
    ".metadata.uid",
    ".revision",
    ".securityContext.allowPrivilegeEscalation",
    ".securityContext.runAsNonRoot",
    ".spec.automountServiceAccountToken",
    ".spec.claimRef.name",
    ".spec.claimRef.namespace",
    ".spec.clusterIP",
    ".spec.clusterIPs[*]",
    ".spec.containers[*].ports[*].hostPort",
    ".spec.containers[*].securityContext.privileged",
    ".spec.group",
    ".spec.hostIPC",
    ".spec.hostNetwork",
    ".spec.hostPID",
    ".spec.initContainers[*].securityContext.privileged",
    ".spec.nodeName",
    ".spec.podCIDRs[*]",
    ".spec.ports[*].nodePort",
    ".spec.ports[0].nodePort",
    ".spec.securityContext.runAsNonRoot",
    ".spec.securityContext.seccompProfile.type",
    ".spec.securityContext.windowsOptions.hostProcess",
    ".spec.unschedulable",
    ".spec.updateStrategy.type",
    ".status.desiredNumberScheduled",
    ".status.disruptionsAllowed",
    ".status.expectedPods",
    ".status.observedGeneration",
    ".subsets[*].addresses[0].ip",
];

/// Objects and lists, which kubectl prints as JSON. It escapes line breaks.
const JSON: &[&str] = &[
    ".metadata.labels",
    ".resources",
    ".roleRef",
    ".securityContext.capabilities.drop",
    ".spec.containers[*].envFrom[*].secretRef",
    ".spec.containers[*].env[*].valueFrom.secretKeyRef",
    ".spec.containers[*].securityContext.capabilities.add",
    ".spec.securityContext",
    ".spec.taints",
    ".spec.volumes[*].hostPath",
    ".status.addresses",
    ".status.conditions",
    ".status.containerStatuses",
    ".status.nodeInfo",
    ".status.podIPs",
    ".subjects",
    ".verbs",
];

/// Fields that are the only one of their output, belong to one object that one program writes, are compared within
/// kubectl, or are the API server's own, by the end of the file's name.
const ALONE: &[(&str, &str)] = &[
    ("adopt/files/probe.sh", r".data.ClusterConfiguration"),
    ("adopt/files/probe.sh", r".data.config\.conf"),
    ("backup/files/verify.sh", r#".status.conditions[?(@.type=="Established")].status"#),
    ("certificates/tasks/rotation.yml", ".items[*].metadata.name"),
    ("certificates/templates/objects.sh.j2", r".data.ca\.crt"),
    ("certificates/templates/objects.sh.j2", ".data.token"),
    ("certificates/templates/objects.sh.j2", ".secrets[*].name"),
    ("cis/vars/main/read.yml", r".data.config\.conf"),
    ("cluster/files/rollout.sh", r#".metadata.ownerReferences[?(@.uid==\"$1\")].uid"#),
    ("cluster/files/unready.sh", ".message"),
    ("drain/tasks/ready.yml", r#".status.conditions[?(@.type=="Ready")].status"#),
    ("drain/tasks/ready.yml", ".status.nodeInfo.containerRuntimeVersion"),
    ("drain/tasks/ready.yml", ".status.nodeInfo.kubeletVersion"),
    ("kube_proxy/tasks/main.yml", r".metadata.annotations.windlass\.dev/kube-proxy"),
    ("network/calico/tasks/certificates.yml", ".data.$3"),
    ("node/tasks/moved.yml", r#".metadata.ownerReferences[?(@.kind=="DaemonSet")].kind"#),
    ("node/tasks/moved.yml", r#".status.addresses[?(@.type=="InternalIP")].address"#),
    ("restore/files/present.sh", ".status.phase"),
    ("upgrade/tasks/begin.yml", ".data.ClusterConfiguration"),
    ("upgrade/tasks/plan.yml", ".image"),
    ("upgrade/tasks/restart_node.yml", r#".status.conditions[?(@.type=="Ready")].status"#),
    ("upgrade/tasks/restart_node.yml", ".status.nodeInfo.bootID"),
];

/// Files whose lines change no other object: they refuse an upgrade or a migration, are findings of a report, or are
/// about objects that the file itself has made.
const HARMLESS: &[&str] = &[
    "conformance/files/smoke.sh",
    "conformance/tasks/suite.yml",
    "migrate_network/",
    "migrate_runtime/tasks/pods.yml",
    "upgrade/tasks/preflight.yml",
    "verify/files/cluster.sh",
];

/// Fields that a Go template prints without quotes.
const PRINTED: &[&str] = &[
    "\"\\n\"",
    "$pod.metadata.name",
    "$pod.metadata.namespace",
    "$pod.spec.nodeName",
    ".exitCode",
    ".kind",
    ".metadata.creationTimestamp",
    ".metadata.name",
    ".metadata.namespace",
    ".restartCount",
];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| ["yml", "sh", "j2"].iter().any(|known| end == *known)) {
            found.push(path);
        }
    }
}

/// Fields in kubectl's notation, such as `.metadata.name` of `{.metadata.name}`.
fn fields(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("{.") {
        let rest = &text[at + 1..];
        let field = rest.split('}').next().unwrap();
        let is_name = field[1..].starts_with(|letter: char| letter.is_ascii_alphabetic());
        if is_name && !text[..at].ends_with('{') && !field.contains(['{', '\n', ' ']) {
            found.push(field);
        }
    }
    found
}

/// Actions of Go templates: in a script all that is in two braces, in a template of Ansible only what it leaves alone.
fn actions(text: &str, is_script: bool) -> Vec<String> {
    let raw: String = if is_script {
        text.to_owned()
    } else {
        text.split("{% raw %}").skip(1).map(|part| part.split("{% endraw %}").next().unwrap()).collect()
    };
    let parts = raw.split("{{").skip(1);
    parts.map(|part| part.split("}}").next().unwrap().trim_matches('-').trim().to_owned()).collect()
}

/// Whether an action prints nothing that ends the line. `$pod := .` and the like print nothing.
fn is_safe(action: &str) -> bool {
    let word = action.split(' ').next().unwrap();
    let prints = !["range", "with", "if", "end", "else"].contains(&word) && !action.contains(":=");
    let quotes = action.starts_with("printf \"") && {
        let format = action["printf \"".len()..].split('"').next().unwrap();
        format.split('%').skip(1).all(|verb| verb.starts_with('t') || verb.starts_with('+') && verb.contains('q'))
    };
    !prints || quotes || PRINTED.contains(&action)
}

#[test]
fn lines_of_kubectl_have_no_text_of_nodes_and_tenants() {
    let roles = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles");
    let mut found = Vec::new();
    files(&roles, &mut found);
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in found {
        let name = path.strip_prefix(&roles).unwrap().display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        if HARMLESS.iter().any(|known| name.starts_with(known))
            || !(text.contains("kubectl") || text.contains("jsonpath"))
        {
            continue;
        }
        if text.contains("custom-columns") {
            wrong.push(format!("{name}: custom-columns print any text; use JSON"));
        }
        for field in fields(&text) {
            seen += 1;
            if !TYPED.contains(&field) && !JSON.contains(&field) && !ALONE.contains(&(name.as_str(), field)) {
                wrong.push(format!("{name}: {{{field}}}"));
            }
        }
        let is_script = name.ends_with(".sh");
        let is_template = text.contains("{{range .items") || text.contains("{{ range .items");
        for action in if is_template { actions(&text, is_script) } else { Vec::new() } {
            // A token in base64, of a Secret that the API server has checked, and a time.
            let known = action == "." && ["objects.sh.j2", "pods.yml"].iter().any(|end| name.ends_with(end));
            if !known && !is_safe(&action) {
                wrong.push(format!("{name}: {{{{{action}}}}}"));
            }
        }
    }
    assert!(seen > 50, "{seen} fields were found");
    assert!(
        wrong.is_empty(),
        "print these as JSON or by %+q, or add fields that the API server types:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn fields_and_actions_with_free_texts_are_found() {
    let columns =
        r#"kubectl get nodes -o jsonpath={range .items[*]}{.metadata.name}={.status.nodeInfo.kubeletVersion}{"\n"}"#;
    assert_eq!(fields(columns), [".metadata.name", ".status.nodeInfo.kubeletVersion"]);
    for (action, safe) in [
        (".metadata.name", true),
        (".status.nodeInfo.kubeletVersion", false),
        (r#"printf "%q" .message"#, false),
        (r#"printf "%+.63q\t%s" .a .b"#, false),
        (r#"printf "%+.63q\t%t\n" .a .b"#, true),
        ("range .items", true),
    ] {
        assert_eq!(is_safe(action), safe, "{action}");
    }
}
