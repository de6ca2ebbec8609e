//! Files of the project, read and parsed once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_yaml::{Node, Options, Source, Span, Warning};

use super::finding::Place;

/// Kind of a file, which decides its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A list of plays.
    Playbook,
    /// A list of tasks.
    Tasks,
    /// A list of handlers.
    Handlers,
    /// `defaults/` or `vars/` of a role.
    RoleVars,
    /// Other variables: `group_vars/`, `host_vars/`, `vars/`.
    Vars,
    /// `meta/main.yml` of a role.
    Meta,
    /// `meta/argument_specs.yml` of a role.
    ArgumentSpecs,
    /// A Jinja template.
    Template,
    /// YAML of another kind, which may define variables.
    OtherYaml,
    /// Anything else that may mention variables.
    Text,
}

impl Kind {
    /// Whether the file is YAML whose style is checked.
    pub(super) fn is_checked_yaml(self) -> bool {
        !matches!(self, Kind::Template | Kind::OtherYaml | Kind::Text)
    }
}

/// A file of the project.
#[derive(Debug, Clone)]
pub(super) struct SourceFile {
    /// Index in the project.
    pub(super) index: usize,
    /// Path as shown.
    pub(super) path: PathBuf,
    /// Directory of the role that contains the file.
    pub(super) role: Option<PathBuf>,
    /// Kind of the file.
    pub(super) kind: Kind,
    /// Whether findings in it are reported; other files are only read for their definitions.
    pub(super) is_chosen: bool,
    /// The text.
    pub(super) source: Arc<Source>,
    /// First document of the file; null for files that are not YAML.
    pub(super) node: Node,
    /// Warnings of the parser.
    pub(super) warnings: Vec<Warning>,
    /// Error of the parser.
    pub(super) error: Option<windlass_yaml::Error>,
    /// Byte offset of each line.
    lines: Vec<usize>,
}

impl SourceFile {
    /// Parses a text, as YAML if its kind is.
    pub(super) fn new(path: PathBuf, kind: Kind, text: String) -> SourceFile {
        let source = Source::new(path.display().to_string(), text);
        let mut file = SourceFile {
            index: 0,
            path,
            role: None,
            kind,
            is_chosen: false,
            node: Node::null(Span::new(Arc::clone(&source), 1, 1)),
            warnings: Vec::new(),
            error: None,
            lines: std::iter::once(0).chain(source.text.match_indices('\n').map(|(at, _)| at + 1)).collect(),
            source,
        };
        if !matches!(kind, Kind::Template | Kind::Text) {
            file.parse();
        }
        file
    }

    fn parse(&mut self) {
        // Far more than a file of this size has, unless aliases multiply it.
        let options = Options { max_nodes: 2_000_000, ..Options::default() };
        let loaded = windlass_yaml::parse(Arc::clone(&self.source), &options);
        match loaded {
            Ok(mut loaded) => {
                self.warnings = std::mem::take(&mut loaded.warnings);
                if self.kind == Kind::OtherYaml {
                    loaded.documents.truncate(1);
                }
                match loaded.into_one(&self.source) {
                    Ok(node) => self.node = node,
                    Err(error) => self.error = Some(error),
                }
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.source.text
    }

    /// A line, counting from 1, without its end.
    pub(super) fn line(&self, number: u32) -> Option<&str> {
        let start = self.lines.get((number as usize).checked_sub(1)?)?;
        self.text().get(*start..)?.lines().next()
    }

    /// Byte offset of a place.
    pub(super) fn offset(&self, place: Place) -> usize {
        let start = (place.line as usize).checked_sub(1).and_then(|line| self.lines.get(line)).copied();
        let Some(start) = start else { return self.text().len() };
        let line = self.text().get(start..).unwrap_or_default();
        let column = (place.column as usize).saturating_sub(1);
        start + line.char_indices().nth(column).map_or(line.len(), |(at, _)| at)
    }

    /// Place of a byte offset.
    pub(super) fn place(&self, offset: usize) -> Place {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or_default();
        let column = self.text().get(start..offset).map_or(0, |before| before.chars().count()) + 1;
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Place { line: number(line), column: number(column) }
    }

    /// Text from a place on.
    pub(super) fn from(&self, place: Place) -> &str {
        self.text().get(self.offset(place)..).unwrap_or_default()
    }

    /// Byte offset in the file of a part of a scalar. The value of a scalar and its text in the file differ by
    /// quotes, escapes and line breaks, so the part is found by counting its occurrences.
    pub(super) fn locate(&self, node: &Node, offset: usize, length: usize) -> Option<usize> {
        let value = node.as_str()?;
        let part = value.get(offset..offset + length).filter(|part| !part.is_empty())?;
        let earlier = value.get(..offset)?.matches(part).count();
        let start = self.offset(place_of(&node.span));
        let written = self.text().get(start..)?;
        written.match_indices(part).nth(earlier).map(|(at, _)| start + at)
    }
}

/// Place of a position.
pub(super) fn place_of(span: &Span) -> Place {
    Place { line: span.line.max(1), column: span.column.max(1) }
}

/// Whether a text may be a template.
pub(crate) fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

/// Whether a value depends on a template or on ciphertext anywhere in it.
pub(super) fn is_dynamic(node: &Node) -> bool {
    use windlass_yaml::Value;
    match &node.value {
        Value::Vault(_) => true,
        Value::List(items) => items.iter().any(is_dynamic),
        Value::Map(map) => map.iter().any(|(key, value)| is_template(&key.to_text()) || is_dynamic(value)),
        _ => node.as_str().is_some_and(is_template),
    }
}

/// Directory of the role that contains a file, for files in the directories of roles.
pub(crate) fn role_of(path: &Path) -> Option<PathBuf> {
    const FOLDERS: [&str; 7] = ["tasks", "handlers", "defaults", "vars", "meta", "templates", "files"];
    let is_folder =
        |folder: &&Path| folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| FOLDERS.contains(&name));
    let folder = path.ancestors().skip(1).find(is_folder)?;
    let role = folder.parent()?;
    let has = |file: &str| role.join(file).is_file();
    let in_roles = role.ancestors().skip(1).any(|parent| parent.file_name().is_some_and(|name| name == "roles"));
    let is_role = in_roles
        || ["tasks/main.yml", "tasks/main.yaml", "meta/main.yml", "meta/main.yaml"].iter().any(|file| has(file));
    is_role.then(|| role.to_owned())
}
