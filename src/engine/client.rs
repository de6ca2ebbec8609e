//! The client's side: starts, lists, cancels and deletes runs.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::cluster::{CONFIG_MAP, JOB, NAMESPACE, Namespace, SECRET};
use super::objects::Pods;
use super::project::{Input, Packed};
use super::seal::Seal;
use super::segment::Segment;
use super::workers::Files;
use super::{COMMAND, COMMAND_LINE, MANAGED, RUN, SEAL_KEY, name_of, objects, workers};
use crate::error::{Error, Result};
use crate::journal::{looks_like_run, new_run};
use crate::shards::{KeyPair, OTHER_KEYS, OWN_KEY};

/// Runs in one namespace.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(super) namespace: Namespace,
}

/// A run to start.
#[derive(Debug)]
pub(crate) struct Request {
    /// Image with `windlass` as its entry point.
    pub(crate) image: String,
    /// Command line after the program's name. It may contain secrets, so it is stored as a secret.
    pub(crate) words: Vec<String>,
    /// The same without secrets, to be shown.
    pub(crate) shown: String,
    /// Number of pods: the lead and its workers.
    pub(crate) shards: u16,
    /// Files that the command line names and the project does not contain.
    pub(crate) inputs: Vec<Input>,
}

/// A run in a list.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) run: String,
    pub(crate) created: String,
    /// `running`, `waiting`, the exit code of a run that has ended, or the reason why no pod runs it or its state is
    /// unknown.
    pub(crate) state: String,
    pub(crate) command: String,
}

impl Client {
    /// Runs in the namespace with this name.
    pub(crate) fn new(namespace: &str) -> Client {
        Client { namespace: Namespace::new(namespace) }
    }

    /// Creates the objects of a run of the project in a folder, and returns its id. Deletes them again if one is
    /// refused.
    pub(crate) fn start(&self, folder: &std::path::Path, mut request: Request) -> Result<String> {
        let words = serde_json::to_vec(&request.words).map_err(|error| Error::new(error.to_string()))?;
        request.inputs.push(Input { name: COMMAND_LINE.to_owned(), bytes: words });
        let packed = Packed::of(folder, std::mem::take(&mut request.inputs))?;
        let run = new_run();
        self.ensure_namespace()?;
        let created = self.create(&run, &request, &packed);
        if created.is_err() {
            let _ = self.namespace.delete_run(&run);
        }
        created.map(|()| run)
    }

    fn create(&self, run: &str, request: &Request, packed: &Packed) -> Result<()> {
        let namespace = &self.namespace;
        let pods = Pods { namespace, run, request, packed };
        let workers = usize::from(request.shards).saturating_sub(1);
        let mut lead: Files = [(SEAL_KEY.to_owned(), Seal::new_key()?)].into();
        let mut all = objects::of_run(&pods);
        if workers > 0 {
            let (of_lead, of_workers) = keys(workers)?;
            lead.extend(of_lead);
            all.extend(workers::around(&pods, of_workers));
        }
        all.push(objects::secret(&pods, &objects::lead_name(&name_of(run)), &lead));
        all.iter().try_for_each(|object| namespace.apply(object).map(drop))?;
        if workers > 0 {
            let indexed = workers::indexed(&pods, workers);
            // Older servers do not support a limit of failures for each index.
            let is_served = |predicted: Value| !predicted["spec"]["backoffLimitPerIndex"].is_null();
            let jobs = match namespace.predict(&indexed).is_ok_and(is_served) {
                true => vec![indexed],
                false => workers::plain(&pods, workers),
            };
            jobs.iter().try_for_each(|job| namespace.apply(job).map(drop))?;
        }
        namespace.apply(&objects::job(&pods)).map(drop)
    }

    /// Creates the namespace if it does not exist. Pods there may have no more rights than pods of runs.
    fn ensure_namespace(&self) -> Result<()> {
        // A user with rights only inside the namespace cannot read it.
        if !matches!(self.namespace.get(NAMESPACE, self.namespace.name()), Ok(None)) {
            return Ok(());
        }
        let labels = json!({ MANAGED.0: MANAGED.1, "pod-security.kubernetes.io/enforce": "restricted" });
        let metadata = json!({ "name": self.namespace.name(), "labels": labels });
        let (version, kind) = NAMESPACE;
        self.namespace.apply(&json!({ "apiVersion": version, "kind": kind, "metadata": metadata })).map(drop)
    }

