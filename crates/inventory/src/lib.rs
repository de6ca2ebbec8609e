//! Ansible inventories and host patterns.
