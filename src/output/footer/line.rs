//! The footer's text, fitted to the width of the terminal.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::output::printable::printable;
use crate::settings::Color;

/// Blanks between parts.
const GAP: &str = "  ";
/// Mark of shortened text.
const MORE: &str = "...";
/// Columns that a shortened name of a task keeps.
const NAME: usize = 12;
/// Columns that a shortened name of a host keeps.
const HOST: usize = 16;

/// Parts of the footer. Those that are empty are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) play: String,
    /// Name of the task, which a host or the project has chosen.
    pub(super) task: String,
    pub(super) done: String,
    pub(super) running: String,
    pub(super) failed: String,
    pub(super) elapsed: String,
    pub(super) remaining: String,
    pub(super) waiting: Option<Waiting>,
    /// Key that shows the help. Stands at the right if the rest of the line leaves room.
    pub(super) help: String,
}

/// The host that has worked longest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) host: String,
    pub(super) time: String,
    pub(super) action: String,
}

/// Text in order, with its colours.
type Line = Vec<(String, Color)>;

impl Parts {
    /// The text in at most `width` cells: less important parts are left out, then names are shortened.
    pub(super) fn fitted(mut self, width: usize, paint: impl Fn(&str, Color) -> String) -> String {
        self.task = one_line(&self.task);
        if let Some(waiting) = &mut self.waiting {
            waiting.host = one_line(&waiting.host);
            waiting.action = one_line(&waiting.action);
        }
        let shown = (0..=6).find_map(|level| self.reduced(level).within(width));
        let line = shown.unwrap_or_else(|| {
            let all: String = self.reduced(6).line("").into_iter().map(|(text, _)| text).collect();
            vec![(cut(&all, width), Color::Plain)]
        });
        let text: String = line.iter().map(|(text, color)| paint(text, *color)).collect();
        let room = width.saturating_sub(cells_of(&line));
        match room.checked_sub(GAP.len() + self.help.width()) {
            Some(_) if !self.help.is_empty() => format!("{text}{:>room$}", self.help),
            _ => text,
        }
    }

    /// The parts that remain at a level of scarcity.
    fn reduced(&self, level: usize) -> Parts {
        let mut parts = self.clone();
        let scarce = [
            |parts: &mut Parts| parts.waiting.iter_mut().for_each(|waiting| waiting.action.clear()),
            |parts: &mut Parts| parts.elapsed.clear(),
            |parts: &mut Parts| parts.remaining.clear(),
            |parts: &mut Parts| parts.play.clear(),
            |parts: &mut Parts| parts.done.clear(),
            |parts: &mut Parts| {
                parts.task.clear();
                parts.waiting.iter_mut().for_each(|waiting| waiting.host = cut(&waiting.host, HOST));
            },
        ];
        scarce.iter().take(level).for_each(|reduce| reduce(&mut parts));
        parts
    }

    /// The line, if it fits with a task's name of at least [`NAME`] cells.
    fn within(&self, width: usize) -> Option<Line> {
        let others =
            cells_of(&self.line(if self.task.is_empty() { "" } else { "-" })) - usize::from(!self.task.is_empty());
        let room = width.checked_sub(others)?;
        let name = self.task.width();
        (name <= room || room >= NAME).then(|| self.line(&cut(&self.task, room)))
    }

    fn line(&self, task: &str) -> Line {
        let mut line = Line::new();
        let mut add = |text: &str, color: Color, gap: &str| {
            if !text.is_empty() {
                if !line.is_empty() {
                    line.push((gap.to_owned(), Color::Plain));
                }
                line.push((text.to_owned(), color));
            }
        };
        add(&self.play, Color::Plain, GAP);
        add(task, Color::Plain, GAP);
        let mut gap = GAP;
        for (count, color) in [(&self.done, Color::Plain), (&self.running, Color::Plain), (&self.failed, Color::Error)]
        {
            add(count, color, gap);
            gap = if count.is_empty() { gap } else { ", " };
        }
        add(&self.elapsed, Color::Plain, GAP);
        add(&self.remaining, Color::Plain, GAP);
        if let Some(Waiting { host, time, action }) = &self.waiting {
            let action = if action.is_empty() { String::new() } else { format!(" ({action})") };
            let words = if self.elapsed.is_empty() { "" } else { "waiting for: " };
            add(&format!("{words}{host} {time}{action}"), Color::Plain, GAP);
        }
        line
    }
}

