//! The footer: one line at the end of a terminal that shows what a run does and whom it waits for.
//!
//! Everything that is printed passes [`write`], which erases the footer first, so that both never mix. A process has
//! one terminal, and any thread may print or ask; so the footer is a static.

mod follow;
mod keys;
mod line;
mod progress;
mod terminal;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

pub(super) use follow::Follow;
pub use keys::until_continued;
pub(super) use progress::{Progress, duration};
pub(super) use terminal::Stream;
pub(super) use terminal::columns;
pub(crate) use terminal::terminal_columns;

use super::printer::Printer;

/// Age at which the footer's text is computed again.
const PERIOD: Duration = Duration::from_millis(200);
/// Interval at which the footer is drawn while nothing is printed.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// Duration of a run until its footer appears, so that short runs stay as they are.
const DELAY: Duration = Duration::from_millis(500);

static FOOTER: Mutex<Option<Footer>> = Mutex::new(None);
/// Whether there is a footer. Without one, printing takes no lock.
static IS_ACTIVE: AtomicBool = AtomicBool::new(false);
/// Number of questions under way.
static QUESTIONS: AtomicUsize = AtomicUsize::new(0);
/// Time of the last printed text, in milliseconds since [`BEGAN`].
static PRINTED: AtomicU64 = AtomicU64::new(0);
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

struct Footer {
    stream: Stream,
    /// Whether both standard streams are terminals, where text of either would mix with the footer.
    is_shared: bool,
    progress: Arc<Mutex<Progress>>,
    printer: Printer,
    is_drawn: bool,
    /// The text drawn last, with its time and the width that it is for.
    last: Option<(Instant, usize, String)>,
    /// Whether the last text on the terminal ended without a line end, as a question does.
    is_mid_line: bool,
}

impl Footer {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            // Text that a narrower terminal has wrapped is below the cursor, which stands at the line's start.
            let _ = self.stream.write("\r\u{1b}[J");
        }
    }

    fn draw(&mut self) {
        let is_in_the_way = QUESTIONS.load(Ordering::Acquire) > 0 || self.is_mid_line || !self.stream.is_foreground();
        if is_in_the_way {
            return self.erase();
        }
        // Text in the last column would leave the cursor in the next line on some terminals.
        let width = self.stream.columns().saturating_sub(1);
        // Output that scrolls fast erases the footer each time, and must not make it vanish.
        let is_fresh = |(time, of, _): &(Instant, usize, String)| *of == width && time.elapsed() < PERIOD;
        if !(self.last.as_ref().is_some_and(is_fresh) && self.progress().is_running()) {
            let parts = self.progress().parts(DELAY).filter(|_| width > 0);
            let fitted = parts.map(|parts| parts.fitted(width, |text, color| self.printer.paint(text, color)));
            self.last = fitted.map(|text| (Instant::now(), width, text));
        } else if self.is_drawn {
            return;
        }
        let Some((_, _, text)) = &self.last else { return self.erase() };
        let _ = self.stream.write(&format!("\r{text}\u{1b}[J\r"));
        self.is_drawn = true;
    }
}

fn locked() -> MutexGuard<'static, Option<Footer>> {
    FOOTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the footer, if this process has a terminal for it. Returns whether it has.
pub(super) fn start(progress: &Arc<Mutex<Progress>>, printer: &Printer) -> bool {
    let Some((stream, is_shared)) = terminal::for_footer() else { return false };
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // The panicking thread may hold the lock itself.
            if let Ok(mut footer) = FOOTER.try_lock() {
                footer.as_mut().into_iter().for_each(Footer::erase);
            }
            keys::try_to_leave();
            usual(info);
        }));
    });
    let (progress, printer) = (Arc::clone(progress), printer.clone());
    *locked() = Some(Footer { stream, is_shared, progress, printer, is_drawn: false, last: None, is_mid_line: false });
    IS_ACTIVE.store(true, Ordering::Release);
    keys::start();
    true
}

/// Removes the footer for good.
pub fn end_footer() {
    if IS_ACTIVE.swap(false, Ordering::AcqRel)
        && let Some(mut footer) = locked().take()
    {
        footer.erase();
    }
    keys::leave();
}

/// Whether this process has a footer.
pub fn has_footer() -> bool {
    IS_ACTIVE.load(Ordering::Acquire)
}

/// Draws the footer again, with the present time and width.
pub(super) fn redraw() {
    if IS_ACTIVE.load(Ordering::Acquire) {
        locked().as_mut().into_iter().for_each(Footer::draw);
    }
}

/// Writes text to a standard stream, above the footer.
pub(super) fn write(stream: Stream, text: &str) -> io::Result<()> {
    end_silence();
    if IS_ACTIVE.load(Ordering::Acquire)
        && let Some(footer) = &mut *locked()
        && (footer.is_shared || footer.stream == stream)
    {
        footer.erase();
        if !text.is_empty() {
            footer.is_mid_line = !text.ends_with('\n');
        }
        let outcome = stream.write(text);
        footer.draw();
        return outcome;
    }
    // Another stream may block, which must not keep the footer locked.
    stream.write(text)
}

fn end_silence() {
    PRINTED.store(u64::try_from(BEGAN.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Time since something was printed.
pub(super) fn silence() -> Duration {
    BEGAN.elapsed().saturating_sub(Duration::from_millis(PRINTED.load(Ordering::Relaxed)))
}

/// Whether the user is being asked something.
pub(super) fn is_asking() -> bool {
    QUESTIONS.load(Ordering::Acquire) > 0
}

/// Keeps the footer and reports of progress away while it lives.
#[derive(Debug)]
#[must_use]
pub struct Question(());

impl Question {
    /// Hides the footer until the answer is read. Begin it before the question is printed.
    pub fn begin() -> Question {
        QUESTIONS.fetch_add(1, Ordering::AcqRel);
        keys::leave();
        redraw();
        Question(())
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        QUESTIONS.fetch_sub(1, Ordering::AcqRel);
        // The user's Enter has ended the line of the question.
        if IS_ACTIVE.load(Ordering::Acquire)
            && let Some(footer) = &mut *locked()
        {
            footer.is_mid_line = false;
        }
        // Time spent on a question does not count as silence.
        end_silence();
    }
}
