//! The default callback, which prints like `ansible-playbook`, and two variants that format results differently.

use serde_json::{Map, Value};
use unicode_width::UnicodeWidthStr as _;

use super::callbacks::Setup;
use super::event::path_of;
use super::footer::{Stream, terminal_columns};
use super::json::spaced_json;
use super::lines::TaskLines;
use super::masked::{Masked, Shown};
use super::printable::printable;
use super::printer::{Printer, banner};
use super::shown::{Format, always_shown, clean_debug, omit_lines};
use super::{Event, JobState, Output, Recap, ResultEvent, Stats, Status};
use crate::error::Result;
use crate::outcome::CustomStats;
use crate::playbook::Task;
use crate::settings::{Color, FailureForm, Show};

/// Format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Follows `result_format`.
    Standard,
    /// community.general.yaml.
    Yaml,
    /// ansible.posix.debug: prints the output of commands below the result.
    Debug,
}

/// Prints like Ansible's default callback.
pub(super) struct DefaultOutput {
    printer: Printer,
    format: Format,
    dialect: Dialect,
    skipped: bool,
    ok: bool,
    /// Whether the messages of `debug` are printed where other results without a change are not.
    messages: bool,
    changed: bool,
    /// Whether a change is explained instead of shown as a difference.
    why: bool,
    /// Stream for failures.
    failed: Stream,
    host_start: bool,
    /// Whether plays and tasks in check mode are marked.
    markers: bool,
    check: bool,
    path_on_failure: bool,
    custom_stats: bool,
    shows_includes: bool,
    arguments: bool,
    no_log: bool,
    /// Whether failures, and lines that `debug` prints, are text for a person.
    is_readable: bool,
    /// Whether results leave out what nobody reads: the whole specification behind the errors of a role's arguments.
    abridges: bool,
    /// Whether the recap fits narrow terminals.
    fits: bool,
    /// Whether a censored loop looks the same as a task without one.
    hides_censored_loops: bool,
    /// Titles of tasks, printed before their first line of output.
    lines: TaskLines,
}

impl DefaultOutput {
    pub(super) fn new(setup: &Setup<'_>, dialect: Dialect) -> Result<DefaultOutput> {
        let show = setup.settings.output.show.unwrap_or(Show::All);
        Ok(DefaultOutput {
            printer: setup.printer.clone(),
            format: if dialect == Dialect::Yaml { Format::json(setup) } else { Format::new(setup)? },
            dialect,
            skipped: show == Show::All && setup.flag("display_skipped_hosts"),
            ok: show == Show::All && setup.flag("display_ok_hosts"),
            messages: show == Show::Changed && setup.flag("display_ok_hosts"),
            changed: show != Show::Failed,
            why: setup.settings.output.why,
            failed: if setup.flag("display_failed_stderr") { Stream::Stderr } else { Stream::Stdout },
            host_start: setup.flag("show_per_host_start"),
            markers: setup.flag("check_mode_markers"),
            check: setup.settings.check,
            path_on_failure: setup.flag("show_task_path_on_failure"),
            custom_stats: setup.flag("show_custom_stats"),
            shows_includes: show == Show::All,
            arguments: setup.settings.output.display_args_to_stdout,
            no_log: setup.settings.no_log,
            is_readable: setup.settings.output.failures == FailureForm::Readable
                && dialect == Dialect::Standard
                && setup.settings.verbosity == 0
                && !["result_format", "pretty_results"].iter().any(|name| setup.given(name).is_some()),
            abridges: setup.settings.output.failures == FailureForm::Listed && setup.settings.verbosity == 0,
            fits: setup.settings.output.failures == FailureForm::Readable,
            hides_censored_loops: setup.settings.compat.shows_censored_loops_as_tasks(),
            lines: setup.lines.clone(),
        })
    }

    fn verbosity(&self) -> u8 {
        self.format.verbosity
    }

    /// Prints a line about a task, below its title.
    fn say(&mut self, task: u64, text: &str, color: Color) {
        self.say_to(task, Stream::Stdout, text, color);
    }

    fn say_to(&mut self, task: u64, stream: Stream, text: &str, color: Color) {
        self.title(task);
        self.printer.line_to(stream, text, color);
    }

    /// Prints the title of a task, unless it was the last one printed.
    fn title(&mut self, task: u64) {
        self.lines.print_title(task, &self.printer);
    }

    fn playbook(&self, path: &str) {
        if self.verbosity() > 1 {
            let name = path.rsplit('/').next().unwrap_or(path);
            self.printer.banner(&format!("PLAYBOOK: {name}"));
        }
        self.dry_run();
    }

