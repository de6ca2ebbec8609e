//! Proxies from environment variables.

use ureq::Proxy;

use crate::Host;
use crate::net::address::Address;

/// Route to a server.
pub(super) enum Way {
    /// Direct connection.
    Direct,
    /// Tunnel through a proxy that cannot read the traffic.
    Tunnel(Proxy),
    /// Forwarding proxy that gets the whole URL, as usual without encryption.
    Forward(Address),
}

impl Way {
    /// Proxy, for messages.
    pub(super) fn proxy(&self) -> Option<String> {
        match self {
            Way::Direct => None,
            Way::Tunnel(proxy) => Some(format!("{}:{}", proxy.host(), proxy.port())),
            Way::Forward(proxy) => Some(proxy.authority.clone()),
        }
    }
}

/// The route to a URL, by the task's or the host's `http_proxy`, `https_proxy` or `all_proxy`, unless `no_proxy`
/// exempts the server.
pub(super) fn way_to(address: &Address, host: &Host) -> Result<Way, String> {
    // In a CGI program, upper-case HTTP_PROXY comes from a client's header, so it is not trusted there.
    let variable = |name: &str| {
        let upper = name.to_ascii_uppercase();
        let cgi = upper == "HTTP_PROXY" && host.variable("REQUEST_METHOD").is_some();
        host.variable(name).or_else(|| if cgi { None } else { host.variable(&upper) }).filter(|value| !value.is_empty())
    };
    let Some(proxy) = variable(&format!("{}_proxy", address.scheme)).or_else(|| variable("all_proxy")) else {
        return Ok(Way::Direct);
    };
    way_by(&proxy, &variable("no_proxy").unwrap_or_default(), address)
}

/// The route to a URL through a proxy, unless the list exempts the server.
pub(super) fn way_by(proxy: &str, exempted: &str, address: &Address) -> Result<Way, String> {
    if exempt(exempted, address) {
        return Ok(Way::Direct);
    }
    let url = if proxy.contains("://") { proxy.to_owned() } else { format!("http://{proxy}") };
    let bad = || format!("The proxy {} is not the URL of an HTTP proxy", crate::net::address::masked(&url));
    let parsed =
        Address::parse(&url).filter(|proxy| matches!(proxy.scheme.as_str(), "http" | "https")).ok_or_else(bad)?;
    if address.scheme == "http" && parsed.scheme == "http" {
        return Ok(Way::Forward(parsed));
    }
    Proxy::new(&url).map(Way::Tunnel).map_err(|_| bad())
}

/// Whether a list such as `localhost,.example.com,10.0.0.1` contains the server: by name, domain suffix or with its
/// port.
fn exempt(list: &str, address: &Address) -> bool {
    let (host, authority) = (address.host().to_ascii_lowercase(), address.authority.to_ascii_lowercase());
    list.split(',').map(|entry| entry.trim().to_ascii_lowercase()).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.trim_start_matches('*').trim_start_matches('.');
        let ends = |name: &str| name == entry || name.strip_suffix(entry).is_some_and(|front| front.ends_with('.'));
        entry.is_empty() || ends(&host) || ends(&authority) || in_network(entry, &host)
    })
}

/// Whether an address belongs to a network such as `10.0.0.0/8`.
fn in_network(network: &str, host: &str) -> bool {
    let Some((base, bits)) = network.split_once('/') else { return false };
    let parsed = (base.parse::<std::net::Ipv4Addr>(), host.parse::<std::net::Ipv4Addr>(), bits.parse::<u32>());
    let (Ok(base), Ok(host), Ok(bits @ 0..=32)) = parsed else { return false };
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    u32::from(base) & mask == u32::from(host) & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_list_matched() {
        let address = |url: &str| Address::parse(url).unwrap();
        assert!(exempt("localhost,.example.com", &address("http://a.example.com/")));
        assert!(exempt("example.com", &address("http://EXAMPLE.com:80/")));
        assert!(exempt("example.com:80", &address("http://example.com:80/")));
        assert!(exempt("*", &address("http://anything/")));
        assert!(exempt("10.0.0.0/8", &address("http://10.2.3.4/")));
        assert!(!exempt("example.com,10.0.0.0/8", &address("http://badexample.com/")));
        assert!(!exempt("", &address("http://h/")));
    }
}
