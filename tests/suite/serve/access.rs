//! Who may read, and what a client cannot take.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;

use super::site::{Site, answer};

#[test]
fn pages_need_the_token_which_becomes_a_cookie() {
    let site = Site::new();
    let server = site.serve(&["-i", "hosts"]);
    let host = format!("Host: {}\r\n", server.address);
    let token = &server.token;
    let port = server.address.rsplit_once(':').unwrap().1;
    for path in ["/", "/inventory", "/verify", "/host?name=a", "/runs/x", "/nothing"] {
        let refused = server.send(&format!("GET {path} HTTP/1.1\r\n{host}\r\n"));
        assert_eq!(refused.status, 401, "{path}: {}", refused.head);
        assert!(refused.body.contains("windlass serve") && !refused.body.contains(token), "{}", refused.body);
    }
    let wrong = [
        format!("Cookie: windlass-{port}={}\r\n", token.replace(|letter: char| letter.is_ascii_digit(), "x")),
        format!("Cookie: windlass-{port}={}\r\n", &token[1..]),
        format!("Cookie: windlass-{port}=\r\n"),
        format!("Cookie: other={token}\r\n"),
    ];
    for cookie in wrong {
        assert_eq!(server.send(&format!("GET / HTTP/1.1\r\n{host}{cookie}\r\n")).status, 401, "{cookie}");
    }
    assert_eq!(server.send(&format!("GET /?token=x HTTP/1.1\r\n{host}\r\n")).status, 401);

    for (path, target) in [
        ("/?token=T", "/"),
        ("/host?name=a%26b&token=T", "/host?name=a%26b"),
        ("//192.0.2.1/x?token=T", "/192.0.2.1/x"),
        ("/%5c192.0.2.1/%0d%0ax?token=T", "/%5C192.0.2.1/%0D%0Ax"),
    ] {
        let login = server.send(&format!("GET {} HTTP/1.1\r\n{host}\r\n", path.replace('T', token)));
        assert_eq!(login.status, 303, "{}", login.head);
        assert!(login.head.contains(&format!("Location: {target}\r\n")), "{}", login.head);
    }
    let login = server.send(&format!("GET /?token={token} HTTP/1.1\r\n{host}\r\n"));
    let cookie = format!("Set-Cookie: {}; HttpOnly; SameSite=Strict; Path=/\r\n", server.cookie());
    assert!(login.head.contains(&cookie), "{}", login.head);

    let page = server.get("/");
    assert_eq!(page.status, 200, "{}", page.body);
    for header in [
        "Cache-Control: no-store",
        "Referrer-Policy: no-referrer",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
        "Cross-Origin-Resource-Policy: same-origin",
        "frame-ancestors 'none'",
    ] {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
    assert!(!page.body.contains(token));
}

#[test]
fn other_names_of_the_server_are_refused() {
    let site = Site::new();
    let server = site.serve(&["-i", "hosts"]);
    let port = server.address.rsplit_once(':').unwrap().1;
    let get = |host: &str| server.send(&format!("GET / HTTP/1.1\r\n{host}Cookie: {}\r\n\r\n", server.cookie())).status;
    for host in [format!("localhost:{port}"), "127.0.0.1:9000".to_owned(), "[::1]:1".to_owned()] {
        assert_eq!(get(&format!("Host: {host}\r\n")), 200, "{host}");
    }
    let rebound = [format!("rebound.example:{port}"), "192.0.2.1".to_owned(), "localhost.example".to_owned()];
    for host in rebound {
        assert_eq!(get(&format!("Host: {host}\r\n")), 421, "{host}");
    }
    assert_eq!(get(""), 421);
    // Not even the token helps under another name.
    let login = format!("GET /?token={} HTTP/1.1\r\nHost: rebound.example\r\n\r\n", server.token);
    assert_eq!(server.send(&login).status, 421);
}

#[test]
fn requests_that_change_or_flood_are_refused() {
    let site = Site::new();
    let server = site.serve(&["-i", "hosts"]);
    let rest = format!("Host: {}\r\nCookie: {}\r\n", server.address, server.cookie());
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let refused = server.send(&format!("{method} / HTTP/1.1\r\n{rest}Content-Length: 0\r\n\r\n"));
        assert_eq!(refused.status, 405, "{method}");
        assert!(refused.head.contains("Allow: GET, HEAD"), "{}", refused.head);
    }
    let head = server.send(&format!("HEAD / HTTP/1.1\r\n{rest}\r\n"));
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let long = "x".repeat(100_000);
    let floods = [
        format!("GET /{long} HTTP/1.1\r\n{rest}\r\n"),
        format!("GET / HTTP/1.1\r\nLong: {long}\r\n{rest}\r\n"),
        format!("GET / HTTP/1.1\r\n{}{rest}\r\n", "A: b\r\n".repeat(200)),
    ];
    for flood in floods {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        // The server may close before it has everything.
        let _ = stream.write_all(flood.as_bytes());
        let status = answer(&mut stream).status;
        assert!(matches!(status, 0 | 400 | 414 | 431), "{status}");
    }
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn slow_and_many_clients_leave_room_for_others() {
    let site = Site::new();
    let server = site.serve(&["-i", "hosts"]);
    let mut slow = TcpStream::connect(&server.address).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: 127.0").unwrap();
    assert_eq!(server.get("/").status, 200);
    let mut rest = Vec::new();
    // The server ends the connection by itself.
    let _ = slow.read_to_end(&mut rest);
    let text = String::from_utf8_lossy(&rest).into_owned();
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 408"), "{text}");

    let idle: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    let refused = answer(&mut TcpStream::connect(&server.address).unwrap());
    assert_eq!(refused.status, 503, "{}", refused.head);
    assert!(refused.body.contains("64 connections"), "{}", refused.body);
    drop(idle);
    // The server notices that they have gone.
    assert!((0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        server.get("/").status == 200
    }));
}

#[test]
fn paths_lead_to_pages_and_never_to_files() {
    let site = Site::new();
    let run = site.play();
    let server = site.serve(&["-i", "hosts"]);
    for path in [
        "/runs/../../hosts",
        "/runs/..%2f..%2fhosts",
        "/runs/%2e%2e/%2e%2e/hosts",
        "/runs//etc/passwd",
        "/runs/%2fetc%2fpasswd",
        &format!("/runs/{run}%00"),
        &format!("/runs/{run}/../{run}"),
        &format!("/runs/{run}.jsonl"),
        &format!("/runs/{run}/other"),
        "/runs/",
        "/hosts",
        "/../hosts",
        "/host?name=../hosts",
        "/host?name=localhost",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}: {}", answer.body);
    }
    assert_eq!(server.get(&format!("/runs/{run}")).status, 200);
    assert_eq!(server.get(&format!("/runs/{}", run.replace('-', "%2d"))).status, 200);
}

#[test]
fn signals_end_the_server_with_their_codes() {
    let site = Site::new();
    assert_eq!(site.serve(&[]).stop(Signal::INT), Some(99));
    assert_eq!(site.serve(&[]).stop(Signal::TERM), Some(143));
}

#[test]
fn addresses_of_other_machines_are_not_listened_on() {
    let site = Site::new();
    for listen in ["0.0.0.0:0", "192.0.2.1:8470", "[::]:0"] {
        let output = site.run(&["serve", "--listen", listen]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{text}");
        assert!(text.contains("ssh -L"), "{text}");
    }
}
