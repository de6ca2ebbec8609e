//! The ad-hoc command.

use std::process::{Command, Output};

fn windlass(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(arguments).env("ANSIBLE_CONFIG", "/nonexistent/ansible.cfg").output().expect("the program starts")
}

#[test]
fn an_adhoc_command_ends_when_its_hosts_are_done() {
    let output = windlass(&["adhoc", "localhost", "-m", "command", "-a", "echo one two"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "localhost | CHANGED | rc=0 >>\none two\n");
    assert_eq!(output.status.code(), Some(0));
}

/// Contents of this size are sent after their request. They must be decrypted there too.
#[test]
fn a_large_file_in_a_vault_arrives_decrypted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let text = "a line of a large file\n".repeat(20_000);
    std::fs::write(path("source"), &text).expect("a file");
    std::fs::write(path("password"), "secret").expect("a file");
    let password = ["--vault-password-file", &path("password")];
    let encrypted = windlass(&["vault", "encrypt", password[0], password[1], &path("source")]);
    assert!(encrypted.status.success(), "{encrypted:?}");
    let args = format!("src={} dest={}", path("source"), path("copy"));
    let copied = windlass(&["adhoc", "localhost", "-m", "copy", "-a", &args, password[0], password[1]]);
    assert!(copied.status.success(), "{copied:?}");
    assert!(std::fs::read_to_string(path("copy")).expect("the copy") == text, "the copy is another text");
}

#[test]
fn result_shows_invocation_only_with_vvv() {
    let call = ["adhoc", "localhost", "-m", "stat", "-a", "path=/nonexistent"];
    let text = |output: Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text(windlass(&call)).contains("invocation"));
    let loud = text(windlass(&[call.as_slice(), &["-vvv"]].concat()));
    assert!(loud.contains("\"module_args\"") && loud.contains("\"follow\": false"), "{loud}");
}

#[test]
fn connection_shown_with_vvv_and_logged_with_log_verbosity() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let call = ["adhoc", "localhost", "-m", "ping"];
    let reached = "<localhost> ESTABLISH LOCAL CONNECTION";
    let loud = windlass(&[call.as_slice(), &["-vvv"]].concat());
    let loud = String::from_utf8_lossy(&loud.stdout);
    assert!(loud.contains(reached) && loud.contains("<localhost> EXEC "), "{loud}");
    let quiet = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(call)
        .envs([("ANSIBLE_CONFIG", "/nonexistent/ansible.cfg"), ("ANSIBLE_LOG_VERBOSITY", "3")])
        .env("ANSIBLE_LOG_PATH", &log)
        .output()
        .expect("the program starts");
    assert!(!String::from_utf8_lossy(&quiet.stdout).contains(reached), "{quiet:?}");
    let logged = std::fs::read_to_string(log).expect("the log");
    assert!(logged.contains(reached), "{logged}");
}

#[test]
fn template_written_in_requested_encoding() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("price.j2"), "5 €\n").expect("a file");
    let write = |encoding: &str| {
        let args = format!("src={} dest={} output_encoding={encoding}", path("price.j2"), path("price"));
        windlass(&["adhoc", "localhost", "-m", "template", "-a", &args])
    };
    assert!(write("windows-1252").status.success());
    assert_eq!(std::fs::read(path("price")).expect("the file"), b"5 \x80\n");
    let refused = write("latin-1");
    assert!(String::from_utf8_lossy(&refused.stdout).contains("has characters that 'latin-1' lacks"), "{refused:?}");
}

#[test]
fn misspelt_module_is_an_error_and_no_panic() {
    for _ in 0..5 {
        let output = windlass(&["adhoc", "localhost", "-m", "pign"]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(
            message.contains("The module pign was not found.") && message.contains("did you mean `ping`?"),
            "{message}"
        );
        assert!(!message.contains("panicked"), "{message}");
    }
}

#[test]
fn invalid_command_line_refused() {
    let told = |arguments: &[&str]| {
        let output = windlass(&[&["adhoc", "localhost"], arguments].concat());
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), text)
    };
    for (arguments, code, sentence) in [
        (&["-m", "ping", "--playbook-dir", "/nope"][..], 2, "--playbook-dir /nope does not exist"),
        (&["-m", "ping", "--playbook-dir", "/etc/passwd"], 2, "--playbook-dir /etc/passwd is not a directory"),
        (&["-m", "command", "-a", "true", "-b", "--become-method", "nosuch"], 2, "Invalid become method specified"),
        (&["-m", "meta", "-a", "end_role"], 4, "Cannot execute 'end_role' from outside of a role"),
    ] {
        let (found, text) = told(arguments);
        assert!(found == Some(code) && text.contains(sentence), "{arguments:?}: {found:?} {text}");
    }
    // No user is switched, so the method does not matter.
    assert_eq!(told(&["-m", "ping", "--become-method", "nosuch"]).0, Some(0));
}

#[test]
fn implicit_localhost_uses_python_of_controller() {
    let shown = |name: &str| {
        let output = windlass(&["adhoc", "localhost", "-m", "debug", "-a", &format!("msg={{{{ {name} }}}}")]);
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    assert_eq!(shown("ansible_python_interpreter"), shown("ansible_playbook_python"));
}

#[test]
fn fetch_is_skipped_in_check_mode() {
    let output =
        windlass(&["adhoc", "localhost", "-m", "fetch", "-a", "src=/etc/passwd dest=/nonexistent/", "--check"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("localhost | SKIPPED") && output.status.success(), "{text}");
}

#[test]
fn limit_without_hosts_names_unmatched_word() {
    let output = windlass(&["adhoc", "-i", "a,b,", "-l", "nobody", "all", "-m", "ping"]);
    let expected = "[WARNING]: Could not match supplied host pattern, ignoring: nobody\n\
                    [ERROR]: Specified inventory, host pattern and/or --limit leaves us with no hosts to target.\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert_eq!(output.status.code(), Some(1));
    let classic = windlass(&["adhoc", "-i", "a,b,", "-l", "nobody", "all", "-m", "ping", "--compat", "2.18"]);
    assert!(String::from_utf8_lossy(&classic.stderr).contains("\nERROR! Specified inventory"), "{classic:?}");
}

#[test]
fn older_release_has_its_own_version_and_form_of_copied_json() {
    let folder = tempfile::tempdir().unwrap();
    let play = "- hosts: localhost
  connection: local
  gather_facts: false
  vars: {made: {zeta: \u{fc}, alpha: '{{ ansible_version.string }}'}}
  tasks: [{copy: {dest: OUT, content: '{{ made }}'}}]
";
    let out = folder.path().join("out");
    std::fs::write(folder.path().join("play.yml"), play.replace("OUT", &out.display().to_string())).unwrap();
    let written = |compat: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        crate::project::enter(&mut command, folder.path());
        let output = command.args(["playbook", "play.yml", "--compat", compat]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        std::fs::read_to_string(&out).unwrap()
    };
    assert_eq!(written("2.18"), r#"{"zeta": "\u00fc", "alpha": "2.18.19"}"#);
    assert_eq!(written("2.19"), "{\"zeta\": \"\u{fc}\", \"alpha\": \"2.19.14\"}");
}
