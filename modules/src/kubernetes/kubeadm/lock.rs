//! The lock that lets one control plane of a cluster change at a time, whichever run, host or task changes it.
//!
//! It is a Lease of the cluster, because hosts, runs and processes share nothing else. Its holder renews it until the
//! change has ended, so a killed holder blocks the others for [`DURATION`]. As with leader election in client-go, they
//! measure that by their own clocks, from the last change that they saw, and resourceVersion decides between several.
//!
//! A holder that no API server answers for that time loses the lock. Its change does not begin then. A change that has
//! begun goes on, because kubeadm cannot be stopped half-way. The next holder judges the cluster again, and counts a
//! control plane that is down as not healthy, so the majority stays. The former one takes the lock again once it is
//! free. Nothing holds a machine back that stands still between its last look at the lock and the change.

use std::{
    fs::File,
    os::fd::AsRawFd,
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    super::turn::{self, Turn},
    tool::Tool,
};
use crate::{Failure, Host};

/// Name of the Lease, and the path of all Leases of its namespace.
const NAME: &str = "windlass-control-planes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// Time after which a lock that is not renewed ends.
const DURATION: Duration = Duration::from_secs(40);
/// Time between two renewals.
const RENEWAL: Duration = Duration::from_secs(10);
/// Wait for an API server that releases the lock.
const RELEASE: Duration = Duration::from_secs(20);
/// Pause before a renewal or a release is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// The Lease, as a task of this host sees it.
pub(super) struct Lease {
    tool: Tool,
    /// The administrator's kubeconfig, open because a reset removes it.
    kubeconfig: File,
    /// API servers. The kubeconfig has the address of the first.
    servers: Vec<Option<String>>,
    /// Index of the one that answered last.
    server: usize,
    /// Holder's name of this task.
    own: String,
    /// Version of the Lease, and when this task saw it first.
    seen: (String, Instant),
}

/// Time at which the lock ends unless it is renewed. Once that has passed it stays, because another task may have held
/// the lock since.
pub(super) struct Held(Mutex<Instant>);

impl Held {
    /// Fails if the lock was lost.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if Instant::now() < *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "The lock of the control planes, the Lease kube-system/{NAME}, was lost before the change, so nothing was changed. Run the task \
             again."
        ))
        .with("refused", true))
    }

    fn renew(&self, end: Instant) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if Instant::now() < *held {
            *held = end;
        }
    }
}

impl Lease {
    /// The Lease at API servers with these addresses, beside the kubeconfig's own.
    pub(super) fn of(tool: &Tool, admin: &str, urls: impl Iterator<Item = String>) -> Result<Lease, Failure> {
        let kubeconfig =
            File::open(admin).map_err(|error| Failure::new(format!("{admin} cannot be read: {error}.")))?;
        let mut random = [0u8; 8];
        getrandom::fill(&mut random)
            .map_err(|error| Failure::new(format!("No random number could be had for a lock: {error}.")))?;
        Ok(Lease {
            own: format!("{} {}", tool.node, hex::encode(random)),
            tool: tool.clone(),
            kubeconfig,
            servers: std::iter::once(None).chain(urls.map(|url| Some(format!("--server={url}")))).collect(),
            server: 0,
            seen: (String::new(), Instant::now()),
        })
    }

    /// Waits for the lock, and holds it until `change` has ended.
    pub(super) fn hold<T>(
        mut self,
        host: &Host,
        change: impl FnOnce(&Held) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let lock = format!("the Lease kube-system/{NAME}");
        let end = turn::take("the control planes of this cluster", &lock, host, || self.attempt(host))?;
        let held = Held(Mutex::new(end));
        let (changes, changed) = channel::<()>();
        thread::scope(|scope| {
            let held = &held;
            // A cancelled task keeps its lock until its change has ended, and releases it.
            scope.spawn(move || self.keep(held, &changed, &host.beside()));
            let _changes = changes;
            change(held)
        })
    }

