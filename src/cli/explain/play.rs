//! `windlass explain play`.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::{Explanation, place, place::Places, table};
use crate::cli::session::Session;
use crate::error::{Error, Result};
use crate::strategy::PlaybookRun;
use crate::strategy::explain::{Entered, unknown_name};

/// Maximum number of names on a line.
const NAMES: usize = 10;

/// Keywords that are shown in lines of their own.
const APART: &[&str] = &["handlers", "hosts", "name", "post_tasks", "pre_tasks", "roles", "tasks"];

/// Explains the plays of a playbook: their hosts and batches, variables, roles and tasks. `wanted` is the number of a
/// play, its name, or a part of it.
pub(super) fn about_plays(session: &Session, playbook: &Path, wanted: Option<&str>) -> Result<Explanation> {
    let mut run = PlaybookRun::new(Arc::clone(&session.shared), Arc::clone(&session.world));
    let mut plays = Vec::new();
    for (index, play) in session.shared.loader.playbook(playbook)?.into_iter().enumerate() {
        plays.push((index + 1, run.entered(&Arc::new(play))?));
    }
    let chosen = match wanted {
        None => plays.iter().collect(),
        Some(wanted) => chosen(&plays, wanted)?,
    };
    let places = Places::new();
    let mut lines = Vec::new();
    let mut json = Vec::new();
    for (number, entered) in chosen {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        json.push(explain(*number, entered, &places, &mut lines)?);
    }
    Ok(Explanation { lines, json: json!({"plays": json}) })
}

fn chosen<'p>(plays: &'p [(usize, Entered)], wanted: &str) -> Result<Vec<&'p (usize, Entered)>> {
    let lower = wanted.to_lowercase();
    type Matches<'m> = &'m dyn Fn(&(usize, Entered)) -> bool;
    let is_number = |(number, _): &(usize, Entered)| wanted.parse() == Ok(*number);
    let is_named = |(_, play): &(usize, Entered)| play.name == wanted;
    let contains = |(_, play): &(usize, Entered)| play.name.to_lowercase().contains(&lower);
    let searches: [Matches<'_>; 3] = [&is_number, &is_named, &contains];
    let found = searches.iter().map(|matches| plays.iter().filter(|play| matches(play)).collect::<Vec<_>>());
    found.into_iter().find(|found| !found.is_empty()).ok_or_else(|| {
        let error = unknown_name("play", wanted, plays.iter().map(|(_, play)| play.name.as_str()));
        match plays.len() {
            0 => Error::usage("the playbook has no play"),
            _ => error,
        }
    })
}

fn explain(number: usize, entered: &Entered, places: &Places, lines: &mut Vec<String>) -> Result<Json> {
    let play = &entered.play;
    let batches = entered.batches()?;
    let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
    let roles: Vec<String> = play.roles.iter().map(|role| role.name.to_string()).collect();
    let (mut tasks, mut handlers) = (0, 0);
    for task in play.all_tasks() {
        *if task.handler { &mut handlers } else { &mut tasks } += 1;
    }
    lines.push(format!("play {number} '{}' ({})", entered.name, places.span(&play.span)));
    let serial = if sizes.len() > 1 {
        format!("{} of {}", sizes.len(), sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
    } else {
        String::new()
    };
    let texts = [
        ("pattern", entered.patterns.join(",")),
        ("hosts", names(&entered.hosts.iter().map(|host| host.to_string()).collect::<Vec<_>>())),
        ("batches", serial),
        ("roles", names(&roles)),
        ("tasks", tasks.to_string()),
        ("handlers", if handlers == 0 { String::new() } else { handlers.to_string() }),
    ];
    let rows: Vec<Vec<String>> = texts
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| vec![name.to_owned(), text])
        .collect();
    lines.extend(table(&rows, 2));
    let mut rows = Vec::new();
    let mut keywords = serde_json::Map::new();
    for (name, node) in play.frame.keywords.iter().filter(|(name, _)| !APART.contains(name)) {
        let (text, json) = match (name, node.as_map()) {
            // Values may be secret, and `explain var` shows them with their places.
            ("vars", Some(map)) => {
                let all: Vec<String> = map.keys().map(windlass_yaml::Key::to_text).collect();
                (names(&all), json!(all))
            }
            _ => (super::value::short(&node.to_json()), node.to_json()),
        };
        rows.push(vec![name.to_owned(), text, places.span(&node.span)]);
        keywords.insert(name.to_owned(), json!({"written": json, "place": place::json(Some(&node.span))}));
    }
    if !rows.is_empty() {
        lines.push("  keywords".to_owned());
        lines.extend(table(&rows, 4));
    }
    Ok(json!({
        "number": number,
        "name": entered.name,
        "place": place::json(Some(&play.span)),
        "patterns": entered.patterns,
        "batches": batches,
        "roles": roles,
        "tasks": tasks,
        "handlers": handlers,
        "keywords": keywords,
    }))
}

/// Names with commas; of many, the first and their number.
fn names(all: &[String]) -> String {
    match all.get(..NAMES).filter(|_| all.len() > NAMES) {
        Some(first) => format!("{} and {} more", first.join(", "), all.len() - NAMES),
        None => all.join(", "),
    }
}
