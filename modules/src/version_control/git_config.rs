//! `git_config`: settings of git.

use std::path::Path;

use serde_json::Value;

use crate::{
    Args, Diff, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    files::way,
    process::{self, Command},
};

/// The `git_config` module.
pub struct GitConfig;

static SPEC: Spec = Spec {
    name: "git_config",
    collection: "community.general",
    summary: "Manage git settings",
    description: &["Sets and removes a setting with `git config`, for the host, a user, a repository or a file."],
    options: &[
        Opt::required("name", Kind::Str, "Name of the setting, such as `user.email`.").word(),
        Opt::new("value", Kind::Str, "Value of the setting."),
        Opt::new("state", Kind::Str, "`present` sets the setting, `absent` removes it.")
            .default("\"present\"")
            .choices(&["present", "absent"]),
        Opt::new("scope", Kind::Str, "Scope of the setting. Default: `system`.")
            .choices(&["file", "local", "global", "system"]),
        Opt::new("repo", Kind::Path, "With scope `local`: path of the repository."),
        Opt::new("file", Kind::Path, "With scope `file`: path of the file."),
        Opt::new("add_mode", Kind::Str, "Handling of other values: `add` keeps them, `replace-all` replaces them.")
            .default("\"replace-all\"")
            .choices(&["add", "replace-all"]),
    ],
    required_if: &[("scope", "local", &["repo"]), ("scope", "file", &["file"]), ("state", "present", &["value"])],
    examples: "- name: Who commits\n  community.general.git_config:\n    name: user.email\n    value: ops@example.org\n    scope: global\n",
    returns: &[Return {
        name: "msg",
        kind: "str",
        when: "always",
        doc: "Message that the setting was or was not changed.",
    }],
    ..Spec::EMPTY
}
.compiled();

impl Module for GitConfig {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        let file = args.str("file").filter(|_| args.str("scope") == Some("file"));
        Some(file.map_or_else(|| format!("git/config/{}", args.str("scope").unwrap_or("system")), str::to_owned).into())
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let name = args.required("name")?.to_owned();
        let unset = args.str("state") == Some("absent");
        let value = args.str("value").unwrap_or_default().to_owned();
        if !unset && value.is_empty() {
            return Err(Failure::new("If state=present, a value must be specified."));
        }
        let scope = args.str("scope").unwrap_or("system");
        let mut words = vec!["config".to_owned(), "--includes".to_owned()];
        match args.str("file").filter(|_| scope == "file") {
            Some(file) => words.extend(["-f".to_owned(), way::checked(Path::new(file))?.display().to_string()]),
            None => words.push(format!("--{scope}")),
        }
        // Runs in the root directory, so that git does not find a repository by accident.
        let directory = args.str("repo").filter(|_| scope == "local").unwrap_or("/").to_owned();
        let git = process::find(host, "git").map_or_else(|| "git".to_owned(), |path| path.display().to_string());
        let command = |words: Vec<String>| Command::new(&git).plain_locale().args(words).directory(&directory);
        let ask = [words.clone(), vec!["--get-all".to_owned(), name.clone()]].concat();
        let output = command(ask.clone()).run(host)?;
        // Status 1 only means that the setting does not exist.
        if output.rc >= 2 || output.rc < 0 {
            return Err(Failure::new(output.stderr_text().trim())
                .with("rc", output.rc)
                .with("cmd", format!("{git} {}", ask.join(" "))));
        }
        let old: Vec<String> = output.stdout_text().lines().map(str::to_owned).collect();
        let add = args.str("add_mode") == Some("add");
        if unset && old.is_empty() {
            return Ok(Plan::unchanged().with("msg", "no setting to unset"));
        }
        if !unset && old.contains(&value) && (old.len() == 1 || add) {
            return Ok(Plan::unchanged().with("msg", ""));
        }
        let after: Vec<String> = match (unset, add) {
            (true, _) => Vec::new(),
            (false, true) => [old.clone(), vec![value.clone()]].concat(),
            (false, false) => vec![value.clone()],
        };
        let set = if unset {
            vec!["--unset-all".to_owned(), name]
        } else {
            vec![format!("--{}", if add { "add" } else { "replace-all" }), name, value]
        };
        let set = [words, set].concat();
        let shown = format!("{git} {}", set.join(" "));
        let run = command(set);
        let plan = Plan::change(move |host, _| run.check_run(host).map(|_| ())).with("msg", "setting changed");
        Ok(if host.diff() { plan.with_diff(Diff::of(&shown, side(old), side(after))) } else { plan })
    }
}

/// A single value as text, several as a list.
fn side(values: Vec<String>) -> Value {
    match values.as_slice() {
        [] => "\n".into(),
        [one] => format!("{one}\n").into(),
        _ => values.into(),
    }
}
