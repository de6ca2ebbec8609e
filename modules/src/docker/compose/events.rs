//! Parses the progress messages of Docker Compose on standard error: plain text before 2.29, lines of JSON since.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::super::plain_text;

const DONE: &[&str] = &[
    "Started",
    "Healthy",
    "Exited",
    "Restarted",
    "Running",
    "Created",
    "Stopped",
    "Killed",
    "Removed",
    "Recreated",
    "Pulled",
    "Built",
];
const WORKING: &[&str] =
    &["Creating", "Starting", "Restarting", "Stopping", "Killing", "Removing", "Recreate", "Pulling", "Building"];
const PULL: &[&str] = &["Pulled", "Pulling"];
const BUILD: &[&str] = &["Built", "Building"];
const LAYER_DONE: &[&str] = &["Already exists", "Download complete", "Pull complete"];
const LAYER_WORKING: &[&str] = &["Pulling fs layer", "Waiting", "Downloading", "Verifying Checksum", "Extracting"];

/// A progress message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Kind of object: `container`, `network`, `volume`, `image`, `image-layer`, `service` or `unknown`.
    pub(super) what: &'static str,
    pub(super) id: Option<String>,
    pub(super) status: Option<String>,
    pub(super) text: Option<String>,
}

impl Event {
    fn is(&self, statuses: &[&str]) -> bool {
        self.status.as_deref().is_some_and(|status| statuses.contains(&status))
    }

    pub(super) fn is_error(&self) -> bool {
        self.is(&["Error"])
    }

    fn is_layer(&self) -> bool {
        self.what == "image-layer" && (self.is(LAYER_WORKING) || self.is(&["Working"]))
    }

    /// The error message.
    pub(super) fn error(&self) -> String {
        let said = self.text.as_ref().or(self.status.as_ref()).cloned().unwrap_or_default();
        match (self.what, self.id.as_deref().unwrap_or_default()) {
            ("unknown" | "", "") => format!("General error: {said}"),
            ("unknown" | "", id) => format!("Error when processing {id}: {said}"),
            (what, id) => format!("Error when processing {what} {id}: {said}"),
        }
    }

    /// The warning, if the message is one.
    pub(super) fn warning(&self) -> Option<String> {
        let warns = (self.status.is_none() && self.text.is_some()) || self.is(&["Warning"]);
        warns.then(|| {
            let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "None".to_owned());
            format!("Docker compose: {} {}: {}", self.what, or_none(&self.id), or_none(&self.text))
        })
    }
}

/// Messages that do not report a change, although work is done.
#[derive(Clone, Copy, Default)]
pub(super) struct Ignored {
    pub(super) pulls: bool,
    pub(super) builds: bool,
}

/// Whether the messages report a change.
pub(super) fn changes(events: &[Event], ignored: Ignored) -> bool {
    events.iter().any(|event| {
        let is_ignored = (ignored.pulls && event.is(PULL)) || (ignored.builds && event.is(BUILD));
        (event.is(WORKING) && !is_ignored) || event.is_layer()
    })
}

/// The performed actions, as the result lists them.
pub(super) fn actions(events: &[Event]) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for event in events {
        let action = json!({ "what": event.what, "id": event.id, "status": event.status });
        let told =
            if event.what == "image-layer" { event.is_layer() && !all.contains(&action) } else { event.is(WORKING) };
        if told {
            all.push(action);
        }
    }
    all
}

fn is_status(text: &str) -> bool {
    DONE.contains(&text) || WORKING.contains(&text) || matches!(text, "Error" | "Waiting")
}

fn kind(word: &str) -> Option<&'static str> {
    Some(match word {
        "Network" => "network",
        "Image" => "image",
        "Volume" => "volume",
        "Container" => "container",
        "Service" => "service",
        _ => return None,
    })
}

