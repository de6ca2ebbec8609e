//! Executors of other users, with the real `sudo` and `su`.
//!
//! Accounts and sudo rules are created in a mount namespace with a copy of `/etc`, so the machine's own are never
//! touched. That takes root, `unshare` and `sudo`; without them these tests pass without running.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod common;

use std::{os::unix::fs::PermissionsExt, process::Command};

use common::{Session, assert_killed, become_user, request, shell};
use serde_json::json;
use windlass_protocol::{Become, Content, Delivery, Event, Request, ToExecutor};

struct House {
    directory: tempfile::TempDir,
    extra: String,
}

impl House {
    /// A machine with the users anna (password `secret`) and ben, and root's password `toor`.
    fn new(extra: &str) -> Option<House> {
        if !windlass_testing::has_all(&["root", "unshare", "sudo", "useradd", "chpasswd", "su"]) {
            return None;
        }
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        Some(House { directory, extra: extra.to_owned() })
    }

    /// A session with an executor that runs as this user.
    fn session(&self, user: &str) -> Session {
        let place = self.directory.path().display();
        let executor = env!("CARGO_BIN_EXE_windlass-executor");
        let start = match user {
            "root" => "exec \"$D/home/anna/private/windlass-executor\" serve word".to_owned(),
            user => format!("exec su {user} -c \"exec $D/home/anna/private/windlass-executor serve word\""),
        };
        let script = format!(
            "set -e; D={place}; mkdir -p $D/home $D/tmp; chmod 1777 $D/tmp; mount --bind $D/tmp /tmp; cp -a /etc $D/etc; mount --bind $D/etc /etc
             for user in anna ben; do useradd -m -d $D/home/$user -s /bin/sh $user; done >&2
             printf 'anna:secret\\nroot:toor\\n' | chpasswd >&2
             mkdir -m 0700 $D/home/anna/private; cp {executor} $D/home/anna/private/; chown -R anna $D/home/anna/private
             {extra}
             cd $D/home/anna; {start}",
            extra = self.extra
        );
        Session::of(Command::new("unshare").args(["--mount", "--propagation", "private", "sh", "-c", &script]))
    }
}

fn allow(rule: &str) -> String {
    format!("printf '%s\\n' {} > /etc/sudoers.d/test; chmod 440 /etc/sudoers.d/test", shell_words::quote(rule))
}

fn with(password: &str, who: Become) -> Become {
    Become { password: Some(windlass_protocol::Secret::new(password)), ..who }
}

fn as_user(who: Become, mut request: Request<serde_json::Value>) -> Request<serde_json::Value> {
    request.become_user = Some(who);
    request
}

#[test]
fn sudo_with_password_starts_one_executor() {
    let Some(house) = House::new(&allow("anna ALL=(ALL) ALL")) else { return };
    let mut session = house.session("anna");
    let who = with("secret", become_user("sudo", "root"));
    let first = session.run(as_user(who.clone(), shell(1, "id -un; echo $PPID; echo $HOME")));
    assert!(first.result["stdout"].as_str().unwrap().starts_with("root\n"), "{}", first.result);
    let second = session.run(as_user(who, shell(2, "id -un; echo $PPID; echo $HOME")));
    assert_eq!(first.result["stdout"], second.result["stdout"]);
    assert_eq!(session.run(shell(3, "id -un")).result["stdout"], "anna");
    assert_eq!(session.close(), 0);
}

/// Number of times that the memory of a process has these bytes.
fn found_in_memory(pid: u32, wanted: &[u8]) -> usize {
    use std::os::unix::fs::FileExt as _;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut count = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, rest) = line.split_once('-').unwrap();
        let to = rest.split(' ').next().unwrap();
        let [from, to] = [from, to].map(|number| u64::from_str_radix(number, 16).unwrap());
        let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
        if memory.read_exact_at(&mut bytes, from).is_ok() {
            count += memchr::memmem::find_iter(&bytes, wanted).count();
        }
    }
    count
}

