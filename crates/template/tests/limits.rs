//! Templates that nobody means: too long, or made of anything. They end with an error.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::sync::Arc;

use indexmap::IndexMap;
use windlass_template::{Engine, Options, Variable};
use windlass_yaml::{Node, Span};

#[test]
fn ranges_are_as_long_as_the_sandbox_allows() {
    assert_eq!(rendered("{{ range(100000) | length }}").unwrap(), "100000");
    let error = rendered("{{ range(100001) | list | length }}").unwrap_err();
    assert!(error.contains("Range too big"), "{error}");
}

#[test]
fn texts_made_of_anything_do_not_end_the_program() {
    let pieces = [
        "{{", "}}", "{%", "%}", "{#", "#}", "-", "+", "a", "b.c", "[", "]", "(", ")", "{", "}", ":", ",", "|",
        "default", "is", "defined", "not", "in", "if", "else", "endif", "for", "endfor", "set", "=", "==", "'", "\"",
        "\\", "1", "1.5", "~", "*", "**", "/", "//", "%", " ", "\n", "raw", "endraw", "macro", "endmacro", "call", "ü",
        "\u{0}", "'x'", "map", "loop",
    ];
    // A generator of its own, so that a failure can be repeated.
    let mut state = 1u64;
    let mut next = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..3_000 {
        let template: String = (0..next(14) + 1).map(|_| pieces[next(pieces.len())]).collect();
        let _ = rendered(&template);
        let _ = rendered(&format!("{{{{ {template} }}}}"));
    }
}

fn rendered(template: &str) -> Result<String, String> {
    let variables: IndexMap<Arc<str>, Variable> = IndexMap::new();
    let context = Engine::new(Options::default()).scope(Arc::new(variables));
    context.render_to_string(&Node::string(template, Span::none())).map_err(|error| error.to_string())
}
