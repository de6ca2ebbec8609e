//! Limits the controller's memory for what tasks leave behind, because hosts choose the size of their answers.
//!
//! While there is room, results stay in memory. After that, large values of registered results go to disk.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use windlass_template::Variable;

use super::{
    Effect, HostFacts, IncludedVars, InventoryChange, Size, SpillFile, StatsUpdate, TaskResult, VALUE, size,
    size_of_json,
};

/// Limit on the data that tasks of one host leave behind, in bytes of memory: registered results, facts (also cached
/// ones), variables of `set_fact` and `include_vars`, hosts of `add_host` and statistics of `set_stats`.
const HOST: usize = 512 << 20;
/// The same limit for all hosts of a run.
const RUN: usize = 4 << 30;
/// Size of one host's results in memory, in bytes, beyond which large values go to disk.
const HOST_CROWDED: usize = 32 << 20;
/// The same limit for all hosts of a run together.
const RUN_CROWDED: usize = 256 << 20;
/// Minimum size of a large value, in bytes.
const LARGE: usize = 64 << 10;
/// Part of the run's limit on disk that one host may take.
const HOST_ON_DISK: usize = 4;

/// Sizes of what the tasks of a run leave behind.
#[derive(Debug)]
pub struct Kept {
    total: Mutex<Size>,
    /// Limit for all hosts of a run on disk, in bytes.
    on_disk: usize,
    directory: Result<PathBuf, String>,
    file: OnceLock<Result<Arc<SpillFile>, String>>,
    /// Files that `include_vars` has read. All hosts share their variables.
    included: Mutex<HashSet<Vec<PathBuf>>>,
}

impl Kept {
    /// Limits `on_disk` bytes to the disk of a directory, or explains why there is none.
    pub fn new(on_disk: u64, directory: Result<PathBuf, String>) -> Kept {
        let on_disk = usize::try_from(on_disk).unwrap_or(usize::MAX);
        Kept { total: Mutex::default(), on_disk, directory, file: OnceLock::new(), included: Mutex::default() }
    }

    fn total(&self) -> Size {
        *self.total.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the counted size of a registered result, a fact, a variable, a host or a statistic.
    pub(crate) fn replace(&self, old: Size, new: Size) {
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        *total = *total + new - old;
    }

    /// Counts files of variables, unless another host has read them before.
    pub(crate) fn include(&self, read: &IncludedVars) {
        let mut included = self.included.lock().unwrap_or_else(PoisonError::into_inner);
        if included.insert(read.files.clone()) {
            self.replace(Size::default(), Size::in_memory(read.size));
        }
    }

    /// Counts a result that is not stored yet, until the returned value is dropped. Its large values go to disk if
    /// memory is scarce and tasks will read it (`is_registered`).
    ///
    /// `of_host` is the present total of its host. Explains why the result exceeds the share of its host or of the run.
    pub(crate) fn admit(
        self: &Arc<Self>,
        result: &mut TaskResult,
        is_registered: bool,
        host: &str,
        of_host: Size,
    ) -> Result<Counted, String> {
        let mut needed = size_of_result(result, is_registered);
        let mut obstacle = None;
        // Effects count only once they are stored, because each item of a loop may replace the values that the item
        // before it has set.
        let set: Size = result.effects().iter().map(size_of_effect).sum();
        let totals = |needed: Size| (of_host + set + needed, self.total() + set + needed);
        let (host_total, run_total) = totals(needed);
        let is_crowded = host_total.memory > HOST_CROWDED || run_total.memory > RUN_CROWDED;
        if is_crowded && is_registered && result.is_known() {
            match self.spill(result, of_host) {
                Ok(()) => needed = size_of_result(result, is_registered),
                Err(why) => obstacle = Some(why),
            }
        }
        let (host_total, run_total) = totals(needed);
        match self.refusal(host, host_total, run_total, obstacle) {
            Some(refusal) => Err(refusal),
            None => {
                self.replace(Size::default(), needed);
                Ok(Counted { kept: Arc::clone(self), size: needed })
            }
        }
    }

    fn spill(&self, result: &mut TaskResult, of_host: Size) -> Result<(), String> {
        let (host, run) = (of_host.disk, self.total().disk);
        let most = self.on_disk / HOST_ON_DISK;
        // Encrypted values on disk are not larger than those in memory.
        let needed = size_of_result(result, true).memory;
        if host.saturating_add(needed) > most || run.saturating_add(needed) > self.on_disk {
            let limits = format!("{} MiB for a host and {} MiB for a run", most >> 20, self.on_disk >> 20);
            return Err(format!("`results_on_disk` allows {limits}"));
        }
        let create = || {
            let directory = self.directory.as_ref().map_err(String::clone)?;
            let fail = |error| format!("{}: {error}", directory.display());
            SpillFile::create(directory).map(Arc::new).map_err(fail)
        };
        let file = self.file.get_or_init(create).as_ref().map_err(String::clone)?;
        result.spill(file, LARGE).map_err(|error| error.to_string())
    }

    fn refusal(&self, host: &str, of_host: Size, of_run: Size, obstacle: Option<String>) -> Option<String> {
        let (whose, needed, limit) = match (of_host.memory > HOST, of_run.memory > RUN) {
            (true, _) => (host, of_host.memory, HOST),
            (_, true) => ("all hosts", of_run.memory, RUN),
            (false, false) => return None,
        };
        let disk = obstacle.map(|why| format!(" Nothing could be moved to disk: {why}.")).unwrap_or_default();
        Some(format!(
            "The task ran, but its result was dropped: what tasks registered and set for {whose} would take {} MiB of \
             memory, and the limit is {} MiB.{disk} Write large output to a file on the host, and register or set less \
             of it.",
            needed >> 20,
            limit >> 20
        ))
    }
}

/// Size of a result that is not stored yet. Dropping it takes the size from the total.
#[derive(Debug)]
pub(crate) struct Counted {
    kept: Arc<Kept>,
    size: Size,
}

impl Counted {
    /// Sum of both sizes.
    pub(crate) fn and(mut self, other: Option<Counted>) -> Counted {
        if let Some(mut other) = other {
            self.size = self.size + std::mem::take(&mut other.size);
        }
        self
    }

