//! A project whose users start playbooks, and their browsers.

use std::fs;
use std::time::{Duration, Instant};

use super::site::{Answer, Server, Site};

const USERS: [(&str, &str); 4] = [("ada", "admin"), ("ana", "operator"), ("bob", "operator"), ("vic", "viewer")];

/// A playbook that writes and prints the values of its form.
const FORM: &str = r#"
- name: Of a form
  hosts: all
  gather_facts: false
  tasks:
    - name: Print
      debug:
        msg: "size {{ size | default('none') }} {{ (size | default('')) is integer }}, on {{ on | default('none') }}"
    - name: Print the secret
      debug: {msg: "the secret is {{ password | default('none') }}"}
    - name: Write
      copy:
        dest: "FOLDER/out-{{ inventory_hostname }}"
        content: "{{ note | default('none') }}|{{ items | default([]) | join('+') }}|{{ password | default('none') }}"
      tags: write
"#;

const PLAYBOOKS: &str = r#"
runs: 2
playbooks:
  - name: Form
    playbook: form.yml
    inventory: one
    limit: [a, all]
    variables:
      size: {type: int, choices: [1, 20], default: 20, description: Number of things}
      "on": {type: bool}
      note: {description: "Text of <b>any</b> kind"}
      items: {type: list, elements: int}
      map: {type: dict}
      login: {type: dict, options: {user: {}, word: {no_log: true}}}
      password: {no_log: true}
  - name: Wait
    playbook: waiting.yml
    inventory: one
    allow: [operator]
    check: never
  - name: Wait elsewhere
    playbook: waiting.yml
    inventory: two
  - name: Wait for <ada> & "co"
    playbook: waiting.yml
    inventory: three
    allow: [admin]
  - name: Of bob
    playbook: form.yml
    inventory: two
    allow: [bob]
    tags: [never-there, write]
    check: always
  - name: Broken
    playbook: broken.yml
    inventory: one
  - name: Of a role
    playbook: role.yml
    inventory: one
    variables_from: shop
"#;

const SPECS: &str = r#"
argument_specs:
  main:
    options:
      replicas: {type: int, required: true, description: [Number of, replicas]}
      flavor: {choices: [small, large], default: "{{ 'sm' ~ 'all' }}"}
"#;

/// A project with a configuration file and the tokens of its users.
pub(crate) struct Desk {
    pub(crate) site: Site,
    tokens: Vec<String>,
}

/// A user who has signed in.
pub(crate) struct Browser<'a> {
    pub(crate) server: &'a Server,
    pub(crate) cookie: String,
}

impl Desk {
    pub(crate) fn new() -> Desk {
        let site = Site::new();
        site.write("form.yml", FORM);
        site.write("broken.yml", "- hosts: all\n  taks: []\n");
        site.write("role.yml", "- hosts: a\n  gather_facts: false\n  roles: [shop]\n");
        site.write("roles/shop/meta/argument_specs.yml", SPECS);
        site.write("roles/shop/defaults/main.yml", "flavor: small\n");
        site.write("roles/shop/tasks/main.yml", "- debug: {msg: '{{ replicas }} of {{ flavor }}'}\n");
        let mut desk = Desk { site, tokens: Vec::new() };
        let mut lines = "users:\n".to_owned();
        for (name, role) in USERS {
            let (token, line) = desk.token(name, role);
            desk.tokens.push(token);
            lines.push_str(&line);
        }
        desk.site.write("serve.yml", &format!("{lines}{PLAYBOOKS}"));
        desk
    }

