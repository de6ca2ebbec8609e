//! The process-wide environment and its cache of compiled texts.
//!
//! An expression is compiled once, however many hosts, tasks and runs evaluate it. The environment knows nothing about
//! them: the [`Root`](crate::root::Root) of each evaluation carries all of that. Texts that have not been used for long
//! are dropped and recompiled on demand.

use std::fmt;
use std::io;
use std::sync::{Arc, LazyLock};

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};

use crate::emission::{self, Printed};
use crate::engine::TemplateOptions;
use crate::error::Error;
use crate::limits;
use crate::recent::Recent;
use crate::syntax::{self, Dialect, Parsed, Part};
use crate::{methods, operators};

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    compiled: minijinja::Expression<'static, 'static>,
    /// The text as written.
    pub(crate) written: String,
    /// Name of the variable, if the expression is only that.
    pub(crate) name: Option<String>,
    /// Whether the expression changes lists or dicts in place.
    pub(crate) mutates: bool,
    /// Whether the expression contains a string that is a template.
    pub(crate) embeds: bool,
    /// Line in the template, counting from 1.
    line: usize,
}

impl Expression {
    fn new(parsed: syntax::Expression) -> Result<Expression, Error> {
        let compiled = environment().compile_expression_owned(parsed.code)?;
        Ok(Expression {
            compiled,
            written: parsed.written,
            name: parsed.name,
            mutates: parsed.mutates,
            embeds: parsed.embeds,
            line: parsed.line,
        })
    }

    /// Evaluates the expression with the variables of a root.
    pub(crate) fn evaluate(&self, root: Value) -> Result<Value, Error> {
        guarded(|| self.compiled.eval(root).map_err(|error| self.locate(error.into())))
    }

    /// Adds the failed expression to an error.
    pub(crate) fn locate(&self, error: Error) -> Error {
        error.at_line(self.line).with_expression(&self.written)
    }
}

/// A compiled text.
#[derive(Debug)]
pub(crate) enum Compiled {
    /// Nothing to evaluate.
    Text(Value),
    /// `{{ }}` without surrounding text.
    Single(Expression),
    /// `{{ }}` and text.
    Parts(Vec<CompiledPart>),
    /// A template with blocks.
    Template(Template),
}

/// A part of a compiled text without blocks.
#[derive(Debug)]
pub(crate) enum CompiledPart {
    Text(String),
    Expression(Expression),
}

/// A compiled template with blocks.
pub(crate) struct Template {
    /// A separate environment, which is dropped with the template.
    environment: Environment<'static>,
    pub(crate) mutates: bool,
    /// Whether the output may be a single value.
    pub(crate) transparent: bool,
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").field("mutates", &self.mutates).finish_non_exhaustive()
    }
}

/// The name of a template in its environment.
const NAME: &str = "template";

/// Prefix of the names of included templates; the rest of the name is their source.
const INCLUDED: &str = "included:";

impl Template {
    fn new(parsed: syntax::Template) -> Result<Template, Error> {
        let mut environment = environment().clone();
        environment.add_template_owned(NAME, parsed.source)?;
        Ok(Template { environment, mutates: parsed.mutates, transparent: parsed.transparent })
    }

    /// Renders to text, to the only printed value, or to nothing if nothing was printed.
    pub(crate) fn render(&self, root: Value) -> Result<Value, Error> {
        guarded(|| Ok(self.rendered(root)?))
    }

    fn rendered(&self, root: Value) -> Result<Value, minijinja::Error> {
        let template = self.environment.get_template(NAME)?;
        let (rendered, printed) = emission::watch(|| {
            let mut output = Output::default();
            template.render_captured_to(root, &mut output)?;
            Ok::<_, minijinja::Error>(output.0)
        });
        let rendered =
            String::from_utf8(rendered?).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Ok(match printed {
            Printed::One(value, text) if self.transparent && text == rendered => value,
            Printed::Nothing if rendered.is_empty() => Value::from(()),
            _ => Value::from(rendered),
        })
    }
}

/// Output of a template, up to the longest allowed text.
#[derive(Default)]
struct Output(Vec<u8>);

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        limits::text(self.0.len() + bytes.len()).map_err(io::Error::other)?;
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Catches panics, because a bug in the engine must not end the run of all hosts.
fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    windlass_yaml::survive(work).unwrap_or_else(|| {
        Err(Error::filter(
            "The template engine failed on this text without a message, which is a defect of the engine.",
        ))
    })
}

fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
        let mut environment = Environment::empty();
        // The treatment of the last newline has been decided before.
        if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
            environment.set_syntax(syntax);
        }
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        // Our undefined values are marks; minijinja's own must reach us.
        environment.set_undefined_behavior(UndefinedBehavior::Chainable);
        environment.set_unknown_method_callback(methods::call);
        environment.set_formatter(emission::format);
        environment.set_debug(false);
        environment.set_fuel(Some(limits::STEPS));
        environment.set_recursion_limit(2000);
        environment.set_loader(|name| Ok(name.strip_prefix(INCLUDED).map(str::to_owned)));
        operators::register(&mut environment);
        environment
    });
    &ENVIRONMENT
}

