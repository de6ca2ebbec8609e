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
        self.run("get_url", url, "cannot be fetched", &arguments).map(drop)
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
        self.run("uri", url, "cannot be fetched", &arguments)
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
        self.run("uri", url, "did not accept the report", &arguments).map(drop)
    }

    /// Runs a module; `failure` is the verb of the error's sentence.
    fn run(self, name: &str, url: &str, failure: &str, arguments: &Value) -> Result<Value> {
        request(name, arguments).map_err(|reason| Error::new(format!("`{url}` {failure}: {reason}")))
    }
}

/// Result of a module for HTTP on this machine. Fails with the module's message.
pub(crate) fn request(module: &str, arguments: &Value) -> std::result::Result<Value, String> {
    let module = registry::find(module).ok_or_else(|| format!("there is no module {module}"))?;
    let answer = windlass_modules::run(module, arguments, &Host::alone());
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
    fn message_of_failed_request_has_no_list_of_codes() {
        let refused = "Request failed: the connection to localhost:4318 failed: Connection refused.";
        assert_eq!(without_codes(&format!("Status code was -1 and not [200, 201]: {refused}")), refused);
        let missing = "HTTP Error 404: Not Found";
        assert_eq!(without_codes(&format!("Status code was 404 and not [200]: {missing}")), missing);
        assert_eq!(without_codes("the file is too large"), "the file is too large");
    }
}
