//! Modules for keys and certificates; they drive `openssl` and `ssh-keygen`.

mod der;
mod names;
pub mod openssh_keypair;
pub mod openssl_privatekey;
pub mod x509_certificate_info;
