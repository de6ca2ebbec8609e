//! Reads the destinations continuously: each must be absent, entirely old or entirely new.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Allowed contents of files.
pub(crate) type Allowed = Vec<(PathBuf, Vec<Vec<u8>>)>;

pub(crate) struct Watch {
    ended: Arc<AtomicBool>,
    looks: Arc<AtomicU64>,
    seen: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(crate) fn start(allowed: Allowed) -> Self {
        let watch = Self { ended: Arc::default(), looks: Arc::default(), seen: Arc::default(), thread: None };
        let (ended, looks, seen) = (Arc::clone(&watch.ended), Arc::clone(&watch.looks), Arc::clone(&watch.seen));
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                for (path, contents) in &allowed {
                    if let Ok(found) = fs::read(path)
                        && !contents.contains(&found)
                    {
                        let beginning: String = String::from_utf8_lossy(&found).chars().take(60).collect();
                        let sentence = format!("{} was partial: {} bytes, {beginning:?}", path.display(), found.len());
                        let mut seen = seen.lock().unwrap();
                        if !seen.contains(&sentence) {
                            seen.push(sentence);
                        }
                    }
                }
                looks.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(4));
            }
        });
        Self { thread: Some(thread), ..watch }
    }

    /// Ends the watch. Returns the violations.
    pub(crate) fn end(mut self) -> Vec<String> {
        self.ended.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
        assert!(self.looks.load(Ordering::SeqCst) > 0);
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}
