//! Errors of evaluating templates.

use std::fmt;
use std::sync::Arc;

use windlass_yaml::{Node, Span};

/// Kind of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not a valid template.
    Syntax,
    /// A variable, key or attribute does not exist.
    Undefined {
        /// Name as written.
        name: String,
    },
    /// A value is not yet known, in check mode.
    Unknown {
        /// Reason why it is unknown.
        reason: String,
    },
    /// A condition did not yield a boolean.
    Conditional,
    /// A filter, test, method or operator rejected its arguments.
    Filter,
    /// Division by zero.
    Division,
    /// A variable refers to itself.
    Recursion {
        /// Variables from the first to the one that closes the cycle.
        chain: Vec<String>,
    },
    /// A lookup failed.
    Lookup,
    /// A vaulted value could not be decrypted.
    Vault,
    /// The whole value is [`omit`](crate::omit); the caller decides what omitting it means.
    Omitted,
}

/// Evaluation error with its place and the evaluated text.
#[derive(Clone)]
pub struct Error(Box<Details>);

/// A variable that an error passed through.
#[derive(Clone, Debug, PartialEq)]
pub struct Through {
    /// Name of the variable.
    pub name: Arc<str>,
    /// Position of its template.
    pub span: Span,
}

/// Number of variables that a report shows with their places.
const SHOWN: usize = 10;

#[derive(Clone)]
struct Details {
    kind: ErrorKind,
    message: String,
    /// Ansible's own message, where playbooks compare it.
    sentence: Option<Arc<str>>,
    hint: Option<String>,
    expression: Option<Arc<str>>,
    span: Option<Span>,
    /// Line in the template, counting from 1.
    line: Option<u32>,
    /// Line and column of a syntax error in the template, counting from 1.
    position: Option<(u32, u32)>,
    /// Variables whose templates were being rendered, innermost first.
    variables: Vec<Through>,
    /// Task that uses the outermost of them.
    task: Option<Span>,
    /// Whether the message names the failed condition.
    names_condition: bool,
    /// Ciphertext that could not be decrypted.
    ciphertext: Option<Arc<str>>,
    /// Message of ansible-core 2.18, if different.
    classic: Option<Arc<str>>,
}

