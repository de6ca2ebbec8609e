//! `lineinfile`: manages one line of a file.

use windlass_python_regex::{Flags, Pattern, Template, compile};

use super::edit::{Edit, bare, lines_with_ends};
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    files::write::{BACKUP, VALIDATE},
    with_attributes,
};

/// The `lineinfile` module.
pub struct LineInFile;

static SPEC: Spec = Spec {
    name: "lineinfile",
    summary: "Ensure that a line is in a file, or is not",
    description: &[
        "Replaces the last line that matches `regexp` or `search_string` (with `firstmatch` the first) with `line`. \
         If no line matches and the file lacks `line`, adds it after `insertafter`, before `insertbefore`, or at the \
         end.",
        "With `state: absent`, removes every matching line.",
        "Uses Python's regular expressions.",
    ],
    options: with_attributes![
        Opt::required("path", Kind::Path, "Path of the file.").aliases(&["dest", "destfile", "name"]),
        Opt::new("state", Kind::Str, "`present` writes the line, `absent` removes matching lines.")
            .choices(&["absent", "present"])
            .default("\"present\""),
        Opt::new(
            "regexp",
            Kind::Str,
            "Regular expression to search for in each line. It should match `line` too, otherwise every run may add \
             one."
        )
        .aliases(&["regex"]),
        Opt::new("search_string", Kind::Str, "Literal text to search for in each line."),
        Opt::new(
            "line",
            Kind::Str,
            "Line to write. With `backrefs`, it may refer to groups of `regexp`, as in `\\1` and `\\g<name>`."
        )
        .aliases(&["value"]),
        Opt::new(
            "backrefs",
            Kind::Bool,
            "Insert groups of `regexp` into `line`. If no line matches, the file stays unchanged."
        )
        .default("false"),
        Opt::new(
            "insertafter",
            Kind::Str,
            "Insert a new line after the last line that matches this regular expression, or at the end (`EOF`)."
        ),
        Opt::new(
            "insertbefore",
            Kind::Str,
            "Insert a new line before the last line that matches this regular expression, or at the beginning (`BOF`)."
        ),
        Opt::new("create", Kind::Bool, "Create the file if it is missing.").default("false"),
        BACKUP,
        Opt::new("firstmatch", Kind::Bool, "Use the first matching line instead of the last.").default("false"),
        VALIDATE,
    ],
    mutually_exclusive: &[
        &["insertbefore", "insertafter"],
        &["regexp", "search_string"],
        &["backrefs", "search_string"],
    ],
    examples: "- name: Nobody logs in as root\n  ansible.builtin.lineinfile:\n    path: /etc/ssh/sshd_config\n    \
               regexp: '^#?PermitRootLogin '\n    line: PermitRootLogin no\n    validate: /usr/sbin/sshd -t -f %s\n\n\
               - name: A module is loaded at boot\n  ansible.builtin.lineinfile:\n    path: /etc/modules-load.d/net.conf\n    \
               line: br_netfilter\n    create: true\n    mode: '0644'\n",
    returns: &[
        Return { name: "msg", kind: "str", when: "always", doc: "Summary of the changes." },
        Return { name: "found", kind: "int", when: "state is absent", doc: "Number of removed lines." },
        Return {
            name: "backup",
            kind: "str",
            when: "always",
            doc: "Path of the backup of the old file, or an empty text.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

/// Warning about an empty pattern; playbooks may match this text.
fn empty_warning(option: &str) -> String {
    let what = if option == "regexp" { "regular expression" } else { "search string" };
    format!(
        "The {what} is an empty string, which will match every line in the file. This may have unintended consequences, such as replacing \
         the last line in the file rather than appending.{}",
        if option == "regexp" {
            " If this is desired, use '^' to match every line in the file and avoid this warning."
        } else {
            ""
        }
    )
}

/// Search criterion for lines.
enum Search {
    Pattern(std::sync::Arc<Pattern>),
    Text(String),
    Nothing,
}

impl Module for LineInFile {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        args.str("path").map(Into::into)
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let plan = plan(args, host)?;
        let empty = ["regexp", "search_string"].into_iter().find(|name| args.str(name) == Some(""));
        Ok(match empty {
            Some(name) => plan.with_warning(empty_warning(name)),
            None => plan,
        })
    }
}

fn plan(args: &Args, host: &Host) -> Result<Plan, Failure> {
    let edit = Edit::of(args, host)?.with_backup_key("backup").with_second_difference();
    let line = args.str("line");
    if args.str("state") == Some("absent") {
        if line.is_none() && args.str("regexp").is_none() && args.str("search_string").is_none() {
            return Err(Failure::new("one of line, search_string, or regexp is required with state=absent"));
        }
        return absent(edit, args, host);
    }
    if args.bool("backrefs") && args.str("regexp").is_none() {
        return Err(Failure::new("regexp is required with backrefs=true"));
    }
    let line = line.ok_or_else(|| Failure::new("line is required with state=present"))?;
    edit.need(args.bool("create"), "Destination")?;
    present(edit, line, args, host)
}

fn absent(edit: Edit, args: &Args, host: &Host) -> Result<Plan, Failure> {
    if !edit.exists {
        return Ok(Plan::unchanged().with("msg", "file not present"));
    }
    let search = Search::of(args, &edit)?;
    let line = edit.before.own(args.str("line").unwrap_or_default());
    let lines = lines_with_ends(&edit.before.text);
    let mut kept = String::new();
    let mut found = 0;
    for current in &lines {
        let fits = match search {
            Search::Nothing => bare(current) == line,
            _ => search.fits(current)?,
        };
        if fits {
            found += 1;
        } else {
            kept.push_str(current);
        }
    }
    let msg = if found > 0 { format!("{found} line(s) removed") } else { String::new() };
    Ok(edit.plan(&kept, &msg, host)?.with("found", found))
}

fn present(edit: Edit, line: &str, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let line = edit.before.own(line);
    let mut lines = lines_with_ends(&edit.before.text);
    let search = Search::of(args, &edit)?;
    let first = args.bool("firstmatch");
    let msg = match last_or_first(&lines, first, |current| search.fits(current))? {
        Some(index) => {
            let current = lines.get(index).cloned().unwrap_or_default();
            let mut new = match &search {
                Search::Pattern(pattern) if args.bool("backrefs") => expanded(pattern, &current, &line)?,
                _ => line,
            };
            if !new.ends_with('\n') {
                new.push('\n');
            }
            replace(&mut lines, index, new)
        }
        None => unmatched(&mut lines, &line, &edit, args, first)?,
    };
    edit.plan(&lines.concat(), msg, host)
}

fn replace(lines: &mut [String], index: usize, new: String) -> &'static str {
    match lines.get_mut(index) {
        Some(current) if *current != new => {
            *current = new;
            "line replaced"
        }
        _ => "",
    }
}

/// No line matches: the exact line may exist nevertheless, otherwise it is added.
fn unmatched(
    lines: &mut Vec<String>,
    line: &str,
    edit: &Edit,
    args: &Args,
    first: bool,
) -> Result<&'static str, Failure> {
    let (after, before) = (args.str("insertafter"), args.str("insertbefore"));
    let anchor = match (after, before) {
        (Some("BOF" | "EOF"), _) | (None, Some("BOF") | None) => None,
        (Some(pattern), _) | (None, Some(pattern)) => Some(compiled(&edit.before.own(pattern))?),
    };
    let mut same = None;
    let mut place = None;
    for (index, current) in lines.iter().enumerate() {
        if bare(current) == line {
            same = Some(index);
        } else if let Some(pattern) = &anchor
            && pattern.is_match(current)?
        {
            place = Some(index);
            if first {
                break;
            }
        }
    }
    let new = format!("{line}\n");
    if let Some(index) = same {
        return Ok(replace(lines, index, new));
    }
    if args.bool("backrefs") {
        return Ok("");
    }
    let index = match place {
        _ if after == Some("BOF") || before == Some("BOF") => 0,
        Some(index) if after.is_some() => index + 1,
        Some(index) => index,
        None => lines.len(),
    };
    // The line after the insertion point may already be the requested one.
    if after.is_some() && place.is_some() && lines.get(index).is_some_and(|next| bare(next) == line) {
        return Ok("");
    }
    if index == lines.len()
        && let Some(last) = lines.last_mut()
        && !last.ends_with(['\n', '\r'])
    {
        last.push('\n');
    }
    lines.insert(index, new);
    Ok("line added")
}

