//! The page of the audit trail.

use hyper::StatusCode;
use serde_json::{Value as Json, json};

use super::audit::Record;
use super::control::Control;
use super::{View, address};
use crate::error::Result;
use crate::http::server::Answer;
use crate::output::clipped;

/// Number of records on the page.
const ROWS: usize = 200;
/// Maximum length of a text, in characters.
const TEXT: usize = 500;

impl View<'_> {
    /// The last records of the trail.
    pub(super) fn trail(&self, control: &Control) -> Result<Answer> {
        let (records, damaged) = control.audit.last(ROWS)?;
        let page = json!({
            "title": "Audit",
            "path": control.audit.path().display().to_string(),
            "rows": records.iter().map(row).collect::<Vec<_>>(),
            "damaged": damaged,
        });
        Ok(self.html(StatusCode::OK, self.render("audit", "/audit", page)?))
    }
}

fn row(record: &Record) -> Json {
    let text = |text: &Option<String>| text.as_ref().map(|text| clipped(text, TEXT));
    let variables = record.variables.iter().flatten();
    let variables =
        variables.map(|(name, value)| (format!("variable {name}"), Some(clipped(&value.to_string(), TEXT))));
    let fixed = [
        ("name", text(&record.name)),
        ("playbook", text(&record.playbook)),
        ("inventory", text(&record.inventory)),
        ("limit", text(&record.limit)),
        ("tags", text(&record.tags)),
        ("dry run", record.check.map(|check| check.to_string())),
        ("result", text(&record.result)),
        ("exit code", record.code.map(|code| code.to_string())),
        ("reason", text(&record.reason)),
        ("earlier ones without a record", record.count.map(|count| count.to_string())),
        ("start", text(&record.start)),
    ];
    let details = fixed.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(variables);
    let details = details.filter_map(|(name, value)| Some(json!({"name": name, "value": value?})));
    let run = record.run.iter().map(|run| json!({"name": "run", "value": run, "href": address::run(run)}));
    json!({
        "at": clipped(&record.at, TEXT),
        "event": json!(record.event),
        "user": text(&record.user),
        "role": text(&record.role),
        "from": text(&record.from),
        "details": details.chain(run).collect::<Vec<_>>(),
    })
}
