//! Attacks by forms and by those who send them.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;

use super::desk::{Desk, post, try_sign_in, wait};
use super::site::answer;

#[test]
fn forms_of_other_sites_and_sessions_are_refused() {
    let desk = Desk::new();
    let server = desk.serve();
    let (ana, bob) = (desk.sign_in(&server, "ana"), desk.sign_in(&server, "bob"));
    let (own, other) = (ana.form_token(), bob.form_token());
    let cookie = format!("Cookie: {}\r\n", ana.cookie);
    let origin = format!("Origin: http://{}\r\n", server.address);
    let foreign = [
        String::new(),
        "Origin: http://evil.example\r\n".to_owned(),
        "Origin: null\r\n".to_owned(),
        // Another port of this machine is another site here.
        "Origin: http://127.0.0.1:1\r\n".to_owned(),
        format!("Origin: https://{}\r\n", server.address),
        format!("{origin}Sec-Fetch-Site: cross-site\r\n"),
        format!("{origin}Sec-Fetch-Site: same-site\r\n"),
        "Sec-Fetch-Site: none\r\n".to_owned(),
        "Origin: http://evil.example\r\nSec-Fetch-Site: same-origin\r\n".to_owned(),
    ];
    let fields = [("form_token", own.as_str()), ("playbook", "Form"), ("limit", "a"), ("start", "x")];
    for headers in &foreign {
        for path in ["/start", "/cancel", "/sign-out"] {
            let refused = post(&server, path, &format!("{cookie}{headers}"), &fields);
            assert_eq!(refused.status, 403, "{path} {headers}: {}", refused.body);
        }
        let refused = post(&server, "/sign-in", headers, &[("token", desk.token_of("ana"))]);
        assert_eq!(refused.status, 403, "{headers}");
        assert!(!refused.head.contains("Set-Cookie"), "{}", refused.head);
    }
    let twice = format!("{cookie}{origin}Origin: http://evil.example\r\n");
    assert_eq!(post(&server, "/start", &twice, &fields).status, 400);
    for token in ["", "x", &other] {
        let wrong = [("form_token", token), ("playbook", "Form"), ("limit", "a")];
        assert_eq!(post(&server, "/start", &ana.headers(), &wrong).status, 403, "{token}");
    }
    assert_eq!(post(&server, "/start", &ana.headers(), &fields[1..]).status, 403);
    // An address alone starts nothing.
    assert_eq!(ana.get(&format!("/start?playbook=Form&limit=a&form_token={own}")).status, 200);
    assert_eq!(ana.get("/cancel?start=x").status, 404);
    assert_eq!(ana.get("/").status, 200);
    assert!(desk.site.journals().is_empty() && desk.records("started").is_empty());
    // The trail has the first refusals of each user, and not one line for each.
    let records = desk.records("refused");
    assert_eq!(records.iter().filter(|one| one["user"] == "ana").count(), 10, "{records:?}");
}

#[test]
fn strangers_and_viewers_start_nothing() {
    let desk = Desk::new();
    let server = desk.serve();
    let vic = desk.sign_in(&server, "vic");
    for (path, fields) in
        [("/start", [("playbook", "Form"), ("limit", "a")]), ("/cancel", [("start", "x"), ("limit", "a")])]
    {
        assert_eq!(vic.post(path, &fields).status, 403, "{path}");
        let origin = format!("Origin: http://{}\r\n", server.address);
        assert_eq!(post(&server, path, &origin, &fields).status, 401, "{path}");
    }
    let ana = desk.sign_in(&server, "ana");
    for name in ["Of bob", "Wait for <ada> & \"co\"", "form.yml", "../form.yml", "-e@x", ""] {
        assert_eq!(ana.post("/start", &[("playbook", name), ("limit", "a")]).status, 403, "{name}");
    }
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
        let head = format!("Host: {}\r\n{}", server.address, ana.headers());
        let refused = server.send(&format!("{method} /start HTTP/1.1\r\n{head}Content-Length: 0\r\n\r\n"));
        assert_eq!(refused.status, 405, "{method}");
        assert!(refused.head.contains("Allow: GET, HEAD, POST"), "{}", refused.head);
    }
    assert!(desk.site.journals().is_empty() && desk.records("started").is_empty());
}

