//! Tests: `value is name(arguments)`.

mod core;
mod files;
mod jinja;
mod network;
mod results;
mod version;

use crate::filters::call::{test, undefined_test};
use crate::registry::Function;

/// All tests. A name without a dot is also available as `ansible.builtin.name`.
///
/// Each line has the names, the arguments as Python binds them, and the function.
pub const TESTS: &[Function] = &[
    // Jinja's.
    test!(["boolean"], [], jinja::boolean),
    test!(["callable"], [], jinja::callable),
    undefined_test!(["defined"], [], jinja::defined),
    test!(["divisibleby"], ["num"], jinja::divisibleby),
    test!(["eq", "equalto", "=="], ["other"], jinja::eq),
    test!(["escaped"], [], jinja::escaped),
    test!(["even"], [], jinja::even),
    test!(["false"], [], jinja::is_false),
    test!(["filter"], [], jinja::filter_exists),
    test!(["float"], [], jinja::float),
    test!(["ge", ">="], ["other"], jinja::ge),
    test!(["gt", "greaterthan", ">"], ["other"], jinja::gt),
    test!(["in"], ["seq"], jinja::is_in),
    test!(["integer"], [], jinja::integer),
    test!(["iterable"], [], jinja::iterable),
    test!(["le", "<="], ["other"], jinja::le),
    test!(["lower"], [], jinja::lower),
    test!(["lt", "lessthan", "<"], ["other"], jinja::lt),
    test!(["mapping"], [], jinja::mapping),
    test!(["ne", "!="], ["other"], jinja::ne),
    test!(["none"], [], jinja::none),
    test!(["number"], [], jinja::number),
    test!(["odd"], [], jinja::odd),
    test!(["sameas"], ["other"], jinja::sameas),
    test!(["sequence"], [], jinja::sequence),
    test!(["string"], [], jinja::string),
    test!(["test"], [], jinja::test_exists),
    test!(["true"], [], jinja::is_true),
    undefined_test!(["undefined"], [], jinja::undefined),
    test!(["upper"], [], jinja::upper),
    // Ansible's, for the results of tasks.
    test!(["changed", "change"], [], results::changed),
    test!(["failed", "failure"], [], results::failed),
    test!(["finished"], [], results::finished),
    test!(["reachable"], [], results::reachable),
    test!(["skipped", "skip"], [], results::skipped),
    test!(["started"], [], results::started),
    test!(["succeeded", "success", "successful"], [], results::succeeded),
    test!(["timedout"], [], results::timedout),
    test!(["unreachable"], [], results::unreachable),
    // Ansible's, for values.
    test!(["all"], [], core::all),
    test!(["any"], [], core::any),
    test!(["contains"], ["value"], core::contains),
    test!(["falsy"], ["convert_bool"], core::falsy),
    test!(["match"], ["pattern", "ignorecase", "multiline"], core::matches),
    test!(["nan", "isnan"], [], core::nan),
    test!(["regex"], ["pattern", "ignorecase", "multiline", "match_type"], core::regex),
    test!(["search"], ["pattern", "ignorecase", "multiline"], core::search),
    test!(["subset", "issubset"], ["other"], core::subset),
    test!(["superset", "issuperset"], ["other"], core::superset),
    test!(["truthy"], ["convert_bool"], core::truthy),
    test!(["uri"], ["schemes"], core::uri),
    test!(["url"], ["schemes"], core::url),
    test!(["urn"], [], core::urn),
    test!(["vault_encrypted"], [], core::vault_encrypted),
    test!(["version", "version_compare"], ["version", "operator", "strict", "version_type"], version::version),
    // Ansible's, for files of the control machine.
    test!(["abs", "is_abs"], [], files::absolute),
    test!(["directory", "is_dir"], [], files::directory),
    test!(["exists"], [], files::exists),
    test!(["file", "is_file"], [], files::file),
    test!(["link", "is_link"], [], files::link),
    test!(["link_exists"], [], files::link_exists),
    test!(["mount", "is_mount"], [], files::mount),
    test!(["same_file", "is_same_file"], ["other"], files::same_file),
    test!(["vaulted_file"], [], files::vaulted_file),
    // ansible.utils.
    test!(["ansible.utils.in_any_network"], ["networks"], network::in_any_network),
    test!(["ansible.utils.in_network"], ["network"], network::in_network),
    test!(["ansible.utils.in_one_network"], ["networks"], network::in_one_network),
    test!(["ansible.utils.ip"], [], network::ip),
    test!(["ansible.utils.ip_address"], [], network::ip_address),
    test!(["ansible.utils.ipv4"], [], network::ipv4),
    test!(["ansible.utils.ipv4_address"], [], network::ipv4_address),
    test!(["ansible.utils.ipv4_hostmask"], [], network::ipv4_hostmask),
    test!(["ansible.utils.ipv4_netmask"], [], network::ipv4_netmask),
    test!(["ansible.utils.ipv6"], [], network::ipv6),
    test!(["ansible.utils.ipv6_address"], [], network::ipv6_address),
    test!(["ansible.utils.ipv6_ipv4_mapped"], [], network::ipv6_ipv4_mapped),
    test!(["ansible.utils.ipv6_sixtofour"], [], network::ipv6_sixtofour),
    test!(["ansible.utils.ipv6_teredo"], [], network::ipv6_teredo),
    test!(["ansible.utils.loopback"], [], network::loopback),
    test!(["ansible.utils.mac"], [], network::mac),
    test!(["ansible.utils.multicast"], [], network::multicast),
    test!(["ansible.utils.private"], [], network::private),
    test!(["ansible.utils.public"], [], network::public),
    test!(["ansible.utils.reserved"], [], network::reserved),
    test!(["ansible.utils.resolvable"], [], network::resolvable),
    test!(["ansible.utils.subnet_of"], ["network"], network::subnet_of),
    test!(["ansible.utils.supernet_of"], ["network"], network::supernet_of),
    test!(["ansible.utils.unspecified"], [], network::unspecified),
];
