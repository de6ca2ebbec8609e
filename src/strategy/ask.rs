//! Questions to the user while a run is under way.

use std::io::BufRead as _;

use tokio::sync::mpsc;

use super::execute::Shared;
use crate::error::{Error, Result};
use crate::output::Event;

/// Shows a text behind everything that was told before, and comes back when it is there.
pub(crate) async fn tell(text: &str, shared: &Shared) {
    let (sender, mut shown) = mpsc::unbounded_channel();
    let _ = shared.events.send(Event::Prompt { text: text.to_owned(), shown: sender });
    // Without anybody who prints there is nothing to wait for.
    let _ = shown.recv().await;
}

/// Shows a prompt behind everything that was told before, and reads a line. Nothing if the input has ended.
pub(crate) async fn ask(prompt: &str, private: bool, shared: &Shared) -> Result<Option<String>> {
    tell(prompt, shared).await;
    let read = tokio::task::spawn_blocking(move || {
        if private {
            return rpassword::read_password().map(Some);
        }
        let mut line = String::new();
        let count = std::io::stdin().lock().read_line(&mut line)?;
        Ok((count > 0).then_some(line))
    });
    let answer = match read.await {
        Ok(answer) => answer,
        Err(error) => Err(std::io::Error::other(error)),
    };
    let answer = answer.map_err(|error| Error::new(format!("'{}' cannot be asked: {error}", prompt.trim())))?;
    Ok(answer.map(|line| line.trim_end_matches(['\r', '\n']).to_owned()))
}
