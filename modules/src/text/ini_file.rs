//! `ini_file`: options in an INI file.

use std::ops::Range;

use serde_json::Value;

use super::edit::{Edit, lines_with_ends};
use crate::{Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, files::write::BACKUP, with_attributes};

/// The `ini_file` module.
pub struct IniFile;

/// Conditions on a section.
const SECTION_HAS: &[Opt] = &[
    Opt::required("option", Kind::Str, "Option that the section must have."),
    Opt::new("value", Kind::Str, "Value that the option must have."),
    Opt::new("values", Kind::List(&Kind::Str), "Values, one of which the option must have."),
];

static SPEC: Spec = Spec {
    name: "ini_file",
    collection: "community.general",
    summary: "Manage options in an INI file",
    description: &[
        "Sets, adds or removes single options in a section, or before the first one. Keeps the rest of the file, \
         including comments.",
        "Activates a commented-out option in its place, unless `modify_inactive_option` is false.",
    ],
    options: with_attributes![
        Opt::required("path", Kind::Path, "Path of the file.").aliases(&["dest"]),
        Opt::new("section", Kind::Str, "Name of the section. Default: the lines before the first section."),
        Opt::new(
            "section_has_values",
            Kind::List(&Kind::Dict),
            "Conditions that select one of several sections with the same name."
        )
        .aliases(&["section_has"])
        .options(SECTION_HAS),
        Opt::new("option", Kind::Str, "Name of the option. Without it, `state` applies to the whole section."),
        Opt::new("value", Kind::Str, "Value of the option."),
        Opt::new("values", Kind::List(&Kind::Str), "Values of an option that occurs several times."),
        BACKUP,
        Opt::new("state", Kind::Str, "`present` sets the option or section, `absent` removes it.")
            .choices(&["absent", "present"])
            .default("\"present\""),
        Opt::new("exclusive", Kind::Bool, "Remove other values of the option; with `absent`, remove all its lines.")
            .default("true"),
        Opt::new("no_extra_spaces", Kind::Bool, "Write no spaces around `=`.").default("false"),
        Opt::new("ignore_spaces", Kind::Bool, "Keep a line from which only spaces differ.").default("false"),
        Opt::new("create", Kind::Bool, "Create the file if it is missing.").default("true"),
        Opt::new("modify_inactive_option", Kind::Bool, "Activate a commented-out option in its place.").default("true"),
        Opt::new("allow_no_value", Kind::Bool, "Allow options without `=` and value.").default("false"),
        Opt::new("follow", Kind::Bool, "Edit the target of a link instead of replacing the link.").default("false"),
    ],
    mutually_exclusive: &[&["value", "values"]],
    examples: "- name: Logs go to the journal\n  community.general.ini_file:\n    path: /etc/systemd/journald.conf\n    section: Journal\n    \
               option: Storage\n    value: persistent\n    no_extra_spaces: true\n    mode: '0644'\n",
    returns: &[
        Return { name: "path", kind: "str", when: "always", doc: "Path of the file." },
        Return { name: "msg", kind: "str", when: "always", doc: "Summary of the changes." },
        Return {
            name: "backup_file",
            kind: "str",
            when: "a backup was made",
            doc: "Path of the backup of the old file.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for IniFile {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        args.str("path").map(Into::into)
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let edit = Edit::of(args, host)?.with_follow(args.bool("follow")).described();
        edit.need(args.bool("create"), "Destination")?;
        let values = match args.str("value") {
            Some(value) => vec![value.to_owned()],
            None => unique(args.list("values")),
        };
        let present = args.str("state") != Some("absent");
        if present && !args.bool("allow_no_value") && values.is_empty() {
            return Err(Failure::new(
                "Parameter 'value(s)' must be defined if state=present and allow_no_value=False.",
            ));
        }
        let task = Task {
            section: args.filled("section"),
            conditions: conditions(args),
            option: args.filled("option"),
            exclusive: args.bool("exclusive"),
            tight: args.bool("no_extra_spaces"),
            ignore_spaces: args.bool("ignore_spaces"),
            no_value: args.bool("allow_no_value"),
            inactive_too: args.bool("modify_inactive_option"),
        };
        // A byte order mark is not part of the text.
        let text = edit.before.text.strip_prefix('\u{feff}').unwrap_or(&edit.before.text);
        // Other line endings are normalised as soon as anything is written.
        let usual = text.replace("\r\n", "\n").replace('\r', "\n");
        let mut lines = lines_with_ends(&usual);
        // An empty file counts as one empty line. The line stays behind options before the first section, and ahead of
        // added sections.
        if lines.is_empty() {
            lines.push("\n".to_owned());
        }
        if let Some(last) = lines.last_mut().filter(|last| !last.ends_with('\n')) {
            last.push('\n');
        }
        let msg = if present { task.present(&mut lines, values) } else { task.absent(&mut lines, &values) };
        let path = edit.path().display().to_string();
        let untouched = msg.is_empty() && (text.is_empty() || usual != text);
        let after = if untouched { edit.before.text.clone() } else { lines.concat() };
        if !edit.exists && untouched {
            return Ok(Plan::unchanged().with("msg", "OK").with("path", path));
        }
        let msg = if msg.is_empty() { "OK" } else { msg };
        Ok(edit.plan_quietly(&after, msg, host)?.with("path", path))
    }
}

fn unique(values: Vec<&str>) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for value in values {
        if !unique.iter().any(|known| known == value) {
            unique.push(value.to_owned());
        }
    }
    unique
}

