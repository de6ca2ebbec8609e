//! Reads the times of an earlier run, from which the remaining time of a similar one is estimated.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde::Deserialize;

use super::inputs::Inputs;
use super::reader::read_header;
use super::record::{At, Header};
use super::state::{State, project};
use crate::output::Forecast;

/// Maximum length of a line and of a journal that is read, in bytes.
const LINE: u64 = 8 << 20;
const FILE: u64 = 256 << 20;
/// Maximum number of journals to look at.
const RUNS: usize = 20;

/// The choice of an earlier run: equal playbooks, inventory, hosts and tasks.
#[derive(Debug, Clone)]
pub struct Alike {
    project: String,
    check: bool,
    limit: Option<String>,
    tags: Vec<String>,
    skip_tags: Vec<String>,
}

/// The parts of a record that are needed here. All others are passed over.
#[derive(Deserialize)]
struct Timed<'l> {
    t: &'l str,
    start: Option<u64>,
    took: Option<u64>,
    code: Option<u8>,
}

/// The position in a record of a task.
#[derive(Deserialize)]
struct Placed {
    at: At,
}

impl Alike {
    /// Runs with the same inputs, except for the contents of files and for variables.
    pub fn to(inputs: &Inputs<'_>) -> Alike {
        let settings = inputs.settings;
        Alike {
            project: project(&inputs.playbook_names(), &inputs.sources()),
            check: settings.check,
            limit: settings.inventory.limit.clone(),
            tags: settings.tags.clone(),
            skip_tags: settings.skip_tags.clone(),
        }
    }

    fn includes(&self, header: &Header) -> bool {
        header.check == self.check
            && header.limit == self.limit
            && header.tags == self.tags
            && header.skip_tags == self.skip_tags
            && header.resumes.is_none()
    }

    /// Times of the newest such run that succeeded. `None` if there is none, or if its journal is damaged.
    pub fn forecast(&self, state: &State) -> Option<Forecast> {
        let runs = state.runs().into_iter().rev().filter(|run| run.project == self.project);
        let alike = |path: &Path| read_header(path).is_some_and(|header| self.includes(&header));
        runs.take(RUNS).filter(|run| alike(&run.path)).find_map(|run| read(&run.path))
    }
}

/// Reads the times of a run that succeeded.
fn read(path: &Path) -> Option<Forecast> {
    let file = File::open(path).ok()?;
    if file.metadata().ok()?.len() > FILE {
        return None;
    }
    let mut file = BufReader::new(file.take(FILE));
    let mut line = Vec::new();
    // The first start of each place: hosts and items share it.
    let mut starts: BTreeMap<(u32, u32, String, String), u64> = BTreeMap::new();
    let (mut first, mut last, mut code) = (u64::MAX, 0, None);
    loop {
        line.clear();
        if (&mut file).take(LINE).read_until(b'\n', &mut line).ok()? == 0 {
            break;
        }
        match serde_json::from_slice(&line).ok()? {
            Timed { t: "item" | "done", start: Some(start), took, .. } => {
                let Placed { at } = serde_json::from_slice(&line).ok()?;
                first = first.min(start);
                last = last.max(start.saturating_add(took.unwrap_or_default()));
                let place = (at.play, at.batch, at.task.to_string(), at.path.to_string());
                let known = starts.entry(place).or_insert(start);
                *known = start.min(*known);
            }
            Timed { t: "end", code: read, .. } => code = read,
            _ => {}
        }
    }
    if code != Some(0) || last < first {
        return None;
    }
    let starts = starts.into_iter().map(|((play, batch, task, _), start)| ((play, batch, task), start - first));
    Some(Forecast::new(last - first, starts))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HEADER: &str = "{\"t\":\"run\",\"version\":1,\"run\":\"r\"}\n";

    fn done(task: &str, path: &str, host: &str, start: u64, took: u64) -> String {
        let at = format!("{{\"play\":0,\"batch\":0,\"path\":\"{path}\",\"task\":\"{task}\"}}");
        let rest = "\"action\":\"x\",\"status\":{},\"result\":{\"any\":[1]}";
        format!("{{\"t\":\"done\",\"at\":{at},\"host\":\"{host}\",{rest},\"start\":{start},\"took\":{took}}}\n")
    }

    fn written(text: &str) -> Option<Forecast> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    #[test]
    fn remaining_time_counts_from_the_first_host() {
        let tasks = [
            done("a", "0", "h1", 1000, 500),
            done("a", "0", "h2", 1200, 900),
            done("b", "1/0", "h1", 2100, 100),
            done("b", "1/1", "h1", 3000, 2000),
        ];
        let forecast = written(&format!("{HEADER}{}{{\"t\":\"end\",\"code\":0}}\n", tasks.concat())).unwrap();
        assert_eq!(forecast.total(), Duration::from_secs(4));
        let remaining =
            |task: &str, times| forecast.remaining(&(0, 0, task.to_owned()), times).map(|time| time.as_millis());
        assert_eq!([remaining("a", 0), remaining("b", 0), remaining("b", 1)], [Some(4000), Some(2900), Some(2000)]);
        assert_eq!([remaining("b", 9), remaining("c", 0)], [Some(2000), None]);
    }

    #[test]
    fn failed_unfinished_and_damaged_runs_say_nothing() {
        let task = done("a", "0", "h1", 1000, 500);
        let end = "{\"t\":\"end\",\"code\":0}\n";
        assert!(written(&format!("{HEADER}{task}{end}")).is_some());
        for text in [
            format!("{HEADER}{task}"),
            format!("{HEADER}{task}{{\"t\":\"end\",\"code\":2}}\n"),
            format!("{HEADER}{end}"),
            format!("{HEADER}garbage\n{task}{end}"),
            format!("{HEADER}{}{end}", done("a", "0", "h1", u64::MAX, u64::MAX)),
        ] {
            let forecast = written(&text);
            assert!(forecast.is_none_or(|forecast| forecast.total().is_zero()), "{text}");
        }
    }
}
