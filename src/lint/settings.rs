//! The project's own choices: rules to skip, everywhere or below some paths, files to leave out, rules of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobSet, GlobSetBuilder};
use windlass_yaml::{Node, Options, Source, Span};

use super::own::{self, OwnRule};
use super::rule::{RULES, Rule};
use crate::error::{Error, Result, did_you_mean};

/// Name of the file with the choices, in the directory of the project.
pub const FILE: &str = ".windlass-lint.yml";

/// Choices of a project.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Rules to skip everywhere.
    skip: Vec<&'static Rule>,
    /// Rules to skip for paths that match.
    paths: Vec<(GlobSet, Vec<&'static Rule>)>,
    /// Paths to leave out.
    exclude: Option<GlobSet>,
    /// Rules of the project.
    pub(super) own: Vec<OwnRule>,
}

impl Settings {
    /// Reads the choices of a project; without a file, there are none.
    pub(super) fn read(root: &Path) -> Result<Settings> {
        let path = root.join(FILE);
        if !path.is_file() {
            return Ok(Settings::default());
        }
        let bytes = windlass_bounds::read(&path)
            .map_err(|error| Error::new(format!("{} cannot be read: {error}", path.display())).as_parse())?;
        let text =
            String::from_utf8(bytes).map_err(|_| Error::new(format!("{} is not UTF-8", path.display())).as_parse())?;
        let node = windlass_yaml::load_one(Source::new(path.display().to_string(), text), &Options::default())?;
        Settings::of_node(&node)
    }

    fn of_node(node: &Node) -> Result<Settings> {
        let mut settings = Settings::default();
        if node.is_null() {
            return Ok(settings);
        }
        let Some(map) = node.as_map() else {
            return Err(Error::parse(format!("this must be a mapping, not {}", node.kind()), &node.span));
        };
        // Further settings may name these rules.
        settings.own = map.get("rules").map(own::read).transpose()?.unwrap_or_default();
        let own: Vec<&'static Rule> = settings.own.iter().map(|own| own.rule).collect();
        let rules = |node: &Node| rules(node, &own);
        for (key, value) in map.iter() {
            match key.to_text().as_str() {
                "rules" => {}
                "skip" => settings.skip = rules(value)?,
                "exclude" => {
                    let texts = texts(value)?;
                    settings.exclude = Some(globs(texts.iter().map(|(text, span)| (text.as_str(), *span)))?);
                }
                "paths" => {
                    let Some(map) = value.as_map() else {
                        return Err(Error::parse("`paths` maps patterns of paths to rules", &value.span));
                    };
                    for (key, value) in map.iter() {
                        settings.paths.push((globs([(key.to_text().as_str(), &key.span)].into_iter())?, rules(value)?));
                    }
                }
                other => {
                    let hint = did_you_mean(other, ["exclude", "paths", "rules", "skip"]);
                    return Err(
                        Error::parse(format!("`{other}` is not a setting of {FILE}"), &key.span).maybe_hint(hint)
                    );
                }
            }
        }
        Ok(settings)
    }

    /// Whether a path, relative to the project, is left out.
    pub(super) fn excludes(&self, path: &Path) -> bool {
        self.exclude.as_ref().is_some_and(|globs| globs.is_match(path))
    }

    /// Whether a rule is skipped for a path relative to the project.
    pub(super) fn skips(&self, rule: &'static Rule, path: &Path) -> bool {
        self.skip.contains(&rule)
            || self.paths.iter().any(|(globs, rules)| rules.contains(&rule) && globs.is_match(path))
    }
}

/// Rules of the projects of some paths.
pub fn own_rules(paths: &[PathBuf]) -> Result<Vec<&'static Rule>> {
    let roots: BTreeSet<PathBuf> = paths.iter().map(|path| super::root_of(path)).collect();
    let mut found = Vec::new();
    for root in roots {
        found.extend(Settings::read(&root)?.own.iter().map(|own| own.rule));
    }
    Ok(found)
}

/// The rule with a name, also of the project, or an error with the nearest one.
pub fn rule(name: &str, own: &[&'static Rule]) -> Result<&'static Rule> {
    named(name, own).ok_or_else(|| {
        Error::new(format!("there is no rule `{name}`"))
            .hint("`windlass lint --list-rules` shows them")
            .maybe_hint(nearest_rule(name, own))
    })
}

fn named(name: &str, own: &[&'static Rule]) -> Option<&'static Rule> {
    Rule::named(name).or_else(|| own.iter().find(|rule| rule.id == name).copied())
}

fn nearest_rule(name: &str, own: &[&'static Rule]) -> Option<String> {
    did_you_mean(name, RULES.iter().chain(own).map(|rule| rule.id))
}

fn rules(node: &Node, own: &[&'static Rule]) -> Result<Vec<&'static Rule>> {
    let texts = texts(node)?;
    texts
        .iter()
        .map(|(text, span)| {
            named(text, own).ok_or_else(|| {
                Error::parse(format!("there is no rule `{text}`"), span).maybe_hint(nearest_rule(text, own))
            })
        })
        .collect()
}

pub(super) fn texts(node: &Node) -> Result<Vec<(String, &Span)>> {
    let items = node.as_list().unwrap_or(std::slice::from_ref(node));
    let text = |item: &Node| item.as_str().map(str::to_owned);
    items
        .iter()
        .map(|item| {
            Ok((text(item).ok_or_else(|| Error::parse("this must be a list of texts", &item.span))?, &item.span))
        })
        .collect()
}

/// Patterns of paths; a directory stands for everything below it.
fn globs<'a>(patterns: impl Iterator<Item = (&'a str, &'a Span)>) -> Result<GlobSet> {
    let mut builder = GlobSetBuilder::new();
    let invalid =
        |error: globset::Error, span: &Span| Error::parse(format!("this is not a pattern of paths: {error}"), span);
    for (pattern, span) in patterns {
        let pattern = pattern.trim_end_matches('/');
        for text in [pattern.to_owned(), format!("{pattern}/**")] {
            builder.add(Glob::new(&text).map_err(|error| invalid(error, span))?);
        }
    }
    builder.build().map_err(|error| Error::new(format!("the patterns of {FILE} are too large: {error}")).as_parse())
}
