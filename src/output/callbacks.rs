//! Callbacks by name. One writes the standard output; others may run as well.

use std::sync::Arc;
use std::time::Duration;

use super::Output;
use super::default::{DefaultOutput, Dialect};
use super::document::Document;
use super::durations::Durations;
use super::event_lines::EventLines;
use super::failures::Failures;
use super::footer::Stream;
use super::json_lines::JsonLines;
use super::junit::Junit;
use super::lines::TaskLines;
use super::masked::Masked;
use super::minimal::MinimalOutput;
use super::oneline::OneLineOutput;
use super::printer::Printer;
use super::profile::{ProfileRoles, ProfileTasks};
use super::python::PythonCallbacks;
use super::screen::Screen;
use super::timer::Timer;
use super::timings::Timings;
use super::trace::Trace;
use super::tree::Tree;
use crate::error::{Error, Result};
use crate::foreign::PythonPlugins;
use crate::playbook::Task;
use crate::settings::callbacks as options;
use crate::settings::{CallbackOption, Config, EventsTo, FailureForm, Live, Progress, Settings};

/// Role of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Writes the standard output (`stdout_callback`).
    Stdout,
    /// Runs in addition to the stdout callback (`callbacks_enabled`).
    Beside,
}

/// A callback.
pub struct Callback {
    /// Name of the callback.
    pub name: &'static str,
    /// Collection of the callback.
    pub collection: &'static str,
    /// Role of the callback.
    pub role: Role,
    /// Description in one line.
    pub summary: &'static str,
    /// Settings of the callback, in groups that callbacks share.
    pub options: &'static [&'static [CallbackOption]],
    make: fn(&Setup<'_>) -> Result<Box<dyn Output>>,
}

impl Callback {
    /// Qualified name, `COLLECTION.NAME`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.collection, self.name)
    }

    /// All its settings.
    pub fn all_options(&self) -> impl Iterator<Item = &'static CallbackOption> {
        self.options.iter().copied().flatten()
    }
}

/// All callbacks.
pub const CALLBACKS: &[Callback] = &[
    Callback {
        name: "debug",
        collection: "ansible.posix",
        role: Role::Stdout,
        summary: "The default, with the output of commands unescaped",
        options: &[options::DEFAULT, options::SHOW_CUSTOM_STATS, options::RESULT_FORMAT],
        make: |setup| Ok(Box::new(DefaultOutput::new(setup, Dialect::Debug)?)),
    },
    Callback {
        name: "default",
        collection: "ansible.builtin",
        role: Role::Stdout,
        summary: "The output of ansible-playbook",
        options: &[options::DEFAULT, options::SHOW_CUSTOM_STATS, options::RESULT_FORMAT],
        make: |setup| Ok(Box::new(DefaultOutput::new(setup, Dialect::Standard)?)),
    },
    Callback {
        name: "json",
        collection: "ansible.posix",
        role: Role::Stdout,
        summary: "One JSON document at the end",
        options: &[options::SHOW_CUSTOM_STATS, options::JSON],
        make: |setup| Ok(Box::new(Document::new(setup)?)),
    },
    Callback {
        name: "jsonl",
        collection: "ansible.posix",
        role: Role::Stdout,
        summary: "One line of JSON for each event",
        options: &[options::SHOW_CUSTOM_STATS, options::JSONL],
        make: |setup| Ok(Box::new(JsonLines::new(setup)?)),
    },
    Callback {
        name: "junit",
        collection: "ansible.builtin",
        role: Role::Beside,
        summary: "A JUnit file of all tasks",
        options: &[options::JUNIT],
        make: |setup| Ok(Box::new(Junit::new(setup)?)),
    },
    Callback {
        name: "minimal",
        collection: "ansible.builtin",
        role: Role::Stdout,
        summary: "The output of ansible: only results",
        options: &[options::RESULT_FORMAT],
        make: |setup| Ok(Box::new(MinimalOutput::new(setup)?)),
    },
    Callback {
        name: "null",
        collection: "community.general",
        role: Role::Stdout,
        summary: "No output",
        options: &[],
        make: |_| Ok(Box::new(Silence)),
    },
    Callback {
        name: "oneline",
        collection: "ansible.builtin",
        role: Role::Stdout,
        summary: "One line for each result",
        options: &[],
        make: |setup| Ok(Box::new(OneLineOutput::new(setup))),
    },
    Callback {
        name: "profile_roles",
        collection: "ansible.posix",
        role: Role::Beside,
        summary: "Duration of each role",
        options: &[options::PROFILE_ROLES],
        make: |setup| Ok(Box::new(ProfileRoles::new(setup))),
    },
    Callback {
        name: "profile_tasks",
        collection: "ansible.posix",
        role: Role::Beside,
        summary: "Duration of each task",
        options: &[options::PROFILE_TASKS],
        make: |setup| Ok(Box::new(ProfileTasks::new(setup)?)),
    },
    Callback {
        name: "timer",
        collection: "ansible.posix",
        role: Role::Beside,
        summary: "Duration of the playbook",
        options: &[],
        make: |setup| Ok(Box::new(Timer::new(setup))),
    },
    Callback {
        name: "tree",
        collection: "ansible.builtin",
        role: Role::Beside,
        summary: "The last result of each host, in a file with its name",
        options: &[options::TREE],
        make: |setup| Ok(Box::new(Tree::new(setup))),
    },
    Callback {
        name: "yaml",
        collection: "community.general",
        role: Role::Stdout,
        summary: "The default, with results in YAML",
        options: &[options::DEFAULT, options::SHOW_CUSTOM_STATS],
        make: |setup| Ok(Box::new(DefaultOutput::new(setup, Dialect::Yaml)?)),
    },
];

