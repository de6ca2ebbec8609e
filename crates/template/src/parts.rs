//! Splits a condition into the parts that `and`, `or` and `not` connect, for explanations.

use crate::syntax::{Escapes, Kind, Token, tokenize};

/// Part of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The part as written.
    pub text: String,
    /// Structure of the part.
    pub kind: PartKind,
}

/// Structure of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// True if one of these is.
    Or(Vec<Part>),
    /// True if all of these are.
    And(Vec<Part>),
    /// True if this is not.
    Not(Box<Part>),
    /// An expression. Its operands are the sides of a comparison or a test, without literals.
    Test(Vec<String>),
}

/// Splits a condition. `None` if it is empty or cannot be split into tokens; the parts are not parsed.
pub fn parts(condition: &str) -> Option<Part> {
    let (tokens, _) = tokenize(condition, 0, None, Escapes::Decoded).ok()?;
    if tokens.is_empty() { None } else { Some(part(condition, &tokens, 0)) }
}

/// Outermost operation of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A text, a number, a list or a mapping.
    Literal,
    /// A filter with this name.
    Filter(String),
}

/// Outermost operation of an expression; `None` if it is another one.
pub fn shape(expression: &str) -> Option<Shape> {
    let (tokens, _) = tokenize(expression, 0, None, Escapes::Decoded).ok()?;
    let tokens = without_parentheses(&tokens);
    if is_literal(tokens) {
        return Some(Shape::Literal);
    }
    let is_other = |token: &Token<'_>| {
        matches!(token.name(), Some("and" | "else" | "if" | "in" | "is" | "not" | "or"))
            || matches!(token.kind, Kind::Operator(operator) if !["(", ")", "[", "]", "{", "}", ".", "|"].contains(&operator))
    };
    if split(tokens, &is_other).len() > 1 {
        return None;
    }
    let pieces = split(tokens, &|token| token.is("|"));
    let filter = pieces.last().filter(|_| pieces.len() > 1)?;
    let named = filter.iter().take_while(|token| token.name().is_some() || token.is(".")).count();
    let (name, arguments) = filter.split_at_checked(named)?;
    let is_call = arguments.first().is_some_and(|token| token.is("(")) && closes_last(arguments);
    if name.is_empty() || !(arguments.is_empty() || is_call) {
        return None;
    }
    Some(Shape::Filter(slice(expression, name).to_owned()))
}

