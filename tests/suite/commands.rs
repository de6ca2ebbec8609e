//! Runs shell sessions and compares their output with that of ansible-core (`tests/commands/record`).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

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
    // The answers name root as the user and the owner of files.
    if !windlass_testing::has("root") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands");
    let programs = tempfile::tempdir().unwrap();
    for name in NAMES {
        symlink(env!("CARGO_BIN_EXE_windlass"), programs.path().join(name)).unwrap();
    }
    let served = tempfile::tempdir().unwrap();
    let server = file_server(served.path().to_owned());
    let only = std::env::var("COMMANDS").unwrap_or_default();
    let mut differing = 0;
    let scripts = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    for script in scripts.filter(|path| path.extension().is_some_and(|extension| extension == "sh")) {
        if !script.to_string_lossy().contains(&only) {
            continue;
        }
        let output = Command::new(root.join("run"))
            .arg(programs.path())
            .arg(&script)
            .env("SERVER_FILES", served.path())
            .env("SERVER_URL", &server)
            .output()
            .unwrap();
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

/// A web server on loopback. `answer` gives the content of a path and query; its second argument is the server's URL.
fn web_server(answer: impl Fn(&str, &str) -> Option<Vec<u8>> + Send + 'static) -> String {
    server_of_requests(move |request, own| answer(request.split_whitespace().nth(1).unwrap(), own))
}

/// A Galaxy server, and the requests that it gets. Its API has this list of versions of every collection.
fn watched_server(list: &str) -> (String, Arc<Mutex<Vec<String>>>) {
    let (list, requests) = (list.to_owned(), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&requests);
    let address = server_of_requests(move |request, _| {
        kept.lock().unwrap().push(request.to_owned());
        let api = r#"{"available_versions": {"v3": "v3/"}}"#;
        Some(if request.starts_with("GET /api/ ") { api } else { &list }.into())
    });
    (address, requests)
}

/// A web server whose `answer` gets whole requests.
fn server_of_requests(answer: impl Fn(&str, &str) -> Option<Vec<u8>> + Send + 'static) -> String {
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
            let body = answer(&request, &own);
            let status = if body.is_none() { "404 Not Found" } else { "200 OK" };
            let body = body.unwrap_or_default();
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

/// Serves files; a path that ends in a slash is its `index.html`.
fn file_server(root: std::path::PathBuf) -> String {
    web_server(move |path, _| {
        let path = path.split('?').next().unwrap().trim_start_matches('/');
        fs::read(root.join(path)).or_else(|_| fs::read(root.join(path).join("index.html"))).ok()
    })
}

/// A Galaxy server with one role in two versions.
fn galaxy_server(archive: Vec<u8>) -> String {
    let role = r#"{"results": [{"id": 7, "name": "thing", "github_user": "me", "github_repo": "r", "description": "A thing"}]}"#;
    let version = |name: &str, own: &str| format!(r#"{{"name": "{name}", "download_url": "{own}/role.tar.gz"}}"#);
    web_server(move |path, own| match path {
        "/api/" => Some(br#"{"available_versions": {"v1": "v1/", "v3": "v3/"}}"#.to_vec()),
        "/api/v1/roles/?owner__username=me&name=thing" => Some(role.into()),
        "/api/v1/roles/7/versions/?page_size=50" => {
            let next = r#""next_link": "/api/v1/roles/7/versions/?page=2""#;
            Some(format!(r#"{{{next}, "results": [{}]}}"#, version("1.9.0", own)).into())
        }
        "/api/v1/roles/7/versions/?page=2" => Some(format!(r#"{{"results": [{}]}}"#, version("1.10.0", own)).into()),
        "/role.tar.gz" => Some(archive.clone()),
        _ => path.starts_with("/api/v1/roles/?").then(|| br#"{"results": []}"#.to_vec()),
    })
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

/// Runs `windlass galaxy collection` in a folder. Returns its output and errors.
fn collection(folder: &Path, server: &str, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["galaxy", "collection"])
        .args(arguments)
        .current_dir(folder)
        .env("ANSIBLE_COLLECTIONS_PATH", "installed")
        .env("ANSIBLE_GALAXY_SERVER", server)
        .env_remove("http_proxy")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

/// Publishes a collection: writes the answers of a Galaxy server below `served`.
fn publish(folder: &Path, served: &Path, server: &str, name: &str, versions: &[&str]) {
    let page = |path: &str, text: String| {
        fs::create_dir_all(served.join(path)).unwrap();
        fs::write(served.join(path).join("index.html"), text).unwrap();
    };
    page("api", r#"{"available_versions": {"v3": "v3/"}}"#.to_owned());
    let api = format!("api/v3/collections/me/{name}/versions");
    for version in versions {
        let place = folder.join(format!("{name}-{version}"));
        fs::create_dir(&place).unwrap();
        let description =
            format!("namespace: me\nname: {name}\nversion: {version}\nreadme: README.md\nauthors: [Me]\n");
        fs::write(place.join("galaxy.yml"), description).unwrap();
        fs::write(place.join("README.md"), *version).unwrap();
        let built = collection(folder, server, &["build", &place.display().to_string(), "--output-path", "built"]);
        assert!(built.contains("Created collection"), "{built}");
        let file = format!("me-{name}-{version}.tar.gz");
        let archive = fs::read(folder.join("built").join(&file)).unwrap();
        let sha256 = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(&archive));
        fs::write(served.join(&file), archive).unwrap();
        page(
            &format!("{api}/{version}"),
            format!(
                r#"{{"download_url": "/{file}", "artifact": {{"sha256": "{sha256}"}}, "metadata": {{"dependencies": {{}}}}, "signatures": []}}"#
            ),
        );
    }
    let listed: Vec<String> = versions.iter().map(|version| format!(r#"{{"version": "{version}"}}"#)).collect();
    page(&api, format!(r#"{{"data": [{}], "links": {{"next": null}}}}"#, listed.join(", ")));
}

#[test]
fn collection_is_installed_only_with_enough_valid_signatures() {
    let (folder, served) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = file_server(served.path().to_owned());
    publish(folder.path(), served.path(), &server, "signed", &["1.0.0"]);
    publish(folder.path(), served.path(), &server, "plain", &["1.0.0"]);
    let shell = |script: &str| {
        let script = format!(
            "set -e; gpg() {{ command gpg --quiet --batch --homedir \"$PWD\" --passphrase '' \"$@\"; }}\n{script}"
        );
        let output = Command::new("bash").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    shell(
        "gpg --quick-generate-key mine@example.org; gpg --quick-generate-key other@example.org
         gpg --export mine > mine.gpg; gpg --export other > other.gpg
         tar xf built/me-signed-1.0.0.tar.gz MANIFEST.json
         for who in mine other; do gpg --local-user $who --armor --detach-sign -o $who.asc MANIFEST.json; done
         echo x >> MANIFEST.json; gpg --local-user mine --armor --detach-sign -o wrong.asc MANIFEST.json; echo none > none.asc",
    );
    let file = |name: &str| format!("file://{}/{name}.asc", folder.path().display());
    let install = |name: &str, signatures: &[&str], options: &[&str]| {
        let _ = fs::remove_dir_all(folder.path().join("installed"));
        let given: Vec<String> = signatures.iter().flat_map(|name| ["--signature".to_owned(), file(name)]).collect();
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let text = collection(folder.path(), &server, &[&["install", name], &given[..], options].concat());
        let is_there = folder.path().join("installed/ansible_collections").join(name.replace('.', "/")).exists();
        assert_eq!(is_there, text.contains("was installed successfully"), "{text}");
        (is_there, text)
    };
    let mine: &[&str] = &["--keyring", "mine.gpg"];
    for (signatures, options, expected) in [
        (&["mine"][..], &[][..], ""),
        (&["mine", "other"], &[], ""),
        (&["other"], &[], "0 of 1 are valid, and 1 must be (ERRSIG: "),
        (&["wrong"], &[], "BADSIG: the manifest is not the one that was signed"),
        (&["none"], &[], "NODATA: there is no signature in it"),
        (&["mine", "other"], &["--required-valid-signature-count", "all"], "all must be valid (ERRSIG"),
        (&["mine", "other"], &["--required-valid-signature-count", "2"], "1 of 2 are valid, and 2 must be"),
        (
            &["mine", "other"],
            &["--required-valid-signature-count", "all", "--ignore-signature-status-codes", "NO_PUBKEY", "ERRSIG"],
            "",
        ),
        (&["other"], &["--disable-gpg-verify"], ""),
        (&["absent"], &[], "cannot be read"),
    ] {
        let (is_there, text) = install("me.signed", signatures, &[mine, options].concat());
        assert_eq!(is_there, expected.is_empty(), "{signatures:?} {options:?}: {text}");
        assert!(text.contains(expected), "{text}");
    }
    // Unsigned collections are refused on demand, and without a keyring nothing is verified in silence.
    assert!(install("me.plain", &[], mine).1.contains("me.plain has no signature"));
    let strict = [mine, &["--required-valid-signature-count", "+1"]].concat();
    assert!(install("me.plain", &[], &strict).1.contains("none is valid"));
    assert!(install("./plain-1.0.0", &[], &strict).1.contains("it is not a built archive"));
    assert!(install("me.signed", &["mine"], &[]).1.contains("no keyring that could verify them"));

    // Signatures of the server, and of an installed collection.
    let details = served.path().join("api/v3/collections/me/signed/versions/1.0.0/index.html");
    let sign = |name: &str| {
        let mut answer: serde_json::Value = serde_json::from_slice(&fs::read(&details).unwrap()).unwrap();
        let text = fs::read_to_string(folder.path().join(format!("{name}.asc"))).unwrap();
        answer["signatures"] = serde_json::json!([{"signature": text}]);
        fs::write(&details, answer.to_string()).unwrap();
    };
    sign("other");
    assert!(!install("me.signed", &[], mine).0);
    assert!(install("me.signed", &[], &[]).1.contains("are not verified, because no keyring is set"));
    sign("mine");
    assert!(install("me.signed", &[], &strict).0);
    let verify = |options: &[&str]| collection(folder.path(), &server, &[&["verify", "me.signed"], options].concat());
    assert!(verify(&strict).contains("Successfully verified"));
    sign("wrong");
    assert!(verify(&strict).contains("BADSIG"));
}

#[test]
fn prerelease_is_installed_only_when_asked_for() {
    let (folder, served) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (folder, server) = (folder.path(), file_server(served.path().to_owned()));
    publish(folder, served.path(), &server, "it", &["1.0.0-rc.1"]);
    let refused = collection(folder, &server, &["install", "me.it"]);
    assert!(refused.contains("there is no available version for me.it"), "{refused}");
    assert!(refused.contains("take them with --pre, or by naming one exactly"), "{refused}");
    let installed = "me.it:1.0.0-rc.1 was installed successfully";
    assert!(collection(folder, &server, &["install", "me.it", "--pre"]).contains(installed));
    assert!(collection(folder, &server, &["install", "me.it:1.0.0-rc.1", "--force"]).contains(installed));
}

#[test]
fn archive_that_differs_from_what_the_server_announced_is_refused() {
    let (folder, served) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (folder, server) = (folder.path(), file_server(served.path().to_owned()));
    publish(folder, served.path(), &server, "it", &["1.0.0"]);
    publish(folder, served.path(), &server, "other", &["1.0.0"]);
    // The hash is that of another archive, which is complete.
    let pages = served.path().join("api/v3/collections/me");
    fs::copy(pages.join("other/versions/1.0.0/index.html"), pages.join("it/versions/1.0.0/index.html")).unwrap();
    let swapped = collection(folder, &server, &["install", "me.it"]);
    assert!(swapped.contains("has me.other 1.0.0 and not me.it 1.0.0"), "{swapped}");
    fs::write(served.path().join("me-other-1.0.0.tar.gz"), "garbage").unwrap();
    let changed = collection(folder, &server, &["install", "me.other"]);
    assert!(changed.contains("did not match"), "{changed}");
    assert!(!folder.join("installed/ansible_collections/me").exists());
}

#[test]
fn collection_of_first_server_is_not_replaced_by_later_one() {
    let (folder, own, public) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = folder.path();
    let (own_server, public_server) = (file_server(own.path().to_owned()), file_server(public.path().to_owned()));
    publish(folder, own.path(), &own_server, "it", &["1.0.0"]);
    publish(folder, public.path(), &public_server, "it", &["9.0.0"]);
    publish(folder, public.path(), &public_server, "only_there", &["1.0.0"]);
    let servers = format!(
        "[galaxy]\nserver_list = own, public\n[galaxy_server.own]\nurl = {own_server}\n[galaxy_server.public]\nurl = {public_server}\n"
    );
    fs::write(folder.join("ansible.cfg"), servers).unwrap();
    let printed = collection(folder, "", &["install", "me.it", "me.only_there"]);
    assert!(printed.contains("me.it:1.0.0 was installed successfully"), "{printed}");
    assert!(printed.contains("me.only_there:1.0.0 was installed successfully"), "{printed}");
}

#[test]
fn token_is_not_sent_to_servers_it_is_not_for() {
    let folder = tempfile::tempdir().unwrap();
    let (own, sent) = watched_server("{}");
    let servers =
        "[galaxy]\nserver_list = own, public\n[galaxy_server.own]\nurl = OWN\n[galaxy_server.public]\nurl = OWN\n";
    fs::write(folder.path().join("ansible.cfg"), servers.replace("OWN", &own)).unwrap();
    let refused = collection(folder.path(), "", &["install", "me.it", "--token", "S3CRET"]);
    assert!(refused.contains("`--token` is for one server") && refused.contains("`--server`"), "{refused}");
    assert!(sent.lock().unwrap().is_empty());

    // The own server's list continues on another one.
    let (other, sent_to_other) = watched_server(r#"{"data": []}"#);
    let list = format!(r#"{{"data": [], "links": {{"next": "{other}/api/v3/next"}}}}"#);
    let (own, sent) = watched_server(&list);
    fs::write(folder.path().join("ansible.cfg"), servers.replace("OWN", &own)).unwrap();
    collection(folder.path(), "", &["install", "me.it", "--server", "own", "--token", "S3CRET"]);
    assert!(sent.lock().unwrap().iter().all(|request| request.contains("S3CRET")));
    let sent_to_other = sent_to_other.lock().unwrap();
    assert!(!sent_to_other.is_empty() && !sent_to_other.iter().any(|request| request.contains("S3CRET")));
}

#[test]
fn role_is_not_taken_from_a_file_that_its_server_names() {
    let folder = tempfile::tempdir().unwrap();
    let server = web_server(|path, _| match path {
        "/api/" => Some(br#"{"available_versions": {"v1": "v1/"}}"#.to_vec()),
        "/api/v1/roles/?owner__username=me&name=thing" => {
            Some(br#"{"results": [{"id": 7, "name": "thing"}]}"#.to_vec())
        }
        _ => Some(br#"{"results": [{"name": "1.0.0", "download_url": "file:///etc/hostname"}]}"#.to_vec()),
    });
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["galaxy", "role", "install", "me.thing", "-p", "roles", "--server", &server])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("`file:///etc/hostname`, which is not an HTTP URL"), "{said}");
}

#[test]
fn repository_with_an_installed_collection_gives_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let script = "git init --quiet repository && for name in a b; do mkdir repository/$name && echo $name > repository/$name/README.md \
                  && printf '%s\\n' 'namespace: me' \"name: $name\" 'version: 1.0.0' 'readme: README.md' 'authors: [Me]' > repository/$name/galaxy.yml; done \
                  && git -C repository add . && git -C repository -c user.name=a -c user.email=a@b.c commit --quiet -m first";
    assert!(Command::new("sh").args(["-c", script]).current_dir(folder.path()).status().unwrap().success());
    let source = format!("git+file://{}/repository", folder.path().display());
    let first = collection(folder.path(), "", &["install", &format!("{source}#/b")]);
    assert!(first.contains("me.b:1.0.0 was installed successfully"), "{first}");
    let both = collection(folder.path(), "", &["install", &source]);
    assert!(both.contains("me.a:1.0.0 was installed successfully"), "{both}");
}

/// Every command below this one, with its whole name.
fn commands_below(command: &clap::Command, name: &str, found: &mut Vec<(String, clap::Command)>) {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help") {
        let name = format!("{name} {}", verb.get_name());
        commands_below(verb, &name, found);
        found.push((name, verb.clone()));
    }
}

#[test]
fn help_fits_its_width_and_groups_options_by_subject() {
    let mut all = Vec::new();
    commands_below(&windlass::cli::command(), "windlass", &mut all);
    assert!(all.len() > 60, "{}", all.len());
    for (name, command) in &all {
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        // An editor starts the language server.
        assert!(examples.contains("Examples:") || name == "windlass lsp", "{name} has no examples");
        for line in examples.lines() {
            // Longer lines are broken, and their rest begins without an indent.
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
        let options = command.get_arguments().filter(|option| !option.is_hide_set());
        for option in options.filter(|option| option.get_help_heading() == Some("Vault")) {
            assert!(option.get_id().as_str().contains("vault"), "{name}: {} is listed below Vault", option.get_id());
        }
    }
}

#[test]
fn help_of_commands_without_tasks_lists_no_options_of_tasks() {
    let mut all = Vec::new();
    commands_below(&windlass::cli::command(), "windlass", &mut all);
    for (verbs, unused, used) in [
        ("windlass hostkeys ", &["check", "become", "lock", "progress"][..], &["inventory", "limit", "extra_vars"][..]),
        (
            "windlass explain ",
            &["live", "lock", "ask_pass", "progress"],
            &["inventory", "check", "become", "remote_user"],
        ),
    ] {
        let (_, one) = all.iter().find(|(name, _)| name.starts_with(verbs)).unwrap();
        let is_listed = |id: &&str| one.get_arguments().any(|option| option.get_id() == *id && !option.is_hide_set());
        for (name, command) in all.iter().filter(|(name, _)| name.starts_with(verbs)) {
            let text = command.clone().render_long_help().to_string();
            for id in unused {
                assert!(command.get_arguments().any(|option| option.get_id() == *id), "{name} lost {id}");
                assert!(!text.contains(&format!("--{}", id.replace('_', "-"))), "{name} lists {id}");
            }
        }
        assert!(used.iter().all(is_listed), "{verbs}");
    }
}
