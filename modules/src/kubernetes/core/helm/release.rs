//! `helm`: manages releases of charts.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    Helm,
    chart::Chart,
    deploy::{self, Installation, Line},
    numbers, of_yaml, output_keys, with_program,
};
use crate::{
    Args, Check, Diff, Failure, Host, Kind, Map, Module, Opt, Plan, Return, Spec, files::way,
    kubernetes::configuration::Secret, process,
};

/// The `helm` module.
pub struct HelmRelease;

/// Specification of `helm`.
pub static SPEC: Spec = Spec {
    name: "helm",
    collection: "kubernetes.core",
    summary: "Install, upgrade and remove Helm releases",
    description: &[
        "Runs `helm` on the host. Upgrades an existing release if its values, its chart or the chart's version \
         differ. With the plugin helm-diff (3.4.1 or later), Helm itself decides whether anything would change.",
    ],
    options: with_program![
        Opt::required("release_name", Kind::Str, "Name of the release.").word().aliases(&["name"]),
        Opt::required("release_namespace", Kind::Str, "Namespace of the release.").aliases(&["namespace"]),
        Opt::new("release_state", Kind::Str, "`present` installs or upgrades the release, `absent` removes it.")
            .aliases(&["state"])
            .choices(&["present", "absent"])
            .default("\"present\""),
        Opt::new(
            "chart_ref",
            Kind::Path,
            "Chart from a repository (`stable/nginx`), folder or archive on the host, or URL.",
        )
        .address()
        .word(),
        Opt::new("chart_repo_url", Kind::Str, "URL of the repository that contains the chart.").address().word(),
        Opt::new("chart_version", Kind::Str, "Version of the chart. Default: the newest."),
        Opt::new("dependency_update", Kind::Bool, "Fetch the dependencies of the chart first.")
            .aliases(&["dep_up"])
            .default("false"),
        Opt::new("release_values", Kind::Dict, "Values for the chart.").aliases(&["values"]).default("{}"),
        Opt::new(
            "values_files",
            Kind::List(&Kind::Str),
            "Files on the host with values; `release_values` take precedence."
        )
        .default("[]"),
        Opt::new(
            "set_values",
            Kind::List(&Kind::Dict),
            "Single values: `value` is `key=value`, `value_type` is `raw`, `string`, `json` or `file`. Every user of the \
             host can read them on Helm's command line: pass secrets by `release_values`, which is a private file.",
        ),
        Opt::new("update_repo_cache", Kind::Bool, "Update the repository caches first.").default("false"),
        Opt::new("disable_hook", Kind::Bool, "Skip the hooks of the chart.").default("false"),
        Opt::new("force", Kind::Bool, "Upgrade even if nothing differs, and replace objects that cannot be changed.")
            .default("false"),
        Opt::new("purge", Kind::Bool, "With `absent`: delete the history of the release too.").default("true"),
        Opt::new("wait", Kind::Bool, "Wait until installed objects are ready, or removed ones are gone.")
            .default("false"),
        Opt::new("wait_timeout", Kind::Str, "Time limit for `wait`, such as `5m`."),
        Opt::new("timeout", Kind::Str, "Time limit for a single operation, such as `5m`."),
        Opt::new("atomic", Kind::Bool, "Roll back a failed installation.").default("false"),
        Opt::new("create_namespace", Kind::Bool, "Create the namespace if it is missing.").default("false"),
        Opt::new("post_renderer", Kind::Str, "Program that transforms the manifests before installation."),
        Opt::new("replace", Kind::Bool, "Reuse the name of a removed release that is still in the history.")
            .default("false"),
        Opt::new("skip_crds", Kind::Bool, "Skip the chart's CustomResourceDefinitions.").default("false"),
        Opt::new("history_max", Kind::Int, "Number of revisions to keep."),
        Opt::new(
            "reuse_values",
            Kind::Bool,
            "On upgrade, merge the task's values over the values of the last revision."
        ),
        Opt::new("reset_values", Kind::Bool, "On upgrade, merge the task's values over the chart's default values.")
            .default("true"),
        Opt::new(
            "reset_then_reuse_values",
            Kind::Bool,
            "On upgrade, merge the values of the last revision over the chart's, and the task's over both. Needs \
             Helm 3.14.",
        )
        .default("false"),
        Opt::new(
            "insecure_skip_tls_verify",
            Kind::Bool,
            "Skip certificate verification when downloading the chart. Needs Helm 3.16.",
        )
        .aliases(&["skip_tls_certs_check"])
        .default("false"),
        Opt::new("plain_http", Kind::Bool, "Use plain HTTP for an OCI registry. Needs Helm 3.13.").default("false"),
        Opt::new(
            "take_ownership",
            Kind::Bool,
            "On upgrade, take over objects that belong to no release. Needs Helm 3.17."
        )
        .default("false"),
        Opt::new(
            "skip_schema_validation",
            Kind::Bool,
            "Skip validation of the values against the chart's schema. Needs Helm 3.16.",
        )
        .default("false"),
    ],
    required_if: &[
        ("release_state", "present", &["release_name", "chart_ref"]),
        ("release_state", "absent", &["release_name"]),
    ],
    mutually_exclusive: &[&["context", "ca_cert"], &["replace", "history_max"], &["wait_timeout", "timeout"]],
    check: Check::Full,
    examples: "- name: Grafana\n  kubernetes.core.helm:\n    name: grafana\n    chart_ref: stable/grafana\n    chart_version: 5.0.12\n    \
               release_namespace: monitoring\n    create_namespace: true\n    values:\n      replicas: 2\n\n\
               - name: Not any more\n  kubernetes.core.helm:\n    name: grafana\n    release_namespace: monitoring\n    state: absent\n    wait: true\n",
    returns: &[
        Return {
            name: "status",
            kind: "dict",
            when: "always",
            doc: "Release as `helm list` shows it, with its `values`; null if it does not exist.",
        },
        Return { name: "command", kind: "str", when: "always", doc: "Command that was (or would be) run." },
        Return { name: "stdout", kind: "str", when: "always", doc: "Standard output of the command." },
        Return { name: "stderr", kind: "str", when: "always", doc: "Standard error of the command." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for HelmRelease {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let mut helm = Helm::of(args, host)?;
        let name = args.required("release_name")?.to_owned();
        if args.bool("update_repo_cache") {
            let words = ["repo", "update"].map(str::to_owned);
            helm.run(&words, &format!("{} repo update", helm.program), host)?;
        }
        let absent = args.required("release_state")? == "absent";
        let release = status(&helm, &name, absent, host)?;
        for (option, minor) in [("plain_http", 13), ("take_ownership", 17), ("skip_schema_validation", 16)] {
            if args.bool(option) {
                helm.require(option, minor, host)?;
            }
        }
        let mut decision = if absent {
            removal(&helm, args, release.as_ref(), host)?
        } else {
            let chart = Chart::of(&mut helm, args, host)?;
            installation(&helm, args, &chart, release.as_ref(), host)?
        };
        let mut plan = if decision.changes {
            let (line, file) = (decision.line.clone(), decision.file.take());
            Plan::change(move |host, outcome| {
                let output = helm.run(&line.words, &line.shown, host)?;
                drop(file);
                outcome.data.extend(output_keys(&output.stdout_text(), &output.stderr_text()));
                outcome.set("status", json!(status(&helm, &name, true, host)?));
                Ok(())
            })
        } else {
            Plan::unchanged()
        };
        let shown = if host.check() {
            let current = release.as_ref().map_or_else(|| json!({}), |release| release["values"].clone());
            json!({ "values": { "current": current, "declared": release.unwrap_or_else(|| json!({})) } })
        } else {
            json!(release)
        };
        plan = plan.with("status", shown).with_all(output_keys("", "")).with("command", decision.line.shown);
        if let Some(prepared) = decision.diff.filter(|_| host.diff()) {
            plan = plan.with_diff(Diff { prepared: Some(prepared), ..Diff::default() });
        }
        Ok(decision.warnings.into_iter().fold(plan, Plan::with_warning))
    }
}

/// The command to run, if any.
struct Decision {
    line: Line,
    changes: bool,
    warnings: Vec<String>,
    diff: Option<String>,
    /// The file with values that the command names.
    file: Option<Secret>,
}

/// The release of this name with its values; with `all`, also one that is not deployed.
fn status(helm: &Helm, name: &str, all: bool, host: &Host) -> Result<Option<Value>, Failure> {
    let mut words = vec!["list", "--output=yaml", "--filter", name];
    if all {
        words.push("--all");
    }
    let list = helm.read(&words, host)?;
    let found = list.as_array().into_iter().flatten().find(|release| release["name"] == name).cloned();
    let Some(mut release) = found else { return Ok(None) };
    let values = helm.read(&["get", "values", "--output=yaml", name], host)?;
    release["values"] = if values.is_null() { json!({}) } else { values };
    Ok(Some(release))
}

fn removal(helm: &Helm, args: &Args, release: Option<&Value>, host: &Host) -> Result<Decision, Failure> {
    let mut decision =
        Decision { line: Line::of(&helm.program), changes: false, warnings: Vec::new(), diff: None, file: None };
    let there = release.is_some_and(|release| !release["status"].as_str().unwrap_or_default().starts_with("uninstall"));
    if !there {
        return Ok(decision);
    }
    if args.bool("replace") {
        return Err(Failure::new("replace is not applicable when state is absent"));
    }
    let mut wait = args.bool("wait");
    if wait && helm.version(host)? < [3, 7, 0] {
        decision.warnings.push("helm uninstall support option --wait for helm release >= 3.7.0".into());
        wait = false;
    }
    deploy::remove(&mut decision.line, args, wait)?;
    decision.changes = true;
    Ok(decision)
}

fn installation(
    helm: &Helm,
    args: &Args,
    chart: &Chart,
    release: Option<&Value>,
    host: &Host,
) -> Result<Decision, Failure> {
    let file = deploy::values_file(args)?;
    let mut decision =
        Decision { line: Line::of(&helm.program), changes: true, warnings: Vec::new(), diff: None, file: None };
    if let Some(version) = args.str("chart_version") {
        decision.line.add(format!("--version={version}"));
    }
    chart.add_repository(&mut decision.line, args);
    let metadata = metadata(helm, &decision.line, args, chart, host)?;
    let fetch = args.bool("dependency_update") && dependencies(helm, args, &metadata, &mut decision, host)?;
    if let Some(release) = release {
        let upgrade = Upgrade { helm, args, chart, file: file.as_ref(), host };
        decision.changes = upgrade.differs(release, &metadata, &mut decision)? || args.bool("force");
    }
    if decision.changes {
        let how = Installation { upgrade: release.is_some(), fetch, chart, file: file.as_ref() };
        deploy::deploy(&mut decision.line, args, &how, helm, host)?;
    }
    decision.file = file;
    Ok(decision)
}

/// The metadata of the chart.
fn metadata(helm: &Helm, line: &Line, args: &Args, chart: &Chart, host: &Host) -> Result<Value, Failure> {
    let mut line = line.clone();
    line.add("show");
    line.add("chart");
    line.chart(chart);
    for (option, flag) in [("insecure_skip_tls_verify", "--insecure-skip-tls-verify"), ("plain_http", "--plain-http")] {
        if args.bool(option) {
            line.add(flag);
        }
    }
    of_yaml(&helm.run(&line.words, &line.shown, host)?.stdout_text())
}

/// Fetches the chart's dependencies; true if the installation itself must fetch them.
fn dependencies(
    helm: &Helm,
    args: &Args,
    metadata: &Value,
    decision: &mut Decision,
    host: &Host,
) -> Result<bool, Failure> {
    if metadata["dependencies"].as_array().is_none_or(Vec::is_empty) {
        decision.warnings.push(
            "There is no dependencies block defined in Chart.yaml. Dependency update will not be performed. Please consider add dependencies block or disable dependency_update to remove this warning."
                .into(),
        );
        return Ok(true);
    }
    let reference = args.str("chart_ref").unwrap_or_default();
    if args.str("chart_repo_url").is_none() && !reference.starts_with("http") {
        let words = ["dependency", "update", reference].map(str::to_owned);
        helm.run(&words, &format!("{} dependency update '{reference}'", helm.program), host)?;
        return Ok(false);
    }
    decision.warnings.push("This is a not stable feature with 'chart_repo_url'. Please consider to use dependency update with on-disk charts".into());
    if !args.bool("replace") {
        return Err(Failure::new(
            "'--dependency-update' hasn't been supported yet with 'helm upgrade'. Please use 'helm install' instead by adding 'replace' option",
        ));
    }
    Ok(true)
}

/// An upgrade of an installed release.
struct Upgrade<'a> {
    helm: &'a Helm,
    args: &'a Args,
    chart: &'a Chart,
    /// File with the values of the task.
    file: Option<&'a Secret>,
    host: &'a Host,
}

impl Upgrade<'_> {
    /// Whether an upgrade would change the release, according to helm-diff or a comparison of chart and values.
    fn differs(&self, release: &Value, metadata: &Value, decision: &mut Decision) -> Result<bool, Failure> {
        let Upgrade { helm, args, host, .. } = *self;
        let plugin =
            plugin(helm, "diff", host)?.filter(|version| args.str("chart_repo_url").is_none() || *version >= [3, 4, 1]);
        if let Some(version) = plugin {
            let line = self.diff_line(version)?;
            let shown = helm.run(&line.words, &line.shown, host)?.stdout_text().trim().to_owned();
            let changes = !shown.is_empty();
            decision.diff = Some(shown).filter(|_| changes);
            return Ok(changes);
        }
        decision.warnings.push("The default idempotency check can fail to report changes in certain cases. Install helm diff >= 3.4.1 for better results.".into());
        let files = args.list("values_files");
        let wanted = if files.is_empty() {
            args.value("release_values").cloned().unwrap_or_else(|| json!({}))
        } else {
            of_files(&files)?.into()
        };
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let version = |value: &Value| Some(text(value)).filter(|text| !value.is_null() && !text.is_empty());
        let same_app = version(&metadata["appVersion"]) == version(&release["app_version"]);
        let name = format!("{}-{}", text(&metadata["name"]), text(&metadata["version"]));
        Ok(release["values"] != wanted || release["chart"] != name.as_str() || !same_app)
    }

    /// Command line of helm-diff in this version.
    fn diff_line(&self, plugin: [u32; 3]) -> Result<Line, Failure> {
        let Upgrade { helm, args, chart, file, host } = *self;
        let mut line = Line::of(&helm.program);
        for word in ["diff", "upgrade", args.required("release_name")?] {
            line.add(word);
        }
        line.add_as(Some(&chart.reference), &chart.shown);
        chart.add_repository(&mut line, args);
        if let Some(version) = args.str("chart_version") {
            line.add(format!("--version={version}"));
        }
        if !args.bool("replace") {
            line.add(format!("--reset-values={}", args.bool("reset_values")));
        }
        if let Some(renderer) = args.str("post_renderer") {
            line.add(format!("--post-renderer={renderer}"));
        }
        deploy::add_values(&mut line, args, file);
        deploy::add_single_values(&mut line, args, helm, host)?;
        if args.bool("reset_then_reuse_values") && plugin < [3, 9, 12] {
            return Err(Failure::new("reset_then_reuse_values requires helm diff >= 3.9.12"));
        }
        let flags = [
            ("reuse_values", "--reuse-values"),
            ("reset_then_reuse_values", "--reset-then-reuse-values"),
            ("insecure_skip_tls_verify", "--insecure-skip-tls-verify"),
            ("skip_schema_validation", "--skip-schema-validation"),
            ("plain_http", "--plain-http"),
        ];
        for (_, flag) in flags.iter().filter(|(option, _)| args.bool(option)) {
            line.add(*flag);
        }
        Ok(line)
    }
}

/// The version of a Helm plugin, if installed.
fn plugin(helm: &Helm, name: &str, host: &Host) -> Result<Option<[u32; 3]>, Failure> {
    let words = ["plugin", "list"].map(str::to_owned);
    let output = helm.run(&words, &format!("{} plugin list", helm.program), host)?.stdout_text();
    Ok(output.lines().find_map(|line| {
        let mut columns = line.split('\t').map(str::trim);
        (columns.next() == Some(name)).then(|| numbers(columns.next().unwrap_or_default()))
    }))
}

/// Merges the values of files on the host; later files win.
fn of_files(paths: &[&str]) -> Result<Map, Failure> {
    let mut all = Map::new();
    for path in paths {
        let text = way::read_text(Path::new(path))
            .map_err(|error| Failure::new(format!("{path} could not be read: {}.", process::reason(&error))))?;
        if let Value::Object(values) = of_yaml(&text)? {
            all.extend(values);
        }
    }
    Ok(all)
}
