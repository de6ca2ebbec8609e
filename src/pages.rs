//! Sentences about keywords and plugins, for `windlass doc` and the language server.

/// One page per line: type, name and description; for some filters, an expression with them and its value as JSON.
const PAGES: &str = include_str!("pages.tsv");

/// All pages: type, name and description.
pub(crate) fn pages() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    PAGES.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        Some((fields.next()?, fields.next()?, fields.next()?))
    })
}

/// Description of a keyword or plugin; empty if it has none.
pub(crate) fn summary(kind: &str, name: &str) -> &'static str {
    pages().find(|page| page.0 == kind && page.1 == name).map(|page| page.2).unwrap_or_default()
}

/// An expression with a filter, and its value as JSON.
pub(crate) fn example(kind: &str, name: &str) -> Option<(&'static str, &'static str)> {
    let line = PAGES.lines().find(|line| {
        let mut fields = line.split('\t');
        fields.next() == Some(kind) && fields.next() == Some(name)
    })?;
    let mut fields = line.split('\t').skip(3);
    Some((fields.next()?, fields.next()?))
}