    /// Token and line of a user, as the program makes them.
    pub(crate) fn token(&self, name: &str, role: &str) -> (String, String) {
        let output = self.site.run(&["serve", "token", name, "--role", role]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
        let token = text.lines().map(str::trim).find(|line| line.len() == 64).unwrap();
        (token.to_owned(), format!("{}\n", line("  - {name:")))
    }

    pub(crate) fn token_of(&self, name: &str) -> &str {
        &self.tokens[USERS.iter().position(|(known, _)| *known == name).unwrap()]
    }

    pub(crate) fn serve(&self) -> Server {
        self.site.serve(&["-i", "one=hosts", "-i", "two=hosts", "-i", "three=hosts", "--config", "serve.yml"])
    }

    pub(crate) fn sign_in<'a>(&self, server: &'a Server, name: &str) -> Browser<'a> {
        let answer = try_sign_in(server, self.token_of(name), "");
        assert_eq!(answer.status, 303, "{}", answer.body);
        Browser { server, cookie: cookie_of(&answer) }
    }

    /// The text of the audit trail.
    pub(crate) fn trail(&self) -> String {
        fs::read_to_string(self.site.path("state/serve/audit.jsonl")).unwrap_or_default()
    }

    /// Records of the audit trail for an operation.
    pub(crate) fn records(&self, event: &str) -> Vec<serde_json::Value> {
        let records = self.trail();
        let records = records.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        records.filter(|record| record["event"] == event).collect()
    }

    /// Waits until the trail has this many records of an operation.
    #[track_caller]
    pub(crate) fn wait_for(&self, event: &str, count: usize) -> Vec<serde_json::Value> {
        let mut found = Vec::new();
        wait(&format!("{event}: {}", self.trail()), || {
            found = self.records(event);
            found.len() >= count
        });
        found
    }
}

impl Drop for Desk {
    /// Lets runs end that wait. They outlive their server.
    fn drop(&mut self) {
        let _ = fs::write(self.site.path("go"), "");
        let since = Instant::now();
        let is_running = || {
            let journals = self.site.journals().into_iter();
            journals.filter_map(|path| fs::File::open(path).ok()).any(|file| file.try_lock().is_err())
        };
        while is_running() && since.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Waits until something holds, for as long as a slow machine may need.
#[track_caller]
pub(crate) fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The cookie that an answer sets.
pub(crate) fn cookie_of(answer: &Answer) -> String {
    let rest = answer.head.split("Set-Cookie: ").nth(1).unwrap();
    rest.split(';').next().unwrap().to_owned()
}

/// Sends the form of the sign-in, with more headers.
pub(crate) fn try_sign_in(server: &Server, token: &str, more: &str) -> Answer {
    let origin = format!("Origin: http://{}\r\n{more}", server.address);
    post(server, "/sign-in", &origin, &[("token", token)])
}

/// Sends a form.
pub(crate) fn post(server: &Server, path: &str, headers: &str, fields: &[(&str, &str)]) -> Answer {
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    let body = pairs.join("&");
    server.send(&format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\n{headers}Content-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{body}",
        server.address,
        body.len()
    ))
}

impl Browser<'_> {
    pub(crate) fn get(&self, path: &str) -> Answer {
        let head = format!("Host: {}\r\nCookie: {}\r\n", self.server.address, self.cookie);
        self.server.send(&format!("GET {path} HTTP/1.1\r\n{head}\r\n"))
    }

    /// The word that forms of this session have.
    pub(crate) fn form_token(&self) -> String {
        let page = self.get("/sign-out").body;
        let rest = page.split("name=\"form_token\" value=\"").nth(1).unwrap();
        rest.split('"').next().unwrap().to_owned()
    }

    /// Headers that a browser sends with a form of this server.
    pub(crate) fn headers(&self) -> String {
        let server = &self.server.address;
        format!("Cookie: {}\r\nOrigin: http://{server}\r\nSec-Fetch-Site: same-origin\r\n", self.cookie)
    }

    /// Sends a form as a page of this server does.
    pub(crate) fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let token = self.form_token();
        let mut all = vec![("form_token", token.as_str())];
        all.extend(fields);
        post(self.server, path, &self.headers(), &all)
    }

    /// Starts a playbook and returns the address that the answer leads to.
    #[track_caller]
    pub(crate) fn start(&self, name: &str, fields: &[(&str, &str)]) -> String {
        let mut all = vec![("playbook", name)];
        all.extend(fields);
        let answer = self.post("/start", &all);
        assert_eq!(answer.status, 303, "{}", answer.body);
        location(&answer)
    }

    /// Follows a start until its run has a journal, and returns the run's id.
    #[track_caller]
    pub(crate) fn run_of(&self, started: &str) -> String {
        let mut run = String::new();
        wait(started, || {
            let answer = self.get(started);
            if answer.status == 303 {
                run = location(&answer).split('/').nth(2).unwrap().to_owned();
            }
            assert!(answer.status == 303 || answer.body.contains("running"), "{}", answer.body);
            !run.is_empty()
        });
        run
    }
}

/// The address that an answer leads to.
pub(crate) fn location(answer: &Answer) -> String {
    answer.head.split("Location: ").nth(1).unwrap().split("\r\n").next().unwrap().to_owned()
}
