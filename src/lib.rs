//! Windlass: an Ansible-compatible, agentless automation framework.
