//! A run that has ended, and programs that run another one.

use std::process::{Command, Output};

/// Lets a program run another one as its last arguments, in that one's folder and environment.
pub(crate) fn wrap(outer: &mut Command, inner: &Command) {
    outer.arg(inner.get_program()).args(inner.get_args());
    if let Some(folder) = inner.get_current_dir() {
        outer.current_dir(folder);
    }
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            // The tests have variables that the program must not have, such as the folder of the journals.
            None => outer.env_remove(name),
        };
    }
}

/// Output and exit code of a run.
pub(crate) struct Ran {
    /// Standard output, then standard error.
    pub(crate) text: String,
    /// Exit code; `None` if a signal ended the run.
    pub(crate) code: Option<i32>,
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Ran {
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        Ran { text, code: output.status.code() }
    }

    #[track_caller]
    pub(crate) fn has(&self, part: &str) -> &Ran {
        assert!(self.text.contains(part), "`{part}` is missing in:\n{}", self.text);
        self
    }

    #[track_caller]
    pub(crate) fn lacks(&self, part: &str) -> &Ran {
        assert!(!self.text.contains(part), "`{part}` is in:\n{}", self.text);
        self
    }

    #[track_caller]
    pub(crate) fn ends(&self, code: i32) -> &Ran {
        assert_eq!(self.code, Some(code), "{}", self.text);
        self
    }
}
