//! `xml`: reads and edits parts of a document found by XPath.

mod make;
mod tree;
mod write;

use std::{fs::File, sync::Arc};

use serde_json::{Map, Value, json};
use uppsala::{NodeId, XPathValue};

use crate::{
    Args, Diff, Failure, Host, Kind, Module, Opt, Plan, Return, Spec,
    files::{
        way,
        write::{BACKUP, Source, Wanted},
    },
    process::reason,
    run,
};
use tree::{Found, Tree};
use write::Layout;

/// The `xml` module.
pub struct Xml;

static SPEC: Spec = Spec {
    name: "xml",
    collection: "community.general",
    summary: "Manage parts of XML files or texts",
    description: &[
        "Finds nodes by an XPath 1.0 expression, and reads, creates, changes or removes them, their attributes and \
         texts.",
        "Keeps comments, CDATA sections and the document type. Writes UTF-8, and does not count changes of \
         whitespace alone.",
    ],
    options: &[
        Opt::new("path", Kind::Path, "Path of the file.").aliases(&["dest", "file"]),
        Opt::new("xmlstring", Kind::Str, "XML text, instead of a file."),
        Opt::new("xpath", Kind::Str, "XPath expression that selects nodes."),
        Opt::new("namespaces", Kind::Dict, "Namespaces by the prefixes in the expression.").default("{}"),
        Opt::new("state", Kind::Str, "`present` creates or changes the selected nodes, `absent` removes them.")
            .default("\"present\"")
            .choices(&["absent", "present"])
            .aliases(&["ensure"]),
        Opt::new("attribute", Kind::Raw, "Attribute to set to `value`."),
        Opt::new("value", Kind::Raw, "Text of the nodes, or of their attribute."),
        Opt::new("add_children", Kind::List(&Kind::Raw), "Nodes to append to the selected nodes."),
        Opt::new("set_children", Kind::List(&Kind::Raw), "Nodes that replace the children of the selected nodes."),
        Opt::new("count", Kind::Bool, "Return the number of selected nodes.").default("false"),
        Opt::new("print_match", Kind::Bool, "Return the paths of the selected nodes.").default("false"),
        Opt::new("pretty_print", Kind::Bool, "Indent the document.").default("false"),
        Opt::new("content", Kind::Str, "Return the texts or the attributes of the selected nodes.")
            .choices(&["attribute", "text"]),
        Opt::new("input_type", Kind::Str, "Format of new children.").default("\"yaml\"").choices(&["xml", "yaml"]),
        Opt::new("strip_cdata_tags", Kind::Bool, "Convert CDATA sections to plain text.").default("false"),
        Opt::new("insertbefore", Kind::Bool, "Insert the children before the first selected node instead of inside.")
            .default("false"),
        Opt::new("insertafter", Kind::Bool, "Insert the children after the last selected node instead of inside.")
            .default("false"),
        BACKUP,
    ],
    required_by: &[
        ("add_children", &["xpath"]),
        ("attribute", &["value"]),
        ("content", &["xpath"]),
        ("set_children", &["xpath"]),
        ("value", &["xpath"]),
    ],
    required_if: &[
        ("count", "True", &["xpath"]),
        ("print_match", "True", &["xpath"]),
        ("insertbefore", "True", &["xpath"]),
        ("insertafter", "True", &["xpath"]),
    ],
    required_one_of: &[
        &["path", "xmlstring"],
        &["add_children", "content", "count", "pretty_print", "print_match", "set_children", "value"],
    ],
    mutually_exclusive: &[
        &["add_children", "content", "count", "print_match", "set_children", "value"],
        &["path", "xmlstring"],
        &["insertbefore", "insertafter"],
    ],
    examples: "- name: The port of the connector\n  community.general.xml:\n    path: /etc/tomcat/server.xml\n    xpath: \
               /Server/Service/Connector[1]\n    attribute: port\n    value: \"8081\"\n",
    returns: &[
        Return { name: "actions", kind: "dict", when: "success", doc: "Expression, namespaces and state of the task." },
        Return { name: "count", kind: "int", when: "count or content", doc: "Number of selected nodes." },
        Return {
            name: "matches",
            kind: "list",
            when: "content",
            doc: "Names of the selected nodes, with text or attributes.",
        },
        Return {
            name: "msg",
            kind: "str",
            when: "count, print_match or content",
            doc: "Message about the selected nodes.",
        },
        Return { name: "xmlstring", kind: "str", when: "xmlstring", doc: "Document as text." },
        Return {
            name: "backup_file",
            kind: "str",
            when: "a backup was made",
            doc: "Path of the backup of the old file.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for Xml {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn edits(&self, args: &Args) -> Option<std::path::PathBuf> {
        args.str("path").map(Into::into)
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let layout = if args.bool("pretty_print") { Layout::Pretty } else { Layout::AsIs };
        let (task, mut tree) = Task::read(args, layout)?;
        let original = write::document(&tree, Layout::Pretty);
        let before = meaning(&write::document(&tree, Layout::AsIs), args)?;
        let Some(xpath) = args.str("xpath") else { return task.pretty(&tree) };
        let mut selected = Selected::default();
        task.change(&mut tree, xpath, &mut selected)?;
        let after = write::document(&tree, task.layout);
        let changed = before != meaning(&after, args)?;
        let namespaces = args.value("namespaces").cloned().unwrap_or_else(|| json!({}));
        let actions = json!({"xpath": xpath, "namespaces": namespaces, "state": args.str("state")});
        let mut plan = task.plan(changed, after.clone()).with("actions", actions);
        if args.bool("count") || selected.count > 0 {
            plan = plan.with("count", selected.count);
        }
        if args.bool("print_match") || !selected.matches.is_empty() {
            plan = plan.with("matches", selected.matches);
        }
        if let Some(message) = selected.message {
            plan = plan.with("msg", message);
        }
        if args.str("xmlstring").is_some() {
            plan = plan.with("xmlstring", after);
        }
        Ok(match changed && host.diff() {
            true => {
                let after = write::document(&tree, Layout::Pretty);
                plan.with_diff(Diff { before: original.into(), after: after.into(), ..Diff::default() })
            }
            false => plan,
        })
    }
}

/// The normalised document: without whitespace between nodes, and with CDATA as text.
fn meaning(text: &str, args: &Args) -> Result<String, Failure> {
    let mut tree = Tree::read(text.as_bytes(), &Map::new())
        .map_err(|error| Failure::new(format!("The new document of {} cannot be read: {error}", name(args))))?;
    tree.strip_cdata();
    tree.remove_blanks();
    Ok(write::document(&tree, Layout::AsIs))
}

fn name(args: &Args) -> &str {
    args.str("path").unwrap_or("xml_string")
}

/// Result keys about the selected nodes.
#[derive(Default)]
struct Selected {
    count: usize,
    matches: Vec<Value>,
    message: Option<Value>,
}

struct Task<'a> {
    args: &'a Args,
    layout: Layout,
    /// The file that was read, if the document comes from one.
    file: Option<Arc<File>>,
    bytes: Vec<u8>,
}

