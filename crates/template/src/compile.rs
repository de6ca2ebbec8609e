//! The one environment of the process and everything that was compiled in it.
//!
//! An expression is compiled once, however many hosts, tasks and runs evaluate it: the environment knows nothing about
//! them, all of that comes in with the [`Root`](crate::root::Root) of each evaluation.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};

use crate::emission::{self, Printed};
use crate::engine::TemplateOptions;
use crate::error::Error;
use crate::limits;
use crate::syntax::{self, Dialect, Parsed, Part};
use crate::{methods, operators};

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    compiled: minijinja::Expression<'static, 'static>,
    /// The text as written.
    pub(crate) written: String,
    /// The variable, if it is only one.
    pub(crate) name: Option<String>,
    /// It changes lists or dicts in place.
    pub(crate) mutates: bool,
    /// The line it is on, counted from 1.
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
            line: parsed.line,
        })
    }

    /// Evaluates it over the variables of a root.
    pub(crate) fn evaluate(&self, root: Value) -> Result<Value, Error> {
        guarded(|| self.compiled.eval(root).map_err(|error| self.locate(error.into())))
    }

    /// Adds to an error which expression failed.
    pub(crate) fn locate(&self, error: Error) -> Error {
        error.at_line(self.line).with_expression(&self.written)
    }
}

/// A compiled text.
#[derive(Debug)]
pub(crate) enum Compiled {
    /// Nothing to evaluate.
    Text(Value),
    /// `{{ }}` and nothing else.
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
#[derive(Debug)]
pub(crate) struct Template {
    name: String,
    pub(crate) mutates: bool,
    /// Its output may be a single value.
    pub(crate) transparent: bool,
}

impl Template {
    /// Renders it to text, to the only value it printed, or to nothing if it printed nothing at all.
    pub(crate) fn render(&self, root: Value) -> Result<Value, Error> {
        guarded(|| Ok(self.rendered(root)?))
    }

    fn rendered(&self, root: Value) -> Result<Value, minijinja::Error> {
        let template = environment().get_template(&self.name)?;
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

/// What a template writes, up to the longest text.
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

/// A mistake in the engine must not end the run of all hosts.
fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::filter(
            "The template engine failed on this text in a way it cannot describe, which is a mistake in it.",
        ))
    })
}

/// The environment.
fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut environment = Environment::empty();
        // What the last newline is has been decided before.
        if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
            environment.set_syntax(syntax);
        }
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        // Undefined values are marks of ours; what minijinja itself leaves undefined must reach us.
        environment.set_undefined_behavior(UndefinedBehavior::Chainable);
        environment.set_unknown_method_callback(methods::call);
        environment.set_formatter(emission::format);
        environment.set_debug(false);
        environment.set_fuel(Some(limits::STEPS));
        environment.set_recursion_limit(2000);
        environment.set_loader(|name| Ok(sources().read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()));
        operators::register(&mut environment);
        environment
    })
}

type Sources = RwLock<HashMap<String, String>>;

/// The sources of the templates the environment may load.
fn sources() -> &'static Sources {
    static SOURCES: OnceLock<Sources> = OnceLock::new();
    SOURCES.get_or_init(Sources::default)
}

/// Gives a template's source to the environment; the answer is the name to load it by.
fn register(source: String) -> String {
    static COUNTER: AtomicUsize = AtomicUsize::new(0);
    let name = format!("template-{}", COUNTER.fetch_add(1, Ordering::Relaxed));
    sources().write().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), source);
    name
}

type Cache<T> = RwLock<HashMap<Box<str>, Result<Arc<T>, Error>>>;

fn cached<T>(cache: &'static Cache<T>, text: &str, make: impl FnOnce() -> Result<T, Error>) -> Result<Arc<T>, Error> {
    if let Some(found) = cache.read().unwrap_or_else(PoisonError::into_inner).get(text) {
        return found.clone();
    }
    let made = guarded(make).map(Arc::new).map_err(|error| error.with_expression(text));
    cache.write().unwrap_or_else(PoisonError::into_inner).entry(text.into()).or_insert(made).clone()
}

/// Compiles a text with the usual delimiters, as strings of playbooks and variables are.
pub(crate) fn text(text: &str) -> Result<Arc<Compiled>, Error> {
    static CACHE: OnceLock<Cache<Compiled>> = OnceLock::new();
    let dialect = Dialect { escapes: syntax::Escapes::Literal, nested_templates: false };
    cached(CACHE.get_or_init(Cache::default), text, || compile(text, &TemplateOptions::default(), dialect))
}

/// Compiles the text of a template file.
pub(crate) fn file(text: &str, options: &TemplateOptions) -> Result<Arc<Compiled>, Error> {
    static CACHE: OnceLock<Cache<Compiled>> = OnceLock::new();
    let dialect = Dialect { escapes: syntax::Escapes::Decoded, nested_templates: false };
    let key = format!("{}\0{text}", options.key());
    cached(CACHE.get_or_init(Cache::default), &key, || {
        compile(text, options, dialect).map_err(|error| error.with_expression(""))
    })
}

/// Compiles a template file that another one includes; the answer is the name to load it by.
pub(crate) fn included(text: &str, options: &TemplateOptions) -> Result<String, Error> {
    static CACHE: OnceLock<Cache<String>> = OnceLock::new();
    let dialect = Dialect { escapes: syntax::Escapes::Decoded, nested_templates: false };
    let key = format!("{}\0{text}", options.key());
    let name = cached(CACHE.get_or_init(Cache::default), &key, || {
        Ok(register(syntax::parse_template(without_newline(text, options), options, dialect)?.source))
    })?;
    Ok(name.as_str().to_owned())
}

/// Compiles an expression as conditions are written: backslashes escape, and strings may be templates.
pub(crate) fn condition(text: &str) -> Result<Arc<Expression>, Error> {
    static CACHE: OnceLock<Cache<Expression>> = OnceLock::new();
    let dialect = Dialect { escapes: syntax::Escapes::Decoded, nested_templates: true };
    cached(CACHE.get_or_init(Cache::default), text, || Expression::new(syntax::parse_expression(text, dialect)?))
}

/// Compiles an expression; its strings are never templates.
pub(crate) fn expression(text: &str) -> Result<Arc<Expression>, Error> {
    static CACHE: OnceLock<Cache<Expression>> = OnceLock::new();
    let dialect = Dialect { escapes: syntax::Escapes::Decoded, nested_templates: false };
    cached(CACHE.get_or_init(Cache::default), text, || Expression::new(syntax::parse_expression(text, dialect)?))
}

/// The last newline of a template is none of its text, unless that is asked for.
fn without_newline<'a>(text: &'a str, options: &TemplateOptions) -> &'a str {
    let without = ["\r\n", "\n", "\r"].iter().find_map(|newline| text.strip_suffix(newline));
    without.filter(|_| !options.keep_trailing_newline).unwrap_or(text)
}

fn compile(text: &str, options: &TemplateOptions, dialect: Dialect) -> Result<Compiled, Error> {
    let text = without_newline(text, options);
    Ok(match syntax::parse(text, options, dialect)? {
        // Only comments: no value at all.
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
        Parsed::Template(template) => {
            let name = register(template.source);
            // What minijinja does not accept is to be known now, not when the first host gets here.
            environment().get_template(&name)?;
            Compiled::Template(Template { name, mutates: template.mutates, transparent: template.transparent })
        }
    })
}
