//! Windlass: an Ansible-compatible, agentless automation framework.

pub mod connection;
pub mod executor;
