//! Names that a text uses, found without evaluating it, for static checks.

use crate::compat::Compat;
use crate::compile;
use crate::engine::TemplateOptions;
use crate::error::Error;
use crate::header;
use crate::syntax::{Escapes, Kind, Piece, Token, is_template, scan, tokenize};

/// Kind of a text, which decides how it is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A value of a playbook or variable file.
    Text,
    /// A condition or another expression without delimiters. With delimiters, it counts as [`Form::Text`].
    Expression,
    /// The content of a template file.
    File,
}

/// Kind of a used name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseKind {
    /// A variable.
    Variable,
    /// A filter.
    Filter,
    /// A test.
    Test,
}

/// A name where it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Kind of the name.
    pub kind: UseKind,
    /// The name.
    pub name: String,
    /// Position in the text, in bytes.
    pub offset: usize,
    /// Whether an undefined value is acceptable here: `default` follows, or a test for being defined.
    pub is_guarded: bool,
}

/// A part of a text between `{{` and `}}`, or a whole expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// Start of the text between the delimiters, in bytes.
    pub start: usize,
    /// End of that text.
    pub end: usize,
}

/// Names that a text uses.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    /// Used names in order.
    pub names: Vec<Use>,
    /// Names that the text itself binds: targets of loops and assignments, macros, their parameters, imports.
    pub bound: Vec<String>,
    /// Parts between `{{` and `}}`, without white space control.
    pub expressions: Vec<Expression>,
}

/// Error of a text that is not a template, with its position in the text.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The reason.
    pub message: String,
    /// Line in the text, counting from 1, if known.
    pub line: Option<u32>,
    /// Column in the text, counting from 1, if known.
    pub column: Option<u32>,
}

/// Finds the names that a text uses. Fails if the text cannot be parsed.
pub fn uses(text: &str, form: Form) -> Result<Uses, Fault> {
    find(text, form).map_err(|error| {
        let (line, column) = error.position().unzip();
        Fault { message: error.message().to_owned(), line: line.or(error.line()), column }
    })
}

fn find(text: &str, form: Form) -> Result<Uses, Error> {
    let mut found = Uses::default();
    if form == Form::Expression && !is_template(text) {
        let (tokens, _) = tokenize(text, 0, None, Escapes::Decoded)?;
        compile::condition(text)?;
        expression(&tokens, &mut found);
        return Ok(found);
    }
    let is_file = form == Form::File;
    if !is_file && !is_template(text) {
        return Ok(found);
    }
    let usual = TemplateOptions::default();
    let (body, options) = header::split(text, &usual, Compat::default(), &|_| ())?;
    match is_file {
        true => drop(compile::file(body, &options)?),
        false => drop(compile::text(text)?),
    }
    let has_own_syntax = options.line_statement_prefix.is_some() || options.line_comment_prefix.is_some();
    if has_own_syntax {
        return Ok(found);
    }
    let escapes = if is_file { Escapes::Decoded } else { Escapes::Literal };
    for piece in scan(body, &options, escapes)? {
        match piece {
            Piece::Text(_) => {}
            Piece::Variable { written, tokens } => {
                let start = written.as_ptr().addr().saturating_sub(body.as_ptr().addr());
                found.expressions.push(Expression { start, end: start + written.len() });
                expression(&tokens, &mut found);
            }
            Piece::Block { tokens, .. } => statement(&tokens, &mut found),
        }
    }
    let skipped = text.len() - body.len();
    found.names.iter_mut().for_each(|name| name.offset += skipped);
    Ok(found)
}

/// Whether every template has this name: a function or `vars`.
pub fn is_global(name: &str) -> bool {
    crate::globals::is_global(name)
}

/// Operators of comparisons with `true` and `false`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiteralComparison {
    /// Start of the compared path, in bytes.
    pub start: usize,
    /// End of the path.
    pub path_end: usize,
    /// End of the literal.
    pub end: usize,
    /// Whether the comparison holds if the path is true.
    pub holds_if_true: bool,
    /// Whether the comparison stands alone between connectives, so that it can be rewritten.
    pub is_whole: bool,
}

