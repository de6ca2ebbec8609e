//! The one list of built-in modules, in two parts.
//!
//! The executor is sent to every host, so its size matters. The small executor contains the commonly used modules and
//! is sent first. The larger one contains all modules and follows when a host needs one of [`OTHERS`]. These are
//! numerous, or have large dependencies: TLS, archive formats, XML.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::Module;

/// Modules of every executor, by topic.
pub const COMMON: &[&dyn Module] = &[
    // Network.
    &crate::net::wait_for::WaitFor,
    // Texts.
    &crate::text::blockinfile::BlockInFile,
    &crate::text::ini_file::IniFile,
    &crate::text::known_hosts::KnownHosts,
    &crate::text::lineinfile::LineInFile,
    &crate::text::replace::Replace,
    &crate::text::ssh_config::SshConfig,
    // Commands.
    &crate::commands::async_status::AsyncStatus,
    &crate::commands::command::Command,
    &crate::commands::expect::Expect,
    &crate::commands::script::Script,
    &crate::commands::shell::Shell,
    &crate::ping::Ping,
    // Files.
    &crate::files::acl::Acl,
    &crate::files::assemble::Assemble,
    &crate::files::copy::Copy,
    &crate::files::fetch::Fetch,
    &crate::files::file::File,
    &crate::files::find::Find,
    &crate::files::slurp::Slurp,
    &crate::files::stat::Stat,
    &crate::files::synchronize::Synchronize,
    &crate::files::temporary::TempFile,
    // Facts.
    &crate::facts::getent::Getent,
    &crate::facts::mount_facts::MountFacts,
    &crate::facts::package_facts::PackageFacts,
    &crate::facts::service_facts::ServiceFacts,
    &crate::facts::setup::Setup,
    // System.
    &crate::system::alternatives::Alternatives,
    &crate::system::apk::Apk,
    &crate::system::apt::Apt,
    &crate::system::authorized_key::AuthorizedKey,
    &crate::system::capabilities::Capabilities,
    &crate::system::cron::Cron,
    &crate::system::debconf::Debconf,
    &crate::system::dpkg_selections::DpkgSelections,
    &crate::system::firewalld::Firewalld,
    &crate::system::group::Group,
    &crate::system::hostname::Hostname,
    &crate::system::iptables::Iptables,
    &crate::system::locale_gen::LocaleGen,
    &crate::system::modprobe::Modprobe,
    &crate::system::mount::Mount,
    &crate::system::dnf::Dnf,
    &crate::system::package::Package,
    &crate::system::pacman::Pacman,
    &crate::system::pam_limits::PamLimits,
    &crate::system::seboolean::SeBoolean,
    &crate::system::selinux::Selinux,
    &crate::system::service::Service,
    &crate::system::snap::Snap,
    &crate::system::sudoers::Sudoers,
    &crate::system::sysctl::Sysctl,
    &crate::system::systemd::Systemd,
    &crate::system::sysvinit::SysVInit,
    &crate::system::timezone::Timezone,
    &crate::system::ufw::Ufw,
    &crate::system::user::User,
    &crate::system::zypper::Zypper,
    // Languages.
    &crate::languages::pip::Pip,
    // Version control.
    &crate::version_control::git::Git,
    &crate::version_control::git_config::GitConfig,
];

