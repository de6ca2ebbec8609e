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
        setup: &[("ansible.cfg", "[galaxy]\ngpg_keyring = ./keys.gpg\n")],
        fails: "windlass galaxy collection init me.it && windlass galaxy collection build me/it \
                && windlass galaxy collection install me-it-1.0.0.tar.gz",
        says: "import keys into it: `gpg --no-default-keyring --keyring FILE --import KEY.asc`",
        mended: &[],
        then: &[
            "gpg --homedir . --batch --passphrase '' --quick-generate-key me@example.org && gpg --homedir . --export me > KEY.asc \
                 && gpg --homedir . --no-default-keyring --keyring ./keys.gpg --import KEY.asc \
                 && windlass galaxy collection install me-it-1.0.0.tar.gz",
        ],
    },
    Case {
        setup: &[],
        fails: "windlass galaxy collection init me.it && windlass galaxy collection build me/it \
                && gpg --homedir . --batch --passphrase '' --quick-generate-key me@example.org && tar xf me-it-1.0.0.tar.gz MANIFEST.json \
                && gpg --homedir . --armor --detach-sign MANIFEST.json && gpg --homedir . --export > keys.gpg \
                && windlass galaxy collection install me-it-1.0.0.tar.gz --signature file://$PWD/MANIFEST.json.asc",
        says: "name one with --keyring, or `gpg_keyring` in [galaxy] of ansible.cfg",
        mended: &[],
        then: &[
            "windlass galaxy collection install me-it-1.0.0.tar.gz --signature file://$PWD/MANIFEST.json.asc --keyring keys.gpg \
                 --required-valid-signature-count +1",
        ],
    },
];
