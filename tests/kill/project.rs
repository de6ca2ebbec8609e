//! The playbook, and the content of its files in each version. The version is an extra variable that increases each
//! round.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use crate::watch::Allowed;

/// Two names of the same machine.
pub(crate) const HOSTS: [&str; 2] = ["web1", "web2"];
/// Parent of everything that the playbook writes.
pub(crate) const DATA: &str = "/tmp/kill-data";

const PLAYBOOK: &str = r#"
- name: one after the other
  hosts: all
  serial: 1
  gather_facts: false
  vars: {d: "/tmp/kill-data/{{ inventory_hostname }}"}
  tasks:
    - {file: {path: "{{ d }}/folder", state: directory, mode: "0750"}}
    - {copy: {content: "small {{ version }}\n", dest: "{{ d }}/small", mode: "0644"}, notify: small}
    - {copy: {src: large, dest: "{{ d }}/large"}, notify: large}
    - {template: {src: page.j2, dest: "{{ d }}/page"}, notify: [page, topic]}
    - {lineinfile: {path: "{{ d }}/lines", regexp: "^version", line: "version {{ version }}"}, notify: lines}
    - {blockinfile: {path: "{{ d }}/block", block: "one {{ version }}\ntwo {{ version }}"}, notify: block}
    - {command: "cat {{ d }}/small", register: read, changed_when: false}
    - {set_fact: {seen: "seen {{ read.stdout }}"}}
    - {copy: {content: "{{ seen }}\n", dest: "{{ d }}/seen"}, notify: seen}
    - shell: echo made {{ version }} > {{ d }}/part && mv {{ d }}/part {{ d }}/made-{{ version }}
      args: {creates: "{{ d }}/made-{{ version }}"}
      notify: made
    - {copy: {content: "{{ item }} {{ version }}\n", dest: "{{ d }}/item-{{ item }}"}, loop: [a, b, c], notify: "item {{ item }}"}
    - block:
        - {command: test -e /nonexistent, changed_when: false}
      rescue:
        - {copy: {content: "rescued {{ version }}\n", dest: "{{ d }}/rescued"}, notify: rescued}
      always:
        - {command: "cat {{ d }}/rescued", register: rescued, changed_when: false}
    - {include_tasks: more.yml}
    - become: true
      become_user: "{{ user }}"
      block:
        - {copy: {content: "theirs {{ version }}\n", dest: "{{ d }}/theirs/copy"}, notify: theirs/copy}
        - {template: {src: page.j2, dest: "{{ d }}/theirs/page"}, notify: theirs/page}
        - {lineinfile: {path: "{{ d }}/theirs/lines", regexp: "^version", line: "version {{ version }}"}, notify: theirs/lines}
        - {command: id -un, register: who, changed_when: false}
    - {assert: {that: [who.stdout == user, rescued.stdout == "rescued " ~ version]}}
  handlers: &handlers
HANDLERS
- name: side by side
  hosts: all
  gather_facts: false
  vars: {d: "/tmp/kill-data/{{ inventory_hostname }}"}
  tasks:
    - {lineinfile: {path: /tmp/kill-data/shared, regexp: "^{{ inventory_hostname }} ", line: "{{ inventory_hostname }} {{ version }}"}}
    - {copy: {content: "late {{ version }}\n", dest: "{{ d }}/late"}, notify: late}
    - {copy: {content: "late {{ version }}\n", dest: "{{ d }}/theirs/late"}, become: true, become_user: "{{ user }}", notify: theirs/late}
  handlers: *handlers
"#;

const MORE: &str = r#"
- {copy: {content: "inner {{ version }}\n", dest: "{{ d }}/inner"}, notify: inner}
- {template: {src: page.j2, dest: "{{ d }}/inner-page"}, notify: inner-page}
"#;

/// Files of a host with a handler of the same name, and their contents.
fn handled(version: u64) -> Vec<(&'static str, String)> {
    let page = format!("page {version}\n{}", format!("a line of the page, version {version}\n").repeat(400));
    let lines = format!("first\n{}version {version}\nlast\n", "a line that stays\n".repeat(300));
    let block = format!(
        "first\n{}# BEGIN ANSIBLE MANAGED BLOCK\none {version}\ntwo {version}\n# END ANSIBLE MANAGED BLOCK\n",
        "a line that stays\n".repeat(300)
    );
    let word = |word: &str| format!("{word} {version}\n");
    vec![
        ("small", word("small")),
        ("large", large(version)),
        ("page", page.clone()),
        ("lines", lines.clone()),
        ("block", block),
        ("seen", word("seen small")),
        ("item-a", word("a")),
        ("item-b", word("b")),
        ("item-c", word("c")),
        ("rescued", word("rescued")),
        ("inner", word("inner")),
        ("inner-page", page.clone()),
        ("theirs/copy", word("theirs")),
        ("theirs/page", page),
        ("theirs/lines", lines),
        ("late", word("late")),
        ("theirs/late", word("late")),
    ]
}

