//! Prompts to the user during a run.

use std::io::BufRead as _;

use tokio::sync::mpsc;

use super::execute::Shared;
use crate::error::{Error, Result};
use crate::output::{Event, Hidden, Question};

/// Prints a text after all pending output and returns once it is visible.
pub(crate) async fn print_now(text: &str, shared: &Shared) {
    let (sender, mut shown) = mpsc::unbounded_channel();
    let _ = shared.events.send(Event::Prompt { text: text.to_owned(), shown: sender });
    // Without a printer there is nothing to wait for.
    let _ = shown.recv().await;
}

/// Display of an answer while the user types it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Echo {
    Shown,
    Hidden,
}

/// Prints a prompt after all pending output and reads a line. Returns `None` at the end of input.
pub(crate) async fn ask(prompt: &str, echo: Echo, shared: &Shared) -> Result<Option<String>> {
    let question = Question::begin();
    let hidden = (echo == Echo::Hidden).then(Hidden::begin);
    print_now(prompt, shared).await;
    let read = tokio::task::spawn_blocking(move || {
        if let Some(hidden) = hidden {
            return hidden.read().map(Some);
        }
        let mut line = String::new();
        let count = std::io::stdin().lock().read_line(&mut line)?;
        Ok((count > 0).then_some(line))
    });
    let answer = match read.await {
        Ok(answer) => answer,
        Err(error) => Err(std::io::Error::other(error)),
    };
    drop(question);
    let answer = answer.map_err(|error| Error::new(format!("cannot ask for '{}': {error}", prompt.trim())))?;
    Ok(answer.map(|line| line.trim_end_matches(['\r', '\n']).to_owned()))
}