#[test]
fn secrets_of_finished_tasks_are_in_no_executors_memory() {
    let password = "harbour \"and\" lighthouse";
    let set = format!("printf '%s\\n' {} | chpasswd >&2", shell_words::quote(&format!("anna:{password}")));
    let Some(house) = House::new(&format!("{}\n{set}", allow("anna ALL=(ALL) ALL"))) else { return };
    let mut session = house.session("anna");
    let who = with(password, become_user("sudo", "root"));
    let started = session.run(as_user(who.clone(), shell(1, "echo $PPID; sleep 1")));
    let root = started.result["stdout"].as_str().unwrap().parse::<u32>().unwrap();
    // Arguments with and without escapes in JSON, a file, and the environment of a task.
    let key = "seafarer's\n\"portolan\" 4711";
    let mut copy = request(2, "copy", json!({ "content": key, "dest": house.directory.path().join("home/anna/key") }));
    copy.environment.insert("CHART".into(), "compass rose 0815".into());
    for request in [copy.clone(), as_user(who, Request { id: 3, ..copy })] {
        let answer = session.run(request).result;
        assert_eq!(answer.get("failed"), None, "{answer}");
    }
    for (name, pid) in [("login user", session.hello.pid), ("root", root)] {
        assert!(found_in_memory(pid, b"windlass") > 0, "the memory of {name}'s executor can be read");
        for secret in ["lighthouse", "seafarer", "portolan", "compass rose"] {
            assert_eq!(found_in_memory(pid, secret.as_bytes()), 0, "{secret} in the memory of {name}'s executor");
        }
    }
    assert_eq!(session.close(), 0);
}

#[test]
fn wrong_password_tried_once() {
    let Some(house) = House::new(&allow("anna ALL=(ALL) ALL\nDefaults logfile=/etc/sudo.log")) else { return };
    let mut session = house.session("anna");
    for id in [1, 2] {
        let answer = session.run(as_user(with("wrong", become_user("sudo", "root")), request(id, "ping", json!({}))));
        let Some((Event::BecomeFailed { message }, _)) = answer.events.first() else { panic!("{:?}", answer.events) };
        assert!(message.starts_with("Incorrect sudo password"), "{message}");
        assert_eq!(answer.result["failed"], true);
    }
    let log = std::fs::read_to_string(house.directory.path().join("etc/sudo.log")).unwrap();
    assert_eq!(log.matches("incorrect password attempt").count(), 1, "{log}");
    assert!(log.contains("1 incorrect password attempt"), "{log}");
    let right = session.run(as_user(with("secret", become_user("sudo", "root")), request(3, "ping", json!({}))));
    assert_eq!(right.result["ping"], "pong", "{}", right.result);
}

#[test]
fn missing_password_and_missing_rule_reported() {
    let Some(house) = House::new("") else { return };
    let mut session = house.session("anna");
    let missing = session.run(as_user(become_user("sudo", "root"), request(1, "ping", json!({})))).result;
    assert!(missing["msg"].as_str().unwrap().starts_with("Missing sudo password"), "{missing}");
    let refused =
        session.run(as_user(with("secret", become_user("sudo", "root")), request(2, "ping", json!({})))).result;
    assert!(refused["msg"].as_str().unwrap().contains("sudoers"), "{refused}");
    let nobody =
        session.run(as_user(with("secret", become_user("sudo", "nobody-here")), request(3, "ping", json!({})))).result;
    assert_eq!(nobody["failed"], true);
}

#[test]
fn sudo_message_in_pieces_not_taken_for_prompt() {
    let Some(house) = House::new(&allow("anna ALL=(ALL) NOPASSWD: ALL")) else { return };
    let mut session = house.session("anna");
    // Printed by sudo on a host that cannot resolve its own name.
    let script = "printf 'sudo: ' >&2; sleep 0.3; echo 'unable to resolve host here' >&2; exec sudo \"$@\"";
    let who = Become { exe: Some(shell_words::join(["sh", "-c", script, "sudo"])), ..become_user("sudo", "root") };
    let answer = session.run(as_user(who, shell(1, "id -un")));
    assert_eq!(answer.result["stdout"], "root", "{}", answer.result);
    session.close();
}

