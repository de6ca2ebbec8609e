//! The list of runs and the report of one.

use hyper::StatusCode;
use serde_json::{Value as Json, json};

use super::index::Run;
use super::{View, address, choices};
use crate::error::Result;
use crate::html::Html;
use crate::http::server::{Answer, Request, encoded};
use crate::journal::read_file;
use crate::report::{self, Around, Report, millis};

/// Number of runs on one page.
const PAGE: usize = 50;
/// Number of failed hosts that the list names.
const FAILED: usize = 5;
/// Maximum size of a journal whose report is served, in bytes.
const REPORT: u64 = 256 << 20;

const RESULTS: [&str; 6] = ["running", "ok", "failed", "interrupted", "killed", "unreadable"];

/// The choice of runs.
struct Filter<'a> {
    playbook: &'a str,
    host: String,
    result: &'a str,
    words: Vec<String>,
}

impl<'a> Filter<'a> {
    fn of(request: &'a Request) -> Filter<'a> {
        let value = |name| request.value(name).unwrap_or_default().trim();
        Filter {
            playbook: value("playbook"),
            host: value("host").to_lowercase(),
            result: value("result"),
            words: value("q").to_lowercase().split_whitespace().map(str::to_owned).collect(),
        }
    }

    fn includes(&self, run: &Run) -> bool {
        (self.playbook.is_empty() || run.title() == self.playbook)
            && (self.result.is_empty() || run.result() == self.result)
            && (self.host.is_empty() || self.has_host(run))
            && (self.words.is_empty() || self.has_words(run))
    }

    fn has_host(&self, run: &Run) -> bool {
        run.summary
            .as_ref()
            .is_some_and(|summary| summary.tally.recaps().any(|recap| recap.host.to_lowercase().contains(&self.host)))
    }

    fn has_words(&self, run: &Run) -> bool {
        let mut text = format!("{} {}", run.file.run, run.title());
        if let Some(summary) = &run.summary {
            let header = &summary.header;
            for part in [&header.user, &header.machine, &header.directory].into_iter().chain(&header.argv) {
                text.push(' ');
                text.push_str(part);
            }
        }
        let text = text.to_lowercase();
        self.words.iter().all(|word| text.contains(word))
    }
}

impl View<'_> {
    /// The list of runs.
    pub(super) fn list(&self, request: &Request) -> Result<Html> {
        let runs = self.pages.index.runs();
        let filter = Filter::of(request);
        let mut titles: Vec<String> = runs.iter().map(Run::title).collect();
        titles.sort();
        titles.dedup();
        let found: Vec<&Run> = runs.iter().filter(|run| filter.includes(run)).collect();
        let pages = found.len().div_ceil(PAGE).max(1);
        let page = request.value("page").and_then(|page| page.parse().ok()).unwrap_or(1_usize).clamp(1, pages);
        let rows: Vec<Json> = found.iter().skip((page - 1) * PAGE).take(PAGE).map(|run| row(run)).collect();
        let other = |number: usize| (1..=pages).contains(&number).then(|| same_filter(request, number));
        self.render(
            "runs",
            "/",
            json!({
                "title": "Runs",
                "rows": rows,
                "total": runs.len(),
                "found": found.len(),
                "page": page,
                "pages": pages,
                "newer": other(page - 1),
                "older": other(page + 1),
                "query": request.value("q").unwrap_or_default(),
                "host": request.value("host").unwrap_or_default(),
                "playbooks": choices(titles.iter().map(String::as_str), filter.playbook),
                "results": choices(RESULTS.into_iter(), filter.result),
            }),
        )
    }

    /// The report of a run.
    pub(super) fn report(&self, run: &Run) -> Result<Answer> {
        let size = std::fs::metadata(&run.file.path).map(|found| found.len()).unwrap_or_default();
        if size > REPORT {
            let sentence = format!(
                "The journal of this run has {} MiB, which is too much for a page here. \
                 `windlass report {} --output run.html` writes the report.",
                size >> 20,
                run.file.run
            );
            return self.message(StatusCode::PAYLOAD_TOO_LARGE, &sentence);
        }
        // A large journal takes much memory, so only one is read at a time.
        let _one = self.pages.reading.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_alive = run.file.is_alive();
        let journal = match read_file(&run.file.path) {
            Ok(journal) => journal,
            Err(error) => return self.message(StatusCode::OK, &format!("This run has no report: {error}.")),
        };
        let report = Report::of(&journal, is_alive);
        let around = Around {
            navigation: self.navigation(""),
            live: (report.result == "running").then(|| address::live(&run.file.run)),
            host: Some(address::host),
            secrets: self.pages.secrets.clone(),
        };
        Ok(self.html(StatusCode::OK, report::page(&report, &around)?))
    }
}

/// The address of another page of the same choice.
fn same_filter(request: &Request, page: usize) -> String {
    let kept = ["q", "host", "playbook", "result"].into_iter().filter_map(|name| Some((name, request.value(name)?)));
    let pairs: Vec<String> = kept.map(|(name, value)| format!("{name}={}&", encoded(value))).collect();
    format!("/?{}page={page}", pairs.concat())
}

fn row(run: &Run) -> Json {
    let result = run.result();
    let summary = run.summary.as_ref();
    let failed = summary.map(|summary| {
        let failed = summary.tally.recaps().filter(|recap| !recap.is_good()).map(|recap| recap.host.as_str());
        failed.collect::<Vec<_>>()
    });
    let failed = failed.unwrap_or_default();
    let links = failed.iter().take(FAILED).map(|host| json!({"label": host, "href": address::host(host)}));
    json!({
        "run": run.file.run,
        "href": address::run(&run.file.run),
        "live": (result == "running").then(|| address::live(&run.file.run)),
        "title": run.title(),
        "started": summary.map(|summary| summary.header.started.chars().take(19).collect::<String>()),
        "took": run.took().map(millis),
        "result": result,
        "check": summary.is_some_and(|summary| summary.header.check),
        "user": summary.map(|summary| &summary.header.user),
        "hosts": summary.map_or(0, |summary| summary.tally.recaps().len()),
        "failed": links.collect::<Vec<_>>(),
        "failed_more": failed.len().saturating_sub(FAILED),
        "problem": run.problem(),
    })
}
