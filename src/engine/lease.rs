//! The Lease of a run: the pod that holds it runs the playbook, and no other does.
//!
//! A challenger waits until it has seen the lease unchanged for [`EXPIRE`] by its own clock, so clocks of nodes need
//! not agree. The holder stops its run [`GIVE_UP`] after the start of its last successful renewal.

use std::time::Instant;

use serde_json::{Value, json};

use super::cluster::{LEASE, Namespace};
use super::{EXPIRE, GIVE_UP, LOOK, RENEW, name_of};
use crate::error::Result;

/// A lease that this pod holds.
#[derive(Debug)]
pub(super) struct Held {
    namespace: Namespace,
    run: String,
    holder: String,
    /// Version of the object that this pod wrote last. Another version is the work of another pod.
    version: Value,
    /// Whether this pod was also the previous holder of the lease.
    pub(super) was_ours: bool,
    /// Number of times that the lease was taken. Hosts refuse a process with a smaller number.
    pub(super) transitions: u32,
    /// Start of the last successful renewal.
    renewed: Instant,
}

impl Held {
    /// Waits until no other pod holds the lease, and takes it.
    pub(super) async fn take(namespace: &Namespace, run: &str, holder: &str) -> Held {
        let mut seen: Option<(Value, Instant)> = None;
        loop {
            let name = name_of(run);
            // While the server does not answer, or the run is being deleted, nothing can start.
            if let Ok(Some(lease)) = namespace.request(move |namespace| namespace.get(LEASE, &name)).await {
                let version = lease["metadata"]["resourceVersion"].clone();
                let since = match &seen {
                    Some((known, since)) if *known == version => *since,
                    _ => Instant::now(),
                };
                let former = lease["spec"]["holderIdentity"].as_str();
                let was_ours = former == Some(holder);
                if former.is_none() || was_ours || since.elapsed() >= EXPIRE {
                    let mut held = Held {
                        namespace: namespace.clone(),
                        run: run.to_owned(),
                        holder: holder.to_owned(),
                        version: version.clone(),
                        was_ours,
                        transitions: transitions(&lease).saturating_add(1),
                        renewed: Instant::now(),
                    };
                    if held.renew().await.is_ok() {
                        return held;
                    }
                }
                seen = Some((version, since));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Renews the lease until it is lost: to another pod, or because the server has not answered for [`GIVE_UP`].
    pub(super) async fn keep(mut self) {
        loop {
            tokio::time::sleep(RENEW).await;
            let left = GIVE_UP.saturating_sub(self.renewed.elapsed());
            let is_held = async { self.renew().await.is_ok() || self.is_ours().await };
            if !matches!(tokio::time::timeout(left, is_held).await, Ok(true)) {
                return;
            }
        }
    }

    /// Whether this pod may still hold the lease; `true` if the server does not answer. Reads the lease's version,
    /// because a renewal may have arrived although its answer was lost.
    async fn is_ours(&mut self) -> bool {
        let name = name_of(&self.run);
        match self.namespace.request(move |namespace| namespace.get(LEASE, &name)).await {
            Ok(Some(lease)) if lease["spec"]["holderIdentity"] == self.holder.as_str() => {
                self.version = lease["metadata"]["resourceVersion"].clone();
                true
            }
            Ok(_) => false,
            Err(_) => true,
        }
    }

    /// Writes the lease again. Fails if another pod has taken it, or the server does not answer.
    async fn renew(&mut self) -> Result<()> {
        let begun = Instant::now();
        let spec = json!({
            "holderIdentity": self.holder,
            "leaseDurationSeconds": EXPIRE.as_secs(),
            "leaseTransitions": self.transitions,
            "renewTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        });
        let rest = json!({ "spec": spec, "resourceVersion": self.version });
        let object = self.namespace.object(LEASE, &name_of(&self.run), &self.run, rest);
        let written = self.namespace.request(move |namespace| namespace.put(&object)).await?;
        self.version = written["metadata"]["resourceVersion"].clone();
        self.renewed = begun;
        Ok(())
    }
}

/// Number of times that a lease was taken. Kubernetes refuses a negative number, which another program could have
/// written.
fn transitions(lease: &Value) -> u32 {
    lease["spec"]["leaseTransitions"].as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or_default()
}
