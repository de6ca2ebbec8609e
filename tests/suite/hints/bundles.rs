//! Hints of `windlass bundle`.

use super::Case;

const fn case(fails: &'static str, says: &'static str, then: &'static [&'static str]) -> Case {
    Case { setup: FILES, fails, says, mended: &[], then }
}

/// A playbook that lists files of the mirror `a` and `b`, and scripts that create bundles of them: `one` has the file
/// `a`, `two` both, `three` another `b`.
const FILES: &[(&str, &str)] = &[
    ("a", "content of a\n"),
    ("b", "content of b\n"),
    (
        "needs.yml",
        "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - copy:\n        dest: '{{ bundle_plan }}'\n        content: \
         \"{{ {'releases': {}, 'artifacts': artifacts | default([]), 'manifests': [], 'images': images | default([]), \
         'archives': archives | default([]), 'left_out': []} | to_json }}\"\n",
    ),
    (
        "create",
        "set -e\nlist=\nfor name in $1; do list=\"$list{\\\"url\\\": \\\"file://$PWD/$name\\\", \\\"checksum\\\": \
         \\\"sha256:$(sha256sum < $name | cut -c 1-64)\\\"},\"; done\nshift\nwindlass bundle create -i hosts --playbook \
         needs.yml --without-windlass -e \"{\\\"artifacts\\\": [${list%,}]}\" \"$@\"\n",
    ),
    (
        "archive",
        "set -e\nlist=\nfor name in $1; do list=\"$list{\\\"url\\\": \\\"$PWD/$name\\\", \\\"file\\\": \\\"x.tar\\\", \
         \\\"names\\\": [\\\"r/$name:1\\\"], \\\"sha256\\\": \\\"$2\\\"},\"; done\nwindlass bundle create -i hosts \
         --playbook needs.yml --without-windlass -e \"{\\\"archives\\\": [${list%,}]}\" $3\n",
    ),
    (
        "image",
        "windlass bundle create -i hosts --playbook needs.yml --without-windlass -e '{\"images\": [\"127.0.0.1:1/x:1\"]}' \
         \"$@\"\n",
    ),
    ("difference", "set -e\nsh create a old\nsh create 'a b' new --since old\n"),
    ("keys", "ssh-keygen -q -t ed25519 -N '' -f key\nssh-keygen -q -t ed25519 -N '' -f other\n"),
];

