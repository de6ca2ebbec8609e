//! Commands that install and remove a release.

use serde_json::Value;

use super::{Helm, chart::Chart};
use crate::{Args, Failure, Host, kubernetes::configuration::Secret};

/// A command as it runs, and as results show it.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    pub(super) words: Vec<String>,
    pub(super) shown: String,
}

impl Line {
    pub(super) fn of(program: &str) -> Line {
        Line { words: Vec::new(), shown: program.to_owned() }
    }

    pub(super) fn add(&mut self, word: impl Into<String>) {
        let word = word.into();
        self.add_as(Some(&word), &word);
    }

    /// Adds a word that may contain blanks.
    pub(super) fn quoted(&mut self, word: &str) {
        self.add_as(Some(word), &format!("'{word}'"));
    }

    /// Adds a word that results show otherwise, or a word for results only.
    pub(super) fn add_as(&mut self, word: Option<&str>, shown: &str) {
        self.shown.push(' ');
        self.shown.push_str(shown);
        self.words.extend(word.map(str::to_owned));
    }

    /// Adds the chart as the last word of a subcommand.
    pub(super) fn chart(&mut self, chart: &Chart) {
        self.add_as(Some(&chart.reference), &format!("'{}'", chart.shown));
    }

    fn timeout(&mut self, given: Option<&str>) {
        if let Some(timeout) = given {
            self.add("--timeout");
            self.add(timeout);
        }
    }

    /// Adds a flag if its option is true.
    fn flag(&mut self, wanted: bool, flag: &str) {
        if wanted {
            self.add(flag);
        }
    }
}

/// Writes the task's values to a temporary file.
pub(super) fn values_file(args: &Args) -> Result<Option<Secret>, Failure> {
    let values = args.value("release_values").and_then(Value::as_object).filter(|values| !values.is_empty());
    // JSON is valid YAML.
    values.map(|values| Secret::write(&Value::from(values.clone()).to_string())).transpose()
}

/// Adds the values of the task: files, mapping and single values.
pub(super) fn add_values(line: &mut Line, args: &Args, file: Option<&Secret>) {
    for path in args.list("values_files") {
        line.add(format!("--values={path}"));
    }
    if let Some(file) = file {
        line.add(format!("-f={}", file.path()));
    }
}

/// Adds single values (`set_values`).
pub(super) fn add_single_values(line: &mut Line, args: &Args, helm: &Helm, host: &Host) -> Result<(), Failure> {
    let given = args.value("set_values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if given.iter().any(|item| item["value_type"] == "json") {
        helm.require("set_values with value_type json", 10, host)?;
    }
    for item in given {
        let value = item["value"].as_str().map_or_else(|| item["value"].to_string(), str::to_owned);
        match item["value_type"].as_str().unwrap_or("raw") {
            "raw" => {
                line.add("--set");
                line.add(value);
            }
            kind => {
                line.add(format!("--set-{kind}"));
                line.quoted(&value);
            }
        }
    }
    Ok(())
}

/// Facts about an installation, apart from its arguments.
pub(super) struct Installation<'a> {
    /// The release already exists.
    pub(super) upgrade: bool,
    /// The command itself fetches the chart's dependencies.
    pub(super) fetch: bool,
    /// The chart to install.
    pub(super) chart: &'a Chart,
    /// The file with the task's values.
    pub(super) file: Option<&'a Secret>,
}

/// Builds `helm upgrade -i`, or `helm install` with `replace`.
pub(super) fn deploy(
    line: &mut Line,
    args: &Args,
    how: &Installation<'_>,
    helm: &Helm,
    host: &Host,
) -> Result<(), Failure> {
    let upgrade = how.upgrade;
    let replace = args.bool("replace");
    let capital = |value: bool| if value { "True" } else { "False" };
    if replace {
        line.add("install");
        line.flag(how.fetch, "--dependency-update");
    } else {
        line.add("upgrade");
        line.add("-i");
        line.flag(args.bool("reset_values"), "--reset-values");
        line.flag(upgrade && args.bool("take_ownership"), "--take-ownership");
    }
    if let Some(reuse) = args.maybe_bool("reuse_values") {
        line.add(format!("--reuse-values={}", capital(reuse)));
    }
    if args.bool("reset_then_reuse_values") {
        helm.require("reset_then_reuse_values", 14, host)?;
        line.add("--reset-then-reuse-values");
    }
    if args.bool("wait") {
        line.add("--wait");
        line.timeout(args.str("wait_timeout"));
    }
    line.flag(args.bool("atomic"), "--atomic");
    line.timeout(args.str("timeout"));
    line.flag(upgrade && args.bool("force"), "--force");
    line.flag(replace, "--replace");
    line.flag(args.bool("disable_hook"), "--no-hooks");
    line.flag(args.bool("create_namespace"), "--create-namespace");
    if args.bool("insecure_skip_tls_verify") {
        helm.require("insecure_skip_tls_verify", 16, host)?;
        line.add("--insecure-skip-tls-verify");
    }
    line.flag(args.bool("plain_http"), "--plain-http");
    add_values(line, args, how.file);
    if let Some(renderer) = args.str("post_renderer") {
        line.add(format!("--post-renderer={renderer}"));
    }
    line.flag(args.bool("skip_crds"), "--skip-crds");
    if let Some(count) = args.int("history_max") {
        line.add(format!("--history-max={count}"));
    }
    add_single_values(line, args, helm, host)?;
    line.flag(args.bool("skip_schema_validation"), "--skip-schema-validation");
    line.add(args.required("release_name")?);
    line.chart(how.chart);
    Ok(())
}

/// Builds `helm uninstall`.
pub(super) fn remove(line: &mut Line, args: &Args, wait: bool) -> Result<(), Failure> {
    line.add("uninstall");
    // Adds the blank that kubernetes.core shows here.
    line.shown.push(' ');
    line.flag(!args.bool("purge"), "--keep-history");
    line.flag(args.bool("disable_hook"), "--no-hooks");
    line.flag(wait, "--wait");
    line.timeout(args.str("wait_timeout"));
    line.add(args.required("release_name")?);
    Ok(())
}
