//! Passes hostile data (results, facts, files) to every documented argument, keyword, filter, test and lookup of the
//! program under attack. Nothing may render it, whatever the task's outcome.

use std::collections::BTreeSet;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::stage::{EVIL, EVIL_EXPRESSION, Stage, program};

/// The data: a text, an expression, a list, and key and value of a dictionary.
const VALUES: [&str; 4] =
    ["\"{{ r.x }}\"", "\"{{ r.e }}\"", "[\"{{ r.x }}\", \"{{ r.e }}\"]", "{\"{{ r.x }}\": \"{{ r.e }}\"}"];
/// Actions that wait for as long as their options say. They run with [`SHORT`] options alone.
const WAITING: &[&str] = &["reboot", "wait_for_connection", "wait_for", "pause"];
/// Tasks with these actions that end immediately, whatever `VALUE` is.
const SHORT: &[&str] = &[
    "    - pause: {prompt: VALUE, seconds: 1}\n",
    "    - pause: {seconds: VALUE}\n",
    "    - wait_for: {timeout: 1, sleep: 1, port: 1, msg: VALUE}\n",
    "    - wait_for: {timeout: 1, host: VALUE, port: 1}\n",
    "    - wait_for: {timeout: 1, path: VALUE, search_regex: VALUE}\n",
    "    - wait_for: {timeout: VALUE}\n",
    "    - wait_for_connection: {timeout: 1, delay: VALUE}\n",
    "    - reboot: {reboot_timeout: 1, msg: VALUE, search_paths: VALUE}\n",
    "    - reboot: {reboot_timeout: 1, reboot_command: VALUE, boot_time_command: VALUE, test_command: VALUE}\n",
    "    - reboot: {reboot_timeout: 1, pre_reboot_delay: VALUE}\n",
    "    - reboot: {reboot_timeout: 1, post_reboot_delay: VALUE}\n",
    "    - reboot: {reboot_timeout: VALUE, connect_timeout: VALUE}\n",
];

/// Answers to what `reboot` asks: the boot id, before and after the restart.
const REBOOTS: &[&str] = &[
    r#"{"rc": 0, "stdout": "EVIL"}"#,
    r#"{"rc": 0, "stdout": ""}"#,
    r#"{"rc": 0}"#,
    r#"{"rc": 0, "stdout": ["EVIL", {"EVIL": "EVIL"}]}"#,
    r#"{"rc": 0, "stdout": {"stdout": "EVIL"}}"#,
    r#"{"rc": 0, "stdout": 1e308, "stdout_lines": "EVIL"}"#,
    r#"{"rc": "EVIL", "stdout": "\u0000\u001b[2J\n"}"#,
    r#"{"rc": 1, "failed": true, "msg": "EVIL", "stderr": "EVIL"}"#,
    r#"{"failed": "EVIL", "unreachable": true, "msg": ["EVIL"]}"#,
    r#"{"skipped": true, "changed": "EVIL", "rebooted": true}"#,
    r#"{"rc": 0, "stdout": "a", "ansible_facts": {"discovered_interpreter_python": "EVIL"}, "invocation": "EVIL"}"#,
    r#"{"rc": 0, "stdout": "a", "timedout": {"period": "EVIL"}, "exception": "EVIL", "warnings": ["EVIL", 1]}"#,
];

/// A way for data to reach a task: its name, variables of the play, and tasks. They define `r` with a text `x` and an
/// expression `e`.
struct Source {
    name: &'static str,
    vars: &'static str,
    tasks: &'static str,
}

const SOURCES: &[Source] = &[
    Source { name: "result", vars: "{}", tasks: "    - command: anything\n      register: r\n" },
    Source {
        name: "fact",
        vars: "{r: {x: '{{ ansible_facts.distribution }}', e: '{{ ansible_facts.os_family }}'}}",
        tasks: "    - setup:\n",
    },
    Source {
        name: "cached fact",
        vars: "{r: {x: '{{ ansible_facts.distribution }}', e: '{{ ansible_facts.os_family }}'}}",
        tasks: "",
    },
    Source {
        name: "file of a host",
        vars: "{r: {x: \"{{ lookup('file', 'fetched/x') }}\", e: \"{{ lookup('file', 'fetched/e') }}\"}}",
        tasks: "",
    },
    Source {
        name: "slurp",
        vars: "{r: {x: '{{ s.content | b64decode }}', e: \"{{ s.content | b64decode | regex_search('1234 . 4321') }}\"}}",
        tasks: "    - slurp: {src: /x}\n      register: s\n",
    },
    Source {
        name: "set_fact",
        vars: "{r: {x: '{{ third }}', e: '{{ other.e }}'}}",
        tasks: "    - command: anything\n      register: first\n    - set_fact: {second: '{{ first.x }}', other: '{{ first }}'}\n    \
                - set_fact: {third: '{{ second }}'}\n",
    },
    Source {
        name: "variable of a role",
        vars: "{}",
        tasks: "    - command: anything\n      register: first\n    - include_role: {name: holder, public: true}\n",
    },
    Source {
        name: "items of a result",
        vars: "{r: {x: '{{ (all.results | first).x }}', e: '{{ all.results[1].e }}'}}",
        tasks: "    - command: anything\n      loop: [1, 2]\n      register: all\n",
    },
];

