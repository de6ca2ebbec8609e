//! HTTP requests and responses.

use std::{
    io::{self, Read},
    path::PathBuf,
    time::{Duration, Instant},
};

use flate2::read::MultiGzDecoder;
use ureq::{Body, Error, http};

use crate::net::address::Address;
use crate::{files::way, process::reason};

/// A request, including its redirects.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Payload>,
    pub(crate) follow: Follow,
}

impl Request {
    /// The method of the request after a redirect; `None` if the redirect is not followed.
    pub(super) fn redirected(&self, response: &Response) -> Option<String> {
        let method = self.method.as_str();
        response.header("location")?;
        let reading = matches!(method, "GET" | "HEAD");
        let followed = match (self.follow, response.status) {
            (Follow::None, _) => false,
            (Follow::Safe, 301 | 302 | 303 | 307 | 308) => reading,
            (Follow::Python, 301..=303) => reading || method == "POST",
            (Follow::Python, 307 | 308) => reading,
            (Follow::All, 301 | 302 | 303 | 307 | 308) => true,
            _ => false,
        };
        let becomes_get = match (self.follow, response.status) {
            (Follow::Python, _) => method != "HEAD",
            (_, 302 | 303) => method != "HEAD",
            (_, 301) => method == "POST",
            _ => false,
        };
        followed.then(|| if becomes_get { "GET".to_owned() } else { method.to_owned() })
    }
}

/// Body of a request.
#[derive(Debug, Clone)]
pub(crate) enum Payload {
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// A file on the host.
    File(PathBuf),
}

/// Policy for redirects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Follow {
    None,
    /// Follow redirects of requests that change nothing.
    Safe,
    All,
    /// Follow the same redirects as Python's urllib.
    #[default]
    Python,
}

/// A response with any status.
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Status as text: `OK (12 bytes)`, `HTTP Error 404: Not Found`.
    pub(crate) message: String,
    /// Header names in lower case; repeated headers are joined.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) cookies: Vec<(String, String)>,
    /// URL of the final response.
    pub(crate) url: String,
    pub(crate) body: Box<dyn Read>,
}

impl Response {
    /// A response from a server.
    pub(super) fn of(answer: http::Response<Body>, url: String, decompress: bool, patience: Patience) -> Response {
        let mut headers: Vec<(String, String)> = Vec::new();
        let mut cookies = Vec::new();
        for (name, value) in answer.headers() {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            if name == http::header::SET_COOKIE
                && let Some((name, value)) = value.split(';').next().and_then(|pair| pair.split_once('='))
            {
                cookies.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            match headers.iter_mut().find(|(known, _)| known == name.as_str()) {
                Some((_, joined)) => {
                    joined.push_str(", ");
                    joined.push_str(&value);
                }
                None => headers.push((name.as_str().to_owned(), value)),
            }
        }
        let status = answer.status();
        let find = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        let message = if status.is_success() {
            format!("OK ({} bytes)", find("content-length").unwrap_or("unknown"))
        } else {
            format!("HTTP Error {}: {}", status.as_u16(), status.canonical_reason().unwrap_or("Unknown"))
        };
        let packed =
            decompress && find("content-encoding").is_some_and(|encoding| encoding.eq_ignore_ascii_case("gzip"));
        let body = Patient { body: answer.into_body().into_reader(), patience, begun: Instant::now(), received: 0 };
        let body: Box<dyn Read> = if packed { Box::new(MultiGzDecoder::new(body)) } else { Box::new(body) };
        Response { status: status.as_u16(), message, headers, cookies, url, body }
    }

    /// A response built from a file on the host.
    pub(super) fn of_file(address: &Address) -> Result<Response, String> {
        let path = address.file_path();
        let unreadable = |error: io::Error| format!("{path} could not be read: {}", reason(&error));
        let file = way::open(path.as_ref()).map_err(unreadable)?;
        let found = file.metadata().map_err(unreadable)?;
        if found.is_dir() {
            return Err(format!("{path} is a directory"));
        }
        let size = found.len().to_string();
        Ok(Response {
            status: 200,
            message: format!("OK ({size} bytes)"),
            headers: vec![("content-length".into(), size)],
            cookies: Vec::new(),
            url: address.url(),
            body: Box::new(file),
        })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Time that a body may take without a rate.
const START: Duration = Duration::from_secs(60);

/// Time that a server may take for a body.
pub(super) struct Patience {
    /// Maximum time without a byte.
    pub(super) silence: Duration,
    /// Lowest rate of the whole in bytes per second, after its start.
    pub(super) slowest: Option<u64>,
}

/// A body whose errors describe the cause.
struct Patient<R> {
    body: R,
    patience: Patience,
    begun: Instant,
    received: u64,
}

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(slowest) = self.patience.slowest
            && self.begun.elapsed().saturating_sub(START).as_secs().saturating_mul(slowest) > self.received
        {
            let text = format!("the server sends fewer than {slowest} bytes a second");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        let count = self.body.read(buffer).map_err(|error| {
            let silent = error.kind() == io::ErrorKind::TimedOut
                || error.get_ref().is_some_and(|inner| matches!(inner.downcast_ref(), Some(Error::Timeout(_))));
            if silent {
                let text = format!("the server was silent for {} seconds", self.patience.silence.as_secs());
                return io::Error::new(io::ErrorKind::TimedOut, text);
            }
            if error.kind() == io::ErrorKind::UnexpectedEof {
                return io::Error::new(error.kind(), "the server closed the connection before it had sent everything");
            }
            error
        })?;
        self.received += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_that_comes_too_slowly_is_given_up() {
        let patience = || Patience { silence: Duration::from_secs(10), slowest: Some(1024) };
        let begun = Instant::now().checked_sub(START + Duration::from_secs(20)).unwrap();
        let mut slow = Patient { body: io::repeat(0), patience: patience(), begun, received: 10 * 1024 };
        let error = slow.read(&mut [0; 10]).unwrap_err();
        assert_eq!(error.to_string(), "the server sends fewer than 1024 bytes a second");
        let mut fast = Patient { body: io::repeat(0), patience: patience(), begun, received: 30 * 1024 };
        assert_eq!(fast.read(&mut [0; 10]).unwrap(), 10);
    }

    fn followed(follow: Follow, method: &str, status: u16) -> Option<String> {
        let request = Request { method: method.into(), follow, ..Request::default() };
        let headers = vec![("location".into(), "/".into())];
        let body = Box::new(io::empty());
        request.redirected(&Response {
            status,
            message: String::new(),
            headers,
            cookies: Vec::new(),
            url: String::new(),
            body,
        })
    }

    #[test]
    fn redirects_followed_by_policy() {
        assert_eq!(followed(Follow::Python, "GET", 302).as_deref(), Some("GET"));
        assert_eq!(followed(Follow::Python, "POST", 302).as_deref(), Some("GET"));
        assert_eq!(followed(Follow::Python, "PUT", 302), None);
        assert_eq!(followed(Follow::Python, "POST", 307), None);
        assert_eq!(followed(Follow::Safe, "POST", 302), None);
        assert_eq!(followed(Follow::Safe, "HEAD", 302).as_deref(), Some("HEAD"));
        assert_eq!(followed(Follow::All, "PUT", 307).as_deref(), Some("PUT"));
        assert_eq!(followed(Follow::All, "PUT", 301).as_deref(), Some("PUT"));
        assert_eq!(followed(Follow::All, "POST", 301).as_deref(), Some("GET"));
        assert_eq!(followed(Follow::None, "GET", 301), None);
        assert_eq!(followed(Follow::All, "GET", 404), None);
    }
}
