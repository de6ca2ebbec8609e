//! `state: reconfigured` of `kubeadm`: applies changed settings to the static pods of a running control plane.
//!
//! kubeadm writes manifests only into the folder that kubelet watches. So it renders the wanted ones in a mount
//! namespace, in which that folder is a scratch directory. Those that differ replace the running ones, one by one.
//! Until a component has answered, its former manifest remains beside that folder for a run after an interruption.

use std::{
    collections::HashSet,
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    super::{core::documents, quorum::Verdict},
    node::ADMIN,
    planes::{Purpose, Request},
    publish::Publication,
    tool::Tool,
};
use crate::{
    Args, Failure, Host, Outcome, Plan, crypto,
    files::{
        mode::Mode,
        scratch::Scratch,
        write::{Source, Wanted},
    },
    process::Command,
};

/// Static pods in the order in which they change: each depends on those before it.
const COMPONENTS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
/// Runs a program with one folder in place of another.
const WITH_FOLDER: &str = r#"mount --bind "$1" "$2" && shift 2 && exec "$@""#;
/// Bytes after which the kernel cuts the name of a process.
const NAME_LENGTH: usize = 15;
/// Index of the start time among the fields of `/proc/PID/stat` after the name, in ticks since the boot: proc(5).
const START: usize = 19;
/// Extensions of a key and its certificate, in the order in which kubeadm writes them.
const PAIR: [&str; 2] = ["key", "crt"];
/// Begins a kept manifest: the processes that ran with it follow.
const PROCESSES: &str = "# Former processes:";
/// Separates a kept manifest from the one that replaced it.
const REPLACED: &str = "\n# Replaced by:\n";

/// `state: reconfigured`.
pub(super) fn plan(tool: Tool, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let Some((config, secret)) = tool.config()? else {
        return Err(Failure::new("state reconfigured needs `config` or `config_content`."));
    };
    let admin = args.str("kubeconfig").unwrap_or(ADMIN).to_owned();
    let folder = Path::new(&admin).parent().unwrap_or(Path::new("/")).to_owned();
    let endpoint = args.str("api_endpoint").filter(|_| args.bool("first")).map(str::to_owned);
    let publication = endpoint.map(|endpoint| Publication { admin, endpoint });
    let mut request = Request::of(&tool, args, Purpose::Restart);
    let plane = Plane { tool, folder };
    let wanted = match plane.rendered(&config, host) {
        // An earlier task would have written patches that the configuration names.
        Err(failure) if host.dry_run() => {
            let warning = format!("The changes of the manifests cannot be predicted: {}", failure.message);
            return Ok(Plan::change(|_, _| Ok(())).with("action", "reconfigure").with_warning(warning));
        }
        wanted => wanted?,
    };
    let (mut changes, mut writes) = (Vec::new(), Vec::new());
    for (name, text) in wanted {
        let change = Change::of(name, &plane.folder, &text)?;
        if change.due {
            writes.push(change.write(&change.wanted, host)?);
        }
        changes.push(change);
    }
    let restarts = changes.iter().any(|change| change.due || change.kept.exists());
    let verdict = if restarts { request.judge(host)? } else { Verdict::Allowed };
    let missing = plane.missing_names();
    // If the API server does not answer yet, its settings are still changed.
    let moved = publication.as_ref().is_some_and(|one| matches!(one.outdated(&plane.tool, host), Ok(Some(_))));
    let changed = !writes.is_empty() || !missing.is_empty() || moved;
    let components: Vec<&str> = changes.iter().filter(|change| change.due).map(|change| change.name).collect();
    let (components, added) = (json!(components), json!(missing));
    let apply = move |host: &Host, outcome: &mut Outcome| {
        let _secret = secret;
        if changed {
            plane.mark_outdated()?;
        }
        plane.settle_certificate();
        if !missing.is_empty() {
            plane.renew_certificate(&config, host, outcome)?;
        }
        request.alone(host, || changes.iter().try_for_each(|change| plane.apply(change, host)))?;
        if let Some(publication) = publication {
            outcome.changed |= publication.publish(&plane.tool, &config, host, outcome)?;
        }
        Ok(())
    };
    let mut plan = Plan::change(apply).with("action", if changed { "reconfigure" } else { "none" });
    plan.outcome.changed = changed;
    plan.outcome.diff = Plan::sequence(writes).outcome.diff;
    verdict.apply(args.bool("allow_unsafe"), || Ok(plan.with("components", components).with("added_names", added)))
}

