//! Request bodies: JSON, forms, and forms with files.

use std::io::Read;

use serde_json::Value;

use crate::{Failure, Host, files::scratch::random_name, process::reason};

/// A body and, if its format has one, its content type.
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    pub(super) content_type: Option<String>,
}

/// Encodes a body in the format `body_format`.
pub(super) fn body(value: &Value, format: &str, host: &Host) -> Result<Body, Failure> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let simple = |bytes: String, content_type: &str| {
        Ok(Body {
            bytes: bytes.into_bytes(),
            content_type: Some(content_type.to_owned()).filter(|name| !name.is_empty()),
        })
    };
    match format {
        "json" => simple(text(value), "application/json"),
        "form-urlencoded" if value.is_string() => simple(text(value), "application/x-www-form-urlencoded"),
        "form-urlencoded" => simple(url_encoded(value)?, "application/x-www-form-urlencoded"),
        "form-multipart" => multipart(value, host),
        _ => simple(text(value), ""),
    }
}

/// Encodes a mapping, whose values may be lists, or a list of pairs as `a=1&b=2`.
fn url_encoded(value: &Value) -> Result<String, Failure> {
    let refuse = || Failure::new("failed to parse body as form_urlencoded: it must be a mapping or a list of pairs");
    let pairs: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => {
            let pair = |item: &'_ Value| -> Option<(String, usize)> {
                let pair = item.as_array().filter(|pair| pair.len() == 2)?;
                Some((plain(pair.first()?)?, 1))
            };
            let mut pairs = Vec::new();
            for item in items {
                let (key, at) = pair(item).ok_or_else(refuse)?;
                pairs.push((key, item.get(at).ok_or_else(refuse)?));
            }
            pairs
        }
        _ => return Err(refuse()),
    };
    let mut parts = Vec::new();
    for (key, value) in pairs {
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values.iter().filter(|value| !value.is_null()) {
            parts.push(format!("{}={}", quoted(&key), quoted(&plain(value).ok_or_else(refuse)?)));
        }
    }
    Ok(parts.join("&"))
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        // Booleans have Python's notation.
        Value::Bool(value) => Some(if *value { "True" } else { "False" }.to_owned()),
        _ => None,
    }
}

/// Percent-encodes a text for a form or query.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// Encodes a form whose fields may be files: `{filename, content, mime_type}`. `_content` is the index of a
/// controller's content.
fn multipart(value: &Value, host: &Host) -> Result<Body, Failure> {
    let fields = value
        .as_object()
        .ok_or_else(|| Failure::new("failed to parse body as form-multipart: it must be a mapping"))?;
    let boundary =
        random_name().map_err(|error| Failure::new(format!("The host gave no random numbers: {}.", reason(&error))))?;
    let mut bytes = Vec::new();
    for (name, field) in fields {
        bytes
            .extend(format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", escaped(name)).into_bytes());
        let option = |key: &str| field.get(key).and_then(Value::as_str);
        if field.is_object() {
            let path = option("filename");
            let sent = field.get("_content").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
            let content = match (option("content"), sent, path) {
                (Some(content), _, _) => content.as_bytes().to_vec(),
                (None, Some(index), _) => {
                    let mut bytes = Vec::new();
                    host.read_content(index)?.read_to_end(&mut bytes).map_err(|error| {
                        Failure::new(format!("The file of the field {name} could not be read: {}.", reason(&error)))
                    })?;
                    bytes
                }
                (None, None, Some(path)) => crate::files::way::read(path.as_ref()).map_err(|error| {
                    Failure::new(format!("Unable to open file {path} of the body: {}.", reason(&error)))
                })?,
                (None, None, None) => {
                    return Err(Failure::new(format!(
                        "failed to parse body as form-multipart: the field {name} needs content or filename"
                    )));
                }
            };
            if let Some(path) = path {
                let file = path.rsplit('/').next().unwrap_or_default();
                bytes.extend(format!("; filename=\"{}\"", escaped(file)).into_bytes());
            }
            let kind = option("mime_type").unwrap_or("application/octet-stream");
            bytes.extend(format!("\r\nContent-Type: {}\r\n\r\n", escaped(kind)).into_bytes());
            bytes.extend(content);
        } else {
            let text = plain(field).unwrap_or_else(|| field.to_string());
            bytes.extend(format!("\r\n\r\n{text}").into_bytes());
        }
        bytes.extend(b"\r\n");
    }
    bytes.extend(format!("--{boundary}--\r\n").into_bytes());
    Ok(Body { bytes, content_type: Some(format!("multipart/form-data; boundary={boundary}")) })
}

fn escaped(name: &str) -> String {
    name.replace('"', "%22").replace(['\r', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn form_values_encoded() {
        let form =
            |value: Value| String::from_utf8(body(&value, "form-urlencoded", &Host::alone()).unwrap().bytes).unwrap();
        assert_eq!(
            form(json!({ "a b": "c&d", "n": 1, "l": ["x", "y"], "t": true, "none": null })),
            "a+b=c%26d&n=1&l=x&l=y&t=True"
        );
        assert_eq!(form(json!([["a", "1"], ["a", "2"]])), "a=1&a=2");
        assert_eq!(form(json!("as=it&is")), "as=it&is");
        assert!(body(&json!([1]), "form-urlencoded", &Host::alone()).is_err());
    }

    #[test]
    fn form_with_files_encoded() {
        let made = body(
            &json!({ "a": "1", "f": { "filename": "/x/y.txt", "content": "text" } }),
            "form-multipart",
            &Host::alone(),
        )
        .unwrap();
        let text = String::from_utf8(made.bytes).unwrap();
        assert!(
            text.contains("name=\"a\"\r\n\r\n1\r\n") && text.contains("filename=\"y.txt\"") && text.ends_with("--\r\n")
        );
        assert!(body(&json!({ "f": {} }), "form-multipart", &Host::alone()).is_err());
    }

    #[test]
    fn media_type_of_a_file_adds_no_lines_to_the_form() {
        let field = json!({ "f": { "content": "text", "mime_type": "text/x\r\nX-Other: y" } });
        let made = body(&field, "form-multipart", &Host::alone()).unwrap();
        assert!(String::from_utf8(made.bytes).unwrap().contains("Content-Type: text/x  X-Other: y\r\n\r\ntext"));
    }
}