impl<'a> Task<'a> {
    /// Reads the document.
    fn read(args: &'a Args, layout: Layout) -> Result<(Task<'a>, Tree), Failure> {
        let (file, bytes) = match (args.filled("xmlstring"), args.str("path")) {
            (Some(text), _) => (None, text.as_bytes().to_vec()),
            (None, path) => {
                let path = path.unwrap_or_default();
                if !std::path::Path::new(path).is_file() {
                    return Err(Failure::new(format!("The target XML source '{path}' does not exist.")));
                }
                let failed = |error| Failure::new(format!("{path} cannot be read: {}.", reason(&error)));
                let file = way::open(path.as_ref()).map_err(failed)?;
                let bytes = super::read_rest(&file).map_err(failed)?;
                (Some(Arc::new(file)), bytes)
            }
        };
        let none = Map::new();
        let namespaces = args.value("namespaces").and_then(Value::as_object).unwrap_or(&none);
        let mut tree = Tree::read(&bytes, namespaces)
            .map_err(|error| Failure::new(format!("Error while parsing document: {} ({error})", name(args))))?;
        if args.bool("strip_cdata_tags") {
            tree.strip_cdata();
        }
        if layout == Layout::Pretty {
            tree.remove_blanks();
        }
        Ok((Task { args, layout, file, bytes }, tree))
    }

