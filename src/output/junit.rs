//! The junit callback: writes a JUnit file with all tasks on all hosts.

use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use indexmap::IndexMap;

use super::callbacks::Setup;
use super::event::path_of;
use super::junit_xml::{Outcome, TestCase, xml};
use super::masked::Masked;
use super::printer::written;
use super::shown::Format;
use super::{Event, Output, Status};
use crate::error::{Error, Result};

/// Collects results, and writes the file at the end of the playbook.
pub(super) struct Junit {
    format: Format,
    folder: PathBuf,
    by_file: bool,
    relative_to: Option<String>,
    out_of_tree: Option<String>,
    fail_on_change: bool,
    fail_on_ignore: bool,
    with_setup: bool,
    with_arguments: bool,
    no_log: bool,
    prefix: String,
    playbook: String,
    play: String,
    tasks: IndexMap<u64, Task>,
}

struct Task {
    name: String,
    path: String,
    is_setup: bool,
    start: Instant,
    cases: IndexMap<String, Case>,
}

/// Whether a task did what it should on a host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
}

struct Case {
    seconds: f64,
    outcome: Outcome,
}

impl Junit {
    pub(super) fn new(setup: &Setup<'_>) -> Result<Junit> {
        let folder = crate::settings::expand_home(&setup.text("output_dir").unwrap_or_default());
        std::fs::create_dir_all(&folder)
            .map_err(|error| Error::new(format!("JUNIT_OUTPUT_DIR {} cannot be created: {error}", folder.display())))?;
        Ok(Junit {
            format: Format::json(setup),
            folder,
            by_file: setup.flag("task_class"),
            relative_to: setup.text("task_relative_path").filter(|path| !path.is_empty()),
            out_of_tree: setup.text("replace_out_of_tree_path"),
            fail_on_change: setup.flag("fail_on_change"),
            fail_on_ignore: setup.flag("fail_on_ignore"),
            with_setup: setup.flag("include_setup_tasks_in_report"),
            with_arguments: !setup.flag("hide_task_arguments"),
            no_log: setup.settings.no_log,
            prefix: setup.text("test_case_prefix").unwrap_or_default(),
            playbook: String::new(),
            play: String::new(),
            tasks: IndexMap::new(),
        })
    }

    fn start(&mut self, event: &Masked, task: &crate::playbook::Task, name: &str) {
        let arguments = if self.with_arguments && !task.may_be_hidden(self.no_log) {
            event.arguments_of(task)
        } else {
            String::new()
        };
        let name = if arguments.is_empty() { name.to_owned() } else { format!("{name} {arguments}") };
        let is_setup = task.gathers_facts();
        let path = path_of(task).unwrap_or_default();
        let name = format!("{}: {name}", self.play);
        let new = Task { name, path, is_setup, start: Instant::now(), cases: IndexMap::new() };
        self.tasks.entry(task.id).or_insert(new);
    }

    /// Ends the test case of a host. As in Ansible, words in the task's name can reverse the verdict. `outcome` makes
    /// the outcome from the final verdict.
    fn finish(&mut self, id: u64, host: &str, verdict: Verdict, outcome: impl FnOnce(Verdict) -> Outcome) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let verdict = match verdict {
            Verdict::Failed if task.name.contains("EXPECTED FAILURE") => Verdict::Passed,
            Verdict::Failed if task.name.contains("TOGGLE RESULT") => Verdict::Passed,
            Verdict::Passed if task.name.contains("TOGGLE RESULT") => Verdict::Failed,
            verdict => verdict,
        };
        let own_name = task.name.split_once(": ").map_or(task.name.as_str(), |(_, name)| name);
        if own_name.starts_with(&self.prefix) || verdict == Verdict::Failed {
            let case = Case { seconds: task.start.elapsed().as_secs_f64(), outcome: outcome(verdict) };
            task.cases.insert(host.to_owned(), case);
        }
    }

    /// Class name of a task: its position, shortened according to the options.
    fn class_of(&self, task: &Task) -> String {
        let mut class = task.path.clone();
        if let Some(base) = &self.relative_to {
            class = relative(&class, base);
        }
        if let (Some(folder), true) = (&self.out_of_tree, class.starts_with("../")) {
            class = format!("{folder}{}", class.rsplit('/').next().unwrap_or(&class));
        }
        if self.by_file
            && let Some((file, line)) = class.rsplit_once(':')
            && file.ends_with(".yml")
            && line.bytes().all(|byte| byte.is_ascii_digit())
        {
            class = file.trim_end_matches(".yml").to_owned();
        }
        class
    }

    fn xml(&self) -> String {
        let shown = self.tasks.values().filter(|task| self.with_setup || !task.is_setup);
        let cases = shown.flat_map(|task| task.cases.iter().map(move |(host, case)| (task, host, case)));
        xml(
            &self.playbook,
            cases.map(|(task, host, case)| TestCase {
                class: self.class_of(task),
                name: format!("[{host}] {}", task.name),
                seconds: case.seconds,
                outcome: &case.outcome,
            }),
        )
    }
}

