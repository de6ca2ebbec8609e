//! Removes old journals.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use super::state::{RunFile, State};

/// Journals of ended runs beyond `count` of the same playbooks and inventory, or older than `age`, the oldest first; no
/// limit without them. Frequent runs of one project leave the journals of others alone.
pub fn expired(state: &State, count: Option<usize>, age: Option<Duration>) -> Vec<RunFile> {
    let runs = state.runs();
    let mut surplus: HashMap<String, usize> = HashMap::new();
    for run in &runs {
        *surplus.entry(run.project.clone()).or_default() += 1;
    }
    surplus.values_mut().for_each(|number| *number = number.saturating_sub(count.unwrap_or(usize::MAX)));
    let mut is_surplus = |run: &RunFile| {
        let left = surplus.get_mut(&run.project).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    };
    let is_old = |run: &RunFile| {
        let modified = std::fs::metadata(&run.path).and_then(|metadata| metadata.modified());
        age.is_some_and(|age| {
            modified.is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|passed| passed > age))
        })
    };
    runs.into_iter().filter(|run| is_surplus(run) || is_old(run)).filter(|run| !run.is_alive()).collect()
}

/// Removes journals like [`expired`]; 0 means no limit. Active runs keep theirs.
pub fn expire(state: &State, count: usize, days: u64) {
    let age = (days > 0).then(|| Duration::from_secs(days.saturating_mul(86_400)));
    for run in expired(state, (count > 0).then_some(count), age) {
        // Another run may have removed it at the same time.
        let _ = std::fs::remove_file(&run.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_journals_beyond_the_count_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(folder.path());
        std::fs::create_dir_all(state.runs_dir()).unwrap();
        for (second, project) in [(0, "q"), (1, "p"), (2, "p"), (3, "p"), (4, "p")] {
            std::fs::write(state.runs_dir().join(format!("20260101-00000{second}-abcdef.{project}.jsonl")), "")
                .unwrap();
        }
        expire(&state, 2, 90);
        let left: Vec<String> = state.runs().into_iter().map(|run| run.run).collect();
        assert_eq!(left, ["20260101-000000-abcdef", "20260101-000003-abcdef", "20260101-000004-abcdef"]);
    }

    #[test]
    fn journals_older_than_the_age_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(folder.path());
        std::fs::create_dir_all(state.runs_dir()).unwrap();
        for (second, days) in [(0, 1), (1, 3)] {
            let path = state.runs_dir().join(format!("20260101-00000{second}-abcdef.p.jsonl"));
            let time = SystemTime::now() - Duration::from_secs(days * 86_400);
            std::fs::File::create(path).unwrap().set_modified(time).unwrap();
        }
        expire(&state, 0, 0);
        assert_eq!(state.runs().len(), 2);
        expire(&state, 0, 2);
        let left: Vec<String> = state.runs().into_iter().map(|run| run.run).collect();
        assert_eq!(left, ["20260101-000000-abcdef"]);
    }
}
