//! Parses the output of `zypper --xmlout`: packages with their action, and messages.

use crate::Map;

/// One package in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Solvable {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) old_version: String,
    /// `to-install`, `to-upgrade`, `to-remove`, `solvable-list` and others.
    pub(super) group: String,
}

/// An answer of zypper.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) solvables: Vec<Solvable>,
    pub(super) messages: Vec<String>,
}

/// Parses an answer; `None` if the text is not one.
pub(super) fn parse(text: &str) -> Option<Answer> {
    let mut answer = Answer::default();
    let mut open: Vec<String> = Vec::new();
    let mut rest = text;
    let mut complete = false;
    while let Some(at) = rest.find('<') {
        let (said, from_tag) = rest.split_at(at);
        if let (Some("message"), Some(message)) = (open.last().map(String::as_str), answer.messages.last_mut()) {
            message.push_str(&plain(said));
        }
        let end = end_of_tag(from_tag)?;
        let tag = from_tag.get(1..end)?;
        rest = from_tag.get(end + 1..)?;
        if let Some(name) = tag.strip_prefix('/') {
            complete |= name.trim() == "stream";
            if open.pop().as_deref() != Some(name.trim()) {
                return None;
            }
            continue;
        }
        if tag.starts_with(['?', '!']) {
            continue;
        }
        let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        match name {
            "message" => answer.messages.push(String::new()),
            "solvable" => {
                let attributes = attributes_of(attributes);
                let text =
                    |key: &str| attributes.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
                let solvable = Solvable {
                    name: text("name"),
                    version: text("edition"),
                    old_version: text("edition-old"),
                    group: open.last().cloned().unwrap_or_default(),
                };
                // If a package is listed twice, the last entry counts.
                answer.solvables.retain(|known| known.name != solvable.name);
                answer.solvables.push(solvable);
            }
            _ => {}
        }
        if !closed {
            open.push(name.to_owned());
        }
    }
    (complete && open.is_empty()).then_some(answer)
}

/// The end of a tag; a `>` inside quotes does not count.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, '>') => return Some(at),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), character) if open == character => quote = None,
            _ => {}
        }
    }
    None
}

fn attributes_of(mut text: &str) -> Map {
    let mut attributes = Map::new();
    while let Some((name, rest)) = text.split_once('=') {
        let Some(quote) = rest.chars().next().filter(|quote| matches!(quote, '"' | '\'')) else { break };
        let Some((value, rest)) = rest.get(1..).and_then(|rest| rest.split_once(quote)) else { break };
        attributes.insert(name.trim().to_owned(), plain(value).into());
        text = rest;
    }
    attributes
}

fn plain(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_answer_parsed() {
        let text = "<?xml version='1.0'?>\n<stream>\n<message type=\"info\">Loading &amp; reading...</message>\n<install-summary download-size=\"0\">\n<to-upgrade>\n<solvable type=\"package\" name=\"hello\" edition=\"2.0-1\" arch=\"noarch\" edition-old=\"1.0-1\" summary=\"a > b\"/>\n</to-upgrade>\n<to-install>\n<solvable type=\"package\" name=\"other\" edition=\"1.0-1\" arch=\"noarch\"/>\n</to-install>\n</install-summary>\n</stream>\n";
        let answer = parse(text).unwrap();
        assert_eq!(answer.messages, ["Loading & reading..."]);
        let shown: Vec<_> = answer.solvables.iter().map(|found| format!("{} {}", found.group, found.name)).collect();
        assert_eq!(shown, ["to-upgrade hello", "to-install other"]);
        assert_eq!(answer.solvables[0].old_version, "1.0-1");
        assert!(parse("zypper: command failed").is_none() && parse("<stream><message>").is_none());
    }
}