fn cells_of(line: &Line) -> usize {
    line.iter().map(|(text, _)| text.width()).sum()
}

/// Harmless text without line ends and tabs, whose width is known.
fn one_line(text: &str) -> String {
    printable(text.trim()).replace(['\n', '\r', '\t'], " ")
}

/// Text in at most `width` cells. Shortened text ends with a mark.
fn cut(text: &str, width: usize) -> String {
    // Characters count one by one: terminals differ in how they join them, and none needs more cells.
    let cells = |c: char| c.width().unwrap_or(0);
    if text.chars().map(cells).sum::<usize>() <= width {
        return text.to_owned();
    }
    let mark = MORE.get(..MORE.len().min(width)).unwrap_or_default();
    let mut left = width - mark.len();
    let mut kept = String::new();
    for c in text.chars() {
        let Some(rest) = left.checked_sub(cells(c)) else { break };
        left = rest;
        kept.push(c);
    }
    kept + mark
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Parts {
        Parts {
            play: "play 3/8".to_owned(),
            task: "Install the packages".to_owned(),
            done: "12 done".to_owned(),
            running: "2 running".to_owned(),
            failed: "1 failed".to_owned(),
            elapsed: "elapsed 1m12s".to_owned(),
            remaining: "ETA 3m".to_owned(),
            waiting: Some(Waiting { host: "node7".to_owned(), time: "1m12s".to_owned(), action: "apt".to_owned() }),
            help: String::new(),
        }
    }

    fn fitted(parts: Parts, width: usize) -> String {
        parts.fitted(width, |text, _| text.to_owned())
    }

    #[test]
    fn wide_terminal_shows_every_part() {
        let expected = "play 3/8  Install the packages  12 done, 2 running, 1 failed  elapsed 1m12s  ETA 3m  \
                        waiting for: node7 1m12s (apt)";
        assert_eq!(fitted(parts(), 200), expected);
        assert_eq!(fitted(Parts { play: "play 1/1".to_owned(), ..Parts::default() }, 200), "play 1/1");
    }

    #[test]
    fn help_shown_at_the_right_where_there_is_room() {
        let parts = || Parts { play: "play 1/1".to_owned(), help: "? keys".to_owned(), ..Parts::default() };
        assert_eq!(fitted(parts(), 20), "play 1/1      ? keys");
        assert_eq!(fitted(parts(), 16), "play 1/1  ? keys");
        assert_eq!(fitted(parts(), 15), "play 1/1");
    }

    #[test]
    fn narrow_terminal_keeps_counts_and_waited_host() {
        let expected = [
            (79, "play 3/8  Install the pac...  12 done, 2 running, 1 failed  ETA 3m  node7 1m12s"),
            (60, "Install the pa...  12 done, 2 running, 1 failed  node7 1m12s"),
            (39, "2 running, 1 failed  node7 1m12s"),
            (20, "2 running, 1 fail..."),
            (2, ".."),
            (0, ""),
        ];
        for (width, text) in expected {
            assert_eq!(fitted(parts(), width), text, "{width}");
        }
    }

    #[test]
    fn no_width_is_exceeded() {
        let wide = Parts { task: "日本語の名前 👩‍👩‍👧 e\u{301}\u{200b} end".to_owned(), ..parts() };
        for width in 0..150 {
            for parts in [wide.clone(), parts()] {
                let text = fitted(parts, width);
                assert!(text.width() <= width, "{width}: {text}");
            }
        }
    }

    #[test]
    fn text_of_hosts_cannot_control_the_terminal() {
        let hostile = Parts { task: "a\nb\tc\u{1b}[2J\u{9b}d\u{202e}".to_owned(), ..Parts::default() };
        assert_eq!(fitted(hostile, 100), "a b c\\u{1b}[2J\\u{9b}d\\u{202e}");
    }

    #[test]
    fn only_failures_have_a_colour() {
        let text = parts().fitted(200, |text, color| match color {
            Color::Error => format!("<{text}>"),
            _ => text.to_owned(),
        });
        assert!(text.contains("2 running, <1 failed>  elapsed"), "{text}");
    }
}
