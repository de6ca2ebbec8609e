//! Host keys from the user's view: the question at a terminal, the warning with checking off, and `windlass hostkeys`.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{Sshd, available, keygen, run};
use crate::terminal::open_terminal;

/// Writes an inventory for this sshd to its folder.
fn inventory(sshd: &Sshd, more: &str) {
    let text = format!(
        "web1 ansible_host=127.0.0.1 ansible_port={} ansible_user=root ansible_ssh_private_key_file=id ansible_remote_tmp={home}/remote \
         ansible_ssh_args='-F none -o UserKnownHostsFile={home}/known_hosts -o IdentityAgent=none' {more}\n",
        sshd.port,
        home = sshd.directory.path().display()
    );
    fs::write(sshd.path("hosts"), text).unwrap();
}

/// Two sshd, with an inventory of both as `web1` and `web2` in the first one's folder.
fn two_hosts() -> (Sshd, Sshd) {
    let (sshd, second) = (Sshd::start(""), Sshd::start(""));
    inventory(&sshd, "");
    let first = fs::read_to_string(sshd.path("hosts")).unwrap();
    let other_host = first.replace("web1", "web2").replace(&sshd.port.to_string(), &second.port.to_string());
    fs::write(sshd.path("hosts"), format!("{first}{other_host}")).unwrap();
    (sshd, second)
}

/// Lets known_hosts and `second` hold the known keys. Returns both files.
fn two_files(sshd: &Sshd) -> [PathBuf; 2] {
    let files = ["known_hosts", "second"].map(|name| sshd.path(name));
    let [known, second] = files.each_ref().map(|file| file.display());
    let hosts = fs::read_to_string(sshd.path("hosts")).unwrap();
    let both = format!("UserKnownHostsFile=\"{known} {second}\"");
    fs::write(sshd.path("hosts"), hosts.replace(&format!("UserKnownHostsFile={known}"), &both)).unwrap();
    files
}

/// A public key that is not the sshd's, as a line of its file.
fn other_key(sshd: &Sshd) -> String {
    keygen(&sshd.path("other"), "");
    fs::read_to_string(sshd.path("other.pub")).unwrap()
}

/// The program in the sshd's folder, in its own session.
fn windlass(sshd: &Sshd, session: &[&str], arguments: &str) -> Command {
    let mut command = Command::new("setsid");
    command
        .args(session)
        .arg(env!("CARGO_BIN_EXE_windlass"))
        .args(arguments.split(' '))
        .current_dir(sshd.directory.path())
        .env("HOME", sshd.directory.path())
        .env("NO_COLOR", "1")
        .env_remove("ANSIBLE_CONFIG");
    command
}

