//! Ansible Vault envelopes.
