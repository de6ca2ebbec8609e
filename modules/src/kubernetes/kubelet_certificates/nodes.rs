//! Names and addresses that the inventory gives to each node, and the judgement of a request by them. Reads nothing of
//! a host and changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::request::Request;
use crate::Failure;

pub(super) const SIGNER: &str = "kubernetes.io/kubelet-serving";
const USER: &str = "system:node:";
const GROUP: &str = "system:nodes";

/// A name or an address in a certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum San {
    Name(String),
    Address(IpAddr),
}

impl San {
    fn of(text: &str) -> San {
        text.parse().map_or_else(|_| San::Name(text.to_owned()), San::Address)
    }
}

impl std::fmt::Display for San {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            San::Name(name) => name.fmt(formatter),
            San::Address(address) => address.fmt(formatter),
        }
    }
}

/// Per node: its names and addresses.
pub(super) struct Nodes(BTreeMap<String, BTreeSet<San>>);

impl Nodes {
    /// Reads the option `nodes`.
    pub(super) fn read(given: &Value) -> Result<Nodes, Failure> {
        let wrong = || Failure::new("`nodes` must map each node to a list of its names and addresses.");
        let mut nodes = BTreeMap::new();
        for (node, names) in given.as_object().ok_or_else(wrong)? {
            let names = names.as_array().ok_or_else(wrong)?;
            let names = names.iter().map(|name| name.as_str().map(San::of).ok_or_else(wrong));
            nodes.insert(node.clone(), names.collect::<Result<BTreeSet<San>, Failure>>()?);
        }
        Ok(Nodes(nodes))
    }

    /// The node that a request is for, if its kubelet may have what it requests; otherwise the reason against it.
    pub(super) fn judge(&self, object: &Value) -> Result<&str, String> {
        let spec = &object["spec"];
        if spec["signerName"] != SIGNER {
            return Err("it is for another signer".to_owned());
        }
        let user = spec["username"].as_str().and_then(|user| user.strip_prefix(USER)).ok_or("no node requests it")?;
        let (node, allowed) = self.0.get_key_value(user).ok_or("the inventory has no such node")?;
        if !spec["groups"].as_array().is_some_and(|groups| groups.iter().any(|group| group == GROUP)) {
            return Err(format!("its user is not in the group {GROUP}"));
        }
        let pem = spec["request"].as_str().and_then(|text| STANDARD.decode(text).ok()).ok_or("it is not in base64")?;
        let request = Request::read(&pem)?;
        if request.common_name.strip_prefix(USER) != Some(node) || request.organization != GROUP {
            return Err("its subject is not that of the node which requests it".to_owned());
        }
        usages(&spec["usages"])?;
        match request.names.iter().find(|name| !allowed.contains(name)) {
            Some(name) => Err(format!("the inventory does not give {name} to this node")),
            None => Ok(node),
        }
    }
}

/// Usages of a server's certificate. Kubelets before 1.27 request `key encipherment` for keys of every type.
fn usages(usages: &Value) -> Result<(), &'static str> {
    const WRONG: &str = "its usages are not a server's";
    const KNOWN: [&str; 3] = ["server auth", "digital signature", "key encipherment"];
    let usages: Option<Vec<&str>> = usages.as_array().ok_or(WRONG)?.iter().map(Value::as_str).collect();
    let usages = usages.ok_or(WRONG)?;
    let right = usages.contains(&"server auth") && usages.iter().all(|usage| KNOWN.contains(usage));
    right.then_some(()).ok_or(WRONG)
}
