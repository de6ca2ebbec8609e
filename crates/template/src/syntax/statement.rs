//! Parses the statements in `{% %}` and generates code for minijinja.

use crate::error::Error;

use super::expression::Parser;

/// A statement translated for minijinja.
#[derive(Default)]
pub(super) struct Statement {
    pub(super) code: String,
    /// Whether the statement captures output up to its end.
    pub(super) captures: bool,
    /// Whether the statement prints in a special way, so that the template's result is text.
    pub(super) opaque: bool,
    /// Target of a block assignment without filters.
    pub(super) sets: Option<String>,
    /// Names that it assigns.
    pub(super) names: Vec<String>,
}

impl From<String> for Statement {
    fn from(code: String) -> Statement {
        Statement { code, ..Statement::default() }
    }
}

impl Statement {
    /// A statement that prints in a special way.
    fn opaque(code: String) -> Statement {
        Statement { code, opaque: true, ..Statement::default() }
    }

    /// The beginning of a macro, which records its output.
    fn body(code: &str, names: Vec<String>) -> Statement {
        Statement { code: format!("{code} %}}{{% {BEGIN}"), captures: true, names, ..Statement::default() }
    }
}

/// Code at the beginning of macros and block assignments.
const BEGIN: &str = "set __capture = true|__capture";
pub(super) const END: &str = "set __capture = false|__capture";

/// Parses the tokens of one tag.
pub(super) fn statement(parser: &mut Parser<'_>) -> Result<Statement, Error> {
    let word = parser.expect_name()?;
    let statement = match word {
        "if" | "elif" => format!("{word} ({}|__check)", parser.tuple()?).into(),
        "for" => for_loop(parser)?.into(),
        "set" => set(parser)?,
        "macro" => macro_(parser)?,
        "call" => call(parser)?,
        "filter" => Statement { captures: true, ..Statement::opaque(filter_block(parser)?) },
        "do" => format!("set __done = {}", parser.tuple()?).into(),
        "with" => with(parser)?.into(),
        "include" => Statement::opaque(include(parser)?),
        "import" => {
            let template = parser.condition()?;
            word_of(parser, "as")?;
            let name = parser.expect_name()?;
            let code = format!("import ({template}|__include(false)) as {name}");
            let code = if context_word(parser).unwrap_or(false) { code } else { apart(&code) };
            Statement { names: vec![name.to_owned()], ..Statement::opaque(code) }
        }
        "from" => from_import(parser)?,
        "extends" => Statement::opaque(format!("extends ({}|__include(false))", parser.condition()?)),
        "block" => {
            let name = parser.expect_name()?;
            let mut code = format!("block {name}");
            while let Some(flag) = parser.peek_name() {
                if flag == "required" {
                    code.push_str(" required");
                }
                parser.advance();
            }
            Statement { captures: true, ..Statement::opaque(code) }
        }
        "autoescape" => format!("autoescape {}", parser.condition()?).into(),
        "endblock" | "endmacro" => {
            // The name may be repeated here.
            parser.advance();
            let end = if word == "endmacro" { format!("{END} %}}{{% ") } else { String::new() };
            format!("{end}{word}").into()
        }
        "endcall" => format!("{END} %}}{{% {word}").into(),
        "else" | "endif" | "endfor" | "endset" | "endfilter" | "endwith" | "endautoescape" | "break" | "continue" => {
            word.to_owned().into()
        }
        _ => return Err(Error::syntax(format!("Jinja has no tag `{word}`."))),
    };
    if !parser.at_end() {
        return Err(parser.unexpected("the end of the tag"));
    }
    Ok(statement)
}

fn word_of(parser: &mut Parser<'_>, word: &str) -> Result<(), Error> {
    if parser.accept_word(word) { Ok(()) } else { Err(parser.unexpected(&format!("`{word}`"))) }
}

/// Parses assignment targets: `a`, `a, b`, `(a, b)`, `namespace.a`.
fn target(parser: &mut Parser<'_>) -> Result<String, Error> {
    let mut names = Vec::new();
    let mut comma = false;
    loop {
        if parser.accept("(") {
            names.push(format!("({})", target(parser)?));
            parser.expect(")")?;
        } else {
            let mut name = parser.expect_name()?.to_owned();
            while parser.accept(".") {
                name.push('.');
                name.push_str(parser.expect_name()?);
            }
            names.push(name);
        }
        if !parser.accept(",") {
            break;
        }
        comma = true;
        let ends = parser.peek().is_none_or(|token| token.is("=") || token.is(")")) || parser.peek_name() == Some("in");
        if ends {
            break;
        }
    }
    Ok(if comma && names.len() == 1 { format!("{},", names.join("")) } else { names.join(", ") })
}

fn for_loop(parser: &mut Parser<'_>) -> Result<String, Error> {
    let names = target(parser)?;
    word_of(parser, "in")?;
    let items = parser.tuple_without_condition()?;
    let mut code = format!("for {names} in ({items}|__iter)");
    if parser.accept_word("if") {
        code.push_str(&format!(" if ({}|__check)", parser.condition()?));
    }
    if parser.accept_word("recursive") {
        code.push_str(" recursive");
    }
    Ok(code)
}

