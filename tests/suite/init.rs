//! `windlass init` writes projects that run; `windlass doctor` names what is missing.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program in a directory, without a terminal, its home in the same directory.
fn windlass(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    command.env("HOME", directory).env_remove("ANSIBLE_CONFIG").env_remove("SSH_AUTH_SOCK").output().unwrap()
}

/// Output of the program. Fails if the program does.
fn text(directory: &Path, arguments: &[&str]) -> String {
    let output = windlass(directory, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn project_that_was_just_written_runs_and_rests() {
    let folder = tempfile::tempdir().unwrap();
    let next = text(folder.path(), &["init", "project", "shop"]);
    assert!(next.contains("cd shop\n  windlass playbook site.yml --check --diff"), "{next}");
    let project = folder.path().join("shop");
    let greeting = folder.path().join("hello.txt");
    let variable = format!("hello_file={}", greeting.display());
    let run = |more: &[&str]| text(&project, &[&["playbook", "site.yml", "-e", &variable], more].concat());
    assert!(run(&["--check", "--diff"]).contains("+Welcome to localhost"));
    assert!(!greeting.exists());
    assert!(run(&[]).contains("changed=1"));
    assert!(std::fs::read_to_string(&greeting).unwrap().starts_with("Welcome to localhost"));
    assert!(run(&[]).contains("changed=0"));
}

#[test]
fn existing_file_keeps_everything_from_being_written() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("site.yml"), "mine\n").unwrap();
    let output = windlass(folder.path(), &["init", "project", "."]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("nothing was written, because `./site.yml` exists already"), "{message}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["site.yml"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("site.yml")).unwrap(), "mine\n");
}

#[test]
fn inventory_holds_the_hosts_and_how_to_log_in() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = ["--host", "web1=192.0.2.11,web2", "--user", "admin"];
    text(folder.path(), &[&["init", "inventory", "hosts.yml"], hosts.as_slice()].concat());
    let shown = text(folder.path(), &["inventory", "-i", "hosts.yml", "--host", "web1", "--yaml"]);
    assert_eq!(shown.trim(), "ansible_become: true\nansible_host: 192.0.2.11\nansible_user: admin");
}

#[test]
fn kubernetes_project_passes_its_own_checks_without_the_repository() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = ["--control-plane", "a=192.0.2.1,b=192.0.2.2,c=192.0.2.3", "--worker", "d=192.0.2.4"];
    let next = text(folder.path(), &[&["init", "kubernetes", "prod"], nodes.as_slice()].concat());
    assert!(next.contains("windlass playbook -i inventory playbooks/cluster.yml"), "{next}");
    let project = folder.path().join("prod");
    let groups = text(&project, &["inventory", "--graph", "etcd"]);
    assert_eq!(groups.trim(), "@etcd:\n  |--a\n  |--b\n  |--c");
    let tasks = text(&project, &["playbook", "-i", "inventory", "playbooks/cluster.yml", "--list-tasks"]);
    assert!(tasks.contains("Join the workers"), "{tasks}");
    let findings = windlass(&project, &["lint"]);
    assert!(String::from_utf8_lossy(&findings.stderr).contains(" 0 errors, 0 warnings,"), "{findings:?}");
    // The first play checks the inventory and contacts no host.
    let check = ["playbook", "-i", "inventory", "playbooks/cluster.yml", "--check", "--limit", "localhost"];
    let output = windlass(&project, &check);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("was not found"), "{output:?}");
}

