//! Serves an unpacked bundle: its files as a mirror, and its images by the OCI distribution specification. Read only.

mod images;
mod request;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use self::images::Images;
use self::request::Request;
use super::manifest::{Kind, Manifest};
use crate::error::Result;

/// Connections that are served at the same time; others are closed.
const MOST_CONNECTIONS: usize = 64;
/// Time that a client may be silent.
const SILENCE: Duration = Duration::from_secs(30);

/// The files and images of an unpacked bundle.
pub struct Mirror {
    /// Files by their path in a URL. No other path is ever opened.
    files: HashMap<String, PathBuf>,
    images: Images,
}

/// A part of a file.
#[derive(Debug, Clone)]
struct Extent {
    path: PathBuf,
    start: u64,
    size: u64,
}

enum Body {
    Text(Vec<u8>),
    Extent(Extent),
}

struct Response {
    status: &'static str,
    media_type: String,
    /// Hash of the content, which registries put into a header.
    digest: Option<String>,
    body: Body,
}

impl Mirror {
    /// The mirror of a bundle that is unpacked in this directory.
    pub fn of(manifest: &Manifest, folder: &Path) -> Result<Mirror> {
        let mut files = HashMap::new();
        let mut images = Images::default();
        for file in &manifest.files {
            let path = folder.join(&file.path);
            let url = file.path.strip_prefix("files/").unwrap_or(&file.path);
            files.insert(format!("/{url}"), path.clone());
            if file.kind == Kind::Image {
                images.add(&path)?;
            }
        }
        Ok(Mirror { files, images })
    }

    /// Number of the images' names.
    pub fn images(&self) -> usize {
        self.images.len()
    }

    /// Serves connections for ever.
    pub fn serve(self, listener: &TcpListener) {
        let (mirror, count) = (Arc::new(self), Arc::new(AtomicUsize::new(0)));
        // A connection that could not be accepted is the client's problem.
        for stream in listener.incoming().flatten() {
            if count.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
                count.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (mirror, own) = (Arc::clone(&mirror), Arc::clone(&count));
            let answered = std::thread::Builder::new().spawn(move || {
                // A client that ends early wants no more.
                let _ = mirror.connection(stream);
                own.fetch_sub(1, Ordering::Relaxed);
            });
            if answered.is_err() {
                count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn connection(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let request = Request::read(&stream)?;
        let response = match &request {
            Some(request) => self.answer(request).unwrap_or_else(|error| {
                let text = format!("{error}\n");
                Response::text("500 Internal Server Error", "text/plain", text.into_bytes())
            }),
            None => Response::text("400 Bad Request", "text/plain", b"only GET and HEAD are served\n".to_vec()),
        };
        response.write(&mut BufWriter::new(stream), request.is_none_or(|request| !request.is_head))
    }

    fn answer(&self, request: &Request) -> io::Result<Response> {
        if let Some(rest) = request.path.strip_prefix("/v2/") {
            return Ok(self.images.answer(rest, request.registry.as_deref()));
        }
        let Some(path) = self.files.get(&request.path) else { return Ok(Response::missing()) };
        let size = std::fs::metadata(path)?.len();
        let body = Body::Extent(Extent { path: path.clone(), start: 0, size });
        Ok(Response { status: "200 OK", media_type: "application/octet-stream".to_owned(), digest: None, body })
    }
}

impl Response {
    fn text(status: &'static str, media_type: &str, text: Vec<u8>) -> Response {
        Response { status, media_type: media_type.to_owned(), digest: None, body: Body::Text(text) }
    }

    fn missing() -> Response {
        Response::text("404 Not Found", "text/plain", b"the bundle does not have it\n".to_vec())
    }

    fn write(self, stream: &mut dyn Write, has_body: bool) -> io::Result<()> {
        let size = match &self.body {
            Body::Text(text) => text.len() as u64,
            Body::Extent(extent) => extent.size,
        };
        let digest = self.digest.map(|digest| format!("Docker-Content-Digest: {digest}\r\n")).unwrap_or_default();
        write!(
            stream,
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {size}\r\n{digest}\
             Docker-Distribution-Api-Version: registry/2.0\r\nX-Content-Type-Options: nosniff\r\n\
             Connection: close\r\n\r\n",
            self.status, self.media_type
        )?;
        match self.body {
            _ if !has_body => {}
            Body::Text(text) => stream.write_all(&text)?,
            Body::Extent(Extent { path, start, size }) => {
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(start))?;
                io::copy(&mut file.take(size), stream)?;
            }
        }
        stream.flush()
    }
}
