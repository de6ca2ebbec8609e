//! Host patterns and limits, with the results of ansible-core.
#![allow(missing_docs, clippy::unwrap_used)]

use windlass_inventory::{Error, Inventory, LoadOptions, Warning};

const HOSTS: &str = "alone\n[web]\nweb[1:4]\n[db]\ndb1\ndb2\nweb4\n[eu]\nweb1\nweb2\ndb1\n[site:children]\nweb\ndb\n[old]\nweb2\n10.0.0.1\n";

fn inventory() -> Inventory {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hosts");
    std::fs::write(&path, HOSTS).unwrap();
    Inventory::load(&[path.display().to_string()], &LoadOptions::default()).unwrap().0
}

#[test]
fn pattern_matches_same_hosts_as_ansible() {
    let inventory = inventory();
    for (pattern, expected) in [
        ("all", "alone web2 10.0.0.1 web1 db1 web3 web4 db2"),
        ("web", "web1 web2 web3 web4"),
        ("site", "web1 web2 web3 web4 db1 db2"),
        ("web:db", "web1 web2 web3 web4 db1 db2"),
        ("web,db1", "web1 web2 web3 web4 db1"),
        ("web:&eu", "web1 web2"),
        ("!old:web", "web1 web3 web4"),
        ("web:&eu:!old", "web1"),
        ("&eu", "web2 web1 db1"),
        ("web[0]", "web1"),
        ("web[-1]", "web4"),
        ("web[1:2]", "web2 web3"),
        ("web[2:]", "web3 web4"),
        ("web[0:0]", "web1"),
        ("web[1-2]", "web2 web3"),
        ("w*", "web1 web2 web3 web4"),
        ("web?", "web1 web2 web3 web4"),
        ("[wd]*1", "web1 db1"),
        ("db*[0]", "db1"),
        ("~web[13]", "web1 web3"),
        ("~web(?P<n>1)|web(?!2)3|db2$", "web1 web3 db2"),
        ("~(web|db)1$", "web1 db1"),
        ("10.*", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("ungrouped", "alone"),
        ("localhost", "localhost"),
        ("::1", "::1"),
        ("web1,localhost", "web1 localhost"),
        ("", "alone web2 10.0.0.1 web1 db1 web3 web4 db2"),
    ] {
        let mut found: Vec<_> =
            inventory.matching(pattern).unwrap().hosts.iter().map(|name| name.to_string()).collect();
        let mut wanted: Vec<_> = expected.split(' ').map(str::to_owned).collect();
        // Ansible does not define the order of groups below a group's children.
        if pattern.is_empty() || pattern == "all" || pattern == "&eu" {
            found.sort();
            wanted.sort();
        }
        assert_eq!(found, wanted, "{pattern}");
    }
}

#[test]
fn pattern_list_evaluated_as_a_whole() {
    let matches = inventory().matching_list(&["web:db", "!old", "&eu"]).unwrap();
    assert_eq!(matches.hosts.join(" "), "web1 db1");
}

#[test]
fn pattern_without_match_warns() {
    let matches = inventory().matching("nosuch:web1").unwrap();
    assert_eq!(matches.hosts.len(), 1);
    assert!(matches!(&matches.warnings[..], [Warning::NoMatch { pattern }] if pattern == "nosuch"));
}

#[test]
fn broken_pattern_refused() {
    let inventory = inventory();
    for pattern in ["web[9]", "~(", "web:db[5]"] {
        let error = inventory.matching(pattern).unwrap_err();
        assert!(matches!(error, Error::Pattern { .. }), "{pattern}: {error}");
    }
}

#[test]
fn a_limit_keeps_the_order_of_the_pattern() {
    let mut inventory = inventory();
    assert!(inventory.set_limit(Some("db:web1:!db2")).unwrap().is_empty());
    assert_eq!(inventory.matching("site").unwrap().hosts.join(" "), "web1 web4 db1");
    assert_eq!(inventory.matching_without_limit("db").unwrap().hosts.len(), 3);
    inventory.set_limit(Some(",")).unwrap();
    assert!(!inventory.is_limited());
    inventory.set_limit(Some("localhost")).unwrap();
    assert_eq!(inventory.matching("localhost").unwrap().hosts.join(" "), "localhost");
}

#[test]
fn a_limit_may_come_from_a_file() {
    let mut inventory = inventory();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("failed.retry");
    std::fs::write(&file, "web1\n\n db1 \n").unwrap();
    inventory.set_limit(Some(&format!("@{}", file.display()))).unwrap();
    assert_eq!(inventory.matching("all").unwrap().hosts.len(), 2);
    std::fs::write(&file, "\n").unwrap();
    let warnings = inventory.set_limit(Some(&format!("@{}", file.display()))).unwrap();
    assert!(warnings[0].to_string().contains("has no host patterns"), "{warnings:?}");
    assert!(inventory.excludes_all() && inventory.matching("all").unwrap().hosts.is_empty());
    assert!(inventory.set_limit(Some("@/nonexistent")).is_err());
}
