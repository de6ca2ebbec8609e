//! The one list of built-in modules.

use crate::Module;

/// Every built-in module, by topic.
pub const MODULES: &[&dyn Module] = &[
    // Archives.
    &crate::archive::unarchive::Unarchive,
    // Network.
    &crate::net::get_url::GetUrl,
    &crate::net::uri::Uri,
    &crate::net::wait_for::WaitFor,
    // Texts.
    &crate::text::blockinfile::BlockInFile,
    &crate::text::ini_file::IniFile,
    &crate::text::known_hosts::KnownHosts,
    &crate::text::lineinfile::LineInFile,
    &crate::text::replace::Replace,
    // Commands.
    &crate::commands::async_status::AsyncStatus,
    &crate::commands::command::Command,
    &crate::commands::script::Script,
    &crate::commands::shell::Shell,
    &crate::ping::Ping,
    // Files.
    &crate::files::assemble::Assemble,
    &crate::files::copy::Copy,
    &crate::files::fetch::Fetch,
    &crate::files::file::File,
    &crate::files::find::Find,
    &crate::files::slurp::Slurp,
    &crate::files::stat::Stat,
    &crate::files::temporary::TempFile,
    // Facts.
    &crate::facts::getent::Getent,
    &crate::facts::package_facts::PackageFacts,
    &crate::facts::service_facts::ServiceFacts,
    &crate::facts::setup::Setup,
    // Kubernetes.
    &crate::kubernetes::etcd::Etcd,
    &crate::kubernetes::image::Image,
    &crate::kubernetes::kube::Kube,
    &crate::kubernetes::kubeadm::Kubeadm,
    // System.
    &crate::system::apt::Apt,
    &crate::system::authorized_key::AuthorizedKey,
    &crate::system::cron::Cron,
    &crate::system::group::Group,
    &crate::system::hostname::Hostname,
    &crate::system::modprobe::Modprobe,
    &crate::system::mount::Mount,
    &crate::system::package::Package,
    &crate::system::service::Service,
    &crate::system::sysctl::Sysctl,
    &crate::system::systemd::Systemd,
    &crate::system::timezone::Timezone,
    &crate::system::user::User,
];

/// The module that answers to this name, short or fully qualified.
pub fn find(name: &str) -> Option<&'static dyn Module> {
    MODULES.iter().copied().find(|module| module.spec().answers_to(name))
}
