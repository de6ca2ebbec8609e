//! Messages on standard input and output, each of bounded size.

use std::io::{BufRead, Read as _, Write};

use lsp_server::{Message, Notification, Response};
use serde_json::json;

/// Maximum size of a message in bytes. A document has 2 MiB at most, and JSON can multiply its length by six.
const LARGEST_MESSAGE: u64 = 16 << 20;

/// Maximum size of the headers of a message in bytes.
const LARGEST_HEADERS: u64 = 4 << 10;

/// Something that arrived.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A message.
    Message(Message),
    /// A body that is not a message, with the reason. The next one can be read.
    Malformed(String),
    /// A message that was skipped because of this size in bytes.
    Oversized(u64),
    /// The end of the input, or headers after which no message can be found.
    End,
}

/// Reads the next message.
pub(super) fn read(input: &mut impl BufRead) -> Incoming {
    let Some(length) = length(input) else { return Incoming::End };
    let mut body = input.take(length);
    if length > LARGEST_MESSAGE {
        return match std::io::copy(&mut body, &mut std::io::sink()) {
            Ok(skipped) if skipped == length => Incoming::Oversized(length),
            _ => Incoming::End,
        };
    }
    let mut bytes = Vec::new();
    match body.read_to_end(&mut bytes) {
        Ok(read) if read as u64 == length => match serde_json::from_slice(&bytes) {
            Ok(message) => Incoming::Message(message),
            Err(error) => Incoming::Malformed(error.to_string()),
        },
        _ => Incoming::End,
    }
}

/// Reads headers up to the empty line, and returns the length of the body.
fn length(input: &mut impl BufRead) -> Option<u64> {
    let mut headers = input.take(LARGEST_HEADERS);
    let mut length = None;
    loop {
        let mut line = Vec::new();
        headers.read_until(b'\n', &mut line).ok()?;
        if line.pop() != Some(b'\n') {
            return None;
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        if line.is_empty() {
            return length;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.trim().eq_ignore_ascii_case("content-length")
        {
            length = Some(value.trim().parse().ok()?);
        }
    }
}

/// Sends messages.
pub(super) struct Sender<W>(pub(super) W);

impl<W: Write> Sender<W> {
    /// Sends a response.
    pub(super) fn respond(&mut self, response: Response) -> std::io::Result<()> {
        Message::Response(response).write(&mut self.0)
    }

    /// Sends a notification.
    pub(super) fn notify(&mut self, method: &str, params: impl serde::Serialize) -> std::io::Result<()> {
        let params = serde_json::to_value(params)?;
        Message::Notification(Notification { method: method.to_owned(), params }).write(&mut self.0)
    }

    /// Answers a body that is not a message. Since its id is unknown, the response has none.
    pub(super) fn reject(&mut self, reason: &str) -> std::io::Result<()> {
        let error = json!({"code": lsp_server::ErrorCode::ParseError as i32, "message": reason});
        let body = json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string();
        write!(self.0, "Content-Length: {}\r\n\r\n{body}", body.len())?;
        self.0.flush()
    }
}

/// Sentence about a message that was skipped.
pub(super) fn oversized(size: u64) -> String {
    let (size, largest) = (size >> 20, LARGEST_MESSAGE >> 20);
    format!("a message of {size} MiB was skipped: the language server reads at most {largest} MiB at a time")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &str) -> Vec<String> {
        let mut input = input.as_bytes();
        let mut found = Vec::new();
        loop {
            match read(&mut input) {
                Incoming::End => return found,
                Incoming::Message(_) => found.push("message".to_owned()),
                Incoming::Malformed(_) => found.push("malformed".to_owned()),
                Incoming::Oversized(size) => found.push(size.to_string()),
            }
        }
    }

    #[test]
    fn malformed_body_leaves_next_message_readable() {
        let good = r#"{"method":"x"}"#;
        let framed = |body: &str| format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let input = framed("{") + &framed(good) + &framed("[]");
        assert_eq!(all(&input), ["malformed", "message", "malformed"]);
        assert!(all("Content-Length: x\r\n\r\n{}").is_empty());
        assert!(all("Content-Length: 99\r\n\r\n{}").is_empty());
        assert!(all(&"a".repeat(9000)).is_empty());
    }
}