#[test]
fn module_and_role_that_were_just_written_work() {
    let folder = tempfile::tempdir().unwrap();
    text(folder.path(), &["init", "role", "nginx"]);
    assert!(folder.path().join("roles/nginx/tasks/main.yml").is_file());
    text(folder.path(), &["init", "module", "file_size"]);
    std::fs::write(folder.path().join("data"), "12345").unwrap();
    let path = format!("path={}", folder.path().join("data").display());
    let output = windlass(folder.path(), &["adhoc", "localhost", "-M", "library", "-m", "file_size", "-a", &path]);
    let shown = String::from_utf8_lossy(&output.stdout);
    let has_python = Command::new("python3").arg("-V").output().is_ok();
    assert!(!has_python || shown.contains("\"size\": 5"), "{output:?}");
    let refused = windlass(folder.path(), &["init", "module", "../x"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot be the name of a module"), "{refused:?}");
}

#[test]
fn doctor_names_each_problem_with_its_remedy() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    text(folder.path(), &["init", "inventory"]);
    std::fs::write(folder.path().join("ansible.cfg"), "[defaults]\ninventory = hosts.yml\n").unwrap();
    let shown = text(folder.path(), &["doctor"]);
    assert!(shown.contains("ok       inventory     1 host in"), "{shown}");
    assert!(shown.contains("note     SSH agent     none"), "{shown}");

    let settings = "[defaults]\ninventory = hosts.yml\nvault_password_file = password\n";
    std::fs::write(folder.path().join("ansible.cfg"), settings).unwrap();
    std::fs::write(folder.path().join("password"), "harbour\n").unwrap();
    text(folder.path(), &["vault", "encrypt", "hosts.yml"]);
    let shown = text(folder.path(), &["doctor"]);
    assert!(shown.contains("ok       inventory     1 host in"), "{shown}");

    std::fs::write(folder.path().join("ansible.cfg"), "[defaults]\nfroks = 3\n").unwrap();
    let shown = text(folder.path(), &["doctor"]);
    assert!(shown.contains("without effect: setting [defaults] froks (did you mean `forks`?)"), "{shown}");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let output = windlass(folder.path(), &["doctor"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("-> `chmod o-w .` lets it count"), "{output:?}");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::remove_file(folder.path().join("ansible.cfg")).unwrap();

    std::fs::create_dir(folder.path().join(".ssh")).unwrap();
    let key = folder.path().join(".ssh/id_ed25519");
    std::fs::write(&key, "a key").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = windlass(folder.path(), &["doctor", "-i", "missing.yml"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    let missing = folder.path().canonicalize().unwrap().join("missing.yml");
    assert!(shown.contains(&format!("problem  inventory     `{}` does not exist", missing.display())), "{shown}");
    assert!(shown.contains("or write `hosts.yml` with `windlass init inventory`"), "{shown}");
    assert!(shown.contains(&format!("-> chmod 600 {}", key.display())), "{shown}");
}

#[test]
fn doctor_reports_missing_paths_and_unknown_host_keys() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "[defaults]\ninventory = hosts.ini\nroles_path = own:absent_roles\nlibrary = absent_modules\n\
                    private_key_file = absent_key\nvault_password_file = absent_password\n";
    std::fs::write(folder.path().join("ansible.cfg"), settings).unwrap();
    std::fs::create_dir(folder.path().join("own")).unwrap();
    let hosts = "known ansible_host=192.0.2.1\nunknown ansible_host=192.0.2.2\nlocal ansible_connection=local\n\
                 unchecked ansible_host_key_checking=false\n";
    std::fs::write(folder.path().join("hosts.ini"), hosts).unwrap();
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    std::fs::create_dir(folder.path().join(".ssh")).unwrap();
    std::fs::write(folder.path().join(".ssh/known_hosts"), format!("192.0.2.1 {key}\n")).unwrap();
    let output = windlass(folder.path(), &["doctor"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    for (weight, name, path) in [
        ("note    ", "roles_path", "absent_roles"),
        ("note    ", "library", "absent_modules"),
        ("problem ", "private_key_file", "absent_key"),
        ("problem ", "vault_password_file", "absent_password"),
    ] {
        let line = format!("{weight} paths         `{name}` names `");
        let found = shown.lines().find(|shown| shown.starts_with(&line)).unwrap_or_else(|| panic!("{line}: {shown}"));
        assert!(found.ends_with(&format!("/{path}`, which does not exist")), "{found}");
    }
    assert!(shown.contains("-> create it, or correct `roles_path`"), "{shown}");
    std::fs::write(folder.path().join("ansible.cfg"), "[defaults]\ninventory = hosts.ini\n").unwrap();
    let shown = text(folder.path(), &["doctor"]);
    assert!(!shown.contains("paths "), "{shown}");
    assert!(shown.contains("note     host keys     known_hosts has none of `unknown`\n"), "{shown}");
    assert!(shown.contains("-> `windlass hostkeys pin -i INVENTORY`"), "{shown}");
    let shown = text(folder.path(), &["doctor", "--limit", "known,local"]);
    assert!(shown.contains("2 of 4 hosts in `"), "{shown}");
    assert!(shown.contains("hosts.ini` within the limit `known,local`"), "{shown}");
    assert!(shown.contains("known_hosts has the key of the only host that is checked"), "{shown}");
    let output = windlass(folder.path(), &["doctor", "-l", "nobody"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("problem  inventory     the limit `nobody` leaves none of the 4 hosts"), "{shown}");
}

#[test]
fn doctor_lists_invalid_settings_and_checks_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    for settings in ["[defaults\n", "[defaults]\nforks = many\n"] {
        std::fs::write(folder.path().join("ansible.cfg"), settings).unwrap();
        let output = windlass(folder.path(), &["doctor"]);
        let shown = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{shown}");
        assert!(shown.contains("problem  settings") && shown.contains("ansible.cfg"), "{shown}");
        assert!(shown.contains("-> correct it; until then, the lines below hold for the default settings"), "{shown}");
        assert!(shown.contains("journal") && shown.contains("SSH agent"), "{shown}");
    }
}

#[test]
fn doctor_runs_no_lookup_that_acts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ansible.cfg"), "[defaults]\ninventory = hosts.yml\n").unwrap();
    let (ran, made) = (folder.path().join("ran"), folder.path().join("made"));
    let hosts = format!(
        "all:\n  hosts:\n    one:\n      ansible_host: \"{{{{ lookup('pipe', 'echo one; touch {}') }}}}\"\n    two:\n      \
         ansible_user: \"{{{{ lookup('password', '{}') }}}}\"\n",
        ran.display(),
        made.display()
    );
    std::fs::write(folder.path().join("hosts.yml"), hosts).unwrap();
    let output = windlass(folder.path(), &["doctor"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("2 hosts in"), "{output:?}");
    assert!(!ran.exists() && !made.exists(), "{output:?}");
}

#[test]
fn doctor_shares_one_deadline_among_hosts_and_counts_those_it_did_not_look_at() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ansible.cfg"), "[defaults]\ninventory = hosts.ini\n").unwrap();
    std::fs::write(folder.path().join("hosts.ini"), "one\ntwo\nthree\n").unwrap();
    std::fs::create_dir(folder.path().join(".ssh")).unwrap();
    let config = "Match originalhost two,three exec \"sleep 40\"\n";
    std::fs::write(folder.path().join(".ssh/config"), config).unwrap();
    let shown = text(folder.path(), &["doctor"]);
    assert!(shown.contains(" of 3 hosts were not looked at within 10 s"), "{shown}");
}
