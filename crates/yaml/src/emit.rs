//! Writing YAML byte for byte as PyYAML does.