impl Source {
    /// The play up to the tasks under attack.
    fn play(&self) -> String {
        format!(
            "- hosts: liar\n  gather_facts: false\n  ignore_errors: true\n  ignore_unreachable: true\n  timeout: 5\n  vars: {}\n  \
             tasks:\n{}",
            self.vars, self.tasks
        )
    }
}

/// Deals sources and data to the places of one kind: after 32 places, every source has met every form of the data.
struct Turns {
    kind: &'static str,
    next: usize,
    dealt: BTreeSet<(&'static str, &'static str)>,
}

impl Turns {
    fn at(kind: &'static str) -> Turns {
        Turns { kind, next: 0, dealt: BTreeSet::new() }
    }

    /// The source and the data of the next place. Four places in a row get all forms of the data.
    fn next(&mut self) -> (&'static Source, &'static str) {
        let turn = self.next;
        self.next += 1;
        let (source, value) = (&SOURCES[(turn + turn / VALUES.len()) % SOURCES.len()], VALUES[turn % VALUES.len()]);
        self.dealt.insert((source.name, value));
        (source, value)
    }

    /// Asserts that every source has met every form of the data.
    fn is_complete(&self) {
        assert_eq!(self.dealt.len(), SOURCES.len() * VALUES.len(), "{}: {:?}", self.kind, self.dealt);
    }
}