/// The text of `line` with the groups of the match inserted.
fn expanded(pattern: &Pattern, current: &str, line: &str) -> Result<String, Failure> {
    let template = Template::parse(line, pattern).map_err(|message| Failure::new(format!("{message}.")))?;
    let mut out = String::new();
    if let Some(matched) = pattern.find_at(current, 0)? {
        template.expand(&matched, &mut out);
    }
    Ok(out)
}

fn last_or_first(
    lines: &[String],
    first: bool,
    fits: impl Fn(&str) -> Result<bool, Failure>,
) -> Result<Option<usize>, Failure> {
    let mut found = None;
    for (index, line) in lines.iter().enumerate() {
        if fits(line)? {
            found = Some(index);
            if first {
                break;
            }
        }
    }
    Ok(found)
}

/// A compiled pattern of the task.
pub(super) fn compiled(pattern: &str) -> Result<std::sync::Arc<Pattern>, Failure> {
    compile(pattern, Flags::default()).map_err(|message| Failure::new(format!("{message}.")))
}

impl Search {
    fn of(args: &Args, edit: &Edit) -> Result<Search, Failure> {
        Ok(match (args.str("regexp"), args.str("search_string")) {
            (Some(pattern), _) => Search::Pattern(compiled(&edit.before.own(pattern))?),
            (None, Some(text)) => Search::Text(edit.before.own(text)),
            (None, None) => Search::Nothing,
        })
    }

    fn fits(&self, line: &str) -> Result<bool, Failure> {
        match self {
            Search::Pattern(pattern) => Ok(pattern.is_match(line)?),
            Search::Text(text) => Ok(line.contains(text.as_str())),
            Search::Nothing => Ok(false),
        }
    }
}
