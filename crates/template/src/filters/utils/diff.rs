//! `fact_diff`: differences between two values, as a unified diff.

use minijinja::{State, Value};

use crate::filters::call::{Arguments, Outcome};
use crate::python::container::{is_dict, is_list, list, step};
use crate::python::difflib::unified_diff;
use crate::python::json::{DumpOptions, dump};
use crate::python::regex::{Flags, compile};
use crate::python::{repr, text};

const CONTEXT: usize = 3;

fn lines(args: &Arguments, value: &Value, skip: &[String]) -> Result<String, minijinja::Error> {
    let shown = match is_dict(value) || is_list(value) {
        true => {
            let options = DumpOptions {
                indent: Some(" ".repeat(4)),
                item_separator: ",".to_owned(),
                sort_keys: true,
                ..DumpOptions::default()
            };
            dump(value, &options).map_err(|reason| args.failed(reason))? + "\n"
        }
        false => text(value),
    };
    if skip.is_empty() {
        return Ok(shown);
    }
    let patterns: Result<Vec<_>, String> = skip.iter().map(|pattern| compile(pattern, Flags::default())).collect();
    let patterns = patterns.map_err(|reason| args.failed(reason))?;
    let kept = |line: &&str| !patterns.iter().any(|pattern| pattern.is_match(line.trim_end()).unwrap_or(false));
    Ok(shown.split_inclusive('\n').filter(kept).collect())
}

pub(in crate::filters) fn fact_diff(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let after = args.get("other").or(args.get("after")).ok_or_else(|| args.error("needs the argument 'other'"))?;
    let vars = args.some("plugin").and_then(|plugin| step(plugin, &Value::from("vars")));
    let skip = vars.and_then(|vars| step(&vars, &Value::from("skip_lines")));
    let skip: Vec<String> = match skip {
        Some(skip) if is_list(&skip) => skip.try_iter()?.map(|pattern| text(&pattern)).collect(),
        Some(skip) => vec![text(&skip)],
        None => Vec::new(),
    };
    let (before, after) = (lines(args, args.value(), &skip)?, lines(args, after, &skip)?);
    let out = unified_diff(&before, &after, CONTEXT, ("before", "after"));
    // The collection returns the text of a list.
    Ok(Value::from(repr(&list(out.split('\n').map(Value::from).collect()))))
}
