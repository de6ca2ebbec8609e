//! Serialises documents like libxml2.

use uppsala::{Document, NodeId, NodeKind};

use super::tree::Tree;

/// Space between elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    AsIs,
    /// Indents elements without text.
    Pretty,
}

/// A complete document with its declaration.
pub(super) fn document(tree: &Tree, layout: Layout) -> String {
    let pretty = layout == Layout::Pretty;
    let document = &tree.document;
    let version = document.xml_declaration.as_ref().map_or("1.0", |declaration| &declaration.version);
    let mut text = format!("<?xml version='{version}' encoding='UTF-8'?>\n");
    let doctype = document.doctype.as_deref().map(doctype);
    let top = tree.top();
    let mut behind = false;
    for (place, node) in document.children_iter(document.root()).enumerate() {
        if place == tree.before_doctype {
            text.extend(doctype.as_deref());
        }
        if pretty && behind {
            text.push('\n');
        }
        write(document, node, layout, 0, &mut text);
        behind |= node == top;
        if pretty && !behind {
            text.push('\n');
        }
    }
    if pretty {
        text.push('\n');
    }
    text
}

/// A single node, with the texts after it.
pub(super) fn node_with_tail(tree: &Tree, node: NodeId) -> String {
    let mut text = String::new();
    write(&tree.document, node, Layout::AsIs, 0, &mut text);
    tree.tail(node).into_iter().for_each(|node| write(&tree.document, node, Layout::AsIs, 0, &mut text));
    text
}

fn write(document: &Document<'_>, node: NodeId, layout: Layout, level: usize, text: &mut String) {
    match document.node_kind(node) {
        Some(NodeKind::Element(element)) => {
            let name = element.name.prefixed_name();
            text.extend(["<", &name]);
            for (prefix, uri) in &element.namespace_declarations {
                match prefix.is_empty() {
                    true => text.push_str(" xmlns=\""),
                    false => text.extend([" xmlns:", prefix, "=\""]),
                }
                escape(uri, Within::Attribute, text);
                text.push('"');
            }
            for attribute in &element.attributes {
                text.extend([" ", &attribute.name.prefixed_name(), "=\""]);
                escape(&attribute.value, Within::Attribute, text);
                text.push('"');
            }
            let children = document.children(node);
            if children.is_empty() {
                return text.push_str("/>");
            }
            text.push('>');
            let is_text =
                |node: &NodeId| matches!(document.node_kind(*node), Some(NodeKind::Text(_) | NodeKind::CData(_)));
            let layout = if children.iter().any(is_text) { Layout::AsIs } else { layout };
            for child in children {
                indent(layout, level + 1, text);
                write(document, child, layout, level + 1, text);
            }
            indent(layout, level, text);
            text.extend(["</", &name, ">"]);
        }
        Some(NodeKind::Text(content)) => escape(content, Within::Element, text),
        Some(NodeKind::CData(content)) => {
            // A CDATA section cannot contain its own end marker.
            text.extend(["<![CDATA[", &content.replace("]]>", "]]]]><![CDATA[>"), "]]>"]);
        }
        Some(NodeKind::Comment(content)) => text.extend(["<!--", content, "-->"]),
        Some(NodeKind::ProcessingInstruction(one)) => {
            text.extend(["<?", &one.target]);
            if let Some(data) = one.data.as_deref().filter(|data| !data.is_empty()) {
                text.extend([" ", data]);
            }
            text.push_str("?>");
        }
        Some(NodeKind::Document | NodeKind::Attribute(..)) | None => {}
    }
}

fn indent(layout: Layout, level: usize, text: &mut String) {
    if layout == Layout::Pretty {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", level));
    }
}

/// Place of a text, which determines the characters to escape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Element,
    Attribute,
}

fn escape(content: &str, within: Within, text: &mut String) {
    let attribute = within == Within::Attribute;
    for character in content.chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '\r' => text.push_str("&#13;"),
            '"' if attribute => text.push_str("&quot;"),
            '\n' if attribute => text.push_str("&#10;"),
            '\t' if attribute => text.push_str("&#9;"),
            _ => text.push(character),
        }
    }
}

/// A document type on a line of its own, with single blanks between words.
fn doctype(raw: &str) -> String {
    let inside = raw.trim_start_matches("<!DOCTYPE").trim_end_matches('>').trim();
    let (outside, subset) = match inside.split_once('[') {
        Some((outside, subset)) => (outside, subset.rsplit_once(']').map(|(subset, _)| subset.trim())),
        None => (inside, None),
    };
    let mut text = "<!DOCTYPE".to_owned();
    let mut rest = outside.trim();
    while let Some(first) = rest.chars().next() {
        let quoted = matches!(first, '"' | '\'');
        let end = match quoted {
            true => rest.get(1..).and_then(|rest| rest.find(first)).map_or(rest.len(), |end| end + 2),
            false => rest.find([' ', '\t', '\n', '\r', '"', '\'']).unwrap_or(rest.len()),
        };
        let (word, behind) = rest.split_at(end.min(rest.len()));
        let bare = word.trim_matches(first);
        match quoted && !bare.contains('"') {
            true => text.extend([" \"", bare, "\""]),
            false => text.extend([" ", word]),
        }
        rest = behind.trim_start();
    }
    match subset {
        Some(subset) => text.extend([" [\n", subset, "\n]>\n"]),
        None => text.push_str(">\n"),
    }
    text
}
