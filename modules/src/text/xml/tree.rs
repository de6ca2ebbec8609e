//! An XML document, XPath queries on it, and its modification.

use std::borrow::Cow;

use serde_json::{Map, Value};
use uppsala::{Attribute, Document, NodeId, NodeKind, QName, XPathEvaluator, XPathValue};

use crate::Failure;

/// A document, with the prefixes for expressions.
pub(super) struct Tree {
    pub(super) document: Document<'static>,
    /// Number of nodes before the document type.
    pub(super) before_doctype: usize,
    evaluator: XPathEvaluator,
    namespaces: Vec<(String, String)>,
}

/// Matches of an expression: nodes, or attributes and texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Node(NodeId),
    /// The element and the attribute.
    Attribute(NodeId, NodeId),
    Text,
}

impl Tree {
    /// Parses a document.
    pub(super) fn read(bytes: &[u8], namespaces: &Map<String, Value>) -> Result<Tree, String> {
        let text = decoded(bytes)?;
        let parsed = uppsala::parse(&text).map_err(|error| error.to_string())?;
        let doctype = parsed.doctype.as_deref().and_then(|doctype| text.find(doctype)).unwrap_or(0);
        let top = parsed.children_iter(parsed.root());
        let before_doctype = top.filter(|node| parsed.node_range(*node).is_some_and(|at| at.end <= doctype)).count();
        let document = parsed.into_static();
        let mut evaluator = XPathEvaluator::new();
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let namespaces: Vec<(String, String)> =
            namespaces.iter().map(|(prefix, uri)| (prefix.clone(), text(uri))).collect();
        for (prefix, uri) in &namespaces {
            evaluator.add_namespace(prefix, uri);
        }
        Ok(Tree { document, before_doctype, evaluator, namespaces })
    }

    /// The root element.
    pub(super) fn top(&self) -> NodeId {
        self.document.document_element().unwrap_or_else(|| self.document.root())
    }

    /// Namespace of a prefix.
    pub(super) fn namespace(&self, prefix: &str) -> Option<&str> {
        self.namespaces.iter().find(|(known, _)| known == prefix).map(|(_, uri)| uri.as_str())
    }

    /// Evaluates an expression.
    pub(super) fn evaluate(&mut self, context: NodeId, xpath: &str) -> Result<XPathValue, Failure> {
        self.document.prepare_xpath();
        self.evaluator
            .evaluate(&self.document, context, xpath)
            .map_err(|error| Failure::new(format!("Evaluation error in xpath expression: {xpath} ({error})")))
    }

    /// Finds the matches of an expression.
    pub(super) fn find(&mut self, context: NodeId, xpath: &str) -> Result<Vec<Found>, Failure> {
        let XPathValue::NodeSet(nodes) = self.evaluate(context, xpath)? else {
            return Err(Failure::new(format!("The xpath expression {xpath} does not stand for nodes.")));
        };
        let found = |node: NodeId| match self.document.node_kind(node) {
            Some(NodeKind::Attribute(..)) => {
                self.document.parent(node).map_or(Found::Text, |owner| Found::Attribute(owner, node))
            }
            Some(NodeKind::Text(_) | NodeKind::CData(_)) => Found::Text,
            _ => Found::Node(node),
        };
        Ok(nodes.into_iter().map(found).collect())
    }

    /// The matching nodes, if the first match is an element, a comment or similar.
    pub(super) fn nodes(&mut self, context: NodeId, xpath: &str) -> Result<Vec<NodeId>, Failure> {
        // A false comparison, such as `/a/text()='b'`, matches nothing.
        if let XPathValue::Boolean(false) = self.evaluate(context, xpath)? {
            return Ok(Vec::new());
        }
        let found = self.find(context, xpath)?;
        if !matches!(found.first(), Some(Found::Node(_))) {
            return Ok(Vec::new());
        }
        let node = |found: Found| match found {
            Found::Node(node) => Some(node),
            _ => None,
        };
        Ok(found.into_iter().filter_map(node).collect())
    }

    /// A node's name with its namespace in braces.
    pub(super) fn tag(&self, node: NodeId) -> Option<String> {
        self.document.element(node).map(|element| clark(&element.name))
    }

    pub(super) fn attributes(&self, node: NodeId) -> Map<String, Value> {
        let all = self.document.element(node).into_iter().flat_map(|element| &element.attributes);
        all.map(|attribute| (clark(&attribute.name), attribute.value.as_ref().into())).collect()
    }

