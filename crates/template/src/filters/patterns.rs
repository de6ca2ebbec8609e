//! Filters for regular expressions.

use minijinja::{State, Value};

use super::call::{Arguments, Outcome};
use crate::limits;
use crate::python::container::list;
use crate::python::regex::{Flags, Limits, Match, Pattern, Template, compile, escape};
use crate::python::text;

fn flags(args: &Arguments) -> Flags {
    Flags { ignore_case: args.flag("ignorecase", false), multi_line: args.flag("multiline", false), ..Flags::default() }
}

pub(super) fn regex_replace(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let written = args.expression("pattern")?;
    let pattern = compile(written, flags(args)).map_err(|reason| args.failed(reason))?;
    let template = Template::parse(args.expression("replacement")?, &pattern).map_err(|reason| args.failed(reason))?;
    let matches = match args.size("count", 0)? {
        0 => usize::MAX,
        count => count,
    };
    let limits = Limits { matches, proceed: limits::in_time };
    let (replaced, count) = pattern.replace(&args.text(), &template, limits).map_err(|reason| args.failed(reason))?;
    let mandatory = args.size("mandatory_count", 0)?;
    if mandatory > 0 && mandatory != count {
        let value = args.text();
        let sentence = format!("'{written}' should match {mandatory} times, but matches {count} times in '{value}'");
        return Err(args.says(sentence));
    }
    Ok(Value::from(replaced))
}

pub(super) fn regex_findall(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    args.need("regex")?;
    let pattern = compile(args.expression("regex")?, flags(args)).map_err(|reason| args.failed(reason))?;
    let value = args.text();
    let matches = pattern
        .find_all(&value, Limits { proceed: limits::in_time, ..Limits::default() })
        .map_err(|reason| args.failed(reason))?;
    let group = |matched: &Match<'_>, index| Value::from(matched.group(index).unwrap_or_default());
    let lengths =
        matches.iter().flat_map(|matched| (0..=pattern.group_count()).filter_map(|index| matched.group(index)));
    limits::take(lengths.map(str::len).sum())?;
    let found = matches.iter().map(|matched| match pattern.group_count() {
        0 => group(matched, 0),
        1 => group(matched, 1),
        count => crate::python::container::tuple((1..=count).map(|index| group(matched, index)).collect()),
    });
    Ok(list(found.collect()))
}

pub(super) fn regex_search(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    args.need("regex")?;
    let pattern = compile(args.expression("regex")?, flags(args)).map_err(|reason| args.failed(reason))?;
    let groups: Vec<usize> =
        args.rest().iter().map(|wanted| group_of(args, &pattern, wanted)).collect::<Result<_, _>>()?;
    let value = args.text();
    let Some(matched) = pattern.find_at(&value, 0).map_err(|reason| args.failed(reason))? else {
        return Ok(Value::from(()));
    };
    if groups.is_empty() {
        return Ok(Value::from(matched.group(0)));
    }
    Ok(list(groups.into_iter().map(|group| Value::from(matched.group(group))).collect()))
}

/// Number of the group that `\1` or `\g<name>` refers to.
fn group_of(args: &Arguments, pattern: &Pattern, wanted: &Value) -> Result<usize, minijinja::Error> {
    let wanted = wanted.as_str().ok_or_else(|| args.wrong("args", "text", wanted))?;
    let number = if let Some(name) = wanted.strip_prefix("\\g<").and_then(|rest| rest.strip_suffix('>')) {
        name.parse().ok().or_else(|| pattern.group_number(name))
    } else if let Some(number) = wanted.strip_prefix('\\') {
        number.parse().ok()
    } else {
        let hint = format!("It takes groups as '\\1' or '\\g<name>', not as '{wanted}'.");
        return Err(args.says_of("Unknown argument", &hint));
    };
    number
        .filter(|number| *number <= pattern.group_count())
        .ok_or_else(|| args.failed(format!("the regular expression has no group '{wanted}'")))
}

pub(super) fn regex_escape(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.text();
    match args.get("re_type").map(text).as_deref() {
        None | Some("python") => Ok(Value::from(escape(&value))),
        Some("posix_basic") => {
            let special = |character| "].[^$*\\".contains(character);
            let escaped = value.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c]));
            Ok(Value::from(escaped.collect::<String>()))
        }
        Some(other) => {
            let sentence = match other {
                "posix_extended" => format!("Regex type ({other}) not yet implemented"),
                _ => format!("Invalid regex type ({other})"),
            };
            Err(args.says_of(sentence, "There are 'python' and 'posix_basic'."))
        }
    }
}
