//! Requests by the modules for HTTP, which handle proxies, redirects and certificates.

pub(crate) mod server;

use std::path::Path;

use serde_json::{Map, Value, json};
use windlass_modules::{Host, registry};

use crate::error::{Error, Result};

/// Client with the settings of all requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Http {
    /// Seconds that a server may be silent.
    pub(crate) timeout: u64,
    /// Most bytes of a download, if it is limited.
    pub(crate) limit: Option<u64>,
}

impl Http {
    /// Downloads a URL to a file. `checksum` is `ALGORITHM:DIGITS` or `ALGORITHM:URL`, empty without one.
    pub(crate) fn download(self, url: &str, checksum: &str, headers: &Map<String, Value>, to: &Path) -> Result<()> {
        let mut arguments =
            json!({"url": url, "dest": to, "timeout": self.timeout, "headers": headers, "_limit": self.limit});
        // The content of a registry is what its hash says, also if it is compressed.
        arguments["decompress"] = headers.is_empty().into();
        if !checksum.is_empty() {
            arguments["checksum"] = checksum.into();
        }
        run("get_url", url, arguments).map(drop)
    }

    /// Reads a URL. The answer has `status` and the headers; its `content` is text.
    pub(crate) fn read(self, url: &str, headers: &Map<String, Value>, accepted: &[u16]) -> Result<Value> {
        let arguments = json!({
            "url": url,
            "headers": headers,
            "timeout": self.timeout,
            "status_code": accepted,
            "return_content": true,
        });
        run("uri", url, arguments)
    }

    /// Sends a JSON document; any answer with a status from 200 to 299 is a success.
    pub(crate) fn post(self, url: &str, body: &Value) -> Result<()> {
        let accepted: Vec<u16> = (200..300).collect();
        let arguments = json!({
            "url": url,
            "method": "POST",
            "body_format": "json",
            "body": body,
            "timeout": self.timeout,
            "status_code": accepted,
        });
        // The path of a webhook is often all that it takes to use it, so messages name the server alone.
        let server = server_of(url);
        let fail = |reason: String| format!("`{server}` did not accept the report: {}", reason.replace(url, server));
        request("uri", arguments).map(drop).map_err(|reason| Error::new(fail(reason)))
    }
}

fn run(module: &str, url: &str, arguments: Value) -> Result<Value> {
    request(module, arguments).map_err(|reason| Error::new(format!("`{url}` cannot be fetched: {reason}")))
}

/// Scheme, host and port of a URL, without a user or a path.
fn server_of(url: &str) -> &str {
    let start = url.find("://").map_or(0, |colon| colon + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |length| start + length);
    let host = url[start..end].rfind('@').map_or(start, |at| start + at + 1);
    if host == start { &url[..end] } else { &url[host..end] }
}

/// Lowest rate of an answer in bytes per second, after its first minute. Nobody may keep a command for ever.
const SLOWEST: u64 = 16 << 10;

/// Result of a module for HTTP on this machine. Fails with the module's message.
pub(crate) fn request(module: &str, mut arguments: Value) -> std::result::Result<Value, String> {
    let module = registry::find(module).ok_or_else(|| format!("there is no module {module}"))?;
    arguments["_slowest"] = SLOWEST.into();
    let answer = windlass_modules::run(module, &arguments, &Host::alone());
    match answer.get("failed").and_then(Value::as_bool) {
        Some(true) => {
            Err(without_codes(answer.get("msg").and_then(Value::as_str).unwrap_or("the request failed")).to_owned())
        }
        _ => Ok(answer),
    }
}

/// Removes the list of accepted codes from a message of `uri`. Without an answer, its code is one that no server sent.
fn without_codes(message: &str) -> &str {
    let rest = message.strip_prefix("Status code was ").and_then(|rest| rest.split_once(" and not ["));
    rest.and_then(|(_, rest)| rest.split_once("]: ")).map_or(message, |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_has_no_secret_of_its_url() {
        for (url, server) in [
            ("https://hooks.example.com/services/T0/secret", "https://hooks.example.com"),
            ("http://user:password@10.0.0.1:8080?token=secret", "10.0.0.1:8080"),
            ("https://example.com", "https://example.com"),
        ] {
            assert_eq!(server_of(url), server);
        }
    }

    #[test]
    fn message_of_failed_request_has_no_list_of_codes() {
        let refused = "Request failed: the connection to localhost:4318 failed: Connection refused.";
        assert_eq!(without_codes(&format!("Status code was -1 and not [200, 201]: {refused}")), refused);
        let missing = "HTTP Error 404: Not Found";
        assert_eq!(without_codes(&format!("Status code was 404 and not [200]: {missing}")), missing);
        assert_eq!(without_codes("the file is too large"), "the file is too large");
    }
}
