//! Runs shell sessions and compares their output with that of ansible-core (`tests/commands/record`).

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking, and says what differs")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use similar::TextDiff;

/// The names under which scripts call the binary.
const NAMES: &[&str] = &[
    "ansible",
    "ansible-config",
    "ansible-console",
    "ansible-galaxy",
    "ansible-inventory",
    "ansible-playbook",
    "ansible-pull",
    "windlass",
];

#[test]
fn commands_print_same_as_ansible() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands");
    let programs = tempfile::tempdir().unwrap();
    for name in NAMES {
        symlink(env!("CARGO_BIN_EXE_windlass"), programs.path().join(name)).unwrap();
    }
    let only = std::env::var("COMMANDS").unwrap_or_default();
    let mut differing = 0;
    let scripts = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    for script in scripts.filter(|path| path.extension().is_some_and(|extension| extension == "sh")) {
        if !script.to_string_lossy().contains(&only) {
            continue;
        }
        let output = Command::new(root.join("run")).arg(programs.path()).arg(&script).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let expected = fs::read_to_string(script.with_extension("txt")).unwrap();
        if printed != expected {
            differing += 1;
            let difference = TextDiff::from_lines(&expected, &printed);
            let difference = difference.unified_diff().header("ansible", "windlass").context_radius(4).to_string();
            eprintln!("==== {}\n{difference}\n{}", script.display(), String::from_utf8_lossy(&output.stderr));
        }
    }
    assert_eq!(differing, 0, "commands print something else");
}

/// A Galaxy server with one role in these versions.
fn galaxy_server(archive: Vec<u8>) -> String {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let own = address.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 1024];
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                let count = stream.read(&mut buffer).unwrap();
                request.extend_from_slice(&buffer[..count]);
            }
            let request = String::from_utf8(request).unwrap();
            let path = request.split_whitespace().nth(1).unwrap();
            let body = match path {
                "/api/" => br#"{"available_versions": {"v1": "v1/", "v3": "v3/"}}"#.to_vec(),
                "/api/v1/roles/?owner__username=me&name=thing" => {
                    br#"{"results": [{"id": 7, "name": "thing", "github_user": "me", "github_repo": "r", "description": "A thing"}]}"#
                        .to_vec()
                }
                "/api/v1/roles/7/versions/?page_size=50" => format!(
                    r#"{{"next_link": "/api/v1/roles/7/versions/?page=2", "results": [{{"name": "1.9.0", "download_url": "{own}/role.tar.gz"}}]}}"#
                )
                .into_bytes(),
                "/api/v1/roles/7/versions/?page=2" => {
                    format!(r#"{{"results": [{{"name": "1.10.0", "download_url": "{own}/role.tar.gz"}}]}}"#).into_bytes()
                }
                "/role.tar.gz" => archive.clone(),
                _ if path.starts_with("/api/v1/roles/?") => br#"{"results": []}"#.to_vec(),
                _ => Vec::new(),
            };
            let status = if body.is_empty() { "404 Not Found" } else { "200 OK" };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&body).unwrap();
        }
    });
    address
}

#[test]
fn roles_installed_from_galaxy_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = tar::Builder::new(Vec::new());
    for (name, text) in [("r-1/meta/main.yml", "dependencies: []\n"), ("r-1/tasks/main.yml", "[]\n")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append_data(&mut header, name, text.as_bytes()).unwrap();
    }
    let address = galaxy_server(archive.into_inner().unwrap());
    let galaxy = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["galaxy", "role"])
            .args(arguments)
            .current_dir(folder.path())
            .env("ANSIBLE_ROLES_PATH", "roles")
            .env("WINDLASS_PENDING_HANDLERS", "skip")
            .env("ANSIBLE_GALAXY_SERVER", &address)
            .env_remove("http_proxy")
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        printed.replace(&folder.path().display().to_string(), "HERE").replace(&address, "SERVER")
    };
    // ansible-galaxy 2.19 prints the same for this server, except for the final sentence of the last message.
    assert_eq!(
        galaxy(&["install", "me.thing"]),
        "Starting galaxy role install process\n- downloading role 'thing', owned by me\n- downloading role from SERVER/role.tar.gz\n\
         - extracting me.thing to HERE/roles/me.thing\n- me.thing (1.10.0) was installed successfully\n"
    );
    assert_eq!(galaxy(&["list", "me.thing"]), "# HERE/roles\n- me.thing, 1.10.0\n");
    assert!(galaxy(&["install", "me.thing,1.9.0", "--force"]).contains("me.thing (1.9.0) was installed successfully"));
    assert!(
        galaxy(&["install", "me.thing,3", "--force"]).contains("the specified version (3) of me.thing was not found")
    );
    assert!(galaxy(&["install", "me.other"]).contains("- sorry, me.other was not found on SERVER"));
    assert!(galaxy(&["info", "me.thing"]).contains("\tdescription: A thing\n"));
}
