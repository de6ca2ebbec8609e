//! Parses expressions in Jinja's grammar and generates code for minijinja.

use crate::error::Error;

use super::token::{Kind, Token};
use super::{error_at, quote};

/// Maximum nesting of expressions.
const DEPTH: usize = 200;

/// Reads tokens and writes code.
pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a [Token<'a>],
    pub(super) position: usize,
    depth: usize,
    /// Whether strings that are templates are rendered everywhere.
    nested_templates: bool,
    /// Nesting of lookup arguments.
    pub(super) lookups: usize,
    /// Whether literals become mutable lists and dictionaries.
    pub(super) mutates: bool,
    /// Whether a string that is a template was found.
    pub(super) embeds: bool,
    /// Whether this is part of a template with blocks, where calls may call macros.
    pub(super) has_macros: bool,
}

/// Generated code, with the facts that later parts need.
pub(super) struct Code {
    pub(super) text: String,
    /// The chain of names, for messages.
    pub(super) path: Option<String>,
    /// Whether the code is a lone name.
    pub(super) bare: bool,
}

impl Code {
    pub(super) fn new(text: String) -> Code {
        Code { text, path: None, bare: false }
    }

    /// The code as the object of a method call. Only there does a filter need parentheses.
    pub(super) fn operand(&self) -> String {
        if self.bare { self.text.clone() } else { format!("({})", self.text) }
    }
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, tokens: &'a [Token<'a>], nested_templates: bool, mutates: bool) -> Parser<'a> {
        Parser {
            text,
            tokens,
            position: 0,
            depth: 0,
            nested_templates,
            lookups: 0,
            mutates,
            embeds: false,
            has_macros: false,
        }
    }

    pub(super) fn peek(&self) -> Option<&'a Token<'a>> {
        self.tokens.get(self.position)
    }

    pub(super) fn peek_name(&self) -> Option<&'a str> {
        self.peek().and_then(Token::name)
    }

    pub(super) fn peek_is(&self, operator: &str) -> bool {
        self.peek().is_some_and(|token| token.is(operator))
    }

    pub(super) fn advance(&mut self) -> Option<&'a Token<'a>> {
        let token = self.tokens.get(self.position);
        self.position += 1;
        token
    }

    /// Consumes the operator if it is next.
    pub(super) fn accept(&mut self, operator: &str) -> bool {
        let found = self.peek_is(operator);
        self.position += usize::from(found);
        found
    }

    /// Consumes the word if it is next.
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

    /// Fails unless all tokens are consumed.
    pub(super) fn end(&self) -> Result<(), Error> {
        match self.peek() {
            None => Ok(()),
            Some(token) if &self.text[token.start..token.end] == "=" => {
                let message = "the end of the expression is expected here, not `=`; `==` compares";
                Err(error_at(self.text, token.start, message.to_owned()))
            }
            Some(_) => Err(self.unexpected("the end of the expression")),
        }
    }

    pub(super) fn at_end(&self) -> bool {
        self.position >= self.tokens.len()
    }

    /// The name, if the whole expression is a single one.
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

    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Error::syntax(format!("The expression nests deeper than {DEPTH} levels.")));
        }
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Parses an expression, or a tuple of several separated by commas.
    pub(super) fn tuple(&mut self) -> Result<String, Error> {
        self.tuple_of(Self::condition)
    }

    /// Like [`Self::tuple`], without inline conditions, as after `in`.
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

    /// Parses an expression.
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

    /// Parses the rest of `value if test else ...`. Branches do not nest in parentheses, because minijinja limits the
    /// depth of expressions.
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
        // The last operand is the value; earlier ones are tested.
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
        self.binary(&[("**", "__pow")], Self::filtered_unary)
    }

    fn filtered_unary(&mut self) -> Result<Code, Error> {
        let code = self.unary()?;
        self.filters(code)
    }

    fn unary(&mut self) -> Result<Code, Error> {
        let sign = if self.accept("-") {
            Some("__neg")
        } else if self.accept("+") {
            Some("__pos")
        } else {
            None
        };
        let code = match sign {
            Some(filter) => {
                let operand = self.nested(|parser| parser.unary())?;
                Code::new(format!("{}|{filter}", operand.text))
            }
            None => self.primary()?,
        };
        self.postfix(code)
    }

    pub(super) fn primary(&mut self) -> Result<Code, Error> {
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
                    self.embeds = true;
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

    /// Parses expressions separated by commas, up to a bracket.
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
}

pub(super) fn tuple_code(items: &[String]) -> String {
    match items {
        [single] => format!("({single},)"),
        items => format!("({})", items.join(", ")),
    }
}