/// A path relative to a directory.
fn relative(path: &str, base: &str) -> String {
    let path = crate::paths::absolute(Path::new(path));
    let base = crate::paths::absolute(Path::new(base));
    let common = path.components().zip(base.components()).take_while(|(a, b)| a == b).count();
    let up = base.components().skip(common).map(|_| Path::new("..").as_os_str());
    let down = path.components().skip(common).map(|part| part.as_os_str());
    up.chain(down).collect::<PathBuf>().display().to_string()
}

impl Output for Junit {
    fn event(&mut self, event: &Masked) {
        match &**event {
            Event::PlaybookStart { path, .. } => {
                let stem = Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
                self.playbook = stem.unwrap_or_default();
            }
            Event::PlayStart { name, .. } => self.play.clone_from(name),
            Event::TaskStart { task, name, .. } => self.start(event, task, name),
            Event::Result(event) if event.item.is_none() => {
                let result = event.result.json();
                let dumped = self.format.dump(result, Some(0));
                let text = |key: &str| result.get(key).and_then(|value| value.as_str()).map(str::to_owned);
                if event.status == Status::Skipped {
                    let reason = text("skip_reason").unwrap_or_else(|| "skipped".to_owned());
                    return self.finish(event.task.id, &event.name, Verdict::Passed, |_| Outcome::Skipped(reason));
                }
                let failed = match event.status {
                    Status::Failed { ignored } => !ignored || self.fail_on_ignore,
                    Status::Unreachable { ignored } => !ignored || self.fail_on_ignore,
                    Status::Ok | Status::Skipped => self.fail_on_change && event.result.changed(),
                };
                let message = match event.report.as_deref().and_then(|report| report.split("\nOrigin: ").next()) {
                    Some(report) => report.to_owned(),
                    None => text("msg").unwrap_or_else(|| format!("rc={}", super::minimal::code(result))),
                };
                let verdict = if failed { Verdict::Failed } else { Verdict::Passed };
                self.finish(event.task.id, &event.name, verdict, |verdict| match verdict {
                    Verdict::Failed => Outcome::Failed { message, output: dumped },
                    Verdict::Passed => Outcome::Passed(dumped),
                });
            }
            Event::Included { task, what, hosts, .. } => {
                let output = format!("{what} (args={{}} vars={{}}): [{}]", hosts.join(", "));
                let dumped = self.format.dump(&event.included(task, what), Some(0));
                for host in hosts {
                    self.finish(task.id, host, Verdict::Passed, |_| Outcome::Passed(dumped.clone()));
                }
                self.finish(task.id, "include", Verdict::Passed, |_| Outcome::Passed(output));
            }
            Event::Recap(_) => {
                let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let path = self.folder.join(format!("{}-{:.6}.xml", self.playbook, time.as_secs_f64()));
                let outcome = crate::replace::write(&path, &self.xml());
                written(&path.display().to_string(), outcome);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_path_outside_of_directory_starts_with_parents() {
        assert_eq!(relative("/a/b/c.yml:3", "/a/b"), "c.yml:3");
        assert_eq!(relative("/a/x/c.yml:3", "/a/b"), "../x/c.yml:3");
    }
}
