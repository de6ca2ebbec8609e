//! Options of the journal, and its start: pending handlers of earlier runs, and the run to resume.

use std::collections::HashMap;
use std::fs::File;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use windlass_inventory::limit_files;
use windlass_yaml::Mapping;

use super::session::Session;
use crate::error::{BUG, Error, Result};
use crate::journal::{
    Alike, InputKind, Inputs, Journal, Pending, PlayKey, Record, Recorder, Replay, Start, State, cannot_resume,
    differences, expire, family, former_limit_patterns, is_same, looks_like_run, resumed_although, resumed_by,
    unfinished,
};
use crate::output::Event;
use crate::playbook::Play;
use crate::settings::{FailureForm, PendingHandlers, Progress, Settings};
use crate::signals;
use crate::strategy::{Echo, Shared, ask};
use crate::vars::World;

/// Options of the journal.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Journal")]
pub(super) struct JournalOptions {
    /// Resume a failed or interrupted run by its id, which the run prints at its end and `windlass runs list` shows
    /// [default without an id: the newest such run of the playbook]
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    resume: Option<String>,
    /// Resume even if inputs have changed, or another run has resumed it
    #[arg(long)]
    resume_anyway: bool,
    /// Resume on another machine, whose environment may differ: in the next pod of a run
    #[arg(long, hide = true, requires = "resume")]
    resume_elsewhere: bool,
    /// Policy for handlers that earlier runs notified but never ran [default: ask]
    #[arg(long, value_name = "WHAT", value_enum)]
    pending_handlers: Option<PendingHandlers>,
    /// Keep no journal: the run cannot be resumed, and its pending handlers are lost
    #[arg(long, conflicts_with = "resume")]
    no_journal: bool,
}

impl JournalOptions {
    /// Applies the options to the settings. If the word after `--resume` is not a run's id, returns it as the first
    /// playbook.
    pub(super) fn apply(&mut self, settings: &mut Settings) -> Result<Option<PathBuf>> {
        settings.journal.enabled &= !self.no_journal;
        if let Some(pending) = self.pending_handlers {
            settings.journal.pending_handlers = pending;
        }
        if self.resume_anyway && self.resume.is_none() {
            return Err(Error::usage("--resume-anyway only changes how --resume works, and no run is resumed")
                .hint("add --resume, or leave --resume-anyway out"));
        }
        if self.resume.is_some() && settings.check {
            return Err(Error::usage("--resume cannot be used with --check: a dry run has nothing to resume"));
        }
        if self.resume.is_some() && !settings.journal.enabled {
            return Err(
                Error::usage("--resume needs the journal, which a setting disables").hint("set WINDLASS_JOURNAL=true")
            );
        }
        let is_other = |word: &String| !word.is_empty() && !looks_like_run(word);
        // A playbook has an extension, a folder, or the name of its collection.
        let is_nothing = |word: &&String| is_other(word) && !word.contains(['.', '/']) && !Path::new(word).exists();
        if let Some(word) = self.resume.as_ref().filter(is_nothing) {
            return Err(Error::usage(format!("`{word}` is neither the id of a run nor a playbook"))
                .hint("`windlass runs --all` lists all runs"));
        }
        let playbook = self.resume.take_if(|word| is_other(word)).map(PathBuf::from);
        if playbook.is_some() {
            self.resume = Some(String::new());
        }
        Ok(playbook)
    }

    /// Playbooks of the run to resume, for a command line without any.
    pub(super) fn playbooks(&self, settings: &Settings) -> Result<Vec<PathBuf>> {
        let wanted = self.wanted().ok_or_else(|| {
            Error::usage("--resume needs a playbook or the id of a run").hint("`windlass runs --all` lists all runs")
        })?;
        let runs = State::of(settings)?.runs();
        let run = runs.iter().find(|run| run.run == wanted);
        let run = run.ok_or_else(|| {
            Error::usage(format!("there is no journal of a run `{wanted}`"))
                .hint("`windlass runs --all` lists all runs")
        })?;
        Ok(run.own_outline()?.header.playbooks.into_iter().map(PathBuf::from).collect())
    }

    /// Patterns that the files of `--limit` had in the run to resume. A run that fails may replace such a file, by
    /// `retry_files_enabled`, and the run that resumes it goes through the same hosts all the same. `None` if no run is
    /// resumed, or its journal lacks them; a run that cannot be resumed is reported later.
    pub(super) fn limit_patterns(
        &self,
        playbooks: &[PathBuf],
        settings: &Settings,
        extra_vars: &Mapping,
    ) -> Option<Vec<String>> {
        self.resume.as_ref().filter(|_| !self.resume_anyway && settings.shards < 2)?;
        limit_files(settings.inventory.limit.as_ref()?).first()?;
        let inputs = Inputs { settings, playbooks: playbooks.to_vec(), plays: Vec::new(), extra_vars, inventory: None };
        let (_, journal) = unfinished(&State::of(settings).ok()?, &inputs, self.wanted()).ok()?;
        former_limit_patterns(&journal.header)
    }

