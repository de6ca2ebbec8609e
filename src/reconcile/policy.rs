//! The policy: when to look, what to repair, and how much of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_yaml::{Node, Options, Source};

use crate::error::{Error, Result, did_you_mean};
use crate::settings::expand_home;

/// Keys of a policy file.
const KEYS: &[&str] = &[
    "budget",
    "budget_period",
    "interval",
    "machines",
    "max_unhealthy",
    "metrics",
    "repair",
    "run_timeout",
    "unhealthy_for",
    "webhook",
];

/// A policy. The default one reports and repairs nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Time from the start of one round to the next.
    pub interval: Duration,
    /// Whether to run `cluster.yml` when it would change something.
    pub repairs_drift: bool,
    /// Whether to replace nodes.
    pub replaces_nodes: bool,
    /// Program that releases machines and provides new ones.
    pub machines: Option<PathBuf>,
    /// Time for which a node must be unhealthy before it is replaced.
    pub unhealthy_for: Duration,
    /// Maximum number of unhealthy nodes with which one is replaced; more of them look like a network failure.
    pub max_unhealthy: usize,
    /// Maximum number of repairs within `budget_period`.
    pub budget: usize,
    /// Period that the budget applies to.
    pub budget_period: Duration,
    /// Time limit of each run.
    pub run_timeout: Duration,
    /// File for metrics in Prometheus' text format.
    pub metrics: Option<PathBuf>,
    /// URL that receives a report by POST whenever something changes.
    pub webhook: Option<String>,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            interval: Duration::from_secs(600),
            repairs_drift: false,
            replaces_nodes: false,
            machines: None,
            unhealthy_for: Duration::from_secs(900),
            max_unhealthy: 1,
            budget: 3,
            budget_period: Duration::from_secs(86_400),
            run_timeout: Duration::from_secs(7200),
            metrics: None,
            webhook: None,
        }
    }
}

impl Policy {
    /// Reads a policy file. Relative paths in it start at its folder.
    pub fn read(path: &Path) -> Result<Policy> {
        let text = windlass_bounds::read_text(path)
            .map_err(|error| Error::new(format!("{} cannot be read: {error}", path.display())).as_parse())?;
        let node = windlass_yaml::load_one(Source::new(path.display().to_string(), text), &Options::default())?;
        let folder = crate::paths::absolute(path).parent().map(Path::to_owned).unwrap_or_default();
        Policy::of_node(&node, &folder)
    }

    fn of_node(node: &Node, folder: &Path) -> Result<Policy> {
        let mut policy = Policy::default();
        if node.is_null() {
            return Ok(policy);
        }
        let Some(map) = node.as_map() else {
            return Err(Error::parse(format!("a policy is a mapping, not {}", node.kind()), &node.span));
        };
        let mut machines_at = None;
        for (key, value) in map.iter() {
            match key.to_text().as_str() {
                "interval" => policy.interval = time(value)?,
                "unhealthy_for" => policy.unhealthy_for = time(value)?,
                "budget_period" => policy.budget_period = time(value)?,
                "run_timeout" => policy.run_timeout = time(value)?,
                "budget" => policy.budget = count(value)?,
                "max_unhealthy" => policy.max_unhealthy = count(value)?,
                "machines" => policy.machines = Some(path(value, folder)?),
                "metrics" => policy.metrics = Some(path(value, folder)?),
                "webhook" => policy.webhook = Some(address(value)?),
                "repair" => {
                    machines_at = Some(&value.span);
                    (policy.repairs_drift, policy.replaces_nodes) = repairs(value)?;
                }
                other => {
                    let hint = did_you_mean(other, KEYS.iter().copied());
                    return Err(Error::parse(format!("a policy has no key `{other}`"), &key.span).maybe_hint(hint));
                }
            }
        }
        if let (true, None, Some(span)) = (policy.replaces_nodes, &policy.machines, machines_at) {
            return Err(Error::parse("`nodes` can be replaced only with a program for machines", span)
                .hint("set `machines` to a program that releases machines and provides new ones"));
        }
        Ok(policy)
    }
}

/// Which repairs a list names: drift, nodes.
fn repairs(node: &Node) -> Result<(bool, bool)> {
    let mut found = (false, false);
    for item in node.as_list().ok_or_else(|| Error::parse("`repair` is a list of `drift` and `nodes`", &node.span))? {
        match item.as_str() {
            Some("drift") => found.0 = true,
            Some("nodes") => found.1 = true,
            _ => return Err(Error::parse("`repair` lists `drift` and `nodes` only", &item.span)),
        }
    }
    Ok(found)
}

fn time(node: &Node) -> Result<Duration> {
    let number = node.as_int().map(|number| number.to_string());
    let text = number.or_else(|| node.as_str().map(str::to_owned)).unwrap_or_default();
    let time = windlass_ssh::duration(&text).map_err(|why| Error::parse(why, &node.span))?;
    if time.is_zero() { Err(Error::parse("this time must be longer than 0", &node.span)) } else { Ok(time) }
}

fn count(node: &Node) -> Result<usize> {
    let number = node.as_int().and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| Error::parse("this must be a whole number, 0 or more", &node.span))
}

fn path(node: &Node, folder: &Path) -> Result<PathBuf> {
    let text = node.as_str().filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| Error::parse("this must be a path", &node.span))?;
    Ok(folder.join(expand_home(text)))
}

fn address(node: &Node) -> Result<String> {
    let text = node.as_str().filter(|text| text.starts_with("https://") || text.starts_with("http://"));
    text.map(str::to_owned).ok_or_else(|| Error::parse("`webhook` is a URL with http:// or https://", &node.span))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Result<Policy> {
        let node = windlass_yaml::load_one(Source::new("policy.yml", text), &Options::default())?;
        Policy::of_node(&node, Path::new("/etc/windlass"))
    }

    #[test]
    fn keys_are_read_and_paths_start_at_the_file() {
        let found = policy(
            "interval: 5m\nrepair: [drift, nodes]\nmachines: ./machines\nunhealthy_for: 90\nbudget: 0\n\
             webhook: https://chat.example.com/hook\n",
        )
        .unwrap();
        let wanted = Policy {
            interval: Duration::from_secs(300),
            repairs_drift: true,
            replaces_nodes: true,
            machines: Some("/etc/windlass/./machines".into()),
            unhealthy_for: Duration::from_secs(90),
            budget: 0,
            webhook: Some("https://chat.example.com/hook".into()),
            ..Policy::default()
        };
        assert_eq!(found, wanted);
        assert_eq!(policy("").unwrap(), Policy::default());
    }

    #[test]
    fn wrong_value_is_an_error_with_its_place() {
        for (text, message) in [
            ("intervall: 5m", "a policy has no key `intervall`"),
            ("interval: soon", "`soon` is not a time"),
            ("interval: 0", "longer than 0"),
            ("budget: -1", "0 or more"),
            ("repair: drift", "is a list"),
            ("repair: [all]", "lists `drift` and `nodes` only"),
            ("repair: [nodes]", "only with a program for machines"),
            ("webhook: chat.example.com", "is a URL"),
        ] {
            let error = policy(text).unwrap_err().to_string();
            assert!(error.contains(message) && error.contains("policy.yml:1"), "{text}: {error}");
        }
    }
}
