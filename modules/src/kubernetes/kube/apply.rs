//! `kube`: applies and deletes definitions. Prediction is a dry run of the API server, so admission rules count.

use serde_json::Value;

use super::{
    kubectl::{Kubectl, Target, failure},
    objects::{self, Line},
};
use crate::{Args, Diff, Failure, Host, Outcome, Plan, process::Command, process::Output};

/// Objects to apply or delete: files, or a text for standard input.
#[derive(Clone)]
struct Source {
    words: Vec<String>,
    input: Option<String>,
}

impl Source {
    fn of(args: &Args) -> Result<Option<Source>, Failure> {
        let mut words = Vec::new();
        let mut input = None;
        let files = args.list("src");
        if let Some(definition) = args.value("definition") {
            words.push("--filename=-".to_owned());
            input = Some(objects::definition(definition)?);
        } else if let Some(folder) = args.str("kustomize") {
            words.push(format!("--kustomize={folder}"));
        } else if !files.is_empty() {
            if let Some(missing) =
                files.iter().find(|file| !file.contains("://") && !std::path::Path::new(file).exists())
            {
                return Err(Failure::new(format!("{missing} does not exist on the host.")));
            }
            words.extend(files.iter().map(|file| format!("--filename={file}")));
            if args.bool("recursive") {
                words.push("--recursive".to_owned());
            }
        } else {
            return Ok(None);
        }
        if let Some(namespace) = args.filled("namespace") {
            words.push(format!("--namespace={namespace}"));
        }
        Ok(Some(Source { words, input }))
    }

    fn run(&self, client: &Kubectl, words: &[&str], host: &Host) -> Result<Output, Failure> {
        let command = client.command(words, host).args(&self.words);
        self.feed(command).run(host)
    }

    fn feed(&self, command: Command) -> Command {
        match &self.input {
            Some(text) => command.input(text.as_bytes().to_vec()),
            None => command,
        }
    }
}

fn report(outcome: &mut Outcome, text: &str) {
    let lines = objects::lines(text);
    outcome.changed = lines.iter().any(Line::changed);
    outcome.set("resources", lines.iter().map(Line::to_json).collect::<Vec<_>>());
    outcome.set("stdout", text);
}

/// `present`, `latest` and `reloaded`.
pub(super) fn plan_present(client: Kubectl, args: &Args, reload: bool, host: &Host) -> Result<Plan, Failure> {
    let Some(source) = Source::of(args)? else {
        return Err(Failure::new(
            "Set what to apply: src, definition or kustomize, or labels, annotations or taints of an object.",
        ));
    };
    let mut words = vec!["apply"];
    if args.bool("server_side") {
        words.extend(["--server-side", "--force-conflicts"]);
    }
    if args.bool("force") || reload {
        words.push("--force");
    }
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    // kubectl never reports a server-side apply as unchanged, so `kubectl diff` decides.
    let server_side = args.bool("server_side");
    let difference =
        if host.diff() || server_side { difference(&client, &source, server_side, host)? } else { Difference::Unknown };
    if server_side && matches!(difference, Difference::None) {
        return Ok(Plan::unchanged());
    }
    let diff = match difference {
        Difference::Shown(diff) if host.diff() => Some(diff),
        _ => None,
    };
    if host.check() {
        return predict(&client, &source, &words, diff, host);
    }
    let plan = Plan::change(move |host, outcome| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = source.run(&client, &words, host)?;
        if !output.success() {
            return Err(failure(&words, &output));
        }
        report(outcome, &output.stdout_text());
        Ok(())
    });
    Ok(plan.with_diff(diff))
}

/// Asks the API server for a dry run.
fn predict(
    client: &Kubectl,
    source: &Source,
    words: &[String],
    diff: Option<Diff>,
    host: &Host,
) -> Result<Plan, Failure> {
    // A dry run cannot delete and recreate, so it excludes `--force`.
    let mut words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "--force").collect();
    words.push("--dry-run=server");
    let output = source.run(client, &words, host)?;
    let text = output.stdout_text();
    let error = output.stderr_text();
    let lines = objects::lines(&text);
    // A dry run fails for an object whose namespace or kind the same task creates.
    let unknown =
        error.contains("namespaces \"") && error.contains("not found") || error.contains("no matches for kind");
    if !output.success() && !unknown {
        return Err(failure(&words, &output));
    }
    let changed = !output.success() || lines.iter().any(Line::changed);
    let plan = if changed { Plan::change(|_, _| Ok(())) } else { Plan::unchanged() };
    let plan = plan.with("resources", lines.iter().map(Line::to_json).collect::<Vec<_>>()).with("stdout", text);
    let plan = plan.with_diff(diff.filter(|_| changed));
    Ok(if output.success() {
        plan
    } else {
        plan.with_warning(format!("A part cannot be predicted before the rest is applied: {}", error.trim()))
    })
}

/// Outcome of `kubectl diff`.
enum Difference {
    None,
    Shown(Diff),
    Unknown,
}