impl Error {
    /// Creates an error; the message is a whole sentence.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Details {
            kind,
            message: message.into(),
            sentence: None,
            hint: None,
            expression: None,
            span: None,
            line: None,
            position: None,
            variables: Vec::new(),
            task: None,
            names_condition: false,
            ciphertext: None,
            classic: None,
        }))
    }

    /// Creates an error for arguments rejected by a filter, test, method or operator.
    pub fn filter(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Filter, message)
    }

    /// Creates an error for a failed lookup.
    pub fn lookup(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Lookup, message)
    }

    /// Creates an error for a text that cannot be parsed.
    pub(crate) fn syntax(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Syntax, message)
    }

    /// Kind of the error.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The message, without its place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Ansible's own message, which is the whole message of a failed task up to 2.18. `None` if Ansible reports the
    /// failed variable instead.
    pub fn sentence(&self) -> Option<&str> {
        self.0.sentence.as_deref().filter(|_| self.0.variables.is_empty())
    }

    /// Suggested remedy, if known.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The template or expression that failed, as written.
    pub fn expression(&self) -> Option<&str> {
        self.0.expression.as_deref()
    }

    /// Position of the failed text.
    pub fn span(&self) -> Option<&Span> {
        self.0.span.as_ref()
    }

    /// Variables whose templates were being rendered, innermost first.
    pub fn variables(&self) -> &[Through] {
        &self.0.variables
    }

    /// Line of the failure in the template, counting from 1, if known.
    pub(crate) fn line(&self) -> Option<u32> {
        self.0.line
    }

    /// Line and column of a syntax error in the template, counting from 1, if known.
    pub(crate) fn position(&self) -> Option<(u32, u32)> {
        self.0.position
    }

    /// Sets the line and column of a syntax error.
    pub(crate) fn at_position(mut self, line: usize, column: usize) -> Error {
        self.0.position = u32::try_from(line).ok().zip(u32::try_from(column).ok());
        self
    }

    /// Sets the line in the template, which a single expression does not know.
    pub(crate) fn at_line(mut self, line: usize) -> Error {
        self.0.line = u32::try_from(line).ok();
        self
    }

    /// Adds the line in the template, unless one is known.
    pub(crate) fn with_line(mut self, line: Option<usize>) -> Error {
        self.0.line = self.0.line.or_else(|| line.and_then(|line| u32::try_from(line).ok()));
        self
    }

    /// Adds the ciphertext that could not be decrypted.
    pub(crate) fn of_ciphertext(mut self, text: &Arc<str>) -> Error {
        self.0.ciphertext = Some(text.clone());
        self
    }

    /// Adds the message of ansible-core 2.18.
    pub(crate) fn with_classic(mut self, sentence: Option<&str>) -> Error {
        self.0.classic = sentence.map(Arc::from);
        self
    }

    /// Prefixes an undefined error with the text of a variable it passed through, as up to 2.18.
    pub(crate) fn through(mut self, node: &Node) -> Error {
        if let (true, Some(text)) = (self.is_undefined(), node.as_str()) {
            let what = self.0.classic.as_deref().unwrap_or_else(|| self.0.message.trim_end_matches('.'));
            self.0.classic = Some(Arc::from(format!("{text}: {what}")));
        }
        self
    }

    /// Uses the message of ansible-core 2.18.
    pub(crate) fn in_classic_words(mut self) -> Error {
        if let Some(sentence) = self.0.classic.take() {
            self.0.message = format!("{sentence}.");
        }
        self
    }

    /// The ciphertext that could not be decrypted.
    pub(crate) fn ciphertext(&self) -> Option<&str> {
        self.0.ciphertext.as_deref()
    }

    /// Whether the error is about an undefined value.
    pub fn is_undefined(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Undefined { .. })
    }

    /// Whether the error is about a value not yet known, in check mode.
    pub fn is_unknown(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Unknown { .. })
    }

    /// Adds Ansible's own message.
    pub(crate) fn with_sentence(mut self, sentence: &str) -> Error {
        self.0.sentence = Some(Arc::from(sentence));
        self
    }

    /// Adds the failed condition to the message, as up to 2.18.
    pub(crate) fn of_condition(mut self, condition: &str) -> Error {
        let evaluating = match self.is_undefined() {
            true => format!("error while evaluating conditional ({condition}): "),
            false => String::new(),
        };
        let what = self.0.sentence.take().map_or_else(|| self.0.message.clone(), |sentence| format!("{sentence}."));
        self.0.message = format!("The conditional check '{condition}' failed. The error was: {evaluating}{what}");
        self.0.names_condition = true;
        self
    }

    /// Removes Ansible's own message, for errors that become part of a longer sentence.
    pub(crate) fn without_sentence(mut self) -> Error {
        self.0.sentence = None;
        self
    }

    /// Message up to 2.18 for a task argument with an undefined variable: Ansible's sentence, a blank line and the
    /// details.
    pub fn undefined_option(&self) -> Option<String> {
        if self.sentence().is_some() || self.0.names_condition {
            return None;
        }
        let whole = self.to_string();
        let rest = whole.strip_prefix(&*self.0.message).unwrap_or_default().trim_start();
        let what = self.0.message.trim_end_matches('.');
        let told = format!("The task includes an option with an undefined variable.. {what}\n\n{rest}");
        Some(told.trim_end().to_owned())
    }

    /// Adds a remedy, unless one is known.
    pub fn with_hint(mut self, hint: Option<String>) -> Error {
        self.0.hint = self.0.hint.or(hint);
        self
    }

    /// Adds the failed text, unless an inner text is known.
    pub(crate) fn with_expression(mut self, expression: &str) -> Error {
        if self.0.expression.is_none() {
            self.0.expression = Some(Arc::from(expression));
        }
        self
    }

    /// Adds the position of the text, unless a closer one is known.
    pub fn with_span(mut self, span: &Span) -> Error {
        if self.0.span.is_none() && span.is_located() {
            self.0.span = Some(span.clone());
        }
        self
    }

    /// Adds the next outer variable whose template was being rendered.
    pub(crate) fn while_rendering(mut self, name: &Arc<str>, span: &Span) -> Error {
        self.0.variables.push(Through { name: Arc::clone(name), span: span.clone() });
        self
    }

    /// Adds the position of the task, if the failed text belongs to a variable that the task uses.
    pub fn with_task(mut self, span: &Span) -> Error {
        if !self.0.variables.is_empty() && span.is_located() {
            self.0.task = Some(span.clone());
        }
        self
    }

    /// Full report over several lines: message, position, line and remedy, then the variables and the task that use the
    /// failed text, each with its line.
    pub fn report(&self) -> String {
        let mut text = self.to_string();
        if let Some(span) = &self.0.span {
            push_excerpt(&mut text, span);
        }
        // The message already shows the place of the innermost variable.
        let is_outer = |through: &&Through| Some(&through.span) != self.0.span.as_ref();
        let mut outer = self.0.variables.iter().filter(is_outer);
        for Through { name, span } in outer.by_ref().take(SHOWN) {
            text.push_str(&format!("\n\nused by `{name}`"));
            if span.is_located() {
                text.push_str(&format!(" at {span}"));
                push_excerpt(&mut text, span);
            }
        }
        match outer.count() {
            0 => {}
            1 => text.push_str("\n\nused by 1 more variable"),
            count => text.push_str(&format!("\n\nused by {count} more variables")),
        }
        if let Some(span) = &self.0.task {
            text.push_str(&format!("\n\nused by the task at {span}"));
            push_excerpt(&mut text, span);
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(hint) = &self.0.hint {
            write!(f, " {hint}")?;
        }
        if let Some(expression) = &self.0.expression {
            // A whole file.
            if let (Some(span), true) = (&self.0.span, expression.is_empty()) {
                return write!(f, " In {span}.");
            }
            write!(f, " While evaluating `{}`", shorten(expression))?;
            // The message shows a cycle completely.
            if !self.0.variables.is_empty() && !matches!(self.0.kind, ErrorKind::Recursion { .. }) {
                for Through { name, .. } in &self.0.variables {
                    write!(f, " for `{name}`")?;
                }
            }
            if let Some(span) = &self.0.span {
                write!(f, " at {span}")?;
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

/// Adds the line at a position, unless it must not be shown.
fn push_excerpt(text: &mut String, span: &Span) {
    let excerpt = span.excerpt();
    if !excerpt.is_empty() {
        text.push('\n');
        text.push_str(&excerpt);
    }
}

/// Shortens a template to a recognisable length.
fn shorten(text: &str) -> String {
    const LIMIT: usize = 160;
    let line = text.trim();
    match line.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

/// Lets filters and functions use `?` on our errors, which pass through minijinja unchanged.
impl From<Error> for minijinja::Error {
    fn from(error: Error) -> minijinja::Error {
        minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, error.0.message.clone()).with_source(error)
    }
}

/// Extracts our own error from minijinja's, or turns minijinja's message into a sentence.
impl From<minijinja::Error> for Error {
    fn from(error: minijinja::Error) -> Error {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(current) = cause {
            if let Some(ours) = current.downcast_ref::<Error>() {
                return ours.clone().with_line(error.line());
            }
            // For an error of `std::io`, `source` skips the wrapped error.
            let inner = current.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            cause = inner.map(|inner| inner as &(dyn std::error::Error + 'static)).or_else(|| current.source());
        }
        let sentence = |text: String| {
            let mut characters = text.trim_end_matches('.').chars();
            let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
            format!("{first}{}.", characters.as_str())
        };
        if error.kind() == minijinja::ErrorKind::OutOfFuel {
            let message = format!(
                "The template did not end within {} steps: it has a loop, or loops in loops, over too much.",
                crate::limits::STEPS
            );
            return Error::filter(message).with_line(error.line());
        }
        let message = match error.detail() {
            Some(detail) => detail.to_owned(),
            None => error.kind().to_string(),
        };
        let kind = match error.kind() {
            minijinja::ErrorKind::SyntaxError => ErrorKind::Syntax,
            _ => ErrorKind::Filter,
        };
        Error::new(kind, sentence(message)).with_line(error.line())
    }
}
