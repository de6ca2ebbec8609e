//! `generator`: one host for every combination of layers, with groups named by templates.

use std::sync::Arc;

use windlass_yaml::{Key, Mapping, Node, Span, Value};

use crate::load::Loader;
use crate::plugin::Candidate;
use crate::step::{Statements, Step};
use crate::{Error, Expressions};

/// Maximum number of hosts; more are surely a mistake.
const MOST: usize = 1_000_000;

/// Reads a `generator` configuration.
pub(crate) fn read(loader: &mut Loader<'_>, source: &mut Candidate) -> Result<bool, Error> {
    let configuration = source.configuration(loader, "generator")?;
    let expressions = loader.expressions(&configuration.span)?;
    let layers = section(&configuration, "layers")?;
    let hosts = configuration.get("hosts").ok_or_else(|| missing(&configuration.span, "hosts"))?;
    let name = hosts.get("name").ok_or_else(|| missing(&hosts.span, "hosts.name"))?;
    let mut generator = Generator { expressions, statements: Statements::default() };
    for variables in combinations(&layers)? {
        let host = generator.text(name, &variables)?;
        let span = name.span.clone();
        generator.statements.steps.push(Step::Host { name: Arc::clone(&host), span });
        generator.parents(&host, Child::Host, hosts, &variables, 0)?;
    }
    loader.apply(generator.statements, &source.path).map(|()| true)
}

fn missing(span: &Span, name: &str) -> Error {
    Error::at(span, format!("A `generator` configuration needs `{name}`."))
}

fn section(configuration: &Node, name: &str) -> Result<Arc<Mapping>, Error> {
    let node = configuration.get(name).ok_or_else(|| missing(&configuration.span, name))?;
    let message = format!("`{name}` must be a mapping, but this is {}.", node.kind());
    node.as_map().map(Arc::clone).ok_or_else(|| Error::at(&node.span, message))
}

/// Every combination of one value from each layer; the last layer changes fastest.
fn combinations(layers: &Arc<Mapping>) -> Result<Vec<Arc<Mapping>>, Error> {
    let mut chosen = vec![Mapping::new()];
    for (layer, values) in layers.iter() {
        let Some(items) = values.as_list() else {
            let message = format!("The layer `{}` must be a list, but this is {}.", layer.to_text(), values.kind());
            return Err(Error::at(&values.span, message));
        };
        if chosen.len().saturating_mul(items.len()) > MOST {
            return Err(Error::at(&values.span, format!("The layers stand for more than {MOST} hosts.")));
        }
        let with = |choice: &Mapping, item: &Node| {
            let mut choice = choice.clone();
            choice.insert(layer.clone(), item.clone());
            choice
        };
        chosen = chosen.iter().flat_map(|choice| items.iter().map(move |item| with(choice, item))).collect();
    }
    Ok(chosen.into_iter().map(Arc::new).collect())
}

/// Kind of an entry with parents.
#[derive(Clone, Copy)]
enum Child {
    Host,
    Group,
}

struct Generator {
    expressions: Arc<dyn Expressions>,
    statements: Statements,
}

impl Generator {
    fn render(&self, template: &Node, variables: &Arc<Mapping>) -> Result<Node, Error> {
        self.expressions.render(template, variables).map_err(|reason| Error::at(&template.span, reason))
    }

    fn text(&self, template: &Node, variables: &Arc<Mapping>) -> Result<Arc<str>, Error> {
        let name = self.render(template, variables)?;
        match name.scalar_text().filter(|_| !name.is_null()).filter(|text| !text.is_empty()) {
            Some(text) => Ok(text.into()),
            None => Err(Error::at(&template.span, "The name of a host or group is empty here.")),
        }
    }

    /// Adds the parents of a host or group, and their ancestors.
    fn parents(
        &mut self,
        child: &Arc<str>,
        kind: Child,
        entry: &Node,
        variables: &Arc<Mapping>,
        depth: usize,
    ) -> Result<(), Error> {
        let Some(parents) = entry.get("parents") else { return Ok(()) };
        if depth > crate::yaml::MAX_DEPTH {
            return Err(Error::at(&parents.span, "The groups are nested too deeply."));
        }
        for parent in parents.as_list().unwrap_or_default() {
            let name = parent.get("name").ok_or_else(|| {
                Error::at(&parent.span, format!("`{child}` has a parent without a name here."))
                    .with_hint("Each parent is a mapping with `name`, and `vars` and `parents` if need be.")
            })?;
            let (group, span) = (self.text(name, variables)?, name.span.clone());
            self.statements.steps.push(Step::Group { name: Arc::clone(&group), span: span.clone() });
            for (key, value) in parent.get("vars").and_then(Node::as_map).into_iter().flat_map(|vars| vars.iter()) {
                let value = if matches!(value.value, Value::String(_)) {
                    self.render(value, variables)?
                } else {
                    value.clone()
                };
                let (group, key): (_, Key) = (Arc::clone(&group), key.clone());
                self.statements.steps.push(Step::GroupVariable { group, key, value });
            }
            self.statements.steps.push(match kind {
                Child::Host => Step::Member { group: Arc::clone(&group), host: Arc::clone(child), span },
                Child::Group => Step::Child { parent: Arc::clone(&group), child: Arc::clone(child), span },
            });
            self.parents(&group, Child::Group, parent, variables, depth + 1)?;
        }
        Ok(())
    }
}