#[test]
fn playbook_behind_a_link_out_of_the_project_is_not_started() {
    let desk = Desk::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::copy(desk.site.path("form.yml"), elsewhere.path().join("form.yml")).unwrap();
    fs::remove_file(desk.site.path("form.yml")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("form.yml"), desk.site.path("form.yml")).unwrap();
    let server = desk.serve();
    let refused = desk.sign_in(&server, "ana").post("/start", &[("playbook", "Form"), ("limit", "a")]);
    assert!(refused.status == 400 && refused.body.contains("is not a file of the project"), "{}", refused.body);
}

#[test]
fn values_of_forms_are_never_templates_or_options() {
    let desk = Desk::new();
    let server = desk.serve();
    let ana = desk.sign_in(&server, "ana");
    let touch = format!("{{{{ lookup('pipe', 'touch {}') }}}}", desk.site.path("pwned").display());
    let values = [
        touch.clone(),
        "{% for x in y %}".to_owned(),
        "!unsafe x".to_owned(),
        "--check -e @x\n- hosts: all".to_owned(),
    ];
    for (index, value) in values.iter().enumerate() {
        let map = serde_json::json!({"k": value, value: 1}).to_string();
        ana.start("Form", &[("limit", "a"), ("variable.note", value), ("variable.map", &map)]);
        let ended = desk.wait_for("ended", index + 1);
        assert_eq!(ended[index]["result"], "ok", "{value}: {}", desk.trail());
        assert_eq!(fs::read_to_string(desk.site.path("out-a")).unwrap(), format!("{value}||none"));
    }
    assert!(!desk.site.path("pwned").exists());
}

/// Whether a text is in the arguments or the environment of any process that this user may look at.
fn is_in_processes(text: &str) -> bool {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let own = std::process::id().to_string();
    let holds = |path: &Path| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    entries
        .filter(|entry| entry.file_name().to_string_lossy() != own)
        .any(|entry| holds(&entry.path().join("cmdline")) || holds(&entry.path().join("environ")))
}

/// Files below a folder that hold a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if fs::read(&path).unwrap_or_default().windows(text.len()).any(|window| window == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn secret_values_are_in_no_process_list_journal_trail_or_page() {
    let desk = Desk::new();
    let slow = "- hosts: all\n  gather_facts: false\n  tasks:\n    - name: Second\n      \
                shell: until [ -e FOLDER/go ]; do sleep 0.1; done\n    - debug: {msg: 'it is {{ password }}'}\n    \
                - fail: {msg: 'not {{ password }}'}\n";
    desk.site.write("form.yml", slow);
    let server = desk.serve();
    let (ada, ana) = (desk.sign_in(&server, "ada"), desk.sign_in(&server, "ana"));
    let secret = "tr0ub4dor-of-the-form";
    let run = ana
        .run_of(&ana.start("Form", &[("limit", "a"), ("variable.password", secret), ("variable.note", "plain-note")]));
    super::live::begun(&desk.site, 1);
    assert!(!is_in_processes(secret));
    assert!(files_with(&desk.site.path(""), secret).is_empty(), "{:?}", files_with(&desk.site.path(""), secret));
    desk.site.write("go", "");
    assert_eq!(desk.wait_for("ended", 1)[0]["result"], "failed");
    assert!(files_with(&desk.site.path(""), secret).is_empty(), "{:?}", files_with(&desk.site.path(""), secret));
    let started = &desk.records("started")[0];
    assert_eq!(started["variables"]["password"], "********");
    for path in [format!("/runs/{run}"), format!("/runs/{run}/live"), "/audit".to_owned(), "/".to_owned()] {
        let page = ada.get(&path);
        assert!(page.status == 200 && !page.body.contains(secret), "{path}: {}", page.body);
    }
    // A refused form does not send it back.
    let fields = [("playbook", "Form"), ("limit", "x"), ("variable.password", secret)];
    let page = ana.post("/start", &fields);
    assert!(page.status == 400 && !page.body.contains(secret), "{}", page.body);
    // The command line of the run does not hold all that it needs, and says so.
    let rerun = desk.site.run(&["runs", "rerun", &run]);
    let text = String::from_utf8_lossy(&rerun.stderr).into_owned();
    assert!(!rerun.status.success() && text.contains("cannot be repeated"), "{text}");
}