fn stage() -> Option<Stage> {
    super::support::available().then(|| {
        let evil = json!({"changed": true, "x": EVIL, "e": EVIL_EXPRESSION, "stdout": EVIL, "msg": EVIL, "content": EVIL, "rc": 0,
            "ansible_facts": {"evil": EVIL}, "exists": true, "stat": {"exists": true, "path": EVIL}});
        let facts = json!({"ansible_facts": {"ansible_distribution": EVIL, "ansible_os_family": EVIL_EXPRESSION}});
        let slurp = json!({"encoding": "base64", "content": STANDARD.encode(EVIL)});
        let stage = Stage::new("answer", &json!({"*": evil, "setup": facts, "slurp": slurp}));
        stage.write("fetched/x", EVIL);
        stage.write("fetched/e", EVIL_EXPRESSION);
        stage.write("roles/holder/defaults/main.yml", "r: {x: '{{ from_role }}', e: '{{ first.e }}'}\n");
        stage.write("roles/holder/vars/main.yml", "from_role: '{{ first.x }}'\n");
        // The canary's path contains no character that JSON escapes.
        let cached = json!({"ansible_distribution": EVIL, "ansible_os_family": EVIL_EXPRESSION}).to_string();
        stage.write("cache/liar", &cached);
        for source in SOURCES {
            let check = "    - assert: {that: [\"'1234 * 4321' in r.x\", \"'1234 * 4321' in r.e\"]}\n      ignore_errors: false\n";
            let outcome = stage.run(&format!("{}{check}", source.play()), &[]);
            assert!(outcome.code == Some(0), "the data does not arrive by {}: {}", source.name, outcome.text);
        }
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

/// Runs tasks after a source of the data `r`. Returns the tasks that rendered it, and bisects out tasks that are
/// refused before the run.
fn rendered(stage: &Stage, what: &str, source: &Source, tasks: &[String]) -> Vec<String> {
    let playbook = format!("{}{}", source.play(), tasks.concat());
    match problem(stage, &format!("{what} with data of a {}", source.name), &playbook) {
        Ran::Yes => Vec::new(),
        Ran::Broken(problem) => vec![problem],
        Ran::Refused if tasks.len() < 2 => Vec::new(),
        Ran::Refused => {
            let (left, right) = tasks.split_at(tasks.len() / 2);
            [rendered(stage, what, source, left), rendered(stage, what, source, right)].concat()
        }
    }
}

/// Outcome of a playbook.
enum Ran {
    /// The playbook ended with its recap, and nothing was rendered.
    Yes,
    /// The playbook was refused before any task, or ended early.
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
    let (mut of_arguments, mut of_options) = (Turns::at("all arguments"), Turns::at("option"));
    for task in SHORT {
        let (source, value) = of_options.next();
        broken.extend(rendered(&stage, task, source, &[task.replace("VALUE", value)]));
    }
    for (name, page) in documented(&names) {
        let short = name.rsplit('.').next().unwrap_or_default();
        if WAITING.contains(&short) {
            continue;
        }
        let empty = Map::new();
        let options = page["doc"]["options"].as_object().unwrap_or(&empty);
        let required: Vec<&String> =
            options.iter().filter(|(_, option)| option["required"] == true).map(|(name, _)| name).collect();
        // Arguments that may be refused before the run get a separate task, so that the others still run.
        let (source, value) = of_arguments.next();
        let whole = format!("    - {name}: {value}\n    - action: {name}\n      args: {value}\n");
        broken.extend(rendered(&stage, &name, source, &[whole]));
        if options.is_empty() {
            continue;
        }
        // Also as a list, which contains both the text and the expression.
        let (source, value) = of_options.next();
        let mut tasks = Vec::new();
        for (option, value) in options.keys().flat_map(|option| [value, VALUES[2]].map(|value| (option, value))) {
            let mut task = format!("    - {name}:\n        {option}: {value}\n");
            for other in required.iter().filter(|other| **other != option) {
                task.push_str(&format!("        {other}: \"{{{{ r.x }}}}\"\n"));
            }
            tasks.push(task);
        }
        broken.extend(rendered(&stage, &name, source, &tasks));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    [of_arguments, of_options].iter().for_each(Turns::is_complete);
}

/// Every answer to what `reboot` asks, from a host that seems to restart and from one that does not.
pub(crate) fn reboots() {
    if !super::support::available() {
        return;
    }
    let task = "    - reboot: {reboot_timeout: 1, test_command: 'true'}\n      register: r\n      ignore_errors: true\n      \
                ignore_unreachable: true\n    - debug: {msg: \"{{ r }} {{ r.msg | default(r) }}\"}\n";
    let mut broken = Vec::new();
    for mode in ["answer", "restarts_when_asked"] {
        for answer in REBOOTS {
            let quoted = serde_json::to_string(EVIL).unwrap();
            let answer: Value = serde_json::from_str(&answer.replace("EVIL", quoted.trim_matches('"'))).unwrap();
            let stage = Stage::new(mode, &json!({"*": answer}));
            match problem(&stage, &format!("reboot answered by {answer} ({mode})"), &super::stage::tasks(task)) {
                Ran::Yes => {}
                Ran::Refused => broken.push(format!("{answer} ({mode}): the run ended early")),
                Ran::Broken(problem) => broken.push(problem),
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Every keyword of a task, a block and a play.
pub(crate) fn keywords() {
    let Some(stage) = stage() else { return };
    let mut broken = Vec::new();
    let (mut of_tasks, mut of_blocks, mut of_plays) =
        (Turns::at("keyword of a task"), Turns::at("keyword of a block"), Turns::at("keyword of a play"));
    for keyword in documented(&["-t", "keyword", "--list"]).keys() {
        for _ in VALUES {
            let (source, value) = of_tasks.next();
            let task = format!("    - debug: {{msg: \"{{{{ item | default('x') }}}}\"}}\n      {keyword}: {value}\n");
            broken.extend(rendered(&stage, &format!("task {keyword}: {value}"), source, &[task]));
            let (source, value) = of_blocks.next();
            let block = format!("    - block:\n        - debug: {{msg: x}}\n      {keyword}: {value}\n");
            broken.extend(rendered(&stage, &format!("block {keyword}: {value}"), source, &[block]));
        }
        // A play sees the data of another one only through facts.
        let (source, value) = of_plays.next();
        let play = format!(
            "{}    - set_fact: {{kept_x: \"{{{{ r.x }}}}\", kept_e: \"{{{{ r.e }}}}\"}}\n- hosts: liar\n  tasks:\n    - debug: msg=x\n  \
             {keyword}: {}\n",
            source.play(),
            value.replace("r.x", "hostvars.liar.kept_x").replace("r.e", "hostvars.liar.kept_e")
        );
        if let Ran::Broken(problem) = problem(&stage, &format!("play {keyword} with data of a {}", source.name), &play)
        {
            broken.push(problem);
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    [of_tasks, of_blocks, of_plays].iter().for_each(Turns::is_complete);
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
        let names: Vec<&String> = names.keys().collect();
        // Every source gets a group at least.
        let groups: Vec<_> = names.chunks((names.len() / SOURCES.len()).clamp(1, 25)).collect();
        assert!(groups.len() >= SOURCES.len(), "{kind}: {names:?}");
        for (group, source) in groups.into_iter().zip(SOURCES.iter().cycle()) {
            let expressions = group.iter().flat_map(|name| shapes.iter().map(|shape| shape.replace("NAME", name)));
            let tasks =
                expressions.map(|text| format!("    - debug: msg=\"{{{{ {text} }}}}\"\n    - debug: var=\"{text}\"\n"));
            broken.extend(rendered(&stage, &format!("{kind}s {group:?}"), source, &tasks.collect::<Vec<_>>()));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
