//! SSH transport: connections, host keys, ssh_config.
