//! Pages of runs, hosts, inventories and clusters, with what they must show and must not.

use std::fs;
use std::path::Path;

use super::site::{Answer, Server, Site};
use crate::page::{check_elements, check_policy, chromium, headless};

/// Addresses that pages may lead to: pages of the server itself.
fn is_own(address: &str) -> bool {
    let rest = address.strip_prefix('/').unwrap_or("/");
    address.starts_with('#') || !rest.starts_with(['/', '\\'])
}

/// Checks the policy, the elements and the secrets of a page.
#[track_caller]
pub(crate) fn check(answer: &Answer) {
    let policy = check_policy(&answer.raw);
    assert!(answer.head.contains(&policy), "{policy}\n{}", answer.head);
    assert!(check_elements(&answer.raw, is_own) > 5);
    for secret in ["s3cret-of", "hidden-by-no-log", "w0rd-of-the-vault", "$ANSIBLE_VAULT"] {
        assert!(!answer.body.contains(secret), "{secret}: {}", answer.body);
    }
    assert!(!answer.body.contains('\u{202e}') && !answer.body.contains('\u{1b}'));
    assert!(answer.body.contains("<html lang=\"en\">") && answer.body.contains("name=\"viewport\""));
}

/// All pages of a project with one run.
fn all(server: &Server, run: &str) -> Vec<(String, Answer)> {
    let hostile = "%3C/script%3E%3Cscript%3Edocument.title=%27pwned%27%3C/script%3E%E2%80%AE";
    let paths = [
        "/".to_owned(),
        format!("/?q={hostile}&host={hostile}&playbook={hostile}&result={hostile}&page=99999999999999999999"),
        "/?page=2".to_owned(),
        format!("/runs/{run}"),
        format!("/runs/{run}/live"),
        "/inventory".to_owned(),
        format!("/inventory?q={hostile}&cluster={hostile}"),
        "/inventory?q=a".to_owned(),
        "/host?name=a".to_owned(),
        "/host?name=b".to_owned(),
        format!("/host?name={hostile}"),
        "/verify".to_owned(),
        format!("/{hostile}"),
    ];
    paths.into_iter().map(|path| (path.clone(), server.get(&path))).collect()
}

#[test]
fn hostile_texts_and_secrets_stay_out_of_all_pages() {
    let site = Site::new();
    let run = site.play();
    let server = site.serve(&["-i", "hosts"]);
    for (path, answer) in all(&server, &run) {
        eprintln!("{path}");
        assert!(matches!(answer.status, 200 | 404), "{path}: {}", answer.head);
        check(&answer);
    }
    // The hostile host has a page, under its name.
    let report = server.get(&format!("/runs/{run}")).body;
    let link = report.split("href=\"/host?name=%3C").nth(1).unwrap().split('"').next().unwrap();
    let host = server.get(&format!("/host?name=%3C{link}"));
    assert_eq!(host.status, 200, "{}", host.body);
    assert!(host.body.contains("<bdi>&lt;/script&gt;&lt;script&gt;"), "{}", host.body);
    for (_, event) in server.events(&run) {
        let text = event.to_string();
        assert!(!text.contains("s3cret-of") && !text.contains('\u{202e}') && !text.contains('\u{1b}'), "{text}");
    }
}

#[test]
fn runs_are_found_by_playbook_host_result_and_words() {
    let site = Site::new();
    let failed = site.play();
    site.write("good.yml", "- hosts: a\n  gather_facts: false\n  tasks: [{command: echo}]\n");
    assert!(site.run(&["playbook", "-i", "hosts", "--vault-password-file", "pass", "-C", "good.yml"]).status.success());
    let good = site.last();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("far.yml"), "- hosts: all\n  gather_facts: false\n  tasks: [{command: echo}]\n")
        .unwrap();
    let mut far = site.command(&["playbook", "-i", "c,", "-c", "local", "far.yml"]);
    assert!(far.current_dir(elsewhere.path()).status().unwrap().success());
    let server = site.serve(&["-i", "hosts"]);
    let shown = |server: &Server, query: &str| {
        let page = server.get(&format!("/{query}")).body;
        (page.contains(&failed), page.contains(&good), page.contains(&site.last()))
    };
    for (query, expected) in [
        ("", (true, true, false)),
        ("?result=failed", (true, false, false)),
        ("?result=ok", (false, true, false)),
        ("?playbook=good.yml", (false, true, false)),
        ("?host=b", (true, false, false)),
        ("?host=A", (true, true, false)),
        ("?q=GOOD.yml", (false, true, false)),
        ("?q=good.yml+site.yml", (false, false, false)),
        ("?result=running", (false, false, false)),
    ] {
        assert_eq!(shown(&server, query), expected, "{query}");
    }
    assert!(server.get("/").body.find(&good) < server.get("/").body.find(&failed));
    assert_eq!(server.get(&format!("/runs/{}", site.last())).status, 404);
    let all = site.serve(&["-i", "hosts", "--all"]);
    assert_eq!(shown(&all, ""), (true, true, true));
}

