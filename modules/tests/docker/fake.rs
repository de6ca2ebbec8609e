//! An engine that answers from a script on its own socket.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;

/// A request to the engine.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// Path without the API version.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Status and text of an answer.
pub(crate) type Answer = (u16, String);

pub(crate) struct Fake {
    folder: tempfile::TempDir,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Fake {
    /// An engine with this API version.
    pub(crate) fn start(version: &str, script: impl Fn(&Asked) -> Answer + Send + 'static) -> Fake {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("docker.sock")).unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let version = format!(r#"{{"ApiVersion":"{version}"}}"#);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = read(&stream);
                let (status, text) = match request.path.as_str() {
                    "/version" => (200, version.clone()),
                    _ => {
                        seen.lock().unwrap().push(request.clone());
                        script(&request)
                    }
                };
                let head =
                    format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
                // The client may have closed the connection.
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes()));
            }
        });
        Fake { folder, asked }
    }

    pub(crate) fn host(&self) -> String {
        format!("unix://{}/docker.sock", self.folder.path().display())
    }

    /// Requests that would change something.
    pub(crate) fn changes(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|asked| asked.method != "GET")
            .map(|asked| format!("{} {}", asked.method, asked.path))
            .collect()
    }

    pub(crate) fn bodies(&self, path: &str) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|asked| asked.path.starts_with(path)).map(Asked::json).collect()
    }
}

fn read(stream: &UnixStream) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut length, mut chunked) = (0, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        chunked |= header == "transfer-encoding: chunked";
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    while chunked {
        let mut size = String::new();
        reader.read_line(&mut size).unwrap();
        let mut piece = vec![0; usize::from_str_radix(size.trim(), 16).unwrap()];
        reader.read_exact(&mut piece).unwrap();
        reader.read_line(&mut size).unwrap();
        chunked = !piece.is_empty();
        body.append(&mut piece);
    }
    let version = path.strip_prefix("/v1.").and_then(|rest| rest.find('/').map(|at| at + 4));
    Asked { method, path: version.map_or(path.clone(), |at| path[at..].to_owned()), body }
}