/// Exit code and output without a terminal.
fn outcome(sshd: &Sshd, arguments: &str, environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = windlass(sshd, &["--wait"], arguments);
    let output = command.envs(environment.iter().copied()).stdin(Stdio::null()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn fingerprint(sshd: &Sshd, key: &str) -> String {
    run(Command::new("ssh-keygen").arg("-lf").arg(sshd.path(key))).split(' ').nth(1).unwrap().to_owned()
}

/// A program at its own terminal.
struct Terminal {
    child: Child,
    keys: File,
    shown: std::sync::mpsc::Receiver<u8>,
}

impl Terminal {
    fn open(sshd: &Sshd, arguments: &str) -> Self {
        let (keys, side) = open_terminal();
        let mut command = windlass(sshd, &["--wait", "--ctty"], arguments);
        let sides = [side.try_clone().unwrap(), side.try_clone().unwrap(), side];
        let [stdin, stdout, stderr] = sides.map(Stdio::from);
        let child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().unwrap();
        drop(command);
        let mut screen = keys.try_clone().unwrap();
        let (sender, shown) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut byte = [0];
            // The terminal reports the program's end as an error.
            while screen.read_exact(&mut byte).is_ok() && sender.send(byte[0]).is_ok() {}
        });
        Self { child, keys, shown }
    }

    /// Reads the screen until it shows a text. Returns everything shown.
    fn wait_for(&self, text: &str) -> String {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(text) {
            let Ok(byte) = self.shown.recv_timeout(Duration::from_secs(60)) else {
                panic!("{text:?} was not shown, only {:?}", String::from_utf8_lossy(&seen));
            };
            seen.push(byte);
        }
        String::from_utf8_lossy(&seen).into_owned()
    }

    fn type_line(&mut self, line: &str) {
        self.keys.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

#[test]
fn unknown_key_at_a_terminal_is_asked_about_as_ssh_does() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("LogLevel DEBUG1");
    inventory(&sshd, "");
    let mut declined = Terminal::open(&sshd, "adhoc -i hosts -m ping all");
    let shown = declined.wait_for("(yes/no/[fingerprint])");
    assert!(shown.contains(&fingerprint(&sshd, "host_key.pub")), "{shown}");
    declined.type_line("maybe");
    declined.wait_for("Please type 'yes', 'no' or the fingerprint:");
    declined.type_line("no");
    declined.wait_for("was not confirmed; no user name and no password was sent to it");
    assert_eq!(declined.child.wait().unwrap().code(), Some(4));
    assert!(!sshd.path("known_hosts").exists() && !sshd.log().contains("userauth-request"));

    let mut confirmed = Terminal::open(&sshd, "adhoc -i hosts -m ping all");
    confirmed.wait_for("(yes/no/[fingerprint])");
    confirmed.type_line(&fingerprint(&sshd, "host_key.pub"));
    confirmed.wait_for("pong");
    assert!(confirmed.child.wait().unwrap().success());
    assert!(sshd.path("known_hosts").exists());
    let (code, text) = outcome(&sshd, "adhoc -i hosts -m ping all", &[]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn unknown_key_warns_for_every_way_to_disable_checking() {
    if !available() {
        return;
    }
    let ways: [(&str, &str, &[(&str, &str)]); 4] = [
        ("", "adhoc -i hosts -m ping all", &[("ANSIBLE_HOST_KEY_CHECKING", "False")]),
        ("ansible_host_key_checking=false", "adhoc -i hosts -m ping all", &[]),
        ("", "adhoc -i hosts -m ping all --ssh-option StrictHostKeyChecking=no", &[]),
        ("ansible_ssh_common_args='-o StrictHostKeyChecking=no'", "adhoc -i hosts -m ping all", &[]),
    ];
    for (variable, arguments, environment) in ways {
        let sshd = Sshd::start("");
        inventory(&sshd, variable);
        let (code, text) = outcome(&sshd, arguments, environment);
        assert_eq!(code, Some(0), "{text}");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let warning = "HOST KEY CHECKING IS OFF AND THE HOST KEY OF";
        assert!(text.matches(warning).count() == 1 && text.contains(&fingerprint(&sshd, "host_key.pub")), "{text}");
    }
}

#[test]
fn changed_key_with_checking_off_gets_no_password_to_become() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    inventory(&sshd, "ansible_host_key_checking=false");
    let other = other_key(&sshd);
    sshd.known_hosts(&format!("[127.0.0.1]:{} {other}", sshd.port));
    let become_with = "-b --become-user nobody -e ansible_become_password=hunter2";
    for module in ["-m command -a id", "-m raw -a id"] {
        let (code, text) = outcome(&sshd, &format!("adhoc -i hosts {module} all {become_with}"), &[]);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            code != Some(0) && flat.contains("the password to become nobody was not sent to web1"),
            "{code:?} {text}"
        );
        assert!(flat.contains("HAS CHANGED") && !flat.contains("hunter2"), "{text}");
    }
}

#[test]
fn accept_new_by_setting_or_environment_refuses_changed_key() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    inventory(&sshd, "");
    let accept = [("WINDLASS_ACCEPT_NEW_HOST_KEYS", "true")];
    assert_eq!(outcome(&sshd, "adhoc -i hosts -m ping all", &accept).0, Some(0));
    let _ = fs::remove_file(sshd.path("known_hosts"));
    fs::write(sshd.path("ansible.cfg"), "[windlass]\naccept_new_host_keys = true\n").unwrap();
    assert_eq!(outcome(&sshd, "adhoc -i hosts -m ping all", &[]).0, Some(0));
    let other = other_key(&sshd);
    sshd.known_hosts(&format!("[127.0.0.1]:{} {other}", sshd.port));
    let (code, text) = outcome(&sshd, "adhoc -i hosts -m ping all --accept-new-host-keys", &accept);
    assert!(code == Some(4) && text.contains("HAS CHANGED"), "{text}");
}