/// An option that a section must have, with its permitted values; empty permits any.
struct Condition {
    option: String,
    values: Vec<String>,
}

fn conditions(args: &Args) -> Vec<Condition> {
    let given = args.value("section_has_values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let made = given.iter().filter_map(|condition| {
        let several = condition.get("values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let values =
            text(condition.get("value")).into_iter().chain(several.iter().filter_map(|value| text(Some(value))));
        Some(Condition { option: text(condition.get("option"))?, values: values.collect() })
    });
    made.collect()
}

/// A line that sets an option.
struct Setting<'a> {
    active: bool,
    value: &'a str,
}

/// Parses a line as a setting of this option.
fn setting<'a>(line: &'a str, option: &str) -> Option<Setting<'a>> {
    let spaces = |text: &'a str| text.trim_start_matches([' ', '\t']);
    let line = line.strip_suffix('\n').unwrap_or(line);
    let start = spaces(line);
    let (active, rest) = match start.strip_prefix(['#', ';']) {
        Some(rest) => (false, spaces(rest)),
        None => (true, start),
    };
    let rest = spaces(rest.strip_prefix(option)?);
    let value = if rest.is_empty() { rest } else { spaces(rest.strip_prefix('=')?) };
    Some(Setting { active, value })
}

struct Task<'a> {
    section: Option<&'a str>,
    conditions: Vec<Condition>,
    option: Option<&'a str>,
    exclusive: bool,
    /// Write no spaces around `=`.
    tight: bool,
    ignore_spaces: bool,
    no_value: bool,
    inactive_too: bool,
}

