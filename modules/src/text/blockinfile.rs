//! `blockinfile`: a block of lines between two markers.

use windlass_python_regex::Pattern;

use super::{edit::Edit, lineinfile::compiled};
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    files::write::{BACKUP, VALIDATE},
    with_attributes,
};

/// The `blockinfile` module.
pub struct BlockInFile;

static SPEC: Spec = Spec {
    name: "blockinfile",
    summary: "Manage a block of lines between markers in a file",
    description: &[
        "Later runs find the block by the marker lines around it. Each block in a file needs different markers.",
        "An empty block, or `state: absent`, removes the block and its markers.",
    ],
    options: with_attributes![
        Opt::required("path", Kind::Path, "Path of the file.").aliases(&["dest", "destfile", "name"]),
        Opt::new("state", Kind::Str, "`present` writes the block, `absent` removes it.")
            .choices(&["absent", "present"])
            .default("\"present\""),
        Opt::new("marker", Kind::Str, "Marker line; `{mark}` is replaced with `marker_begin` or `marker_end`.")
            .default("\"# {mark} ANSIBLE MANAGED BLOCK\""),
        Opt::new("block", Kind::Str, "Lines of the block.").aliases(&["content"]).default("\"\""),
        Opt::new(
            "insertafter",
            Kind::Str,
            "Insert a new block after the last line that matches this regular expression, or at the end (`EOF`)."
        ),
        Opt::new(
            "insertbefore",
            Kind::Str,
            "Insert a new block before the last line that matches this regular expression, or at the beginning \
             (`BOF`)."
        ),
        Opt::new("create", Kind::Bool, "Create the file if it is missing.").default("false"),
        BACKUP,
        VALIDATE,
        Opt::new("marker_begin", Kind::Str, "Replacement for `{mark}` in the first marker.").default("\"BEGIN\""),
        Opt::new("marker_end", Kind::Str, "Replacement for `{mark}` in the last marker.").default("\"END\""),
        Opt::new("append_newline", Kind::Bool, "Keep an empty line after the block.").default("false"),
        Opt::new("prepend_newline", Kind::Bool, "Keep an empty line before the block.").default("false"),
    ],
    mutually_exclusive: &[&["insertbefore", "insertafter"]],
    examples: "- name: The nodes know each other\n  ansible.builtin.blockinfile:\n    path: /etc/hosts\n    marker: '# {mark} nodes'\n    \
               block: |\n      10.0.0.11 node-1\n      10.0.0.12 node-2\n",
    returns: &[
        Return { name: "msg", kind: "str", when: "always", doc: "Summary of the changes." },
        Return {
            name: "backup_file",
            kind: "str",
            when: "a backup was made",
            doc: "Path of the backup of the old file.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for BlockInFile {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        args.str("path").map(Into::into)
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let edit = Edit::of(args, host)?.with_second_difference();
        let present = args.str("state") != Some("absent");
        edit.need(args.bool("create"), "Path")?;
        if !edit.exists && !present {
            return Ok(Plan::unchanged().with("msg", format!("File {} not present", edit.path().display())));
        }
        let block = if present { edit.before.own(args.str("block").unwrap_or_default()) } else { String::new() };
        let after = edited(&edit, &block, present, args)?;
        let msg = match (edit.exists, after == edit.before.text, block.is_empty()) {
            (false, ..) => "File created",
            (true, true, _) => "",
            (true, false, true) => "Block removed",
            (true, false, false) => "Block inserted",
        };
        let marker = args.str("marker").unwrap_or_default();
        let distinct = marker.contains("{mark}") && !marker.trim_end_matches('\n').contains('\n');
        let plan = edit.plan(&after, msg, host)?;
        Ok(if distinct {
            plan
        } else {
            plan.with_warning(
                "The option marker must be one line with {mark} in it; otherwise the block is not found again and every run inserts it again.",
            )
        })
    }
}

/// The text with the requested block.
fn edited(edit: &Edit, block: &str, present: bool, args: &Args) -> Result<String, Failure> {
    let text = &edit.before.text;
    let mut lines = lines_of(text);
    let marker = |word: &str| {
        let word = args.str(word).unwrap_or_default();
        format!("{}\n", edit.before.own(&args.str("marker").unwrap_or_default().replace("{mark}", word)))
    };
    let (begin, end) = (marker("marker_begin"), marker("marker_end"));
    let mut new = Vec::new();
    if !block.is_empty() {
        new.push(begin.clone());
        new.extend(lines_of(block));
        if let Some(last) = new.last_mut().filter(|last| !last.ends_with('\n')) {
            last.push('\n');
        }
        new.push(end.clone());
    }
    let position = |marker: &str| lines.iter().rposition(|line| line == marker);
    let mut at = match (position(&begin), position(&end)) {
        (Some(first), Some(last)) => {
            let (first, last) = (first.min(last), first.max(last));
            lines.drain(first..=last);
            first
        }
        _ => place(text, &lines, edit, args)?,
    };
    if let Some(before) = at.checked_sub(1).and_then(|before| lines.get_mut(before))
        && !before.ends_with('\n')
    {
        before.push('\n');
    }
    let is_text = |line: Option<&String>| line.is_some_and(|line| line != "\n");
    if args.bool("prepend_newline") && present && at > 0 && is_text(lines.get(at - 1)) {
        lines.insert(at, "\n".to_owned());
        at += 1;
    }
    let behind = at + new.len();
    lines.splice(at..at, new);
    if args.bool("append_newline") && present && is_text(lines.get(behind)) {
        lines.insert(behind, "\n".to_owned());
    }
    Ok(lines.concat())
}

/// The position of a new block.
fn place(text: &str, lines: &[String], edit: &Edit, args: &Args) -> Result<usize, Failure> {
    let (pattern, is_after) = match (args.str("insertafter"), args.str("insertbefore")) {
        (None, Some("BOF")) => return Ok(0),
        (None | Some("EOF"), None) | (Some("EOF"), Some(_)) => return Ok(lines.len()),
        (Some(pattern), _) => (pattern, true),
        (None, Some(pattern)) => (pattern, false),
    };
    let compiled = compiled(&edit.before.own(pattern))?;
    let found = if over_lines(pattern) { in_text(&compiled, text, is_after)? } else { in_lines(&compiled, lines)? };
    Ok(match found {
        None => lines.len(),
        Some(index) => (index + usize::from(is_after)).min(lines.len()),
    })
}

fn in_lines(pattern: &Pattern, lines: &[String]) -> Result<Option<usize>, Failure> {
    let mut found = None;
    for (index, line) in lines.iter().enumerate() {
        if pattern.is_match(line)? {
            found = Some(index);
        }
    }
    Ok(found)
}

/// The line in which the first match ends or begins.
fn in_text(pattern: &Pattern, text: &str, is_after: bool) -> Result<Option<usize>, Failure> {
    let Some(matched) = pattern.find_at(text, 0)? else { return Ok(None) };
    let until = if is_after { matched.end() } else { matched.start() };
    Ok(text.get(..until).map(|front| front.matches('\n').count()))
}

/// Whether the flags of a pattern let it match across lines.
fn over_lines(pattern: &str) -> bool {
    let flags = pattern.strip_prefix("(?").and_then(|rest| rest.split(')').next());
    flags.is_some_and(|flags| flags.chars().all(|flag| flag.is_ascii_lowercase()) && flags.contains('m'))
}

/// Lines with their endings: a newline, a carriage return, or both.
fn lines_of(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = match rest.find(['\n', '\r']) {
            None => rest.len(),
            Some(at) if rest.get(at..).is_some_and(|tail| tail.starts_with("\r\n")) => at + 2,
            Some(at) => at + 1,
        };
        let (line, tail) = rest.split_at(end);
        lines.push(line.to_owned());
        rest = tail;
    }
    lines
}
