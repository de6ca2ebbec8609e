//! Durations of an earlier run, from which the footer estimates the remaining time of a similar one.

use std::collections::HashMap;
use std::time::Duration;

/// Times of an earlier run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Duration in milliseconds.
    total: u64,
    /// Starts in milliseconds since the run's, by play, batch and task. A task that is included several times has
    /// several starts.
    starts: HashMap<(u32, u32, String), Vec<u64>>,
}

impl Forecast {
    /// A run of `total` milliseconds, and the starts of its tasks by play, batch and task.
    pub(crate) fn new(total: u64, starts: impl Iterator<Item = ((u32, u32, String), u64)>) -> Forecast {
        let mut forecast = Forecast { total, starts: HashMap::new() };
        for (place, start) in starts {
            forecast.starts.entry(place).or_default().push(start);
        }
        forecast.starts.values_mut().for_each(|starts| starts.sort_unstable());
        forecast
    }

    /// Duration of the whole run.
    pub fn total(&self) -> Duration {
        Duration::from_millis(self.total)
    }

    /// Time from a task's start to the end of the run. `times` is the number of times that the task has started before.
    pub fn remaining(&self, place: &(u32, u32, String), times: usize) -> Option<Duration> {
        let starts = self.starts.get(place)?;
        let start = starts.get(times).or(starts.last())?;
        Some(Duration::from_millis(self.total - start))
    }
}
