//! The HTTP server of all verbs that serve something. It serves pages and files, and accepts forms where the site does.
//! It limits what a client can use: connections, the size and time of a request's head and of its form, the time of an
//! answer, and the time of a client that stops reading.

mod body;
mod form;
mod request;
mod stalled;
mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

use self::body::Body;
pub(crate) use self::body::{Content, Extent};
pub(crate) use self::request::{Request, encoded, unescaped};
use self::stalled::Stalled;
pub(crate) use self::tls::acceptor;

/// Maximum number of connections at the same time. Others get an answer that says so.
const CONNECTIONS: usize = 64;
/// Maximum number of answers that are prepared at the same time.
const WORKERS: usize = 4;
/// Maximum size of a request's head, in bytes.
const HEAD: usize = 8 << 10;
/// Maximum number of headers of a request.
const HEADERS: usize = 64;
/// Time for a client to agree on TLS, and then to send the head of its request.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// Time to prepare an answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);
/// Pause after a connection could not be accepted, for example for lack of descriptors.
const REST: Duration = Duration::from_millis(100);

/// The contents of a server.
pub(crate) trait Site: Send + Sync + 'static {
    /// Answers a request. May block its thread.
    fn answer(&self, request: &Request) -> Answer;

    /// Whether clients may send forms by POST.
    fn takes_forms(&self) -> bool {
        false
    }

    /// Headers of every answer.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
}

/// An answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) media_type: String,
    /// Further headers. Values that no header may have are left out.
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) content: Content,
}

impl Answer {
    /// An answer with a text.
    pub(crate) fn text(status: StatusCode, media_type: &str, text: impl Into<Vec<u8>>) -> Answer {
        let content = Content::Bytes(text.into());
        Answer { status, media_type: media_type.to_owned(), headers: Vec::new(), content }
    }

    /// An answer with a sentence.
    pub(crate) fn sentence(status: StatusCode, sentence: &str) -> Answer {
        Answer::text(status, "text/plain; charset=utf-8", format!("{sentence}\n"))
    }

    /// The answer with another header.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    fn into_response(self, fixed: &'static [(&'static str, &'static str)]) -> hyper::Response<Body> {
        let mut response = hyper::Response::new(Body::of(self.content));
        *response.status_mut() = self.status;
        let media_type = [("content-type", self.media_type), ("x-content-type-options", "nosniff".to_owned())];
        let fixed = fixed.iter().map(|(name, value)| (*name, (*value).to_owned()));
        for (name, value) in fixed.chain(media_type).chain(self.headers) {
            if let Ok(value) = HeaderValue::try_from(value) {
                response.headers_mut().insert(HeaderName::from_static(name), value);
            }
        }
        response
    }
}

/// Serves connections until the future is dropped: over TLS if there is an acceptor.
pub(crate) async fn serve<S: Site>(listener: TcpListener, site: Arc<S>, tls: Option<TlsAcceptor>) -> Infallible {
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    let workers = Arc::new(Semaphore::new(WORKERS));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(REST).await;
            continue;
        };
        match Arc::clone(&connections).try_acquire_owned() {
            Ok(permit) => {
                let (site, workers, tls) = (Arc::clone(&site), Arc::clone(&workers), tls.clone());
                tokio::spawn(async move {
                    let stream = Stalled::new(stream);
                    let Some(tls) = tls else { return connection(stream, peer, site, workers, permit).await };
                    if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_DEADLINE, tls.accept(stream)).await {
                        connection(stream, peer, site, workers, permit).await;
                    }
                });
            }
            Err(_) => turn_away(&stream),
        }
    }
}

