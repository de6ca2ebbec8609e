//! URLs: their parts, file names and redirects.

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Scheme in lower case: `http`, `https` or `file`.
    pub(crate) scheme: String,
    /// Decoded user and password.
    pub(crate) credentials: Option<(String, String)>,
    /// Host and port.
    pub(crate) authority: String,
    /// Path and query, with a leading slash.
    pub(crate) path: String,
}

impl Address {
    /// Parses a URL. The fragment is dropped, because servers never see it.
    pub(crate) fn parse(url: &str) -> Option<Address> {
        let (scheme, rest) = url.trim().split_once("://").or_else(|| {
            // `file:/path` is a common notation.
            url.trim()
                .split_once(':')
                .filter(|(scheme, rest)| scheme.eq_ignore_ascii_case("file") && rest.starts_with('/'))
        })?;
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (credentials, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => {
                let (user, password) = user.split_once(':').unwrap_or((user, ""));
                (Some((decode(user), decode(password))), authority)
            }
            None => (None, authority),
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Some(Address { scheme: scheme.to_ascii_lowercase(), credentials, authority: authority.to_owned(), path })
    }

    /// The URL without credentials.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.path)
    }

    /// The host without its port.
    pub(crate) fn host(&self) -> &str {
        if let Some(rest) = self.authority.strip_prefix('[') {
            return rest.split(']').next().unwrap_or_default();
        }
        self.authority.split(':').next().unwrap_or_default()
    }

    /// Whether the host is this host itself.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.host();
        host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// The port, otherwise the scheme's default.
    pub(crate) fn port(&self) -> u16 {
        let usual = if self.scheme == "https" { 443 } else { 80 };
        let tail = self.authority.rsplit_once(']').map_or(self.authority.as_str(), |(_, tail)| tail);
        tail.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(usual)
    }

    /// The decoded path without the query.
    pub(crate) fn file_path(&self) -> String {
        decode(self.path.split('?').next().unwrap_or_default())
    }

    /// The last part of the path; `index.html` if it is empty.
    pub(crate) fn file_name(&self) -> &str {
        let path = self.path.split('?').next().unwrap_or_default();
        match path.rsplit('/').next() {
            Some("" | "." | "..") | None => "index.html",
            Some(name) => name,
        }
    }

    /// Resolves a `Location` header against this URL.
    pub(crate) fn join(&self, location: &str) -> Option<Address> {
        let location = location.trim();
        let scheme = location.split([':', '/', '?']).next().unwrap_or_default();
        if location.get(scheme.len()..).is_some_and(|rest| rest.starts_with("://")) {
            return Address::parse(location);
        }
        if location.starts_with("//") {
            return Address::parse(&format!("{}:{location}", self.scheme));
        }
        let location = location.split('#').next().unwrap_or_default();
        let base = self.path.split('?').next().unwrap_or_default();
        let path = if location.starts_with('/') {
            location.to_owned()
        } else if location.is_empty() || location.starts_with('?') {
            format!("{base}{location}")
        } else {
            let directory = base.rsplit_once('/').map_or("", |(directory, _)| directory);
            without_dots(&format!("{directory}/{location}"))
        };
        Some(Address { path, credentials: None, ..self.clone() })
    }
}

fn without_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').skip(1) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}{query}", parts.join("/"))
}

/// A URL with its password masked.
pub(crate) fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:********@{host}{path}")
        }
        _ => url.to_owned(),
    }
}

/// Decodes percent escapes, such as `%41` to `A`.
pub(crate) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let pair = tail.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_parsed_into_parts() {
        let address = Address::parse("HTTPS://me:p%40ss@example.com:8443/a/b%20c.tgz?x=1#top").unwrap();
        assert_eq!(address.scheme, "https");
        assert_eq!(address.credentials, Some(("me".into(), "p@ss".into())));
        assert_eq!((address.host(), address.file_name()), ("example.com", "b%20c.tgz"));
        assert_eq!(address.url(), "https://example.com:8443/a/b%20c.tgz?x=1");
        let six = Address::parse("http://[::1]:81").unwrap();
        assert_eq!((six.host(), six.port()), ("::1", 81));
        assert_eq!((Address::parse("https://[::1]").unwrap().port(), address.port()), (443, 8443));
        assert_eq!(Address::parse("http://h/").unwrap().file_name(), "index.html");
        assert_eq!(Address::parse("file:/tmp/a%20b").unwrap().file_path(), "/tmp/a b");
        assert_eq!(Address::parse("file:///tmp/a").unwrap().file_path(), "/tmp/a");
        assert_eq!(Address::parse("nonsense"), None);
    }

    #[test]
    fn location_joined_to_url() {
        let from = Address::parse("http://a:b@h:1/x/y?q").unwrap();
        let to = |location: &str| from.join(location).unwrap().url();
        assert_eq!(to("https://other/z"), "https://other/z");
        assert_eq!(to("//other/z"), "http://other/z");
        assert_eq!(to("/z?u=http://n"), "http://h:1/z?u=http://n");
        assert_eq!(to("z"), "http://h:1/x/z");
        assert_eq!(to("../z/./w"), "http://h:1/z/w");
        assert_eq!(to("?r"), "http://h:1/x/y?r");
        assert_eq!(from.join("/z").unwrap().credentials, None);
    }

    #[test]
    fn url_with_password_masked() {
        assert_eq!(masked("http://me:secret@h/a@b"), "http://me:********@h/a@b");
        assert_eq!(masked("http://me@h/"), "http://me@h/");
    }
}
