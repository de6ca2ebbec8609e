//! Requests by the modules for HTTP, which handle proxies, redirects and certificates.

use std::path::Path;

use serde_json::{Map, Value, json};
use windlass_modules::{Host, registry};

use crate::error::{Error, Result};

/// Client with the settings of all requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Http {
    /// Seconds that a server may be silent.
    pub(super) timeout: u64,
}

impl Http {
    /// Downloads an URL to a file. `checksum` is `ALGORITHM:DIGITS` or `ALGORITHM:URL`, empty without one.
    pub(super) fn download(self, url: &str, checksum: &str, headers: &Map<String, Value>, to: &Path) -> Result<()> {
        let mut arguments = json!({"url": url, "dest": to, "timeout": self.timeout, "headers": headers});
        // The content of a registry is what its hash says, also if it is compressed.
        arguments["decompress"] = headers.is_empty().into();
        if !checksum.is_empty() {
            arguments["checksum"] = checksum.into();
        }
        self.run("get_url", url, &arguments).map(drop)
    }

    /// Reads an URL. The answer has `status` and the headers; its `content` is text.
    pub(super) fn read(self, url: &str, headers: &Map<String, Value>, accepted: &[u16]) -> Result<Value> {
        let arguments = json!({
            "url": url,
            "headers": headers,
            "timeout": self.timeout,
            "status_code": accepted,
            "return_content": true,
        });
        self.run("uri", url, &arguments)
    }

    fn run(self, name: &str, url: &str, arguments: &Value) -> Result<Value> {
        let module = registry::find(name).ok_or_else(|| Error::new(format!("there is no module {name}")))?;
        let answer = windlass_modules::run(module, arguments, &Host::alone(false, false));
        match answer.get("failed").and_then(Value::as_bool) {
            Some(true) => {
                let reason = answer.get("msg").and_then(Value::as_str).unwrap_or("the request failed");
                Err(Error::new(format!("`{url}` cannot be fetched: {reason}")))
            }
            _ => Ok(answer),
        }
    }
}