    /// Sets an attribute. An attribute in a namespace gets a prefix that is in scope.
    pub(super) fn set_attribute(&mut self, node: NodeId, name: &str, value: &str) -> Result<(), Failure> {
        let (uri, local) = parts_of(name)?;
        let value = checked(value)?;
        let prefix = uri.map(|uri| self.prefix_in_scope(node, uri).unwrap_or_else(|| self.declare(node, uri)));
        let Some(element) = self.document.element_mut(node) else { return Ok(()) };
        match element.attributes.iter_mut().find(|attribute| clark(&attribute.name) == name) {
            Some(attribute) => attribute.value = Cow::Owned(value.to_owned()),
            None => {
                let name = qualified(uri, prefix, local);
                element.attributes.push(Attribute { name, value: Cow::Owned(value.to_owned()) });
            }
        }
        Ok(())
    }

    /// Removes an attribute.
    pub(super) fn remove_attribute(&mut self, owner: NodeId, attribute: NodeId) {
        let Some(NodeKind::Attribute(name, _)) = self.document.node_kind(attribute) else { return };
        let name = clark(name);
        if let Some(element) = self.document.element_mut(owner) {
            element.attributes.retain(|attribute| clark(&attribute.name) != name);
        }
    }

    /// The text of a node before its first child.
    pub(super) fn text(&self, node: NodeId) -> Option<String> {
        if let Some(NodeKind::Comment(text)) = self.document.node_kind(node) {
            return Some(text.clone().into_owned());
        }
        let texts: Vec<&str> = self.document.children_iter(node).map_while(|child| self.text_of(child)).collect();
        (!texts.is_empty()).then(|| texts.concat())
    }

    fn text_of(&self, node: NodeId) -> Option<&str> {
        match self.document.node_kind(node)? {
            NodeKind::Text(text) | NodeKind::CData(text) => Some(text),
            _ => None,
        }
    }

    /// Replaces the text of a node before its first child.
    pub(super) fn set_text(&mut self, node: NodeId, text: Option<&str>) -> Result<(), Failure> {
        let text = text.map(checked).transpose()?;
        if let Some(NodeKind::Comment(old)) = self.document.node_kind_mut(node) {
            *old = Cow::Owned(text.unwrap_or_default().to_owned());
            return Ok(());
        }
        let old: Vec<NodeId> =
            self.document.children_iter(node).take_while(|child| self.text_of(*child).is_some()).collect();
        old.into_iter().for_each(|child| self.document.detach(child));
        if let Some(text) = text {
            let new = self.document.create_text(text.to_owned());
            match self.document.first_child(node) {
                Some(first) => self.document.insert_before(node, new, first),
                None => self.document.append_child(node, new),
            }
        }
        Ok(())
    }

    /// The child nodes, without texts.
    pub(super) fn children(&self, node: NodeId) -> Vec<NodeId> {
        self.document.children_iter(node).filter(|child| self.text_of(*child).is_none()).collect()
    }

    /// The texts directly after a node.
    pub(super) fn tail(&self, node: NodeId) -> Vec<NodeId> {
        let next = |node: &NodeId| self.document.next_sibling(*node);
        std::iter::successors(next(&node), next).take_while(|node| self.text_of(*node).is_some()).collect()
    }

    /// Removes a node, with the texts directly after it.
    pub(super) fn remove(&mut self, node: NodeId) {
        let tail = self.tail(node);
        self.document.detach(node);
        tail.into_iter().for_each(|text| self.document.detach(text));
    }

    /// Appends a node to another.
    pub(super) fn append(&mut self, parent: NodeId, child: NodeId) {
        self.document.append_child(parent, child);
        self.settle(child);
    }

    /// Inserts a node at this position among the children of another, not counting texts.
    pub(super) fn insert(&mut self, parent: NodeId, place: usize, child: NodeId) {
        match self.children(parent).get(place) {
            Some(next) => self.document.insert_before(parent, child, *next),
            None => self.document.append_child(parent, child),
        }
        self.settle(child);
    }

    /// Creates an element, whose name may have a namespace in braces.
    pub(super) fn element(&mut self, name: &str) -> Result<NodeId, Failure> {
        let (uri, local) = parts_of(name)?;
        Ok(self.document.create_element(qualified(uri, None, local)))
    }

    /// Copies the root element of another document.
    pub(super) fn import(&mut self, other: &Document<'_>) -> Option<NodeId> {
        self.document.import_subtree(other, other.document_element()?)
    }

