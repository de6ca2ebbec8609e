//! `get_url` against a real server.
#![allow(clippy::unwrap_used)]

mod cases;
mod server;

use std::{fs, io::Write, path::Path};

use cases::{apply, changed, converges, fails, predict};
use serde_json::{Value, json};
use server::{Answer, Asked, Server};
use tempfile::tempdir;
use windlass_modules::{Host, registry, run};

const CONTENT: &str = "the content\n";
const SHA256: &str = "3ef9550502e554fbe76d38efa3b857394d56618fa8fcc8b4a2686c2df2cb5019";
const MODIFIED: &str = "Wed, 21 Oct 2015 07:28:00 GMT";

fn start() -> Server {
    Server::start(|asked: &Asked| match asked.path.as_str() {
        "/a.txt" if asked.header("if-modified-since") > "A" => Answer::of(304, ""),
        "/a.txt" | "/fresh.txt" => Answer::of(200, CONTENT).with("Last-Modified", MODIFIED),
        "/sums" => Answer::of(200, format!("{}  b.txt\n{SHA256} *a.txt\n", "0".repeat(64))),
        "/moved" => Answer::of(302, "").with("Location", "a.txt"),
        "/loop" => Answer::of(302, "").with("Location", "/loop"),
        "/named" => Answer::of(200, CONTENT).with("Content-Disposition", "attachment; filename=\"../real name\""),
        "/secret" if asked.header("authorization") == "Basic bWU6cGFzcw==" => Answer::of(200, CONTENT),
        "/secret" => Answer::of(401, "").with("WWW-Authenticate", "Basic realm=\"x\""),
        "/packed" => {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            packer.write_all(CONTENT.as_bytes()).unwrap();
            Answer::of(200, packer.finish().unwrap()).with("Content-Encoding", "gzip")
        }
        "/zeros" => {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            packer.write_all(&vec![0; 2 << 20]).unwrap();
            Answer::of(200, packer.finish().unwrap()).with("Content-Encoding", "gzip")
        }
        "/broken" => Answer { broken: true, ..Answer::of(200, "half of ") },
        "/echo" => Answer::of(200, asked.header("x-flavour").to_owned()),
        _ => Answer::of(404, "not here"),
    })
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn file_with_checksum_downloaded_once() {
    let (server, directory) = (start(), tempdir().unwrap());
    let dest = directory.path().join("b.txt");
    let args = json!({ "url": server.url("/fresh.txt"), "dest": &dest, "checksum": format!("sha256:{SHA256}"), "mode": "0640" });
    let result = converges("get_url", args.clone(), directory.path());
    assert_eq!(read(&dest), CONTENT);
    assert_eq!(result["status_code"], 200);
    assert_eq!(result["msg"], "OK (12 bytes)");
    assert_eq!((&result["mode"], &result["size"], &result["state"]), (&json!("0640"), &json!(12), &json!("file")));
    assert_eq!(result["checksum_dest"], Value::Null);
    assert_eq!(result["checksum_src"], sha1());
    server.asked();
    let again = apply("get_url", args);
    assert_eq!(again["msg"], "file already exists");
    assert!(server.asked().is_empty(), "a file that fits must not be fetched again");
}

fn sha1() -> String {
    use windlass_modules::files::checksum::{Hasher, of_bytes};
    of_bytes(Hasher::sha1(), CONTENT.as_bytes())
}

#[test]
fn matching_file_gets_only_permissions() {
    let (server, directory) = (start(), tempdir().unwrap());
    let dest = directory.path().join("a.txt");
    fs::write(&dest, CONTENT).unwrap();
    let args = json!({ "url": server.url("/fresh.txt"), "dest": directory.path().join("a.txt"), "checksum": format!("sha256:{SHA256}"), "mode": "u=rw,go=" });
    let result = converges("get_url", args, directory.path());
    assert_eq!(result["msg"], "file already exists but file attributes changed");
    assert!(server.asked().is_empty());
}

#[test]
fn checksum_read_from_server_file() {
    let (server, directory) = (start(), tempdir().unwrap());
    let args = json!({ "url": server.url("/a.txt"), "dest": directory.path(), "checksum": format!("sha256:{}", server.url("/sums")) });
    converges("get_url", args, directory.path());
    assert_eq!(read(&directory.path().join("a.txt")), CONTENT);
    let args = json!({ "url": server.url("/fresh.txt"), "dest": directory.path(), "checksum": format!("sha256:{}", server.url("/sums")) });
    assert!(fails("get_url", args, directory.path()).contains("Unable to find a checksum for file 'fresh.txt'"));
}

#[test]
fn wrong_checksum_changes_nothing() {
    let (server, directory) = (start(), tempdir().unwrap());
    let dest = directory.path().join("a.txt");
    fs::write(&dest, "old").unwrap();
    let args =
        json!({ "url": server.url("/fresh.txt"), "dest": &dest, "checksum": format!("sha256:{}", "0".repeat(64)) });
    let message = fails("get_url", args, directory.path());
    assert!(message.contains("did not match") && message.contains(SHA256), "{message}");
    for (path, word) in
        [("/broken", "closed the connection before"), ("/none", "404"), ("/loop", "redirects without an end")]
    {
        let message =
            fails("get_url", json!({ "url": server.url(path), "dest": &dest, "force": true }), directory.path());
        assert!(message.contains(word), "{path}: {message}");
    }
    assert_eq!(read(&dest), "old");
}

#[test]
fn download_above_limit_stops_and_leaves_nothing() {
    let (server, directory) = (start(), tempdir().unwrap());
    let dest = directory.path().join("a.txt");
    let fetch = |path: &str, limit: u64| json!({ "url": server.url(path), "dest": &dest, "_limit": limit });
    // 12 bytes, announced.
    let message = fails("get_url", fetch("/a.txt", 11), directory.path());
    assert!(message.contains("the server announces 12 bytes, and the limit is 11"), "{message}");
    // More than they were when packed.
    let message = fails("get_url", fetch("/zeros", 1 << 20), directory.path());
    assert!(message.contains("the server sends more than 1048576 bytes, the limit"), "{message}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    apply("get_url", fetch("/a.txt", 12));
    assert_eq!(read(&dest), CONTENT);
}

#[test]
fn file_without_checksum_requested_if_newer() {
    let (server, directory) = (start(), tempdir().unwrap());
    let dest = directory.path().join("a.txt");
    let args = json!({ "url": server.url("/a.txt"), "dest": &dest });
    converges("get_url", args.clone(), directory.path());
    let again = apply("get_url", args);
    assert_eq!((&again["status_code"], changed(&again)), (&json!(304), false));
    fs::write(&dest, "other").unwrap();
    let forced = json!({ "url": server.url("/a.txt"), "dest": &dest, "force": true, "backup": true });
    let result = apply("get_url", forced.clone());
    assert!(changed(&result));
    assert_eq!(read(Path::new(result["backup_file"].as_str().unwrap())), "other");
    assert_eq!(server.asked().last().unwrap().header("cache-control"), "no-cache");
    assert!(!changed(&apply("get_url", forced)), "the same content is no change");
}

#[test]
fn redirects_names_and_compression_handled() {
    let (server, directory) = (start(), tempdir().unwrap());
    let fetch = |path: &str, dest: &Path| {
        let result = apply("get_url", json!({ "url": server.url(path), "dest": dest }));
        assert!(changed(&result), "{path}: {result}");
        result["dest"].as_str().unwrap().to_owned()
    };
    assert!(fetch("/moved", directory.path()).ends_with("/a.txt"));
    assert!(fetch("/named", directory.path()).ends_with("/real name"));
    assert_eq!(read(&directory.path().join("real name")), CONTENT);
    let packed = directory.path().join("packed");
    fetch("/packed", &packed);
    assert_eq!(read(&packed), CONTENT);
    let raw = json!({ "url": server.url("/packed"), "dest": &packed, "decompress": false });
    assert!(changed(&apply("get_url", raw)));
    assert_eq!(fs::read(&packed).unwrap()[..2], [0x1f, 0x8b]);
}

#[test]
fn credentials_and_headers_sent() {
    let (server, directory) = (start(), tempdir().unwrap());
    let dest = directory.path().join("x");
    let login = |force: bool| json!({ "url": server.url("/secret"), "dest": &dest, "username": "me", "url_password": "pass", "force_basic_auth": force });
    assert!(changed(&apply("get_url", login(false))));
    assert_eq!(server.asked().len(), 2);
    assert!(!changed(&apply("get_url", login(true))));
    assert_eq!(server.asked().len(), 1);
    let in_url = server.url("/secret").replace("//", "//me:pass@");
    let result = apply("get_url", json!({ "url": in_url, "dest": &dest }));
    assert!(!changed(&result) && !result.to_string().contains("pass@"), "{result}");
    let message = fails("get_url", json!({ "url": server.url("/secret"), "dest": &dest }), directory.path());
    assert!(message.contains("401"), "{message}");
    apply("get_url", json!({ "url": server.url("/echo"), "dest": &dest, "headers": { "X-Flavour": "mint" } }));
    assert_eq!(read(&dest), "mint");
}

#[test]
fn environment_proxies_used() {
    let (proxy, directory) = (start(), tempdir().unwrap());
    let fetch = |environment: Value, url: &str, use_proxy: bool| {
        let host = Host::alone().with_environment(serde_json::from_value(environment).unwrap());
        let args = json!({ "url": url, "dest": directory.path().join("x"), "use_proxy": use_proxy });
        run(registry::find("get_url").unwrap(), &args, &host)
    };
    let through = json!({ "http_proxy": proxy.url("").replace("//", "//me:pass@"), "no_proxy": "other.invalid" });
    let result = fetch(through.clone(), "http://server.invalid/fresh.txt", true);
    // This server cannot forward whole URLs, but reports the request line.
    assert_eq!(result["status_code"], 404, "{result}");
    let asked = proxy.asked().remove(0);
    assert_eq!((asked.path.as_str(), asked.header("host")), ("http://server.invalid/fresh.txt", "server.invalid"));
    assert_eq!(asked.header("proxy-authorization"), "Basic bWU6cGFzcw==");
    for (url, use_proxy) in [("http://other.invalid/x", true), ("http://server.invalid/x", false)] {
        let result = fetch(through.clone(), url, use_proxy);
        assert!(result["msg"].as_str().unwrap().contains("is not known"), "{result}");
    }
    let broken = json!({ "https_proxy": "http://127.0.0.1:1" });
    let message = fetch(broken, "https://server.invalid/x", true)["msg"].as_str().unwrap().to_owned();
    assert!(message.contains("by the proxy 127.0.0.1:1"), "{message}");
    assert!(proxy.asked().is_empty());
}

#[test]
fn file_url_copied() {
    let directory = tempdir().unwrap();
    let source = directory.path().join("source file");
    fs::write(&source, CONTENT).unwrap();
    let url = format!("file://{}", source.display()).replace(' ', "%20");
    let dest = directory.path().join("dest");
    converges("get_url", json!({ "url": url, "dest": &dest, "tmp_dest": directory.path() }), directory.path());
    assert_eq!(read(&dest), CONTENT);
    assert!(
        fails("get_url", json!({ "url": "file:///no/such/file", "dest": &dest }), directory.path())
            .contains("/no/such/file")
    );
}

#[test]
fn get_url_invalid_inputs_refused() {
    let (server, directory) = (start(), tempdir().unwrap());
    let url = server.url("/a.txt");
    let dest = directory.path().join("a");
    for (args, word) in [
        (json!({ "url": url }), "missing required arguments: dest"),
        (json!({ "url": url, "dest": dest, "checksum": "abc" }), "<algorithm>:<checksum>"),
        (json!({ "url": url, "dest": dest, "checksum": "crc:abc" }), "Available algorithms"),
        (json!({ "url": url, "dest": dest, "checksum": "sha256:xyz" }), "checksum format is invalid"),
        (json!({ "url": url, "dest": "/no/such/directory/a" }), "does not exist"),
        (json!({ "url": url, "dest": dest, "tmp_dest": "/no/such/directory" }), "directory does not exist"),
        (json!({ "url": "ftp://h/a", "dest": dest }), "ftp"),
        (json!({ "url": "nonsense", "dest": dest }), "unknown url type"),
        (json!({ "url": "http://127.0.0.1:1/", "dest": dest }), "127.0.0.1:1"),
        (json!({ "url": "http://no-such-host.invalid/", "dest": dest }), "no-such-host.invalid"),
    ] {
        let message = fails("get_url", args, directory.path());
        assert!(message.contains(word), "{message} has no {word}");
    }
    let predicted = predict("get_url", json!({ "url": url, "dest": "/no/such/directory/a" }));
    assert!(changed(&predicted), "an earlier task may be about to make the directory: {predicted}");
}
