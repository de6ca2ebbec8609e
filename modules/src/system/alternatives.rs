//! `alternatives`: selects the program behind a common name.

use serde_json::{Value, json};

use crate::{Args, Diff, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec, process::Command};

/// The `alternatives` module.
pub struct Alternatives;

const SUBCOMMANDS: &[Opt] = &[
    Opt::required("name", Kind::Str, "Common name of the dependent link.").word(),
    Opt::required("path", Kind::Path, "Path of the program that the dependent link points to.").word(),
    Opt::required("link", Kind::Path, "Path of the dependent link."),
];

static SPEC: Spec = Spec {
    name: "alternatives",
    collection: "community.general",
    summary: "Manage alternative programs for common names",
    description: &[
        "Drives `update-alternatives`: adds and removes alternatives, selects one, or returns the choice to the \
         priorities.",
    ],
    options: &[
        Opt::required("name", Kind::Str, "Common name, such as `editor`.").word(),
        Opt::new("path", Kind::Path, "Path of the program.").word(),
        Opt::new("family", Kind::Str, "Family of programs to select, on systems that have families."),
        Opt::new("link", Kind::Path, "Path of the link with the common name. Required for a new name."),
        Opt::new("priority", Kind::Int, "Priority of the alternative; 50 for a new one."),
        Opt::new(
            "state",
            Kind::Str,
            "`present` adds the alternative, `selected` also selects it, `auto` adds it and lets the priorities \
             decide, `absent` removes it.",
        )
        .default("\"selected\"")
        .choices(&["present", "selected", "absent", "auto"]),
        Opt::new("subcommands", Kind::List(&Kind::Dict), "Dependent links that change together with this one.")
            .aliases(&["slaves"])
            .options(SUBCOMMANDS),
    ],
    required_one_of: &[&["path", "family"]],
    examples: "- name: Vim is the editor\n  community.general.alternatives:\n    name: editor\n    path: /usr/bin/vim.basic\n",
    returns: &[Return { name: "msg", kind: "str", when: "always", doc: "Summary of the changes." }],
    ..Spec::EMPTY
}
.compiled();

/// A dependent link of an alternative.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Follower {
    name: String,
    path: String,
    link: String,
}

/// One program that the name may select.
#[derive(Debug, Default, PartialEq, Eq)]
struct Alternative {
    path: String,
    family: Option<String>,
    priority: i64,
    followers: Vec<Follower>,
}

/// The state of a name as `update-alternatives` prints it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Known {
    manual: bool,
    path: Option<String>,
    link: Option<String>,
    alternatives: Vec<Alternative>,
}

impl Known {
    fn parse(text: &str) -> Known {
        let mut known = Known::default();
        let mut links: Vec<(String, String)> = Vec::new();
        for line in text.lines() {
            let bare = line.trim();
            let follower = bare.strip_prefix("slave ").or_else(|| bare.strip_prefix("follower "));
            if let Some(path) = bare.strip_prefix("link currently points to ") {
                known.path = Some(path.to_owned());
            } else if let Some((name, link)) = follower.and_then(|rest| rest.split_once(" is ")) {
                links.push((name.to_owned(), link.to_owned()));
            } else if let Some((name, path)) = follower.and_then(|rest| rest.split_once(": ")) {
                let link = links.iter().find(|(known, _)| known == name).map(|(_, link)| link.clone());
                if let (Some(alternative), true) = (known.alternatives.last_mut(), path != "(null)") {
                    let follower = Follower { name: name.into(), path: path.into(), link: link.unwrap_or_default() };
                    alternative.followers.push(follower);
                }
            } else if let Some((_, link)) = bare.strip_prefix("link ").and_then(|rest| rest.split_once(" is ")) {
                known.link = Some(link.to_owned());
            } else if let Some((path, rest)) = line.split_once(" - ").filter(|(path, _)| path.starts_with('/')) {
                let words: Vec<&str> = rest.split_whitespace().collect();
                let after = |word: &str| words.iter().position(|found| *found == word).and_then(|at| words.get(at + 1));
                known.alternatives.push(Alternative {
                    path: path.to_owned(),
                    family: after("family").map(|family| (*family).to_owned()),
                    priority: after("priority").and_then(|number| number.parse().ok()).unwrap_or(0),
                    followers: Vec::new(),
                });
            } else if known.alternatives.is_empty() && line.contains(" - ") {
                known.manual = line.contains("manual");
            }
        }
        known
    }

    fn alternative(&self, path: &str) -> Option<&Alternative> {
        self.alternatives.iter().find(|alternative| alternative.path == path)
    }
}

impl Module for Alternatives {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let name = args.required("name")?;
        let output = Command::new("update-alternatives").plain_locale().args(["--display", name]).run(host)?;
        let known = if output.success() { Known::parse(&output.stdout_text()) } else { Known::default() };
        let decision = decide(args, &known)?;
        let msg = decision.messages.join(" ");
        let commands = decision.commands;
        let plan = if commands.is_empty() {
            Plan::unchanged()
        } else {
            Plan::change(move |host, _| {
                for words in commands {
                    Command::new("update-alternatives").plain_locale().args(words).check_run(host)?;
                }
                Ok(())
            })
        };
        let plan = plan.with("msg", msg);
        let diff = Diff { before: decision.before.into(), after: decision.after.into(), ..Diff::default() };
        Ok(if host.diff() { plan.with_diff(diff) } else { plan })
    }
}

#[derive(Default)]
struct Decision {
    commands: Vec<Vec<String>>,
    messages: Vec<String>,
    before: Map,
    after: Map,
}

impl Decision {
    fn run(&mut self, words: &[&str], message: String) {
        self.commands.push(words.iter().map(|word| (*word).to_owned()).collect());
        self.messages.push(message);
    }
}