/// Parses an assignment, or the beginning of a block assignment.
fn set(parser: &mut Parser<'_>) -> Result<Statement, Error> {
    let target = target(parser)?;
    let is_name = |word: &&str| !word.is_empty() && !word.contains('.');
    let names = target.split([',', ' ', '(', ')']).filter(is_name).map(str::to_owned).collect();
    if parser.accept("=") {
        let value = parser.tuple()?;
        let value = if parser.mutates { format!("({value}|__own)") } else { value };
        // A namespace outlives a loop's iteration, so each iteration might wrap its values once more.
        let value = if target.contains('.') { format!("({value}|__shallow)") } else { value };
        return Ok(Statement { names, ..format!("set {target} = {value}").into() });
    }
    let mut code = format!("set {target}");
    if !parser.peek_is("|") {
        return Ok(Statement { sets: Some(target), ..Statement::body(&code, names) });
    }
    while parser.accept("|") {
        code.push_str(&bare_filter(parser)?);
    }
    Ok(Statement { captures: true, names, ..Statement::opaque(code) })
}

/// Parses a filter on a captured block: ` | __filter("name", arguments)`.
fn bare_filter(parser: &mut Parser<'_>) -> Result<String, Error> {
    Ok(format!(" {}", parser.filter("")?))
}

fn parameters(parser: &mut Parser<'_>) -> Result<String, Error> {
    parser.expect("(")?;
    let mut parameters: Vec<String> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    while !parser.accept(")") {
        if !parameters.is_empty() {
            parser.expect(",")?;
        }
        let name = parser.expect_name()?;
        if names.contains(&name) {
            return Err(Error::syntax(format!("The macro has its parameter `{name}` twice.")));
        }
        names.push(name);
        if parser.accept("=") {
            parameters.push(format!("{name}={}", parser.condition()?));
        } else {
            parameters.push(name.to_owned());
        }
    }
    Ok(parameters.join(", "))
}

fn macro_(parser: &mut Parser<'_>) -> Result<Statement, Error> {
    let name = parser.expect_name()?;
    let parameters = parameters(parser)?;
    Ok(Statement::body(&format!("macro {name}({parameters})"), vec![name.to_owned()]))
}

fn call(parser: &mut Parser<'_>) -> Result<Statement, Error> {
    let parameters = if parser.peek().is_some_and(|token| token.is("(")) {
        format!("({})", parameters(parser)?)
    } else {
        String::new()
    };
    // minijinja requires the call itself here.
    parser.has_macros = false;
    Ok(Statement::body(&format!("call{parameters} {}", parser.condition()?), Vec::new()))
}

fn filter_block(parser: &mut Parser<'_>) -> Result<String, Error> {
    let first = bare_filter(parser)?;
    let mut code = format!("filter{}", first.replacen(" |", " ", 1));
    while parser.accept("|") {
        code.push_str(&bare_filter(parser)?);
    }
    Ok(code)
}

fn with(parser: &mut Parser<'_>) -> Result<String, Error> {
    let mut code = String::from("with");
    let mut first = true;
    while !parser.at_end() {
        if !first {
            parser.expect(",")?;
            code.push(',');
        }
        first = false;
        let name = parser.expect_name()?;
        parser.expect("=")?;
        code.push_str(&format!(" {name} = {}", parser.condition()?));
    }
    Ok(code)
}

/// Parses `with context` or `without context`; `None` without either.
fn context_word(parser: &mut Parser<'_>) -> Option<bool> {
    match parser.peek_name() {
        Some(word @ ("with" | "without")) => {
            parser.advance();
            parser.accept_word("context");
            Some(word == "with")
        }
        _ => None,
    }
}

/// Wraps a statement whose template must not see the variables. minijinja always passes the context, so they are hidden
/// meanwhile.
fn apart(code: &str) -> String {
    format!("set __apart = true|__apart %}}{{% {code} %}}{{% set __apart = false|__apart")
}

fn include(parser: &mut Parser<'_>) -> Result<String, Error> {
    let template = parser.condition()?;
    let ignore = parser.accept_word("ignore");
    if ignore {
        word_of(parser, "missing")?;
    }
    let suffix = if ignore { " ignore missing" } else { "" };
    let code = format!("include ({template}|__include({ignore})){suffix}");
    Ok(if context_word(parser).unwrap_or(true) { code } else { apart(&code) })
}

fn from_import(parser: &mut Parser<'_>) -> Result<Statement, Error> {
    let template = parser.condition()?;
    word_of(parser, "import")?;
    let (mut imports, mut names): (Vec<String>, Vec<String>) = Default::default();
    while let Some(name) = parser.peek_name() {
        if matches!(name, "with" | "without") && !imports.is_empty() {
            break;
        }
        parser.advance();
        let own = if parser.accept_word("as") { parser.expect_name()? } else { name };
        imports.push(format!("{name} as {own}"));
        names.push(own.to_owned());
        if !parser.accept(",") {
            break;
        }
    }
    let code = format!("from ({template}|__include(false)) import {}", imports.join(", "));
    let code = if context_word(parser).unwrap_or(false) { code } else { apart(&code) };
    Ok(Statement { names, ..Statement::opaque(code) })
}
