//! Templates that are too large, too deep or random end with an error.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]
#![expect(clippy::disallowed_methods, reason = "the templates are the tests' own")]

use std::sync::Arc;

use indexmap::IndexMap;
use windlass_template::{Engine, LIBRARY, Options, Variable};
use windlass_yaml::{Node, Span};

/// Renders on a stack as large as in a run.
fn rendered_deep(template: String) -> Result<String, String> {
    let render = move || rendered(&template);
    std::thread::Builder::new().stack_size(16 << 20).spawn(render).unwrap().join().unwrap()
}

fn refused(template: String, reason: &str) {
    match rendered_deep(template.clone()) {
        Err(error) => assert!(error.contains(reason), "{template:.100}: {error:.300}"),
        Ok(text) => panic!("{template:.100} gives {} bytes", text.len()),
    }
}

#[test]
fn too_deep_template_refused() {
    let around =
        |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(10_000), close.repeat(10_000));
    for expression in [
        around("(", "1", ")"),
        around("[", "", "]"),
        around("{1: ", "1", "}"),
        around("f(", "1", ")"),
        around("not ", "1", ""),
        around("-", "1", ""),
        around("x[", "1", "]"),
        around("1 if 1 else ", "1", ""),
    ] {
        refused(format!("{{{{ {expression} }}}}"), "nests deeper");
    }
    for (open, close) in [("{% if 1 %}", "{% endif %}"), ("{% for a in [] %}", "{% endfor %}")] {
        refused(around(open, "", close), "nest deeper than 200");
    }
    assert_eq!(rendered_deep(format!("{{% if 0 %}}{}{{% endif %}}x", "{% elif 0 %}".repeat(10_000))).unwrap(), "x");
    for chain in [".a", "[0]", "()"] {
        refused(format!("{{{{ x{} }}}}", chain.repeat(10_000)), "in a row");
    }
}

#[test]
fn too_deep_data_refused() {
    let wrapped = |value: &str| {
        format!(
            "{{% set ns = namespace(x=[]) %}}{{% for i in range(9999) %}}{value}{{% endfor %}}{{{{ ns.x | length }}}}"
        )
    };
    refused(wrapped("{% set ns.x = [ns.x] %}"), "nests deeper than");
    refused(wrapped("{% set ns.x = {'a': 1, 'b': ns.x} %}"), "nests deeper than");
    // Each value is changed in place, and dropped at the end.
    assert_eq!(rendered_deep(wrapped("{% set y = [] %}{% set _ = y.append(ns.x) %}{% set ns.x = y %}")).unwrap(), "1");
    for cycle in
        ["{% set x = [] %}{% set _ = x.append(x) %}{{ x }}", "{% set x = {} %}{% set _ = x.update({'x': x}) %}{{ x }}"]
    {
        refused(cycle.to_owned(), "contains itself");
    }
    refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned(), "Recursion limit exceeded");
}

#[test]
fn too_large_result_refused() {
    for expression in [
        "'x' * 10**10",
        "[1] * 10**10",
        "[1] | batch(10**9, 0)",
        "[1] | slice(10**9)",
        "'x' | center(10**10)",
        "'x' | indent(10**10, true)",
        "'x' | comment(prefix_count=10**8)",
        "'x' | comment(postfix_count=10**8)",
        "'x'.ljust(10**10)",
        "'x'.zfill(10**10)",
        "'\t'.expandtabs(10**10)",
        "'%010000000000d' % 1",
        "'%.10000000000f' % 1.5",
        "'%(a)10000000000s' % {'a': 1}",
        "'%10000000000s' | format('x')",
        "'{:>10000000000}'.format(1)",
        "'{0:010000000000d}'.format(1)",
        "('x' * 10000) | replace('x', 'y' * 100000)",
        "('x' * 10000).replace('x', 'y' * 100000)",
        "('x' * 10000) | regex_replace('x', 'y' * 100000)",
        "range(10000) | join('x' * 100000)",
        "('x' * 100000).join(range(10000) | map('string'))",
        "[1] | to_nice_json(indent=10**8)",
        "range(100000) | product(range(100000))",
        "lookup('password', '/dev/null length=2000000000')",
        "lookup('community.general.random_string', length=2000000000)",
        "lookup('community.general.random_string', length=9, min_lower=2000000000)",
        "range(60) | combinations(30)",
        "range(20) | permutations",
        "[1] | product(repeat=10**8)",
        "query('sequence', 'start=1 end=3 format=%010000000000d')",
        "query('nested', range(100000), range(100000))",
        "query('pipe', 'yes')",
        "query('file', '/dev/zero')",
        "10**10**10",
        "9999999999999999999999999999999999999999999",
    ] {
        let error = rendered_deep(format!("{{{{ ({expression}) | length }}}}")).unwrap_err();
        let said = ["too ", "at most", "more than", "longer than", "will not make"];
        assert!(said.iter().any(|said| error.contains(said)), "{expression}: {error:.300}");
    }
}

#[test]
fn small_result_of_large_operands_is_quick() {
    for (expression, wanted) in [
        ("[] * 11 ** 11", "[]"),
        ("() * 11 ** 11", "()"),
        ("'' * 11 ** 11", ""),
        ("0 ** 10 ** 11 + 1 ** 10 ** 11", "1"),
        ("(-1) ** 10 ** 11 + (-1) ** (10 ** 11 + 1)", "0"),
        ("1.5 | round(10 ** 11)", "1.5"),
        ("1.5 | round(-(10 ** 11))", "0.0"),
    ] {
        assert_eq!(rendered_deep(format!("{{{{ ({expression}) | string }}}}")).unwrap(), wanted, "{expression}");
    }
}