    /// Renews the lock until the change has ended, and releases it then.
    fn keep(mut self, held: &Held, changed: &Receiver<()>, host: &Host) {
        let mut pause = RENEWAL;
        while let Err(RecvTimeoutError::Timeout) = changed.recv_timeout(pause) {
            pause = AGAIN;
            if let Ok(Turn::Held(end)) = self.attempt(host) {
                held.renew(end);
                pause = RENEWAL;
            }
        }
        let begun = Instant::now();
        // Without an API server, the lock ends by itself.
        while self.release(host).is_err() && begun.elapsed() < RELEASE {
            thread::sleep(AGAIN);
        }
    }

    /// Takes the lock if nobody holds it, or renews it. Returns when it ends.
    fn attempt(&mut self, host: &Host) -> Result<Turn<Instant>, Failure> {
        let end = Instant::now() + DURATION;
        let own = self.own.clone();
        let found = self.read(host)?;
        let holder = found["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let version = found["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if self.seen.0 != version {
            self.seen = (version.to_owned(), Instant::now());
        }
        let duration = found["spec"]["leaseDurationSeconds"].as_u64().map_or(DURATION, Duration::from_secs);
        // It is this task's own without a renewal yet if the answer to its first request was lost.
        if holder.is_empty() || holder == own || self.seen.1.elapsed() > duration {
            return self.write(version, &own, host).map(|()| Turn::Held(end));
        }
        Ok(Turn::Busy(holder.split(' ').next().unwrap_or_default().to_owned()))
    }

    fn release(&mut self, host: &Host) -> Result<(), Failure> {
        let found = self.read(host)?;
        match found["metadata"]["resourceVersion"].as_str() {
            Some(version) if found["spec"]["holderIdentity"] == self.own.as_str() => self.write(version, "", host),
            _ => Ok(()),
        }
    }

    /// The Lease, or null if it does not exist.
    fn read(&mut self, host: &Host) -> Result<Value, Failure> {
        let path = format!("--raw={LEASES}?fieldSelector=metadata.name%3D{NAME}");
        let mut list = self.ask(&["get", &path], "", host)?;
        Ok(list.pointer_mut("/items/0").map(Value::take).unwrap_or_default())
    }

    /// Creates the Lease, or replaces this version of it.
    fn write(&mut self, version: &str, holder: &str, host: &Host) -> Result<(), Failure> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": NAME, "namespace": "kube-system", "resourceVersion": version },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": DURATION.as_secs(),
                // Another one each time: what does not change a Lease has no effect on its version.
                "renewTime": format!("{:.6}", jiff::Timestamp::now()),
            },
        });
        let (verb, path) = match version {
            "" => ("create", format!("--raw={LEASES}")),
            _ => ("replace", format!("--raw={LEASES}/{NAME}")),
        };
        self.ask(&[verb, &path, "-f", "-"], &lease.to_string(), host).map(drop)
    }

    /// Answer of the first API server that grants a request.
    fn ask(&mut self, words: &[&str], input: &str, host: &Host) -> Result<Value, Failure> {
        // No copy of it stays behind if this process is killed.
        let kubeconfig = format!("/proc/{}/fd/{}", std::process::id(), self.kubeconfig.as_raw_fd());
        let mut refusal = String::new();
        for _ in 0..self.servers.len() {
            let server = self.servers.get(self.server).and_then(Option::as_deref);
            let words: Vec<&str> = server.into_iter().chain(words.iter().copied()).collect();
            let output = self.tool.send(&kubeconfig, &words, input, host)?;
            if output.success()
                && let Ok(answer) = serde_json::from_slice(&output.stdout)
            {
                return Ok(answer);
            }
            refusal = output.stderr_text().lines().next_back().unwrap_or("no answer").to_owned();
            self.server = (self.server + 1) % self.servers.len();
        }
        Err(Failure::new(format!(
            "The lock of the control planes, the Lease kube-system/{NAME}, cannot be had, so nothing was changed: {refusal} \
             `allow_unsafe` needs none."
        )))
    }
}
