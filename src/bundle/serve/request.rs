//! The head of an HTTP request.

use std::io::{self, Read};

/// Longest head of a request, in bytes.
const LONGEST_HEAD: usize = 8 << 10;

/// A request to read something.
pub(super) struct Request {
    pub(super) is_head: bool,
    pub(super) path: String,
    /// The registry that the client wants an image of, as containerd names it to a mirror (`ns=`).
    pub(super) registry: Option<String>,
}

impl Request {
    /// Reads the head. Returns `None` if it is not a request for reading.
    pub(super) fn read(mut stream: impl Read) -> io::Result<Option<Request>> {
        let mut head = Vec::new();
        let mut buffer = [0; 1024];
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let count = stream.read(&mut buffer)?;
            if count == 0 || head.len() + count > LONGEST_HEAD {
                return Ok(None);
            }
            head.extend_from_slice(buffer.get(..count).unwrap_or_default());
            // Runtimes try TLS first, and HTTP only after an answer.
            if head.first().is_some_and(|first| !first.is_ascii_alphabetic()) {
                return Ok(None);
            }
        }
        let text = String::from_utf8_lossy(&head);
        Ok(text.lines().next().and_then(Request::parse))
    }

    fn parse(line: &str) -> Option<Request> {
        let mut words = line.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if !matches!(method, "GET" | "HEAD") || !version.starts_with("HTTP/1.") || words.next().is_some() {
            return None;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let registry = query.split('&').find_map(|part| part.strip_prefix("ns=")).map(decoded);
        Some(Request { is_head: method == "HEAD", path: decoded(path), registry })
    }
}

/// Text with its percent escapes decoded.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escape = after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use super::Request;

    /// A client that waits for an answer.
    struct Waiting;

    impl Read for Waiting {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::TimedOut.into())
        }
    }

    #[test]
    fn tls_handshake_is_refused_at_once() {
        let hello: &[u8] = b"\x16\x03\x01\x02\x00\x01";
        assert!(Request::read(hello.chain(Waiting)).unwrap().is_none());
    }

    #[test]
    fn head_is_read_within_limits() {
        let read = |head: &str| Request::read(head.as_bytes()).ok().flatten();
        let request = read("GET /a%20b?ns=k8s.gcr.io&x=1 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!((request.path.as_str(), request.registry.as_deref()), ("/a b", Some("k8s.gcr.io")));
        assert!(read("HEAD / HTTP/1.0\r\n\r\n").unwrap().is_head);
        for head in ["PUT / HTTP/1.1\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/1.1", "\r\n\r\n"] {
            assert!(read(head).is_none(), "{head:?}");
        }
        assert!(read(&format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(9000))).is_none());
    }
}
