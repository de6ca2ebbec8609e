//! Interaction about host keys: questions about unknown keys, and warnings about unverified ones.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Error, PresentedKey};

/// Future returned by the methods of [`HostKeyUser`].
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The user of a run.
pub trait HostKeyUser: Send + Sync {
    /// Asks whether a key belongs to the host; `None` if nobody can answer. No connection is open meanwhile, and only
    /// one question is asked at a time.
    fn confirm<'a>(&'a self, key: &'a PresentedKey) -> Pending<'a, Option<bool>>;

    /// Shows a warning. A password may be sent once this returns.
    fn warn(&self, sentence: String) -> Pending<'_, ()>;
}

/// Questions and warnings of a run's connections, each shown once.
#[derive(Default)]
pub(crate) struct Dialogue {
    user: Option<Arc<dyn HostKeyUser>>,
    /// Declined keys, as host and fingerprint. Locked while a question is open.
    declined: tokio::sync::Mutex<HashSet<(String, String)>>,
    shown: Mutex<HashSet<String>>,
}

impl std::fmt::Debug for Dialogue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Dialogue").finish_non_exhaustive()
    }
}

impl Dialogue {
    pub(crate) fn new(user: Arc<dyn HostKeyUser>) -> Self {
        Self { user: Some(user), ..Self::default() }
    }

    /// Asks about an unknown key, in turn. `is_known` repeats the check before the question is shown. Returns
    /// `Ok(false)` if nobody can answer.
    pub(crate) async fn confirm(&self, key: &PresentedKey, is_known: impl FnOnce() -> bool) -> Result<bool, Error> {
        let Some(user) = &self.user else { return Ok(false) };
        let mut declined = self.declined.lock().await;
        if is_known() {
            return Ok(true);
        }
        let question = (key.host.clone(), key.fingerprint.clone());
        if declined.contains(&question) {
            return Err(Error::HostKeyDeclined(Box::new(key.clone())));
        }
        match user.confirm(key).await {
            Some(true) => Ok(true),
            Some(false) => {
                declined.insert(question);
                Err(Error::HostKeyDeclined(Box::new(key.clone())))
            }
            None => Ok(false),
        }
    }

    /// Shows a warning once; `false` if nobody can see it.
    pub(crate) async fn warn(&self, sentence: &str) -> bool {
        let Some(user) = &self.user else { return false };
        if self.shown.lock().unwrap_or_else(PoisonError::into_inner).insert(sentence.to_owned()) {
            user.warn(sentence.to_owned()).await;
        }
        true
    }
}