#[test]
fn unprivileged_user_gets_copy_removed_later() {
    let Some(house) = House::new(&allow("anna ALL=(ALL) NOPASSWD: ALL")) else { return };
    let mut session = house.session("anna");
    let answer = session.run(as_user(become_user("sudo", "ben"), shell(1, "id -un; pwd")));
    assert!(answer.result["stdout"].as_str().unwrap().starts_with("ben\n"), "{}", answer.result);
    assert_eq!(std::fs::read_dir(house.directory.path().join("tmp")).unwrap().count(), 0);
    session.close();
}

#[test]
fn sudo_requiring_terminal_gets_one() {
    let Some(house) = House::new(&allow("Defaults requiretty\nanna ALL=(ALL) ALL")) else { return };
    let mut session = house.session("anna");
    let who = with("secret", become_user("sudo", "root"));
    let bytes: Vec<u8> = (0..300_000u32).map(|number| (number % 256) as u8).collect();
    let place = house.directory.path().join("bytes");
    let sum = {
        use sha1::Digest;
        hex::encode(sha1::Sha1::digest(&bytes))
    };
    let mut copy =
        as_user(who.clone(), request(1, "copy", json!({ "_content": 0, "dest": place.display().to_string() })));
    copy.contents = vec![Content {
        name: "bytes".into(),
        size: 300_000,
        sha1: sum.clone(),
        sha256: None,
        mode: 0o644,
        delivery: Delivery::Inline,
    }];
    session.send(&ToExecutor::Run(copy), &bytes);
    let copied = session.answer(1).result;
    assert_eq!(copied["checksum"], sum, "{copied}");
    assert_eq!(copied["owner"], "root");
    let fetched = session.run(as_user(who, request(2, "fetch", json!({ "src": place.display().to_string() }))));
    let received: Vec<u8> = fetched.events.into_iter().flat_map(|(_, blob)| blob).collect();
    assert!(received == bytes, "the bytes came back changed");
    session.close();
}

#[test]
fn su_prompts_on_terminal() {
    let Some(house) = House::new("") else { return };
    let mut session = house.session("anna");
    let answer = session.run(as_user(with("toor", become_user("su", "root")), shell(1, "id -un")));
    assert_eq!(answer.result["stdout"], "root", "{}", answer.result);
    let wrong = session.run(as_user(with("wrong", become_user("su", "ben")), request(2, "ping", json!({})))).result;
    assert!(wrong["msg"].as_str().unwrap().starts_with("Incorrect su password"), "{wrong}");
    let missing = session.run(as_user(become_user("su", "ben"), request(3, "ping", json!({})))).result;
    assert!(missing["msg"].as_str().unwrap().starts_with("Missing su password"), "{missing}");
    session.close();
}

/// A profile of ben that asks for a password as sudo, su and doas do, and keeps the answer.
const ASKS: &str = r#"cat > $D/home/ben/.bash_profile <<'END'
stty -echo 2> /dev/null
cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\0' '\n' | grep -ao 'windlass-password-[0-9a-f]*:' | sort -u >&2
printf 'Password: ' >&2
IFS= read -r -t 3 stolen
echo "got $stolen" > ~/stolen
END
usermod -s /bin/bash ben >&2"#;

#[test]
fn become_user_who_asks_for_the_password_gets_none() {
    let free = "sed -i '1i auth sufficient pam_succeed_if.so quiet user = ben' /etc/pam.d/su";
    let extra = format!("{}\n{ASKS}\n{free}", allow("anna ALL=(ALL) NOPASSWD: ALL"));
    let Some(house) = House::new(&extra) else { return };
    for (login, method, flags) in
        [("anna", "sudo", "-i -S"), ("anna", "su", "-l"), ("root", "sudo", "-i -S"), ("root", "su", "-l")]
    {
        let mut session = house.session(login);
        let who = Become { flags: Some(flags.into()), ..with("secret", become_user(method, "ben")) };
        let answer = session.run(as_user(who, shell(1, "id -un; cat ~/stolen")));
        assert_eq!(answer.result["stdout"], "ben\ngot ", "{login}, {method}: {}", answer.result);
        session.close();
        for folder in ["etc", "home"] {
            std::fs::remove_dir_all(house.directory.path().join(folder)).unwrap();
        }
    }
}