fn decide(args: &Args, known: &Known) -> Result<Decision, Failure> {
    let name = args.required("name")?;
    let (path, family) = (args.str("path"), args.str("family"));
    let state = args.required("state")?;
    let mut decision = Decision::default();
    let current = path.and_then(|path| known.alternative(path));
    decision.before = match current {
        Some(current) => described(current, known.link.as_deref(), "present"),
        // An unknown name has no state to report.
        None if *known == Known::default() => Map::new(),
        None => Map::from_iter([("state".to_owned(), "absent".into())]),
    };
    if state == "absent" {
        if let (Some(path), Some(_)) = (path, current) {
            decision.run(&["--remove", name, path], format!("Remove alternative '{path}' from '{name}'."));
            decision.after.insert("state".into(), "absent".into());
        }
        return Ok(decision);
    }
    let followers = followers(args);
    if let Some(path) = path {
        let priority = args.int("priority");
        let differs = match current {
            None => true,
            Some(current) => {
                let sorted = |list: &[Follower]| {
                    let mut list = list.to_vec();
                    list.sort();
                    list
                };
                priority.is_some_and(|priority| priority != current.priority)
                    || followers.as_ref().is_some_and(|wanted| sorted(wanted) != sorted(&current.followers))
            }
        };
        if differs {
            if !std::path::Path::new(path).exists() {
                return Err(Failure::new(format!("Specified path {path} does not exist")));
            }
            let link = args.str("link").or(known.link.as_deref()).ok_or_else(|| {
                Failure::new("Needed to install the alternative, but unable to do so as we are missing the link")
            })?;
            let wanted = Alternative {
                path: path.to_owned(),
                family: family.map(str::to_owned),
                priority: priority.or(current.map(|current| current.priority)).unwrap_or(50),
                followers: followers.or(current.map(|current| current.followers.clone())).unwrap_or_default(),
            };
            let number = wanted.priority.to_string();
            let mut words = vec!["--install", link, name, path, &number];
            if let Some(family) = family {
                words.extend(["--family", family]);
            }
            for follower in &wanted.followers {
                words.extend(["--slave", &follower.link, &follower.name, &follower.path]);
            }
            decision.run(&words, format!("Install alternative '{path}' for '{name}'."));
            decision.after = described(&wanted, Some(link), "present");
            decision.after.insert("family".into(), json!(family));
        }
    }
    let selected = known.path.as_deref().and_then(|path| known.alternative(path));
    let same = path.is_some() && known.path.as_deref() == path
        || selected.is_some_and(|selected| family.is_some() && selected.family.as_deref() == family);
    if state == "selected" && !same {
        let wanted = path.or(family).unwrap_or_default();
        decision.run(&["--set", name, wanted], format!("Set alternative '{wanted}' for '{name}'."));
        decision.after.insert("state".into(), "selected".into());
    }
    if state == "auto" && known.manual {
        decision.run(&["--auto", name], format!("Set alternative to auto for '{name}'."));
        decision.after.insert("state".into(), "present".into());
    }
    Ok(decision)
}

fn followers(args: &Args) -> Option<Vec<Follower>> {
    let text = |item: &Value, key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let items = args.value("subcommands")?.as_array()?.iter();
    Some(
        items
            .map(|item| Follower { name: text(item, "name"), path: text(item, "path"), link: text(item, "link") })
            .collect(),
    )
}

fn described(alternative: &Alternative, link: Option<&str>, state: &str) -> Map {
    let mut map = Map::new();
    map.insert("state".into(), state.into());
    map.insert("path".into(), alternative.path.as_str().into());
    map.insert("priority".into(), alternative.priority.into());
    map.insert("link".into(), json!(link));
    if !alternative.followers.is_empty() {
        let shown = alternative.followers.iter();
        let shown = shown.map(|one| json!({ "name": one.name, "path": one.path, "link": one.link }));
        map.insert("subcommands".into(), shown.collect());
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISPLAY: &str = "editor - auto mode\n  link best version is /bin/nano\n  link currently points to /bin/cat\n  link editor is /usr/bin/editor\n  slave editor.1.gz is /usr/share/man/man1/editor.1.gz\n/bin/cat - priority 40\n  slave editor.1.gz: /usr/share/man/man1/nano.1.gz\n/bin/ls - priority 15\n";

    fn commands(arguments: Value) -> Vec<String> {
        let args = Args::validate(&SPEC, &arguments, &Host::alone()).unwrap();
        decide(&args, &Known::parse(DISPLAY)).unwrap().commands.iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn alternatives_parsed_added_and_selected() {
        let known = Known::parse(DISPLAY);
        assert_eq!(
            (known.manual, known.link.as_deref(), known.path.as_deref()),
            (false, Some("/usr/bin/editor"), Some("/bin/cat"))
        );
        assert_eq!(known.alternatives[0].followers[0].link, "/usr/share/man/man1/editor.1.gz");
        for (arguments, expected) in [
            (json!({"name": "editor", "path": "/bin/cat"}), vec![]),
            (json!({"name": "editor", "path": "/bin/ls"}), vec!["--set editor /bin/ls"]),
            (json!({"name": "editor", "path": "/bin/ls", "state": "present"}), vec![]),
            (
                json!({"name": "editor", "path": "/bin/sh", "priority": 5}),
                vec!["--install /usr/bin/editor editor /bin/sh 5", "--set editor /bin/sh"],
            ),
            (json!({"name": "editor", "path": "/bin/ls", "state": "absent"}), vec!["--remove editor /bin/ls"]),
            (json!({"name": "editor", "path": "/bin/sh", "state": "absent"}), vec![]),
        ] {
            assert_eq!(commands(arguments), expected);
        }
    }
}