/// Finds a callback by its short or qualified name.
pub fn find_callback(name: &str) -> Option<&'static Callback> {
    CALLBACKS.iter().find(|callback| {
        let rest = name.strip_prefix(callback.collection).and_then(|rest| rest.strip_prefix('.'));
        name == callback.name || rest == Some(callback.name)
    })
}

/// Callback that prints nothing.
struct Silence;

impl Output for Silence {
    fn event(&mut self, _event: &Masked) {}
}

/// Inputs for creating a callback.
pub(super) struct Setup<'a> {
    pub(super) printer: Printer,
    pub(super) settings: &'a Settings,
    config: &'a Config,
    options: &'static [&'static [CallbackOption]],
    /// Shared with the live output.
    pub(super) lines: TaskLines,
}

impl Setup<'_> {
    /// Value that the user set for an option.
    pub(super) fn given(&self, name: &str) -> Option<String> {
        let option = self.options.iter().copied().flatten().find(|option| option.name == name)?;
        self.config.lookup(option.env, option.ini)
    }

    /// Value of an option as text, or its default.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let default = || {
            let option = self.options.iter().copied().flatten().find(|option| option.name == name)?;
            option.default.map(str::to_owned)
        };
        self.given(name).or_else(default)
    }

    /// Value of an option as a boolean.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| crate::settings::is_true(&text))
    }

    /// Value of an option as a number. Fails if it is not one.
    pub(super) fn number(&self, name: &str) -> Result<i64> {
        let text = self.text(name).unwrap_or_default();
        text.trim().parse().map_err(|_| Error::usage(format!("{name} must be a number, not '{text}'")))
    }
}

/// All callbacks of a run.
pub struct Outputs(Vec<Box<dyn Output>>);

impl Outputs {
    /// Output of a verb that shows no run.
    pub fn minimal(printer: &Printer, settings: &Settings, config: &Config) -> Result<Outputs> {
        let mut settings = settings.clone();
        settings.output.live = Live::None;
        Outputs::new("minimal", &[], printer, &settings, config)
    }

    /// The callback `stdout` and the ones enabled in addition.
    pub fn new(
        stdout: &str,
        enabled: &[String],
        printer: &Printer,
        settings: &Settings,
        config: &Config,
    ) -> Result<Outputs> {
        // Events are masked before callbacks see them; masking rendered text would damage its structure.
        let rendered = printer.without_masking();
        let lines = TaskLines::default();
        let setup = |callback: &'static Callback| Setup {
            printer: rendered.clone(),
            settings,
            config,
            options: callback.options,
            lines: lines.clone(),
        };
        // A file of the project outranks a callback of ours, as it outranks ansible-core's.
        let native = |name: &str| find_callback(name).filter(|_| !has_file(settings, name));
        let found = native(stdout);
        let usual = find_callback("default").ok_or_else(|| Error::new("There is no callback `default`."))?;
        let first = found.unwrap_or(usual);
        let screen = Screen::new(rendered.clone(), settings, &lines);
        // These print JSON for programs, or nothing.
        let is_text = !["json", "jsonl", "null"].contains(&first.name);
        let screen = if is_text && wants_footer(settings) { screen.with_footer() } else { screen };
        let mut outputs: Vec<Box<dyn Output>> = vec![Box::new(screen)];
        let made = (first.make)(&setup(first))?;
        let mut python = match found {
            Some(_) => {
                outputs.push(made);
                PythonCallbacks::new(printer, settings, None, None)
            }
            None => PythonCallbacks::new(printer, settings, Some(stdout), Some(made)),
        };
        let mut seen = vec![first.full_name()];
        for name in enabled {
            match native(name) {
                None => python.enable(name),
                // Only one callback writes the standard output.
                Some(callback) if callback.role == Role::Stdout => {}
                Some(callback) if seen.contains(&callback.full_name()) => {}
                Some(callback) => {
                    seen.push(callback.full_name());
                    outputs.push((callback.make)(&setup(callback))?);
                }
            }
        }
        let is_for_people = found.is_some() && ["debug", "default", "yaml"].contains(&first.name);
        if settings.output.shows_durations && settings.output.progress != Progress::None && is_for_people {
            outputs.push(Box::new(Durations::new(&rendered)));
        }
        // An ad-hoc command has printed its only task right above.
        let is_of_one_task = ["minimal", "oneline"].contains(&first.name);
        match settings.output.failures {
            FailureForm::Readable if is_for_people => outputs.push(Box::new(Failures::new(&rendered, Stream::Stdout))),
            FailureForm::Listed
                if settings.output.footer && settings.output.progress != Progress::None && !is_of_one_task =>
            {
                outputs.push(Box::new(Failures::new(&rendered, Stream::Stderr)));
            }
            _ => {}
        }
        let costs = python.costs();
        // `Timings` shows the cost of these callbacks, so they must end before it.
        outputs.push(Box::new(python));
        if settings.output.timings {
            outputs.push(Box::new(Timings::new(&rendered, costs)));
        }
        if let Some(to) = &settings.output.events {
            outputs.push(Box::new(EventLines::new(to, settings.check)?));
        }
        if let Some(file) = &settings.output.trace {
            outputs.push(Box::new(Trace::new(file)?));
        }
        Ok(Outputs(outputs))
    }
}