/// A running control plane.
struct Plane {
    tool: Tool,
    /// Folder of the administrator's kubeconfig, with the manifests in it.
    folder: PathBuf,
}

impl Plane {
    /// Names of the static pods with the manifests that kubeadm writes for a configuration.
    fn rendered(&self, config: &str, host: &Host) -> Result<Vec<(&'static str, String)>, Failure> {
        let scratch = Scratch::new()?;
        for phase in [["etcd", "local"], ["control-plane", "all"]] {
            let words = ["init", "phase", phase[0], phase[1], "--config", config].map(str::to_owned);
            let command = Command::new("unshare")
                .args(["--mount", "/bin/sh", "-c", WITH_FOLDER, "sh"])
                .args([scratch.path(), &self.folder.join("manifests")])
                .arg(&self.tool.kubeadm)
                .args(&words);
            self.tool.finish(command, &words, host)?;
        }
        let read = |name: &'static str| Some((name, fs::read_to_string(manifest(scratch.path(), name)).ok()?));
        Ok(COMPONENTS.into_iter().filter_map(read).collect())
    }

    /// Names of the configuration that the API server's certificate lacks.
    fn missing_names(&self) -> Vec<String> {
        let text = self.tool.configuration.as_deref().unwrap_or_default();
        let documents = documents("the configuration", text).unwrap_or_default();
        let names = documents.iter().filter_map(|document| document["apiServer"]["certSANs"].as_array()).flatten();
        let certificate = fs::read(self.certificate("crt")).unwrap_or_default();
        let found = crypto::alternative_names(&certificate).unwrap_or_default();
        let typed = |name: &str| match name.parse::<std::net::IpAddr>() {
            Ok(address) => format!("IP:{address}"),
            Err(_) => format!("DNS:{name}"),
        };
        names.filter_map(Value::as_str).filter(|name| !found.contains(&typed(name))).map(str::to_owned).collect()
    }

    fn certificate(&self, extension: &str) -> PathBuf {
        Path::new(&self.tool.cert_dir).join("apiserver").with_extension(extension)
    }

    /// Issues the certificate of the API server again, which reloads it without a restart. kubeadm keeps an existing
    /// certificate, so the former one is renamed. It is restored if kubeadm fails, for example without the CA's key.
    fn renew_certificate(&self, config: &str, host: &Host, outcome: &mut Outcome) -> Result<(), Failure> {
        for extension in PAIR {
            let _ = fs::rename(self.certificate(extension), self.former_certificate(extension));
        }
        let words = ["init", "phase", "certs", "apiserver", "--config", config].map(str::to_owned);
        let issued = self.tool.run(&words, host, outcome);
        if issued.is_ok() {
            self.forget_certificate();
        } else {
            self.put_certificate_back();
        }
        issued.map(drop)
    }

    /// Completes or undoes an interrupted issue. kubeadm writes the key first, so a pair that exists is complete.
    fn settle_certificate(&self) {
        let ends = |extension: &str, label: &str| {
            fs::read_to_string(self.certificate(extension)).is_ok_and(|text| text.trim_end().ends_with(label))
        };
        if ends("crt", " CERTIFICATE-----") && ends("key", " PRIVATE KEY-----") {
            self.forget_certificate();
        } else {
            self.put_certificate_back();
        }
    }

    fn forget_certificate(&self) {
        for extension in PAIR {
            let _ = fs::remove_file(self.former_certificate(extension));
        }
    }

    /// Restores the former certificate and key. Renames the certificate last, so that an interruption never leaves a
    /// certificate with the other's key.
    fn put_certificate_back(&self) {
        if self.former_certificate("crt").exists() {
            let _ = fs::remove_file(self.certificate("crt"));
        }
        for extension in PAIR {
            let _ = fs::rename(self.former_certificate(extension), self.certificate(extension));
        }
    }

