//! `debconf`: answers to configuration questions of Debian packages.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    Args, Diff, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec,
    process::{self, Command},
};

/// The `debconf` module.
pub struct Debconf;

static SPEC: Spec = Spec {
    name: "debconf",
    summary: "Answer the configuration questions of packages",
    description: &[
        "Stores an answer in debconf's database, so that the package does not ask during its next installation or \
         configuration. An installed package is not reconfigured.",
        "Without `question`, only reports the stored answers.",
    ],
    options: &[
        Opt::required("name", Kind::Str, "Name of the package.").line().aliases(&["pkg"]),
        Opt::new("question", Kind::Str, "Name of the question, such as `tzdata/Areas`.")
            .line()
            .aliases(&["selection", "setting"]),
        Opt::new("vtype", Kind::Str, "Type of the question.").line().choices(&[
            "boolean",
            "error",
            "multiselect",
            "note",
            "password",
            "seen",
            "select",
            "string",
            "text",
            "title",
        ]),
        Opt::new("value", Kind::Raw, "Answer to store; a list for a question with several answers.")
            .line()
            .aliases(&["answer"]),
        Opt::new("unseen", Kind::Bool, "Let the package ask the question anyway.").default("false"),
    ],
    required_together: &[&["question", "vtype", "value"]],
    examples: "- name: The time zone without a question\n  ansible.builtin.debconf:\n    name: tzdata\n    question: tzdata/Areas\n    vtype: select\n    value: Etc\n",
    returns: &[
        Return { name: "current", kind: "dict", when: "always", doc: "Answers after the task." },
        Return { name: "previous", kind: "dict", when: "changed", doc: "Answer before the task." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Debconf {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let package = args.required("name")?.to_owned();
        let output = Command::new("debconf-show").plain_locale().arg(&package).check_run(host)?;
        let answers = answers(&output.stdout_text());
        let Some(question) = args.str("question").map(str::to_owned) else {
            return Ok(Plan::unchanged().with("msg", "").with("current", json!(answers)));
        };
        let kind = args.required("vtype")?.to_owned();
        let wanted = Answer::of(args.value("value").unwrap_or(&Value::Null), &kind)?;
        let known = answers.get(&question);
        let same = match known {
            None => false,
            Some(_) if kind == "password" => stored_password(&package, &question, host)? == wanted.text(),
            Some(known) => wanted.equals(known, &kind),
        };
        if same {
            return Ok(Plan::unchanged().with("msg", "").with("current", json!(answers)));
        }
        let before = known.map(String::as_str).unwrap_or_default();
        let previous = Map::from_iter([(question.clone(), before.into())]);
        let current = Map::from_iter([(question.clone(), wanted.text().into())]);
        let diff = Diff { before: previous.clone().into(), after: current.clone().into(), ..Diff::default() };
        let mut words = vec!["debconf-set-selections".to_owned()];
        if args.bool("unseen") {
            words.push("-u".to_owned());
        }
        let line = format!("{package} {question} {kind} {}", wanted.text());
        let plan = Plan::change(move |host, outcome| {
            let (program, rest) = words.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
            let output = Command::new(program).plain_locale().args(rest).input(line).run(host)?;
            if !output.success() {
                let said = output.stderr_text();
                return Err(Failure::new(said.trim()).with("rc", output.rc));
            }
            outcome.set("msg", output.stdout_text());
            Ok(())
        });
        let plan = plan.with("msg", "").with("current", current).with("previous", previous);
        Ok(if host.diff() { plan.with_diff(diff) } else { plan })
    }
}

/// An answer as the task gives it.
enum Answer {
    One(String),
    Several(Vec<String>),
}

impl Answer {
    fn of(value: &Value, kind: &str) -> Result<Answer, Failure> {
        Ok(match value {
            Value::Array(items) if kind == "multiselect" => {
                let texts = items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
                let mut texts = texts.ok_or_else(|| {
                    Failure::new("Invalid value provided for 'multiselect': every choice must be a text.")
                })?;
                texts.sort();
                Answer::Several(texts)
            }
            Value::Bool(value) => Answer::One(value.to_string()),
            Value::String(text) if kind == "boolean" => Answer::One(text.to_lowercase()),
            Value::String(text) => Answer::One(text.clone()),
            Value::Number(number) => Answer::One(number.to_string()),
            _ => return Err(Failure::new(format!("The value of a question of type {kind} must be a text."))),
        })
    }

    fn text(&self) -> String {
        match self {
            Answer::One(text) => text.clone(),
            Answer::Several(texts) => texts.join(", "),
        }
    }

    fn equals(&self, known: &str, kind: &str) -> bool {
        match self {
            Answer::One(text) if kind == "boolean" => *text == known.to_lowercase(),
            Answer::One(text) => text == known,
            Answer::Several(texts) => {
                let mut known: Vec<&str> = known.split(',').map(str::trim).collect();
                known.sort_unstable();
                texts.iter().map(String::as_str).eq(known)
            }
        }
    }
}

/// Parses the answers that `debconf-show` prints: `* tzdata/Areas: Etc`.
fn answers(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(question, answer)| (question.trim_matches(['*', ' ']).to_owned(), answer.trim().to_owned())).collect()
}

/// Reads a password from debconf's database, because `debconf-show` hides it.
fn stored_password(package: &str, question: &str, host: &Host) -> Result<String, Failure> {
    if process::find(host, "debconf-get-selections").is_none() {
        return Err(Failure::new(
            "debconf-get-selections is not on this host, so a password cannot be compared: install debconf-utils.",
        ));
    }
    let output = Command::new("debconf-get-selections").plain_locale().check_run(host)?;
    let text = output.stdout_text();
    let found = text.lines().map(|line| line.splitn(4, ['\t', ' ']).collect::<Vec<_>>()).find_map(|fields| {
        let [owner, known, _, value] = fields.as_slice() else { return None };
        (*owner == package && *known == question).then(|| (*value).to_owned())
    });
    Ok(found.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_parsed_and_compared() {
        let found = answers("* tzdata/Areas: Etc\n  tzdata/Zones/Europe:\n  locales/x: a:b, c\n");
        assert_eq!(found["tzdata/Areas"], "Etc");
        assert_eq!(found["tzdata/Zones/Europe"], "");
        assert_eq!(found["locales/x"], "a:b, c");
        let several = Answer::of(&json!(["b", "a"]), "multiselect").unwrap();
        assert!(several.equals("a, b", "multiselect") && several.text() == "a, b");
        assert!(Answer::of(&json!(true), "boolean").unwrap().equals("True", "boolean"));
        assert!(Answer::of(&json!([1]), "multiselect").is_err());
        assert!(Answer::of(&json!({}), "string").is_err());
    }
}
