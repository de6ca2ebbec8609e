//! `windlass report`: writes a report of a recorded run.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::runs;
use crate::error::{Error, Result};
use crate::journal::{State, read_file};
use crate::report::{self, Report};
use crate::settings::{Config, Settings};

/// Write a report of a recorded run
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass report                               # the last run of this directory, in Markdown
  windlass report --output run.html             # one HTML page that needs no network
  windlass report 20260131-235959-0a1b2c --format json
  windlass report --format markdown >> \"$GITHUB_STEP_SUMMARY\"")]
pub(super) struct Arguments {
    /// Id of the run; `windlass runs` lists them [default: the last run of this directory]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Format of the report [default: by the name of --output, otherwise markdown]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Short for `--format html`; --output names the file
    #[arg(long, conflicts_with = "format")]
    html: bool,
    /// Write to this file instead of standard output; `.html`, `.md`, `.json` and `.xml` choose the format
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One self-contained page
    Html,
    /// Markdown
    Markdown,
    /// JSON, with a version
    Json,
    /// JUnit's XML
    Junit,
    /// Traces of OpenTelemetry, in the JSON of OTLP
    Otlp,
}

impl Format {
    /// Format for a file's name.
    fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()?.to_lowercase().as_str() {
            "html" | "htm" => Some(Format::Html),
            "md" | "markdown" => Some(Format::Markdown),
            "json" => Some(Format::Json),
            "xml" => Some(Format::Junit),
            _ => None,
        }
    }
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<u8> {
    if let Some(file) = arguments.run.as_deref().filter(|run| Format::of(Path::new(run)).is_some()) {
        return Err(Error::usage(format!("`{file}` is the name of a file and not of a run"))
            .hint(format!("write to a file with --output: `windlass report --output {}`", shell_words::quote(file))));
    }
    let settings = Settings::from_config(&Config::find()?)?;
    let state = State::of(&settings)?;
    let found = runs::find(&state, arguments.run.as_deref())?;
    // Asked before the journal is read: a run that ends in between is then complete.
    let is_alive = found.is_alive();
    let report = Report::of(&read_file(&found.path)?, is_alive);
    let by_name = arguments.output.as_deref().and_then(Format::of);
    let extension = arguments.output.as_deref().and_then(Path::extension);
    if let (Some(other), None, None, false) = (extension, by_name, arguments.format, arguments.html) {
        return Err(Error::usage(format!("no format of a report has names that end in `.{}`", other.display()))
            .hint("end the name in .html, .md, .json or .xml, or give --format"));
    }
    let format = if arguments.html { Some(Format::Html) } else { arguments.format.or(by_name) };
    let text = match format.unwrap_or(Format::Markdown) {
        Format::Html => report::html(&report)?,
        Format::Markdown => report::markdown(&report),
        Format::Json => report::json(&report),
        Format::Junit => report::junit(&report),
        Format::Otlp => report::otlp(&report),
    };
    match &arguments.output {
        None => super::stdout::print(&text)?,
        Some(path) => crate::replace::output(path, &text)
            .map_err(|error| Error::new(format!("the report {} cannot be written: {error}", path.display())))?,
    }
    Ok(0)
}
