//! A request, as data that anybody may have sent.

use std::net::SocketAddr;

use hyper::header;

/// Maximum number of values in the query of an address.
const VALUES: usize = 32;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// Path with its percent escapes decoded.
    pub(crate) path: String,
    /// Values of the query, decoded, in their order.
    pub(crate) query: Vec<(String, String)>,
    /// Host that the client wants, with its port.
    pub(crate) host: Option<String>,
    /// Address of the client.
    pub(crate) peer: SocketAddr,
    /// Fields of the form that was sent by POST, decoded, in their order; `None` for a request to read something.
    pub(crate) form: Option<Vec<(String, String)>>,
    /// Origin of the page that sent a form, as its browser states it.
    pub(crate) origin: Option<String>,
    /// `Sec-Fetch-Site`: relation of that page to this server, as its browser states it.
    pub(crate) fetch_site: Option<String>,
    cookies: String,
}

impl Request {
    /// The parts of a request that are needed, without its form. `None` if one is not text, or if a header that may
    /// occur once occurs again.
    pub(super) fn of<B>(request: &hyper::Request<B>, peer: SocketAddr) -> Option<Request> {
        let uri = request.uri();
        let named = only(request.headers(), "host")?;
        // An absolute address outranks the header.
        let host = uri.authority().map(|authority| authority.as_str()).or(named);
        let cookies = request.headers().get_all(header::COOKIE).iter().map(header::HeaderValue::to_str);
        let cookies = cookies.collect::<Result<Vec<_>, _>>().ok()?.join("; ");
        Some(Request {
            path: unescaped(uri.path()),
            query: uri.query().map(|query| values(query).take(VALUES).collect()).unwrap_or_default(),
            host: host.map(str::to_owned),
            peer,
            form: None,
            origin: only(request.headers(), "origin")?.map(str::to_owned),
            fetch_site: only(request.headers(), "sec-fetch-site")?.map(str::to_owned),
            cookies,
        })
    }

    /// First value of the query with this name.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// First field of the form with this name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.form.as_ref()?.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Values of the cookies with this name.
    pub(crate) fn cookies<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let pairs = self.cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(move |(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// The value of a header, `Some(None)` without one; `None` if it is not text, or occurs more than once.
fn only<'a>(headers: &'a header::HeaderMap, name: &str) -> Option<Option<&'a str>> {
    let mut all = headers.get_all(name).iter();
    let value = all.next().map(header::HeaderValue::to_str).transpose().ok()?;
    all.next().is_none().then_some(value)
}

/// Names and values of a query, or of a form.
pub(super) fn values(text: &str) -> impl Iterator<Item = (String, String)> {
    let pair = |text: &str| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        (decoded(name, Plus::Space), decoded(value, Plus::Space))
    };
    text.split('&').filter(|text| !text.is_empty()).map(pair)
}

/// Meaning of `+`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plus {
    Literal,
    /// As forms write it.
    Space,
}

/// Text with its percent escapes decoded.
fn decoded(text: &str, plus: Plus) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escape =
            after.get(..2).filter(|_| *first == b'%').filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let escape = escape.and_then(|digits| std::str::from_utf8(digits).ok());
        rest = after;
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None if *first == b'+' && plus == Plus::Space => bytes.push(b' '),
            None => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A part of an address with its percent escapes decoded.
pub(crate) fn unescaped(text: &str) -> String {
    decoded(text, Plus::Literal)
}

/// Text as a part of an address: everything but letters and digits of ASCII, `-`, `.`, `_` and `~` becomes an escape.
pub(crate) fn encoded(text: &str) -> String {
    let mut address = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => address.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => address.push(char::from(byte)),
            byte => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(address: &str, headers: &[(&str, &str)]) -> Option<Request> {
        let mut builder = hyper::Request::builder().uri(address);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        Request::of(&builder.body(()).unwrap(), SocketAddr::from(([127, 0, 0, 1], 1)))
    }

    #[test]
    fn query_and_cookies_are_decoded() {
        let read = request("/a%2Fb+c?q=x+y%26&q=z&empty&=", &[("cookie", "a=1; t=2"), ("cookie", "t=3")]).unwrap();
        assert_eq!(read.path, "/a/b+c");
        assert_eq!((read.value("q"), read.value("empty"), read.value("none")), (Some("x y&"), Some(""), None));
        assert_eq!(read.cookies("t").collect::<Vec<_>>(), ["2", "3"]);
    }

    #[test]
    fn host_of_absolute_address_outranks_header() {
        let named = |address, headers: &[_]| request(address, headers).map(|request| request.host);
        assert_eq!(named("http://a:1/", &[("host", "b")]), Some(Some("a:1".to_owned())));
        assert_eq!(named("/", &[("host", "b")]), Some(Some("b".to_owned())));
        assert_eq!(named("/", &[]), Some(None));
        assert_eq!(named("/", &[("host", "a"), ("host", "b")]), None);
    }

    #[test]
    fn encoded_text_is_decoded_to_itself() {
        for text in ["", "a b", "%zz%", "ü/\u{202e}\"<>&=+#?", "a+b"] {
            let address = encoded(text);
            assert!(address.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte)), "{address}");
            assert_eq!(decoded(&address, Plus::Space), text);
        }
    }
}