    fn dry_run(&self) {
        if self.check && self.markers {
            self.printer.banner("DRY RUN");
        }
    }

    fn play(&mut self, name: &str, check: bool) {
        let title = if name.is_empty() { "PLAY".to_owned() } else { format!("PLAY [{name}]") };
        self.lines.begin_play();
        self.printer.banner(&(title + self.mark(check)));
    }

    /// Mark of plays and tasks in check mode.
    fn mark(&self, check: bool) -> &'static str {
        if check && self.markers { " [CHECK MODE]" } else { "" }
    }

    /// Keeps the title of a task, and prints it unless only results have titles.
    fn task(&mut self, masked: &Masked, task: &Task, name: &str, check: bool, lazy: bool) {
        let kind = if task.handler { "RUNNING HANDLER" } else { "TASK" };
        let arguments = match self.arguments && !task.may_be_hidden(self.no_log) {
            true => format!(" {}", masked.arguments_of(task)),
            false => String::new(),
        };
        let mut text = banner(&format!("{kind} [{name}{arguments}]{}", self.mark(check)));
        if let (Some(path), true) = (path_of(task), self.verbosity() >= 2) {
            text.push_str(&format!("\ntask path: {path}"));
        }
        self.lines.keep_title(task.id, text);
        if self.skipped && self.ok && !lazy {
            self.lines.start(task.id, &self.printer);
        }
    }

    fn result(&mut self, event: &ResultEvent<Shown>, masked: &Masked) {
        // `json` renders the whole result, so it is called only where needed: most results only show if something
        // changed.
        let result = &event.result;
        let changed = event.result.is_marked_changed();
        if self.changed && event.diff && !self.why && changed && (event.item.is_some() || !event.looped) {
            let text = super::diff::shown(result.json().get("diff").unwrap_or(&Value::Null), &self.format);
            for line in text.lines() {
                self.say(event.task.id, line, super::diff::color(line));
            }
        }
        let hidden = match event.status {
            Status::Ok if changed => !self.changed,
            // The author of a playbook prints its messages for its reader.
            Status::Ok => !(self.ok || self.messages && event.task.short_action() == "debug"),
            Status::Skipped => !self.skipped,
            Status::Failed { .. } | Status::Unreachable { .. } => false,
        };
        if hidden {
            return;
        }
        if event.result.has("warnings") || event.report.is_some() {
            self.title(event.task.id);
            self.printer.result_warnings(result.json());
            if let Some(report) = &event.report {
                // The result below repeats the message.
                let is_repeated = self.is_readable && !event.no_log;
                match place_in(report, result.json()).filter(|_| is_repeated) {
                    Some(place) => self.printer.excerpt(place, self.failed),
                    None => self.printer.report(report, self.failed),
                }
            }
        }
        if event.looped && !(self.hides_censored_loops && event.result.has("censored")) {
            return self.summary(event);
        }
        let item = event.item.as_ref().map(|label| format!(" => (item={label})")).unwrap_or_default();
        let host = &event.host;
        match event.status {
            Status::Ok => {
                let (word, color) = if changed { ("changed", Color::Changed) } else { ("ok", Color::Ok) };
                let mut line = format!("{word}: [{host}]{item}");
                // Ansible prints facts at no verbosity.
                if (self.verbosity() > 0 && !event.task.gathers_facts()) || event.result.is_always_shown() {
                    line.push_str(&format!(" => {}", self.dump(result.json(), event)));
                }
                self.say(event.task.id, &line, color);
                if changed && self.why {
                    for line in super::why::lines(event, &masked.arguments_of_change(event)) {
                        self.say(event.task.id, &format!("    {line}"), Color::Plain);
                    }
                }
            }
            Status::Failed { ignored } => {
                if self.path_on_failure && self.verbosity() < 2 && event.item.is_none() {
                    self.task_path(event);
                }
                let line = match &event.item {
                    Some(label) => format!("failed: [{host}] (item={label}) => {}", self.dump(result.json(), event)),
                    None => format!("fatal: [{host}]: FAILED! => {}", self.dump(result.json(), event)),
                };
                self.say_to(event.task.id, self.failed, &line, Color::Error);
                if ignored {
                    self.say(event.task.id, "...ignoring", Color::Skip);
                }
            }
            Status::Skipped => {
                let item = event.item.as_ref().map(|label| format!(" => (item={label}) ")).unwrap_or_default();
                let mut line = format!("skipping: [{host}]{item}");
                if self.verbosity() > 0 {
                    line.push_str(&format!(" => {}", self.dump(result.json(), event)));
                }
                self.say(event.task.id, &line, Color::Skip);
            }
            Status::Unreachable { ignored } => {
                let line = format!("fatal: [{host}]: UNREACHABLE! => {}", self.dump(result.json(), event));
                self.say_to(event.task.id, self.failed, &line, Color::Unreachable);
                if ignored {
                    self.say(event.task.id, "...ignoring", Color::Skip);
                }
            }
        }
    }

    fn task_path(&mut self, event: &ResultEvent<Shown>) {
        if let Some(path) = path_of(&event.task) {
            self.say(event.task.id, &format!("task path: {path}"), Color::Plain);
        }
    }

    /// Line for a whole loop, printed after its items.
    fn summary(&mut self, event: &ResultEvent<Shown>) {
        match event.status {
            Status::Failed { ignored } => {
                let result = event.result.json();
                let is_secret = result.get("censored").is_some();
                let any_item = result.get("results").and_then(Value::as_array).is_some_and(|items| !items.is_empty());
                // `debug` prints only its message, also for a whole loop.
                if !(any_item || is_secret) || event.task.short_action() == "debug" {
                    let line = format!("fatal: [{}]: FAILED! => {}", event.host, self.dump(result, event));
                    self.say_to(event.task.id, self.failed, &line, Color::Error);
                }
                if ignored {
                    self.say(event.task.id, "...ignoring", Color::Skip);
                }
            }
            Status::Skipped => {
                let mut line = format!("skipping: [{}]", event.host);
                if self.verbosity() > 0 {
                    let mut without = event.result.json().clone();
                    if let Some(map) = without.as_object_mut() {
                        map.remove("results");
                    }
                    line.push_str(&format!(" => {}", self.dump(&without, event)));
                }
                self.say(event.task.id, &line, Color::Skip);
            }
            _ => {}
        }
    }

    /// A result as text, without parts that are printed elsewhere.
    fn dump(&self, result: &Value, event: &ResultEvent<Shown>) -> String {
        let mut map = self.format.abridged(result);
        let is_debug = event.task.short_action() == "debug";
        clean_debug(event.task.short_action(), &mut map);
        if self.abridges && event.task.short_action() == "validate_argument_spec" {
            map.remove("argument_spec_data");
        }
        if self.is_readable && matches!(event.status, Status::Failed { .. } | Status::Unreachable { .. }) {
            self.lines.without_live(&event.name, &mut map);
            return super::failures::text(&map);
        }
        if self.is_readable
            && is_debug
            && let Some(lines) = super::failures::message_lines(&map)
        {
            return lines;
        }
        match self.dialect {
            Dialect::Standard => self.format.text(map, None, always_shown(result)),
            Dialect::Yaml => yaml_dialect(map),
            Dialect::Debug => self.debug_dialect(map),
        }
    }

    /// JSON over several lines, followed by multi-line texts unescaped.
    fn debug_dialect(&self, mut map: Map<String, Value>) -> String {
        let mut below = String::new();
        for key in ["stdout", "stderr", "msg", "module_stdout", "module_stderr"] {
            let Some(value) = map.remove(key) else { continue };
            let text = windlass_template::text(&windlass_template::from_json(&value));
            if !text.is_empty() {
                below.push_str(&format!("\n\n{}:\n\n{text}\n", key.to_uppercase()));
            }
        }
        map.remove("stdout_lines");
        map.remove("stderr_lines");
        let text = self.format.text(map, None, true) + &below;
        text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
    }

    fn recap(&self, recap: &Recap) {
        self.printer.banner("PLAY RECAP");
        let mut names: Vec<_> = recap.hosts.iter().collect();
        names.sort_by_key(|(name, _)| *name);
        for (name, stats) in names {
            self.recap_of(name, stats);
        }
        self.printer.line("", Color::Plain);
        if self.custom_stats && !recap.custom.is_empty() {
            self.custom(&recap.custom);
        }
        self.dry_run();
    }

    fn recap_of(&self, name: &str, stats: &Stats) {
        let color = match stats {
            Stats { failed: 1.., .. } | Stats { unreachable: 1.., .. } => Color::Error,
            Stats { changed: 1.., .. } => Color::Changed,
            _ => Color::Ok,
        };
        let field = |key: &str, value: u32, color: Color| {
            let text = format!("{key}={value:<4}");
            if value == 0 { text } else { self.printer.paint(&text, color) }
        };
        let name = &*printable(name);
        // Escape sequences count as width, as in ansible-core.
        let host = match self.printer.paint(name, color) {
            painted if painted.len() > name.len() => format!("{painted:<37}"),
            plain => format!("{plain:<26}"),
        };
        let counts = [
            ("ok", stats.ok, Color::Ok),
            ("changed", stats.changed, Color::Changed),
            ("unreachable", stats.unreachable, Color::Unreachable),
            ("failed", stats.failed, Color::Error),
            ("skipped", stats.skipped, Color::Skip),
            ("rescued", stats.rescued, Color::Ok),
            ("ignored", stats.ignored, Color::Warn),
        ];
        // A narrow terminal would break the line within a word.
        let needed = name.width().max(26) + counts.iter().map(|(key, ..)| key.len() + 6).sum::<usize>() + 2;
        let is_narrow = self.fits && terminal_columns().is_some_and(|columns| columns < needed);
        let counts = counts.into_iter().filter(|(_, value, _)| !is_narrow || *value > 0);
        let fields: Vec<String> = counts.map(|(key, value, color)| field(key, value, color)).collect();
        self.printer.line_as_is(&format!("{host} : {}", fields.join(" ")));
    }

    /// Prints the statistics that `set_stats` collected.
    fn custom(&self, stats: &CustomStats) {
        self.printer.banner("CUSTOM STATS: ");
        let shown = |values: &Map<String, Value>| spaced_json(&Value::from(values.clone()));
        for (host, values) in &stats.hosts {
            self.printer.line(&format!("\t{host}: {}", shown(values)), Color::Plain);
        }
        if !stats.run.is_empty() {
            self.printer.line("", Color::Plain);
            self.printer.line(&format!("\tRUN: {}", shown(&stats.run)), Color::Plain);
        }
        self.printer.line("", Color::Plain);
    }
}

