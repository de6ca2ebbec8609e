//! `vars_prompt`: variables the user is asked for before a play.

use std::io::{BufRead as _, IsTerminal as _};
use std::sync::Arc;

use windlass_template::Context;
use windlass_yaml::{Mapping, Node};

use super::execute::Shared;
use crate::error::{Error, Result};
use crate::output::Event;
use crate::playbook::Play;
use crate::vars::truth;

/// Asks for what the play wants to know and the command line does not say. Without a terminal the defaults are taken.
pub(super) fn answers(play: &Play, context: &Context, shared: &Shared) -> Result<Arc<Mapping>> {
    let mut answers = Mapping::new();
    for entry in play.frame.keywords.list("vars_prompt") {
        let field = |name: &str| entry.get(name).filter(|node| !node.is_null());
        let Some(name) = field("name").and_then(Node::scalar_text) else {
            return Err(Error::parse("an entry of vars_prompt needs a name", &entry.span));
        };
        if let Some(unsupported) = ["encrypt", "salt", "salt_size"].iter().find(|key| field(key).is_some()) {
            let message = format!("'{unsupported}' of vars_prompt is not supported");
            return Err(Error::parse(message, &entry.span).hint("the filter password_hash does the same"));
        }
        if shared.run.extra_vars.contains_key(&name) {
            continue;
        }
        let rendered =
            |node: &Node| context.render_to_string(node).map_err(|error| Error::parse(error.to_string(), &node.span));
        let default = field("default").map(rendered).transpose()?;
        let prompt = field("prompt").map(rendered).transpose()?.unwrap_or_else(|| name.clone());
        let flag = |key: &str, otherwise: bool| {
            field(key).map_or(otherwise, |node| context.render(node).is_ok_and(|value| truth(&value)))
        };
        let answer = if std::io::stdin().is_terminal() {
            let shown = default.as_ref().map(|default| format!(" [{default}]")).unwrap_or_default();
            let first = ask(&format!("{prompt}{shown}: "), flag("private", true), shared)?;
            if flag("confirm", false) && ask(&format!("confirm {prompt}: "), flag("private", true), shared)? != first {
                return Err(Error::new(format!("the two answers for '{name}' differ")));
            }
            if first.is_empty() { default } else { Some(first) }
        } else {
            shared.warn(format!("Not prompting for '{name}': the standard input is no terminal, its default is taken"));
            default
        };
        if flag("private", true)
            && let Some(answer) = &answer
        {
            shared.secrets.add(answer);
        }
        let value =
            answer.map_or_else(|| Node::null(entry.span.clone()), |answer| Node::literal(answer, entry.span.clone()));
        answers.insert_str(&name, value);
    }
    Ok(Arc::new(answers))
}

fn ask(prompt: &str, private: bool, shared: &Shared) -> Result<String> {
    let fail = |error: std::io::Error| Error::new(format!("'{prompt}' cannot be asked: {error}"));
    if private {
        return rpassword::prompt_password(prompt).map_err(fail);
    }
    let _ = shared.events.send(Event::Notice(prompt.to_owned()));
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(fail)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