/// Refuses a client because too many are connected. It gets as much of the answer as its buffer takes; over TLS, it
/// sees only the connection close.
fn turn_away(stream: &TcpStream) {
    let text = format!("{CONNECTIONS} connections are open, which is the limit; try again later\n");
    let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n";
    let _ = stream.try_write(format!("{head}Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
}

async fn connection<S: Site>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: SocketAddr,
    site: Arc<S>,
    workers: Arc<Semaphore>,
    _permit: OwnedSemaphorePermit,
) {
    let answer = service_fn(move |request| {
        let (site, workers) = (Arc::clone(&site), Arc::clone(&workers));
        async move {
            let fixed = site.headers();
            let answer = match read(&*site, request, peer).await {
                Ok(request) => respond(site, workers, request).await,
                Err(refusal) => refusal,
            };
            Ok::<_, Infallible>(answer.into_response(fixed))
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(HEAD)
        .max_headers(HEADERS)
        .keep_alive(false)
        .title_case_headers(true);
    // An error means that the client left early or sent an invalid request; neither waits for more.
    let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
}

/// Reads a request, with its form. Fails with the answer to one that is not served.
async fn read<S: Site>(
    site: &S,
    request: hyper::Request<hyper::body::Incoming>,
    peer: SocketAddr,
) -> Result<Request, Answer> {
    let takes_forms = site.takes_forms();
    let is_form = takes_forms && *request.method() == Method::POST;
    if !is_form && !matches!(*request.method(), Method::GET | Method::HEAD) {
        let (refusal, allowed) = match takes_forms {
            true => ("only GET, HEAD and POST are served", "GET, HEAD, POST"),
            false => ("only GET and HEAD are served: nothing can be changed here", "GET, HEAD"),
        };
        return Err(Answer::sentence(StatusCode::METHOD_NOT_ALLOWED, refusal).with("allow", allowed));
    }
    let Some(mut read) = Request::of(&request, peer) else {
        let refusal = "the address, or one of the headers Host, Cookie and Origin, is not text or is repeated";
        return Err(Answer::sentence(StatusCode::BAD_REQUEST, refusal));
    };
    if is_form {
        read.form = Some(form::read(request).await?);
    }
    Ok(read)
}

async fn respond<S: Site>(site: Arc<S>, workers: Arc<Semaphore>, request: Request) -> Answer {
    let work = async {
        let permit = workers.acquire_owned().await.ok()?;
        let work = tokio::task::spawn_blocking(move || {
            // Held until the work has ended, even if nobody waits for it any more.
            let _permit = permit;
            site.answer(&request)
        });
        work.await.ok()
    };
    match tokio::time::timeout(ANSWER_DEADLINE, work).await {
        Ok(Some(answer)) => answer,
        Ok(None) => Answer::sentence(StatusCode::INTERNAL_SERVER_ERROR, "the answer cannot be prepared"),
        Err(_) => {
            let late = format!("the answer takes more than {} s; try again later", ANSWER_DEADLINE.as_secs());
            Answer::sentence(StatusCode::SERVICE_UNAVAILABLE, &late)
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    struct Echo;

    impl Site for Echo {
        fn answer(&self, request: &Request) -> Answer {
            Answer::sentence(StatusCode::OK, &request.path).with("x-bad", "a\r\nb: c")
        }
    }

    /// Answer to the bytes of a request.
    async fn answer(request: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, Arc::new(Echo), None));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        server.abort();
        String::from_utf8(bytes).unwrap()
    }

    #[tokio::test]
    async fn request_for_reading_is_answered() {
        let text = answer(b"GET /a%20b?x=1 HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\n/a b\n"), "{text}");
        assert!(text.contains("X-Content-Type-Options: nosniff") && !text.contains("x-bad"), "{text}");
        let text = answer(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(text.contains("Content-Length: 2\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    }

    #[tokio::test]
    async fn unsupported_requests_are_refused_at_once() {
        let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(HEAD));
        let cases: [(&[u8], &str); 5] = [
            (b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", "405 "),
            // Runtimes try TLS first, and HTTP only after an answer.
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400 "),
            (b"GET /\r\n\r\n", "400 "),
            (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 "),
            (long.as_bytes(), "4"),
        ];
        for (request, status) in cases {
            let text = answer(request).await;
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{text}");
        }
    }
}
