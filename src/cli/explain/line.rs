//! `windlass explain FILE:LINE`: an import or include, and the ways to it.

use std::path::Path;

use serde_json::{Value as Json, json};

use super::place::{self, Places};
use super::{Explanation, has_line, table};
use crate::error::{Error, Result, did_you_mean};
use crate::lint::{Inherited, Lead, Leads};
use crate::settings::{Config, Settings};

/// Names of the other explanations.
const SUBJECTS: [&str; 5] = ["var", "host", "when", "task", "play"];

/// Maximum number of includes with a template as name to list.
const OPEN: usize = 3;

/// Explains the import or include at a line of a file. It reads the project's files and runs nothing.
pub(super) fn about(wanted: &str) -> Result<Explanation> {
    let position = wanted.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?)));
    let Some((file, line)) = position else {
        let error = Error::usage(format!("`{wanted}` is neither FILE:LINE nor one of {}", SUBJECTS.join(", ")));
        return Err(error.maybe_hint(did_you_mean(wanted, SUBJECTS)));
    };
    let path = crate::paths::absolute(Path::new(file));
    if !path.is_file() {
        return Err(Error::usage(format!("{file} is not a file")));
    }
    let settings = Settings::from_config(&Config::find()?)?;
    let leads = Leads::read(&path, &crate::cli::lint::modules(&settings))?;
    let found: Vec<&Lead> = leads.of_file(&path).filter(|lead| has_line(&lead.span, line)).collect();
    if found.is_empty() {
        let mut lines: Vec<u32> = leads.of_file(&path).map(|lead| lead.span.line).collect();
        lines.sort_unstable();
        let hint = match lines.is_empty() {
            true => "`windlass explain task` explains other tasks".to_owned(),
            false => {
                let lines: Vec<String> = lines.iter().map(u32::to_string).collect();
                format!("this file has them at the lines {}", lines.join(", "))
            }
        };
        return Err(Error::usage(format!("there is no import or include at {wanted}")).hint(hint));
    }
    let explainer = Lines { places: Places::new(), leads: &leads };
    let mut lines = Vec::new();
    let mut json = Vec::new();
    for lead in found {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        json.push(explainer.of_lead(lead, &path, &mut lines));
    }
    Ok(Explanation { lines, json: json!({"lines": json}) })
}

struct Lines<'l> {
    places: Places,
    leads: &'l Leads,
}

impl Lines<'_> {
    fn of_lead(&self, lead: &Lead, path: &Path, lines: &mut Vec<String>) -> Json {
        lines.push(format!("{} '{}' ({})", lead.kind, lead.name, self.places.span(&lead.span)));
        let targets: Vec<String> = lead.targets.iter().map(|target| self.places.path(target)).collect();
        let (verb, scope) = match lead.is_static() {
            true => ("imports", "every imported task has these tags and conditions"),
            false => ("includes", "these apply only to the include itself; `apply` sets them for its tasks"),
        };
        let unknown = if crate::lint::is_template(&lead.name) { "only a run knows the file" } else { "missing" };
        let target = if targets.is_empty() { unknown.to_owned() } else { targets.join(", ") };
        lines.push(format!("  {verb}  {target}"));
        for (title, all) in [("tags", &lead.tags), ("conditions", &lead.conditions)] {
            if !all.is_empty() {
                lines.push(format!("  {title}"));
                lines.extend(self.inherited(all));
            }
        }
        if !lead.tags.is_empty() || !lead.conditions.is_empty() {
            lines.push(format!("  {scope}"));
        }
        let ways = self.leads.ways(path);
        lines.push("  reached from".to_owned());
        if ways.is_empty() {
            lines.push("    no playbook of the project, by names that are known before a run".to_owned());
        }
        for way in &ways {
            match way.is_empty() {
                true => lines.push(format!("    the playbook {}", self.places.path(path))),
                false => lines
                    .push(format!("    {}", way.iter().map(|lead| self.step(lead)).collect::<Vec<_>>().join(" > "))),
            }
        }
        let open: Vec<&Lead> = self.leads.open().collect();
        if !open.is_empty() {
            let shown: Vec<String> = open.iter().take(OPEN).map(|lead| self.places.span(&lead.span)).collect();
            let more = open.len().saturating_sub(OPEN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            lines.push(format!("  a template names the file or role at {}{more}", shown.join(", ")));
        }
        let mut json = json(lead);
        if let Some(map) = json.as_object_mut() {
            let ways = ways.iter().map(|way| way.iter().copied().map(self::json).collect());
            map.insert("reached_from".to_owned(), ways.collect::<Vec<Json>>().into());
        }
        json
    }

    /// A line on a way, with the tags and conditions that it adds.
    fn step(&self, lead: &Lead) -> String {
        let texts = |all: &[Inherited]| all.iter().map(|one| one.text.as_str()).collect::<Vec<_>>().join(", ");
        let mut added = String::new();
        if lead.is_static() && !lead.tags.is_empty() {
            added.push_str(&format!(", tags {}", texts(&lead.tags)));
        }
        if !lead.conditions.is_empty() {
            added.push_str(&format!(", when {}", texts(&lead.conditions)));
        }
        format!("{} '{}' ({}{added})", lead.kind, lead.name, self.places.span(&lead.span))
    }

    fn inherited(&self, all: &[Inherited]) -> Vec<String> {
        let row = |one: &Inherited| vec![one.text.clone(), one.owner.to_owned(), self.places.span(&one.span)];
        table(&all.iter().map(row).collect::<Vec<_>>(), 4)
    }
}

fn json(lead: &Lead) -> Json {
    let inherited = |all: &[Inherited]| -> Vec<Json> {
        let one =
            |one: &Inherited| json!({"text": one.text, "owner": one.owner, "place": place::json(Some(&one.span))});
        all.iter().map(one).collect()
    };
    json!({
        "kind": lead.kind,
        "name": lead.name,
        "place": place::json(Some(&lead.span)),
        "targets": lead.targets,
        "inherited": lead.is_static(),
        "tags": inherited(&lead.tags),
        "conditions": inherited(&lead.conditions),
    })
}