/// Comparisons with `true` or `false` in an expression without delimiters.
pub fn literal_comparisons(text: &str) -> Vec<LiteralComparison> {
    let Ok((tokens, _)) = tokenize(text, 0, None, Escapes::Decoded) else { return Vec::new() };
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let equals = token.is("==");
        if !equals && !token.is("!=") {
            continue;
        }
        let literal = tokens.get(index + 1).and_then(Token::name);
        let truth = match literal {
            Some("true" | "True") => true,
            Some("false" | "False") => false,
            _ => continue,
        };
        let Some(first) = path_start(&tokens, index) else { continue };
        let is_border = |token: Option<&Token<'_>>, brackets: [&str; 2]| match token {
            None => true,
            Some(token) => {
                token.is(brackets[0])
                    || token.is(brackets[1])
                    || matches!(token.name(), Some("and" | "or" | "not" | "if" | "else"))
            }
        };
        let before = first.checked_sub(1).and_then(|before| tokens.get(before));
        let is_whole = is_border(before, ["(", "("]) && is_border(tokens.get(index + 2), [")", ")"]);
        let (Some(start), Some(path_end), Some(end)) = (
            tokens.get(first).map(|token| token.start),
            index.checked_sub(1).and_then(|last| tokens.get(last)).map(|token| token.end),
            tokens.get(index + 1).map(|token| token.end),
        ) else {
            continue;
        };
        found.push(LiteralComparison { start, path_end, end, holds_if_true: truth == equals, is_whole });
    }
    found
}

