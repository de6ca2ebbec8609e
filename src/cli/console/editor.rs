//! Line editing at a terminal, with history and completion.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::command;
use crate::error::{Error, Result};

/// Shared with Ansible's console.
const HISTORY: &str = "~/.ansible-console_history";
const LINES: usize = 1000;

/// Reads lines from a terminal.
pub(super) struct LineEditor {
    editor: Editor<Names, FileHistory>,
    history: PathBuf,
}

/// Names for completion.
pub(super) struct Names {
    pub(super) modules: Vec<String>,
    pub(super) hosts: Vec<String>,
    pub(super) groups: Vec<String>,
}

impl LineEditor {
    /// Opens an editor if input and output are terminals; piped input needs none.
    pub(super) fn open(names: Names) -> Option<LineEditor> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return None;
        }
        let config = Config::builder().auto_add_history(true).completion_type(CompletionType::List);
        let mut editor = Editor::with_config(config.max_history_size(LINES).ok()?.build()).ok()?;
        editor.set_helper(Some(names));
        let history = crate::settings::expand_home(HISTORY);
        // The file does not exist before the first session.
        let _ = editor.load_history(&history);
        Some(LineEditor { editor, history })
    }

    /// Reads a line. Returns `None` at the end of input, and an empty line after Ctrl-C.
    pub(super) fn read(&mut self, prompt: &str) -> Result<Option<String>> {
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Some(line)),
            Err(ReadlineError::Interrupted) => Ok(Some(String::new())),
            Err(ReadlineError::Eof) => Ok(None),
            Err(error) => Err(Error::new(format!("The terminal cannot be read: {error}"))),
        }
    }

    /// Appends the lines to the history file.
    pub(super) fn save(&mut self) -> Result<()> {
        self.editor.append_history(&self.history).map_err(|error| {
            Error::new(format!("The history cannot be written to {}: {error}", self.history.display()))
        })
    }
}

impl Names {
    /// Start of the last word of a line, and its completions.
    fn completed(&self, line: &str) -> (usize, Vec<String>) {
        let start = line.trim_end_matches(|letter: char| !letter.is_whitespace()).len();
        let first = line.split_whitespace().next().unwrap_or_default();
        if line[..start].trim().is_empty() {
            let commands = command::names().map(str::to_owned);
            return (start, matching(commands.chain(self.modules.iter().cloned()), &line[start..]));
        }
        match first {
            "cd" => {
                // A pattern consists of names with separators between them.
                let start = line.rfind([':', ',', '!', '&']).map_or(start, |end| start.max(end + 1));
                (start, matching(self.hosts.iter().chain(&self.groups).cloned(), &line[start..]))
            }
            "help" => {
                let commands = command::names().map(str::to_owned);
                (start, matching(commands.chain(self.modules.iter().cloned()), &line[start..]))
            }
            "list" => (start, matching(["groups".to_owned()], &line[start..])),
            "become" | "check" | "diff" => (start, matching(["yes", "no"].map(str::to_owned), &line[start..])),
            module => {
                let options = crate::builtin::spec(module).map(|spec| spec.options).unwrap_or_default();
                (start, matching(options.iter().map(|option| format!("{}=", option.name)), &line[start..]))
            }
        }
    }
}

/// Names that start with a word, sorted and without duplicates.
fn matching(names: impl IntoIterator<Item = String>, word: &str) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().filter(|name| name.starts_with(word)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, names) = self.completed(line.get(..position).unwrap_or(line));
        // A completed word is followed by a space, except in patterns and after `=`.
        let is_whole = |name: &str| !name.ends_with('=') && !line.starts_with("cd ");
        let pair = |name: String| {
            let end = if is_whole(&name) { " " } else { "" };
            Pair { replacement: format!("{name}{end}"), display: name }
        };
        Ok((start, names.into_iter().map(pair).collect()))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {}
impl Validator for Names {}
impl Helper for Names {}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Names { modules: owned(&["copy", "command"]), hosts: owned(&["web1", "web2"]), groups: owned(&["web", "db"]) }
    }

    #[test]
    fn completions_fit_the_position() {
        let completed = |line: &str| names().completed(line);
        assert_eq!(completed("co"), (0, vec!["collections".to_owned(), "command".to_owned(), "copy".to_owned()]));
        assert_eq!(completed("cd we"), (3, vec!["web".to_owned(), "web1".to_owned(), "web2".to_owned()]));
        assert_eq!(completed("cd web:!d"), (8, vec!["db".to_owned()]));
        assert_eq!(completed("copy rem"), (5, vec!["remote_src=".to_owned()]));
        assert_eq!(completed("copy src=a mo"), (11, vec!["mode=".to_owned()]));
        assert_eq!(completed("nothing x"), (8, vec![]));
        // An ideographic space takes three bytes.
        assert_eq!(completed("cd\u{3000}we").0, 5);
    }
}
