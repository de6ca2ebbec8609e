//! Hosts in a comma-separated list, such as `web1,web2:2222,` or `web[1:9],` with ranges.

use std::sync::Arc;

use windlass_yaml::{Node, Span, Value};

use crate::load::Loader;
use crate::plugin::Candidate;
use crate::step::Step;
use crate::{Error, Warning, address};

/// Reads the list literally; brackets have no meaning.
pub(crate) fn read(loader: &mut Loader<'_>, source: &mut Candidate) -> Result<bool, Error> {
    each(loader, source, |_, entry| {
        let (name, port) = address::parse(entry).filter(|(host, _)| !host.contains('[')).unwrap_or((entry, None));
        Ok((vec![name.to_owned()], port))
    })
}

/// Reads the list and expands its ranges.
pub(crate) fn read_ranges(loader: &mut Loader<'_>, source: &mut Candidate) -> Result<bool, Error> {
    each(loader, source, |loader, entry| match address::expand(entry) {
        Ok(found) => Ok(found),
        Err(wrong) if wrong.is_bounds => {
            let message = format!(
                "Unable to parse address from hostname, leaving unchanged: the host pattern `{entry}` {}.",
                wrong.reason
            );
            loader.warnings.push(Warning::Ignored { message, span: Span::synthetic("the list of hosts") });
            Ok((vec![entry.to_owned()], None))
        }
        Err(wrong) => Err(wrong.reason),
    })
}

fn each(
    loader: &mut Loader<'_>,
    source: &mut Candidate,
    expand: impl Fn(&mut Loader<'_>, &str) -> Result<(Vec<String>, Option<u32>), String>,
) -> Result<bool, Error> {
    let span = Span::synthetic(format!("host list {}", source.text));
    for entry in source.text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (names, port) = expand(loader, entry)
            .map_err(|reason| Error::at(&span, format!("The host pattern `{entry}` {reason}.")))?;
        let port = port.map(|port| Node::new(Value::Int(port.into()), span.clone()));
        let names = names.into_iter().filter(|name| !loader.inventory.hosts.contains_key(&**name));
        let names = names.map(Arc::from).collect();
        let step =
            Step::Hosts { names, group: "ungrouped".into(), port, variables: Arc::default(), span: span.clone() };
        loader.inventory.apply(step, &source.path)?;
    }
    Ok(true)
}