/// Parses lines of JSON.
pub(super) fn from_json(text: &str, warnings: &mut Vec<String>) -> Vec<Event> {
    let mut events = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match serde_json::from_str::<Value>(line) {
            Ok(message) if message.is_object() => events.extend(one_of_json(&message)),
            _ => match line.strip_prefix("Warning: ") {
                Some(said) => events.push(unknown("Warning", said)),
                None => warnings.push(format!("Docker Compose printed something that is not a message: {line}")),
            },
        }
    }
    events
}

fn unknown(status: &str, text: &str) -> Event {
    Event { what: "unknown", id: None, status: Some(status.to_owned()), text: Some(text.to_owned()) }
}

fn one_of_json(message: &Value) -> Option<Event> {
    let field = |name: &str| message[name].as_str().map(str::to_owned);
    if message["tail"] == true {
        let said = field("text").unwrap_or_default();
        return Some(match said.get(..8).filter(|start| start.eq_ignore_ascii_case("warning:")) {
            Some(_) => unknown("Warning", said.get(8..).unwrap_or_default().trim_start()),
            None => unknown("Error", &said),
        });
    }
    if message["error"] == true {
        return Some(Event { what: "unknown", id: field("id"), status: Some("Error".into()), text: field("message") });
    }
    let (mut id, mut status, mut text) = (field("id"), field("status"), field("text"));
    if id.as_deref() == Some(" ")
        && let Some(service) = text.as_deref().and_then(|text| text.strip_prefix("build service "))
    {
        id = Some(format!("Service {service}"));
        text = Some("Building".to_owned());
    }
    let starts = |text: &Option<String>, start: &str| text.as_deref().is_some_and(|text| text.starts_with(start));
    let ends = |text: &Option<String>, end: &str| text.as_deref().is_some_and(|text| text.ends_with(end));
    if (ends(&id, "==>") && starts(&text, "==> writing image "))
        || (ends(&id, "==> ==>") && starts(&text, "naming to "))
    {
        return None;
    }
    let mut what = "unknown";
    let parent = field("parent_id");
    let image = parent.as_deref().and_then(|parent| parent.strip_prefix("Image "));
    let word = text.clone().unwrap_or_default();
    if let Some(image) = image.filter(|_| matches!(status.as_deref(), Some("Working" | "Done"))) {
        (what, id) = ("image-layer", Some(image.to_owned()));
    } else if let Some((first, rest)) = id.clone().as_deref().and_then(|id| id.split_once(' ')) {
        what = kind(first).unwrap_or("unknown");
        id = Some(rest.to_owned());
    } else if PULL.contains(&word.as_str()) {
        what = "image";
        (status, text) = (text, status);
    } else if LAYER_DONE.contains(&word.as_str()) || LAYER_WORKING.contains(&word.as_str()) {
        what = "image-layer";
        (status, text) = (text, status);
    } else if let Some(rest) = word.strip_prefix("Skipped - ").filter(|_| status.is_none()) {
        (status, text) = (Some("Skipped".to_owned()), Some(rest.to_owned()));
    } else if let (Some(level), Some(said)) = (message["level"].as_str(), field("msg")) {
        match level {
            "warning" => (status, text) = (Some("Warning".to_owned()), Some(said)),
            "error" => (status, text) = (Some("Error".to_owned()), Some(said)),
            _ => {}
        }
    }
    let known = |text: &Option<String>| text.as_deref().is_some_and(|text| is_status(text) || text == "Warning");
    if !known(&status) && known(&text) {
        (status, text) = (text, status);
    }
    Some(Event { what, id, status, text })
}

/// Patterns of text lines.
struct Forms {
    resource: Regex,
    pull: Regex,
    trouble: Regex,
    layer: Regex,
    skipped: Regex,
    build: Regex,
    more: Regex,
    log: Regex,
}

