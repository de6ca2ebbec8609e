//! YAML 1.1 with positions, as Ansible reads and writes it.