type Cache<T> = Recent<Result<Arc<T>, Error>>;

/// A cache for the whole process.
const fn cache<T>() -> LazyLock<Cache<T>> {
    LazyLock::new(|| Recent::new(Cache::<T>::ROOM))
}

fn cached<T>(cache: &Cache<T>, text: &str, make: impl FnOnce() -> Result<T, Error>) -> Result<Arc<T>, Error> {
    if let Some(found) = cache.get(text) {
        return found;
    }
    let made = guarded(make).map(Arc::new).map_err(|error| error.with_expression(text));
    cache.keep(text, made)
}

/// Compiles a text with the default delimiters, for strings of playbooks and variables.
pub(crate) fn text(text: &str) -> Result<Arc<Compiled>, Error> {
    static CACHE: LazyLock<Cache<Compiled>> = cache();
    let dialect = Dialect { escapes: syntax::Escapes::Literal, nested_templates: false };
    cached(&CACHE, text, || compile(text, &TemplateOptions::default(), dialect))
}

/// Compiles the text of a template file.
pub(crate) fn file(text: &str, options: &TemplateOptions) -> Result<Arc<Compiled>, Error> {
    static CACHE: LazyLock<Cache<Compiled>> = cache();
    let dialect = Dialect { escapes: syntax::Escapes::Decoded, nested_templates: false };
    let key = format!("{}\0{text}", options.key());
    cached(&CACHE, &key, || compile(text, options, dialect).map_err(|error| error.with_expression("")))
}

/// Compiles an included template file and returns the name to load it by.
pub(crate) fn included(text: &str, options: &TemplateOptions) -> Result<Value, Error> {
    static CACHE: LazyLock<Cache<Value>> = cache();
    let dialect = Dialect { escapes: syntax::Escapes::Decoded, nested_templates: false };
    let key = format!("{}\0{text}", options.key());
    let name = cached(&CACHE, &key, || {
        let parsed = syntax::parse_template(without_newline(text, options), options, dialect)?;
        Ok(Value::from(format!("{INCLUDED}{}", parsed.source)))
    })?;
    Ok(Value::clone(&name))
}

/// Compiles a condition: backslashes escape, and strings may be templates.
pub(crate) fn condition(text: &str) -> Result<Arc<Expression>, Error> {
    static CACHE: LazyLock<Cache<Expression>> = cache();
    let dialect = Dialect { escapes: syntax::Escapes::Decoded, nested_templates: true };
    cached(&CACHE, text, || Expression::new(syntax::parse_expression(text, dialect)?))
}

/// Compiles an expression; its strings are never templates.
pub(crate) fn expression(text: &str) -> Result<Arc<Expression>, Error> {
    static CACHE: LazyLock<Cache<Expression>> = cache();
    let dialect = Dialect { escapes: syntax::Escapes::Decoded, nested_templates: false };
    cached(&CACHE, text, || Expression::new(syntax::parse_expression(text, dialect)?))
}

/// Removes a template's last newline, unless the options keep it.
fn without_newline<'a>(text: &'a str, options: &TemplateOptions) -> &'a str {
    let without = ["\r\n", "\n", "\r"].iter().find_map(|newline| text.strip_suffix(newline));
    without.filter(|_| !options.keep_trailing_newline).unwrap_or(text)
}

fn compile(text: &str, options: &TemplateOptions, dialect: Dialect) -> Result<Compiled, Error> {
    let text = without_newline(text, options);
    Ok(match syntax::parse(text, options, dialect)? {
        // A text of comments only has no value.
        Parsed::Text(rendered) if rendered.is_empty() && !text.is_empty() => Compiled::Text(Value::from(())),
        Parsed::Text(rendered) => Compiled::Text(Value::from(rendered)),
        Parsed::Parts(mut parts) => {
            if let [Part::Expression(_)] = parts.as_slice()
                && let Some(Part::Expression(expression)) = parts.pop()
            {
                return Ok(Compiled::Single(Expression::new(expression)?));
            }
            let mut compiled = Vec::with_capacity(parts.len());
            for part in parts {
                compiled.push(match part {
                    Part::Text(text) => CompiledPart::Text(text),
                    Part::Expression(expression) => CompiledPart::Expression(Expression::new(expression)?),
                });
            }
            Compiled::Parts(compiled)
        }
        // Compile now, so that minijinja's errors show before the first host reaches this text.
        Parsed::Template(template) => Compiled::Template(Template::new(template)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_templates_evict_the_oldest() {
        let memory = Recent::new(64 << 10);
        let dialect = Dialect { escapes: syntax::Escapes::Literal, nested_templates: false };
        let weak: Vec<_> = (0..500)
            .map(|number| {
                let text = format!("{{% if true %}}{number}{{% endif %}}");
                let made = cached(&memory, &text, || compile(&text, &TemplateOptions::default(), dialect)).unwrap();
                assert!(matches!(*made, Compiled::Template(_)));
                Arc::downgrade(&made)
            })
            .collect();
        let kept = weak.iter().filter(|made| made.strong_count() > 0).count();
        assert!((1..=128).contains(&kept), "{kept} of them are kept");
    }
}