    /// The size itself.
    pub(crate) fn size(&self) -> Size {
        self.size
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.kept.replace(self.size, Size::default());
    }
}

/// Frees large values of a result that has been reported.
pub(crate) fn shed(result: &mut TaskResult) {
    result.shed(LARGE);
}

/// The failure that replaces a result. It keeps whether the task changed something.
pub(crate) fn dropped(result: &TaskResult, refusal: String) -> TaskResult {
    let mut failure = TaskResult::failure(refusal).interrupted();
    failure.set("changed", result.changed());
    failure
}

/// Estimated size of a result: of its facts, and if it `is_registered`, of all its values.
fn size_of_result(result: &TaskResult, is_registered: bool) -> Size {
    let facts = result.effects().iter().map(|effect| match effect {
        Effect::Facts(facts) => size_of_facts(facts),
        _ => Size::default(),
    });
    let values = if is_registered { result.registered_size() } else { Size::in_memory(VALUE) };
    values + facts.sum()
}

/// Estimated size of what an effect leaves behind, apart from facts: variables that `set_fact` sets or `include_vars`
/// reads, a host of `add_host`, statistics of `set_stats`.
pub(crate) fn size_of_effect(effect: &Effect) -> Size {
    let memory = match effect {
        Effect::SetFacts(set) => {
            return set.vars.iter().map(|(name, value)| Size::in_memory(name.len()) + size(value)).sum();
        }
        Effect::IncludedVars(read) => read.size,
        Effect::Inventory(change) => return size_of_change(change),
        Effect::Stats(StatsUpdate { data, .. }) => {
            data.iter().map(|(name, value)| name.len() + size_of_json(value)).sum()
        }
        _ => 0,
    };
    Size::in_memory(memory)
}

/// Estimated size of a host that `add_host` adds.
pub(crate) fn size_of_change(change: &InventoryChange) -> Size {
    let InventoryChange::Host(host) = change else { return Size::default() };
    Size::in_memory(host.vars.values().map(|value| size_of_json(&value.to_json())).sum())
}

/// Estimated size of a variable.
pub(crate) fn size_of_variable(variable: &Variable) -> Size {
    match variable {
        Variable::Text(node) => Size::in_memory(size_of_json(&node.to_json())),
        Variable::Data(value) => size(value),
    }
}

/// Estimated size of a host's facts.
pub(crate) fn size_of_facts(facts: &HostFacts) -> Size {
    facts.iter().map(|(name, value)| Size::in_memory(name.len()) + size(value)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn kept(on_disk: u64) -> (tempfile::TempDir, Arc<Kept>) {
        let directory = tempfile::tempdir().unwrap();
        let kept = Arc::new(Kept::new(on_disk, Ok(directory.path().to_owned())));
        (directory, kept)
    }

    fn large() -> TaskResult {
        TaskResult::unchanged().with("stdout", "x".repeat(1 << 20))
    }

    #[test]
    fn dropped_result_keeps_whether_it_changed_something() {
        let mut result = TaskResult::default();
        result.set("changed", true);
        let dropped = dropped(&result, "too large".to_owned());
        assert!(dropped.failed() && dropped.changed());
    }

    #[test]
    fn results_go_to_disk_when_memory_is_scarce() {
        let (_directory, kept) = kept(GIB);
        let admitted = |of_host: usize| kept.admit(&mut large(), true, "h", Size::in_memory(of_host)).unwrap().size();
        assert_eq!(admitted(0).disk, 0);
        assert!(admitted(HOST_CROWDED).disk > 1 << 20);
        assert_eq!(kept.total(), Size::default(), "dropped sizes count no more");
        kept.replace(Size::default(), Size::in_memory(RUN_CROWDED));
        assert!(admitted(0).disk > 1 << 20);
        let one = || kept.admit(&mut large(), true, "h", Size::default()).unwrap();
        drop(one().and(Some(one())));
        assert_eq!(kept.total(), Size::in_memory(RUN_CROWDED));
    }

    #[test]
    fn result_on_disk_still_has_its_values_when_reported() {
        let (_directory, kept) = kept(GIB);
        let mut result = large();
        let _counted = kept.admit(&mut result, true, "h", Size::in_memory(HOST_CROWDED)).unwrap();
        assert_eq!(result.text("stdout").map(str::len), Some(1 << 20));
        shed(&mut result);
        assert_eq!(result.text("stdout"), None);
        let stored = result.to_value().get_attr("stdout").unwrap();
        assert_eq!(stored.as_str().map(str::len), Some(1 << 20));
    }

    #[test]
    fn result_beyond_the_share_of_its_host_or_of_the_run_is_refused() {
        let (_directory, kept) = kept(0);
        let refusal = |of_host: usize| kept.admit(&mut large(), true, "h", Size::in_memory(of_host)).err();
        assert_eq!(refusal(0), None);
        let refused = refusal(HOST).unwrap();
        assert!(refused.contains("what tasks registered and set for h would take 513 MiB"), "{refused}");
        assert!(refused.contains("`results_on_disk` allows 0 MiB for a host"), "{refused}");
        kept.replace(Size::default(), Size::in_memory(RUN));
        assert!(refusal(0).unwrap().contains("for all hosts would take 4097 MiB"));
        kept.replace(Size::in_memory(RUN), Size::default());
        assert_eq!(refusal(0), None);
    }

    #[test]
    fn files_of_variables_count_for_each_host_and_once_for_the_run() {
        let (_directory, kept) = kept(0);
        let read = |size| IncludedVars { files: vec!["x.yml".into()], name: None, merge: false, size };
        let mut result = TaskResult::unchanged().with_effect(Effect::IncludedVars(read(HOST)));
        let refused = kept.admit(&mut result, false, "h", Size::default()).unwrap_err();
        assert!(refused.contains("what tasks registered and set for h would take 512 MiB"), "{refused}");
        kept.include(&read(1000));
        kept.include(&read(1000));
        assert_eq!(kept.total(), Size::in_memory(1000));
    }

    #[test]
    fn missing_directory_is_named() {
        let kept = Arc::new(Kept::new(GIB, Err("there is no state directory".to_owned())));
        let refused = kept.admit(&mut large(), true, "h", Size::in_memory(HOST)).unwrap_err();
        assert!(refused.contains("Nothing could be moved to disk: there is no state directory."), "{refused}");
    }
}
