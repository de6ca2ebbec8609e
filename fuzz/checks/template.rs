//! Templates: they are rendered or refused.

use std::sync::Arc;

use indexmap::IndexMap;
use windlass_template::{Context, Engine, LIBRARY, Options, Variable};
use windlass_yaml::{Node, Source, Span, load_one};

const VARIABLES: &str = "{a: 1, b: two, c: [1, 2.5, x, null], d: {k: v, l: [1]}, e: '{{ a }}', f: '{{ f }}', t: true}";

thread_local! {
    static CONTEXT: Context = {
        let node = load_one(Source::new("variables", VARIABLES), &windlass_yaml::Options::default()).unwrap();
        let entries = node.as_map().unwrap().string_entries();
        let variables: IndexMap<Arc<str>, Variable> =
            entries.map(|(name, node)| (Arc::from(name), Variable::Text(node.clone()))).collect();
        Engine::new(&LIBRARY, Options::default()).scope(Arc::new(variables))
    };
}

/// Feeds one input.
pub fn check(text: &str) {
    // Lookups read files, start programs and use the network of this machine.
    let words = text.split(|character: char| !(character.is_alphanumeric() || character == '_'));
    if words.into_iter().any(|word| word == "q" || word.contains("lookup") || word.contains("query")) {
        return;
    }
    CONTEXT.with(|context| {
        let node = Node::of_project(text, Span::none());
        if let Err(error) = context.render(&node) {
            assert!(!error.to_string().is_empty());
        }
        let _ = context.evaluate(&node);
    });
}