    /// All runs, oldest first.
    pub(crate) fn list(&self) -> Result<Vec<Listed>> {
        let ours = format!("{}={}", MANAGED.0, MANAGED.1);
        let jobs = self.namespace.list(JOB, &[ours, RUN.to_owned()])?;
        let mut runs = Vec::new();
        for job in jobs {
            let run = job["metadata"]["labels"][RUN].as_str().unwrap_or_default().to_owned();
            // Workers have Jobs of their own.
            if !looks_like_run(&run) || job["metadata"]["name"] != name_of(&run).as_str() {
                continue;
            }
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let state = match self.ended(&run) {
                Ok(Some(code)) => format!("exit code {code}"),
                Err(error) => format!("unknown: {}", error.message()),
                Ok(None) if super::follow::given_up(&job).is_some() => "given up".to_owned(),
                Ok(None) if job["status"]["active"].as_u64().unwrap_or(0) > 0 => "running".to_owned(),
                Ok(None) => "waiting".to_owned(),
            };
            let command = text(&job["metadata"]["annotations"][COMMAND]);
            runs.push(Listed { run, created: text(&job["metadata"]["creationTimestamp"]), state, command });
        }
        runs.sort_by(|one, other| one.run.cmp(&other.run));
        Ok(runs)
    }

    /// Exit code of a run that has ended. Reads the run's key only if an object claims that the run has ended.
    fn ended(&self, run: &str) -> Result<Option<u8>> {
        let Some(end) = self.namespace.get(CONFIG_MAP, &objects::end_name(run))? else { return Ok(None) };
        let seal = self.seal(run)?;
        if let Some((code, _)) = objects::read_end(&end, run, &seal) {
            return Ok(Some(code));
        }
        // Somebody else has taken that name. The last segment has the code too.
        for number in 1.. {
            let Some(object) = self.namespace.get(CONFIG_MAP, &Segment::name(run, number))? else { break };
            if let Some(code) = Segment::of(&object, run, number, &seal).and_then(|segment| segment.end) {
                return Ok(Some(code));
            }
        }
        Ok(None)
    }

    /// Exit code and number of segments of a run that has ended.
    pub(super) fn exit_code(&self, run: &str, seal: &Seal) -> Result<Option<(u8, u32)>> {
        let end = self.namespace.get(CONFIG_MAP, &objects::end_name(run))?;
        Ok(end.and_then(|end| objects::read_end(&end, run, seal)))
    }

    /// The key of a run. Everybody who may read Secrets of the namespace can get it.
    pub(super) fn seal(&self, run: &str) -> Result<Seal> {
        let name = objects::lead_name(&name_of(run));
        let secret = self.namespace.get(SECRET, &name)?;
        let text = secret.as_ref().and_then(|secret| secret["data"][SEAL_KEY].as_str());
        let bytes = text.and_then(|text| BASE64_STANDARD.decode(text).ok());
        Seal::of(&bytes.ok_or_else(|| Error::new(format!("the Secret {name} has no key of the run {run}")))?)
    }

    /// Fails if there is no run with this id.
    pub(crate) fn find(&self, run: &str) -> Result<()> {
        let found = looks_like_run(run) && self.namespace.get(JOB, &name_of(run))?.is_some();
        if found {
            return Ok(());
        }
        let message = format!("there is no run `{run}` in the namespace `{}`", self.namespace.name());
        Err(Error::usage(message).hint("`windlass engine list` lists the runs"))
    }

    /// Asks the pod of a run to stop it as Ctrl-C does.
    pub(crate) fn cancel(&self, run: &str) -> Result<()> {
        self.namespace.put(&objects::cancel(&self.namespace, run, &self.seal(run)?)).map(drop)
    }

    /// Deletes a run. Its pod stops what runs on the hosts.
    pub(crate) fn delete(&self, run: &str) -> Result<()> {
        self.namespace.delete_run(run)
    }

    /// Deletes the namespace with all its runs.
    pub(crate) fn uninstall(&self) -> Result<()> {
        let found = self.namespace.get(NAMESPACE, self.namespace.name())?;
        match found {
            Some(found) if found["metadata"]["labels"][MANAGED.0] == MANAGED.1 => self.namespace.delete(),
            Some(_) => Err(Error::usage(format!(
                "Windlass has not created the namespace `{}`, so it does not delete it",
                self.namespace.name()
            ))
            .hint("`windlass engine delete RUN` deletes one run")),
            None => Ok(()),
        }
    }
}

/// Keys with which the lead and its workers prove who they are: the lead's files, and each worker's.
fn keys(workers: usize) -> Result<(Files, Vec<Files>)> {
    let files = |own: &KeyPair, others: Vec<u8>| {
        Files::from([(OWN_KEY.to_owned(), own.private.to_vec()), (OTHER_KEYS.to_owned(), others)])
    };
    let lead = KeyPair::new()?;
    let workers = (0..workers).map(|_| KeyPair::new()).collect::<Result<Vec<_>>>()?;
    let public = workers.iter().flat_map(|worker| worker.public.clone()).collect();
    let of_workers = workers.iter().map(|worker| files(worker, lead.public.clone())).collect();
    Ok((files(&lead, public), of_workers))
}
