//! Hints of errors in inventories: the file that causes one, and the same as the hint advises.

use super::Case;

/// An inventory that is refused, and its correction, in a file of this name.
macro_rules! inventory {
    ($name:literal, $bad:literal, $says:literal, $good:literal) => {
        Case {
            setup: &[($name, $bad)],
            fails: concat!("windlass inventory -i ", $name, " --list"),
            says: $says,
            mended: &[($name, $good)],
            then: &[concat!("windlass inventory -i ", $name, " --list")],
        }
    };
}

pub(crate) const CASES: &[Case] = &[
    inventory!(
        "i.ini",
        "[my group]\nweb1\n",
        "A section is [group], [group:vars] or [group:children], without spaces.",
        "[mygroup]\nweb1\n[mygroup:vars]\na=b\n[all:children]\nmygroup\n"
    ),
    inventory!(
        "i.ini",
        "[g]\nweb1\n[g:variables]\na=b\n",
        "The kinds are [group], [group:vars] and [group:children].",
        "[g]\nweb1\n[g:vars]\na=b\n"
    ),
    inventory!(
        "i.ini",
        "[g]\nweb1\n[p:children]\ng h\n",
        "The section [p:children] has one name of a group in each line.",
        "[g]\nweb1\n[h]\n[p:children]\ng\nh\n"
    ),
    inventory!(
        "i.ini",
        "[g]\nweb1\n[g:vars]\na b\n",
        "The section [g:vars] has one variable in each line.",
        "[g]\nweb1\n[g:vars]\na=b\n"
    ),
    inventory!(
        "i.ini",
        "web1 a=\"b\n",
        "Values with spaces go in quotes; a quote that is part of a value goes in the other quotes.",
        "web1 a=\"b c\" d='\"'\n"
    ),
    inventory!(
        "i.ini",
        "web1:\n",
        "A colon stands before a port. If this is a YAML file, its name must end with .yml or .yaml.",
        "web1:22\n"
    ),
    inventory!("i.ini", "---\nweb1\n", "Let the name of a YAML inventory end with .yml or .yaml.", "web1\n"),
    inventory!(
        "i.ini",
        "web1 a b\n",
        "After the host come its variables; a value with spaces goes in quotes.",
        "web1 a='b c'\n"
    ),
    inventory!("i.ini", "web1\n[g:vars]\na=b\n", "Declare it with a section [g].", "[g]\nweb1\n[g:vars]\na=b\n"),
    inventory!(
        "i.ini",
        "web1\n[p:children]\nweb1\n",
        "Declare it with a section [web1]; a section [...:children] lists groups, not hosts.",
        "[web1]\nhost1\n[p:children]\nweb1\n"
    ),
    inventory!("i.toml", "[p]\nchildren = \"g\"\n", "Write children = [\"name\"].", "[p]\nchildren = [\"g\"]\n"),
    inventory!(
        "eu.yml",
        "plugin: windlass.group\ngroups: eu\nsources: 'web1,'\n",
        "Its options are `group` and `sources`.",
        "plugin: windlass.group\ngroup: all\nsources: 'web1,'\n"
    ),
    inventory!(
        "eu.yml",
        "plugin: windlass.group\ngroup: all\nsources: eu.yml\n",
        "Name the sources with the hosts.",
        "plugin: windlass.group\ngroup: all\nsources: 'web1,'\n"
    ),
    inventory!("i.yml", "- web1\n", "It usually begins with `all:`.", "all: {hosts: {web1: }}\n"),
    inventory!("i.yml", "1: {hosts: {web1: }}\n", "Put it in quotes: \"1\".", "\"1\": {hosts: {web1: }}\n"),
    inventory!("i.yml", "all: {hosts: {1: }}\n", "Put it in quotes: \"1\".", "all: {hosts: {\"1\": }}\n"),
    inventory!(
        "i.yml",
        "all: {hosts: [web1]}\n",
        "Write each name with a colon behind it, `name:`, without dashes.",
        "all:\n  hosts:\n    web1:\n"
    ),
    inventory!(
        "i.yml",
        "all: {hosts: {web1: }, vars: [a]}\n",
        "Write `name: value` in each line, without dashes.",
        "all:\n  hosts: {web1: }\n  vars:\n    a: b\n"
    ),
    Case {
        setup: &[(
            "constructed.yml",
            "plugin: constructed\nstrict: true\nkeyed_groups: [{key: \"['']\", separator: ''}]\n",
        )],
        fails: "windlass inventory -i hosts -i constructed.yml --list",
        says: "Give it a `default_value` or a `prefix`.",
        mended: &[(
            "constructed.yml",
            "plugin: constructed\nstrict: true\nkeyed_groups: [{key: \"['']\", prefix: p, separator: ''}]\n",
        )],
        then: &["windlass inventory -i hosts -i constructed.yml --list"],
    },
    inventory!(
        "generator.yml",
        "plugin: generator\nhosts:\n  name: '{{ n }}'\n  parents: [{vars: {a: b}}]\nlayers: {n: [a, b]}\n",
        "Each parent is a mapping with `name`, and `vars` and `parents` if need be.",
        "plugin: generator\nhosts:\n  name: '{{ n }}'\n  parents: [{name: g, vars: {a: b}}]\nlayers: {n: [a, b]}\n"
    ),
    Case {
        setup: &[("generator.yml", "plugin: cloud\n"), ("ansible.cfg", "[inventory]\nenable_plugins = generator\n")],
        fails: "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=true windlass inventory -i generator.yml --list",
        says: "Such a file begins with `plugin: generator`.",
        mended: &[("generator.yml", "plugin: generator\nhosts: {name: '{{ n }}'}\nlayers: {n: [a, b]}\n")],
        then: &["ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=true windlass inventory -i generator.yml --list"],
    },
    Case {
        setup: &[
            ("generator.yml", "plugin: generator\nhosts: {name: '{{ n }}'}\nlayers: {n: [a, b]}\n"),
            ("ansible.cfg", "[inventory]\nenable_plugins = yaml\n"),
        ],
        fails: "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=true windlass inventory -i generator.yml --list",
        says: "Add `auto` to `enable_plugins`.",
        mended: &[("ansible.cfg", "[inventory]\nenable_plugins = yaml, auto\n")],
        then: &["ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=true windlass inventory -i generator.yml --list"],
    },
    Case {
        setup: &[("group_vars/all.yml", "- a\n")],
        fails: "windlass inventory -i hosts --list",
        says: "Write `name: value` in each line.",
        mended: &[("group_vars/all.yml", "a: b\n")],
        then: &["windlass inventory -i hosts --list"],
    },
    Case {
        setup: &[("nulls.yml", "all: {hosts: {here: {nothing: null}}}\n")],
        fails: "windlass inventory -i nulls.yml --list --toml",
        says: "Show the inventory as JSON or with --yaml.",
        mended: &[],
        then: &["windlass inventory -i nulls.yml --list", "windlass inventory -i nulls.yml --list --yaml"],
    },
];
