//! Modules that read a file, change it and write it, many at the same time.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod case;

use case::Bench;
use serde_json::{Value, json};

const TASKS: usize = 12;

/// Runs a module concurrently with different arguments, and returns the text of the file.
fn edited(module: &str, file: &str, args: impl Fn(usize) -> Value + Sync) -> String {
    let bench = Bench::new();
    std::thread::scope(|scope| {
        for number in 0..TASKS {
            let (bench, args) = (&bench, &args);
            scope.spawn(move || {
                let result = bench.run(module, args(number), false);
                assert_eq!(result["changed"], true, "{module}: {result}");
            });
        }
    });
    bench.read(file)
}

#[test]
fn lines_of_tasks_at_once_are_all_kept() {
    let config = |number| json!({ "ssh_config_file": "@/config", "host": format!("host{number}x"), "hostname": "h" });
    let section = |number| json!({ "name": format!("host{number}x"), "description": "d", "baseurl": "http://h/", "file": "one", "reposdir": "@" });
    let line = |number| json!({ "path": "@/file", "line": format!("host{number}x"), "create": true });
    let setting =
        |number| json!({ "name": format!("a.host{number}x"), "value": "v", "scope": "file", "file": "@/git" });
    let mut all = vec![
        edited("ssh_config", "config", config),
        edited("yum_repository", "one.repo", section),
        edited("lineinfile", "file", line),
    ];
    if windlass_testing::has("git") {
        all.push(edited("git_config", "git", setting));
    }
    for text in all {
        let kept = (0..TASKS).filter(|number| text.contains(&format!("host{number}x"))).count();
        assert_eq!(kept, TASKS, "{text}");
    }
}
