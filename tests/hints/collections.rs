//! Hints of `windlass galaxy collection`.

use super::Case;

pub(crate) const CASES: &[Case] = &[
    Case {
        setup: &[],
        fails: "tar czf wrong.tar.gz right.yml && windlass galaxy collection install wrong.tar.gz -p there",
        says: "an archive of a collection is made by `windlass galaxy collection build`",
        mended: &[],
        then: &["windlass galaxy collection init me.it && windlass galaxy collection build me/it \
                 && windlass galaxy collection install me-it-1.0.0.tar.gz -p there"],
    },
    Case {
        setup: &[("requirements.yml", "collections: [me-it-1.0.0.tar.gz]\n")],
        fails: "windlass galaxy collection init me.it && windlass galaxy collection build me/it \
                && windlass galaxy collection install -r requirements.yml --lock \
                && echo x >> .ansible/collections/ansible_collections/me/it/README.md \
                && windlass galaxy collection install -r requirements.yml --locked",
        says: "reinstall it with --force",
        mended: &[],
        then: &["windlass galaxy collection install -r requirements.yml --locked --force"],
    },
    Case {
        setup: &[("ansible.cfg", "[galaxy]\ngpg_keyring = keys.gpg\n")],
        fails: "windlass galaxy collection init me.it && echo 'collections: [me/it]' > all.yml && windlass galaxy install -r all.yml",
        says: "set `disable_gpg_verify = true` in [galaxy] of ansible.cfg, or install with ansible-galaxy",
        mended: &[("ansible.cfg", "[galaxy]\ngpg_keyring = keys.gpg\ndisable_gpg_verify = true\n")],
        then: &["windlass galaxy collection install me/it", "windlass galaxy install -r all.yml"],
    },
];
