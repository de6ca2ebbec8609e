//! Users who have signed in, as this process remembers them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::users::{self, User};
use crate::error::Result;

/// Time after which a user signs in again.
const LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// Maximum number of sessions of one user. A further one ends the oldest.
const SESSIONS: usize = 16;

/// Sessions by the hash of their cookie's value, so that the time of a lookup reveals nothing.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

/// A user who has signed in.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) user: String,
    /// Hash of the token that was given. A user whose token changes is signed out.
    token: [u8; 32],
    /// Token against forged requests, which every form of this session contains.
    pub(super) form_token: String,
    since: Instant,
}

impl Sessions {
    /// Begins a session, and returns the value for its cookie. The value is always new, so nobody can make a user sign
    /// in to a session that they know.
    pub(super) fn begin(&self, user: &User) -> Result<String> {
        let word = users::random()?;
        let session =
            Session { user: user.name.clone(), token: user.hash, form_token: users::random()?, since: Instant::now() };
        let mut sessions = self.locked();
        let own = |sessions: &HashMap<_, Session>| sessions.values().filter(|one| one.user == user.name).count();
        while own(&sessions) >= SESSIONS {
            let oldest = sessions.iter().filter(|(_, one)| one.user == user.name).min_by_key(|(_, one)| one.since);
            let Some(key) = oldest.map(|(key, _)| *key) else { break };
            sessions.remove(&key);
        }
        sessions.insert(users::hash(&word), session);
        Ok(word)
    }

    /// The session with this secret, and its user in the current configuration.
    pub(super) fn find<'a>(&self, word: &str, users: &'a [User]) -> Option<(Session, &'a User)> {
        let session = self.locked().get(&users::hash(word)).cloned()?;
        let user = users.iter().find(|user| user.name == session.user && user.hash == session.token)?;
        Some((session, user))
    }

    /// Ends the session with this secret.
    pub(super) fn end(&self, word: &str) {
        self.locked().remove(&users::hash(word));
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<[u8; 32], Session>> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| session.since.elapsed() < LIFE);
        sessions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::users::Role;

    fn user(name: &str, byte: u8) -> User {
        User { name: name.to_owned(), role: Role::Viewer, hash: [byte; 32] }
    }

    #[test]
    fn further_session_of_user_ends_oldest_and_none_of_others() {
        let (sessions, users) = (Sessions::default(), [user("a", 1), user("b", 2)]);
        let other = sessions.begin(&users[1]).unwrap();
        let words: Vec<String> = (0..=SESSIONS).map(|_| sessions.begin(&users[0]).unwrap()).collect();
        assert!(sessions.find(&words[0], &users).is_none() && sessions.find(&words[1], &users).is_some());
        assert!(sessions.find(&other, &users).is_some());
        sessions.end(&words[1]);
        assert!(sessions.find(&words[1], &users).is_none());
    }

    #[test]
    fn user_who_is_removed_or_gets_another_token_is_signed_out() {
        let (sessions, users) = (Sessions::default(), [user("a", 1)]);
        let word = sessions.begin(&users[0]).unwrap();
        assert!(sessions.find(&word, &users).is_some());
        assert!(sessions.find(&word, &[]).is_none() && sessions.find(&word, &[user("a", 3)]).is_none());
    }
}