    /// The plan that writes the document, if it is a file.
    fn plan(&self, changed: bool, text: String) -> Plan {
        if !changed {
            return Plan::unchanged();
        }
        let (path, backup) = (self.args.str("path").map(str::to_owned), self.args.bool("backup"));
        let edited = self.file.clone();
        Plan::change(move |host, outcome| {
            let Some(path) = path else { return Ok(()) };
            let wanted = Wanted { backup, edited, ..Wanted::new(path, Source::Bytes(text.into_bytes())) };
            let written = run::carry_out(wanted.plan(host)?, host)?;
            if let Some(copy) = written.data.get("backup_file") {
                outcome.set("backup_file", copy.clone());
            }
            Ok(())
        })
    }

    /// The plan that only indents the document.
    fn pretty(&self, tree: &Tree) -> Result<Plan, Failure> {
        let text = write::document(tree, self.layout);
        if self.args.str("path").is_none() {
            return Ok(Plan::change(|_, _| Ok(())).with("xmlstring", text));
        }
        Ok(self.plan(self.bytes != text.as_bytes(), text))
    }

    fn change(&self, tree: &mut Tree, xpath: &str, selected: &mut Selected) -> Result<(), Failure> {
        let (args, top) = (self.args, tree.top());
        if args.bool("print_match") {
            let paths = tree.find(top, xpath)?.into_iter().map(|found| match found {
                Found::Node(node) => Ok(Value::from(tree.path(node))),
                _ => Err(Failure::new(format!(
                    "selector '{xpath}' matches something that is not a node and has no path."
                ))),
            });
            let paths: Vec<Value> = paths.collect::<Result<_, _>>()?;
            let list: Vec<String> = paths.iter().map(Value::to_string).collect();
            selected.message = Some(format!("selector '{xpath}' match: [{}]", list.join(", ")).into());
            return Ok(());
        }
        if args.bool("count") {
            // Counts the nodes at any depth.
            let everywhere = if xpath.starts_with("//") { xpath.to_owned() } else { format!("/{xpath}") };
            let XPathValue::Number(count) = tree.evaluate(top, &format!("count({everywhere})"))? else {
                return Err(Failure::new(format!("{xpath} cannot be counted.")));
            };
            selected.count = count as usize;
            selected.message = Some(format!("found {} nodes", selected.count).into());
            return Ok(());
        }
        if let Some(content) = args.str("content") {
            return read(tree, xpath, content, selected);
        }
        if args.str("state") == Some("absent") {
            return remove(tree, xpath);
        }
        let input = args.str("input_type").unwrap_or("yaml");
        let list = |option: &str| args.value(option).and_then(Value::as_array);
        if let Some(children) = list("set_children") {
            return set_children(tree, xpath, children, input);
        }
        if let Some(children) = list("add_children").filter(|children| !children.is_empty()) {
            return self.add_children(tree, xpath, children, input);
        }
        if let Some(value) = args.value("value") {
            return set_value(tree, xpath, args.value("attribute"), value);
        }
        if tree.nodes(top, xpath)?.is_empty() { make::target(tree, top, xpath) } else { Ok(()) }
    }

