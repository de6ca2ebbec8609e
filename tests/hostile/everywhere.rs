//! Passes hostile data of a host to every documented argument, keyword, filter, test and lookup of the program under
//! attack. Nothing may render it, whatever the task's outcome.

use std::process::Command;

use serde_json::{Map, Value, json};

use super::stage::{EVIL, EVIL_EXPRESSION, Stage, program};

/// The data: a text, an expression, a list, and key and value of a dictionary.
const VALUES: [&str; 4] =
    ["\"{{ r.x }}\"", "\"{{ r.e }}\"", "[\"{{ r.x }}\", \"{{ r.e }}\"]", "{\"{{ r.x }}\": \"{{ r.e }}\"}"];
/// Options that only make a task wait.
const WAITING: &[&str] = &["reboot", "wait_for_connection", "wait_for", "pause"];

fn stage() -> Option<Stage> {
    super::support::available().then(|| {
        let evil = json!({"changed": true, "x": EVIL, "e": EVIL_EXPRESSION, "stdout": EVIL, "msg": EVIL, "content": EVIL, "rc": 0,
            "ansible_facts": {"evil": EVIL}, "exists": true, "stat": {"exists": true, "path": EVIL}});
        let stage = Stage::new("answer", &json!({"*": evil}));
        // Proves that the project's own text is rendered; otherwise, the checks below would be meaningless.
        let own = stage.run(&super::stage::tasks("    - debug: msg=\"{{ 1234 * 4321 }}\"\n"), &[]);
        assert!(own.text.contains("5332114"), "{}", own.text);
        stage
    })
}

/// Reads the program's documentation as JSON.
fn documented(words: &[&str]) -> Map<String, Value> {
    let output = Command::new(program()).arg("doc").args(words).arg("-j").output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs tasks after one whose hostile result is `r`. Returns the tasks that rendered it, and bisects out tasks that are
/// refused before the run.
fn rendered(stage: &Stage, what: &str, tasks: &[String]) -> Vec<String> {
    let playbook = format!(
        "- hosts: liar\n  gather_facts: false\n  ignore_errors: true\n  ignore_unreachable: true\n  timeout: 5\n  tasks:\n    \
         - command: anything\n      register: r\n{}",
        tasks.concat()
    );
    match problem(stage, what, &playbook) {
        Ran::Yes => Vec::new(),
        Ran::Broken(problem) => vec![problem],
        Ran::Refused if tasks.len() < 2 => Vec::new(),
        Ran::Refused => {
            let (left, right) = tasks.split_at(tasks.len() / 2);
            [rendered(stage, what, left), rendered(stage, what, right)].concat()
        }
    }
}

/// Outcome of a playbook.
enum Ran {
    /// It ended with its recap, and nothing was rendered.
    Yes,
    /// It was refused before any task, or ended early.
    Refused,
    Broken(String),
}

fn problem(stage: &Stage, what: &str, playbook: &str) -> Ran {
    let outcome = stage.run(playbook, &["-v", "--diff"]);
    let place = outcome.text.lines().find(|line| line.contains("5332114") || line.contains("panicked"));
    match (outcome.canary, place, outcome.code) {
        (true, ..) => Ran::Broken(format!("{what}: a command of the host ran on the controller")),
        (_, Some(line), _) => Ran::Broken(format!("{what}: {}", line.chars().take(300).collect::<String>())),
        (_, _, None) => Ran::Broken(format!("{what}: it did not end")),
        _ if outcome.text.contains("PLAY RECAP") => Ran::Yes,
        _ => Ran::Refused,
    }
}

/// Every option of every action and module.
pub(crate) fn actions() {
    let Some(stage) = stage() else { return };
    let listed = documented(&["--list"]);
    let names: Vec<&str> = listed.keys().map(String::as_str).collect();
    let mut broken = Vec::new();
    for (name, page) in documented(&names) {
        let short = name.rsplit('.').next().unwrap_or_default();
        if WAITING.contains(&short) {
            continue;
        }
        let empty = Map::new();
        let options = page["doc"]["options"].as_object().unwrap_or(&empty);
        let required: Vec<&String> =
            options.iter().filter(|(_, option)| option["required"] == true).map(|(name, _)| name).collect();
        let mut tasks = Vec::new();
        // A list contains both the text and the expression.
        for (option, value) in options.keys().flat_map(|option| [VALUES[0], VALUES[2]].map(|value| (option, value))) {
            let mut task = format!("    - {name}:\n        {option}: {value}\n");
            for other in required.iter().filter(|other| **other != option) {
                task.push_str(&format!("        {other}: \"{{{{ r.x }}}}\"\n"));
            }
            tasks.push(task);
        }
        // Arguments that may be refused before the run get a separate task, so that the others still run.
        let whole = format!("    - {name}: {}\n    - action: {name}\n      args: {}\n", VALUES[0], VALUES[0]);
        broken.extend(rendered(&stage, &name, &[whole]));
        broken.extend(rendered(&stage, &name, &tasks));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Every keyword of a task, a block and a play.
pub(crate) fn keywords() {
    let Some(stage) = stage() else { return };
    let mut broken = Vec::new();
    for keyword in documented(&["-t", "keyword", "--list"]).keys() {
        for value in VALUES {
            let task = format!("    - debug: {{msg: \"{{{{ item | default('x') }}}}\"}}\n      {keyword}: {value}\n");
            broken.extend(rendered(&stage, &format!("task {keyword}: {value}"), &[task]));
        }
        let play = format!(
            "- hosts: liar\n  gather_facts: false\n  tasks:\n    - command: anything\n      register: r\n    - set_fact: {{kept: \"{{{{ r }}}}\"}}\n\
             - hosts: liar\n  tasks:\n    - debug: msg=x\n  {keyword}: {}\n",
            VALUES[0].replace("r.x", "hostvars.liar.kept.x")
        );
        if let Ran::Broken(problem) = problem(&stage, &format!("play {keyword}"), &play) {
            broken.push(problem);
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Every filter, test and lookup, with the data as value and as argument.
pub(crate) fn expressions() {
    let Some(stage) = stage() else { return };
    let mut broken = Vec::new();
    let shapes: [(&str, &[&str]); 3] = [
        (
            "filter",
            &[
                "r.x | NAME",
                "r.e | NAME(r.e)",
                "[r.x, r.e] | NAME",
                "[r] | NAME('x')",
                "r | NAME(r.x, r.e)",
                "'a' | NAME(r.x)",
            ],
        ),
        ("test", &["r.x is NAME", "r.e is NAME(r.e)", "[r.x, r.e] is NAME", "[r.x] | select('NAME', r.e) | list"]),
        (
            "lookup",
            &["lookup('NAME', r.x)", "lookup('NAME', r.e, r.x)", "query('NAME', [r.x, r.e])", "lookup('NAME', r)"],
        ),
    ];
    for (kind, shapes) in shapes {
        let names = documented(&["-t", kind, "--list"]);
        for group in names.keys().collect::<Vec<_>>().chunks(25) {
            let expressions = group.iter().flat_map(|name| shapes.iter().map(|shape| shape.replace("NAME", name)));
            let tasks =
                expressions.map(|text| format!("    - debug: msg=\"{{{{ {text} }}}}\"\n    - debug: var=\"{text}\"\n"));
            broken.extend(rendered(&stage, &format!("{kind}s {group:?}"), &tasks.collect::<Vec<_>>()));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
