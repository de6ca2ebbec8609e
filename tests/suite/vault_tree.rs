//! `windlass vault rekey` of whole projects, and `textconv` for git.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;

struct Project(tempfile::TempDir);

impl Project {
    /// A project with a vaulted file, a vaulted value, one of another vault id, and files without any.
    fn new() -> Project {
        let project = Project(tempfile::tempdir().unwrap());
        for folder in ["group_vars/all", ".git"] {
            fs::create_dir_all(project.path(folder)).unwrap();
        }
        for (name, text) in [("old", "first"), ("new", "second"), ("other", "third"), ("plain.yml", "a: 1\n")] {
            project.write(name, text);
        }
        project.write("group_vars/all/whole.yml", "whole_secret: w-1\n");
        project.write("text.txt", "whole text\n");
        project.call(&["vault", "encrypt", "group_vars/all/whole.yml", "text.txt", "--vault-password-file", "old"]);
        fs::copy(project.path("text.txt"), project.path(".git/object")).unwrap();
        let value = |id: &str, name: &str, text: &str| {
            project
                .call(&[
                    "vault",
                    "encrypt_string",
                    "--vault-id",
                    id,
                    "--encrypt-vault-id",
                    id.split('@').next().unwrap(),
                    "--name",
                    name,
                    text,
                ])
                .1
        };
        let (own, other) = (value("default@old", "own_secret", "v-1"), value("dev@other", "dev_secret", "v-2"));
        project.write(
            "group_vars/all/values.yml",
            &format!("# kept\nplain: &x text\n{own}{other}again: *x   # kept too\n"),
        );
        fs::set_permissions(project.path("group_vars/all/values.yml"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("/etc/hostname", project.path("link")).unwrap();
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Exit code, standard output and standard error.
    fn call(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        let output = command.args(words).current_dir(self.0.path()).env("HOME", self.0.path()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// The value of a variable on a host, with a password.
    fn value(&self, name: &str, passwords: &[&str]) -> String {
        let mut words = vec!["adhoc", "-i", "localhost,", "-c", "local", "all", "-m", "copy", "--playbook-dir", "."];
        let option = format!("dest={} content={{{{ {name} }}}}", self.path("out").display());
        words.extend(["-a", &option]);
        words.extend(passwords.iter().flat_map(|id| ["--vault-id", id]));
        let (code, out, err) = self.call(&words);
        assert_eq!(code, Some(0), "{out}{err}");
        self.read("out")
    }
}

const REKEY: &[&str] = &["vault", "rekey", ".", "--vault-id", "default@old", "--new-vault-password-file", "new"];

#[test]
fn tree_rekeyed_with_its_values_and_the_rest_kept() {
    let project = Project::new();
    let before = project.read("group_vars/all/values.yml");
    let (code, _, text) = project.call(REKEY);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("Re-encrypted 3 secrets in 3 files"), "{text}");
    assert!(
        text.contains("values.yml:") && text.contains("left as it is, because it has the vault id `dev`"),
        "{text}"
    );
    for (name, plain) in [("whole_secret", "w-1"), ("own_secret", "v-1"), ("dev_secret", "v-2")] {
        assert_eq!(project.value(name, &["default@new", "dev@other"]), plain);
    }
    let after = project.read("group_vars/all/values.yml");
    let kept = |text: &str| text.lines().filter(|line| !line.starts_with(' ')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(kept(&before), kept(&after));
    assert!(before != after && after.lines().count() >= 8, "{after}");
    let mode = fs::metadata(project.path("group_vars/all/values.yml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    // A hidden folder is not part of the project.
    let (code, ..) = project.call(&["vault", "view", ".git/object", "--vault-password-file", "old"]);
    assert_eq!(code, Some(0));
}

#[test]
fn tree_with_an_unreadable_value_is_left_whole() {
    let project = Project::new();
    project.write("late.yml", "x: 1\n");
    project.call(&["vault", "encrypt", "late.yml", "--vault-password-file", "other"]);
    let before = ["group_vars/all/whole.yml", "group_vars/all/values.yml", "text.txt"].map(|name| project.read(name));
    let (code, _, text) = project.call(REKEY);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("late.yml: Decryption failed"), "{text}");
    let after = ["group_vars/all/whole.yml", "group_vars/all/values.yml", "text.txt"].map(|name| project.read(name));
    assert_eq!(before, after);
    // A value in one line cannot be rewritten.
    fs::remove_file(project.path("late.yml")).unwrap();
    project.write("odd.yml", "x: !vault \"$ANSIBLE_VAULT;1.1;AES256\\n6162\"\n");
    let (code, _, text) = project.call(REKEY);
    assert!(code == Some(1) && text.contains("odd.yml has an encrypted value in a form that cannot"), "{text}");
}

#[test]
fn text_about_vaults_is_left_and_values_elsewhere_rekeyed() {
    let project = Project::new();
    let value = project.call(&["vault", "encrypt_string", "--vault-password-file", "old", "--name", "real", "r-1"]).1;
    let example = value.replace("real:", "  example:").replace("\n  ", "\n    ");
    project.write("vars.file", &format!("doc: |\n{example}\n{value}again: &a 1\nmore: *a\n"));
    project.write("broken.j2", &format!("{{% if x %}}\n{value}"));
    let (code, _, text) = project.call(REKEY);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("broken.j2: left as it is, because it is not YAML"), "{text}");
    assert!(project.read("vars.file").contains(&example), "the example in the text is not a value");
    let words = ["vault", "textconv", "vars.file", "--vault-password-file", "new"];
    assert!(project.call(&words).1.contains("real: !vault |\n          r-1\n"));
}

#[test]
fn several_vault_ids_never_get_one_password_by_accident() {
    let project = Project::new();
    project.write("ansible.cfg", "[defaults]\nvault_identity_list = default@old, dev@other\n");
    let before = project.read("group_vars/all/values.yml");
    let (code, _, text) = project.call(&["vault", "rekey", ".", "--new-vault-password-file", "new"]);
    assert_eq!(code, Some(5), "{text}");
    assert!(text.contains("there are several vault ids: default, dev"), "{text}");
    assert_eq!(before, project.read("group_vars/all/values.yml"));
    let (code, _, text) = project.call(REKEY);
    assert!(code == Some(0) && text.contains("left as it is, because it has the vault id `dev`"), "{text}");
}

#[test]
fn textconv_prints_what_it_can_decrypt() {
    let project = Project::new();
    let shown = |file: &str| project.call(&["vault", "textconv", file, "--vault-id", "default@old"]);
    assert_eq!(shown("group_vars/all/whole.yml").1, "whole_secret: w-1\n");
    assert_eq!(shown("plain.yml").1, "a: 1\n");
    let (code, text, _) = shown("group_vars/all/values.yml");
    assert_eq!(code, Some(0));
    assert!(text.contains("own_secret: !vault |\n          v-1\n"), "{text}");
    assert!(text.contains("dev_secret: !vault |\n          $ANSIBLE_VAULT;1.2;AES256;dev\n"), "{text}");
    project.write("ansible.cfg", "[defaults]\nvault_password_file = missing\n");
    let (code, text, _) = project.call(&["vault", "textconv", "text.txt"]);
    assert_eq!((code, text), (Some(0), project.read("text.txt")));
}

#[test]
fn git_shows_plain_differences_through_textconv() {
    let project = Project::new();
    fs::remove_dir_all(project.path(".git")).unwrap();
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).current_dir(self::Project::path(&project, ".")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    let program = format!("{} vault textconv --vault-password-file old", env!("CARGO_BIN_EXE_windlass"));
    git(&["config", "diff.vault.textconv", &program]);
    project.write(".gitattributes", "*.yml diff=vault\n");
    git(&["add", "-A"]);
    project.write("group_vars/all/whole.yml", "whole_secret: w-2\n");
    project.call(&["vault", "encrypt", "group_vars/all/whole.yml", "--vault-password-file", "old"]);
    let difference = git(&["diff"]);
    assert!(difference.contains("\n-whole_secret: w-1\n+whole_secret: w-2\n"), "{difference}");
}