    fn former_certificate(&self, extension: &str) -> PathBuf {
        self.certificate(&format!("{extension}.former"))
    }

    /// Changes the record of the applied configuration so that it matches no configuration. The next run then applies
    /// its own even if this one is interrupted.
    fn mark_outdated(&self) -> Result<(), Failure> {
        let path = self.folder.join("kubeadm-config.applied.yaml");
        let Ok(mut record) = OpenOptions::new().append(true).open(&path) else { return Ok(()) };
        record
            .write_all(b"# Interrupted while other settings were applied.\n")
            .map_err(|error| Failure::new(format!("{} could not be written: {error}.", path.display())))
    }

    /// Writes a manifest if it differs, and waits until its component answers. If it does not, restores the former
    /// manifest, unless the component did not answer before either: then the new settings may be the repair.
    fn apply(&self, change: &Change, host: &Host) -> Result<(), Failure> {
        let running = processes(change.name);
        let (ended, former) = match change.interrupted() {
            Some((ended, former)) => (if change.due { running } else { ended }, Some(former)),
            None if !change.due => (HashSet::new(), None),
            None if change.before.is_empty() || running.is_empty() || !self.answers(&change.before, host)? => {
                (running, None)
            }
            None => (running, Some(change.before.clone())),
        };
        let done = self.attempt(change, &ended, former.as_deref(), host);
        let problem = match done {
            Err(failure) if !host.cancelled() => failure.message,
            Ok(()) => {
                change.forget();
                return Ok(());
            }
            cancelled => return cancelled,
        };
        let settings = change.settings(former.as_deref().unwrap_or(&change.before)).join(" ");
        let Some(former) = former else {
            return Err(Failure::new(if change.due {
                format!(
                    "{problem} It did not answer before either, so its new manifest stays. Changed settings: {settings}"
                )
            } else {
                format!("{problem} Its manifest is up to date; `crictl logs` of its container shows the reason.")
            }));
        };
        crate::run::carry_out(change.write(&former, host)?, host)?;
        change.forget();
        let state = match self.wait(change.name, &former, &HashSet::new(), host) {
            Ok(()) => "Its former manifest is back, and it answers again.".to_owned(),
            Err(failure) => format!("Its former manifest is back. {}", failure.message),
        };
        Err(Failure::new(format!("{problem} {state} Changed settings: {settings}")))
    }

    /// Keeps a copy of the former manifest, writes the new one if it differs, and waits for the component.
    fn attempt(
        &self,
        change: &Change,
        ended: &HashSet<String>,
        former: Option<&str>,
        host: &Host,
    ) -> Result<(), Failure> {
        if change.due {
            if let Some(former) = former {
                change.keep(ended, former, host)?;
            }
            crate::run::carry_out(change.write(&change.wanted, host)?, host)?;
        }
        self.wait(change.name, &change.wanted, ended, host)
    }

    /// Waits for a process of a component other than those that must end, and for its answer.
    fn wait(&self, name: &str, manifest: &str, ended: &HashSet<String>, host: &Host) -> Result<(), Failure> {
        let deadline = Instant::now() + self.tool.api_limit;
        while processes(name).is_subset(ended) || !self.answers(manifest, host)? {
            host.check_cancelled()?;
            if Instant::now() >= deadline {
                let limit = self.tool.api_limit.as_secs();
                return Err(Failure::new(format!("{name} has not answered for {limit} seconds.")));
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        Ok(())
    }

    /// Whether a component answers the probe that kubelet uses.
    fn answers(&self, manifest: &str, host: &Host) -> Result<bool, Failure> {
        let Some((server, path)) = probe(manifest) else { return Ok(true) };
        let (server, path) = (format!("--server={server}"), format!("--raw={path}"));
        // The controller manager and the scheduler sign their own certificates, so whoever has the port of a stopped
        // one must not receive credentials. Without a name, kubectl prompts for one; servers ignore this one.
        let words = [&server, "--insecure-skip-tls-verify", "--username=none", "--password=none", "get", &path];
        Ok(self.tool.ask("/dev/null", &words, host)?.success())
    }
}

/// One static pod, with the change of its manifest if one is due.
struct Change {
    name: &'static str,
    path: PathBuf,
    /// Path of the former manifest until the component with the new one has answered. kubelet does not watch its
    /// folder.
    kept: PathBuf,
    due: bool,
    /// Empty if the manifest was removed.
    before: String,
    wanted: String,
}

impl Change {
    fn of(name: &'static str, folder: &Path, wanted: &str) -> Result<Change, Failure> {
        let path = manifest(&folder.join("manifests"), name);
        let before = match fs::read_to_string(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::new(format!("{} cannot be read: {error}.", path.display())));
            }
            text => text.unwrap_or_default(),
        };
        let wanted = with_first_members(wanted, &before);
        let kept = folder.join(format!("{name}.former.yaml"));
        Ok(Change { name, path, kept, due: !is_same_pod(&before, &wanted), before, wanted })
    }

