//! Lookups of files, commands and the inventory.

#![allow(clippy::unwrap_used, missing_docs)]
#![expect(clippy::disallowed_methods, reason = "the expressions are the tests' own")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::json;
use windlass_template::{Context, Engine, LIBRARY, Options, Variable, from_json, text, to_json};
use windlass_vault::{Secret, Secrets};
use windlass_yaml::{Node, Span};

fn context(directory: &Path, secrets: Secrets) -> Context {
    let groups = json!({
        "all": ["web1", "web2", "db1", "db2"], "web": ["web1", "web2"], "db": ["db1", "db2"], "prod": ["web1", "db1"]
    });
    let variables: IndexMap<Arc<str>, Variable> =
        [(Arc::from("groups"), Variable::Data(from_json(&groups)))].into_iter().collect();
    let options = Options { playbook_dir: directory.to_path_buf(), secrets, ..Options::default() };
    Engine::new(&LIBRARY, options).scope(Arc::new(variables))
}

fn ask(context: &Context, expression: &str) -> String {
    context
        .evaluate(&Node::of_project(expression, Span::none()))
        .map_or_else(|error| error.to_string(), |value| text(&value))
}

#[test]
fn password_generated_once() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(directory.path(), Secrets::new());
    let first = ask(&context, "lookup('password', 'secrets/db length=24 chars=hexdigits')");
    assert_eq!(first.len(), 24);
    assert!(first.bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert_eq!(ask(&context, "lookup('password', 'secrets/db')"), first);
    let file = directory.path().join("secrets/db");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{first}\n"));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let hashed = ask(&context, "lookup('password', 'secrets/db', encrypt='md5_crypt')");
    assert!(hashed.starts_with("$1$"), "{hashed}");
    assert_eq!(ask(&context, "lookup('password', 'secrets/db', encrypt='md5_crypt')"), hashed);
    assert_eq!(ask(&context, "lookup('password', 'secrets/db')"), first);
}

#[test]
fn stored_password_that_cannot_be_read_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(directory.path(), Secrets::new());
    std::os::unix::fs::symlink("/dev/zero", directory.path().join("device")).unwrap();
    std::os::unix::fs::symlink("nowhere", directory.path().join("link")).unwrap();
    for name in ["device", "link"] {
        let said = ask(&context, &format!("lookup('password', '{name}')"));
        assert!(said.contains("cannot read"), "{said}");
        assert!(directory.path().join(name).is_symlink(), "{name} was replaced");
    }
    // The temporary file has an unpredictable name, so a link placed in advance is not followed.
    std::fs::write(directory.path().join("victim"), "old").unwrap();
    let guessed = directory.path().join(format!("db.windlass-{}", std::process::id()));
    std::os::unix::fs::symlink("victim", &guessed).unwrap();
    ask(&context, "lookup('password', 'db')");
    assert_eq!(std::fs::read_to_string(directory.path().join("victim")).unwrap(), "old");
}

#[test]
fn vaulted_file_decrypted_with_secrets_of_run() {
    let directory = tempfile::tempdir().unwrap();
    let secret = Secret::new("default", "pw");
    let sealed = windlass_vault::encrypt(b"the secret\n", &secret).unwrap();
    std::fs::create_dir(directory.path().join("files")).unwrap();
    std::fs::write(directory.path().join("files/sealed"), sealed).unwrap();
    let mut secrets = Secrets::new();
    secrets.push(secret);
    let open = context(directory.path(), secrets);
    assert_eq!(ask(&open, "lookup('file', 'sealed')"), "the secret");
    assert_eq!(open.engine().revealed().texts(), [Arc::from("the secret")]);
    let closed = context(directory.path(), Secrets::new());
    assert!(ask(&closed, "lookup('file', 'sealed')").contains("cannot decrypt"));
}

#[test]
fn commands_run_in_the_playbooks_directory() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("here"), "").unwrap();
    let context = context(directory.path(), Secrets::new());
    assert_eq!(ask(&context, "lookup('pipe', 'ls')"), "here");
    let failed = ask(&context, "lookup('pipe', 'echo reason >&2; exit 3')");
    assert!(failed.contains("exit code 3: reason"), "{failed}");
}

#[test]
fn host_patterns_follow_the_groups() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(directory.path(), Secrets::new());
    let cases = [
        ("all", "['web1', 'web2', 'db1', 'db2']"),
        ("web:&prod", "['web1']"),
        ("all:!db", "['web1', 'web2']"),
        ("db*,web2", "['db1', 'db2', 'web2']"),
        ("web[0]", "['web1']"),
        ("all[1:2]", "['web2', 'db1']"),
        ("~(web|db)1", "['web1', 'db1']"),
        ("nosuch", "[]"),
    ];
    for (pattern, expected) in cases {
        assert_eq!(ask(&context, &format!("query('inventory_hostnames', '{pattern}')")), expected, "{pattern}");
    }
}

#[test]
fn filetree_lists_directories_before_files() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("files/web/conf")).unwrap();
    std::fs::write(directory.path().join("files/web/conf/site"), "x").unwrap();
    std::os::unix::fs::symlink("conf/site", directory.path().join("files/web/link")).unwrap();
    let context = context(directory.path(), Secrets::new());
    let expression = "query('community.general.filetree', 'web') | map('ansible.utils.keep_keys', ['path', 'state'])";
    let found = context.evaluate(&Node::of_project(format!("{expression} | list"), Span::none())).unwrap();
    let expected = json!([
        {"path": "conf", "state": "directory"}, {"path": "conf/site", "state": "file"}, {"path": "link", "state": "link"}
    ]);
    assert_eq!(to_json(&found), expected);
}

#[test]
fn missing_file_reported_with_searched_directories() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(directory.path(), Secrets::new());
    let failed = ask(&context, "lookup('file', 'nope.txt')");
    assert!(failed.contains("nope.txt") && failed.contains(&directory.path().display().to_string()), "{failed}");
}

#[test]
fn combinations_without_lists_name_their_lookup() {
    let context = context(Path::new("."), Secrets::new());
    for (lookup, list) in [("nested", "the nested list"), ("community.general.cartesian", "each list")] {
        let failed = ask(&context, &format!("query('{lookup}')"));
        let short = lookup.rsplit('.').next().unwrap_or(lookup);
        let sentence = format!("with_{short} requires at least one element in {list}");
        assert!(failed.contains(&sentence), "{failed}");
    }
}

#[test]
fn random_string_keeps_minimums() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(directory.path(), Secrets::new());
    let made = ask(&context, "lookup('community.general.random_string', length=12, special=false, min_numeric=5)");
    assert_eq!(made.len(), 12);
    assert!(made.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{made}");
    assert!(made.bytes().filter(u8::is_ascii_digit).count() >= 5, "{made}");
}
