//! The evaluation context of one host and task.

use std::path::PathBuf;
use std::sync::Arc;

use minijinja::{State, Value};

use crate::engine::{Engine, TemplateOptions};
use crate::error::{Error, ErrorKind};
use crate::scope::Scope;

/// Evaluates templates over the variables of one host and task. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Context {
    engine: Engine,
    variables: Arc<dyn Scope>,
}

impl Context {
    pub(crate) fn new(engine: Engine, variables: Arc<dyn Scope>) -> Context {
        Context { engine, variables }
    }

    /// The context in which a filter, test or function is being called.
    pub fn from_state(state: &State<'_, '_>) -> Option<Context> {
        let _ = state;
        None
    }

    /// The engine of this run.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The rendered value of a variable, if there is one of that name.
    pub fn variable(&self, name: &str) -> Result<Option<Value>, Error> {
        let _ = name;
        Ok(None)
    }

    /// The names of all variables.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.variables.names()
    }

    /// The directories in which lookups search; see [`Scope::search_paths`].
    pub fn search_paths(&self) -> Vec<PathBuf> {
        self.variables.search_paths()
    }

    /// Renders the text of a template file.
    pub fn template(&self, text: &str, name: &str, options: &TemplateOptions) -> Result<String, Error> {
        let _ = (text, options);
        Err(Error::new(ErrorKind::Syntax, format!("Template {name} could not be read.")))
    }
}