#[test]
fn changed_key_replaced_in_every_file_with_a_backup() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    let other = other_key(&sshd);
    inventory(&sshd, "");
    let [known, second] = two_files(&sshd);
    let line = format!("[127.0.0.1]:{} {other}", sshd.port);
    sshd.known_hosts(&format!("# kept\ndb {other}{line}"));
    run(Command::new("ssh-keygen").arg("-Hf").arg(&known));
    fs::write(&second, &line).unwrap();
    let before = fs::read_to_string(&known).unwrap();

    let (code, text) = outcome(&sshd, "adhoc -i hosts -m ping all", &[]);
    assert!(code == Some(4) && text.contains("`windlass hostkeys replace HOST`"), "{text}");
    let (code, text) = outcome(&sshd, "hostkeys replace -i hosts web1", &[]);
    assert!(code == Some(1) && text.contains("run the same with --yes"), "{text}");
    assert_eq!(fs::read_to_string(&known).unwrap(), before, "nobody has confirmed the key");

    let (code, text) = outcome(&sshd, "hostkeys replace -i hosts web1 --yes", &[]);
    assert!(code == Some(0) && text.contains("known_hosts.old") && text.contains("second.old"), "{text}");
    assert_eq!(fs::read_to_string(sshd.path("known_hosts.old")).unwrap(), before);
    let after = fs::read_to_string(&known).unwrap();
    assert!(after.starts_with("# kept\n|1|") && after.lines().count() == 3, "{after}");
    assert_eq!(outcome(&sshd, "hostkeys verify -i hosts", &[]).0, Some(0));
    assert_eq!(outcome(&sshd, "adhoc -i hosts -m ping all", &[]).0, Some(0));
    let (code, text) = outcome(&sshd, "hostkeys replace -i hosts web1", &[]);
    assert!(code == Some(0) && text.contains("have not changed"), "{text}");
}

#[test]
fn every_key_that_replace_writes_is_shown_before_the_question() {
    if !available() {
        return;
    }
    let sshd = Sshd::with_rsa_host_key();
    inventory(&sshd, "");
    let other = other_key(&sshd);
    let former = format!("[127.0.0.1]:{} {other}", sshd.port);
    sshd.known_hosts(&former);
    let mut terminal = Terminal::open(&sshd, "hostkeys replace -i hosts web1");
    let shown = terminal.wait_for("yes/no");
    for key in ["host_key.pub", "rsa.pub"] {
        assert!(shown.contains(&fingerprint(&sshd, key)), "{shown}");
    }
    assert!(shown.contains("of 1 host (2 new keys)?"), "{shown}");
    assert_eq!(fs::read_to_string(sshd.path("known_hosts")).unwrap(), former);
    // Whoever types `y` does not want the answer `no`.
    terminal.type_line("y");
    terminal.wait_for("Answer `yes` or `no`.");
    terminal.type_line("yes");
    assert!(terminal.child.wait().unwrap().success());
    let after = fs::read_to_string(sshd.path("known_hosts")).unwrap();
    assert!(after.lines().count() == 2 && after.contains("ssh-rsa") && !after.contains(&other), "{after}");
}

#[test]
fn two_changed_hosts_of_one_command_are_both_in_the_backup() {
    if !available() {
        return;
    }
    let (sshd, second) = two_hosts();
    let other = other_key(&sshd);
    let former = format!("[127.0.0.1]:{} {other}[127.0.0.1]:{} {other}", sshd.port, second.port);
    sshd.known_hosts(&former);
    let (code, text) = outcome(&sshd, "hostkeys replace -i hosts all --yes", &[]);
    assert!(code == Some(0) && text.contains("known_hosts.old"), "{text}");
    assert_eq!(fs::read_to_string(sshd.path("known_hosts.old")).unwrap(), former);
    assert_eq!(outcome(&sshd, "hostkeys verify -i hosts", &[]).0, Some(0));
}

#[test]
fn failed_replace_leaves_the_host_known_and_names_the_file() {
    if !available() {
        return;
    }
    let sshd = Sshd::start("");
    inventory(&sshd, "");
    let [known, second] = two_files(&sshd);
    let line = format!("[127.0.0.1]:{} {}", sshd.port, other_key(&sshd));
    sshd.known_hosts(&line);
    fs::write(&second, &line).unwrap();
    fs::create_dir(sshd.path("second.old")).unwrap();
    let (code, text) = outcome(&sshd, "hostkeys replace -i hosts web1 --yes", &[]);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(code == Some(1) && flat.contains(&format!("{}: ", second.display())), "{text}");
    assert!(flat.contains("no known key was changed"), "{text}");
    assert_eq!([&known, &second].map(|file| fs::read_to_string(file).unwrap()), [line.clone(), line]);
    let (code, text) = outcome(&sshd, "adhoc -i hosts -m ping all --accept-new-host-keys", &[]);
    assert!(code == Some(4) && text.contains("HAS CHANGED"), "{text}");
}

