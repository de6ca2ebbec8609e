//! Sends the trace of a finished run to a collector of OpenTelemetry. A failure to send it never fails the run.

use std::path::Path;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::http::Http;
use crate::journal::read_file;
use crate::report::{Report, otlp_requests};
use crate::strategy::Shared;

/// Seconds that a collector may be silent.
const SILENCE: u64 = 10;
/// Time limit for the whole trace.
const TRACE: Duration = Duration::from_secs(30);
/// Maximum number of spans in a request. Collectors refuse requests of more than some megabytes.
const SPANS: usize = 1000;

/// Sends the trace, if the settings name a collector. A failure is a warning.
pub(super) async fn send(shared: &Shared) {
    let Some(endpoint) = shared.run.settings.output.otlp_endpoint.clone() else { return };
    let Some(recorder) = shared.journal.get() else {
        shared.warn("The run has no journal, so its trace was not sent.");
        return;
    };
    let path = recorder.path().to_owned();
    let (sender, receiver) = oneshot::channel();
    // A separate thread: the runtime would wait for one of its own threads until the collector answers.
    std::thread::spawn(move || drop(sender.send(deliver(&endpoint, &path))));
    let sent = match tokio::time::timeout(TRACE, receiver).await {
        Ok(Ok(sent)) => sent,
        Ok(Err(_)) => Err(Error::new("the sender failed")),
        Err(_) => Err(Error::new(format!("the collector took more than {} s", TRACE.as_secs()))),
    };
    if let Err(error) = sent {
        shared.warn(format!("The trace of the run was not sent: {}", error.message()));
    }
}

fn deliver(endpoint: &str, journal: &Path) -> Result<()> {
    let report = Report::of(&read_file(journal)?, false);
    let url = address(endpoint);
    let http = Http { timeout: SILENCE, limit: None };
    otlp_requests(&report, SPANS).iter().try_for_each(|request| http.post(&url, request))
}

/// Address for traces below the base address of a collector.
fn address(endpoint: &str) -> String {
    let base = endpoint.trim_end_matches('/');
    if base.ends_with("/v1/traces") { base.to_owned() } else { format!("{base}/v1/traces") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_for_traces_follows_base_address() {
        for endpoint in ["http://c:4318", "http://c:4318/", "http://c:4318/v1/traces"] {
            assert_eq!(address(endpoint), "http://c:4318/v1/traces");
        }
    }
}
