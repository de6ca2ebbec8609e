//! Pages about everything but modules and roles: filters, tests, lookups, connections, callbacks, keywords and others.

use serde_json::{Map, Value, json};

use crate::output::{CALLBACKS, Callback};
pub(super) use crate::pages::summary;
use crate::pages::{example, pages};
use crate::playbook::keyword::{KEYWORDS, places};

/// Types with pages, other than modules and roles.
pub(super) const TYPES: &[&str] = &[
    "become",
    "cache",
    "callback",
    "cliconf",
    "connection",
    "filter",
    "httpapi",
    "inventory",
    "keyword",
    "lookup",
    "netconf",
    "shell",
    "strategy",
    "test",
    "vars",
];

/// A plugin.
pub(super) struct Plugin {
    /// Qualified name.
    pub(super) name: String,
    /// Description in one sentence.
    pub(super) summary: &'static str,
    /// Other names.
    aliases: Vec<&'static str>,
    /// An expression with it, and its value as JSON.
    example: Option<(&'static str, &'static str)>,
    callback: Option<&'static Callback>,
}

/// All plugins of a type, sorted.
pub(super) fn of_type(kind: &str) -> Vec<Plugin> {
    let mut plugins: Vec<Plugin> = match kind {
        "filter" => windlass_template::filters::FILTERS.iter().flat_map(|filter| named(kind, filter.names)).collect(),
        "test" => windlass_template::tests::TESTS.iter().flat_map(|test| named(kind, test.names)).collect(),
        "lookup" => windlass_template::lookups::LOOKUPS.iter().flat_map(|lookup| named(kind, lookup.names())).collect(),
        "callback" => CALLBACKS
            .iter()
            .map(|callback| Plugin {
                name: callback.full_name(),
                summary: callback.summary,
                aliases: vec![callback.name],
                example: None,
                callback: Some(callback),
            })
            .collect(),
        "keyword" => KEYWORDS
            .iter()
            .map(|(name, _)| Plugin {
                name: (*name).to_owned(),
                summary: summary(kind, name),
                aliases: vec![name],
                example: None,
                callback: None,
            })
            .collect(),
        _ => {
            pages().filter(|page| page.0 == kind).flat_map(|page| named(kind, std::slice::from_ref(&page.1))).collect()
        }
    };
    plugins.sort_by(|a, b| a.name.cmp(&b.name));
    plugins
}

/// The plugin of that name, rather than one that has it as another name.
pub(super) fn find<'a>(plugins: &'a [Plugin], name: &str) -> Option<&'a Plugin> {
    let own = format!("ansible.builtin.{name}");
    plugins.iter().filter(|plugin| plugin.is_called(name)).min_by_key(|plugin| plugin.name != own)
}

/// Plugins for the names of one function. A plain name belongs to ansible.builtin. If one name has a collection, its
/// plain names are only short forms.
fn named(kind: &str, names: &[&'static str]) -> Vec<Plugin> {
    let summary = names.iter().map(|name| summary(kind, name)).find(|summary| !summary.is_empty()).unwrap_or_default();
    let is_collection = names.iter().any(|name| name.contains('.'));
    let is_word = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte));
    let own = names.iter().filter(|name| is_word(name) && (!is_collection || name.contains('.')));
    own.map(|name| Plugin {
        name: if is_collection { (*name).to_owned() } else { format!("ansible.builtin.{name}") },
        summary,
        aliases: names.to_vec(),
        example: names.iter().find_map(|name| example(kind, name)),
        callback: None,
    })
    .collect()
}

