//! Form and amount of the output.

use std::path::PathBuf;
use std::time::Duration;

use super::choice::{chosen, chosen_or_none};
use super::palette::Palette;
use super::{Config, FailureForm, Live, OutputForm, Progress, Show, seconds};
use crate::error::{Error, Result};

/// Destination of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventsTo {
    /// A file, which is replaced.
    File(PathBuf),
    /// A descriptor that the program inherited.
    Descriptor(u32),
}

impl EventsTo {
    /// A number is a descriptor; everything else, also `./3`, is a file.
    pub fn of(text: &str) -> EventsTo {
        match text.parse() {
            Ok(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => EventsTo::Descriptor(number),
            _ => EventsTo::File(PathBuf::from(text)),
        }
    }
}

/// Settings of the output.
#[derive(Debug, Clone)]
pub struct OutputSettings {
    /// Name of the stdout callback.
    pub stdout_callback: String,
    /// Names of additional callbacks.
    pub callbacks_enabled: Vec<String>,
    /// Whether callbacks in the folders of the project run, which no setting names.
    pub own_callbacks: bool,
    /// Whether ad-hoc commands use these callbacks too.
    pub adhoc_callbacks: bool,
    /// Whether banners show the arguments of tasks.
    pub display_args_to_stdout: bool,
    /// Results that the default callback prints; `None` prints all, or what the subcommand has as its default.
    pub show: Option<Show>,
    /// Hosts whose running commands show their output.
    pub live: Live,
    /// Form of the output.
    pub form: OutputForm,
    /// Whether the default callback explains changes in a few lines instead of showing differences (`--why`).
    pub why: bool,
    /// Lines of context around a change in diffs.
    pub diff_context: usize,
    /// Form of failures, and of lines that `debug` prints.
    pub failures: FailureForm,
    /// Form in which the progress of a run is shown.
    pub progress: Progress,
    /// Silence after which a line names the running tasks, if there is no footer; `None` prints none.
    pub progress_interval: Option<Duration>,
    /// Whether the subcommand may draw a footer at the terminal.
    pub footer: bool,
    /// Whether durations follow the recap.
    pub shows_durations: bool,
    /// Whether to print a breakdown of time at the end.
    pub timings: bool,
    /// Destination of events as JSON lines.
    pub events: Option<EventsTo>,
    /// File for a trace of the run.
    pub trace: Option<PathBuf>,
    /// URL of the OpenTelemetry collector that gets the trace of a finished run.
    pub otlp_endpoint: Option<String>,
    /// Directory of the tree callback, if the command line sets one.
    pub tree: Option<PathBuf>,
    /// File that logs all output.
    pub log_path: Option<PathBuf>,
    /// Verbosity of the log; `None` follows the command line.
    pub log_verbosity: Option<u8>,
    /// Whether to write a file with the failed hosts.
    pub retry_files: bool,
    /// Directory of the file with the failed hosts; `None` is the directory of the playbook.
    pub retry_folder: Option<PathBuf>,
    /// Colours.
    pub palette: Palette,
    /// Whether to use colours.
    pub color: bool,
}

impl OutputSettings {
    pub(super) fn from_config(config: &Config) -> Result<OutputSettings> {
        let interactive = std::io::IsTerminal::is_terminal(&std::io::stdout());
        // A setting of a person must not change what scripts read.
        let show = chosen_or_none(config, "show")?.filter(|_| interactive);
        let live = chosen(config, "live", Live::Slowest)?;
        let has_live = std::io::IsTerminal::is_terminal(&std::io::stderr());
        Ok(OutputSettings {
            stdout_callback: config.get("stdout_callback").unwrap_or_else(|| "default".to_owned()),
            callbacks_enabled: config.list("callbacks_enabled"),
            own_callbacks: true,
            adhoc_callbacks: config.bool("bin_ansible_callbacks")?.unwrap_or(false),
            display_args_to_stdout: config.bool("display_args_to_stdout")?.unwrap_or(false),
            show,
            live: if has_live { live } else { Live::None },
            form: chosen(config, "output", OutputForm::Auto)?,
            why: false,
            diff_context: config.number("diff.context")?.unwrap_or(3),
            failures: match config.get("failures").as_deref() {
                None | Some("auto") if interactive => FailureForm::Readable,
                None | Some("auto") => FailureForm::Listed,
                Some("readable") => FailureForm::Readable,
                Some("ansible") => FailureForm::Ansible,
                Some(other) => {
                    return Err(Error::usage(format!("failures must be auto, readable or ansible, not '{other}'")));
                }
            },
            progress: chosen(config, "progress", Progress::Auto)?,
            progress_interval: seconds(config, "progress_interval", Duration::from_secs(30))?,
            footer: false,
            shows_durations: interactive,
            timings: false,
            events: None,
            trace: None,
            otlp_endpoint: config.get("otlp_endpoint").filter(|url| !url.is_empty()),
            tree: None,
            log_path: config.get("log_path").filter(|path| !path.is_empty()).map(|path| config.path(&path)),
            log_verbosity: config.number("log_verbosity")?,
            retry_files: config.bool("retry_files_enabled")?.unwrap_or(false),
            retry_folder: config.path_of("retry_files_save_path"),
            palette: Palette::of(config)?,
            color: config.bool("force_color")?.unwrap_or(false) || (interactive && config.get("nocolor").is_none()),
        })
    }

    /// Fills in the defaults of the output of `playbook` at this verbosity. At a terminal, `show` becomes `changed`.
    pub fn settle(&mut self, verbosity: u8) {
        if self.form == OutputForm::Ansible {
            self.show = self.show.or(Some(Show::All));
            self.failures = FailureForm::Ansible;
            self.progress = Progress::None;
            self.live = Live::None;
        }
        let is_usual = self.stdout_callback == "default" && verbosity == 0 && self.shows_durations;
        self.show = self.show.or(is_usual.then_some(Show::Changed));
    }

    /// Whether the run measures times.
    pub fn takes_times(&self) -> bool {
        self.timings || self.trace.is_some()
    }
}
