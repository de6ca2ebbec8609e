//! The lock that lets one change of a cluster's members happen at a time, whichever run, host or task makes it.
//!
//! It is a key in the cluster itself, because hosts, runs and processes share nothing else. Its lease ends by itself if
//! the holder is killed. A lock can be held only while there is a majority, and without one nothing can be lost.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::{
    super::turn::{self, Turn},
    client::Client,
    cluster::{Observed, unreadable},
};
use crate::{Failure, Host};

/// Key of the lock.
const KEY: &str = "/windlass/members";
/// Seconds by which a lease outlasts the longest change.
const MARGIN: u64 = 30;

/// The lock, unless no endpoint reaches a majority: then nobody holds it. Dropping it releases it.
pub(super) struct Lock<'a> {
    client: Client,
    /// The endpoint that took the lock. It has applied every change that former holders made.
    pinned: Client,
    lease: Option<String>,
    host: &'a Host,
}

impl<'a> Lock<'a> {
    /// Waits for the lock. It ends by itself when a change that takes `longest` must be over.
    pub(super) fn take(client: &Client, longest: Duration, host: &'a Host) -> Result<Lock<'a>, Failure> {
        let seconds = (longest.as_secs() + MARGIN).to_string();
        turn::take("the members of this etcd cluster", &format!("the key {KEY} in etcd"), host, || {
            let healthy = client.healthy(host);
            if healthy.endpoints.is_empty() {
                return Ok(Turn::Held(Lock { client: client.clone(), pinned: client.clone(), lease: None, host }));
            }
            attempt(client, &healthy, &seconds, host)
        })
    }

    /// The client of the endpoint that has all changes of former holders.
    pub(super) fn pinned(&self) -> &Client {
        &self.pinned
    }

    /// Members and their health, with the changes of all former holders.
    pub(super) fn observe(&self) -> Result<Observed, Failure> {
        self.pinned.observe(self.host)
    }

    /// Extends the lock to its full time before a change that a majority allowed. Fails if nobody holds it any more, so
    /// that a late change does not begin.
    pub(super) fn renew(&self) -> Result<(), Failure> {
        let Some(lease) = &self.lease else {
            return Err(Failure::new(
                "etcd had no majority when the lock of its members was wanted, and has one now. Nothing was changed. Run the task again.",
            ));
        };
        let words = ["lease", "keep-alive", "--once", lease];
        let renewed = self.pinned.run(self.host, &words).or_else(|_| self.client.run(self.host, &words));
        renewed.map(drop).map_err(|failure| {
            Failure::new(format!(
                "The lock {KEY} of etcd's members was lost before the change, so nothing was changed. Run the task again. ({})",
                failure.message
            ))
        })
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        let Some(lease) = &self.lease else { return };
        let words = ["lease", "revoke", lease];
        // A cancelled task releases its lock too.
        let host = self.host.beside();
        if self.pinned.run(&host, &words).is_err() {
            let _ = self.client.run(&host, &words);
        }
    }
}

/// Takes the lock if nobody holds it, through the first endpoint that grants a lease.
fn attempt<'a>(client: &Client, healthy: &Client, seconds: &str, host: &'a Host) -> Result<Turn<Lock<'a>>, Failure> {
    let mut refusal = Failure::new("No endpoint of etcd answers.");
    for endpoint in &healthy.endpoints {
        let pinned = client.at(endpoint);
        match pinned.run(host, &["lease", "grant", seconds]) {
            Ok(answer) => {
                let lease = lease(&answer).ok_or_else(|| unreadable("lease grant", &answer))?;
                return with_lease(client, pinned, lease, host);
            }
            Err(failure) => refusal = failure,
        }
    }
    Err(refusal)
}

fn with_lease<'a>(client: &Client, pinned: Client, lease: String, host: &'a Host) -> Result<Turn<Lock<'a>>, Failure> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name: String = name.chars().filter(|one| one.is_ascii_alphanumeric() || "-._".contains(*one)).collect();
    let words = format!("create(\"{KEY}\") = \"0\"\n\nput --lease={lease} {KEY} host:{name}\n\nget {KEY}\n\n");
    // Without an answer the key may have been written. Dropping the lock takes it back with the lease.
    let lock = Lock { client: client.clone(), pinned, lease: Some(lease), host };
    let answer = lock.pinned.feed(host, &["txn"], &words)?;
    let answer: Value = serde_json::from_str(answer.trim()).map_err(|_| unreadable("txn", &answer))?;
    if answer["succeeded"] == true {
        return Ok(Turn::Held(lock));
    }
    let found = &answer["responses"][0]["Response"]["ResponseRange"]["kvs"][0]["value"];
    let holder = found.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok()).unwrap_or_default();
    Ok(Turn::Busy(String::from_utf8_lossy(&holder).trim_start_matches("host:").to_owned()))
}

/// Hexadecimal id of a granted lease.
fn lease(answer: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(answer.trim()).ok()?;
    Some(format!("{:x}", answer["ID"].as_u64()?))
}