/// Runs `kubectl diff`. A failure counts as unknown, because the difference is optional.
fn difference(client: &Kubectl, source: &Source, server_side: bool, host: &Host) -> Result<Difference, Failure> {
    if crate::process::find(host, "diff").is_none() {
        return Ok(Difference::Unknown);
    }
    let words: &[&str] = if server_side { &["diff", "--server-side", "--force-conflicts"] } else { &["diff"] };
    let output = source.run(client, words, host)?;
    Ok(match output.rc {
        0 => Difference::None,
        1 if !output.stdout.is_empty() => {
            Difference::Shown(Diff { prepared: Some(shorten(&output.stdout_text())), ..Diff::default() })
        }
        _ => Difference::Unknown,
    })
}

/// Removes the lines about kubectl's temporary files.
fn shorten(diff: &str) -> String {
    let kept = diff.lines().filter(|line| !line.starts_with("diff -u"));
    let named = kept.map(|line| {
        let Some((mark, rest)) = line.split_once(' ').filter(|(mark, _)| *mark == "---" || *mark == "+++") else {
            return line.to_owned();
        };
        let file = rest.split('\t').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        format!("{mark} {file}")
    });
    named.collect::<Vec<_>>().join("\n") + "\n"
}

/// `absent`.
pub(super) fn plan_absent(client: Kubectl, args: &Args, host: &Host) -> Result<Plan, Failure> {
    let source = Source::of(args)?;
    let wait = args.bool("wait");
    let limit = args.int("timeout").unwrap_or(300);
    let mut words = vec!["delete".to_owned()];
    let source = match source {
        Some(source) => source,
        None => {
            let target = Target::of(args)?;
            let narrow = ["name", "label_selector", "field_selector"].iter().any(|name| args.filled(name).is_some());
            if !narrow && !args.bool("all") {
                return Err(Failure::new(format!("To delete every {}, say all: true.", target.shown)));
            }
            words.extend(target.words);
            if !narrow {
                words.push("--all".into());
            }
            Source { words: Vec::new(), input: None }
        }
    };
    words.push("--ignore-not-found".into());
    if args.bool("force") {
        words.extend(["--force".to_owned(), "--grace-period=0".to_owned()]);
    }
    let strings = |words: &[String]| words.to_vec();
    if host.check() {
        let mut dry = strings(&words);
        dry.retain(|word| word != "--force" && word != "--grace-period=0");
        dry.push("--dry-run=server".into());
        let dry: Vec<&str> = dry.iter().map(String::as_str).collect();
        let output = source.run(&client, &dry, host)?;
        if !output.success() && !gone(&output.stderr_text()) {
            return Err(failure(&dry, &output));
        }
        let lines = objects::lines(&output.stdout_text());
        let plan = if lines.is_empty() { Plan::unchanged() } else { Plan::change(|_, _| Ok(())) };
        return Ok(plan.with("resources", lines.iter().map(Line::to_json).collect::<Vec<Value>>()));
    }
    words.push(format!("--wait={wait}"));
    if wait {
        words.push(format!("--timeout={limit}s"));
    }
    Ok(Plan::change(move |host, outcome| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = source.run(&client, &words, host)?;
        if !output.success() && !gone(&output.stderr_text()) {
            return Err(failure(&words, &output));
        }
        report(outcome, &output.stdout_text());
        Ok(())
    }))
}

/// Whether the error means that the objects are gone: the cluster lacks their kind or namespace.
fn gone(error: &str) -> bool {
    let lines: Vec<&str> =
        error.lines().filter(|line| !line.starts_with("Warning") && !line.starts_with("warning")).collect();
    !lines.is_empty() && lines.iter().all(|line| line.contains("NotFound") || line.contains("no matches for kind"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_omits_temporary_files() {
        let text = "diff -u -N /tmp/LIVE-1/v1.ConfigMap.default.c /tmp/MERGED-2/v1.ConfigMap.default.c\n--- /tmp/LIVE-1/v1.ConfigMap.default.c\t2026-11-21 02:00:00\n+++ /tmp/MERGED-2/v1.ConfigMap.default.c\t2026-11-21 02:00:00\n@@ -1,3 +1,3 @@\n-  a: \"1\"\n+  a: \"2\"\n";
        assert_eq!(
            shorten(text),
            "--- v1.ConfigMap.default.c\n+++ v1.ConfigMap.default.c\n@@ -1,3 +1,3 @@\n-  a: \"1\"\n+  a: \"2\"\n"
        );
    }

    #[test]
    fn unknown_kind_or_namespace_counts_as_gone() {
        assert!(gone("Error from server (NotFound): error when deleting \"a.yaml\": namespaces \"x\" not found\n"));
        assert!(gone("error: unable to recognize \"a.yaml\": no matches for kind \"Foo\" in version \"a/v1\"\n"));
        assert!(!gone("The connection to the server 127.0.0.1:6443 was refused\n"));
        assert!(!gone(""));
    }
}
