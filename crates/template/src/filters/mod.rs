//! Filters: `value | name(arguments)`.

mod attribute;
pub(crate) mod call;
mod comment;
pub mod crypt;
pub(crate) mod csv;
pub(crate) mod dicts;
mod general;
pub(crate) mod glob;
pub(crate) mod hash;
mod html;
pub(crate) mod ini;
mod lists;
pub(crate) mod network;
mod numbers;
pub(crate) mod paths;
mod patterns;
mod select;
pub(crate) mod serialize;
pub(crate) mod sets;
mod text;
pub(crate) mod urls;
mod utils;
mod vault;
mod wrap;

use crate::registry::Function;
use call::{filter, undefined_filter};
pub(crate) use lists::plus;

/// All filters. A name without a dot is also available as `ansible.builtin.name`.
///
/// Each line has the names, the arguments as Python binds them, and the function.
pub const FILTERS: &[Function] = &[
    // Jinja's.
    filter!(["abs"], [], numbers::abs),
    filter!(["attr"], ["name"], attribute::attr),
    filter!(["batch"], ["linecount", "fill_with"], lists::batch),
    filter!(["capitalize"], [], text::capitalize),
    filter!(["center"], ["width"], text::center),
    undefined_filter!(["default", "d"], ["default_value", "boolean"], text::default),
    filter!(["dictsort"], ["case_sensitive", "by", "reverse"], lists::dictsort),
    filter!(["escape", "e", "forceescape"], [], html::escape),
    filter!(["filesizeformat"], ["binary"], numbers::filesizeformat),
    filter!(["first"], [], lists::first),
    filter!(["float"], ["default"], numbers::float),
    filter!(["format"], ["*values", "**"], text::format),
    filter!(["groupby"], ["attribute", "default", "case_sensitive"], lists::groupby),
    filter!(["indent"], ["width", "first", "blank"], text::indent),
    filter!(["int"], ["default", "base"], numbers::int),
    undefined_filter!(["items"], [], lists::items),
    filter!(["join"], ["d", "attribute"], text::join),
    filter!(["last"], [], lists::last),
    filter!(["length", "count"], [], text::length),
    filter!(["list"], [], lists::to_list),
    filter!(["lower"], [], text::lower),
    filter!(["map"], ["*arguments", "**"], select::map),
    filter!(["max"], ["case_sensitive", "attribute"], lists::max),
    filter!(["min"], ["case_sensitive", "attribute"], lists::min),
    filter!(["pprint"], [], text::pprint),
    filter!(["reject"], ["*arguments", "**"], select::reject),
    filter!(["rejectattr"], ["*arguments", "**"], select::rejectattr),
    filter!(["replace"], ["old", "new", "count"], text::replace),
    filter!(["reverse"], [], lists::reverse),
    filter!(["round"], ["precision", "method"], numbers::round),
    filter!(["safe"], [], html::safe),
    filter!(["select"], ["*arguments", "**"], select::select),
    filter!(["selectattr"], ["*arguments", "**"], select::selectattr),
    filter!(["slice"], ["slices", "fill_with"], lists::slice),
    filter!(["sort"], ["reverse", "case_sensitive", "attribute"], lists::sort),
    filter!(["string"], [], text::string),
    filter!(["striptags"], [], html::striptags),
    filter!(["sum"], ["attribute", "start"], lists::sum),
    filter!(["title"], [], text::title),
    filter!(["tojson"], ["indent"], serialize::tojson),
    filter!(["trim"], ["chars"], text::trim),
    filter!(["truncate"], ["length", "killwords", "end", "leeway"], text::truncate),
    filter!(["upper"], [], text::upper),
    filter!(["urlencode"], [], urls::urlencode),
    filter!(["urlize"], ["trim_url_limit", "nofollow", "target", "rel", "extra_schemes"], html::urlize),
    filter!(["wordcount"], [], text::wordcount),
    filter!(["wordwrap"], ["width", "break_long_words", "wrapstring", "break_on_hyphens"], wrap::wordwrap),
    filter!(["xmlattr"], ["autospace"], html::xmlattr),
    // Ansible's.
    filter!(["b64decode"], ["encoding", "urlsafe"], hash::b64decode),
    filter!(["b64encode"], ["encoding", "urlsafe"], hash::b64encode),
    filter!(["basename"], [], paths::basename),
    filter!(["bool"], [], text::boolean),
    filter!(["checksum", "sha1"], [], hash::sha1),
    filter!(["combinations"], ["set_size"], sets::combinations),
    filter!(["combine"], ["*others", "recursive", "list_merge", "**"], dicts::combine),
    filter!(
        ["comment"],
        [
            "style",
            "*",
            "newline",
            "beginning",
            "prefix",
            "prefix_count",
            "decoration",
            "postfix",
            "postfix_count",
            "end"
        ],
        comment::comment
    ),
    filter!(["commonpath"], [], paths::commonpath),
    filter!(["dict2items"], ["key_name", "value_name"], dicts::dict2items),
    filter!(["difference"], ["other"], sets::difference),
    filter!(["dirname"], [], paths::dirname),
    filter!(["expanduser"], [], paths::expanduser),
    filter!(["expandvars"], [], paths::expandvars),
    filter!(["extract"], ["container", "morekeys"], sets::extract),
    filter!(["fileglob"], [], paths::fileglob),
    filter!(["flatten"], ["levels", "skip_nulls"], sets::flatten),
    filter!(["from_json"], [], serialize::from_json),
    filter!(["from_yaml"], [], serialize::from_yaml),
    filter!(["from_yaml_all"], [], serialize::from_yaml_all),
    filter!(["hash"], ["hashtype"], hash::hash),
    filter!(["human_readable"], ["isbits", "unit"], numbers::human_readable),
    filter!(["human_to_bytes"], ["default_unit", "isbits"], numbers::human_to_bytes),
    filter!(["intersect"], ["other"], sets::intersect),
    filter!(["items2dict"], ["key_name", "value_name"], dicts::items2dict),
    filter!(["log"], ["base"], numbers::log),
    undefined_filter!(["mandatory"], ["msg"], text::mandatory),
    filter!(["md5"], [], hash::md5),
    filter!(["normpath"], [], paths::normpath),
    filter!(["password_hash"], ["hashtype", "salt", "salt_size", "rounds", "ident"], crypt::password_hash),
    filter!(["path_join"], [], paths::path_join),
    filter!(["permutations"], ["set_size"], sets::permutations),
    filter!(["pow"], ["exponent"], numbers::pow),
    filter!(["product"], ["*others", "repeat"], sets::product),
    filter!(["quote"], [], text::quote),
    filter!(["random"], ["start", "step", "seed"], numbers::random),
    filter!(["realpath"], [], paths::realpath),
    filter!(["regex_escape"], ["re_type"], patterns::regex_escape),
    filter!(["regex_findall"], ["regex", "multiline", "ignorecase"], patterns::regex_findall),
    filter!(
        ["regex_replace"],
        ["pattern", "replacement", "ignorecase", "multiline", "count", "mandatory_count"],
        patterns::regex_replace
    ),
    filter!(["regex_search"], ["regex", "*groups", "multiline", "ignorecase"], patterns::regex_search),
    filter!(["rekey_on_member"], ["key", "duplicates"], dicts::rekey_on_member),
    filter!(["relpath"], ["start"], paths::relpath),
    filter!(["root"], ["base"], numbers::root),
    filter!(["shuffle"], ["seed"], numbers::shuffle),
    filter!(["split"], ["sep", "maxsplit"], text::split),
    filter!(["splitext"], [], paths::splitext),
    filter!(["strftime"], ["second", "utc"], urls::strftime),
    filter!(["subelements"], ["subelements", "skip_missing"], sets::subelements),
    filter!(["symmetric_difference"], ["other"], sets::symmetric_difference),
    filter!(["ternary"], ["true_val", "false_val", "none_val"], text::ternary),
    filter!(["to_datetime"], ["format"], urls::to_datetime),
    filter!(
        ["to_json"],
        [
            "profile",
            "*",
            "indent",
            "sort_keys",
            "separators",
            "ensure_ascii",
            "skipkeys",
            "allow_nan",
            "check_circular",
            "default",
            "vault_to_text",
            "preprocess_unsafe"
        ],
        serialize::to_json
    ),
    filter!(
        ["to_nice_json"],
        ["indent", "sort_keys", "*", "separators", "ensure_ascii", "skipkeys", "allow_nan", "check_circular"],
        serialize::to_nice_json
    ),
    filter!(
        ["to_nice_yaml"],
        [
            "indent",
            "*",
            "width",
            "sort_keys",
            "default_flow_style",
            "default_style",
            "allow_unicode",
            "explicit_start",
            "explicit_end",
            "canonical",
            "line_break",
            "encoding",
            "version",
            "tags"
        ],
        serialize::to_nice_yaml
    ),
    filter!(["to_uuid"], ["namespace"], hash::to_uuid),
    filter!(
        ["to_yaml"],
        [
            "*",
            "indent",
            "width",
            "sort_keys",
            "default_flow_style",
            "default_style",
            "allow_unicode",
            "explicit_start",
            "explicit_end",
            "canonical",
            "line_break",
            "encoding",
            "version",
            "tags"
        ],
        serialize::to_yaml
    ),
    undefined_filter!(["type_debug"], [], text::type_debug),
    filter!(["union"], ["other"], sets::union),
    filter!(["unique"], ["case_sensitive", "attribute"], lists::unique),
    filter!(["unvault"], ["secret", "vault_id", "vaultid"], vault::unvault),
    filter!(["urldecode"], [], urls::urldecode),
    filter!(["urlsplit"], ["query", "alias"], urls::urlsplit),
    filter!(["vault"], ["secret", "salt", "vault_id", "wrap_object", "vaultid"], vault::vault),
    filter!(["win_basename"], [], paths::win_basename),
    filter!(["win_dirname"], [], paths::win_dirname),
    filter!(["win_splitdrive"], [], paths::win_splitdrive),
    filter!(["zip"], ["*others", "strict"], sets::zip),
    filter!(["zip_longest"], ["*others", "fillvalue"], sets::zip_longest),
    // ansible.utils, for addresses; older playbooks use the plain names.
    filter!(
        ["ansible.utils.cidr_merge", "ansible.netcommon.cidr_merge", "cidr_merge"],
        ["action"],
        network::subnet::cidr_merge
    ),
    filter!(["ansible.utils.hwaddr", "ansible.netcommon.hwaddr", "hwaddr"], ["query"], network::hardware::hwaddr),
    filter!(["ansible.utils.ip4_hex", "ansible.netcommon.ip4_hex", "ip4_hex"], ["delimiter"], network::subnet::ip4_hex),
    filter!(
        ["ansible.utils.ipaddr", "ansible.netcommon.ipaddr", "ipaddr"],
        ["query", "version", "alias"],
        network::ipaddr::ipaddr
    ),
    filter!(["ansible.utils.ipcut", "ipcut"], ["amount"], network::subnet::ipcut),
    filter!(["ansible.utils.ipmath", "ansible.netcommon.ipmath", "ipmath"], ["amount"], network::subnet::ipmath),
    filter!(
        ["ansible.utils.ipsubnet", "ansible.netcommon.ipsubnet", "ipsubnet"],
        ["query", "index"],
        network::subnet::ipsubnet
    ),
    filter!(
        ["ansible.utils.ipv4", "ansible.netcommon.ipv4", "ipv4"],
        ["query", "version", "alias"],
        network::ipaddr::ipv4
    ),
    filter!(
        ["ansible.utils.ipv6", "ansible.netcommon.ipv6", "ipv6"],
        ["query", "version", "alias"],
        network::ipaddr::ipv6
    ),
    filter!(["ansible.utils.ipv6form", "ipv6form"], ["format"], network::subnet::ipv6form),
    filter!(["ansible.utils.ipwrap", "ansible.netcommon.ipwrap", "ipwrap"], ["query"], network::ipaddr::ipwrap),
    filter!(["ansible.utils.macaddr", "ansible.netcommon.macaddr", "macaddr"], ["query"], network::hardware::hwaddr),
    filter!(
        ["ansible.utils.network_in_network", "ansible.netcommon.network_in_network", "network_in_network"],
        ["test"],
        network::subnet::network_in_network
    ),
    filter!(
        ["ansible.utils.network_in_usable", "ansible.netcommon.network_in_usable", "network_in_usable"],
        ["test"],
        network::subnet::network_in_usable
    ),
    filter!(
        ["ansible.utils.next_nth_usable", "ansible.netcommon.next_nth_usable", "next_nth_usable"],
        ["offset"],
        network::subnet::next_nth_usable
    ),
    filter!(["ansible.utils.nthhost", "ansible.netcommon.nthhost", "nthhost"], ["query"], network::subnet::nthhost),
    filter!(
        ["ansible.utils.previous_nth_usable", "ansible.netcommon.previous_nth_usable", "previous_nth_usable"],
        ["offset"],
        network::subnet::previous_nth_usable
    ),
    filter!(
        ["ansible.utils.reduce_on_network", "ansible.netcommon.reduce_on_network", "reduce_on_network"],
        ["network"],
        network::subnet::reduce_on_network
    ),
    filter!(["ansible.utils.slaac", "ansible.netcommon.slaac", "slaac"], ["query"], network::subnet::slaac),
    filter!(["ansible.utils.usable_range", "usable_range"], [], network::subnet::usable_range),
    // ansible.utils, for data.
    filter!(["ansible.utils.fact_diff", "fact_diff"], ["after", "plugin", "common", "other"], utils::diff::fact_diff),
    filter!(["ansible.utils.get_path", "get_path"], ["path", "wantlist"], utils::paths::get_path),
    filter!(
        ["ansible.utils.index_of", "index_of"],
        ["test", "value", "key", "fail_on_missing", "wantlist"],
        utils::paths::index_of
    ),
    filter!(["ansible.utils.keep_keys", "keep_keys"], ["target", "matching_parameter"], utils::keys::keep),
    filter!(["ansible.utils.remove_keys", "remove_keys"], ["target", "matching_parameter"], utils::keys::remove),
    filter!(["ansible.utils.replace_keys", "replace_keys"], ["target", "matching_parameter"], utils::keys::replace),
    filter!(["ansible.utils.to_paths", "to_paths"], ["prepend", "wantlist"], utils::paths::to_paths),
    // community.general; older playbooks use the plain names.
    filter!(["community.general.accumulate"], [], general::misc::accumulate),
    filter!(["community.general.counter", "counter"], [], general::dicts::counter),
    filter!(["community.general.crc32"], [], general::misc::crc32),
    filter!(["community.general.dict"], [], general::dicts::from_pairs),
    filter!(["community.general.dict_kv", "dict_kv"], ["key"], general::dicts::dict_kv),
    filter!(
        ["community.general.from_csv", "from_csv"],
        ["dialect", "fieldnames", "delimiter", "skipinitialspace", "strict"],
        csv::from_csv
    ),
    filter!(["community.general.from_ini"], [], ini::from_ini),
    filter!(["community.general.groupby_as_dict", "groupby_as_dict"], ["attribute"], general::dicts::groupby_as_dict),
    filter!(["community.general.json_query", "json_query"], ["expr"], general::jmespath::json_query),
    filter!(["community.general.keep_keys"], ["target", "matching_parameter"], utils::keys::keep_flat),
    filter!(["community.general.lists_difference"], ["*others", "flatten"], general::lists::difference),
    filter!(["community.general.lists_intersect"], ["*others", "flatten"], general::lists::intersect),
    filter!(
        ["community.general.lists_mergeby", "lists_mergeby"],
        ["*others", "recursive", "list_merge"],
        general::dicts::lists_mergeby
    ),
    filter!(
        ["community.general.lists_symmetric_difference"],
        ["*others", "flatten"],
        general::lists::symmetric_difference
    ),
    filter!(["community.general.lists_union"], ["*others", "flatten"], general::lists::union),
    filter!(["community.general.random_mac", "random_mac"], ["seed"], general::misc::random_mac),
    filter!(["community.general.remove_keys"], ["target", "matching_parameter"], utils::keys::remove_flat),
    filter!(["community.general.replace_keys"], ["target", "matching_parameter"], utils::keys::replace_flat),
    filter!(["community.general.to_days", "to_days"], ["year", "month"], general::time_units::to_days),
    filter!(["community.general.to_hours", "to_hours"], ["year", "month"], general::time_units::to_hours),
    filter!(["community.general.to_ini"], [], ini::to_ini),
    filter!(
        ["community.general.to_milliseconds", "to_milliseconds"],
        ["year", "month"],
        general::time_units::to_milliseconds
    ),
    filter!(["community.general.to_minutes", "to_minutes"], ["year", "month"], general::time_units::to_minutes),
    filter!(["community.general.to_months", "to_months"], ["year", "month"], general::time_units::to_months),
    filter!(["community.general.to_seconds", "to_seconds"], ["year", "month"], general::time_units::to_seconds),
    filter!(
        ["community.general.to_time_unit", "to_time_unit"],
        ["unit", "year", "month"],
        general::time_units::to_time_unit
    ),
    filter!(["community.general.to_weeks", "to_weeks"], ["year", "month"], general::time_units::to_weeks),
    filter!(["community.general.to_years", "to_years"], ["year", "month"], general::time_units::to_years),
    filter!(["community.general.version_sort", "version_sort"], ["reverse"], general::misc::version_sort),
];
