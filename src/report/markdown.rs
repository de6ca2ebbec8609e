//! A report in Markdown, for a terminal, a merge request or the summary of a CI job.

use super::millis;
use super::model::Report;
use super::outcome::{Kind, Outcome};
use super::text::Text;
use crate::output::printable;

/// Maximum number of failures with their texts.
const FAILURES: usize = 200;
/// Maximum number of lines of one text; of a longer one the last are shown.
const LINES: usize = 40;
/// Maximum number of changed tasks.
const CHANGES: usize = 500;
/// Number of slowest tasks.
const SLOWEST: usize = 10;

/// The report in Markdown.
pub fn markdown(report: &Report) -> String {
    let mut text = format!("# {}: {}\n\n", inline(&report.title()), report.result);
    head(report, &mut text);
    recap(report, &mut text);
    failures(report, &mut text);
    changes(report, &mut text);
    slowest(report, &mut text);
    text
}

fn head(report: &Report, text: &mut String) {
    let code = report.code.map(|code| format!(" (exit code {code})")).unwrap_or_default();
    let check = if report.check { ", dry run" } else { "" };
    let mut rows = vec![("Run", report.run.clone()), ("Result", format!("{}{check}{code}", report.result))];
    rows.extend(report.times());
    rows.extend(report.request());
    rows.push(("Command", shell_words::join(&report.command)));
    text.push_str("| | |\n|---|---|\n");
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!("| {name} | {} |\n", inline(value)));
    }
}

fn recap(report: &Report, text: &mut String) {
    if report.hosts.is_empty() {
        text.push_str("\nNo task has an outcome.\n");
        return;
    }
    text.push_str("\n## Hosts\n\n| Host | ok | changed | unreachable | failed | skipped | rescued | ignored |\n");
    text.push_str("|---|--:|--:|--:|--:|--:|--:|--:|\n");
    for host in &report.hosts {
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
            inline(&host.host),
            host.ok,
            host.changed,
            host.unreachable,
            host.failed,
            host.skipped,
            host.rescued,
            host.ignored
        ));
    }
}

fn failures(report: &Report, text: &mut String) {
    let count = report.failures().count();
    let list = |text: &mut String| {
        for one in &report.unanswered {
            text.push_str(&format!("- {}: {}\n", inline(&one.host), inline(&one.task)));
        }
    };
    let is_running = report.result == "running";
    if is_running && !report.unanswered.is_empty() {
        text.push_str("\n## Running now\n\n");
        list(text);
    }
    if count == 0 && (is_running || report.unanswered.is_empty()) {
        return;
    }
    text.push_str("\n## Failures\n");
    for (_, task) in report.failures().take(FAILURES) {
        failure(task, text);
    }
    if count > FAILURES {
        text.push_str(&format!("\nAnd {} more.\n", count - FAILURES));
    }
    if !is_running && !report.unanswered.is_empty() {
        text.push_str("\n### Without an answer\n\nIt is unknown whether these tasks ran.\n\n");
        list(text);
    }
}

fn failure(task: &Outcome, text: &mut String) {
    text.push_str(&format!("\n### {}: {} ({})\n\n", inline(&task.host), inline(&task.task), task.status.word()));
    if let Some(place) = &task.place {
        text.push_str(&format!("{}\n\n", code(place)));
    }
    if let Some(reason) = task.withheld {
        text.push_str(&format!("The journal is incomplete: {reason}.\n\n"));
    }
    if let Some(message) = &task.message {
        block("", message, text);
    }
    if let Some(arguments) = &task.arguments {
        text.push_str(&format!("{}: {}\n\n", code("arguments"), code(arguments)));
    }
    texts(&task.texts, text);
    for item in task.items.iter().filter(|item| item.status.is_bad()) {
        text.push_str(&format!("Item {}:\n\n", code(&item.label)));
        if let Some(message) = &item.message {
            block("", message, text);
        }
        texts(&item.texts, text);
    }
    if let Some(excerpt) = &task.excerpt {
        block("", excerpt, text);
    }
}

fn texts(texts: &[Text], text: &mut String) {
    for one in texts {
        if one.text.contains('\n') {
            text.push_str(&format!("{}:\n\n", code(&one.name)));
            block("", &one.text, text);
        } else {
            text.push_str(&format!("{}: {}\n\n", code(&one.name), code(&one.text)));
        }
    }
}