/// Modules of the larger executor only, by topic.
#[cfg(feature = "all")]
pub const OTHERS: &[&dyn Module] = &[
    // Archives.
    &crate::archive::pack::Archive,
    &crate::archive::unarchive::Unarchive,
    // Network.
    &crate::http::get_url::GetUrl,
    &crate::http::uri::Uri,
    // Texts.
    &crate::text::xml::Xml,
    // Keys and certificates.
    &crate::crypto::openssh_keypair::OpensshKeypair,
    &crate::crypto::openssl_csr::OpensslCsr,
    &crate::crypto::openssl_csr_info::OpensslCsrInfo,
    &crate::crypto::openssl_privatekey::OpensslPrivatekey,
    &crate::crypto::openssl_privatekey_info::OpensslPrivatekeyInfo,
    &crate::crypto::openssl_publickey::OpensslPublickey,
    &crate::crypto::x509_certificate::X509Certificate,
    &crate::crypto::x509_certificate_info::X509CertificateInfo,
    // Docker.
    &crate::docker::compose::DockerComposeV2,
    &crate::docker::container::DockerContainer,
    &crate::docker::image::DockerImage,
    &crate::docker::network::DockerNetwork,
    &crate::docker::volume::DockerVolume,
    // Kubernetes.
    &crate::kubernetes::core::helm::release::HelmRelease,
    &crate::kubernetes::core::helm::repository::HelmRepository,
    &crate::kubernetes::core::k8s::K8s,
    &crate::kubernetes::core::k8s_drain::K8sDrain,
    &crate::kubernetes::core::k8s_info::K8sInfo,
    &crate::kubernetes::etcd::Etcd,
    &crate::kubernetes::image::Image,
    &crate::kubernetes::kube::Kube,
    &crate::kubernetes::kubeadm::Kubeadm,
    &crate::kubernetes::kubelet_certificates::KubeletCertificates,
    // Languages and version control that few hosts have.
    &crate::languages::gem::Gem,
    &crate::languages::npm::Npm,
    &crate::version_control::subversion::Subversion,
    // Disks.
    &crate::storage::filesystem::Filesystem,
    &crate::storage::lvg::Lvg,
    &crate::storage::lvol::Lvol,
    &crate::storage::parted::Parted,
    // Package repositories.
    &crate::repositories::apt_key::AptKey,
    &crate::repositories::apt_repository::AptRepository,
    &crate::repositories::deb822_repository::Deb822Repository,
    &crate::repositories::rpm_key::RpmKey,
    &crate::repositories::yum_repository::YumRepository,
];

/// The small executor has no other modules.
#[cfg(not(feature = "all"))]
pub const OTHERS: &[&dyn Module] = &[];

/// Every built-in module.
pub fn all() -> impl Iterator<Item = &'static dyn Module> {
    COMMON.iter().chain(OTHERS).copied()
}

/// The module with this name, short or fully qualified.
pub fn find(name: &str) -> Option<&'static dyn Module> {
    static BY_NAME: LazyLock<HashMap<String, &dyn Module>> = LazyLock::new(|| {
        let mut found: HashMap<String, &dyn Module> = HashMap::new();
        for module in all() {
            for name in module.spec().all_names() {
                found.entry(name).or_insert(module);
            }
        }
        found
    });
    BY_NAME.get(name).copied()
}

/// Whether every executor contains the module of this name. Ignores the collection; at worst, the larger executor is
/// sent needlessly.
pub fn is_common(name: &str) -> bool {
    static OTHER_NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        let specs = OTHERS.iter().map(|module| module.spec());
        specs.flat_map(|spec| spec.aliases.iter().chain([&spec.name])).map(|name| last_word(name)).collect()
    });
    !OTHER_NAMES.contains(last_word(name))
}

/// Whether the module of this name, given addresses, needs the HTTP client that only the larger executor has.
pub fn fetches(name: &str) -> bool {
    find(name).is_some_and(|module| module.spec().options.iter().any(|option| option.address))
}

fn last_word(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_found_by_every_name() {
        for name in all().flat_map(|module| module.spec().all_names()) {
            let first = all().find(|module| module.spec().answers_to(&name)).map(|module| module.spec().name);
            assert_eq!(find(&name).map(|module| module.spec().name), first, "{name}");
        }
        for name in ["", "copy.copy", "ansible.posix.copy", "community.general.copy", "nothing", "ansible.builtin."] {
            assert!(find(name).is_none() && !all().any(|module| module.spec().answers_to(name)), "{name}");
        }
    }
}