/// Index of the first token of the names, attributes and subscripts that end before `end`.
fn path_start(tokens: &[Token<'_>], end: usize) -> Option<usize> {
    let mut index = end.checked_sub(1)?;
    loop {
        if tokens.get(index)?.is("]") {
            let mut open = 1_usize;
            while open > 0 {
                index = index.checked_sub(1)?;
                let token = tokens.get(index)?;
                open = if token.is("]") { open + 1 } else { open - usize::from(token.is("[")) };
            }
            index = index.checked_sub(1)?;
            continue;
        }
        let token = tokens.get(index)?;
        if !matches!(token.kind, Kind::Name(_) | Kind::Integer(_)) {
            return None;
        }
        match index.checked_sub(1).and_then(|before| tokens.get(before)) {
            Some(before) if before.is(".") => index = index.checked_sub(2)?,
            _ => return matches!(token.kind, Kind::Name(_)).then_some(index),
        }
    }
}

/// Words of the grammar, which are not variables.
const WORDS: [&str; 14] =
    ["and", "or", "not", "if", "else", "in", "is", "true", "false", "none", "True", "False", "None", "recursive"];

/// Notes the names that an expression uses.
fn expression(tokens: &[Token<'_>], found: &mut Uses) {
    // Whatever stands before the last `default` or test for being defined may be undefined.
    let guards = |index: usize| {
        let name = tokens.get(index).and_then(Token::name);
        let before = index.checked_sub(1).and_then(|before| tokens.get(before));
        match name {
            Some("default" | "d") => before.is_some_and(|token| token.is("|")),
            Some("defined" | "undefined") => matches!(before.and_then(Token::name), Some("is" | "not")),
            _ => false,
        }
    };
    let last_guard = (0..tokens.len()).rev().find(|index| guards(*index)).unwrap_or(0);
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        let before = index.checked_sub(1).and_then(|before| tokens.get(before));
        let Some(name) = token.name() else {
            index += 1;
            continue;
        };
        let is_attribute = before.is_some_and(|token| token.is("."));
        let is_filter = before.is_some_and(|token| token.is("|"));
        let is_test = match before.and_then(Token::name) {
            Some("is") => name != "not",
            Some("not") => index.checked_sub(2).and_then(|word| tokens.get(word)).and_then(Token::name) == Some("is"),
            _ => false,
        };
        let is_keyword = tokens.get(index + 1).is_some_and(|token| token.is("="));
        if is_filter || is_test {
            let (name, next) = dotted(tokens, index);
            let kind = if is_filter { UseKind::Filter } else { UseKind::Test };
            found.names.push(Use { kind, name, offset: token.start, is_guarded: false });
            index = next;
            continue;
        }
        if !is_attribute && !is_keyword && !WORDS.contains(&name) {
            let is_guarded = index < last_guard;
            found.names.push(Use { kind: UseKind::Variable, name: name.to_owned(), offset: token.start, is_guarded });
        }
        index += 1;
    }
}

/// A name with its dots, and the index behind it.
fn dotted(tokens: &[Token<'_>], start: usize) -> (String, usize) {
    let mut name = tokens.get(start).and_then(Token::name).unwrap_or_default().to_owned();
    let mut next = start + 1;
    while let (Some(dot), Some(part)) = (tokens.get(next), tokens.get(next + 1).and_then(Token::name))
        && dot.is(".")
    {
        name = format!("{name}.{part}");
        next += 2;
    }
    (name, next)
}

/// Notes the names that the tag of a block uses and binds.
fn statement(tokens: &[Token<'_>], found: &mut Uses) {
    let Some((first, rest)) = tokens.split_first() else { return };
    let position = |wanted: &dyn Fn(&Token<'_>) -> bool| rest.iter().position(wanted).unwrap_or(rest.len());
    let bind = |tokens: &[Token<'_>], found: &mut Uses| {
        found.bound.extend(tokens.iter().filter_map(Token::name).map(str::to_owned));
    };
    match first.name().unwrap_or_default() {
        "for" => {
            let (targets, items) = rest.split_at(position(&|token| token.name() == Some("in")));
            bind(targets, found);
            found.bound.push("loop".to_owned());
            expression(items, found);
        }
        "set" | "with" => {
            let names = rest.iter().zip(rest.iter().skip(1).map(Some).chain([None]));
            let assigned = position(&|token| token.is("=") || token.is("|"));
            for (index, (token, next)) in names.enumerate() {
                if index < assigned || next.is_some_and(|next| next.is("=")) {
                    bind(std::slice::from_ref(token), found);
                }
            }
            expression(rest.get(assigned..).unwrap_or_default(), found);
        }
        "macro" | "call" => {
            // Parameters follow `(` or `,`. Calls in default values only make the check more lenient.
            let mut before: Option<&Token<'_>> = None;
            for token in rest {
                if before.is_none_or(|before| before.is("(") || before.is(",")) {
                    bind(std::slice::from_ref(token), found);
                }
                before = Some(token);
            }
            found.bound.extend(["caller", "varargs", "kwargs"].map(str::to_owned));
            expression(rest, found);
        }
        "from" | "import" => {
            let (source, names) = rest.split_at(position(&|token| matches!(token.name(), Some("import" | "as"))));
            bind(names, found);
            expression(source, found);
        }
        "include" | "extends" => {
            let words = ["ignore", "missing", "with", "without", "context"];
            let end = position(&|token| token.name().is_some_and(|name| words.contains(&name)));
            expression(rest.get(..end).unwrap_or_default(), found);
        }
        "filter" => {
            let (name, next) = dotted(rest, 0);
            let offset = rest.first().map_or(first.end, |token| token.start);
            found.names.push(Use { kind: UseKind::Filter, name, offset, is_guarded: false });
            expression(rest.get(next..).unwrap_or_default(), found);
        }
        "block" => bind(rest, found),
        word if word.starts_with("end") => {}
        _ => expression(rest, found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, form: Form) -> String {
        let uses = uses(text, form).unwrap();
        let one = |found: &Use| {
            let mark = match found.kind {
                UseKind::Variable => "",
                UseKind::Filter => "|",
                UseKind::Test => "is ",
            };
            assert!(text[found.offset..].starts_with(found.name.split('.').next().unwrap()), "{text}");
            format!("{mark}{}{}", found.name, if found.is_guarded { "?" } else { "" })
        };
        uses.names.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_of_each_kind_found() {
        let cases = [
            ("a.b and not c", "a c"),
            ("x is defined and y", "x? is defined y"),
            ("a | map('x', key=b) | list", "a |map b |list"),
            ("a is not ansible.builtin.version('1', '>')", "a is ansible.builtin.version"),
            ("(a.b[c] | default(d)) == 'e'", "a? c? |default d"),
            ("false and (a | bogus)", "a |bogus"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text, Form::Expression), expected, "{text}");
        }
        assert_eq!(shown("x {{ a | upper }}-{{ b }}", Form::Text), "a |upper b");
        assert_eq!(shown("plain", Form::Text), "");
    }

    #[test]
    fn names_bound_by_template_listed() {
        let text = "{% for k, v in d.items() if v %}{% set x = y %}{{ loop.index }}{% endfor %}\
                    {% macro m(p, q=r) %}{{ p }}{% endmacro %}{% filter indent(2) %}{% endfilter %}";
        let uses = uses(text, Form::File).unwrap();
        for bound in ["k", "v", "x", "loop", "m", "p", "q"] {
            assert!(uses.bound.iter().any(|name| name == bound), "{bound}");
        }
        assert!(uses.names.iter().any(|found| found.name == "r" && found.kind == UseKind::Variable));
        assert!(uses.names.iter().any(|found| found.name == "indent" && found.kind == UseKind::Filter));
    }

    #[test]
    fn broken_template_reported_with_line() {
        let fault = uses("a\n{{ b | }}", Form::File).unwrap_err();
        assert_eq!((fault.line, fault.column), (Some(2), Some(7)), "{fault:?}");
        assert!(uses("{% if a %}", Form::File).is_err());
        assert!(uses("a ==", Form::Expression).is_err());
    }

    #[test]
    fn comparisons_with_booleans_found() {
        let found = literal_comparisons("a.b[0] == true and not c != False and d | x == true");
        let shown: Vec<_> = found.iter().map(|one| (one.start, one.holds_if_true, one.is_whole)).collect();
        assert_eq!(shown, [(0, true, true), (23, true, true), (42, true, false)]);
    }
}