/// A text too large to travel within a request.
fn large(version: u64) -> String {
    format!("the large file in version {version:08}\n").repeat(6000)
}

/// Handlers that copy their file: one that ran after the last change has the file's last content.
fn handlers() -> String {
    let handler = |name: &str, file: &str| {
        let trigger = match file.strip_prefix("item-") {
            Some(item) => format!("item {item}"),
            None => name.to_owned(),
        };
        let whose = if file.starts_with("theirs") { ", become: true, become_user: \"{{ user }}\"" } else { "" };
        format!(
            "    - {{name: {trigger}, shell: 'cat {{{{ d }}}}/{file} > {{{{ d }}}}/{file}.handled', changed_when: false{whose}}}\n"
        )
    };
    let mut text: String = handled(0).iter().map(|(file, _)| handler(file, file)).collect();
    text += "    - {name: made, shell: 'cat {{ d }}/made-{{ version }} > {{ d }}/made.handled', changed_when: false}\n";
    text +=
        "    - {name: heard, listen: topic, shell: 'cat {{ d }}/page > {{ d }}/heard.handled', changed_when: false}\n";
    text
}

/// Writes the project to a folder, and the files that exist before the first run.
pub(crate) fn write(folder: &Path, inventory: &str, user: &str) {
    fs::write(folder.join("hosts"), inventory).unwrap();
    fs::write(folder.join("site.yml"), PLAYBOOK.replace("HANDLERS\n", &handlers())).unwrap();
    fs::write(folder.join("more.yml"), MORE).unwrap();
    fs::create_dir_all(folder.join("templates")).unwrap();
    let page =
        "page {{ version }}\n{% for _ in range(400) %}\na line of the page, version {{ version }}\n{% endfor %}\n";
    fs::write(folder.join("templates/page.j2"), page).unwrap();
    let _ = fs::remove_dir_all(DATA);
    let id =
        |flag: &str| crate::support::run(std::process::Command::new("id").args([flag, user])).trim().parse().unwrap();
    let (uid, gid) = (id("-u"), id("-g"));
    for host in HOSTS {
        let theirs = path(host, "theirs");
        fs::create_dir_all(&theirs).unwrap();
        for file in ["lines", "block", "theirs/lines"] {
            let (_, content) = handled(0).into_iter().find(|(name, _)| *name == file).unwrap();
            fs::write(path(host, file), content).unwrap();
        }
        fs::set_permissions(path(host, "theirs/lines"), fs::Permissions::from_mode(0o644)).unwrap();
        chown(&theirs, Some(uid), Some(gid)).unwrap();
        chown(path(host, "theirs/lines"), Some(uid), Some(gid)).unwrap();
    }
    fs::write(Path::new(DATA).join("shared"), shared([0, 0])).unwrap();
}

/// Updates the project to this version.
pub(crate) fn set_version(folder: &Path, version: u64) {
    fs::write(folder.join("large"), large(version)).unwrap();
}

fn path(host: &str, name: &str) -> PathBuf {
    Path::new(DATA).join(host).join(name)
}

fn shared([first, second]: [u64; 2]) -> String {
    format!("first\nweb1 {first}\nweb2 {second}\n{}", "a line that stays\n".repeat(300))
}

/// Allowed contents of the destinations while one version replaces another.
pub(crate) fn allowed(old: u64, new: u64) -> Allowed {
    let mut allowed = Vec::new();
    for host in HOSTS {
        for ((name, before), (_, after)) in handled(old).into_iter().zip(handled(new)) {
            allowed.push((path(host, name), vec![before.into(), after.into()]));
        }
        allowed.push((path(host, &format!("made-{new}")), vec![format!("made {new}\n").into()]));
    }
    let both = [[old, old], [old, new], [new, old], [new, new]].map(|versions| shared(versions).into());
    allowed.push((Path::new(DATA).join("shared"), both.into()));
    allowed
}

/// Violations of the final state.
pub(crate) fn wrong(version: u64) -> Vec<String> {
    let mut expected: Vec<(PathBuf, String)> = vec![(Path::new(DATA).join("shared"), shared([version; 2]))];
    for host in HOSTS {
        for (name, content) in handled(version) {
            if name == "page" {
                expected.push((path(host, "heard.handled"), content.clone()));
            }
            expected.push((path(host, &format!("{name}.handled")), content.clone()));
            expected.push((path(host, name), content));
        }
        for name in [format!("made-{version}"), "made.handled".to_owned()] {
            expected.push((path(host, &name), format!("made {version}\n")));
        }
    }
    let differs =
        expected.into_iter().filter(|(path, content)| fs::read_to_string(path).ok().as_ref() != Some(content));
    differs
        .map(|(path, _)| match path.extension() {
            Some(_) => format!("a handler is lost: {} is not of version {version}", path.display()),
            None => format!("{} is not of version {version}", path.display()),
        })
        .collect()
}