/// Without PAM, `su` executes the user's shell in place of itself, as busybox does.
#[test]
fn shell_of_the_become_user_that_executes_su_gets_no_password() {
    let method = r#"printf '#!/bin/sh\nexec setpriv --reuid ben --regid ben --clear-groups %s/home/ben/shell\n' $D > $D/su
printf '#!/bin/sh\nexec su root -c "id -u > %s/tmp/evil"\n' $D > $D/home/ben/shell
chmod 755 $D/su $D/home/ben $D/home/ben/shell"#;
    let Some(house) = House::new(method) else { return };
    let mut session = house.session("root");
    let exe = house.directory.path().join("su").display().to_string();
    let who = Become { exe: Some(exe), timeout: 3, ..with("toor", become_user("su", "ben")) };
    let answer = session.run(as_user(who, shell(1, "id -un"))).result;
    assert!(!house.directory.path().join("tmp/evil").exists(), "a program of ben ran as root");
    assert!(answer["msg"].as_str().unwrap().contains("the password was not sent"), "{answer}");
    session.close();
}

/// The same with a program that takes the real user 0 too, as sudo does.
#[test]
fn program_of_the_become_user_that_takes_real_user_0_gets_no_password() {
    let method = r#"printf '#!/bin/sh\nexec setpriv --reuid ben --regid ben --clear-groups %s/home/ben/shell\n' $D > $D/su
cp "$(command -v setpriv)" $D/taker
printf '#!/bin/sh\nexec %s/taker --ruid 0 --euid 0 /usr/bin/python3 %s/home/ben/ask %s/tmp/evil\n' $D $D $D > $D/home/ben/shell
cat > $D/home/ben/ask <<'END'
import os, select, sys
answer = open(sys.argv[1], "w", buffering=1)
answer.write(f"{os.getuid()} \n")
os.write(2, b"Password: ")
if select.select([0], [], [], 2)[0]:
    answer.write(os.read(0, 100).decode())
END
chmod 755 $D/su $D/home/ben $D/home/ben/shell
chmod 4755 $D/taker"#;
    let Some(house) = House::new(method).filter(|_| windlass_testing::has_all(&["/usr/bin/python3", "setpriv"])) else {
        return;
    };
    let mut session = house.session("root");
    let exe = house.directory.path().join("su").display().to_string();
    let who = Become { exe: Some(exe), timeout: 6, ..with("toor", become_user("su", "ben")) };
    let answer = session.run(as_user(who, shell(1, "id -un"))).result;
    assert_eq!(std::fs::read_to_string(house.directory.path().join("tmp/evil")).unwrap(), "0 \n", "{answer}");
    assert!(answer["msg"].as_str().unwrap().contains("the password was not sent"), "{answer}");
    session.close();
}

#[test]
fn sudo_that_keeps_no_credentials_gets_its_password() {
    let Some(house) = House::new(&allow("Defaults timestamp_timeout=0\nanna ALL=(ALL) ALL")) else { return };
    let mut session = house.session("anna");
    let answer = session.run(as_user(with("secret", become_user("sudo", "ben")), shell(1, "id -un")));
    assert_eq!(answer.result["stdout"], "ben", "{}", answer.result);
    session.close();
}