fn is_literal(tokens: &[Token<'_>]) -> bool {
    match tokens {
        [only] => matches!(only.kind, Kind::String(_) | Kind::Integer(_) | Kind::Float(_)),
        [first, ..] => (first.is("[") || first.is("{")) && closes_last(tokens),
        [] => false,
    }
}

/// Whether the bracket that the first token opens is closed by the last one.
fn closes_last(tokens: &[Token<'_>]) -> bool {
    let mut open = 0_usize;
    let closed = tokens.iter().position(|token| {
        match token.kind {
            Kind::Operator("(" | "[" | "{") => open += 1,
            Kind::Operator(")" | "]" | "}") => open = open.saturating_sub(1),
            _ => {}
        }
        open == 0
    });
    closed.is_some_and(|at| at + 1 == tokens.len())
}

/// Maximum nesting of parentheses to look into.
const DEPTH: usize = 50;

fn part(text: &str, tokens: &[Token<'_>], depth: usize) -> Part {
    let tokens = without_parentheses(tokens);
    let written = slice(text, tokens).to_owned();
    let has_branches = split(tokens, &|token| token.name() == Some("if")).len() > 1;
    if depth > DEPTH || has_branches {
        return Part { text: written, kind: PartKind::Test(Vec::new()) };
    }
    for (word, kind) in [("or", PartKind::Or as fn(Vec<Part>) -> PartKind), ("and", PartKind::And)] {
        let pieces = split(tokens, &|token| token.name() == Some(word));
        if pieces.len() > 1 && pieces.iter().all(|piece| !piece.is_empty()) {
            let pieces = pieces.into_iter().map(|piece| part(text, piece, depth + 1)).collect();
            return Part { text: written, kind: kind(pieces) };
        }
    }
    match tokens.split_first() {
        Some((first, rest)) if first.name() == Some("not") && !rest.is_empty() => {
            Part { text: written, kind: PartKind::Not(Box::new(part(text, rest, depth + 1))) }
        }
        _ => Part { kind: PartKind::Test(operands(text, tokens)), text: written },
    }
}

/// Operands of a comparison or test that are not literals.
fn operands(text: &str, tokens: &[Token<'_>]) -> Vec<String> {
    // The word behind `is` is the name of a test, not a variable.
    let tested = split(tokens, &|token| token.name() == Some("is"));
    let compared = |token: &Token<'_>| {
        ["==", "!=", "<", "<=", ">", ">="].iter().any(|operator| token.is(operator))
            || matches!(token.name(), Some("in" | "not"))
    };
    let sides = match tested.as_slice() {
        [operand, _, ..] => vec![*operand],
        _ => split(tokens, &compared),
    };
    let is_whole = sides.len() < 2 && tested.len() < 2;
    let has_name = |side: &&[Token<'_>]| {
        side.iter().any(|token| {
            token.name().is_some_and(|name| !["true", "false", "none", "True", "False", "None"].contains(&name))
        })
    };
    let sides = sides.into_iter().filter(|_| !is_whole).map(without_parentheses).filter(has_name);
    sides.map(|side| slice(text, side).to_owned()).collect()
}

/// Splits tokens outside of brackets.
fn split<'t, 'a>(tokens: &'t [Token<'a>], separates: &dyn Fn(&Token<'a>) -> bool) -> Vec<&'t [Token<'a>]> {
    let mut open = 0_usize;
    let mut is_attribute = false;
    tokens
        .split(|token| {
            if let Kind::Operator("(" | "[" | "{") = token.kind {
                open += 1;
            } else if let Kind::Operator(")" | "]" | "}") = token.kind {
                open = open.saturating_sub(1);
            }
            let separates = open == 0 && !is_attribute && separates(token);
            is_attribute = token.is(".");
            separates
        })
        .collect()
}

/// Strips parentheses around the whole.
fn without_parentheses<'t, 'a>(mut tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    while let [first, inner @ .., last] = tokens {
        let mut open = 1_usize;
        let closes_early = inner.iter().any(|token| {
            match token.kind {
                Kind::Operator("(") => open += 1,
                Kind::Operator(")") => open -= 1,
                _ => {}
            }
            open == 0
        });
        let has_comma = split(inner, &|token| token.is(",")).len() > 1;
        if !first.is("(") || !last.is(")") || closes_early || has_comma || inner.is_empty() {
            break;
        }
        tokens = inner;
    }
    tokens
}

fn slice<'t>(text: &'t str, tokens: &[Token<'_>]) -> &'t str {
    let ends = tokens.first().zip(tokens.last());
    ends.and_then(|(first, last)| text.get(first.start..last.end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(part: &Part) -> String {
        let all = |parts: &[Part]| parts.iter().map(shown).collect::<Vec<_>>().join(" ");
        match &part.kind {
            PartKind::Or(parts) => format!("or({})", all(parts)),
            PartKind::And(parts) => format!("and({})", all(parts)),
            PartKind::Not(part) => format!("not({})", shown(part)),
            PartKind::Test(operands) => format!("<{}|{}>", part.text, operands.join(";")),
        }
    }

    #[test]
    fn outermost_operation_of_an_expression() {
        let filter = |name: &str| Some(Shape::Filter(name.to_owned()));
        let cases = [
            ("a | length", filter("length")),
            ("(a.b | select('x', 1) | list)", filter("list")),
            ("a | x.y.z(b > 1)", filter("x.y.z")),
            ("'a'", Some(Shape::Literal)),
            ("[a, 1]", Some(Shape::Literal)),
            ("{'a': 1}", Some(Shape::Literal)),
            ("[a][0]", None),
            ("a | length > 0", None),
            ("a | split('.') | list is defined", None),
            ("(a | list)[0]", None),
            ("a | first.b", filter("first.b")),
            ("a | int + 1", None),
            ("a if b | length else c", None),
            ("a", None),
            ("", None),
        ];
        for (expression, expected) in cases {
            assert_eq!(shape(expression), expected, "{expression}");
        }
    }

    #[test]
    fn condition_split_at_its_connectives() {
        let cases = [
            ("a", "<a|>"),
            ("a.b == 'x or y' and not c", "and(<a.b == 'x or y'|a.b> not(<c|>))"),
            ("(a or b) and c is not defined", "and(or(<a|> <b|>) <c is not defined|c>)"),
            ("a | length > b + 1", "<a | length > b + 1|a | length;b + 1>"),
            ("x not in [1, 2]", "<x not in [1, 2]|x>"),
            ("not (a and b)", "not(and(<a|> <b|>))"),
            ("a if b else c and d", "<a if b else c and d|>"),
            ("(a, b)", "<(a, b)|>"),
            ("x.is.or", "<x.is.or|>"),
            ("(a) or (b)", "or(<a|> <b|>)"),
            ("a ==", "<a ==|a>"),
        ];
        for (condition, expected) in cases {
            assert_eq!(shown(&parts(condition).unwrap()), expected, "{condition}");
        }
        assert!(parts("'open").is_none() && parts("").is_none());
    }
}
