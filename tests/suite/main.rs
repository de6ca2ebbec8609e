//! Behaviour of the whole program, by subject. One program for all of them: linking each by itself would take longer
//! than most of them run.

#![recursion_limit = "256"]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it is skipped"
)]

#[allow(dead_code, reason = "the kill loop also decides by it")]
#[path = "../kill/chance.rs"]
mod chance;
#[path = "../common/memory.rs"]
mod memory;
#[path = "../kill/network.rs"]
mod network;
#[path = "../common/page.rs"]
mod page;
#[path = "../common/project.rs"]
mod project;
#[path = "../common/screen.rs"]
mod screen;
#[path = "../common/sources.rs"]
mod sources;
#[path = "../common/stand_ins.rs"]
mod stand_ins;
#[path = "../../crates/ssh/tests/support/mod.rs"]
mod support;
#[path = "../common/terminal.rs"]
mod terminal;

mod action_plugins;
mod addons;
mod adhoc;
mod adopt;
mod backup_archive;
mod bundle;
mod cache_plugins;
mod callback_plugins;
mod catalog;
mod certificates;
mod cis;
mod cluster_inventory;
mod commands;
mod completion;
mod components;
mod console;
mod deadlines;
mod delegation;
mod docs;
mod during_a_run;
mod encryption;
mod endings;
mod engine;
mod errors;
mod exec_connections;
mod executor;
mod explain;
mod failures;
mod fleet;
mod foreign;
mod hints;
mod host_keys;
mod host_lock;
mod host_state;
mod init;
mod inventory;
mod inventory_plugins;
mod journal;
mod kubectl_lines;
mod kubespray_variables;
mod layers;
mod limits;
mod lint;
mod looped_blocks;
mod lost_connections;
mod lsp;
mod majority;
mod masking;
mod misspelt;
mod older_playbooks;
mod open_files;
mod otlp;
mod parallel_loops;
mod peers;
mod plan;
mod ran;
mod reconcile;
mod rendered;
mod rendering;
mod report;
mod resume;
mod resumed_variables;
mod roles;
mod rollback;
mod serve;
mod shards;
mod sops;
mod stream;
mod synchronize;
mod upgrade;
mod vault_tree;
mod verify;