#[test]
fn sudo_gets_its_password_where_processes_are_hidden() {
    let hide = "mount -t proc -o hidepid=2 proc /proc";
    let Some(house) = House::new(&format!("{}\n{hide}", allow("anna ALL=(ALL) ALL"))) else { return };
    let mut session = house.session("anna");
    let wrong = session.run(as_user(with("wrong", become_user("sudo", "root")), request(1, "ping", json!({})))).result;
    assert!(wrong["msg"].as_str().unwrap().starts_with("Incorrect sudo password"), "{wrong}");
    let answer = session.run(as_user(with("secret", become_user("sudo", "ben")), shell(2, "id -un")));
    assert_eq!(answer.result["stdout"], "ben", "{}", answer.result);
    // Nobody can see whether su or a program that it started asks.
    let who = Become { timeout: 3, ..with("toor", become_user("su", "root")) };
    let refused = session.run(as_user(who, request(3, "ping", json!({})))).result;
    assert!(refused["msg"].as_str().unwrap().contains("the password was not sent"), "{refused}");
    session.close();
}

#[test]
fn doas_prompts_on_terminal() {
    let Some(house) = House::new("printf 'permit anna\\n' > /etc/doas.conf") else { return };
    if !windlass_testing::has("doas") {
        return;
    }
    let mut session = house.session("anna");
    let answer = session.run(as_user(with("secret", become_user("doas", "ben")), shell(1, "id -un")));
    assert_eq!(answer.result["stdout"], "ben", "{}", answer.result);
    session.close();
}

#[test]
fn root_becomes_any_user() {
    let Some(house) = House::new("") else { return };
    let mut session = house.session("root");
    for (id, method) in [(1, "su"), (2, "sudo")] {
        let answer = session.run(as_user(become_user(method, "ben"), shell(id, "id -un")));
        assert_eq!(answer.result["stdout"], "ben", "{method}: {}", answer.result);
    }
    session.close();
}

/// Starts a long command as root, closes the connection, and searches for the command.
fn runs_on(house: &House, who: Become) {
    let mut session = house.session("anna");
    let file = house.directory.path().join("pid");
    let text = format!("echo $$ > {}; exec sleep 600", file.display());
    session.send(&ToExecutor::Run(as_user(who, shell(1, &text))), &[]);
    while std::fs::read_to_string(&file).unwrap_or_default().trim().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    session.close();
    assert_killed(&std::fs::read_to_string(&file).unwrap());
}

#[test]
fn sudo_processes_end_with_the_controller() {
    let Some(house) = House::new(&allow("anna ALL=(ALL) NOPASSWD: ALL")) else { return };
    runs_on(&house, become_user("sudo", "root"));
}

#[test]
fn terminal_processes_end_with_the_controller() {
    let Some(house) = House::new("") else { return };
    runs_on(&house, with("toor", become_user("su", "root")));
}

#[test]
fn cancel_reaches_executor_of_other_user() {
    let Some(house) = House::new(&allow("anna ALL=(ALL) NOPASSWD: ALL")) else { return };
    let mut session = house.session("anna");
    let mut slow = as_user(become_user("sudo", "root"), shell(1, "echo started; sleep 600"));
    slow.stream = true;
    session.send(&ToExecutor::Run(slow), &[]);
    assert!(matches!(session.next().0, windlass_protocol::Reply::Event { id: 1, event: Event::Output { .. } }));
    session.send(&ToExecutor::Cancel { id: 1 }, &[]);
    assert_eq!(session.answer(1).result["failed"], true);
    let again = session.run(as_user(become_user("sudo", "root"), shell(2, "id -un")));
    assert_eq!(again.result["stdout"], "root");
    session.close();
}

/// Attack by the become user: tries to access another process of that user.
#[test]
fn attacker_reports_what_it_can_take() {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let Ok(victim) = std::env::var("WINDLASS_VICTIM") else { return };
    let pid = Pid::from_raw(victim.parse().unwrap()).unwrap();
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    let taken = (0..64).any(|number| pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty()).is_ok());
    let listed = std::fs::read_dir(format!("/proc/{victim}/fd")).is_ok_and(|mut entries| entries.next().is_some());
    let opened = (0..64).any(|number| std::fs::File::open(format!("/proc/{victim}/fd/{number}")).is_ok());
    let memory = std::fs::File::open(format!("/proc/{victim}/mem")).is_ok();
    let environment = std::fs::read(format!("/proc/{victim}/environ")).is_ok_and(|bytes| !bytes.is_empty());
    println!("verdict: taken={taken} listed={listed} opened={opened} memory={memory} environment={environment}");
}

