//! Durations of a playbook and its plays, after the recap at a terminal.

use std::time::{Duration, Instant};

use super::footer::duration;
use super::masked::Masked;
use super::printer::Printer;
use super::{Event, Output};
use crate::settings::Color;

/// Shortest play to list, and maximum number of plays.
const SHORTEST: Duration = Duration::from_secs(1);
const LISTED: usize = 20;

/// Measures plays.
pub(super) struct Durations {
    printer: Printer,
    start: Instant,
    /// Names of plays and their durations; the last one is under way.
    plays: Vec<(String, Duration)>,
    since: Instant,
}

impl Durations {
    pub(super) fn new(printer: &Printer) -> Durations {
        let now = Instant::now();
        Durations { printer: printer.clone(), start: now, plays: Vec::new(), since: now }
    }

    /// Ends the play under way.
    fn stop(&mut self) {
        let now = Instant::now();
        if let Some((_, time)) = self.plays.last_mut() {
            *time += now.saturating_duration_since(self.since);
        }
        self.since = now;
    }

    fn show(&mut self) {
        self.stop();
        let total = self.start.elapsed();
        summary(total, &std::mem::take(&mut self.plays)).iter().for_each(|line| self.printer.line(line, Color::Plain));
    }
}

/// Lines with the total, and with the longest of several plays in their order.
fn summary(total: Duration, plays: &[(String, Duration)]) -> Vec<String> {
    let mut lines = vec![format!("DURATION: {}", duration(total.as_secs()))];
    let mut listed: Vec<_> = plays.iter().enumerate().filter(|(_, (_, time))| *time >= SHORTEST).collect();
    listed.sort_by_key(|(_, (_, time))| std::cmp::Reverse(*time));
    listed.truncate(LISTED);
    listed.sort_by_key(|(index, _)| *index);
    if plays.len() > 1 {
        lines.extend(listed.iter().map(|(_, (name, time))| format!("{:>9}  {name}", duration(time.as_secs()))));
        let rest = plays.len() - listed.len();
        if rest > 0 && !listed.is_empty() {
            lines.push(format!("           and {rest} shorter"));
        }
    }
    lines.push(String::new());
    lines
}

impl Output for Durations {
    fn event(&mut self, event: &Masked) {
        match &**event {
            Event::PlaybookStart { .. } => {
                self.plays.clear();
                self.start = Instant::now();
            }
            Event::PlayStart { name, batch: 0, .. } => {
                self.stop();
                let name = name.trim();
                self.plays.push((if name.is_empty() { "(no name)" } else { name }.to_owned(), Duration::ZERO));
            }
            Event::Recap(_) => self.show(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_plays_listed_in_their_order() {
        let play = |name: &str, seconds: u64| (name.to_owned(), Duration::from_secs(seconds));
        let plays = [play("first", 5), play("quick", 0), play("second", 62)];
        let lines = summary(Duration::from_secs(67), &plays);
        assert_eq!(lines, ["DURATION: 1m7s", "       5s  first", "     1m2s  second", "           and 1 shorter", ""]);
        assert_eq!(summary(Duration::from_secs(2), &plays[..1]), ["DURATION: 2s", ""]);
        let many: Vec<_> = (0..30).map(|number| play(&number.to_string(), 10 + number)).collect();
        let lines = summary(Duration::from_secs(900), &many);
        assert_eq!((lines.len(), lines[1].as_str()), (23, "      20s  10"));
    }
}
