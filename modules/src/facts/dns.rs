//! Name servers of the host, as resolv.conf(5) names them.

use serde_json::Value;

use super::{Facts, Root};
use crate::Map;

/// `dns`.
pub(crate) fn collect(root: &Root, facts: &mut Facts) {
    facts.set("dns", resolv_conf(&root.read("/etc/resolv.conf").unwrap_or_default()));
}

fn resolv_conf(text: &str) -> Map {
    let mut dns = Map::new();
    for line in text.lines() {
        if line.starts_with(['#', ';']) {
            continue;
        }
        let mut words = line.split_whitespace();
        let Some(key) = words.next() else { continue };
        match key {
            "nameserver" => {
                let servers = dns.entry("nameservers").or_insert_with(|| Vec::<String>::new().into());
                if let Some(servers) = servers.as_array_mut() {
                    servers.extend(words.map(Value::from));
                }
            }
            "domain" => {
                if let Some(domain) = words.next() {
                    dns.insert("domain".into(), domain.into());
                }
            }
            "search" | "sortlist" => {
                dns.insert(key.to_owned(), words.collect::<Vec<_>>().into());
            }
            "options" => {
                // Only the last line of options counts.
                let mut options = Map::new();
                for word in words {
                    let (name, value) = word.split_once(':').unwrap_or((word, ""));
                    let value = if value.is_empty() { true.into() } else { Value::from(value) };
                    options.insert(name.to_owned(), value);
                }
                dns.insert("options".into(), options.into());
            }
            _ => {}
        }
    }
    dns
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resolv_conf_parsed() {
        let dns = resolv_conf(
            "# made\nnameserver 10.0.0.1\nnameserver 10.0.0.2\nsearch a.example b.example\noptions ndots:2 rotate\n",
        );
        assert_eq!(
            Value::from(dns),
            json!({"nameservers": ["10.0.0.1", "10.0.0.2"], "search": ["a.example", "b.example"], "options": {"ndots": "2", "rotate": true}})
        );
    }
}
