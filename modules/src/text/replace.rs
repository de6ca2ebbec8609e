//! `replace`: replaces all matches of a pattern in a file.

use windlass_python_regex::{Flags, Limits, Template, compile};

use super::{edit::Edit, lineinfile::compiled};
use crate::{
    Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    files::write::{BACKUP, VALIDATE},
    with_attributes,
};

/// The `replace` module.
pub struct Replace;

static SPEC: Spec = Spec {
    name: "replace",
    summary: "Replace all matches of a pattern in a file",
    description: &[
        "Replaces every match of `regexp` with `replace`. Searches the text as a whole: `^` and `$` match at every \
         line, and `.` matches everything except a newline. Uses Python's regular expressions.",
        "If the replacement matches the pattern again, every run changes the file.",
    ],
    options: with_attributes![
        Opt::required("path", Kind::Path, "Path of the file.").aliases(&["dest", "destfile", "name"]),
        Opt::required("regexp", Kind::Str, "Regular expression to replace."),
        Opt::new("replace", Kind::Str, "Replacement text; `\\1` and `\\g<name>` refer to groups of the match.")
            .default("\"\""),
        Opt::new(
            "after",
            Kind::Str,
            "Replace only after the first match of this regular expression, in which `.` also matches a newline."
        ),
        Opt::new(
            "before",
            Kind::Str,
            "Replace only before a match of this regular expression, in which `.` also matches a newline."
        ),
        BACKUP,
        VALIDATE,
        Opt::new("encoding", Kind::Str, "Encoding of the file: `utf-8`, `ascii` or `latin-1`.").default("\"utf-8\""),
    ],
    examples: "- name: Names of the old domain\n  ansible.builtin.replace:\n    path: /etc/hosts\n    \
               regexp: '(\\s+)([a-z0-9-]+)\\.old\\.example(\\s|$)'\n    replace: '\\1\\2.new.example\\3'\n\n\
               - name: Comments in one section\n  ansible.builtin.replace:\n    path: /etc/app.ini\n    after: '\\[cache\\]'\n    \
               before: '\\[log\\]'\n    regexp: '^(.+)$'\n    replace: '# \\1'\n",
    returns: &[
        Return { name: "msg", kind: "str", when: "always", doc: "Number of replacements." },
        Return { name: "rc", kind: "int", when: "always", doc: "Always 0." },
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

impl Module for Replace {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        args.str("path").map(Into::into)
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let encoding = args.str("encoding").unwrap_or("utf-8");
        let known = encoding.to_ascii_lowercase().replace(['-', '_'], "");
        if !matches!(known.as_str(), "utf8" | "ascii" | "usascii" | "latin1" | "iso88591") {
            return Err(Failure::new(format!(
                "The encoding {encoding} is not supported; utf-8, ascii and latin-1 are."
            )));
        }
        let edit = Edit::of(args, host)?.with_bare_difference();
        edit.need_file("Path")?;
        let text = &edit.before.text;
        let (start, end) = match section(&edit, args)? {
            Section::Found(start, end) => (start, end),
            Section::Missing(pattern) => {
                let msg = format!("Pattern for before/after params did not match the given file: {pattern}");
                return Ok(Plan::unchanged().with("rc", 0).with("msg", msg));
            }
        };
        let section = text.get(start..end).unwrap_or_default();
        let flags = Flags { multi_line: true, ..Flags::default() };
        let sentence = |message: String| Failure::new(format!("{message}."));
        let pattern = compile(&edit.before.own(args.required("regexp")?), flags).map_err(sentence)?;
        let template = Template::parse(&edit.before.own(args.str("replace").unwrap_or_default()), &pattern);
        let template =
            template.map_err(|message| Failure::new(format!("Unable to process replace due to error: {message}.")))?;
        let (new, count) = pattern.replace(section, &template, Limits::default()).map_err(sentence)?;
        let msg = if new == section { String::new() } else { format!("{count} replacements made") };
        let after = [text.get(..start).unwrap_or_default(), &new, text.get(end..).unwrap_or_default()].concat();
        Ok(edit.plan(&after, &msg, host)?.with("rc", 0))
    }
}

enum Section {
    Found(usize, usize),
    Missing(String),
}

/// The part of the text between `after` and `before`.
fn section(edit: &Edit, args: &Args) -> Result<Section, Failure> {
    let given = |name: &str| args.filled(name).map(|text| edit.before.own(text));
    let pattern = match (given("after"), given("before")) {
        (None, None) => return Ok(Section::Found(0, edit.before.text.len())),
        (Some(after), Some(before)) => format!("{after}(?P<subsection>.*?){before}"),
        (Some(after), None) => format!("{after}(?P<subsection>.*)"),
        (None, Some(before)) => format!("(?P<subsection>.*){before}"),
    };
    let compiled = compiled(&format!("(?s){pattern}"))?;
    let matched = compiled.find_at(&edit.before.text, 0)?;
    let number = compiled.group_number("subsection").unwrap_or_default();
    Ok(match matched.and_then(|matched| matched.range(number)) {
        Some((start, end)) => Section::Found(start, end),
        None => Section::Missing(pattern),
    })
}
