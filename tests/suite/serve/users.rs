//! Users: sign-in, roles, sessions, the configuration file and the page of the trail.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::desk::{Desk, cookie_of, try_sign_in, wait};
use super::pages::check;

#[test]
fn users_sign_in_with_their_tokens_and_out_again() {
    let desk = Desk::new();
    let server = desk.serve();
    assert!(server.token.is_empty());
    for path in ["/", "/start", "/audit", "/nothing", &format!("/?token={}", desk.token_of("ana"))] {
        let page = server.get(path);
        assert_eq!(page.status, 401, "{path}");
        assert!(page.body.contains("action=\"/sign-in\"") && !page.head.contains("Set-Cookie"), "{}", page.body);
        check(&page);
    }
    for wrong in ["", "x", &desk.token_of("ana")[1..]] {
        let answer = try_sign_in(&server, wrong, "");
        assert_eq!(answer.status, 401, "{wrong}");
        assert!(answer.body.contains("No user has this token"), "{}", answer.body);
    }
    let answer = try_sign_in(&server, desk.token_of("ana"), "");
    assert!(answer.head.contains("; HttpOnly; SameSite=Strict; Path=/\r\n"), "{}", answer.head);
    assert!(answer.head.contains("Location: /\r\n") && !answer.head.contains(desk.token_of("ana")), "{}", answer.head);
    let ana = desk.sign_in(&server, "ana");
    let page = ana.get("/");
    assert_eq!(page.status, 200);
    assert!(page.head.contains("Referrer-Policy: same-origin"), "{}", page.head);
    let gone = ana.post("/sign-out", &[]);
    assert!(gone.status == 303 && gone.head.contains("Max-Age=0"), "{}", gone.head);
    assert_eq!(ana.get("/").status, 401);
    let records = desk.records("signed_in");
    assert_eq!((records.len(), &records[0]["user"], &records[0]["role"]), (2, &"ana".into(), &"operator".into()));
    assert!(records[0]["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{records:?}");
    assert_eq!((desk.records("signed_out").len(), desk.records("sign_in_refused").len()), (1, 3));
    let trail = desk.trail();
    assert!(["ada", "ana", "bob", "vic"].iter().all(|name| !trail.contains(desk.token_of(name))), "{trail}");
}

#[test]
fn roles_decide_about_pages_and_playbooks() {
    let desk = Desk::new();
    let server = desk.serve();
    let shown = |name: &str| {
        let browser = desk.sign_in(&server, name);
        let page = browser.get("/start");
        check(&page);
        let navigation = browser.get("/").body;
        let links = ["/start", "/audit"].map(|href| navigation.contains(&format!("<a href=\"{href}\"")));
        let playbooks = ["Form", "Wait%20for%20%3Cada%3E%20%26%20%22co%22", "Of%20bob"];
        (links, playbooks.map(|one| page.body.contains(&format!("href=\"/start?playbook={one}\""))))
    };
    assert_eq!(shown("ada"), ([true, true], [true, true, true]));
    assert_eq!(shown("ana"), ([true, false], [true, false, false]));
    assert_eq!(shown("bob"), ([true, false], [true, false, true]));
    assert_eq!(shown("vic"), ([false, false], [false, false, false]));
    for name in ["ana", "vic"] {
        let browser = desk.sign_in(&server, name);
        assert_eq!(browser.get("/audit").status, 403);
        assert_eq!(browser.get("/start?playbook=Of%20bob").status, 403);
        assert_eq!(browser.get("/inventory").status, 200);
    }
    let records = desk.records("refused");
    assert!(records.iter().any(|one| one["user"] == "vic" && one["reason"].as_str().unwrap().starts_with("/audit: ")));
}

#[test]
fn session_is_always_new_and_a_brought_one_is_none() {
    let desk = Desk::new();
    let server = desk.serve();
    let port = server.address.rsplit_once(':').unwrap().1;
    let brought = format!("windlass-{port}={}", "ab".repeat(32));
    let answer = try_sign_in(&server, desk.token_of("ana"), &format!("Cookie: {brought}\r\n"));
    let first = cookie_of(&answer);
    assert_ne!(first, brought);
    let status = |cookie: &str| {
        server.send(&format!("GET / HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n", server.address)).status
    };
    assert_eq!((status(&brought), status(&first)), (401, 200));
    // A sign-in ends the session that the browser had.
    let second = cookie_of(&try_sign_in(&server, desk.token_of("bob"), &format!("Cookie: {first}\r\n")));
    assert_eq!((status(&first), status(&second)), (401, 200));
    // Of many sessions of a user the oldest ends.
    let cookies: Vec<String> = (0..17).map(|_| cookie_of(&try_sign_in(&server, desk.token_of("ada"), ""))).collect();
    assert_eq!((status(&cookies[0]), status(&cookies[1]), status(&second)), (401, 200, 200));
}

#[test]
fn user_who_is_removed_or_changed_loses_rights_at_once() {
    let desk = Desk::new();
    let server = desk.serve();
    let (ana, bob) = (desk.sign_in(&server, "ana"), desk.sign_in(&server, "bob"));
    let text = fs::read_to_string(desk.site.path("serve.yml")).unwrap();
    let without: String =
        text.lines().filter(|line| !line.contains("name: ana")).map(|line| format!("{line}\n")).collect();
    desk.site.write(
        "serve.yml",
        &without.replace("name: bob, role: operator", "name: bob, role: viewer").replace("[bob]", "[admin]"),
    );
    assert_eq!((ana.get("/").status, bob.get("/").status), (401, 200));
    assert_eq!(bob.post("/start", &[("playbook", "Form"), ("limit", "a")]).status, 403);
    assert_eq!(try_sign_in(&server, desk.token_of("ana"), "").status, 401);
    // Another token of the same name.
    let (_, line) = desk.token("bob", "viewer");
    let other =
        without.lines().map(|known| if known.contains("name: bob") { line.clone() } else { format!("{known}\n") });
    desk.site.write("serve.yml", &other.collect::<String>().replace("[bob]", "[admin]"));
    assert_eq!(bob.get("/").status, 401);
    // A file that is not valid lets nobody in.
    let ada = desk.sign_in(&server, "ada");
    desk.site.write("serve.yml", "users: [\n");
    let refused = ada.get("/");
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert_eq!(try_sign_in(&server, desk.token_of("ada"), "").status, 503);
    desk.site.write("serve.yml", &without.replace("[bob]", "[admin]"));
    assert_eq!(ada.get("/").status, 200);
}

#[test]
fn configuration_with_mistakes_is_refused_with_its_place() {
    let desk = Desk::new();
    let refused = |text: &str| {
        desk.site.write("serve.yml", text);
        let output = desk.site.run(&["serve", "--listen", "127.0.0.1:0", "-i", "one=hosts", "--config", "serve.yml"]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (_, line) = desk.token("ana", "operator");
    let (code, text) = refused(&format!("users:\n{line}playboks: []\n"));
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("serve.yml:3:1") && text.contains("did you mean") && text.contains("playbooks"), "{text}");
    let (_, text) = refused("users: []\n");
    assert!(text.contains("nobody could read"), "{text}");

    desk.site.write("serve.yml", &format!("users:\n{line}"));
    fs::set_permissions(desk.site.path("serve.yml"), fs::Permissions::from_mode(0o666)).unwrap();
    let output = desk.site.run(&["serve", "--listen", "127.0.0.1:0", "--config", "serve.yml"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("chmod go-w"), "{text}");
}

#[test]
fn admin_reads_the_trail_with_hostile_texts_as_texts() {
    let desk = Desk::new();
    let server = desk.serve();
    let (ada, ana) = (desk.sign_in(&server, "ada"), desk.sign_in(&server, "ana"));
    let hostile = "</td><script>document.title='pwned'</script>\u{202e}\n{\"version\":1,\"event\":\"signed_in\"}";
    assert_eq!(ana.post("/start", &[("playbook", hostile)]).status, 403);
    let started =
        ana.start("Form", &[("limit", "a"), ("variable.note", hostile), ("variable.password", "hunter2hunter2")]);
    ana.run_of(&started);
    desk.wait_for("ended", 1);
    assert_eq!(desk.records("signed_in").len(), 2);
    let page = ada.get("/audit");
    check(&page);
    for part in ["signed_in", "refused", "started", "recorded", "ended", "variable password", "&lt;script&gt;"] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    assert!(!page.body.contains("hunter2") && !page.body.contains("<script"), "{}", page.body);
    wait("permissions", || {
        let mode = |name: &str| fs::metadata(desk.site.path(name)).unwrap().permissions().mode() & 0o777;
        mode("state/serve") == 0o700 && mode("state/serve/audit.jsonl") == 0o600
    });
}
