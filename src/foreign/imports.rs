//! Extracts the imports of Python source without running Python.

/// One imported name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    /// Number of dots before the module's name.
    pub(super) level: usize,
    /// Parts of the module's name.
    pub(super) module: Vec<String>,
    /// Name imported from it: a submodule, or an object inside.
    pub(super) name: Option<String>,
    /// Whether the import is nested (in `try`, `if` or a function), so that the source may work without it.
    pub(super) optional: bool,
}

/// All imports in source order.
pub(super) fn imports_of(text: &str) -> Vec<Import> {
    let mut found = Vec::new();
    for (line, indented) in statements(text) {
        if let Some(rest) = line.strip_prefix("import ") {
            for entry in rest.split(',') {
                let module = entry.split_whitespace().next().map(parts).unwrap_or_default();
                if !module.is_empty() {
                    found.push(Import { level: 0, module, name: None, optional: indented });
                }
            }
        } else if let Some((module, names)) = line.strip_prefix("from").and_then(|rest| rest.split_once(" import")) {
            let dotted: String = module.split_whitespace().collect();
            let level = dotted.bytes().take_while(|byte| *byte == b'.').count();
            let module = parts(dotted.trim_start_matches('.'));
            for name in names.split([',', '(', ')']).filter_map(|entry| entry.split_whitespace().next()) {
                found.push(Import { level, module: module.clone(), name: Some(name.to_owned()), optional: indented });
            }
        }
    }
    found
}

fn parts(dotted: &str) -> Vec<String> {
    dotted.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Statements on one line each, without strings and comments, and whether they are indented.
fn statements(text: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut line = String::new();
    let mut depth = 0_usize;
    let mut rest = text.chars().peekable();
    let mut end = |line: &mut String| {
        let indented = line.starts_with([' ', '\t']);
        for statement in line.split(';') {
            found.push((statement.trim().to_owned(), indented));
        }
        line.clear();
    };
    while let Some(character) = rest.next() {
        match character {
            '#' => while rest.next_if(|next| *next != '\n').is_some() {},
            '\\' => {
                if rest.next_if_eq(&'\r').is_some() | rest.next_if_eq(&'\n').is_some() {
                    line.push(' ');
                }
            }
            '\n' if depth == 0 => end(&mut line),
            '\n' | '\r' => line.push(' '),
            '\'' | '"' => {
                skip_string(character, &mut rest);
                line.push('"');
            }
            _ => {
                match character {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                line.push(character);
            }
        }
    }
    end(&mut line);
    found
}

fn skip_string(quote: char, rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let mut triple = false;
    if rest.next_if_eq(&quote).is_some() {
        if rest.next_if_eq(&quote).is_none() {
            return;
        }
        triple = true;
    }
    let mut quotes = 0;
    while let Some(character) = rest.next() {
        quotes = if character == quote { quotes + 1 } else { 0 };
        match character {
            '\\' => {
                rest.next();
            }
            // An unclosed string is an error in the source; continuing at the next line limits the damage.
            '\n' if !triple => return,
            _ if quotes == if triple { 3 } else { 1 } => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let show = |import: Import| {
            let dots = ".".repeat(import.level);
            let name = import.name.map(|name| format!(":{name}")).unwrap_or_default();
            format!("{dots}{}{name}{}", import.module.join("."), if import.optional { "?" } else { "" })
        };
        imports_of(text).into_iter().map(show).collect()
    }

    #[test]
    fn every_form_of_import_is_found() {
        let text = "import os, a.b as c\nfrom .. import x\nfrom .y.z import (\n    p,  # comment\n    q as r,\n)\n\
                    from ansible.module_utils.basic import *\ntry:\n    from m import n\nexcept ImportError: pass\n\
                    import one; import two\nfrom a \\\n  import b\n";
        let wanted =
            ["os", "a.b", "..:x", ".y.z:p", ".y.z:q", "ansible.module_utils.basic:*", "m:n?", "one", "two", "a:b"];
        assert_eq!(shown(text), wanted);
    }

    #[test]
    fn strings_and_comments_ignored() {
        let text = "DOC = r'''\nfrom a import b\n'''\n# import c\nx = \"\"\"\nimport d\n\\\"\"\"\nimport e\n\"\"\"\nf('\\'', \"import g\")\nimport h\n";
        assert_eq!(shown(text), ["h"]);
    }
}