impl Plugin {
    /// Whether the plugin has this name.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name) || self.name == format!("ansible.builtin.{name}")
    }

    /// All names, qualified and short.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.aliases.iter().copied().chain(std::iter::once(self.name.as_str()))
    }

    /// Page about the plugin as text.
    pub(super) fn text(&self, kind: &str) -> String {
        let mut text = format!("> {} {}\n\n{}\n", kind.to_uppercase(), self.name, super::wrapped(self.summary, 2));
        if let Some(callback) = self.callback {
            text.push_str("\nOPTIONS (= is mandatory):\n");
            for option in callback.all_options() {
                text.push_str(&format!("\n- {}\n{}\n", option.name, super::wrapped(option.doc, 8)));
                text.push_str(&format!("        default: {}\n", option.default.unwrap_or("null")));
                if !option.env.is_empty() {
                    text.push_str(&format!("        environment: {}\n", option.env.join(", ")));
                }
                for (section, key) in option.ini {
                    text.push_str(&format!("        ansible.cfg: [{section}] {key}\n"));
                }
                text.push_str(&format!("        type: {}\n", option.kind));
            }
        }
        if let Some(example) = self.example() {
            text.push_str(&format!("\nEXAMPLE:\n\n  {}\n", example.replace('\n', "\n  ")));
        }
        text.push('\n');
        text
    }

    /// The example as a template, with its value in a comment.
    fn example(&self) -> Option<String> {
        self.example.map(|(expression, value)| format!("{{{{ {expression} }}}}\n# -> {value}"))
    }

    /// Page of a keyword in the format of `ansible-doc -t keyword`.
    pub(super) fn keyword(&self) -> String {
        crate::cli::config::to_yaml(&json!({ &*self.name: self.json() }))
    }

    /// Page about the plugin as JSON.
    pub(super) fn json(&self) -> Value {
        let places = places(&self.name);
        if !places.is_empty() {
            return json!({"applies_to": places, "description": self.summary});
        }
        let (collection, name) = self.name.rsplit_once('.').unwrap_or(("ansible.builtin", &self.name));
        let mut options = Map::new();
        for option in self.callback.into_iter().flat_map(Callback::all_options) {
            let env: Vec<Value> = option.env.iter().map(|name| json!({"name": name})).collect();
            let ini: Vec<Value> =
                option.ini.iter().map(|(section, key)| json!({"section": section, "key": key})).collect();
            let entry = json!({"description": option.doc, "type": option.kind, "default": option.default, "env": env, "ini": ini});
            options.insert(option.name.into(), entry);
        }
        json!({
            "doc": {
                "name": name,
                "plugin_name": self.name,
                "collection": collection,
                "short_description": self.summary,
                "description": [self.summary],
                "options": options,
            },
            "examples": self.example(),
            "metadata": null,
            "return": null,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_of_ansible_builtin_has_a_sentence() {
        for kind in TYPES {
            for plugin in of_type(kind) {
                let is_own = plugin.name.starts_with("ansible.builtin.") || *kind == "keyword";
                assert!(!is_own || !plugin.summary.is_empty(), "{kind} {} has none", plugin.name);
            }
        }
    }

    #[test]
    fn page_of_a_filter_with_two_names_has_the_given_one() {
        let filters = of_type("filter");
        for name in ["default", "d", "ansible.builtin.d"] {
            let full = format!("ansible.builtin.{}", name.trim_start_matches("ansible.builtin."));
            assert_eq!(find(&filters, name).map(|filter| filter.name.clone()), Some(full));
        }
        assert!(find(&filters, "nosuch").is_none());
    }

    /// Filters whose value depends on the machine or on chance, has several lines, or needs a second one.
    const WITHOUT_EXAMPLE: &[&str] = &[
        "ansible.builtin.attr",
        "ansible.builtin.expanduser",
        "ansible.builtin.expandvars",
        "ansible.builtin.fileglob",
        "ansible.builtin.from_yaml_all",
        "ansible.builtin.password_hash",
        "ansible.builtin.random",
        "ansible.builtin.realpath",
        "ansible.builtin.shuffle",
        "ansible.builtin.unvault",
        "ansible.builtin.vault",
        "ansible.utils.fact_diff",
        "community.general.from_ini",
        "community.general.random_mac",
    ];

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the table of pages is ours")]
    fn example_of_every_filter_has_the_value_that_its_page_shows() {
        let options = windlass_template::Options::default();
        let variables = indexmap::IndexMap::<std::sync::Arc<str>, windlass_template::Variable>::new();
        let context =
            windlass_template::Engine::new(&windlass_template::LIBRARY, options).scope(std::sync::Arc::new(variables));
        for filter in of_type("filter") {
            let Some((expression, value)) = filter.example else {
                assert!(WITHOUT_EXAMPLE.contains(&&*filter.name), "{} has no example", filter.name);
                continue;
            };
            let template = format!("{{{{ {expression} }}}}");
            let node = windlass_yaml::Node::of_project(template, windlass_yaml::Span::none());
            let found = windlass_template::to_json(&context.render(&node).unwrap());
            assert_eq!(found, serde_json::from_str::<Value>(value).unwrap(), "{expression}");
        }
    }

    #[test]
    fn page_of_every_keyword_is_yaml() {
        for keyword in of_type("keyword") {
            let source = windlass_yaml::Source::new("page", keyword.keyword());
            let page = windlass_yaml::parse(source, &windlass_yaml::Options::default()).unwrap().documents.remove(0);
            let description =
                page.get(&keyword.name).and_then(|page| page.get("description")?.as_str().map(str::to_owned));
            assert_eq!(description.as_deref(), Some(keyword.summary));
        }
    }

    #[test]
    fn every_filter_test_and_lookup_has_a_page() {
        for kind in ["filter", "test", "lookup"] {
            for plugin in of_type(kind) {
                assert!(!plugin.summary.is_empty(), "the {kind} {} has no page", plugin.name);
            }
        }
    }

    #[test]
    fn every_page_belongs_to_a_plugin() {
        for (kind, name, _) in pages() {
            assert!(of_type(kind).iter().any(|plugin| plugin.is_called(name)), "there is no {kind} {name}");
        }
    }
}