// The patterns are constant and the tests run them, so they compile.
#[expect(clippy::unwrap_used)]
static FORMS: LazyLock<Forms> = LazyLock::new(|| {
    Forms {
    resource: Regex::new(r"^(Network|Image|Volume|Container)\s+(\S+)\s+(\S.*)$").unwrap(),
    pull: Regex::new(r"^(\S+)\s+(Pulled|Pulling)$").unwrap(),
    trouble: Regex::new(r"^(\S+)\s+(Error|Warning)\s*(\S.*\S)?$").unwrap(),
    layer: Regex::new(
        r"^(\S+)\s+(Already exists|Download complete|Pull complete|Pulling fs layer|Waiting|Downloading|Verifying Checksum|Extracting)\s*(\[[^\]]+\]\s+\S+|[0-9.kKmMgGbB]+/[0-9.kKmMgGbB]+)?$",
    )
    .unwrap(),
    skipped: Regex::new(r"^(\S+)\s+Skipped(?:\s+-\s*(\S.*))?$").unwrap(),
    build: Regex::new(r"^build service\s+(\S+)$").unwrap(),
    more: Regex::new(r"^(\S+)\s+-\s*(\S.*)$").unwrap(),
    log: Regex::new(r#"^time="?[^ ]+"? level="?(\w+)"? msg="((?:[^"\\]|\\.)*)""#).unwrap(),
}
});

/// Parses text lines. `failed` means that Compose failed, and its last line is the reason.
pub(super) fn from_words(text: &str, dry_run: bool, failed: bool, warnings: &mut Vec<String>) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut in_error = false;
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let mut line = line.trim();
        if dry_run {
            line = line.strip_prefix("DRY-RUN MODE -").map_or(line, str::trim_start);
        }
        if line.is_empty() || line.starts_with("==>") {
            continue;
        }
        match one_of_words(line, warnings) {
            Said::Event(event) => {
                in_error = event.is_error();
                events.push(event);
                continue;
            }
            Said::Nothing => continue,
            Said::Unknown => {}
        }
        if let Some(found) = FORMS.more.captures(line)
            && let Some(event) =
                events.iter_mut().rev().find(|event| event.id.as_deref() == found.get(1).map(|id| id.as_str()))
        {
            append(event, found.get(2).map_or("", |more| more.as_str()));
        }
        let last = index + 1 == lines.len();
        if in_error {
            if let Some(event) = events.last_mut() {
                append(event, line);
            }
        } else if line.starts_with("Error ") || lines.len() == 1 || (failed && last) {
            in_error = true;
            events.push(Event { id: Some(String::new()), ..unknown("Error", line) });
        } else {
            warnings.push(format!("Docker Compose printed something that is not a message: {line}"));
        }
    }
    events
}

fn append(event: &mut Event, more: &str) {
    event.text = Some(event.text.as_ref().map_or_else(|| more.to_owned(), |text| format!("{text}\n{more}")));
}

enum Said {
    Event(Event),
    /// A known line without information.
    Nothing,
    Unknown,
}

