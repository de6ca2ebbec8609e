//! Variable precedence: every pair of places where a variable can be set.
//!
//! The project `precedence` names its places with placeholders. For every other place, they set the variable of the
//! pair to the place's name: `@flow NAME@` as a flow mapping, `@params NAME@` as the content of one, `@lines NAME@` as
//! lines, and `@words NAME@` as `key=value` words. `@all@` is an expression with the values of all these variables at
//! its position.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regex::{Captures, Regex};
use serde_json::{Map, Value as Json, json};

use crate::answers::{Answers, Report};
use crate::engine::{Engine, copy_folder};

/// Runs the project with all pairs and compares the observed values.
pub(crate) fn run(engines: &[Engine], report: &mut Report) {
    let answers: Vec<(&Engine, Answers)> = engines.iter().map(|engine| (engine, ask(engine))).collect();
    report.settle("precedence", &crate::root().join("precedence.jsonl"), &answers);
}

fn ask(engine: &Engine) -> Answers {
    let folder = tempfile::tempdir().unwrap();
    let (case, scratch) = (folder.path().join("case"), folder.path().join("scratch"));
    copy_folder(&crate::root().join("precedence"), &case);
    fs::create_dir(&scratch).unwrap();
    let mut places = BTreeSet::new();
    each_file(&case, &mut |text| {
        places.extend(placeholder().captures_iter(text).map(|found| found[2].to_owned()));
        None
    });
    each_file(&case, &mut |text| Some(expanded(text, &places)));
    let run = engine.run("-i inventory playbook.yml -e @extra_vars.yml", &case, &scratch);
    let mut answers = Answers::new();
    for observer in observers(&scratch) {
        let seen: Map<String, Json> =
            serde_json::from_str(&fs::read_to_string(scratch.join(&observer)).unwrap()).unwrap();
        let observer = observer.trim_end_matches(".json");
        for place in &places {
            let other = |pair: &String| match pair.split_once("__") {
                Some((a, b)) if a == place => Some(b.to_owned()),
                Some((a, b)) if b == place => Some(a.to_owned()),
                _ => None,
            };
            let won = seen.iter().filter(|(_, winner)| *winner == place);
            let beaten: Vec<String> = won.filter_map(|(pair, _)| other(pair)).collect();
            answers.push((format!("{observer}: {place} wins over"), json!(beaten)));
        }
    }
    assert!(!answers.is_empty(), "[{}]\n{}{}", engine.line, run.stdout, run.stderr);
    answers
}

fn observers(scratch: &Path) -> Vec<String> {
    let names = fs::read_dir(scratch).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".json")).collect();
    names.sort();
    names
}

fn placeholder() -> Regex {
    Regex::new(r"@(flow|params|lines|words) (\w+)@").unwrap()
}

fn each_file(folder: &Path, change: &mut impl FnMut(&str) -> Option<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_file(&path, change);
        } else if let Some(text) = change(&fs::read_to_string(&path).unwrap()) {
            fs::write(path, text).unwrap();
        }
    }
}

fn expanded(text: &str, places: &BTreeSet<String>) -> String {
    let pair = |a: &str, b: &str| if a < b { format!("{a}__{b}") } else { format!("{b}__{a}") };
    let text = placeholder().replace_all(text, |found: &Captures<'_>| {
        let place = &found[2];
        let pairs = places.iter().filter(|other| *other != place).map(|other| pair(place, other));
        match &found[1] {
            "flow" => format!("{{{}}}", pairs.map(|pair| format!("{pair}: {place}")).collect::<Vec<_>>().join(", ")),
            "params" => pairs.map(|pair| format!("{pair}: {place}")).collect::<Vec<_>>().join(", "),
            "lines" => pairs.map(|pair| format!("{pair}={place}")).collect::<Vec<_>>().join("\n"),
            _ => pairs.map(|pair| format!("{pair}={place}")).collect::<Vec<_>>().join(" "),
        }
    });
    let mut all = Vec::new();
    for (index, a) in places.iter().enumerate() {
        for b in places.iter().skip(index + 1) {
            let pair = pair(a, b);
            all.push(format!("'{pair}': {pair} | default('neither')"));
        }
    }
    text.replace("@all@", &format!("{{{}}}", all.join(", ")))
}