    fn write(&self, text: &str, host: &Host) -> Result<Plan, Failure> {
        let mut wanted = Wanted::new(&self.path, Source::Bytes(text.as_bytes().to_vec()));
        wanted.source_name = self.path.display().to_string();
        if self.before.is_empty() {
            wanted.attributes.mode = Some(Mode::parse(&"0600".into())?);
        }
        wanted.plan(host)
    }

    /// Keeps a former manifest and its processes until the wanted one is proven.
    fn keep(&self, running: &HashSet<String>, former: &str, host: &Host) -> Result<(), Failure> {
        let ids: String = running.iter().map(|id| format!(" {id}")).collect();
        let text = format!("{PROCESSES}{ids}\n{former}{REPLACED}{}", self.wanted);
        let mut kept = Wanted::new(&self.kept, Source::Bytes(text.into_bytes()));
        kept.attributes.mode = Some(Mode::parse(&"0600".into())?);
        crate::run::carry_out(kept.plan(host)?, host).map(drop)
    }

    fn forget(&self) {
        let _ = fs::remove_file(&self.kept);
    }

    /// The former manifest that an interrupted run left, and its processes. Removes an outdated one: the present
    /// manifest equals it, or is a third one, as after an upgrade.
    fn interrupted(&self) -> Option<(HashSet<String>, String)> {
        let text = fs::read_to_string(&self.kept).ok()?;
        let read = || {
            let (ids, manifests) = text.strip_prefix(PROCESSES)?.split_once('\n')?;
            let (former, new) = manifests.split_once(REPLACED)?;
            let is_unproven = is_same_pod(new, &self.before) && !is_same_pod(former, &self.before);
            is_unproven.then(|| (ids.split_whitespace().map(str::to_owned).collect(), former.to_owned()))
        };
        let found = read();
        if found.is_none() {
            self.forget();
        }
        found
    }

    /// Lines of the wanted manifest that the former one lacks.
    fn settings(&self, former: &str) -> Vec<&str> {
        let former: HashSet<&str> = former.lines().collect();
        let new = self.wanted.lines().filter(|line| !former.contains(line));
        new.map(|line| line.trim().trim_start_matches("- ")).collect()
    }
}

fn manifest(folder: &Path, name: &str) -> PathBuf {
    folder.join(name).with_extension("yaml")
}

/// Whether kubelet treats two manifests as the same pod. It compares them parsed, and restarts nothing if they are
/// equal.
fn is_same_pod(one: &str, other: &str) -> bool {
    let read = |text: &str| {
        let mut documents = documents("the manifest", text).ok()?;
        documents.iter_mut().for_each(drop_nulls);
        Some(documents)
    };
    one == other || read(one).is_some_and(|pod| read(other) == Some(pod))
}

/// Removes fields without a value, such as `creationTimestamp: null`, which older releases of kubeadm write.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The wanted manifest of etcd with the initial members of the present one. kubeadm writes only this member, and a
/// member that has data ignores the option.
fn with_first_members(wanted: &str, before: &str) -> String {
    let is_members = |line: &&str| line.trim_start().starts_with("- --initial-cluster=");
    let Some(members) = before.lines().find(is_members) else { return wanted.to_owned() };
    wanted.lines().flat_map(|line| [if is_members(&line) { members } else { line }, "\n"]).collect()
}

