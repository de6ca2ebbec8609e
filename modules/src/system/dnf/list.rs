//! Queries for `list`.

use serde_json::{Value, json};

use super::{manager::Manager, refusal};
use crate::{Failure, Host, Plan, process::Command};

/// The plan that only reports packages.
pub(super) fn plan(manager: &Manager, what: &str, host: &Host) -> Result<Plan, Failure> {
    let results = match what {
        "repos" | "repositories" => repositories(manager, host)?,
        "installed" => installed(manager, "-a", host)?,
        "available" => available(manager, "--available", host)?,
        "updates" | "upgrades" => available(manager, "--upgrades", host)?,
        name => [installed(manager, name, host)?, available(manager, name, host)?].concat(),
    };
    Ok(Plan::unchanged().with("msg", "").with("results", results))
}

fn repositories(manager: &Manager, host: &Host) -> Result<Vec<Value>, Failure> {
    let output = manager.command(&["-q".to_owned(), "repolist".to_owned(), "--enabled".to_owned()]).run(host)?;
    let text = output.stdout_text();
    let names = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    Ok(names.map(|id| json!({ "repoid": id, "state": "enabled" })).collect())
}

fn installed(manager: &Manager, word: &str, host: &Host) -> Result<Vec<Value>, Failure> {
    const FORMAT: &str = "%{NAME}|%|EPOCH?{%{EPOCH}}:{0}||%{VERSION}|%{RELEASE}|%{ARCH}|@System\n";
    let query = Command::new("rpm").plain_locale().args(["--root", &manager.root, "-q", "--queryformat", FORMAT, word]);
    let output = query.run(host)?;
    let text = if output.success() { output.stdout_text() } else { String::new() };
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    Ok(lines.into_iter().filter_map(|line| package(line, "installed")).collect())
}

fn available(manager: &Manager, word: &str, host: &Host) -> Result<Vec<Value>, Failure> {
    const FORMAT: &str = "--qf=%{name}|%{epoch}|%{version}|%{release}|%{arch}|%{reponame}\n";
    let words = ["-q", "repoquery", FORMAT, word].map(str::to_owned);
    let output = manager.command(&words).run(host)?;
    if !output.success() {
        return Err(refusal::of(&output, &words, None));
    }
    Ok(output.stdout_text().lines().filter_map(|line| package(line, "available")).collect())
}

/// Builds one listed package from its fields.
fn package(line: &str, state: &str) -> Option<Value> {
    let mut fields = line.split('|');
    let (name, epoch, version) = (fields.next()?, fields.next()?, fields.next()?);
    let (release, arch, repository) = (fields.next()?, fields.next()?, fields.next()?);
    let full = format!("{epoch}:{name}-{version}-{release}.{arch}");
    Some(json!({
        "name": name,
        "arch": arch,
        "epoch": epoch,
        "release": release,
        "version": version,
        "repo": repository,
        "envra": full,
        "nevra": full,
        "yumstate": state,
    }))
}
