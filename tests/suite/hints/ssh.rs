//! Hints about hosts with unknown keys and about logins, over a real sshd.

use super::Case;

const fn case(fails: &'static str, says: &'static str, then: &'static [&'static str]) -> Case {
    Case { setup: &[], fails, says, mended: &[], then }
}

/// Advice about a host with an unknown key. `ssh-hosts` names it.
pub(crate) const CASES: &[Case] = &[
    case(
        "windlass playbook -i ssh-hosts ping.yml",
        "`--accept-new-host-keys`",
        &["windlass playbook -i ssh-hosts ping.yml --accept-new-host-keys", "windlass playbook -i ssh-hosts ping.yml"],
    ),
    case(
        "windlass adhoc -i ssh-hosts -m ping all",
        "`windlass hostkeys pin`",
        &[
            "windlass hostkeys pin -i ssh-hosts --yes",
            "windlass hostkeys verify -i ssh-hosts",
            "windlass adhoc -i ssh-hosts -m ping all",
        ],
    ),
    case(
        "windlass hostkeys pin -i ssh-hosts",
        "compare the fingerprints, then run the same with --yes",
        &[
            "windlass hostkeys scan -i ssh-hosts",
            "windlass hostkeys pin -i ssh-hosts --yes",
            "windlass adhoc -i ssh-hosts -m ping all",
        ],
    ),
    Case {
        setup: &[],
        fails: "port=$(sed 's/.*ansible_port=\\([0-9]*\\).*/\\1/' ssh-hosts); ssh-keygen -q -t ed25519 -N '' -f wrong; \
                sed \"s/^/[127.0.0.1]:$port /\" wrong.pub > known_hosts; windlass adhoc -i ssh-hosts -m ping all",
        says: "`windlass hostkeys replace HOST` and the same inventory",
        mended: &[],
        then: &[
            "windlass hostkeys replace -i ssh-hosts --yes web1",
            "windlass hostkeys verify -i ssh-hosts",
            "windlass adhoc -i ssh-hosts -m ping all",
        ],
    },
    Case {
        setup: &[],
        fails: "sed 's|web1|web2|; s|-o Id|-o ProxyCommand=\"/usr/sbin/sshd -i -f sshd_config\" -o Id|' ssh-hosts > clones; \
                cat ssh-hosts >> clones; \
                windlass hostkeys pin -i clones --yes",
        says: "`ssh-keygen -A`, restart its sshd, and then run `windlass hostkeys replace` for it",
        mended: &[],
        then: &["windlass hostkeys replace -i ssh-hosts web1"],
    },
    case(
        "windlass hostkeys pin -i ssh-hosts --yes; WINDLASS_FAILURES=readable windlass playbook -i ssh-hosts ping.yml \
         -e ansible_user=nobody-here",
        "try `-u USER`, `--private-key` or `-k`",
        &["windlass playbook -i ssh-hosts ping.yml -e ansible_user=root"],
    ),
    // Each way to accept new keys, with each verb that connects.
    case(
        "windlass hostkeys verify -i ssh-hosts",
        "`--accept-new-host-keys`",
        &["windlass adhoc -i ssh-hosts -m ping all --accept-new-host-keys"],
    ),
    case(
        "windlass hostkeys verify -i ssh-hosts",
        "is unknown",
        &["windlass console -i ssh-hosts --accept-new-host-keys"],
    ),
    case(
        "windlass hostkeys verify -i ssh-hosts",
        "is unknown",
        &[
            "windlass playbook -i ssh-hosts ping.yml -o StrictHostKeyChecking=accept-new",
            "windlass playbook -i ssh-hosts ping.yml",
        ],
    ),
    case(
        "windlass hostkeys verify -i ssh-hosts",
        "is unknown",
        &[
            "windlass adhoc -i ssh-hosts -m ping all --ssh-option StrictHostKeyChecking=accept-new",
            "windlass adhoc -i ssh-hosts -m ping all",
        ],
    ),
    case(
        "windlass hostkeys verify -i ssh-hosts",
        "is unknown",
        &[
            "windlass adhoc -i ssh-hosts -m ping all --ssh-common-args '-o StrictHostKeyChecking=accept-new'",
            "windlass adhoc -i ssh-hosts -m ping all",
        ],
    ),
    case(
        "windlass adhoc -i no-key-hosts -m ping all --accept-new-host-keys",
        "give a key (--private-key, ansible_ssh_private_key_file), an ssh-agent or a password (--ask-pass)",
        &[
            "windlass adhoc -i no-key-hosts -m ping all --private-key id",
            "windlass adhoc -i no-key-hosts -m ping all -e ansible_ssh_private_key_file=id",
            "windlass adhoc --ask-pass --help",
        ],
    ),
];
