//! Jinja as Ansible means it.
