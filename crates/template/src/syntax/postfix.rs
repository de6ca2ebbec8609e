//! Parses postfix operations of an expression: attributes, subscripts, calls, filters and tests.

use crate::error::Error;

use super::expression::{Code, Parser};
use super::quote;
use super::token::Kind;

/// Maximum length of a chain of attributes, subscripts and calls. Each of them stores the names before it.
const CHAIN: usize = 1000;

impl Parser<'_> {
    pub(super) fn postfix(&mut self, mut code: Code) -> Result<Code, Error> {
        for _ in 0..CHAIN {
            code = if self.accept(".") {
                self.attribute(code)?
            } else if self.accept("[") {
                self.subscript(code)?
            } else if self.peek_is("(") {
                self.call(code)?
            } else {
                return Ok(code);
            };
        }
        Err(Error::syntax(format!("The expression has more than {CHAIN} attributes, subscripts and calls in a row.")))
    }

    fn attribute(&mut self, object: Code) -> Result<Code, Error> {
        let Some(token) = self.advance() else {
            self.position -= 1;
            return Err(self.unexpected("the name of an attribute"));
        };
        match &token.kind {
            Kind::Name(name) if self.peek_is("(") => {
                let arguments = self.arguments()?;
                let is_block = object.bare && object.text == "self";
                Ok(self.called(format!("{}.{name}({arguments})", object.operand()), !is_block))
            }
            // The class of a text depends on its origin.
            Kind::Name("__class__") => {
                let path = object.path.unwrap_or_default();
                Ok(Code::new(format!("{}|__class({})", object.text, quote(&path))))
            }
            Kind::Name(name) => Ok(access(object, "__attr", &quote(name), &format!(".{name}"))),
            Kind::Integer(digits) => Ok(access(object, "__item", digits, &format!(".{digits}"))),
            _ => {
                self.position -= 1;
                Err(self.unexpected("the name of an attribute"))
            }
        }
    }

    fn subscript(&mut self, object: Code) -> Result<Code, Error> {
        let start = self.peek().map_or(self.text.len(), |token| token.start);
        let mut bounds: Vec<String> = Vec::new();
        let mut slice = false;
        let mut current: Option<String> = None;
        loop {
            if self.peek_is("]") {
                break;
            }
            if self.accept(":") {
                slice = true;
                bounds.push(current.take().unwrap_or_else(|| "none".to_owned()));
            } else if current.is_none() {
                current = Some(self.nested(Self::tuple)?);
            } else {
                return Err(self.unexpected("`]`"));
            }
        }
        let end = self.peek().map_or(self.text.len(), |token| token.start);
        self.expect("]")?;
        if slice {
            bounds.push(current.unwrap_or_else(|| "none".to_owned()));
            bounds.resize(3, "none".to_owned());
            return Ok(Code::new(format!("{}|__slice({})", object.text, bounds.join(", "))));
        }
        let Some(key) = current else { return Err(self.unexpected("a key or an index")) };
        let written = self.text[start..end].trim();
        Ok(access(object, "__item", &key, &format!("[{written}]")))
    }

    fn call(&mut self, callee: Code) -> Result<Code, Error> {
        let is_lookup = callee.bare && matches!(callee.text.as_str(), "lookup" | "query" | "q");
        self.lookups += usize::from(is_lookup);
        let arguments = self.arguments()?;
        self.lookups -= usize::from(is_lookup);
        Ok(match (callee.bare, callee.text.as_str()) {
            (true, "loop") => Code::new(format!("loop(({arguments})|__iter)")),
            (true, name) => self.called(format!("{name}({arguments})"), !is_lookup && name != "super"),
            (false, text) => self.called(format!("({text})({arguments})"), true),
        })
    }

    /// A call, possibly of a macro.
    fn called(&self, call: String, may_be_macro: bool) -> Code {
        Code::new(if self.has_macros && may_be_macro { format!("{call}|__returned") } else { call })
    }

    /// Parses the arguments between the parentheses of a call.
    fn arguments(&mut self) -> Result<String, Error> {
        self.expect("(")?;
        let mut arguments: Vec<String> = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        while !self.accept(")") {
            if !arguments.is_empty() {
                self.expect(",")?;
                if self.accept(")") {
                    break;
                }
            }
            if self.accept("**") {
                arguments.push(format!("**{}", self.condition()?));
            } else if self.accept("*") {
                arguments.push(format!("*{}", self.condition()?));
            } else if let Some(name) = self.peek_name()
                && self.tokens.get(self.position + 1).is_some_and(|token| token.is("="))
            {
                if names.contains(&name) {
                    return Err(Error::syntax(format!("keyword argument repeated: {name}.")));
                }
                names.push(name);
                self.position += 2;
                arguments.push(format!("{name}={}", self.condition()?));
            } else {
                arguments.push(self.condition()?);
            }
        }
        Ok(arguments.join(", "))
    }

    fn dotted_name(&mut self) -> Result<String, Error> {
        let mut name = self.expect_name()?.to_owned();
        while self.accept(".") {
            name.push('.');
            name.push_str(self.expect_name()?);
        }
        Ok(name)
    }

    pub(super) fn filters(&mut self, mut code: Code) -> Result<Code, Error> {
        loop {
            code = if self.accept("|") {
                let path = code.path.filter(|_| self.peek_name() == Some("type_debug"));
                let filtered = self.filter(&code.text)?;
                match path.filter(|_| filtered.ends_with("|__filter(\"type_debug\")")) {
                    // The type name of a text depends on its origin.
                    Some(path) => Code::new(format!("{}|__type_debug({})", code.text, quote(&path))),
                    None => Code::new(filtered),
                }
            } else if self.accept_word("is") {
                self.test(code)?
            } else if self.peek_is("(") {
                self.call(code)?
            } else {
                return Ok(code);
            };
        }
    }

    /// Parses a filter after its `|`, applied to some code.
    pub(super) fn filter(&mut self, value: &str) -> Result<String, Error> {
        let name = self.dotted_name()?;
        if name == super::REREAD {
            return Ok(format!("{value}|{name}"));
        }
        if self.peek_is("(") {
            let arguments = self.arguments()?;
            if !arguments.is_empty() {
                return Ok(format!("{value}|__filter({}, {arguments})", quote(&name)));
            }
        }
        Ok(format!("{value}|__filter({})", quote(&name)))
    }

    fn test(&mut self, value: Code) -> Result<Code, Error> {
        let negated = self.accept_word("not");
        let name = self.dotted_name()?;
        let arguments = if self.peek_is("(") {
            self.arguments()?
        } else {
            let starts = match self.peek().map(|token| &token.kind) {
                Some(Kind::Name(name)) => {
                    !matches!(*name, "else" | "or" | "and" | "is" | "if" | "in" | "not" | "recursive")
                }
                Some(Kind::String(_) | Kind::Integer(_) | Kind::Float(_)) => true,
                Some(Kind::Operator(operator)) => matches!(*operator, "(" | "[" | "{"),
                None => false,
            };
            if starts {
                let argument = self.primary()?;
                self.postfix(argument)?.text
            } else {
                String::new()
            }
        };
        let comma = if arguments.is_empty() { "" } else { ", " };
        let test = format!("{}|__is({}{comma}{arguments})", value.text, quote(&name));
        Ok(Code::new(if negated { format!("{test}|__not") } else { test }))
    }
}

/// `object.name` or `object[key]`; the name of the whole chain is passed along for messages.
fn access(object: Code, filter: &str, key: &str, suffix: &str) -> Code {
    let path = object.path.map(|path| path + suffix);
    let text = match &path {
        Some(path) => format!("{}|{filter}({key}, {})", object.text, quote(path)),
        None => format!("{}|{filter}({key})", object.text),
    };
    Code { text, path, bare: false }
}
