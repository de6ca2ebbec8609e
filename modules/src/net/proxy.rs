//! Proxies as environment variables name them.

use ureq::Proxy;

use super::address::Address;
use crate::Host;

/// The proxy for a URL: the task's or the host's `http_proxy`, `https_proxy` or `all_proxy`, unless `no_proxy` names the server.
pub(super) fn of(address: &Address, host: &Host) -> Result<Option<Proxy>, String> {
    // Upper-case HTTP_PROXY is what a CGI program gets from its client's header, so there it is not believed.
    let variable = |name: &str| {
        let upper = name.to_ascii_uppercase();
        let cgi = upper == "HTTP_PROXY" && host.variable("REQUEST_METHOD").is_some();
        host.variable(name).or_else(|| if cgi { None } else { host.variable(&upper) }).filter(|value| !value.is_empty())
    };
    let Some(proxy) = variable(&format!("{}_proxy", address.scheme)).or_else(|| variable("all_proxy")) else {
        return Ok(None);
    };
    if variable("no_proxy").is_some_and(|list| exempt(&list, address)) {
        return Ok(None);
    }
    match Proxy::new(&proxy) {
        Ok(proxy) => Ok(Some(proxy)),
        Err(_) => {
            Err(format!("The proxy {} of the environment is not a URL of a proxy", super::address::masked(&proxy)))
        }
    }
}

/// Whether a list such as `localhost,.example.com,10.0.0.1` has the server: by name, by the end of its name, or with its port.
fn exempt(list: &str, address: &Address) -> bool {
    let (host, authority) = (address.host().to_ascii_lowercase(), address.authority.to_ascii_lowercase());
    list.split(',').map(|entry| entry.trim().to_ascii_lowercase()).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.trim_start_matches('*').trim_start_matches('.');
        let ends = |name: &str| name == entry || name.strip_suffix(entry).is_some_and(|front| front.ends_with('.'));
        entry.is_empty() || ends(&host) || ends(&authority) || in_network(entry, &host)
    })
}

/// Whether an address lies in a network such as `10.0.0.0/8`.
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
    fn servers_that_need_no_proxy() {
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
