//! The one list of built-in modules.

use crate::Module;

/// Every built-in module, by topic.
pub const MODULES: &[&dyn Module] = &[
    // Archives.
    &crate::archive::pack::Archive,
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
    &crate::text::ssh_config::SshConfig,
    &crate::text::xml::Xml,
    // Commands.
    &crate::commands::async_status::AsyncStatus,
    &crate::commands::command::Command,
    &crate::commands::expect::Expect,
    &crate::commands::script::Script,
    &crate::commands::shell::Shell,
    &crate::ping::Ping,
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
    // Languages.
    &crate::languages::gem::Gem,
    &crate::languages::npm::Npm,
    &crate::languages::pip::Pip,
    // Disks.
    &crate::storage::filesystem::Filesystem,
    &crate::storage::lvg::Lvg,
    &crate::storage::lvol::Lvol,
    &crate::storage::parted::Parted,
    // Repositories of packages.
    &crate::repositories::apt_key::AptKey,
    &crate::repositories::apt_repository::AptRepository,
    &crate::repositories::deb822_repository::Deb822Repository,
    &crate::repositories::rpm_key::RpmKey,
    &crate::repositories::yum_repository::YumRepository,
    // Version control.
    &crate::version_control::git::Git,
    &crate::version_control::git_config::GitConfig,
    &crate::version_control::subversion::Subversion,
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
];

/// The module that answers to this name, short or fully qualified.
pub fn find(name: &str) -> Option<&'static dyn Module> {
    MODULES.iter().copied().find(|module| module.spec().answers_to(name))
}
