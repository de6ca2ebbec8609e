//! Extracts the result from a foreign module's output.

use serde_json::{Value, json};

use crate::{Host, process::Output};

/// Parses a module's result.
pub(super) fn read(module: &str, output: &Output, host: &Host) -> Value {
    let text = output.stdout_text();
    let problem = match object_in(&text) {
        None if let Some(size) = output.overlong => format!("it printed {size} bytes, which is too much"),
        None => "it printed no JSON object".to_owned(),
        Some((json, after)) => match parse(&json) {
            Ok(Value::Object(mut result)) => {
                if !after.is_empty() {
                    let junk = format!("trailing junk after module output, junk after the JSON data: {after}");
                    host.warn(format!("The module {module} left {junk}"));
                }
                // A job's file keeps the output, because no controller was connected.
                if host.detached && !output.stderr_text().is_empty() {
                    result.insert("module_stderr".to_owned(), output.stderr_text().into());
                }
                return result.into();
            }
            Ok(_) => "it printed no JSON object".to_owned(),
            Err(error) => format!("its output is not valid JSON: {error}"),
        },
    };
    let stderr = output.stderr_text();
    let traceback = stderr.contains("Traceback (most recent call last)");
    let said = match traceback {
        // The last line of a traceback contains the error.
        true => stderr.trim_end().lines().next_back(),
        false => stderr.lines().find(|line| !line.trim().is_empty()),
    };
    let said = said.map(|line| format!(": {}", line.trim())).unwrap_or_default();
    let mut result = json!({
        "changed": false,
        "failed": true,
        "msg": format!(
            "MODULE FAILURE: the module {module} ended with status {} and without a result ({problem}){said}\n\
             See stdout/stderr for the exact error",
            output.rc
        ),
        "module_stdout": text,
        "module_stderr": stderr,
        "rc": output.rc,
    });
    if let (Some(map), true) = (result.as_object_mut(), traceback) {
        map.insert("exception".into(), stderr.into());
    }
    result
}

/// The lines from the first that begins an object to the last that ends one, and the text after them.
fn object_in(text: &str) -> Option<(String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().position(|line| line.trim_start().starts_with('{'))?;
    let lines = lines.get(start..)?;
    let end = lines.iter().rposition(|line| line.trim_end().ends_with('}'))?;
    let (object, after) = lines.split_at(end + 1);
    Some((object.join("\n"), after.join("\n").trim().to_owned()))
}

/// Parses Python's JSON: unpaired surrogates stand for invalid bytes, and numbers may be NaN or infinite.
fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| serde_json::from_str(&mended(text)).map_err(|_| error))
}

fn mended(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut inside = false;
    while let Some(character) = rest.chars().next() {
        let taken = match character {
            '\\' if is_surrogate(rest, 'd', &['8', '9', 'a', 'b']) => {
                let low = rest.get(6..).unwrap_or_default();
                if is_surrogate(low, 'd', &['c', 'd', 'e', 'f']) {
                    out.push_str(rest.get(..12).unwrap_or_default());
                    12
                } else {
                    out.push('\u{fffd}');
                    6
                }
            }
            '\\' if is_surrogate(rest, 'd', &['c', 'd', 'e', 'f']) => {
                out.push('\u{fffd}');
                6
            }
            '\\' => {
                let length = rest.char_indices().nth(2).map_or(rest.len(), |(index, _)| index);
                out.push_str(rest.get(..length).unwrap_or_default());
                length
            }
            'N' | 'I' | '-' if !inside => {
                match ["NaN", "Infinity", "-Infinity"].iter().find(|word| rest.starts_with(**word)) {
                    Some(word) => {
                        out.push_str("null");
                        word.len()
                    }
                    None => {
                        out.push(character);
                        1
                    }
                }
            }
            _ => {
                inside ^= character == '"';
                out.push(character);
                character.len_utf8()
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

/// Whether a text begins with an escape such as `\udc80`.
fn is_surrogate(text: &str, first: char, second: &[char]) -> bool {
    let mut characters = text.strip_prefix("\\u").unwrap_or_default().chars().map(|c| c.to_ascii_lowercase());
    characters.next() == Some(first) && characters.next().is_some_and(|character| second.contains(&character))
}
