//! The user's part in judging host keys: questions about unknown ones, and warnings about those that were not verified.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Error, PresentedKey};

/// A future of a [`HostKeyUser`]'s method.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The user of a run.
pub trait HostKeyUser: Send + Sync {
    /// Asks whether a key is the host's. `None` if there is nobody to ask. No connection is open meanwhile, and questions come one at a time.
    fn confirm<'a>(&'a self, key: &'a PresentedKey) -> Pending<'a, Option<bool>>;

    /// Shows a warning, and returns once it is shown: a password may be sent afterwards.
    fn warn(&self, sentence: String) -> Pending<'_, ()>;
}

/// The questions and warnings of a run's connections, each made once.
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

    /// Asks about an unknown key. `is_known` repeats the check when the question's turn has arrived. `Ok(false)`: nobody to ask.
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

    /// Shows a warning, unless it was shown before. `false` if there is nobody to show it to.
    pub(crate) async fn warn(&self, sentence: &str) -> bool {
        let Some(user) = &self.user else { return false };
        if self.shown.lock().unwrap_or_else(PoisonError::into_inner).insert(sentence.to_owned()) {
            user.warn(sentence.to_owned()).await;
        }
        true
    }
}
