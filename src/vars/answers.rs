//! Answers to `vars_prompt` that a plan hands to the run after it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::connection::Secret;

/// Answers to `vars_prompt` that a plan has asked for, in order. The run that follows in the same process takes them,
/// so that nobody is asked twice. They exist in memory only.
#[derive(Debug, Clone, Default)]
pub struct Answers(Arc<Mutex<VecDeque<Answer>>>);

/// One answer.
#[derive(Debug)]
pub struct Answer {
    /// Place of the question in the project.
    pub place: String,
    /// The text.
    pub text: Secret,
    /// Whether the user or the project wrote it, rather than a template.
    pub is_written: bool,
}

impl Answers {
    /// Adds an answer.
    pub fn add(&self, answer: Answer) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(answer);
    }

    /// Takes the next answer, if it belongs to the question at this place.
    pub fn take(&self, place: &str) -> Option<Answer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front_if(|answer| answer.place == place)
    }
}
