//! The fields of a form that a client sends.

use std::pin::Pin;
use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::{StatusCode, header};

use super::Answer;
use super::request::values;

/// Maximum size of a form, in bytes.
const SIZE: usize = 64 << 10;
/// Maximum number of fields.
const FIELDS: usize = 512;
/// Time for a client to send its form.
const DEADLINE: Duration = Duration::from_secs(10);

/// Reads the fields of a form in their order. Fails with the answer to a request without a form, or with too large a
/// one.
pub(super) async fn read(request: hyper::Request<Incoming>) -> Result<Vec<(String, String)>, Answer> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        let refusal = "only forms are taken, as `application/x-www-form-urlencoded`";
        return Err(Answer::sentence(StatusCode::UNSUPPORTED_MEDIA_TYPE, refusal));
    }
    let late = || {
        let refusal = format!("the form was not complete within {} s; send it again", DEADLINE.as_secs());
        Answer::sentence(StatusCode::REQUEST_TIMEOUT, &refusal)
    };
    let bytes = tokio::time::timeout(DEADLINE, bytes(request.into_body())).await.unwrap_or_else(|_| Err(late()))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Answer::sentence(StatusCode::BAD_REQUEST, "the form is not encoded as a browser encodes it"))?;
    let fields: Vec<(String, String)> = values(&text).take(FIELDS + 1).collect();
    if fields.len() > FIELDS {
        return Err(too_large());
    }
    Ok(fields)
}

async fn bytes(mut body: Incoming) -> Result<Vec<u8>, Answer> {
    let mut bytes = Vec::new();
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| Answer::sentence(StatusCode::BAD_REQUEST, "the form is not complete"))?;
        let data = frame.into_data().unwrap_or_default();
        if bytes.len() + data.len() > SIZE {
            return Err(too_large());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn too_large() -> Answer {
    let refusal = format!("the form has more than {} KiB or {FIELDS} fields, which is the limit", SIZE >> 10);
    Answer::sentence(StatusCode::PAYLOAD_TOO_LARGE, &refusal)
}