    fn wanted(&self) -> Option<&str> {
        self.resume.as_deref().filter(|word| !word.is_empty())
    }
}

/// Inputs of a session's run, without its plays.
pub(super) fn inputs_of<'s>(playbooks: &[PathBuf], session: &'s Session) -> Inputs<'s> {
    let run = &session.shared.run;
    Inputs {
        settings: &run.settings,
        playbooks: playbooks.to_vec(),
        plays: Vec::new(),
        extra_vars: &run.extra_vars,
        inventory: Some(&session.world.inventory),
    }
}

/// Starts the journal of a run, and handles leftovers of earlier runs. `loaded` has the plays of each playbook.
pub(super) async fn begin(options: &JournalOptions, loaded: &[(&PathBuf, Vec<Play>)], session: &Session) -> Result<()> {
    let shared = &session.shared;
    let settings = &shared.run.settings;
    let playbooks: Vec<PathBuf> = loaded.iter().map(|(path, _)| (*path).clone()).collect();
    let plays: Vec<PlayKey> = loaded.iter().flat_map(|(_, plays)| plays).map(PlayKey::of).collect();
    let inputs = || Inputs { plays: plays.clone(), ..inputs_of(&playbooks, session) };
    if !settings.journal.enabled {
        // Without a state directory, nothing is pending.
        let pending = State::of(settings).map(|state| inputs().pending(&state)).unwrap_or_default();
        let pending = of_hosts(&session.world, pending);
        if !pending.is_empty() {
            shared.warn(format!("{}\nA run without a journal neither runs nor forgets them.", report(&pending)));
        }
        return Ok(());
    }
    let is_resumed = options.resume.is_some();
    let without = |error: Error| match is_resumed || settings.journal.required {
        true => Err(error),
        false => {
            let advice = error.advice().map(|advice| format!(" Hint: {advice}.")).unwrap_or_default();
            shared.warn(format!(
                "The run has no journal: {}. It cannot be resumed, and its pending handlers are not remembered.{advice}",
                error.message()
            ));
            Ok(())
        }
    };
    let state = match State::of(settings) {
        Ok(state) => state,
        Err(error) => return without(error),
    };
    let resumed = match is_resumed {
        true => Some(resumable(options, &state, &inputs(), shared)?),
        false => None,
    };
    let (resumed, claim) = resumed.unzip();
    let former = resumed.as_ref().map(|journal| family(&state, &journal.header.run)).unwrap_or_default();
    let events = shared.events.clone();
    let warn = Box::new(move |sentence| drop(events.send(Event::Warning(sentence))));
    let (files, secrets, anyway) = (&shared.files, &shared.secrets, options.resume_anyway);
    let start = Start { inputs: inputs(), files, secrets, resumed, anyway, warn };
    let (recorder, pending, damaged) = match Recorder::start(&state, start) {
        Ok(started) => started,
        Err(error) => return without(error),
    };
    // The new journal names the run that it resumes.
    drop(claim);
    damaged.into_iter().for_each(|sentence| shared.warn(sentence));
    expire(&state, settings.journal.runs, settings.journal.days);
    let (own, others): (Vec<_>, Vec<_>) =
        pending.into_iter().partition(|one| former.iter().any(|run| run.run == one.run));
    recorder.carry(&own);
    let others = of_hosts(&session.world, others);
    if !others.is_empty() {
        left(&others, &recorder, shared).await?;
    }
    let _ = shared.events.send(Event::Recorded { run: recorder.run().to_owned() });
    // Only a footer shows the remaining time, and an earlier journal may be large.
    if crate::output::has_footer() && !is_resumed {
        expect(Alike::to(&inputs()), state, shared);
    }
    let _ = shared.journal.set(recorder);
    Ok(())
}

/// Looks for the times of a similar earlier run in the background, and reports them for the estimate of the remaining
/// time.
fn expect(alike: Alike, state: State, shared: &Shared) {
    let events = shared.events.clone();
    tokio::task::spawn_blocking(move || {
        if let Some(forecast) = alike.forecast(&state) {
            let _ = events.send(Event::Forecast(Arc::new(forecast)));
        }
    });
}

/// Pending handlers on hosts that this run may reach. A host is the same if it has the same name and, where its
/// variables name one, the same address.
fn of_hosts(world: &Arc<World>, mut pending: Vec<Pending>) -> Vec<Pending> {
    if pending.is_empty() {
        return pending;
    }
    let found = world.inventory.matching("all").map(|found| found.hosts).unwrap_or_default();
    let names: HashMap<&str, &Arc<str>> = found.iter().map(|name| (&**name, name)).collect();
    pending.retain(|one| match names.get(&*one.host) {
        Some(name) => is_same(&one.address, &world.address_of(name)),
        None => one.host == "localhost",
    });
    pending
}

