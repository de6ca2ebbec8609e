//! Writes a template with blocks as a source for minijinja.

use std::fmt::Write as _;

use super::expression::Parser;
use super::token::Token;
use super::{Dialect, Piece, Template, mutates, quote, statement};
use crate::error::Error;

/// Maximum nesting of blocks.
const BLOCKS: usize = 200;

/// Writes the pieces of a text.
pub(super) fn write(text: &str, pieces: Vec<Piece<'_>>, dialect: Dialect) -> Result<Template, Error> {
    let mutates = pieces.iter().any(|piece| match piece {
        Piece::Variable { tokens, .. } | Piece::Block { tokens, .. } => mutates(tokens),
        Piece::Text(_) => false,
    });
    let mut writer = Writer {
        text,
        dialect,
        mutates,
        source: String::with_capacity(text.len() * 2),
        transparent: true,
        read: Lines::default(),
        written: Lines::default(),
        depth: 0,
        captured: 0,
        macros: 0,
        sets: Vec::new(),
        names: Vec::new(),
        included: Vec::new(),
    };
    for piece in pieces {
        match piece {
            Piece::Text(text) => writer.literal(&text),
            Piece::Variable { tokens, written } => writer.variable(&tokens, written)?,
            Piece::Block { tokens, written } => writer.block(&tokens, written)?,
        }
    }
    Ok(writer.finish())
}

/// The source so far, and the blocks that are open at its end.
struct Writer<'a> {
    text: &'a str,
    dialect: Dialect,
    mutates: bool,
    source: String,
    transparent: bool,
    /// Lines up to the current piece of the text.
    read: Lines,
    /// Lines of the source.
    written: Lines,
    /// Number of open blocks.
    depth: usize,
    /// Number of open blocks whose output is captured.
    captured: usize,
    /// Number of open macros.
    macros: usize,
    /// Targets of the open block assignments.
    sets: Vec<Option<String>>,
    /// Names that are assigned outside of macros.
    names: Vec<String>,
    /// Offsets in the source of includes within macros.
    included: Vec<usize>,
}

impl<'a> Writer<'a> {
    fn parser<'t>(&self, tokens: &'t [Token<'t>]) -> Parser<'t>
    where
        'a: 't,
    {
        let mut parser = Parser::new(self.text, tokens, self.dialect.nested_templates, self.mutates);
        parser.has_macros = true;
        parser
    }

    fn literal(&mut self, text: &str) {
        match self.captured {
            0 => write_text(text, &mut self.source),
            // A captured text counts towards the length of the output.
            _ => {
                let _ = write!(self.source, "{{{{ {} }}}}", quote(text));
            }
        }
    }

    fn variable(&mut self, tokens: &[Token<'_>], written: &str) -> Result<(), Error> {
        let mut parser = self.parser(tokens);
        let code = parser.tuple()?;
        parser.end()?;
        let padding = self.padding(written);
        let _ = write!(self.source, "{{{{ {padding}{code} }}}}");
        Ok(())
    }

    fn block(&mut self, tokens: &[Token<'_>], written: &str) -> Result<(), Error> {
        let mut parser = self.parser(tokens);
        let word = tokens.first().and_then(Token::name);
        self.nest(word)?;
        let mut statement = statement::statement(&mut parser)?;
        self.transparent &= !statement.opaque;
        self.captured += usize::from(statement.captures);
        if self.macros == 0 {
            self.names.append(&mut statement.names);
        }
        self.macros += usize::from(matches!(word, Some("macro" | "call")));
        match word {
            Some("set") if statement.captures => self.sets.push(statement.sets.take()),
            Some("endset") => {
                if let Some(target) = self.sets.pop().flatten() {
                    let end = statement::END;
                    statement.code = format!("{end} %}}{{% endset %}}{{% set {target} = {target}|__returned");
                }
            }
            Some("include") if self.macros > 0 => self.included.push(self.source.len()),
            _ => {}
        }
        if matches!(word, Some("endmacro" | "endcall" | "endfilter" | "endset" | "endblock")) {
            self.captured = self.captured.saturating_sub(1);
        }
        if matches!(word, Some("endmacro" | "endcall")) {
            self.macros = self.macros.saturating_sub(1);
        }
        let padding = self.padding(written);
        let _ = write!(self.source, "{{% {padding}{} %}}", statement.code);
        Ok(())
    }

    /// Counts the open blocks.
    fn nest(&mut self, word: Option<&str>) -> Result<(), Error> {
        match word {
            Some("if" | "for" | "macro" | "call" | "filter" | "with" | "block") => self.depth += 1,
            Some(word) if word.starts_with("end") => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if self.depth > BLOCKS {
            return Err(Error::syntax(format!("The blocks of the template nest deeper than {BLOCKS} levels.")));
        }
        Ok(())
    }

    /// Newlines to insert into a tag so that it keeps its line despite white space control. Errors then name the right
    /// lines.
    fn padding(&mut self, written: &str) -> String {
        let offset = written.as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        let leading = written.len() - written.trim_start().len();
        let line = self.read.at(self.text, offset + leading);
        "\n".repeat(line.saturating_sub(self.written.at(&self.source, self.source.len())))
    }

    fn finish(mut self) -> Template {
        // minijinja's macros only capture the variables they name, but an included template may use any.
        let uses: String = self.names.iter().map(|name| format!("{{{{ {name} }}}}")).collect();
        for place in self.included.into_iter().rev() {
            self.source.insert_str(place, &format!("{{% if false %}}{uses}{{% endif %}}"));
        }
        Template { source: self.source, mutates: self.mutates, transparent: self.transparent }
    }
}

/// Counts lines in a single pass over a text.
#[derive(Default)]
struct Lines {
    offset: usize,
    newlines: usize,
}

impl Lines {
    /// Line of an offset, counting from 1; offsets must not decrease.
    fn at(&mut self, text: &str, offset: usize) -> usize {
        let passed = text.as_bytes().get(self.offset..offset).unwrap_or_default();
        self.newlines += passed.iter().filter(|byte| **byte == b'\n').count();
        self.offset = self.offset.max(offset);
        self.newlines + 1
    }
}

/// Writes text so that minijinja finds no tag in it, whatever follows.
fn write_text(text: &str, source: &mut String) {
    let mut rest = text;
    while let Some(position) = rest.find('{') {
        let after = rest[position + 1..].chars().next();
        source.push_str(&rest[..position]);
        if matches!(after, None | Some('{' | '%' | '#')) {
            source.push_str("{% raw %}{{% endraw %}");
        } else {
            source.push('{');
        }
        rest = &rest[position + 1..];
    }
    source.push_str(rest);
}
