//! Hosts behind a program such as `docker exec`, with stand-ins for these programs that run everything here.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A program that notes its words up to the shell command, and runs the shell command.
const STAND_IN: &str = "#!/bin/sh\nwords=\"${0##*/}\"\nwhile [ \"$1\" != /bin/sh ]; do words=\"$words $1\"; shift; done\n\
                        echo \"$words\" >> \"$NOTES\"\nexec \"$@\"\n";

fn project(hosts: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("bin")).unwrap();
    for name in ["docker", "podman", "kubectl", "oc", "chroot", "lxc", "incus"] {
        let path = folder.path().join("bin").join(name);
        fs::write(&path, STAND_IN).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(folder.path().join("hosts"), hosts).unwrap();
    folder
}

fn windlass(folder: &Path, verb: &str) -> Command {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command
        .args([verb, "-i", "hosts"])
        .current_dir(folder)
        .env("PATH", path)
        .env("NOTES", folder.join("notes"))
        .env("NO_COLOR", "1")
        .env_remove("DOCKER_HOST");
    command
}

fn adhoc(folder: &Path, arguments: &[&str]) -> Output {
    windlass(folder, "adhoc").args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Commands by which the host `web` is entered for a module.
fn entered(variables: &str, environment: &[(&str, &str)]) -> String {
    let folder = project(&format!("web {variables}\n"));
    let mut command = windlass(folder.path(), "adhoc");
    let output = command.args(["web", "-m", "ping"]).envs(environment.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{variables}: {output:?}");
    let notes = fs::read_to_string(folder.path().join("notes")).unwrap();
    notes.lines().next().unwrap().to_owned()
}

#[test]
fn each_program_runs_modules_commands_and_copies() {
    for (variables, command) in [
        ("ansible_connection=docker", "docker exec -i web"),
        (
            "ansible_connection=community.docker.docker ansible_host=box ansible_user=app \
             ansible_docker_extra_args='-H tcp://d:2376' ansible_docker_working_dir=/srv",
            "docker -H tcp://d:2376 exec -i --user app --workdir /srv box",
        ),
        ("ansible_connection=containers.podman.podman ansible_podman_executable=podman", "podman exec -i web"),
        (
            "ansible_connection=kubernetes.core.kubectl ansible_kubectl_namespace=shop ansible_kubectl_pod=cart-0 \
             ansible_kubectl_container=app ansible_kubectl_context=test ansible_kubectl_kubeconfig=/k",
            "kubectl --kubeconfig /k --context test --namespace shop exec -i cart-0 --container app --",
        ),
        ("ansible_connection=community.okd.oc", "oc exec -i web --"),
        ("ansible_connection=chroot ansible_host=/mnt/new", "chroot /mnt/new"),
        ("ansible_connection=lxd ansible_lxd_remote=far ansible_lxd_project=p", "lxc --project p exec far:web --"),
        ("ansible_connection=community.general.incus", "incus --project default exec local:web --"),
    ] {
        let folder = project(&format!("web {variables}\n"));
        let path = folder.path().join("there").display().to_string();
        let copied = adhoc(folder.path(), &["web", "-m", "copy", "-a", &format!("content=hello dest={path}")]);
        assert!(copied.status.success(), "{variables}: {copied:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "hello");
        let raw = adhoc(folder.path(), &["web", "-m", "raw", "-a", "echo raw"]);
        assert!(String::from_utf8_lossy(&raw.stdout).contains("raw"), "{variables}: {raw:?}");
        let notes = fs::read_to_string(folder.path().join("notes")).unwrap();
        assert!(notes.lines().all(|line| line == command), "{variables}: {notes}");
    }
}

#[test]
fn executor_of_a_container_ends_with_the_run() {
    let folder = project("web ansible_connection=docker\n");
    let listed = adhoc(folder.path(), &["web", "-m", "command", "-a", "cat /proc/self/status"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let parent = text.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim();
    assert!(!Path::new("/proc").join(parent).exists(), "the executor {parent} goes on");
}

#[test]
fn raw_command_in_a_container_that_does_not_answer_is_given_up() {
    let folder = project("web ansible_connection=docker\n");
    let raw = |command: &str, limit: &str| {
        let mut run = windlass(folder.path(), "adhoc");
        run.args(["web", "-m", "raw", "-a", command]).env("WINDLASS_HEARTBEAT_TIMEOUT", limit).output().unwrap()
    };
    // A command may be silent for longer, as long as the container runs others.
    let output = raw("sleep 12; echo done", "6");
    assert!(output.status.success() && text(&output).contains("done"), "{}", text(&output));
    fs::write(folder.path().join("bin/docker"), "#!/bin/sh\nexec sleep 600\n").unwrap();
    let output = raw("echo done", "4");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("web: no answer for 2 s; raw is in flight and is given up after 4 s"), "{said}");
    assert!(said.contains("UNREACHABLE") && said.contains("web did not answer for 4 s"), "{said}");
}

#[test]
fn synchronize_through_a_container_that_does_not_answer_is_given_up() {
    if !windlass_testing::has("rsync") {
        return;
    }
    let folder = project("web ansible_connection=docker\n");
    fs::write(folder.path().join("bin/docker"), "#!/bin/sh\nexec sleep 600\n").unwrap();
    let destination = format!("src=hosts dest={}", folder.path().join("there").display());
    // The lock needs an executor, whose start has a deadline of its own.
    let mut run = windlass(folder.path(), "adhoc");
    run.args(["web", "-m", "ansible.posix.synchronize", "--lock", "ignore", "-a", &destination]);
    run.env("WINDLASS_HEARTBEAT_TIMEOUT", "4");
    let output = run.output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(
        text(&output).contains("UNREACHABLE") && text(&output).contains("did not answer for 4 s"),
        "{}",
        text(&output)
    );
}

#[test]
fn program_that_fails_makes_the_host_unreachable_with_its_message() {
    let folder = project(
        "web ansible_connection=docker\npod ansible_connection=kubectl ansible_kubectl_token=t0k3n\n\
                          odd ansible_connection=docker ansible_host=--privileged\nfar ansible_connection=netconf\n",
    );
    let docker = folder.path().join("bin/docker");
    fs::write(&docker, "#!/bin/sh\necho 'Error response from daemon: No such container: web' >&2\nexit 1\n").unwrap();
    let output = adhoc(folder.path(), &["web", "-m", "ping"]);
    let text = text(&output);
    assert!(text.contains("UNREACHABLE") && text.contains("No such container: web"), "{text}");
    for (host, reason) in [
        ("pod", "ansible_kubectl_token of pod is not supported, because every user of this machine could read it"),
        ("odd", "ansible_host of odd cannot be passed to `docker`, because it begins with `-`, like an option"),
        ("far", "the connection plugin 'netconf' of far was not found; use ssh, local, docker, podman,"),
    ] {
        let text = self::text(&adhoc(folder.path(), &[host, "-m", "ping"]));
        assert!(text.contains(reason) && !text.contains("t0k3n"), "{text}");
    }
}

#[test]
fn variables_of_the_api_choose_the_cluster_and_not_the_pod() {
    let kubectl = "ansible_connection=kubernetes.core.kubectl";
    for (variables, command) in [
        ("ansible_kubectl_host=https://api:6443", "kubectl --server https://api:6443 exec -i web --"),
        (
            "ansible_kubectl_host=https://old ansible_kubectl_server=https://new ansible_kubectl_config=/c \
             ansible_kubectl_kubeconfig=/k ansible_kubectl_validate_certs=true",
            "kubectl --kubeconfig /c --server https://new --insecure-skip-tls-verify=false exec -i web --",
        ),
        (
            "ansible_host=box ansible_kubectl_cert_file=/cert ansible_kubectl_client_key=/key \
             ansible_kubectl_ssl_ca_cert=/ca ansible_kubectl_verify_ssl=no",
            "kubectl --client-certificate /cert --client-key /key --certificate-authority /ca \
             --insecure-skip-tls-verify=true exec -i box --",
        ),
    ] {
        assert_eq!(entered(&format!("{kubectl} {variables}"), &[]), command);
    }
    assert_eq!(entered("ansible_connection=oc ansible_oc_host=https://a", &[]), "oc --server https://a exec -i web --");
    let environment = [("K8S_AUTH_HOST", "https://api"), ("K8S_AUTH_NAMESPACE", "shop"), ("K8S_AUTH_POD", "cart-0")];
    assert_eq!(
        entered(&format!("{kubectl} ansible_kubectl_namespace=other"), &environment),
        "kubectl --namespace other --server https://api exec -i cart-0 --"
    );
    let environment = [("ANSIBLE_PODMAN_EXTRA_ARGS", "--remote"), ("ANSIBLE_PODMAN_HOST", "box")];
    assert_eq!(entered("ansible_connection=podman", &environment), "podman --remote exec -i box");
}

#[test]
fn variables_of_the_docker_api_choose_the_daemon() {
    let api = "ansible_connection=community.docker.docker_api";
    // An inventory plugin of the collection sets all of them, most to their defaults.
    let defaults = "ansible_docker_api_version=auto ansible_docker_timeout=60 ansible_docker_tls=false \
                    ansible_docker_validate_certs=false";
    for (variables, command) in [
        ("", "docker --host unix:///var/run/docker.sock exec -i web"),
        (defaults, "docker --host unix:///var/run/docker.sock exec -i web"),
        (
            "ansible_docker_docker_host=tcp://d:2376 ansible_docker_validate_certs=true ansible_docker_tls=true \
             ansible_docker_ca_cert=/ca ansible_docker_client_cert=/cert ansible_docker_client_key=/key",
            "docker --host tcp://d:2376 --tlsverify --tlscacert /ca --tlscert /cert --tlskey /key exec -i web",
        ),
        (
            "ansible_docker_docker_host=tcp://d:2376 ansible_docker_tls=true ansible_docker_privileged=true \
             ansible_docker_host=box ansible_host=other ansible_user=me ansible_docker_user=app",
            "docker --host tcp://d:2376 --tls exec -i --user app --privileged box",
        ),
    ] {
        assert_eq!(entered(&format!("{api} {variables}"), &[]), command);
    }
    // `docker` reads this variable itself, and its own contexts under the name of the plugin that runs `docker`.
    assert_eq!(entered(api, &[("DOCKER_HOST", "tcp://d:2375")]), "docker exec -i web");
    assert_eq!(
        entered("ansible_connection=docker ansible_docker_docker_host=tcp://d:2375", &[]),
        "docker --host tcp://d:2375 exec -i web"
    );
}

#[test]
fn remote_user_of_an_instance_is_entered_by_su() {
    for (variables, command) in [
        ("ansible_connection=lxd ansible_user=root", "lxc exec local:web --"),
        ("ansible_connection=lxd ansible_user=app", "lxc exec local:web -- /bin/su app -s"),
        (
            "ansible_connection=incus ansible_host=db.example.com ansible_user=app incus_become_method=/usr/bin/su",
            "incus --project default exec local:db -- /usr/bin/su app -s",
        ),
        (
            "ansible_connection=podman ansible_user=app ansible_podman_working_directory=/srv \
          ansible_podman_timeout=0",
            "podman exec -i --user app --workdir /srv web",
        ),
    ] {
        assert_eq!(entered(variables, &[]), command);
    }
}

#[test]
fn remote_user_without_effect_is_warned_of() {
    for (variables, actual) in [
        ("ansible_connection=kubectl ansible_user=app", "`kubectl` runs commands as the user of the container"),
        ("ansible_connection=oc ansible_user=app", "`oc` runs commands as the user of the container"),
        ("ansible_connection=chroot ansible_user=app", "`chroot` runs commands as root"),
    ] {
        let folder = project(&format!("web {variables}\n"));
        let output = adhoc(folder.path(), &["web", "-m", "ping"]);
        let warning = format!("the remote user app of web has no effect, because {actual}; use `become`");
        let printed = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(output.status.success() && printed.contains(&warning), "{printed}");
    }
    let folder = project("web ansible_connection=chroot ansible_user=root\n");
    assert!(!text(&adhoc(folder.path(), &["web", "-m", "ping"])).contains("has no effect"));
}

#[test]
fn settings_of_the_plugins_without_effect_are_warned_of() {
    let folder = project("web ansible_connection=docker\n");
    let setting = "[docker_connection]\nextra_cli_args = -H tcp://d:2375\n";
    fs::write(folder.path().join("ansible.cfg"), setting).unwrap();
    let printed = text(&adhoc(folder.path(), &["web", "-m", "ping"]));
    assert!(printed.contains("the setting [docker_connection] extra_cli_args has no effect here"), "{printed}");
}

#[test]
fn variable_that_no_option_of_the_program_has_is_refused() {
    for (connection, variable, value, reason) in [
        ("kubectl", "ansible_kubectl_api_key", "s3cret", "is not supported, because every user of this machine"),
        ("kubectl", "ansible_kubectl_password", "s3cret", "name a file with ansible_kubectl_kubeconfig"),
        ("kubectl", "ansible_kubectl_user", "me", "Kubernetes 1.19 and later have no login by name and password"),
        ("kubectl", "ansible_kubectl_local_env_vars", r#"{"A": "s3cret"}"#, "share the environment of windlass"),
        ("kubectl", "ansible_kubectl_kubeconfig", r#"{"users": "s3cret"}"#, "is a mapping; write it to a file"),
        ("oc", "ansible_oc_token", "s3cret", "name a file with ansible_oc_kubeconfig"),
        ("docker", "ansible_docker_extra_env", r#"{"A": "s3cret"}"#, "use `environment` of the play or the task"),
        ("docker", "ansible_docker_tls_hostname", "d", "use a name that is in its certificate"),
        ("docker", "ansible_docker_api_version", "1.35", "set DOCKER_API_VERSION in the environment"),
        ("docker", "ansible_docker_privileged", "perhaps", "is not a boolean; write `true` or `false`"),
        ("docker", "ansible_docker_extra_args", "--password s3cret 'oops", "cannot be read: missing closing quote"),
        ("docker", "ansible_docker_extra_args", "'s3cret\n'", "cannot be read: a word contains a control character"),
        ("docker", "ansible_docker_working_dir", "--privileged", "begins with `-`, like an option; correct it"),
        ("podman", "ansible_podman_timeout", "5", "use `timeout` of the task"),
        ("podman", "ansible_podman_privilege_escalation", "sudo", "use `become_method`"),
        ("lxd", "ansible_lxd_remote", "--force", "cannot be passed to `lxd`, because it begins with `-`"),
        ("lxd", "ansible_lxd_executable", "/bin/bash", "use `executable` of the task"),
        ("incus", "ansible_incus_remote", "fa\nr", "cannot be passed to `incus`, because it contains a control"),
        ("incus", "ansible_user", "-app", "cannot be passed to `incus`, because it begins with `-`"),
        ("ssh", "ansible_ssh_extra_args", "-o ProxyCommand='s3cret", "cannot be read: missing closing quote"),
    ] {
        let folder = project(&format!("web ansible_connection={connection}\n"));
        let vars = serde_json::json!({ variable: if value.starts_with('{') {
            serde_json::from_str(value).unwrap()
        } else {
            serde_json::Value::from(value)
        } });
        fs::write(folder.path().join("vars.json"), vars.to_string()).unwrap();
        let output = adhoc(folder.path(), &["web", "-m", "ping", "-e", "@vars.json"]);
        let printed = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!output.status.success(), "{variable}: {printed}");
        assert!(printed.contains(&format!("{variable} of web")) && printed.contains(reason), "{variable}: {printed}");
        assert!(!printed.contains("s3cret") && !folder.path().join("notes").exists(), "{variable}: {printed}");
    }
    let folder = project("web ansible_connection=kubectl\n");
    let mut command = windlass(folder.path(), "adhoc");
    let output = command.args(["web", "-m", "ping"]).env("K8S_AUTH_TOKEN", "s3cret").output().unwrap();
    assert!(text(&output).contains("K8S_AUTH_TOKEN of web is not supported") && !text(&output).contains("s3cret"));
}

#[test]
fn facts_of_a_host_do_not_choose_its_container() {
    let folder = project("web ansible_connection=docker\n");
    fs::create_dir(folder.path().join("library")).unwrap();
    let facts = r#"{"ansible_docker_host": "other", "ansible_docker_extra_args": "-H tcp://evil:1"}"#;
    let module = format!("#!/bin/sh\n# WANT_JSON\necho '{{\"changed\": false, \"ansible_facts\": {facts}}}'\n");
    fs::write(folder.path().join("library/liar"), module).unwrap();
    let play = "- hosts: web\n  gather_facts: false\n  tasks:\n    - liar:\n    - ping:\n";
    fs::write(folder.path().join("play.yml"), play).unwrap();
    let output = windlass(folder.path(), "playbook").arg("play.yml").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let notes = fs::read_to_string(folder.path().join("notes")).unwrap();
    assert!(notes.lines().all(|line| line == "docker exec -i web"), "{notes}");
}

#[test]
fn items_of_a_loop_are_entered_where_their_own_variables_lead() {
    // The second variable is that of the item before.
    for host in ["item", "(earlier.item | default('first'))"] {
        let folder = project(&format!("web ansible_connection=docker ansible_host=\"{{{{ {host} }}}}\"\n"));
        let tasks = "[{command: 'true', loop: [one, two, three], register: earlier}]";
        let play = format!("- {{hosts: all, gather_facts: false, tasks: {tasks}}}\n");
        fs::write(folder.path().join("play.yml"), play).unwrap();
        // All these hosts are this machine, which has one lock.
        let output = windlass(folder.path(), "playbook").args(["--lock", "ignore", "play.yml"]).output().unwrap();
        assert!(output.status.success(), "{host}: {output:?}");
        let notes = fs::read_to_string(folder.path().join("notes")).unwrap();
        let mut entered: Vec<&str> = notes.lines().filter_map(|line| line.split(' ').next_back()).collect();
        entered.dedup();
        let expected = if host == "item" { ["one", "two", "three"] } else { ["first", "one", "two"] };
        assert_eq!(entered, expected, "{host}: {notes}");
    }
}
