//! Modules for what a Kubernetes cluster is made of: kubeadm, etcd, its objects and its images.
//!
//! What a tool prints is read by pure functions over text, which the tests feed with what the real tools printed.

mod certificate;
mod configuration;
mod deadline;

pub mod etcd;
pub mod image;
pub mod kube;
pub mod kubeadm;
