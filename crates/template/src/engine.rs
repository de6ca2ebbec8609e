//! One run's template engine.

use std::path::PathBuf;
use std::sync::Arc;

use crate::context::Context;
use crate::scope::Scope;

/// Which line of Ansible's behaviour the types and conditionals follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compat {
    /// ansible-core 2.18 and before.
    V2_18,
    /// ansible-core 2.19 and later.
    #[default]
    V2_19,
}

/// What a run's engine needs to know.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which line of behaviour to follow.
    pub compat: Compat,
    /// The directory of the playbook.
    pub playbook_dir: PathBuf,
}

/// How one template file is read.
#[derive(Clone, Debug)]
pub struct TemplateOptions {
    /// Drop the first newline after a block tag.
    pub trim_blocks: bool,
    /// Drop spaces before a block tag that starts a line.
    pub lstrip_blocks: bool,
    /// What a newline becomes.
    pub newline_sequence: String,
    /// `{%` and `%}`.
    pub block: (String, String),
    /// `{{` and `}}`.
    pub variable: (String, String),
    /// `{#` and `#}`.
    pub comment: (String, String),
}

impl Default for TemplateOptions {
    fn default() -> Self {
        let pair = |start: &str, end: &str| (start.to_owned(), end.to_owned());
        TemplateOptions {
            trim_blocks: true,
            lstrip_blocks: false,
            newline_sequence: "\n".to_owned(),
            block: pair("{%", "%}"),
            variable: pair("{{", "}}"),
            comment: pair("{#", "#}"),
        }
    }
}

/// The template engine of one run. Cheap to clone; shared by all hosts and threads.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) options: Arc<Options>,
}

impl Engine {
    /// Makes the engine of a run.
    pub fn new(options: Options) -> Engine {
        Engine { options: Arc::new(options) }
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Opens an evaluation context over the variables of one host and task.
    pub fn scope(&self, variables: Arc<dyn Scope>) -> Context {
        Context::new(self.clone(), variables)
    }
}
