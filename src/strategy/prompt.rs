//! `vars_prompt`: asks the user for variables before a play.

use std::io::IsTerminal as _;
use std::sync::Arc;

use windlass_template::{Context, Value, Variable, Variables};
use windlass_yaml::{Mapping, Node, Span};

use super::ask::{Echo, ask};
use super::execute::Shared;
use crate::connection::Secret;
use crate::error::{Error, Result};
use crate::outcome::truth;
use crate::output::{Event, leaves};
use crate::playbook::Play;
use crate::vars::Answer;

/// Asks for the play's prompted variables that the command line does not set. Without a terminal, defaults apply.
pub(super) async fn answers(play: &Play, context: &Context, shared: &Shared) -> Result<Arc<Mapping>> {
    let mut answers = Mapping::new();
    for entry in play.frame.keywords.list("vars_prompt") {
        let question = Question::read(&entry, context)?;
        if let Some(given) = shared.run.extra_vars.get(&question.name) {
            leaves(given, &mut |text| question.hide(text, shared));
            continue;
        }
        let (answer, is_written) = question.asked_once(shared).await?;
        let recorded = shared.recorder().map(|recorder| recorder.answered(&question.name, &answer)).transpose()?;
        recorded.flatten().into_iter().for_each(|warning| shared.warn(warning));
        let answer = question.encrypted(answer, context, shared)?;
        // The answer has no position in a file.
        let span = Span::synthetic("vars_prompt");
        // Typed text may be a template, as in a file of variables. A default computed by a template is data.
        #[expect(clippy::disallowed_methods, reason = "the user typed it, or the project has it as the default")]
        let value = match question.is_unsafe || !is_written {
            true => Node::literal(answer, span),
            false => Node::of_project(answer, span),
        };
        answers.insert_str(&question.name, value);
    }
    Ok(Arc::new(answers))
}

struct Question<'a> {
    entry: &'a Node,
    name: String,
    prompt: String,
    default: Option<String>,
    private: Option<bool>,
    confirm: bool,
    is_unsafe: bool,
    encrypt: Option<String>,
    salt: Option<String>,
    salt_size: Option<String>,
}

impl<'a> Question<'a> {
    fn read(entry: &'a Node, context: &Context) -> Result<Question<'a>> {
        let field = |name: &str| entry.get(name).filter(|node| !node.is_null());
        let text = |name: &str| {
            let node = field(name)?;
            Some(context.render_to_string(node).map_err(|error| Error::parse(error.report(), &node.span).generic()))
        };
        let flag = |name: &str| field(name).map(|node| context.render(node).is_ok_and(|value| truth(&value)));
        let Some(name) = text("name").transpose()? else {
            return Err(Error::parse("Invalid vars_prompt data structure, missing 'name' key", &entry.span));
        };
        let encrypt = text("encrypt").transpose()?;
        Ok(Question {
            entry,
            prompt: text("prompt").transpose()?.unwrap_or_else(|| name.clone()),
            default: text("default").transpose()?,
            private: flag("private"),
            confirm: flag("confirm").unwrap_or(false),
            is_unsafe: flag("unsafe").unwrap_or(false),
            salt: text("salt").transpose()?,
            salt_size: text("salt_size").transpose()?,
            name,
            encrypt,
        })
    }

    /// Returns the answer to the same question of the plan before this run, if there was one, and asks otherwise.
    async fn asked_once(&self, shared: &Shared) -> Result<(String, bool)> {
        let run = &shared.run;
        let place = format!("{} {}", self.entry.span, self.name);
        if !run.settings.plans
            && let Some(answer) = run.answers.take(&place)
        {
            let text = answer.text.expose().to_owned();
            self.hide(&text, shared);
            return Ok((text, answer.is_written));
        }
        let (text, is_written) = self.answer(shared).await?;
        if run.settings.plans {
            run.answers.add(Answer { place, text: Secret::new(text.as_str()), is_written });
        }
        Ok((text, is_written))
    }

    /// Returns the answer, and whether the user or the project wrote it.
    async fn answer(&self, shared: &Shared) -> Result<(String, bool)> {
        if let Some(default) = &self.default {
            self.hide(default, shared);
        }
        if !std::io::stdin().is_terminal() {
            shared.warn("Not prompting as we are not in interactive mode");
            // Python's text for `None`.
            return Ok((self.default.clone().unwrap_or_else(|| "None".to_owned()), self.is_default_written()));
        }
        let shown = match (&self.default, self.prompt.is_empty()) {
            (_, true) => format!("input for {}: ", self.name),
            (Some(default), _) => format!("{} [{default}]: ", self.prompt),
            (None, _) => format!("{}: ", self.prompt),
        };
        let echo = if self.private.unwrap_or(true) { Echo::Hidden } else { Echo::Shown };
        loop {
            let first = ask(&shown, echo, shared).await?.unwrap_or_default();
            if self.confirm && ask(&format!("confirm {shown}"), echo, shared).await?.unwrap_or_default() != first {
                let _ = shared.events.send(Event::Notice("***** VALUES ENTERED DO NOT MATCH ****".to_owned()));
                continue;
            }
            self.hide(&first, shared);
            return Ok(match &self.default {
                Some(default) if first.is_empty() => (default.clone(), self.is_default_written()),
                _ => (first, true),
            });
        }
    }

    /// Masks a value of the variable from now on. Prompts are private by default; with an explicit `private: true` any
    /// value counts as a password.
    fn hide(&self, value: &str, shared: &Shared) {
        match self.private {
            Some(true) => shared.secrets.add_password(value),
            None => shared.secrets.add(value),
            Some(false) => {}
        }
    }

    /// Whether the default is written literally in the project rather than computed by a template.
    fn is_default_written(&self) -> bool {
        self.entry.get("default").and_then(Node::as_str).is_none_or(|text| !text.contains('{'))
    }

    /// Salt for the encryption: the play's, otherwise the run's, so that a resumed run has the same value again.
    fn salt(&self, method: &str, shared: &Shared) -> Option<String> {
        let given = self.salt.clone().filter(|salt| !salt.is_empty());
        given.or_else(|| {
            let size = match (&self.salt_size, method.trim_end_matches("_crypt")) {
                (Some(size), _) => size.trim().parse().ok()?,
                (None, "md5") => 8,
                (None, "sha256" | "sha512") => 16,
                (None, "bcrypt" | "blowfish") => 22,
                (None, _) => return None,
            };
            Some(shared.recorder()?.salt(&self.name, size))
        })
    }

    /// Encrypts the answer if `encrypt` is set.
    fn encrypted(&self, answer: String, context: &Context, shared: &Shared) -> Result<String> {
        let Some(method) = &self.encrypt else { return Ok(answer) };
        let data = |value: &str| Variable::Data(Value::from(value));
        let mut vars =
            Variables::from_iter([(Arc::from("_answer"), data(&answer)), (Arc::from("_method"), data(method))]);
        let mut options = String::new();
        if let Some(salt) = self.salt(method, shared) {
            vars.insert(Arc::from("_salt"), data(&salt));
            options.push_str(", salt=_salt");
        }
        if let Some(size) = &self.salt_size {
            vars.insert(Arc::from("_size"), data(size));
            options.push_str(", salt_size=_size|int");
        }
        #[expect(clippy::disallowed_methods, reason = "a constant: what it works on are variables")]
        let filter =
            Node::of_project(format!("{{{{ _answer | password_hash(_method{options}) }}}}"), self.entry.span.clone());
        context.with(vars).render_to_string(&filter).map_err(|error| Error::parse(error.report(), &self.entry.span))
    }
}
