//! Errors and warnings about inventories.

use std::path::PathBuf;

use windlass_yaml::Span;

/// Reason why an inventory, a variable file or a host pattern cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Text without a meaning in an inventory.
    #[error("{}", render(span, message, hint.as_deref()))]
    Meaning {
        /// The problem in one sentence.
        message: String,
        /// Position of the problem.
        span: Span,
        /// Suggested remedy.
        hint: Option<String>,
    },
    /// A text is not YAML or JSON.
    #[error(transparent)]
    Yaml(#[from] windlass_yaml::Error),
    /// A file cannot be read.
    #[error("{}: The file cannot be read: {source}.", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A source is not a file, but could be the name of a host.
    #[error("If `{name}` is a host, write a comma behind it: `{name},`.")]
    NoComma {
        /// Source as given.
        name: String,
    },
    /// A file is not UTF-8.
    #[error("{}: The file is not UTF-8 text.", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// An encrypted file cannot be decrypted.
    #[error("{}: {source}", path.display())]
    Vault {
        /// The file.
        path: PathBuf,
        /// The vault's error.
        source: windlass_vault::Error,
    },
    /// An inventory script failed.
    #[error("{command}: {message}{}", stderr_text(stderr))]
    Script {
        /// Command line that was run.
        command: String,
        /// The problem in one sentence.
        message: String,
        /// The script's standard error.
        stderr: String,
    },
    /// A vars plugin failed.
    #[error("{message}")]
    VarsPlugin {
        /// The problem in one sentence.
        message: String,
    },
    /// No plugin could read a source, and the options make this fatal.
    #[error("{reasons}")]
    Unparsed {
        /// The source, and each plugin's error.
        reasons: String,
    },
    /// No source could be read, and the options make this fatal.
    #[error("No inventory was parsed, because no source could be read.\n{}", lines(reasons))]
    NoInventory {
        /// Warnings about the sources.
        reasons: Vec<Warning>,
    },
    /// None of the enabled plugins exists.
    #[error("No inventory can be read, because none of the plugins of `enable_plugins` is known: {names}.")]
    NoPlugins {
        /// Names of the enabled plugins.
        names: String,
    },
    /// A host pattern is invalid.
    #[error("The host pattern `{pattern}` {reason}.")]
    Pattern {
        /// Pattern as written.
        pattern: String,
        /// The problem.
        reason: String,
    },
    /// The file of `--limit @file` cannot be read.
    #[error("The limit file {} cannot be read: {reason}.", path.display())]
    LimitFile {
        /// The file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// A group would contain itself.
    #[error("The group `{child}` cannot be a child of `{parent}`, because it already contains that group.")]
    Loop {
        /// The group that would contain the other.
        parent: String,
        /// The group that already contains `parent`.
        child: String,
    },
    /// A host is not in the inventory.
    #[error("There is no host `{name}` in the inventory.")]
    UnknownHost {
        /// Requested name.
        name: String,
    },
}

impl Error {
    pub(crate) fn at(span: &Span, message: impl Into<String>) -> Self {
        Self::Meaning { message: message.into(), span: span.clone(), hint: None }
    }

    pub(crate) fn with_hint(self, advice: impl Into<String>) -> Self {
        match self {
            Self::Meaning { message, span, .. } => Self::Meaning { message, span, hint: Some(advice.into()) },
            other => other,
        }
    }
}

/// A problem at its position in a source.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The problem in one sentence.
    pub message: String,
    /// Position of the problem.
    pub span: Span,
    /// Suggested remedy.
    pub hint: Option<String>,
    /// Whether the source cannot be read; otherwise a part of it is ignored.
    pub is_error: bool,
}

impl Error {
    /// The problem, if it has a position.
    pub fn problem(&self) -> Option<Problem> {
        let (message, span, hint) = match self {
            Self::Meaning { message, span, hint } => (message.clone(), span, hint.clone()),
            Self::Yaml(error) => (error.message().to_owned(), error.span(), error.hint().map(str::to_owned)),
            _ => return None,
        };
        span.is_located().then(|| Problem { message, span: span.clone(), hint, is_error: true })
    }
}

