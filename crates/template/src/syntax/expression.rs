//! Parses expressions by Jinja's grammar and writes them for minijinja.

use crate::error::Error;

use super::token::{Kind, Token};
use super::{error_at, quote};

/// How deep expressions may nest.
const DEPTH: usize = 200;

/// Reads tokens and writes code.
pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token<'a>],
    position: usize,
    depth: usize,
    /// Strings that are templates are rendered wherever they stand.
    nested_templates: bool,
    /// Inside the arguments of a lookup.
    lookups: usize,
    /// Literals become lists and dictionaries that can be changed.
    pub(super) mutates: bool,
}

/// A written expression, as far as what follows it needs to know.
struct Code {
    text: String,
    /// The chain of names it is, for messages.
    path: Option<String>,
    /// A name alone.
    bare: bool,
}

impl Code {
    fn new(text: String) -> Code {
        Code { text, path: None, bare: false }
    }

    /// The code where a method is called on it. A filter needs no parentheses in front of another one, but here.
    fn operand(&self) -> String {
        if self.bare { self.text.clone() } else { format!("({})", self.text) }
    }
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, tokens: &'a [Token<'a>], nested_templates: bool, mutates: bool) -> Parser<'a> {
        Parser { text, tokens, position: 0, depth: 0, nested_templates, lookups: 0, mutates }
    }

    pub(super) fn peek(&self) -> Option<&'a Token<'a>> {
        self.tokens.get(self.position)
    }

    pub(super) fn peek_name(&self) -> Option<&'a str> {
        self.peek().and_then(Token::name)
    }

    fn peek_is(&self, operator: &str) -> bool {
        self.peek().is_some_and(|token| token.is(operator))
    }

    pub(super) fn advance(&mut self) -> Option<&'a Token<'a>> {
        let token = self.tokens.get(self.position);
        self.position += 1;
        token
    }

    /// Takes the operator if it is next.
    pub(super) fn accept(&mut self, operator: &str) -> bool {
        let found = self.peek_is(operator);
        self.position += usize::from(found);
        found
    }

    /// Takes the word if it is next.
    pub(super) fn accept_word(&mut self, word: &str) -> bool {
        let found = self.peek_name() == Some(word);
        self.position += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, operator: &str) -> Result<(), Error> {
        if self.accept(operator) { Ok(()) } else { Err(self.unexpected(&format!("`{operator}`"))) }
    }

    pub(super) fn expect_name(&mut self) -> Result<&'a str, Error> {
        match self.peek_name() {
            Some(name) => {
                self.position += 1;
                Ok(name)
            }
            None => Err(self.unexpected("a name")),
        }
    }

    /// Fails unless all is read.
    pub(super) fn end(&self) -> Result<(), Error> {
        if self.position < self.tokens.len() { Err(self.unexpected("the end of the expression")) } else { Ok(()) }
    }

    pub(super) fn at_end(&self) -> bool {
        self.position >= self.tokens.len()
    }

    /// The name, if the whole expression is one.
    pub(super) fn single_name(&self) -> Option<String> {
        match self.tokens {
            [token] => match token.name()? {
                "true" | "false" | "none" | "True" | "False" | "None" => None,
                name => Some(name.to_owned()),
            },
            _ => None,
        }
    }

    pub(super) fn unexpected(&self, wanted: &str) -> Error {
        match self.peek() {
            Some(token) => {
                let found = &self.text[token.start..token.end];
                error_at(self.text, token.start, format!("{wanted} is expected here, not `{found}`"))
            }
            None => {
                let end = self.tokens.last().map_or(self.text.len(), |token| token.end);
                error_at(self.text, end, format!("{wanted} is expected, but the expression ends here"))
            }
        }
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Error::syntax(format!("The expression nests deeper than {DEPTH} levels.")));
        }
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// An expression, or several with commas between them: a tuple.
    pub(super) fn tuple(&mut self) -> Result<String, Error> {
        self.tuple_of(Self::condition)
    }

    /// The same without inline conditions, as after `in`.
    pub(super) fn tuple_without_condition(&mut self) -> Result<String, Error> {
        self.tuple_of(|parser| parser.or().map(|code| code.text))
    }

    fn tuple_of(&mut self, item: impl Fn(&mut Self) -> Result<String, Error>) -> Result<String, Error> {
        let first = item(self)?;
        if !self.peek_is(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.accept(",") {
            let closes =
                self.peek().is_none_or(|token| token.is(")") || token.is("=")) || self.peek_name() == Some("recursive");
            if closes {
                break;
            }
            items.push(item(self)?);
        }
        Ok(tuple_code(&items))
    }

    /// An expression.
    pub(super) fn condition(&mut self) -> Result<String, Error> {
        self.nested(|parser| Ok(parser.conditional()?.text))
    }

    fn conditional(&mut self) -> Result<Code, Error> {
        let code = self.or()?;
        if self.peek_name() != Some("if") {
            return Ok(code);
        }
        Ok(Code::new(format!("({})", self.branches(code.text)?)))
    }

    /// What follows `value` in `value if test else ...`. Branches follow each other without more parentheses, because
    /// minijinja limits how deep expressions nest.
    fn branches(&mut self, value: String) -> Result<String, Error> {
        let mut code = value;
        while self.accept_word("if") {
            let test = self.or()?.text;
            let otherwise = if self.accept_word("else") {
                let next = self.or()?.text;
                self.nested(|parser| parser.branches(next))?
            } else {
                "none|__nothing".to_owned()
            };
            code = format!("{code} if {test}|__check else {otherwise}");
        }
        Ok(code)
    }

    fn or(&mut self) -> Result<Code, Error> {
        self.boolean("or", Self::and)
    }

    fn and(&mut self) -> Result<Code, Error> {
        self.boolean("and", Self::not)
    }

    fn boolean(&mut self, word: &str, operand: impl Fn(&mut Self) -> Result<Code, Error>) -> Result<Code, Error> {
        let first = operand(self)?;
        if self.peek_name() != Some(word) {
            return Ok(first);
        }
        let mut operands = vec![first.text];
        while self.accept_word(word) {
            operands.push(operand(self)?.text);
        }
        // The last operand is the value; those before it are judged.
        let separator = format!("|__check {word} ");
        Ok(Code::new(format!("({})", operands.join(&separator))))
    }

    fn not(&mut self) -> Result<Code, Error> {
        if self.accept_word("not") {
            let code = self.nested(Self::not)?;
            return Ok(Code::new(format!("{}|__not", code.text)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Code, Error> {
        let first = self.sum()?;
        let mut links: Vec<String> = Vec::new();
        let mut left = first.text.clone();
        while let Some(token) = self.peek() {
            let filter = match &token.kind {
                Kind::Operator("==") => "__eq",
                Kind::Operator("!=") => "__ne",
                Kind::Operator("<") => "__lt",
                Kind::Operator("<=") => "__le",
                Kind::Operator(">") => "__gt",
                Kind::Operator(">=") => "__ge",
                Kind::Name("in") => "__in",
                Kind::Name("not") if self.tokens.get(self.position + 1).and_then(Token::name) == Some("in") => {
                    self.position += 1;
                    "__not_in"
                }
                _ => break,
            };
            self.position += 1;
            let right = self.sum()?.text;
            links.push(format!("{left}|{filter}({right})"));
            left = right;
        }
        match links.len() {
            0 => Ok(first),
            1 => Ok(Code::new(links.remove(0))),
            _ => Ok(Code::new(format!("({})", links.join(" and ")))),
        }
    }

    fn binary(
        &mut self,
        operators: &[(&str, &str)],
        operand: impl Fn(&mut Self) -> Result<Code, Error>,
    ) -> Result<Code, Error> {
        let mut left = operand(self)?;
        'operators: loop {
            for (operator, filter) in operators {
                if self.accept(operator) {
                    let right = operand(self)?.text;
                    left = Code::new(format!("{}|{filter}({right})", left.text));
                    continue 'operators;
                }
            }
            return Ok(left);
        }
    }

    fn sum(&mut self) -> Result<Code, Error> {
        self.binary(&[("+", "__add"), ("-", "__sub")], Self::concatenation)
    }

    fn concatenation(&mut self) -> Result<Code, Error> {
        let first = self.product()?;
        if !self.peek_is("~") {
            return Ok(first);
        }
        let mut items = vec![first.text];
        while self.accept("~") {
            items.push(self.product()?.text);
        }
        Ok(Code::new(format!("[{}]|__tilde", items.join(", "))))
    }

    fn product(&mut self) -> Result<Code, Error> {
        self.binary(&[("*", "__mul"), ("/", "__div"), ("//", "__floordiv"), ("%", "__mod")], Self::power)
    }

    fn power(&mut self) -> Result<Code, Error> {
        self.binary(&[("**", "__pow")], |parser| parser.unary(true))
    }

    fn unary(&mut self, filters: bool) -> Result<Code, Error> {
        let sign = if self.accept("-") {
            Some("__neg")
        } else if self.accept("+") {
            Some("__pos")
        } else {
            None
        };
        let mut code = match sign {
            Some(filter) => {
                let operand = self.nested(|parser| parser.unary(false))?;
                Code::new(format!("{}|{filter}", operand.text))
            }
            None => self.primary()?,
        };
        code = self.postfix(code)?;
        if filters {
            code = self.filters(code)?;
        }
        Ok(code)
    }

    fn primary(&mut self) -> Result<Code, Error> {
        let Some(token) = self.advance() else {
            self.position -= 1;
            return Err(self.unexpected("an expression"));
        };
        Ok(match &token.kind {
            Kind::Name(name) => match *name {
                "true" | "True" => Code::new("true".to_owned()),
                "false" | "False" => Code::new("false".to_owned()),
                "none" | "None" => Code::new("none".to_owned()),
                "and" | "or" | "not" | "if" | "else" | "in" | "is" => {
                    self.position -= 1;
                    return Err(self.unexpected("an expression"));
                }
                name => Code { text: name.to_owned(), path: Some(name.to_owned()), bare: true },
            },
            Kind::Integer(digits) => Code::new(format!("({digits})")),
            Kind::Float(number) => Code::new(format!("({number:?})")),
            Kind::String(text) => {
                let mut text = text.clone();
                while let Some(Token { kind: Kind::String(more), .. }) = self.peek() {
                    text.push_str(more);
                    self.position += 1;
                }
                let literal = quote(&text);
                if super::is_template(&text) && (self.nested_templates || self.lookups > 0) {
                    Code::new(format!("{literal}|__template"))
                } else {
                    Code::new(literal)
                }
            }
            Kind::Operator("(") => {
                if self.accept(")") {
                    return Ok(Code::new("()".to_owned()));
                }
                let inner = self.nested(Self::tuple)?;
                self.expect(")")?;
                Code::new(format!("({inner})"))
            }
            Kind::Operator("[") => {
                let items = self.items("]")?;
                let list = format!("[{}]", items.join(", "));
                Code::new(if self.mutates { format!("{list}|__list") } else { list })
            }
            Kind::Operator("{") => {
                let dict = self.nested(Self::dictionary)?;
                Code::new(if self.mutates { format!("{dict}|__dict") } else { dict })
            }
            Kind::Operator(_) => {
                self.position -= 1;
                return Err(self.unexpected("an expression"));
            }
        })
    }

    /// Expressions with commas between them, up to a bracket.
    fn items(&mut self, close: &str) -> Result<Vec<String>, Error> {
        let mut items = Vec::new();
        while !self.accept(close) {
            if !items.is_empty() {
                self.expect(",")?;
                if self.accept(close) {
                    break;
                }
            }
            items.push(self.condition()?);
        }
        Ok(items)
    }

    fn dictionary(&mut self) -> Result<String, Error> {
        let mut entries = Vec::new();
        while !self.accept("}") {
            if !entries.is_empty() {
                self.expect(",")?;
                if self.accept("}") {
                    break;
                }
            }
            let key = self.condition()?;
            self.expect(":")?;
            let value = self.condition()?;
            entries.push(format!("{key}: {value}"));
        }
        Ok(format!("{{{}}}", entries.join(", ")))
    }

    fn postfix(&mut self, mut code: Code) -> Result<Code, Error> {
        loop {
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
    }

    fn attribute(&mut self, object: Code) -> Result<Code, Error> {
        let Some(token) = self.advance() else {
            self.position -= 1;
            return Err(self.unexpected("the name of an attribute"));
        };
        match &token.kind {
            Kind::Name(name) if self.peek_is("(") => {
                let arguments = self.arguments()?;
                Ok(Code::new(format!("{}.{name}({arguments})", object.operand())))
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
            (true, name) => Code::new(format!("{name}({arguments})")),
            (false, text) => Code::new(format!("({text})({arguments})")),
        })
    }

    /// What is between the parentheses of a call.
    fn arguments(&mut self) -> Result<String, Error> {
        self.expect("(")?;
        let mut arguments: Vec<String> = Vec::new();
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

    fn filters(&mut self, mut code: Code) -> Result<Code, Error> {
        loop {
            code = if self.accept("|") {
                Code::new(self.filter(&code.text)?)
            } else if self.accept_word("is") {
                self.test(code)?
            } else if self.peek_is("(") {
                self.call(code)?
            } else {
                return Ok(code);
            };
        }
    }

    /// A filter after its `|`, applied to some code.
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

/// `object.name` or `object[key]`: the name of the whole chain goes along for messages.
fn access(object: Code, filter: &str, key: &str, suffix: &str) -> Code {
    let path = object.path.map(|path| path + suffix);
    let text = match &path {
        Some(path) => format!("{}|{filter}({key}, {})", object.text, quote(path)),
        None => format!("{}|{filter}({key})", object.text),
    };
    Code { text, path, bare: false }
}

pub(super) fn tuple_code(items: &[String]) -> String {
    match items {
        [single] => format!("({single},)"),
        items => format!("({})", items.join(", ")),
    }
}