pub(crate) const CASES: &[Case] = &[
    case(
        "windlass bundle create -i hosts one",
        "run the command in a project that `windlass init kubernetes` made, or name one with --playbook",
        &[
            "windlass bundle create -i hosts --playbook needs.yml --without-windlass one",
            "windlass init kubernetes project --control-plane node1=127.0.0.1 && test -f project/playbooks/bundle.yml",
        ],
    ),
    case(
        "windlass bundle create -i hosts --playbook right.yml one",
        "use the playbook of this release",
        &["windlass bundle create -i hosts --playbook needs.yml --without-windlass one"],
    ),
    case(
        "sh image --arch amd64,arm64 one",
        "create a bundle for each architecture, or add archives of the images to `image_archives`",
        &[
            // Nobody answers at this address, but the architectures are no longer the reason.
            "sh image --arch arm64 --timeout 1 one 2>&1 | grep -v 'for one architecture only'",
            "sh archive a '' one",
        ],
    ),
    case(
        "sh archive 'a b' '' one",
        "give all hosts the same mirror, or create a bundle for each group",
        &["sh archive 'a a' '' one", "sh archive a '' one", "sh archive b '' two"],
    ),
    case(
        "sh archive a 0000000000000000000000000000000000000000000000000000000000000000 one",
        "find out which of the two is right before you change the inventory",
        &["sh archive a $(sha256sum < a | cut -c 1-64) one"],
    ),
    case(
        "sh create a one && windlass bundle verify one",
        "sign it with `windlass bundle sign`, or accept it with --allow-unsigned",
        &[
            "windlass bundle verify --allow-unsigned one",
            "sh keys && windlass bundle sign one --key key && windlass bundle verify --public-key key.pub one",
        ],
    ),
    case(
        "sh keys && sh create a one --sign key && windlass bundle verify one",
        "name the trusted keys with --allowed-signers or --public-key",
        &[
            "windlass bundle verify --public-key key.pub one",
            "echo \"ops@example.com $(cat key.pub)\" > signers && windlass bundle verify --allowed-signers signers one",
        ],
    ),
    case(
        "sh keys && sh create a one --sign key && echo \"ops@example.com $(cat other.pub)\" > signers && windlass bundle verify \
         --allowed-signers signers one",
        "check who made the bundle before you trust another key",
        &["echo \"ops@example.com $(cat key.pub)\" > signers && windlass bundle verify --allowed-signers signers one"],
    ),
    case(
        "sh create a one && echo nothing > wrong && windlass bundle sign one --signature wrong",
        "make it with `ssh-keygen -Y sign -n windlass-bundle -f KEY bundle.json`",
        &[
            "sh keys && tar xOf one bundle.json > bundle.json && ssh-keygen -q -Y sign -n windlass-bundle -f key bundle.json",
            "windlass bundle sign one --signature bundle.json.sig && windlass bundle verify --public-key key.pub one",
        ],
    ),
    case(
        "sh create a one && windlass bundle sign one --key a",
        "for a key in an agent, use `ssh-keygen -Y sign` and `windlass bundle sign --signature`",
        &[
            "sh keys && tar xOf one bundle.json > bundle.json && ssh-keygen -q -Y sign -n windlass-bundle -f key bundle.json",
            "windlass bundle sign one --signature bundle.json.sig && windlass bundle verify --public-key key.pub one",
        ],
    ),
    case(
        "sh create a one && ssh-keygen -q -t ed25519 -N secret -f locked && windlass bundle sign one --key locked",
        "add it to an agent, and use `ssh-keygen -Y sign` and `windlass bundle sign --signature`",
        &[
            "sh keys && eval $(ssh-agent) && ssh-add -q key && tar xOf one bundle.json > bundle.json && \
             ssh-keygen -q -Y sign -n windlass-bundle -f key.pub bundle.json; kill $SSH_AGENT_PID",
            "windlass bundle sign one --signature bundle.json.sig && windlass bundle verify --public-key key.pub one",
        ],
    ),
    case(
        "sh difference && windlass bundle unpack --allow-unsigned new out",
        "name the base with --base, or unpack it into the same folder first",
        &[
            "windlass bundle unpack --allow-unsigned --base old new first",
            "windlass bundle unpack --allow-unsigned old second && windlass bundle unpack --allow-unsigned new second",
        ],
    ),
    case(
        "sh difference && sh create b stranger && windlass bundle verify --allow-unsigned --base stranger new",
        "name the bundle that --since had",
        &["windlass bundle verify --allow-unsigned --base old new"],
    ),
    case(
        "sh difference && echo 3 > b && sh create 'a b' last --since new && windlass bundle verify --allow-unsigned --base new last",
        "name all bundles that it builds on with --base",
        &["windlass bundle verify --allow-unsigned --base new --base old last"],
    ),
    case(
        "sh create a one && mkdir parts && cd parts && tar xf ../one && sed -i 's/\"format\": *[0-9]*/\"format\": 99/' bundle.json && \
         tar cf ../new bundle.json sbom.json blobs && cd .. && windlass bundle list new",
        "use a release of Windlass that reads the bundle",
        // A bundle for this release is listed.
        &["windlass bundle list one"],
    ),
    case(
        "sh create a one && mkdir -p out/files$PWD/a && windlass bundle unpack --allow-unsigned one out",
        "remove it",
        &["rmdir out/files$PWD/a && windlass bundle unpack --allow-unsigned one out"],
    ),
    case(
        "sh create a one && mkdir out && touch out/files && windlass bundle unpack --allow-unsigned one out",
        "remove it",
        &["rm out/files && windlass bundle unpack --allow-unsigned one out"],
    ),
];