    fn add_children(&self, tree: &mut Tree, xpath: &str, list: &[Value], input: &str) -> Result<(), Failure> {
        let found = tree.nodes(tree.top(), xpath)?;
        let (Some(first), Some(last)) = (found.first(), found.last()) else { return Ok(()) };
        let (before, after) = (self.args.bool("insertbefore"), self.args.bool("insertafter"));
        if !before && !after {
            // The nodes are created once, so they end up in the last selected node.
            let children = make::children(tree, list, input)?;
            children.into_iter().for_each(|child| tree.append(*last, child));
            return Ok(());
        }
        let parent =
            tree.document.parent(*first).filter(|parent| *parent != tree.document.root()).ok_or_else(|| {
                Failure::new(format!(
                    "insertbefore and insertafter need an element with a parent, and {xpath} selects the outermost one."
                ))
            })?;
        let place = tree.children(parent).iter().position(|child| child == if before { first } else { last });
        let place =
            place.ok_or_else(|| Failure::new(format!("The elements that {xpath} selects have different parents.")))?;
        let children = make::children(tree, list, input)?;
        for (at, child) in children.into_iter().enumerate() {
            tree.insert(parent, place + usize::from(after) + at, child);
        }
        Ok(())
    }
}

fn read(tree: &mut Tree, xpath: &str, content: &str, selected: &mut Selected) -> Result<(), Failure> {
    let found = tree.nodes(tree.top(), xpath)?;
    if found.is_empty() {
        return Err(Failure::new(format!("Xpath {xpath} does not reference a node!")));
    }
    for node in found {
        let tag = tree
            .tag(node)
            .ok_or_else(|| Failure::new(format!("Xpath {xpath} also finds nodes that are not elements.")))?;
        let value = if content == "text" { json!(tree.text(node)) } else { tree.attributes(node).into() };
        selected.matches.push(json!({ tag: value }));
    }
    selected.count = selected.matches.len();
    selected.message = Some(selected.count.into());
    Ok(())
}

fn remove(tree: &mut Tree, xpath: &str) -> Result<(), Failure> {
    let refuse = |why: &str| Failure::new(format!("Couldn't delete xpath target: {xpath} ({why})"));
    for found in tree.find(tree.top(), xpath)? {
        match found {
            Found::Attribute(owner, attribute) => tree.remove_attribute(owner, attribute),
            Found::Text => return Err(refuse("texts are set to another value, not removed")),
            Found::Node(node) if node == tree.top() || node == tree.document.root() => {
                return Err(refuse("a document must keep its outermost element"));
            }
            Found::Node(node) => tree.remove(node),
        }
    }
    Ok(())
}

fn set_children(tree: &mut Tree, xpath: &str, list: &[Value], input: &str) -> Result<(), Failure> {
    let found = tree.nodes(tree.top(), xpath)?;
    let children = make::children(tree, list, input)?;
    let wanted: Vec<String> = children.iter().map(|child| write::node_with_tail(tree, *child)).collect();
    for node in found {
        let old = tree.children(node);
        let same: Vec<String> = old.iter().map(|child| write::node_with_tail(tree, *child)).collect();
        if same != wanted {
            old.into_iter().for_each(|child| tree.remove(child));
            children.iter().for_each(|child| tree.append(node, *child));
        }
    }
    Ok(())
}

fn set_value(tree: &mut Tree, xpath: &str, attribute: Option<&Value>, value: &Value) -> Result<(), Failure> {
    let top = tree.top();
    if tree.nodes(top, xpath)?.is_empty() {
        make::target(tree, top, xpath)?;
    }
    let found: Vec<NodeId> = tree.nodes(top, xpath)?;
    if found.is_empty() {
        return Err(Failure::new(format!("Xpath {xpath} does not reference a node!")));
    }
    let attribute = attribute.map(|name| make::text_of(name, "attribute")).transpose()?.flatten();
    let value = make::text_of(value, "value")?.unwrap_or_default();
    for node in found {
        match attribute.filter(|name| !name.is_empty()) {
            None => tree.set_text(node, Some(value))?,
            Some(name) => make::set_attribute(tree, node, name, value)?,
        }
    }
    Ok(())
}
