//! The reports of `playbooks/verify.yml`, one column for each cluster.

use std::path::Path;
use std::time::SystemTime;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::cluster::Cluster;
use super::{View, address};
use crate::error::Result;
use crate::html::Html;
use crate::output::clipped;

/// Maximum size of a report, in bytes.
const FILE: u64 = 16 << 20;
/// Maximum number of checks on the page.
const CHECKS: usize = 500;
/// Maximum number of findings of a check on a cluster.
const FINDINGS: usize = 20;
/// Maximum length of a text, in characters.
const TEXT: usize = 500;

/// A report, as far as it is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Verified {
    healthy: Option<bool>,
    hosts: Vec<String>,
    not_reached: Vec<String>,
    checks: Vec<Check>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Check {
    id: String,
    title: String,
    remedy: String,
    status: String,
    results: Vec<Finding>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Finding {
    host: String,
    status: String,
    text: String,
}

/// The report of a cluster, or why there is none.
struct Column {
    written: String,
    verified: std::result::Result<Verified, String>,
}

impl View<'_> {
    /// The reports of all clusters side by side.
    pub(super) fn verify(&self) -> Result<Html> {
        let columns: Vec<Column> = self.pages.clusters.iter().map(column).collect();
        let heads: Vec<Json> =
            self.pages.clusters.iter().zip(&columns).map(|(cluster, column)| head(cluster, column)).collect();
        // Checks in the order of the reports; clusters of several releases may have different ones.
        let mut checks: IndexMap<&str, Vec<Option<&Check>>> = IndexMap::new();
        for (index, column) in columns.iter().enumerate() {
            for check in column.verified.iter().flat_map(|verified| &verified.checks) {
                if checks.len() >= CHECKS && !checks.contains_key(check.id.as_str()) {
                    continue;
                }
                let row = checks.entry(&check.id).or_insert_with(|| vec![None; columns.len()]);
                if let Some(cell) = row.get_mut(index) {
                    *cell = Some(check);
                }
            }
        }
        let rows: Vec<Json> = checks.into_iter().map(|(id, cells)| row(id, &cells)).collect();
        self.render("verify", "/verify", json!({"title": "Verify", "columns": heads, "rows": rows}))
    }
}

/// The newest report in the folders of a cluster.
fn column(cluster: &Cluster) -> Column {
    let files = cluster.folders.iter().map(|folder| folder.join("verify.json"));
    let dated = files.filter_map(|path| {
        let found = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
        Some((found.modified().ok()?, path))
    });
    let Some((time, path)) = dated.max() else {
        let folders: Vec<String> = cluster.folders.iter().map(|folder| folder.display().to_string()).collect();
        let reason = match folders.is_empty() {
            true => "the inventory has no folder".to_owned(),
            false => format!("playbooks/verify.yml has not written verify.json in {}", folders.join(", ")),
        };
        return Column { written: String::new(), verified: Err(reason) };
    };
    Column { written: shown(time), verified: read(&path) }
}

fn read(path: &Path) -> std::result::Result<Verified, String> {
    let fail = |why: String| format!("{} cannot be read: {why}", path.display());
    let bytes = windlass_bounds::read_up_to(path, FILE).map_err(|error| fail(error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| fail(format!("it is not a report of verify.yml: {error}")))
}

fn shown(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn head(cluster: &Cluster, column: &Column) -> Json {
    let mut head = json!({"name": cluster.name, "written": column.written});
    match &column.verified {
        Ok(verified) => {
            head["result"] = match verified.healthy {
                Some(true) => "healthy",
                Some(false) => "not healthy",
                None => "unknown",
            }
            .into();
            head["hosts"] = verified.hosts.len().into();
            head["not_reached"] = verified.not_reached.iter().take(FINDINGS).map(|name| clipped(name, TEXT)).collect();
        }
        Err(problem) => head["problem"] = problem.as_str().into(),
    }
    head
}

fn row(id: &str, cells: &[Option<&Check>]) -> Json {
    let first = cells.iter().flatten().next();
    let is_good = cells.iter().flatten().all(|check| matches!(check.status.as_str(), "pass" | "skip"));
    json!({
        "id": clipped(id, TEXT),
        "title": first.map(|check| clipped(&check.title, TEXT)),
        "remedy": first.filter(|_| !is_good).map(|check| clipped(&check.remedy, TEXT)),
        "cells": cells.iter().map(|check| check.map(cell)).collect::<Vec<_>>(),
    })
}

/// The state of a check on a cluster, with the findings that are not good.
fn cell(check: &Check) -> Json {
    let bad: Vec<&Finding> = check.results.iter().filter(|finding| finding.status != "pass").collect();
    let finding = |finding: &&Finding| {
        json!({
            "host": clipped(&finding.host, TEXT),
            "href": (!finding.host.is_empty()).then(|| address::host(&finding.host)),
            "status": class(&finding.status),
            "text": clipped(&finding.text, TEXT),
        })
    };
    json!({
        "status": class(&check.status),
        "findings": bad.iter().take(FINDINGS).map(finding).collect::<Vec<_>>(),
        "left_out": bad.len().saturating_sub(FINDINGS),
    })
}

/// A known state; others are unknown.
fn class(status: &str) -> &'static str {
    ["pass", "warn", "fail", "skip"].into_iter().find(|known| *known == status).unwrap_or("unknown")
}