fn changes(report: &Report, text: &mut String) {
    let changed: Vec<&Outcome> = report.tasks.iter().filter(|task| task.status == Kind::Changed).collect();
    if changed.is_empty() {
        return;
    }
    text.push_str("\n## Changes\n\n| Host | Task | Time |\n|---|---|--:|\n");
    for task in changed.iter().take(CHANGES) {
        text.push_str(&format!("| {} | {} | {} |\n", inline(&task.host), inline(&task.task), time(task)));
    }
    if changed.len() > CHANGES {
        text.push_str(&format!("\nAnd {} more.\n", changed.len() - CHANGES));
    }
    for task in changed.iter().take(CHANGES) {
        if let Some(diff) = &task.diff {
            text.push_str(&format!("\n{}: {}\n\n", inline(&task.host), inline(&task.task)));
            block("diff", diff, text);
        }
    }
}

fn slowest(report: &Report, text: &mut String) {
    let slowest = report.slowest(SLOWEST);
    if slowest.is_empty() {
        return;
    }
    text.push_str("\n## Slowest tasks\n\n| Time | Host | Task |\n|--:|---|---|\n");
    for (_, task) in slowest {
        text.push_str(&format!("| {} | {} | {} |\n", time(task), inline(&task.host), inline(&task.task)));
    }
}

fn time(task: &Outcome) -> String {
    task.took.map(millis).unwrap_or_default()
}

/// Text on one line, with all characters escaped that Markdown or HTML interpret.
fn inline(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 8);
    let text = printable(text);
    let mut letters = text.chars().peekable();
    let mut is_in_word = false;
    while let Some(letter) = letters.next() {
        let was_in_word = std::mem::replace(&mut is_in_word, letter.is_alphanumeric());
        match letter {
            // Within a word it has no meaning, and file names are easier to read.
            '_' if was_in_word && letters.peek().is_some_and(|next| next.is_alphanumeric()) => safe.push('_'),
            '\n' | '\r' | '\t' => safe.push(' '),
            '<' => safe.push_str("&lt;"),
            '&' => safe.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '>' | '@' | '$' => {
                safe.push('\\');
                safe.push(letter);
            }
            _ => safe.push(letter),
        }
    }
    // Bare addresses would become links.
    let mut safe = safe.trim_start().replace("://", "&#58;//").replace("www.", "www&#46;");
    // At the start of a line it would become an item of a list, or a line under a heading.
    let after_number = safe.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let digits = safe.len() - after_number.len();
    let after_mark = after_number.strip_prefix(['.', ')']).filter(|_| digits > 0);
    let is_numbered = after_mark.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
    if is_numbered || safe.starts_with(['-', '+', '=']) {
        safe.insert(digits, '\\');
    }
    safe
}

/// Text as inline code, on one line. Backticks in it need a longer fence.
fn code(text: &str) -> String {
    let text = printable(text).replace(['\n', '\r', '\t'], " ");
    let fence = "`".repeat(longest_run(&text) + 1);
    let blank = if text.starts_with('`') || text.ends_with('`') || text.trim().is_empty() { " " } else { "" };
    format!("{fence}{blank}{text}{blank}{fence}")
}

/// Text as a fenced block.
fn block(language: &str, text: &str, into: &mut String) {
    let text = printable(text);
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let hidden = lines.len().saturating_sub(LINES);
    into.push_str(&format!("{fence}{language}\n"));
    if hidden > 0 {
        into.push_str(&format!("({hidden} earlier lines)\n"));
    }
    lines.iter().skip(hidden).for_each(|line| into.push_str(&format!("{line}\n")));
    into.push_str(&format!("{fence}\n\n"));
}

/// Length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_texts_stay_text() {
        assert_eq!(inline("<b>|x|\n[a](http://e)"), "&lt;b\\>\\|x\\| \\[a\\](http&#58;//e)");
        for (text, safe) in [
            ("- a", "\\- a"),
            ("+ a", "\\+ a"),
            ("    a", "a"),
            ("===", "\\==="),
            ("1. a", "1\\. a"),
            ("12) a", "12\\) a"),
            ("10.0.0.1", "10.0.0.1"),
            ("> a", "\\> a"),
            ("me@example.org", "me\\@example.org"),
        ] {
            assert_eq!(inline(text), safe);
        }
        assert_eq!(code("a`b"), "``a`b``");
        let mut text = String::new();
        block("", "```\nx\u{202e}", &mut text);
        assert_eq!(text, "````\n```\nx\\u{202e}\n````\n\n");
    }
}
