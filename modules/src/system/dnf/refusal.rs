//! Failures of dnf in Ansible's words.

use super::transaction::Transaction;
use crate::{Failure, process::Output};

const NONE: [String; 0] = [];

/// The names that dnf does not know.
pub(super) fn unknown(output: &Output) -> Vec<String> {
    let said = texts(output);
    let names = said.lines().filter_map(|line| line.trim().strip_prefix("No match for argument: "));
    names.map(|name| name.split(" (").next().unwrap_or(name).trim().to_owned()).collect()
}

/// Ansible's message for an unknown name.
pub(super) fn sentence_of_unknown(name: &str) -> String {
    format!("No package {name} available.")
}

/// The failure of a call with these words that should have carried out a transaction.
pub(super) fn of(output: &Output, words: &[String], transaction: Option<&Transaction>) -> Failure {
    let said = texts(output);
    let line_with = |text: &str| said.lines().map(str::trim).find(|line| line.contains(text));
    if let Some(group) = line_with("' is not available.").and_then(|line| line.split('\'').nth(1)) {
        return Failure::new(format!("No group {group} available.")).with("results", NONE.to_vec());
    }
    if let Some(unsigned) = line_with(" is not signed") {
        let package = transaction.and_then(|transaction| transaction.package_of(unsigned)).unwrap_or_default();
        return Failure::new(format!("Failed to validate GPG signature for {package}: {unsigned}"));
    }
    let failures = missing(&said, words);
    let message = if !failures.is_empty() {
        "Failed to install some of the specified packages".to_owned()
    } else if let Some(unreadable) = line_with("Could not open: ") {
        return refused(format!("Error occurred attempting remote rpm operation: {unreadable}"));
    } else {
        let error = output.stderr_text();
        let error = error.rsplit("Error: ").next().unwrap_or(&error).trim();
        if !error.starts_with("Problem") {
            return refused(error.to_owned());
        }
        let advice = |line: &&str| !line.starts_with("(try to add");
        format!("Depsolve Error occurred: \n {}", error.lines().filter(advice).collect::<Vec<_>>().join("\n"))
    };
    refused(message).with("failures", failures)
}

fn refused(message: String) -> Failure {
    Failure::new(message).with("rc", 1).with("results", NONE.to_vec())
}

fn texts(output: &Output) -> String {
    format!("{}\n{}", output.stderr_text(), output.stdout_text())
}

/// A message for each name that no repository has.
fn missing(said: &str, words: &[String]) -> Vec<String> {
    if said.contains("There are no enabled repositories") {
        return words.iter().skip(1).map(|name| sentence_of_unknown(name)).collect();
    }
    let mut sentences: Vec<String> = Vec::new();
    for line in said.lines().map(str::trim) {
        let Some((what, name)) = line.split_once(" for argument: ") else { continue };
        let sentence = match what {
            "No match" => sentence_of_unknown(name.split(" (").next().unwrap_or(name).trim()),
            _ => format!("{name} {line}"),
        };
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences
}
