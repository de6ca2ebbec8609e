//! Words that Ansible has removed since 2.9 and that older playbooks have, such as Kubespray 2.16.

use std::fs;
use std::process::Command;

use crate::ran::Ran;

fn run(files: &[(&str, &str)]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text.replace("FOLDER", &folder.path().display().to_string())).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["playbook", "-c", "local", "-i", "a,", "play.yml"]);
    crate::project::enter(&mut command, folder.path());
    Ran::of(&command.output().unwrap())
}

#[test]
fn include_runs_as_its_successor_with_a_warning() {
    let tasks = "- debug: {msg: 'in {{ item | default(\"a fixed file\") }}'}\n";
    let play = "- include: other.yml\n- hosts: all\n  gather_facts: false\n  tasks:\n    - include: tasks.yml\n    \
                - include: '{{ name }}.yml'\n      vars: {name: tasks}\n    - include: tasks.yml\n      with_items: [a loop]\n";
    let other = "- hosts: all\n  gather_facts: false\n  tasks:\n    - debug: {msg: another playbook}\n";
    let ran = run(&[("tasks.yml", tasks), ("play.yml", play), ("other.yml", other)]);
    ran.ends(0);
    for wanted in ["another playbook", "in a fixed file", "in a loop"] {
        ran.has(wanted);
    }
    for successor in ["import_playbook", "import_tasks", "include_tasks"] {
        ran.has(&format!("runs as `{successor}`"));
    }
}

#[test]
fn include_with_a_fixed_name_is_an_import_however_it_is_written() {
    let play = "- hosts: all\n  gather_facts: false\n  tasks:\n    - include: {file: tasks.yml}\n    \
                - action: {module: include, file: tasks.yml}\n    - include: tasks.yml\n      loop: null\n    \
                - include: {file: '{{ name }}.yml'}\n      vars: {name: tasks}\n";
    let ran = run(&[("tasks.yml", "- debug: {msg: it ran}\n"), ("play.yml", play)]);
    ran.ends(0);
    assert_eq!(ran.text.matches("runs as `import_tasks`").count(), 3, "{}", ran.text);
    assert_eq!(ran.text.matches("runs as `include_tasks`").count(), 1, "{}", ran.text);
    assert_eq!(ran.text.matches("it ran").count(), 4, "{}", ran.text);
}

#[test]
fn warn_of_command_is_dropped_with_a_warning() {
    let play = "- hosts: all\n  gather_facts: false\n  tasks:\n    - command: echo one warn=no\n    - shell: echo two\n      \
                args: {warn: false}\n";
    let ran = run(&[("play.yml", play)]);
    ran.ends(0);
    assert_eq!(ran.text.matches("was removed from Ansible and means nothing").count(), 2, "{}", ran.text);
}

#[test]
fn archive_on_the_host_named_by_copy_no_is_unpacked() {
    let play = "- hosts: all\n  gather_facts: false\n  tasks:\n    - file: {path: FOLDER/out, state: directory}\n    \
                - copy: {content: x, dest: FOLDER/file}\n    - archive: {path: FOLDER/file, dest: FOLDER/a.tar, format: tar}\n    \
                - unarchive: {src: FOLDER/a.tar, dest: FOLDER/out, copy: no}\n    - stat: {path: FOLDER/out/file}\n      \
                register: found\n    - assert: {that: found.stat.exists}\n";
    run(&[("play.yml", play)]).ends(0);
}