impl Task<'_> {
    /// The lines of the section, with its header.
    fn find(&self, lines: &[String]) -> Option<Range<usize>> {
        let header = self.section.map(|section| format!("[{section}]"));
        let mut start = header.is_none().then_some(0);
        for (index, line) in lines.iter().map(String::as_str).chain(std::iter::once("[")).enumerate() {
            if !line.starts_with('[') {
                continue;
            }
            if let Some(start) = start
                && self.fits(lines.get(start..index).unwrap_or_default())
            {
                return Some(start..index);
            }
            start = header.as_ref().filter(|header| line.starts_with(header.as_str())).map(|_| index);
        }
        None
    }

    fn fits(&self, lines: &[String]) -> bool {
        self.conditions.iter().all(|condition| {
            lines.iter().filter_map(|line| setting(line, &condition.option)).any(|setting| {
                condition.values.is_empty() || condition.values.iter().any(|value| value == setting.value)
            })
        })
    }

    fn line(&self, option: &str, value: Option<&str>) -> String {
        match value {
            None => format!("{option}\n"),
            Some(value) if self.tight => format!("{option}={value}\n"),
            Some(value) => format!("{option} = {value}\n"),
        }
    }

    fn present(&self, lines: &mut Vec<String>, mut values: Vec<String>) -> &'static str {
        let Some(range) = self.find(lines) else { return self.add_section(lines, &values) };
        let Some(option) = self.option else { return "" };
        let mut msg = "";
        let mut kept = vec![false; range.len()];
        let mut section: Vec<String> = lines.get(range.clone()).unwrap_or_default().to_vec();
        let ours = |line: &str| setting(line, option).filter(|setting| setting.active || self.inactive_too).is_some();
        let mut alone = false;
        // Keeps lines that already have one of the values.
        for (line, kept) in section.iter_mut().zip(&mut kept) {
            if !ours(line) {
                continue;
            }
            let value = setting(line, option).map(|setting| setting.value.to_owned()).unwrap_or_default();
            if let Some(at) = values.iter().position(|wanted| *wanted == value) {
                values.remove(at);
                alone |= value.is_empty() && self.no_value;
                let value = (!value.is_empty() || !self.no_value).then_some(value.as_str());
                msg = self.update(line, self.line(option, value), option, msg);
                *kept = true;
            } else if values.is_empty() && self.no_value {
                msg = self.update(line, self.line(option, None), option, msg);
                alone = true;
                *kept = true;
                break;
            }
        }
        if self.exclusive && !self.no_value {
            // Reuses lines with other values for the new ones, and removes the rest.
            for (line, kept) in section.iter_mut().zip(&mut kept) {
                if !*kept && ours(line) && !values.is_empty() {
                    let value = values.remove(0);
                    msg = self.update(line, self.line(option, Some(&value)), option, msg);
                    *kept = true;
                }
            }
            let before = section.len();
            let mut marks = kept.into_iter();
            section.retain(|line| marks.next().unwrap_or(true) || !ours(line));
            if section.len() != before {
                msg = "option changed";
            }
        }
        let mut new: Vec<String> = values.iter().map(|value| self.line(option, Some(value))).collect();
        if values.is_empty() && self.no_value && !alone {
            new.push(self.line(option, None));
        }
        if !new.is_empty() {
            // After the last line that is neither empty nor a comment.
            let meaningful = |line: &String| !line.trim().is_empty() && !line.trim_start().starts_with(['#', ';']);
            let at = section.iter().rposition(meaningful).map_or(0, |index| index + 1);
            section.splice(at..at, new);
            msg = "option added";
        }
        lines.splice(range, section);
        msg
    }

    fn update(&self, line: &mut String, new: String, option: &str, msg: &'static str) -> &'static str {
        let same = match (setting(line, option), setting(&new, option)) {
            (Some(old), Some(new)) if self.ignore_spaces && old.active => old.value == new.value,
            _ => *line == new,
        };
        if same {
            return msg;
        }
        *line = new;
        "option changed"
    }

    fn add_section(&self, lines: &mut Vec<String>, values: &[String]) -> &'static str {
        if let Some(section) = self.section {
            lines.push(format!("[{section}]\n"));
        }
        for condition in &self.conditions {
            match condition.values.as_slice() {
                [] => lines.push(self.line(&condition.option, None)),
                values => lines.extend(values.iter().map(|value| self.line(&condition.option, Some(value)))),
            }
        }
        match self.option {
            Some(option) if values.is_empty() => lines.push(self.line(option, None)),
            Some(option) => lines.extend(values.iter().map(|value| self.line(option, Some(value)))),
            None => return "only section added",
        }
        "section and option added"
    }

    fn absent(&self, lines: &mut Vec<String>, values: &[String]) -> &'static str {
        let Some(range) = self.find(lines) else { return "" };
        let Some(option) = self.option else {
            if range.is_empty() {
                return "";
            }
            lines.drain(range);
            return "section removed";
        };
        let section = lines.get(range.clone()).unwrap_or_default();
        let goes = |line: &str| {
            setting(line, option).is_some_and(|setting| {
                setting.active && (self.exclusive || values.iter().any(|value| value == setting.value))
            })
        };
        let kept: Vec<String> = section.iter().filter(|line| !goes(line)).cloned().collect();
        let msg = if kept.len() == section.len() { "" } else { "option changed" };
        lines.splice(range, kept);
        msg
    }
}
