//! Modules for keys and certificates; they drive `openssl` and `ssh-keygen`.

pub mod openssh_keypair;
pub mod openssl_privatekey;