/// Reads the journal of the run to resume, and locks it. Fails if the run cannot be resumed.
fn resumable(options: &JournalOptions, state: &State, inputs: &Inputs<'_>, shared: &Shared) -> Result<(Journal, File)> {
    let (run, mut journal) = unfinished(state, inputs, options.wanted())?;
    let claim = run.claim()?;
    if let Some(resumed) = resumed_by(state, &run)? {
        if !options.resume_anyway {
            return Err(resumed.refusal());
        }
        shared.warn(resumed.warning());
    }
    if options.resume_elsewhere {
        let is_of_machine =
            |record: &Record| matches!(record, Record::File(file) if file.kind == InputKind::Environment);
        journal.records.retain(|record| !is_of_machine(record));
    }
    let mut found = differences(&journal, inputs);
    found.extend(Replay::new(&journal).unrepeatable());
    if found.is_empty() {
        return Ok((journal, claim));
    }
    if !options.resume_anyway {
        return Err(cannot_resume(&run.run, &found.join("; ")));
    }
    for difference in found {
        shared.warn(resumed_although(&run.run, &difference));
    }
    Ok((journal, claim))
}

/// Reports pending handlers of earlier runs, and applies the policy for them.
async fn left(pending: &[Pending], recorder: &Recorder, shared: &Shared) -> Result<()> {
    let settings = &shared.run.settings;
    let report = report(pending);
    let verbose = |text: String| drop(shared.events.send(Event::Verbose { level: 3, text }));
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    match settings.journal.pending_handlers {
        _ if settings.check => shared.warn(format!("{report}\nA dry run neither runs nor forgets them.")),
        PendingHandlers::Run => {
            verbose(report);
            recorder.carry(pending);
        }
        PendingHandlers::Skip => {
            verbose(format!("{report}\nThey are discarded."));
            recorder.dismiss(pending);
        }
        PendingHandlers::Ask if is_terminal => {
            let prompt = format!("{report}\nRun them with this run? (r)un, (s)kip and forget, (L)ater: ");
            match ask(&prompt, Echo::Shown, shared).await?.unwrap_or_default().trim().to_lowercase().as_str() {
                "r" | "run" | "y" | "yes" => recorder.carry(pending),
                "s" | "skip" => recorder.dismiss(pending),
                _ => {}
            }
        }
        PendingHandlers::Ask => {
            shared.warn(format!(
                "{report}\nRun them with --pending-handlers run, or forget them with --pending-handlers skip."
            ));
        }
    }
    Ok(())
}

fn report(pending: &[Pending]) -> String {
    let shown: Vec<String> = pending.iter().map(described).collect();
    format!("Handlers that earlier runs notified have not run:\n  {}", shown.join("\n  "))
}

fn described(pending: &Pending) -> String {
    let Pending { host, address, play, handler, task, origin, when, certain, .. } = pending;
    let address = if address.is_empty() || address == host { String::new() } else { format!(" ({address})") };
    let how = if *certain { "notified by" } else { "perhaps notified by" };
    // After its place in the project, the task has the one in the run.
    let task = task.rsplit_once(" (").map_or("a task", |(task, _)| task);
    let doubt = if *certain { "" } else { ", which was interrupted" };
    format!("{host}{address}: '{handler}' of play '{play}', {how} {task}{doubt}, run {origin}, {when}")
}

/// Ends the journal. Prints how to resume after a signal or a panic, and for a person also after a failure.
pub(super) fn end(code: u8, failed: &[&str], shared: &Shared) {
    let Some(recorder) = shared.journal.get() else { return };
    // Only a run that failed or was interrupted is resumed.
    if code != 0 {
        recorder.files_at_end(&shared.files);
    }
    recorder.end(code, failed);
    recorder.forgotten().into_iter().chain(recorder.unreached()).for_each(|sentence| shared.warn(sentence));
    let output = &shared.run.settings.output;
    let is_personal = output.failures == FailureForm::Readable;
    let advice = if is_personal { recorder.advice() } else { recorder.advice_for_log() };
    let Some(advice) = advice else { return };
    if signals::is_signal(code) || code == BUG {
        shared.warn(advice);
        return;
    }
    let _ = match output.failures {
        // An error that ended the run itself is printed after this, and must be fixed first.
        _ if code == 0 || failed.is_empty() => return,
        FailureForm::Readable => shared.events.send(Event::Notice(advice)),
        FailureForm::Listed if output.progress != Progress::None => {
            shared.events.send(Event::Printed { host: None, line: advice })
        }
        FailureForm::Listed | FailureForm::Ansible => return,
    };
}