/// The part of a failure's report behind its message: place, excerpt and hint.
fn place_in<'a>(report: &'a str, result: &Value) -> Option<&'a str> {
    let message = result.get("msg").and_then(Value::as_str)?;
    let place = report.strip_prefix("Task failed: ")?.strip_prefix(message)?.trim_start_matches('\n');
    (!place.is_empty()).then_some(place)
}

/// The outcome on the first line, and the rest as YAML below it.
fn yaml_dialect(mut map: Map<String, Value>) -> String {
    let mut text = String::new();
    for key in ["changed", "skipped"] {
        if let Some(value) = map.shift_remove(key) {
            text.push_str(&format!("{key}={value} "));
        }
    }
    omit_lines(&mut map);
    if !map.is_empty() {
        let options = windlass_yaml::emit::DumpOptions {
            width: 1000,
            allow_unicode: true,
            text_blocks: true,
            ..Default::default()
        };
        text.push('\n');
        text.push_str(&super::shown::yaml(Value::Object(map), &options, true));
    }
    text.replace('\n', "\n  ").trim_end().to_owned()
}

impl Output for DefaultOutput {
    fn event(&mut self, event: &Masked) {
        match &**event {
            Event::PlaybookStart { path, .. } => self.playbook(path),
            Event::PlayStart { name, check, .. } => self.play(name.trim(), *check),
            Event::NoHostsMatched => self.printer.line("skipping: no hosts matched", Color::Skip),
            Event::NoHostsLeft => self.printer.banner("NO MORE HOSTS LEFT"),
            Event::TaskStart { task, name, check, lazy } => self.task(event, task, name.trim(), *check, *lazy),
            Event::HostStart { host, name, handler, .. } if self.host_start => {
                let kind = if *handler { "HANDLER" } else { "TASK" };
                self.printer.line(&format!(" [started {kind}: {name} on {host}]"), Color::Ok);
            }
            Event::Result(result) => self.result(result, event),
            Event::Retry { host, task, left, result, .. } => {
                let mut line = format!("FAILED - RETRYING: [{host}]: {task} ({left} retries left).");
                if self.verbosity() > 1 || result.is_always_shown() {
                    line.push_str(&format!("Result was: {}", self.format.dump(result.json(), None)));
                }
                self.printer.line(&line, Color::Debug);
            }
            Event::Job { host, id, state, .. } => {
                let line = match state {
                    JobState::Polled { started, finished } => {
                        format!("ASYNC POLL on {host}: jid={id} started={started} finished={finished}")
                    }
                    JobState::Ok => format!("ASYNC OK on {host}: jid={id}"),
                    JobState::Failed => format!("ASYNC FAILED on {host}: jid={id}"),
                };
                self.printer.line(&line, Color::Debug);
            }
            Event::Included { task, what, hosts, item } if self.shows_includes => {
                let item = item.as_ref().map(|label| format!(" => (item={label})")).unwrap_or_default();
                self.say(task.id, &format!("included: {what} for {}{item}", hosts.join(", ")), Color::Included);
            }
            Event::Recap(recap) => self.recap(recap),
            _ => {}
        }
    }
}