    /// Replaces the prefixes of new elements with those in scope at their new position.
    fn settle(&mut self, node: NodeId) {
        let Some(element) = self.document.element(node) else { return };
        let (uri, declared) = (element.name.namespace_uri.clone(), element.namespace_declarations.clone());
        if let Some(parent) = self.document.parent(node) {
            let kept: Vec<_> =
                declared.into_iter().filter(|(_, uri)| self.prefix_or_default(parent, uri).is_none()).collect();
            if let Some(element) = self.document.element_mut(node) {
                element.namespace_declarations = kept;
            }
        }
        if let Some(uri) = uri {
            let prefix = self.prefix_or_default(node, &uri).unwrap_or_else(|| self.declare(node, &uri));
            if let Some(element) = self.document.element_mut(node) {
                element.name.prefix = Some(prefix).filter(|prefix| !prefix.is_empty()).map(Cow::Owned);
            }
        }
        let names = self.document.element(node).map(|element| element.attributes.clone()).unwrap_or_default();
        for (at, attribute) in names.iter().enumerate() {
            let Some(uri) = attribute.name.namespace_uri.as_deref().filter(|uri| *uri != XML) else { continue };
            let prefix = self.prefix_in_scope(node, uri).unwrap_or_else(|| self.declare(node, uri));
            if let Some(attribute) = self.document.element_mut(node).and_then(|element| element.attributes.get_mut(at))
            {
                attribute.name.prefix = Some(Cow::Owned(prefix));
            }
        }
        self.document.children(node).into_iter().for_each(|child| self.settle(child));
    }

    /// A prefix for a namespace that is in scope at this element.
    fn prefix_in_scope(&self, node: NodeId, uri: &str) -> Option<String> {
        self.find_prefix(node, uri, |prefix| !prefix.is_empty())
    }

    /// Like [`Tree::prefix_in_scope`], possibly the empty prefix of the default namespace.
    fn prefix_or_default(&self, node: NodeId, uri: &str) -> Option<String> {
        self.find_prefix(node, uri, |_| true)
    }

    fn find_prefix(&self, node: NodeId, uri: &str, fits: fn(&str) -> bool) -> Option<String> {
        if uri == XML {
            return Some("xml".to_owned());
        }
        let mut hidden: Vec<String> = Vec::new();
        let mut at = Some(node);
        while let Some(node) = at {
            for (prefix, known) in self.document.element(node).into_iter().flat_map(|one| &one.namespace_declarations) {
                if hidden.iter().any(|name| name == prefix) {
                    continue;
                }
                if known == uri && fits(prefix) {
                    return Some(prefix.clone().into_owned());
                }
                hidden.push(prefix.clone().into_owned());
            }
            at = self.document.parent(node);
        }
        None
    }

    /// Declares a new prefix for a namespace at an element.
    fn declare(&mut self, node: NodeId, uri: &str) -> String {
        let taken = |prefix: &str| {
            let mut at = Some(node);
            while let Some(node) = at {
                let known = self.document.element(node).map(|element| element.namespace_declarations.as_slice());
                if known.unwrap_or_default().iter().any(|(name, _)| name == prefix) {
                    return true;
                }
                at = self.document.parent(node);
            }
            false
        };
        let prefix = (0..).map(|number| format!("ns{number}")).find(|prefix| !taken(prefix)).unwrap_or_default();
        self.document.declare_namespace(node, Some(&prefix), uri.to_owned());
        prefix
    }

    /// The expression that selects exactly this node.
    pub(super) fn path(&self, node: NodeId) -> String {
        let mut steps = Vec::new();
        let mut at = Some(node);
        while let Some(node) = at.filter(|node| *node != self.document.root()) {
            steps.push(self.step(node));
            at = self.document.parent(node);
        }
        steps.iter().rev().map(|step| format!("/{step}")).collect()
    }

    fn step(&self, node: NodeId) -> String {
        let name = |node: NodeId| match self.document.node_kind(node) {
            Some(NodeKind::Element(element)) => match (&element.name.namespace_uri, &element.name.prefix) {
                (Some(_), None) => "*".to_owned(),
                _ => element.name.prefixed_name().into_owned(),
            },
            Some(NodeKind::Comment(_)) => "comment()".to_owned(),
            Some(NodeKind::ProcessingInstruction(one)) => format!("processing-instruction('{}')", one.target),
            _ => "text()".to_owned(),
        };
        let own = name(node);
        let parent = self.document.parent(node).unwrap_or_else(|| self.document.root());
        let alike: Vec<NodeId> = self
            .document
            .children_iter(parent)
            .filter(|other| if own == "*" { self.document.element(*other).is_some() } else { name(*other) == own })
            .collect();
        match alike.iter().position(|other| *other == node) {
            Some(place) if alike.len() > 1 => format!("{own}[{}]", place + 1),
            _ => own,
        }
    }