#[test]
fn value_growing_in_loop_refused() {
    for doubled in ["ns.x ~ ns.x", "ns.x + ns.x", "[ns.x, ns.x] | join", "ns.x.join(['', '', ''])"] {
        let template = format!(
            "{{% set ns = namespace(x='x') %}}{{% for i in range(60) %}}{{% set ns.x = {doubled} %}}{{% endfor %}}{{{{ ns.x | length }}}}"
        );
        refused(template, "too large");
    }
    let long = "{% for i in range(1000) %}{{ 'x' * 1000000 }}{% endfor %}";
    refused(long.to_owned(), "too large");
    refused(format!("{{% macro m() %}}{long}{{% endmacro %}}{{{{ m() | length }}}}"), "too large");
    let text = "x".repeat(100_000);
    let raw = format!("{{% for i in range(2000) %}}{text}{{% endfor %}}");
    refused(raw.clone(), "too large");
    refused(format!("{{% set x %}}{raw}{{% endset %}}{{{{ x | length }}}}"), "too large");
}

#[test]
fn data_with_more_values_than_the_limit_refused() {
    let json = |count: usize| format!("{{{{ ('[' ~ '0,' * {count} ~ '0]') | from_json | length }}}}");
    refused(json(1_000_000), "there are more than 1000000 values, which is the limit, at line 1");
    assert_eq!(rendered_deep(json(900_000)).unwrap(), "900001");
    // Ten aliases of ten aliases, and so on, are few bytes.
    let nested =
        (1..7).map(|level| format!("a{level}: &a{level} [{}]", vec![format!("*a{}", level - 1); 10].join(",")));
    let laughs: Vec<String> = std::iter::once("a0: &a0 [x,x,x,x,x,x,x,x,x,x]".to_owned()).chain(nested).collect();
    let yaml = |levels: usize| format!("'{{{}}}'", laughs[..levels].join(", "));
    for filter in ["from_yaml", "from_yaml_all"] {
        refused(format!("{{{{ {} | {filter} }}}}", yaml(7)), "values once its aliases are written out");
    }
    assert_eq!(rendered_deep(format!("{{{{ ({} | from_yaml).a2 | length }}}}", yaml(3))).unwrap(), "10");
    let list = "{{ ('[' ~ '0,' * 100000 ~ '0]') | from_yaml | length }}";
    assert_eq!(rendered_deep(list.to_owned()).unwrap(), "100001");
}

#[test]
fn filters_end_at_the_timeout_of_their_task() {
    for filter in ["regex_replace('x', 'y')", "regex_findall('x')", "wordwrap(1)"] {
        let end = std::time::Instant::now() + std::time::Duration::from_millis(50);
        let render = || rendered(&format!("{{{{ ('x' * 4000000) | {filter} | length }}}}"));
        let error = windlass_bounds::child::until(Some(end), render).unwrap_err();
        assert!(error.contains("did not end within the `timeout` of its task"), "{filter}: {error:.300}");
    }
}

#[test]
fn large_result_within_limits_returned() {
    for (template, wanted) in [
        ("{{ ('x' * 10000000) | length }}", "10000000"),
        ("{{ ('%300.200f' % 1.5) | length }}", "300"),
        ("{{ 'id 12345678901 %s' % 'x' }}", "id 12345678901 x"),
        ("{{ '{} 12345678901'.format(1) }}", "1 12345678901"),
        ("{{ 'x' | center(1000) | length }}", "1000"),
        ("{% set x %}a\n{{ 'b' }}\n\"c\\{% endset %}{{ x }}", "a\nb\n\"c\\"),
        ("{% macro m(a) %}\n{%- if a %}<{{ a }}>{% endif %}\n{% endmacro %}{{ m(1) }}", "<1>"),
    ] {
        assert_eq!(rendered_deep(template.to_owned()).as_deref(), Ok(wanted), "{template}");
    }
}

#[test]
fn range_limited_like_jinja_sandbox() {
    assert_eq!(rendered("{{ range(100000) | length }}").unwrap(), "100000");
    let error = rendered("{{ range(100001) | list | length }}").unwrap_err();
    assert!(error.contains("Range too big"), "{error}");
}

#[test]
fn random_template_never_panics() {
    let pieces = [
        "{{", "}}", "{%", "%}", "{#", "#}", "-", "+", "a", "b.c", "[", "]", "(", ")", "{", "}", ":", ",", "|",
        "default", "is", "defined", "not", "in", "if", "else", "endif", "for", "endfor", "set", "=", "==", "'", "\"",
        "\\", "1", "1.5", "~", "*", "**", "/", "//", "%", " ", "\n", "raw", "endraw", "macro", "endmacro", "call", "ü",
        "\u{0}", "'x'", "map", "loop",
    ];
    // A seeded generator, so that a failure can be repeated.
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
    let context = Engine::new(&LIBRARY, Options::default()).scope(Arc::new(variables));
    context.render_to_string(&Node::of_project(template, Span::none())).map_err(|error| error.to_string())
}