#[test]
fn long_list_of_runs_has_pages() {
    let site = Site::new();
    let run = site.play();
    let journal = site.journals().pop().unwrap();
    let name = journal.file_name().unwrap().to_string_lossy().into_owned();
    for number in 0..120 {
        let copy = name.replace(&run, &format!("20250101-000000-{number:06}"));
        fs::copy(&journal, journal.with_file_name(copy)).unwrap();
    }
    let server = site.serve(&[]);
    let first = server.get("/?host=a").body;
    assert_eq!(first.matches("<th scope=\"row\">").count(), 50);
    assert!(first.contains("121 of 121 runs, page 1 of 3"), "{first}");
    assert!(first.contains("href=\"/?host=a&amp;page=2\"") && !first.contains("rel=\"prev\""), "{first}");
    let last = server.get("/?host=a&page=3").body;
    assert_eq!(last.matches("<th scope=\"row\">").count(), 21);
    assert!(last.contains("rel=\"prev\"") && !last.contains("rel=\"next\""), "{last}");
}

#[test]
fn inventory_and_host_show_groups_variables_and_runs() {
    let site = Site::new();
    let run = site.play();
    let server = site.serve(&["-i", "hosts"]);
    let tree = server.get("/inventory").body;
    for part in ["<bdi>outer</bdi>", "<bdi>web</bdi>", "href=\"/host?name=a\"", "2 hosts"] {
        assert!(tree.contains(part), "{part}: {tree}");
    }
    let found = server.get("/inventory?q=B").body;
    assert!(found.contains("href=\"/host?name=b\"") && !found.contains("href=\"/host?name=a\""), "{found}");

    let host = server.get("/host?name=b").body;
    assert!(host.contains(&format!("href=\"/runs/{run}\"")) && host.contains("<span class=\"badge failed\">failed"));
    let host = server.get("/host?name=a").body;
    for part in ["<bdi>all</bdi>", "<bdi>outer</bdi>", "<bdi>web</bdi>", "<code>plain</code>", "<pre>x</pre>"] {
        assert!(host.contains(part), "{part}: {host}");
    }
    assert!(host.contains("host_vars") && host.contains("group_vars of all"), "{host}");
    // The password and the encrypted value.
    assert_eq!(host.matches("<pre>********</pre>").count(), 2, "{host}");
    assert!(host.contains("encrypted in its file") && host.contains("a password"), "{host}");
    assert!(server.get("/").status == 200 && server.get("/host?name=none").status == 404);
}

#[test]
fn inventory_that_cannot_be_read_is_a_sentence() {
    let site = Site::new();
    site.write("broken/hosts.yml", "all:\n  hosts: [\n");
    site.write("broken/group_vars/all.yml", "a: 1\n");
    let server = site.serve(&["-i", "broken/hosts.yml", "-i", "good=hosts"]);
    let page = server.get("/inventory");
    check(&page);
    assert!(page.body.contains("hosts.yml"), "{}", page.body);
    assert!(server.get("/inventory?cluster=good").body.contains("href=\"/host?name=a\""));
    assert_eq!(server.get("/host?name=a").status, 200);
    // Without the password of the vault, the variables are missing, and the rest is served.
    site.write("empty", "wrong\n");
    let without = site.serve(&["-i", "hosts", "--vault-password-file", "empty"]);
    let host = without.get("/host?name=a");
    assert_eq!(host.status, 200, "{}", host.body);
    assert!(host.body.contains("cannot be read") && !host.body.contains("s3cret-of-the-vault"), "{}", host.body);
}

