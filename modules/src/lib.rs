//! The built-in modules and the executor that runs them on a host.
