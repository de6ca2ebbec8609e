//! Serves an unpacked bundle: its files as a mirror, and its images by the OCI distribution specification. Read only.

mod images;

use std::collections::HashMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper::StatusCode;
use tokio_rustls::TlsAcceptor;

use self::images::Images;
use super::manifest::{Kind, Manifest};
use crate::error::{Error, Result};
use crate::http::server::{self, Answer, Content, Extent, Request, Site};

/// The files and images of an unpacked bundle.
pub struct Mirror {
    /// Files by their path in a URL. No other path is ever opened.
    files: HashMap<String, PathBuf>,
    images: Images,
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

    /// Serves connections until the program is ended: over TLS if there is an acceptor.
    pub(crate) fn serve(self, listener: TcpListener, tls: Option<TlsAcceptor>) -> Result<()> {
        let fail = |error: std::io::Error| Error::new(format!("the bundle cannot be served: {error}"));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(fail)?;
        runtime.block_on(async {
            listener.set_nonblocking(true).map_err(fail)?;
            let listener = tokio::net::TcpListener::from_std(listener).map_err(fail)?;
            match server::serve(listener, Arc::new(self), tls).await {}
        })
    }

    fn file(&self, path: &str) -> Option<std::io::Result<Answer>> {
        let path = self.files.get(path)?;
        Some(std::fs::metadata(path).map(|metadata| {
            let content = Content::Extent(Extent { path: path.clone(), start: 0, size: metadata.len() });
            let media_type = "application/octet-stream".to_owned();
            Answer { status: StatusCode::OK, media_type, headers: Vec::new(), content }
        }))
    }
}

impl Site for Mirror {
    fn answer(&self, request: &Request) -> Answer {
        if let Some(rest) = request.path.strip_prefix("/v2/") {
            // The registry that the client wants an image of, as containerd names it to a mirror.
            return self.images.answer(rest, request.value("ns"));
        }
        match self.file(&request.path) {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => Answer::sentence(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            None => missing(),
        }
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("docker-distribution-api-version", "registry/2.0")]
    }
}

fn missing() -> Answer {
    Answer::sentence(StatusCode::NOT_FOUND, "the bundle does not have it")
}