/// Runs the attack as `user` against a process; returns its report.
fn attacked(session: &mut Session, house: &House, id: u64, user: &str, victim: &str) -> String {
    let attacker = house.directory.path().join("attacker");
    if !attacker.exists() {
        std::fs::copy(std::env::current_exe().unwrap(), &attacker).unwrap();
        std::fs::set_permissions(&attacker, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let text = format!(
        "WINDLASS_VICTIM={victim} {} --exact attacker_reports_what_it_can_take --nocapture",
        attacker.display()
    );
    let answer = session.run(as_user(become_user("sudo", user), shell(id, &text))).result;
    let stdout = answer["stdout"].as_str().unwrap_or_default().to_owned();
    let verdict = stdout.lines().find_map(|line| line.split_once("verdict: ")).map(|(_, verdict)| verdict.to_owned());
    verdict.unwrap_or_else(|| panic!("{answer}"))
}

const NOTHING: &str = "taken=false listed=false opened=false memory=false environment=false";

#[test]
fn process_of_the_become_user_cannot_take_the_executors_channel() {
    let Some(house) = House::new(&allow("anna ALL=(ALL) NOPASSWD: ALL")) else { return };
    for login in ["anna", "root"] {
        let mut session = house.session(login);
        // An unprotected process of the same user shows that the attack works.
        let control = attacked(&mut session, &house, 1, "ben", "$(sleep 60 >/dev/null 2>&1 & echo $!)");
        assert!(control.contains("listed=true") && control.contains("environment=true"), "{control}");
        assert_eq!(attacked(&mut session, &house, 2, "ben", "$PPID"), NOTHING);
        // The login user's executor, attacked from another process of that user.
        let pid = session.hello.pid.to_string();
        assert_eq!(attacked(&mut session, &house, 3, "anna", &pid), NOTHING);
        session.close();
        std::fs::remove_dir_all(house.directory.path().join("etc")).unwrap();
        std::fs::remove_dir_all(house.directory.path().join("home")).unwrap();
    }
}

#[test]
fn job_of_ordinary_user_cannot_be_inspected() {
    let Some(house) = House::new(&allow("anna ALL=(ALL) NOPASSWD: ALL")) else { return };
    let mut session = house.session("anna");
    let place = house.directory.path().join("tmp");
    let detached = |who: Option<Become>, id| {
        let directory = place.join(format!("jobs-{}", id_of(who.as_ref()))).display().to_string();
        let detached = windlass_protocol::Detached { job: format!("j{id}"), directory, limit: 60, lock: String::new() };
        Request { become_user: who, detached: Some(detached), ..shell(id, "echo $PPID; sleep 2") }
    };
    for (id, who) in [(1, None), (2, Some(become_user("sudo", "ben")))] {
        let user = id_of(who.as_ref());
        let started = session.run(detached(who, id)).result;
        assert_eq!(started["started"], true, "{started}");
        let pid = started["ansible_job_id"].as_str().unwrap().rsplit('.').next().unwrap().to_owned();
        assert_eq!(attacked(&mut session, &house, id + 10, &user, &pid), NOTHING);
        let file = started["results_file"].as_str().unwrap().to_owned();
        let look = format!("for n in $(seq 100); do grep -q '\"stdout\"' {file} && break; sleep 0.1; done; cat {file}");
        let found = session.run(as_user(become_user("sudo", "root"), shell(id + 20, &look))).result;
        assert!(found["stdout"].as_str().unwrap().contains(&pid), "{found}");
    }
    session.close();
}

fn id_of(who: Option<&Become>) -> String {
    who.map_or_else(|| "anna".to_owned(), |who| who.user.clone())
}