/// Server and path of the HTTP probe by which kubelet checks the pod of a manifest.
fn probe(manifest: &str) -> Option<(String, String)> {
    let pod = documents("the manifest", manifest).ok()?.into_iter().next()?;
    let container = pod["spec"]["containers"].get(0)?;
    let kinds = ["readinessProbe", "livenessProbe"];
    let question = kinds.iter().map(|kind| &container[*kind]["httpGet"]).find(|question| question.is_object())?;
    let named = |name: &str| {
        let mut ports = container["ports"].as_array()?.iter();
        ports.find(|port| port["name"] == name)?["containerPort"].as_u64()
    };
    let port = question["port"].as_u64().or_else(|| named(question["port"].as_str()?))?;
    let host = question["host"].as_str().unwrap_or("127.0.0.1");
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let scheme = question["scheme"].as_str().unwrap_or("http").to_lowercase();
    Some((format!("{scheme}://{host}:{port}"), question["path"].as_str().unwrap_or("/").to_owned()))
}

/// Processes of root with this name; other users could choose the name too. Each is identified by its process id, its
/// start time and the boot id, because process ids are reused.
fn processes(name: &str) -> HashSet<String> {
    let name = name.get(..NAME_LENGTH).unwrap_or(name);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let identity = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let start = stat.rsplit_once(") ")?.1.split(' ').nth(START)?.to_owned();
        Some(format!("{id}@{start}@{}", boot.trim()))
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
        // Checks the real user too, because any user can start a setuid program under this name.
        let is_of_root = field("Uid:")?.split_whitespace().all(|user| user == "0");
        (is_of_root && field("Name:")?.trim() == name).then_some(id).and_then(identity)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_read_from_manifests_with_numbered_and_named_ports() {
        let manifest = |port: &str, host: &str| {
            format!(
                "spec:\n  containers:\n  - name: a\n    ports:\n    - {{containerPort: 10259, name: probe-port}}\n    \
                 livenessProbe:\n      httpGet: {{{host}path: /livez, port: {port}, scheme: HTTPS}}\n"
            )
        };
        for port in ["10259", "probe-port"] {
            let found = probe(&manifest(port, "")).unwrap();
            assert_eq!(found, ("https://127.0.0.1:10259".to_owned(), "/livez".to_owned()));
        }
        let ready = manifest("1", "host: 'fd00::1', ") + "    readinessProbe:\n      httpGet: {port: 2381}\n";
        assert_eq!(probe(&ready).unwrap(), ("http://127.0.0.1:2381".to_owned(), "/".to_owned()));
        assert_eq!(probe(&manifest("1", "host: 'fd00::1', ")).unwrap().0, "https://[fd00::1]:1");
        assert_eq!(probe("spec: {containers: [{name: a}]}\n"), None);
    }

    #[test]
    fn process_of_another_user_not_taken_for_a_component() {
        use std::os::unix::{fs::PermissionsExt, process::CommandExt};
        if !windlass_testing::has_all(&["root"]) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let program = folder.path().join("component-with-a-long-name");
        fs::copy("/bin/sleep", &program).unwrap();
        let mut started =
            [0, 65534].map(|user| std::process::Command::new(&program).arg("600").uid(user).spawn().unwrap());
        let found = processes("component-with-a-long-name");
        for process in &mut started {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        let numbers: Vec<_> = found.iter().filter_map(|found| found.split('@').next()).collect();
        assert_eq!(numbers, [started[0].id().to_string()]);
    }

    #[test]
    fn rewritten_member_of_etcd_keeps_the_members_it_began_with() {
        let before = "    - --data-dir=/d\n    - --initial-cluster=a=https://a:2380,b=https://b:2380\n";
        let wanted =
            "    - --data-dir=/d\n    - --initial-cluster=b=https://b:2380\n    - --initial-cluster-state=existing\n";
        let expected = format!("{before}    - --initial-cluster-state=existing\n");
        assert_eq!(with_first_members(wanted, before), expected);
        assert_eq!(with_first_members(wanted, ""), wanted);
    }
}
