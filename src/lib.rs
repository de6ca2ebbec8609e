//! Windlass: an Ansible-compatible, agentless automation framework.
//!
//! Stages of a run: [`settings`] resolves the command line, environment and ansible.cfg. [`loader`] reads the project
//! into the plays of [`playbook`]. [`plan`] gives every host a cursor over them, and [`strategy`] selects the next
//! step for all hosts. [`vars`] and the template engine evaluate it. [`action`] does the controller's half and sends
//! the rest through [`executor`] over a [`connection`]. [`output`] displays events; [`planned`] collects a check
//! run's events into a plan. [`report`] describes recorded runs. [`lint`] checks a project without a run, and [`lsp`]
//! does so for editors.
//!
//! [`serve`] shows runs and inventories as pages. [`reconcile`], [`bundle`] and `engine` work above runs: they start
//! playbooks as runs of their own.

pub mod action;
mod builtin;
pub mod bundle;
pub mod cli;
pub mod connection;
mod engine;
pub mod error;
pub mod executor;
pub mod foreign;
mod html;
mod http;
pub mod journal;
pub mod lint;
pub mod loader;
pub mod lsp;
mod memory;
pub mod outcome;
pub mod output;
mod own_program;
mod pages;
mod panics;
mod paths;
pub mod plan;
pub mod planned;
pub mod playbook;
pub mod reconcile;
mod replace;
pub mod report;
pub mod serve;
pub mod settings;
mod shards;
mod signals;
pub mod strategy;
pub mod vars;