#[test]
fn host_with_a_line_to_edit_by_hand_reported_and_others_replaced() {
    if !available() {
        return;
    }
    let (sshd, second) = two_hosts();
    let other = other_key(&sshd);
    let pattern = format!("[127.0.0.*]:{} {other}", sshd.port);
    sshd.known_hosts(&format!("{pattern}[127.0.0.1]:{} {other}", second.port));
    let (code, text) = outcome(&sshd, "hostkeys replace -i hosts all --yes", &[]);
    assert!(code == Some(2) && text.contains("web1: its known keys cannot be replaced"), "{text}");
    assert!(text.contains("web2: its known keys were replaced"), "{text}");
    let after = fs::read_to_string(sshd.path("known_hosts")).unwrap();
    assert!(after.starts_with(&pattern) && after.contains(second.host_public_key().rsplit_once(' ').unwrap().0));
}

#[test]
fn cloned_host_key_reported_and_aliases_of_one_server_are_not() {
    if !available() {
        return;
    }
    let (sshd, clone) = (Sshd::start(""), Sshd::start(""));
    for name in ["host_key", "host_key.pub"] {
        fs::copy(sshd.path(name), clone.path(name)).unwrap();
    }
    let mut clone = clone;
    clone.restart();
    inventory(&sshd, "");
    let first = fs::read_to_string(sshd.path("hosts")).unwrap();
    let alias = first.replace("web1", "alias").replace("ansible_host=127.0.0.1", "ansible_host=localhost");
    fs::write(sshd.path("hosts"), format!("{first}{alias}")).unwrap();
    let (code, text) = outcome(&sshd, "hostkeys pin -i hosts --yes", &[]);
    assert!(code == Some(0) && !text.contains("the same host key"), "{text}");

    let other = first.replace("web1", "web2").replace(&sshd.port.to_string(), &clone.port.to_string());
    fs::write(sshd.path("hosts"), format!("{first}{other}")).unwrap();
    for arguments in ["hostkeys pin -i hosts --yes", "hostkeys verify -i hosts"] {
        let (code, text) = outcome(&sshd, arguments, &[]);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let warning = format!("web1, web2 have the same host key, ssh-ed25519 {}", fingerprint(&sshd, "host_key.pub"));
        assert!(code == Some(0) && flat.matches(&warning).count() == 1, "{text}");
    }
}

#[test]
fn hostkeys_scan_pin_and_verify_also_through_a_jump_host() {
    if !available() {
        return;
    }
    let (sshd, jump) = (Sshd::start(""), Sshd::start(""));
    jump.known_hosts(&format!("[127.0.0.1]:{} {}\n", jump.port, jump.host_public_key()));
    let config = format!(
        "Host bastion\n  HostName 127.0.0.1\n  Port {}\n  User root\n  IdentityFile {}\n  IdentityAgent none\n  UserKnownHostsFile {}\n",
        jump.port,
        jump.path("id").display(),
        jump.path("known_hosts").display()
    );
    fs::write(sshd.path("ssh.cfg"), config).unwrap();
    inventory(&sshd, &format!("ansible_ssh_extra_args='-F {} -J bastion'", sshd.path("ssh.cfg").display()));
    let line = format!("[127.0.0.1]:{} {}", sshd.port, sshd.host_public_key().rsplit_once(' ').unwrap().0);

    let (code, text) = outcome(&sshd, "hostkeys scan -i hosts", &[]);
    assert!(code == Some(0) && text.contains(&line) && text.contains(&fingerprint(&sshd, "host_key.pub")), "{text}");
    let (code, text) = outcome(&sshd, "hostkeys verify -i hosts", &[]);
    assert!(code == Some(2) && text.contains("is unknown"), "{text}");
    // Without a terminal nobody can compare fingerprints.
    assert_eq!(outcome(&sshd, "hostkeys pin -i hosts", &[]).0, Some(1));
    assert!(!sshd.path("known_hosts").exists());
    assert_eq!(outcome(&sshd, "hostkeys pin -i hosts --yes --file elsewhere", &[]).0, Some(0));
    assert_eq!(fs::read_to_string(sshd.path("elsewhere")).unwrap(), format!("{line}\n"));
    assert_eq!(outcome(&sshd, "hostkeys pin -i hosts --yes", &[]).0, Some(0));
    assert_eq!(outcome(&sshd, "hostkeys verify -i hosts", &[]).0, Some(0));
    assert!(jump.log().contains("direct-tcpip"), "the way led through the jump host");

    let other = other_key(&sshd);
    sshd.known_hosts(&format!("# a line\n[127.0.0.1]:{} {other}", sshd.port));
    for arguments in ["hostkeys verify -i hosts", "hostkeys pin -i hosts --yes"] {
        let (code, text) = outcome(&sshd, arguments, &[]);
        let place = format!("{}:2", sshd.path("known_hosts").display());
        assert!(code == Some(2) && text.contains(&place) && text.contains(&fingerprint(&sshd, "other.pub")), "{text}");
    }
}
