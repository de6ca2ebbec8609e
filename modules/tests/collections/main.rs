//! Modules of collections: in check mode, for real and again, with the host's own programs or with simulated ones.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../case/mod.rs"]
mod case;
mod certificates;
mod firewalld;
mod kubernetes;
mod managers;
mod packages;
#[path = "../server/mod.rs"]
mod server;
mod ssh_config;
mod storage;
mod synchronize;

use serde_json::Value;
use windlass_testing::has;

/// Adds arguments to others.
fn with(args: &Value, more: Value) -> Value {
    let mut args = args.clone();
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    args
}