/// Runs playbooks/verify.yml on this machine, which has no cluster.
fn verify(site: &Site, folder: &str) {
    let groups = "[kube_control_plane]\ncp1 ansible_connection=local\n[etcd]\ncp1\n[kube_node]\ncp1\n\
                  [k8s_cluster:children]\nkube_control_plane\nkube_node\n[all:vars]\nip=127.0.0.1\n\
                  kube_version=1.36.4\nbin_dir=FOLDER\nkube_config_dir=FOLDER\nkubelet_healthz_port=1\n\
                  kube_apiserver_port=1\nkube_service_addresses=127.0.0.0/24\n";
    site.write(&format!("{folder}/hosts"), groups);
    let playbook = Path::new(env!("CARGO_MANIFEST_DIR")).join("playbooks/verify.yml");
    let output = site.run(&["playbook", "-i", &format!("{folder}/hosts"), "--check", &playbook.display().to_string()]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn reports_of_clusters_are_side_by_side() {
    let site = Site::new();
    verify(&site, "eu");
    site.write("us/hosts", "cp1\n");
    site.write("asia/hosts", "cp1\n");
    site.write("broken/hosts", "cp1\n");
    site.write("broken/verify.json", "[1, 2");
    let bent = r#"{"healthy": true, "hosts": ["cp1"], "not_reached": [], "checks": [
        {"id": "host.reach", "title": "<b>bent</b>", "remedy": "x", "status": "pass", "results": []},
        {"id": "only.here", "title": "Only", "remedy": "Mend it", "status": "</td>", "results": [
          {"host": "\"><script>", "status": "fail", "text": "</script>\u202e"}]}]}"#;
    site.write("us/verify.json", bent);
    let server = site.serve(&["-i", "eu/hosts", "-i", "us/hosts", "-i", "asia=asia/hosts", "-i", "broken/hosts"]);
    let page = server.get("/verify");
    check(&page);
    let page = page.body;
    for part in [
        "<bdi>eu</bdi>",
        "<bdi>us</bdi>",
        "<bdi>asia</bdi>",
        "not healthy",
        "has not written verify.json",
        "it is not a report of verify.yml",
        "host.reach",
        "node.kubelet",
        "only.here",
        "Mend it",
        "not made",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let row = page.split("<code class=\"soft\">host.reach</code>").nth(1).unwrap().split("</tr>").next().unwrap();
    assert_eq!(row.matches("<td>").count(), 4, "{row}");
    assert_eq!(row.matches("<span class=\"badge pass\">pass</span>").count(), 2, "{row}");
    assert!(page.contains("<span class=\"badge unknown\">unknown</span>"), "{page}");
}

#[test]
fn server_without_inventory_and_runs_has_pages() {
    let site = Site::new();
    let server = site.serve(&[]);
    for path in ["/", "/inventory", "/verify"] {
        let page = server.get(path);
        assert_eq!(page.status, 200, "{path}");
        check(&page);
    }
    assert!(server.get("/").body.contains("No run matches."));
}

#[test]
fn browser_runs_own_script_and_none_of_hosts() {
    let site = Site::new();
    let run = site.play();
    let server = site.serve(&["-i", "hosts"]);
    let Some(chromium) = chromium() else { return };
    let open = |address: &str, more: &[&str]| {
        let mut words = more.to_vec();
        words.extend(["--dump-dom", address]);
        headless(&chromium, &site.path("browser"), &words)
    };
    // Each call is a browser of its own, without the cookie of the last one.
    let address = |path: &str| {
        let mark = if path.contains('?') { '&' } else { '?' };
        format!("http://{}/{path}{mark}token={}", server.address, server.token)
    };
    let report = open(&address(&format!("runs/{run}")), &[]);
    assert!(report.contains(" shown") && report.contains("<title>site.yml: failed</title>"), "{report}");
    let hostile = "host?name=%3C/script%3E%3Cscript%3Edocument.title=%27pwned%27%3C/script%3E%5Cu%7B202e%7D";
    for (path, title) in
        [("", "Runs"), ("inventory", "Inventory"), ("host?name=a", "a"), (hostile, "Not Found"), ("verify", "Verify")]
    {
        let page = open(&address(path), &[]);
        assert!(page.contains(&format!("<title>{title} - Windlass</title>")), "{page}");
    }
    assert!(open(&format!("http://{}/", server.address), &[]).contains("this server needs its token"));

    // The run ends once the script of its page has opened the events.
    let mut waiting = site.wait();
    let live = format!("runs/{}/live?token={}", super::live::begun(&site, 2), server.token);
    let go = site.path("go");
    let tunnel = server.tunnel(move |head| {
        if head.contains("/events ") {
            fs::write(&go, "").unwrap();
        }
    });
    let page = open(&format!("http://{tunnel}/{live}"), &["--virtual-time-budget=1000"]);
    assert!(page.contains("The run has ended: failed.") && page.contains("<bdi>Second</bdi>"), "{page}");
    waiting.0.wait().unwrap();
}