fn one_of_words(line: &str, warnings: &mut Vec<String>) -> Said {
    let part = |found: &Captures<'_>, index: usize| found.get(index).map(|part| part.as_str().to_owned());
    let event = |what, id, status: Option<String>, text| Said::Event(Event { what, id, status, text });
    let forms = &*FORMS;
    if let Some(found) = forms.resource.captures(line) {
        let what = found.get(1).and_then(|word| kind(word.as_str())).unwrap_or("unknown");
        let said = part(&found, 3).map(|text| text.trim_end().to_owned());
        return match said.as_deref().is_some_and(is_status) {
            true => event(what, part(&found, 2), said, None),
            false => event(what, part(&found, 2), None, said),
        };
    }
    if let Some(found) = forms.pull.captures(line) {
        return event("service", part(&found, 1), part(&found, 2), None);
    }
    if let Some(found) = forms.trouble.captures(line) {
        if part(&found, 2).as_deref() == Some("Error") {
            return event("unknown", part(&found, 1), part(&found, 2), part(&found, 3));
        }
        let id = part(&found, 1).unwrap_or_default();
        warnings.push(match part(&found, 3) {
            Some(said) => format!("{id}: {said}"),
            None => format!("Unspecified warning for {id}"),
        });
        return Said::Nothing;
    }
    if let Some(found) = forms.layer.captures(line) {
        return event("image-layer", part(&found, 1), part(&found, 2), None);
    }
    if let Some(found) = forms.skipped.captures(line) {
        return event("unknown", part(&found, 1), Some("Skipped".into()), part(&found, 2));
    }
    if let Some(found) = forms.build.captures(line) {
        return event("service", part(&found, 1), Some("Building".into()), None);
    }
    if let Some(found) = forms.log.captures(line) {
        let said = part(&found, 2).unwrap_or_default();
        if part(&found, 1).as_deref() == Some("warning") {
            let quoted: Result<Value, _> = serde_json::from_str(&format!("\"{said}\""));
            warnings.push(quoted.map_or(said, |text| plain_text(&text)));
            return Said::Nothing;
        }
    }
    Said::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Ignored = Ignored { pulls: true, builds: true };

    #[test]
    fn text_progress_lines_parsed() {
        // Printed by Docker Compose 2.26.1.
        let up = " Network app_default  Creating\n Network app_default  Created\n Container app-web-1  Creating\n Container app-web-1  Created\n Container app-web-1  Starting\n Container app-web-1  Started\n";
        let mut warnings = Vec::new();
        let events = from_words(up, false, false, &mut warnings);
        assert!(changes(&events, BOTH) && warnings.is_empty());
        let told = actions(&events);
        assert_eq!(told.len(), 3);
        assert_eq!(told[0], json!({ "what": "network", "id": "app_default", "status": "Creating" }));
        let again = from_words(" Container app-web-1  Running\n", false, false, &mut warnings);
        assert!(!changes(&again, BOTH));
        let dry = from_words(" DRY-RUN MODE -  Container app-web-1  Creating\n", true, false, &mut warnings);
        assert!(changes(&dry, BOTH) && warnings.is_empty());
    }

    #[test]
    fn text_warnings_and_errors_parsed() {
        let mut warnings = Vec::new();
        let text = "time=\"2026-01-01T00:00:00Z\" level=warning msg=\"The \\\"X\\\" variable is not set.\"\n web Pulling\n web Error no such host\nError response from daemon: no such host\n";
        let events = from_words(text, false, true, &mut warnings);
        assert_eq!(warnings, ["The \"X\" variable is not set."]);
        let errors: Vec<String> = events.iter().filter(|event| event.is_error()).map(Event::error).collect();
        assert_eq!(errors, ["Error when processing web: no such host\nError response from daemon: no such host"]);
        let events = from_words("validating compose.yaml: services.web is wrong\n", false, true, &mut warnings);
        assert_eq!(events[0].error(), "General error: validating compose.yaml: services.web is wrong");
    }

    #[test]
    fn json_progress_lines_parsed() {
        let text = r#"{"id":"Network app_default","status":"Working","text":"Creating"}
{"id":"Container app-web-1","text":"Running"}
{"id":"web","text":"Pulling"}
{"id":"63a26ae4e8a8","parent_id":"Image web:1","status":"Working"}
{"level":"warning","msg":"old version","time":"x"}
{"tail":true,"text":"no such host"}
{"dry-run":true,"id":" ","text":"build service web"}
{"dry-run":true,"id":"==>","text":"==> writing image dryRun-1"}
"#;
        let mut warnings = Vec::new();
        let events = from_json(text, &mut warnings);
        let shown: Vec<_> = events
            .iter()
            .map(|event| {
                format!(
                    "{} {} {}",
                    event.what,
                    event.id.as_deref().unwrap_or("-"),
                    event.status.as_deref().unwrap_or("-")
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "network app_default Creating",
                "container app-web-1 Running",
                "image web Pulling",
                "image-layer web:1 Working",
                "unknown - Warning",
                "unknown - Error",
                "service web Building",
            ]
        );
        assert_eq!(events[4].warning().unwrap(), "Docker compose: unknown None: old version");
        assert!(warnings.is_empty());
    }
}