impl Warning {
    /// The problems of a source, if all of them have positions.
    pub fn problems(&self) -> Option<Vec<Problem>> {
        match self {
            Self::Ignored { message, span } => {
                let problem = Problem { message: message.clone(), span: span.clone(), hint: None, is_error: false };
                Some(vec![problem])
            }
            Self::Yaml(warning) => {
                let message = match warning {
                    windlass_yaml::Warning::DuplicateKey { key, first, .. } => {
                        format!("The key `{key}` is at line {} already, and the value here is used.", first.line)
                    }
                    windlass_yaml::Warning::DeprecatedTag { tag, instead, .. } => {
                        format!("The tag `{tag}` is deprecated; use {instead} instead.")
                    }
                    _ => return None,
                };
                Some(vec![Problem { message, span: warning.span().clone(), hint: None, is_error: false }])
            }
            Self::Unparsed { reasons, .. } if !reasons.is_empty() => {
                reasons.iter().map(|(_, error)| error.problem()).collect()
            }
            _ => None,
        }
    }
}

fn render(span: &Span, message: &str, hint: Option<&str>) -> String {
    let place = span.to_string();
    let mut text = if place.is_empty() { message.to_owned() } else { format!("{place}: {message}") };
    let excerpt = span.excerpt();
    if !excerpt.is_empty() {
        text.push('\n');
        text += &excerpt;
    }
    if let Some(hint) = hint {
        text.push('\n');
        text += hint;
    }
    text
}

fn stderr_text(stderr: &str) -> String {
    if stderr.trim().is_empty() { String::new() } else { format!("\nIt wrote: {}", stderr.trim_end()) }
}

/// A likely mistake in an inventory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// A warning about a text, such as a duplicate key.
    #[error(transparent)]
    Yaml(#[from] windlass_yaml::Warning),
    /// A part of an inventory was ignored.
    #[error("{span}: {message}")]
    Ignored {
        /// The reason in one sentence.
        message: String,
        /// Position of that part.
        span: Span,
    },
    /// A source could not be read and was skipped.
    #[error("Unable to parse {source_name} as an inventory source.{}", failures_text(source_name, reasons))]
    Unparsed {
        /// Source as given.
        source_name: String,
        /// Name and error of each plugin that tried.
        reasons: Vec<(&'static str, Error)>,
    },
    /// No source could be read.
    #[error("No inventory was parsed, only implicit localhost is available. It does not match `all`.")]
    NoInventory,
    /// An enabled plugin does not exist.
    #[error("The inventory plugin `{name}` of `enable_plugins` is unknown and ignored.")]
    UnknownPlugin {
        /// Name in `enable_plugins`.
        name: String,
    },
    /// Group names that are not valid variable names.
    #[error(
        "Invalid characters were found in group names {}: {}.",
        if *are_replaced { "and automatically replaced" } else { "but not replaced" },
        names.join(", ")
    )]
    GroupNames {
        /// The names as written.
        names: Vec<String>,
        /// Whether underscores replaced the invalid characters.
        are_replaced: bool,
    },
    /// A group and a host have the same name.
    #[error("`{name}` is the name of both a group and a host; as a pattern it stands for the host.")]
    GroupAndHost {
        /// Name that both share.
        name: String,
    },
    /// `group_vars` or `host_vars` is not a directory.
    #[error("{} is not a directory, so no variables are read from it.", path.display())]
    NotADirectory {
        /// Path that should be a directory.
        path: PathBuf,
    },
    /// A pattern matches nothing.
    #[error("Could not match supplied host pattern, ignoring: {pattern}")]
    NoMatch {
        /// Pattern as written.
        pattern: String,
    },
    /// A file of `--limit @file` has no patterns.
    #[error("The limit file {} has no host patterns, so there are no hosts within it.", path.display())]
    EmptyLimit {
        /// The file.
        path: PathBuf,
    },
    /// A subscript written with a dash.
    #[error("The subscript of `{pattern}` should be written with a colon, as in [0:2].")]
    DashedSubscript {
        /// Pattern as written.
        pattern: String,
    },
}

fn failures_text(source_name: &str, failures: &[(&'static str, Error)]) -> String {
    let mut text = String::new();
    for (plugin, error) in failures {
        text.push('\n');
        if !plugin.is_empty() {
            text += &format!("Failed to parse {source_name} with {plugin}: ");
        }
        text += &error.to_string();
    }
    text
}

fn lines(warnings: &[Warning]) -> String {
    warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
