//! The callbacks profile_tasks and profile_roles: report the time of each task or role.

use std::time::{Duration, Instant};

use indexmap::IndexMap;

use super::callbacks::Setup;
use super::event::path_of;
use super::masked::Masked;
use super::printer::Printer;
use super::{Event, Output};
use crate::error::{Error, Result};
use crate::settings::Color;

/// Measures the time since the start, and since the last line.
struct Clock {
    printer: Printer,
    start: Instant,
    last: Instant,
}

impl Clock {
    fn new(printer: &Printer) -> Clock {
        Clock { printer: printer.clone(), start: Instant::now(), last: Instant::now() }
    }

    /// Prints the time of day, the time since the last such line, and the time since the start.
    fn show(&mut self) {
        let now = jiff::Zoned::now().strftime("%A %d %B %Y  %H:%M:%S %z").to_string();
        let text = format!("{now} ({})       {}", clock_time(self.last.elapsed()), clock_time(self.start.elapsed()));
        self.last = Instant::now();
        self.printer.line(&filled(&text, '*'), Color::Plain);
    }
}

fn clock_time(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}.{:03}", seconds / 3600, seconds / 60 % 60, seconds % 60, time.subsec_millis())
}

/// Pads a text to 79 columns, and appends a blank.
fn filled(text: &str, with: char) -> String {
    let text = if text.is_empty() { String::new() } else { format!("{text} ") };
    let width = 79usize.saturating_sub(text.chars().count()).max(3);
    format!("{text}{} ", with.to_string().repeat(width))
}

/// A line with a name on the left and its time on the right.
fn entry(name: &str, time: Duration) -> String {
    let name = format!("{name} ");
    let time = format!(" {:.2}s", time.as_secs_f64());
    format!("{name:-<70}{time:->9}")
}

/// Times per task.
pub(super) struct ProfileTasks {
    clock: Clock,
    summary_only: bool,
    limit: Option<usize>,
    order: Order,
    with_paths: bool,
    tasks: IndexMap<u64, Spent>,
    running: Option<(u64, Instant)>,
}

enum Order {
    Descending,
    Ascending,
    AsTheyCame,
}

struct Spent {
    name: String,
    path: Option<String>,
    time: Duration,
}

impl ProfileTasks {
    pub(super) fn new(setup: &Setup<'_>) -> Result<ProfileTasks> {
        let limit = setup.text("output_limit").unwrap_or_default();
        Ok(ProfileTasks {
            clock: Clock::new(&setup.printer),
            summary_only: setup.flag("summary_only"),
            limit: if limit == "all" { None } else { Some(setup.number("output_limit")?.max(0) as usize) },
            order: match setup.text("sort_order").as_deref() {
                Some("descending") => Order::Descending,
                Some("ascending") => Order::Ascending,
                Some("none") => Order::AsTheyCame,
                other => {
                    let other = other.unwrap_or_default();
                    return Err(Error::usage(format!(
                        "sort_order of profile_tasks must be descending, ascending or none, not '{other}'"
                    )));
                }
            },
            with_paths: setup.settings.verbosity >= 2,
            tasks: IndexMap::new(),
            running: None,
        })
    }

    fn stop(&mut self) {
        if let Some((id, since)) = self.running.take()
            && let Some(spent) = self.tasks.get_mut(&id)
        {
            spent.time += since.elapsed();
        }
    }
}

impl Output for ProfileTasks {
    fn event(&mut self, event: &Masked) {
        match &**event {
            Event::TaskStart { task, name, .. } => {
                if !self.summary_only {
                    self.clock.show();
                }
                self.stop();
                let path = if self.with_paths { path_of(task) } else { None };
                self.tasks.entry(task.id).or_insert_with(|| Spent { name: name.clone(), path, time: Duration::ZERO });
                self.running = Some((task.id, Instant::now()));
            }
            Event::Recap(_) => {
                self.clock.printer.banner("TASKS RECAP");
                self.clock.show();
                self.clock.printer.line(&filled("", '='), Color::Plain);
                self.stop();
                let mut tasks: Vec<&Spent> = self.tasks.values().collect();
                match self.order {
                    Order::Descending => tasks.sort_by_key(|spent| std::cmp::Reverse(spent.time)),
                    Order::Ascending => tasks.sort_by_key(|spent| spent.time),
                    Order::AsTheyCame => {}
                }
                for spent in tasks.into_iter().take(self.limit.unwrap_or(usize::MAX)) {
                    self.clock.printer.line(&entry(&spent.name, spent.time), Color::Plain);
                    if let Some(path) = &spent.path {
                        let path = format!("{path} ");
                        self.clock.printer.line(&format!("{path:-<79}"), Color::Plain);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Times per role; a task without a role counts under its action.
pub(super) struct ProfileRoles {
    clock: Clock,
    summary_only: bool,
    times: IndexMap<String, Duration>,
    running: Option<(String, Instant)>,
}

impl ProfileRoles {
    pub(super) fn new(setup: &Setup<'_>) -> ProfileRoles {
        ProfileRoles {
            clock: Clock::new(&setup.printer),
            summary_only: setup.flag("summary_only"),
            times: IndexMap::new(),
            running: None,
        }
    }

    fn stop(&mut self) {
        if let Some((name, since)) = self.running.take() {
            *self.times.entry(name).or_default() += since.elapsed();
        }
    }
}

impl Output for ProfileRoles {
    fn event(&mut self, event: &Masked) {
        match &**event {
            Event::TaskStart { task, .. } => {
                if !self.summary_only {
                    self.clock.show();
                }
                self.stop();
                let name = task.frame.role().map_or_else(|| task.action.clone(), |role| role.name.clone());
                self.running = Some((name, Instant::now()));
            }
            Event::Recap(_) => {
                self.clock.printer.banner("ROLES RECAP");
                self.clock.show();
                self.clock.printer.line(&filled("", '='), Color::Plain);
                self.stop();
                let mut times: Vec<_> = self.times.iter().collect();
                times.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
                for (name, time) in times {
                    self.clock.printer.line(&entry(name, *time), Color::Plain);
                }
                self.clock.printer.line(&filled("", '~'), Color::Plain);
                self.clock.printer.line(&entry("total", self.times.values().sum()), Color::Plain);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_aligned_at_line_end() {
        assert_eq!(entry("cmd", Duration::from_millis(4240)), format!("cmd {} 4.24s", "-".repeat(69)));
        assert_eq!(clock_time(Duration::from_millis(3_723_050)), "1:02:03.050");
    }
}