    /// Converts CDATA sections to plain text.
    pub(super) fn strip_cdata(&mut self) {
        for node in self.document.descendants(self.document.root()) {
            if let Some(kind) = self.document.node_kind_mut(node)
                && let NodeKind::CData(text) = kind
            {
                *kind = NodeKind::Text(std::mem::take(text));
            }
        }
    }

    /// Removes whitespace between nodes, except in elements that contain text.
    pub(super) fn remove_blanks(&mut self) {
        let plain = |document: &Document<'_>, node: Option<NodeId>| {
            node.is_some_and(|node| matches!(document.node_kind(node), Some(NodeKind::Text(_))))
        };
        for node in self.document.descendants(self.document.root()) {
            let Some(NodeKind::Text(text)) = self.document.node_kind(node) else { continue };
            let blank = text.chars().all(|character| matches!(character, ' ' | '\t' | '\n' | '\r'));
            let (before, behind) = (self.document.previous_sibling(node), self.document.next_sibling(node));
            let alone = before.is_none() && behind.is_none();
            let first = self.document.parent(node).and_then(|parent| self.document.first_child(parent));
            let beside_text = plain(&self.document, before)
                || plain(&self.document, behind)
                || first != Some(node) && plain(&self.document, first);
            if blank && !alone && !beside_text {
                self.document.detach(node);
            }
        }
    }
}

/// Namespace of the prefix `xml`.
const XML: &str = "http://www.w3.org/XML/1998/namespace";

fn clark(name: &QName<'_>) -> String {
    match &name.namespace_uri {
        Some(uri) => format!("{{{uri}}}{}", name.local_name),
        None => name.local_name.clone().into_owned(),
    }
}

fn qualified(uri: Option<&str>, prefix: Option<String>, local: &str) -> QName<'static> {
    QName {
        namespace_uri: uri.map(|uri| Cow::Owned(uri.to_owned())),
        prefix: prefix.map(Cow::Owned),
        local_name: Cow::Owned(local.to_owned()),
    }
}

/// Splits `{namespace}name`; fails if the name is invalid.
fn parts_of(name: &str) -> Result<(Option<&str>, &str), Failure> {
    let (uri, local) = match name.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((uri, local)) => (Some(uri), local),
        None => (None, name),
    };
    let start = |character: char| character.is_alphabetic() || character == '_';
    let inside =
        |character: char| start(character) || character.is_numeric() || matches!(character, '-' | '.' | '\u{b7}');
    if local.chars().next().is_some_and(start) && local.chars().all(inside) {
        return Ok((uri, local));
    }
    Err(Failure::new(format!("Invalid tag name {name:?}: it is not the name of an element or attribute.")))
}

/// A text; fails if it contains characters that XML forbids.
fn checked(text: &str) -> Result<&str, Failure> {
    let bad = |character: char| character < ' ' && !matches!(character, '\t' | '\n' | '\r') || character == '\u{fffe}';
    match text.chars().any(bad) {
        true => {
            Err(Failure::new("All strings must be XML compatible: no control characters but tabs and ends of lines."))
        }
        false => Ok(text),
    }
}

/// Decodes a document by the encoding in its first line.
fn decoded(bytes: &[u8]) -> Result<String, String> {
    let head = String::from_utf8_lossy(bytes.get(..bytes.len().min(200)).unwrap_or_default()).into_owned();
    let declared = head.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>")).and_then(|(declaration, _)| {
        let (_, value) = declaration.split_once("encoding")?;
        let value = value.trim_start().strip_prefix('=')?.trim_start();
        let quote = value.chars().next()?;
        value.get(1..)?.split(quote).next().map(str::to_ascii_lowercase)
    });
    match declared.as_deref() {
        Some("iso-8859-1" | "latin1" | "latin-1") => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
        Some("utf-8" | "utf8" | "us-ascii" | "ascii") | None => {
            let text = std::str::from_utf8(bytes).map_err(|error| format!("it is not UTF-8: {error}"))?;
            Ok(text.strip_prefix('\u{feff}').unwrap_or(text).to_owned())
        }
        Some(other) => Err(format!("the encoding {other} is not known; UTF-8 and ISO-8859-1 are")),
    }
}