impl Outputs {
    /// Outputs with this one in place of callbacks; warnings and questions stay.
    pub fn only(output: Box<dyn Output>, printer: &Printer, settings: &Settings) -> Outputs {
        let screen = Screen::new(printer.without_masking(), settings, &TaskLines::default());
        let screen = if wants_footer(settings) { screen.with_footer() } else { screen };
        Outputs(vec![Box::new(screen), output])
    }
}

/// Whether the run has a footer at a terminal. Events on a standard stream would mix with it.
fn wants_footer(settings: &Settings) -> bool {
    let is_taken = matches!(settings.output.events, Some(EventsTo::Descriptor(1 | 2)));
    settings.output.footer && settings.output.progress == Progress::Auto && !is_taken
}

/// Whether a file of the project or of the settings is a callback of this name.
fn has_file(settings: &Settings, name: &str) -> bool {
    let own = settings.playbook_dir.join("callback_plugins");
    let file = format!("{name}.py");
    std::iter::once(&own).chain(&settings.code.callbacks).any(|folder| folder.join(&file).is_file())
}

impl Output for Outputs {
    fn plugins(&mut self, plugins: &Arc<PythonPlugins>) -> Result<()> {
        self.0.iter_mut().try_for_each(|output| output.plugins(plugins))
    }

    fn wants_live(&self) -> bool {
        self.0.iter().any(|output| output.wants_live())
    }

    fn event(&mut self, event: &Masked) {
        self.0.iter_mut().for_each(|output| output.event(event));
    }

    fn interval(&self) -> Option<Duration> {
        self.0.iter().filter_map(|output| output.interval()).min()
    }

    fn tick(&mut self) {
        self.0.iter_mut().for_each(|output| output.tick());
    }
}

/// Generates ids for documents: unique in this run, and very likely elsewhere.
pub(super) struct Ids {
    prefix: String,
    plays: u64,
}

impl Ids {
    pub(super) fn new() -> Ids {
        let mut bytes = [0; 10];
        // Without a source of randomness ids are unique only in this run.
        let _ = getrandom::fill(&mut bytes);
        let text = hex::encode(bytes);
        let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        Ids { prefix: format!("{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20)), plays: 0 }
    }

    /// Id of a play that starts. Batches of a play share it.
    pub(super) fn play(&mut self, batch: u32) -> String {
        if batch == 0 {
            self.plays += 1;
        }
        format!("{}-a{:011x}", self.prefix, self.plays)
    }

    /// Id of a task, the same on all hosts and in all batches.
    pub(super) fn task(&self, task: &Task) -> String {
        format!("{}-b{:011x}", self.prefix, task.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_are_found_by_their_short_and_full_names() {
        assert!(find_callback("yaml").is_some() && find_callback("community.general.yaml").is_some());
        assert!(find_callback("ansible.builtin.yaml").is_none());
        let names: Vec<_> = CALLBACKS.iter().map(|callback| callback.name).collect();
        assert!(names.is_sorted(), "ansible-doc --list shows them in this order");
    }
    #[test]
    fn settings_of_callbacks_are_known_to_ansible_cfg() {
        let keys: Vec<_> = options::keys().collect();
        let used = CALLBACKS.iter().flat_map(Callback::all_options).flat_map(|option| option.ini);
        assert!(used.into_iter().all(|key| keys.contains(key)));
    }
}