#[test]
fn large_slow_and_strange_forms_are_refused() {
    let desk = Desk::new();
    let server = desk.serve();
    let ana = desk.sign_in(&server, "ana");
    let long = "x".repeat(100_000);
    let head = format!("POST /start HTTP/1.1\r\nHost: {}\r\n{}", server.address, ana.headers());
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let many = "a=b&".repeat(600);
    let requests = [
        (format!("{head}{form}Content-Length: {}\r\n\r\n{long}", long.len()), 413),
        (format!("{head}{form}Content-Length: {}\r\n\r\n{many}", many.len()), 413),
        (format!("{head}{form}Transfer-Encoding: chunked\r\n\r\n186a0\r\n{long}\r\n0\r\n\r\n"), 413),
        (format!("{head}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"), 415),
        (format!("{head}Content-Length: 3\r\n\r\na=b"), 415),
        (format!("{head}{form}Content-Length: 3\r\nContent-Length: 4\r\n\r\na=b"), 400),
    ];
    for (request, status) in requests {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        // The server may close before it has everything.
        let _ = stream.write_all(request.as_bytes());
        let found = answer(&mut stream).status;
        assert!(found == status || found == 0, "{found} instead of {status}");
    }
    let mut slow = TcpStream::connect(&server.address).unwrap();
    slow.write_all(format!("{head}{form}Content-Length: 9\r\n\r\na=").as_bytes()).unwrap();
    assert_eq!(ana.get("/").status, 200);
    assert_eq!(answer(&mut slow).status, 408);
    let split = ana.post("/start", &[("playbook", "Form\r\nSet-Cookie: a=b"), ("limit", "a")]);
    assert!(split.status == 403 && !split.head.contains("a=b"), "{}", split.head);
    assert!(desk.records("started").is_empty());
}

#[test]
fn wrong_tokens_are_counted_and_lock_nobody_out() {
    let desk = Desk::new();
    let server = desk.serve();
    let statuses: Vec<u16> = (0..30).map(|_| try_sign_in(&server, &"0".repeat(64), "").status).collect();
    assert_eq!((statuses[0], statuses[9], statuses[10], statuses[29]), (401, 401, 429, 429));
    assert_eq!(desk.records("sign_in_refused").len(), 10);
    assert_eq!(desk.sign_in(&server, "ana").get("/").status, 200);
}

#[test]
fn run_that_cannot_be_recorded_is_not_started() {
    let desk = Desk::new();
    let server = desk.serve();
    let ana = desk.sign_in(&server, "ana");
    let trail = desk.site.path("state/serve/audit.jsonl");
    fs::remove_file(&trail).unwrap();
    fs::create_dir(&trail).unwrap();
    let refused = ana.post("/start", &[("playbook", "Form"), ("limit", "a")]);
    assert!(refused.status == 500 && refused.body.contains("audit trail"), "{}", refused.body);
    assert_eq!(try_sign_in(&server, desk.token_of("bob"), "").status, 500);
    fs::remove_dir(&trail).unwrap();
    wait("no run", || desk.site.journals().is_empty());
    assert!(!desk.site.path("out-a").exists());
}

#[test]
fn secret_option_within_a_variable_is_masked_and_password_program_reads_no_form() {
    let desk = Desk::new();
    desk.site.write("script", "#!/bin/sh\ncat > FOLDER/stolen\necho w0rd-of-the-vault\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(desk.site.path("script"), mode).unwrap();
    let text = "- hosts: a\n  gather_facts: false\n  tasks: [{debug: {msg: '{{ login.word }} {{ secret }}'}}]\n";
    desk.site.write("form.yml", text);
    let sources = ["-i", "one=hosts", "-i", "two=hosts", "-i", "three=hosts", "--config", "serve.yml"];
    let server = desk.site.serve(&[&sources[..], &["--vault-password-file", "./script"]].concat());
    let (ada, ana) = (desk.sign_in(&server, "ada"), desk.sign_in(&server, "ana"));
    let login = "{\"user\": \"u\", \"word\": \"nested-w0rd-of-a-form\"}";
    let run = ana.run_of(&ana.start("Form", &[("limit", "a"), ("variable.login", login)]));
    assert_eq!(desk.wait_for("ended", 1)[0]["result"], "ok");
    let found = files_with(&desk.site.path(""), "nested-w0rd-of-a-form");
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(desk.records("started")[0]["variables"]["login"], "********");
    for path in [format!("/runs/{run}"), "/audit".to_owned()] {
        assert!(!ada.get(&path).body.contains("nested-w0rd"), "{path}");
    }
    assert_eq!(fs::read_to_string(desk.site.path("stolen")).unwrap(), "");
}
