//! Contexts: layers of variables, cycles, secrets, unknown values in check mode, errors and includes.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]
#![expect(clippy::disallowed_methods, reason = "the templates are the tests' own")]

use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;
use windlass_template::{
    Compat, Context, Engine, Error, ErrorKind, LIBRARY, Options, Revealed, Scope, TemplateOptions, Value, Variable,
    Variables, unknown,
};
use windlass_vault::{Secret, Secrets};
use windlass_yaml::{Node, Span, Text};

fn yaml(text: &str) -> Node {
    windlass_yaml::load_one(windlass_yaml::Source::new("vars.yml", text), &windlass_yaml::Options::default()).unwrap()
}

fn variables(text: &str) -> IndexMap<Arc<str>, Variable> {
    let node = yaml(text);
    let entries = node.as_map().unwrap().string_entries();
    entries.map(|(name, node)| (Arc::from(name), Variable::Text(node.clone()))).collect()
}

fn context(text: &str) -> Context {
    Engine::new(&LIBRARY, Options::default()).scope(Arc::new(variables(text)))
}

fn text(template: &str) -> Node {
    Node::of_project(template, Span::none())
}

fn extra(name: &str, value: impl Into<Value>) -> Variables {
    Variables::from_iter([(Arc::from(name), Variable::Data(value.into()))])
}

#[test]
fn loop_variable_shadows_and_updates_dependents() {
    let context = context("greeting: 'hello {{ item }}'\nshared: '{{ base }}!'\nbase: x\n");
    for item in ["a", "b"] {
        let context = context.with(extra("item", item));
        assert_eq!(context.render_to_string(&text("{{ greeting }} {{ shared }}")).unwrap(), format!("hello {item} x!"));
    }
    assert!(context.render(&text("{{ greeting }}")).unwrap_err().is_undefined());
}

#[test]
fn layer_hides_rendered_values_below() {
    let context = context("name: one\nlabel: '{{ name }}'\ndeep: {label: '{{ label }}'}\n");
    assert_eq!(context.render_to_string(&text("{{ deep.label }}")).unwrap(), "one");
    let above = context.with(extra("name", "two"));
    assert_eq!(above.render_to_string(&text("{{ deep.label }}")).unwrap(), "two");
    assert_eq!(context.render_to_string(&text("{{ deep.label }}")).unwrap(), "one");
}

/// A scope that counts its lookups, to prove that a variable is rendered once.
#[derive(Debug)]
struct Counting(IndexMap<Arc<str>, Variable>, std::sync::atomic::AtomicUsize);

impl Scope for Counting {
    fn get(&self, name: &str) -> Option<Variable> {
        if name == "source" {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        self.0.get(name).cloned()
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.0.keys().cloned().collect()
    }
}

#[test]
fn loop_independent_variable_rendered_once() {
    let mut table = variables("value: '{{ list | first }}'\nlist: '{{ [source] | list }}'\n");
    table.insert(Arc::from("source"), Variable::Data(Value::from(1)));
    let counting = Arc::new(Counting(table, std::sync::atomic::AtomicUsize::new(0)));
    let context = Engine::new(&LIBRARY, Options::default()).scope(counting.clone());
    for item in 0..10 {
        let context = context.with(extra("item", item));
        assert_eq!(context.render(&text("{{ value + item }}")).unwrap(), Value::from(1 + item));
    }
    assert_eq!(counting.1.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[test]
fn data_is_never_a_template() {
    let context = context("wrapped: '{{ fact }}'\n").with(extra("fact", "{{ 1 + 1 }}"));
    for template in ["{{ fact }}", "{{ wrapped }}", "{{ fact ~ '' }}", "{{ [fact] | first }}"] {
        assert_eq!(context.render_to_string(&text(template)).unwrap(), "{{ 1 + 1 }}");
    }
    let unsafe_text = Node::literal("{{ 1 + 1 }}", Span::none());
    assert_eq!(context.render_to_string(&unsafe_text).unwrap(), "{{ 1 + 1 }}");
    let context = context.with(extra("condition", "1 == 1"));
    assert_eq!(*context.condition(&text("{{ condition }}")).unwrap_err().kind(), ErrorKind::Conditional);
    assert_eq!(*context.condition(&Node::literal("1 == 1", Span::none())).unwrap_err().kind(), ErrorKind::Conditional);
}

#[test]
fn vaulted_values_are_decrypted_when_used_and_reported() {
    let secret = Secret::new("default", "open sesame");
    let envelope = windlass_vault::encrypt(b"hunter2", &secret).unwrap();
    let mut secrets = Secrets::new();
    secrets.push(secret);
    let revealed = Revealed::default();
    let options = Options { secrets, revealed: revealed.clone(), ..Options::default() };
    let node = Node::new(windlass_yaml::Value::Vault(envelope.into()), Span::none());
    let table: IndexMap<Arc<str>, Variable> = IndexMap::from([(Arc::from("password"), Variable::Text(node.clone()))]);
    let context = Engine::new(&LIBRARY, options).scope(Arc::new(table.clone()));
    assert_eq!(revealed.count(), 0);
    assert_eq!(context.render_to_string(&text("pw={{ password }}")).unwrap(), "pw=hunter2");
    assert_eq!(revealed.texts(), [Arc::from("hunter2")]);
    let without = Engine::new(&LIBRARY, Options::default()).scope(Arc::new(table));
    assert_eq!(*without.render(&text("{{ password }}")).unwrap_err().kind(), ErrorKind::Vault);
    assert!(without.condition(&text("password is defined")).is_err());
}

#[test]
fn unknown_value_in_check_mode_stays_unknown() {
    let context = context("derived: '{{ result.stdout | upper }}'\n")
        .with(extra("result", unknown("the command did not run in check mode")));
    for template in
        ["{{ result }}", "{{ derived }}", "{{ result.rc == 0 }}", "{{ derived | default('x') }}", "{{ [result] }}"]
    {
        let error = context.render(&text(template)).unwrap_err();
        assert!(error.is_unknown(), "{template}: {error}");
    }
    assert!(context.condition(&text("result.rc == 0")).unwrap_err().is_unknown());
    for condition in ["[result] | select | list", "[result] | selectattr('changed') | list", "result is changed"] {
        let error = context.condition(&text(condition)).unwrap_err();
        assert!(error.is_unknown(), "{condition}: {error}");
    }
    assert!(context.condition(&text("true or result.rc == 0")).unwrap());
}

#[test]
fn error_names_variable_position_and_chain() {
    let context = context(
        "server_name: a\nurl: 'http://{{ sever_name }}/'\nlink: '{{ url }}index'\n\
        alias: '{{ link }}'\nlonely: '{{ sever_name.fqdn }}'\n",
    );
    let error = context.render(&text("{{ link }}")).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Undefined { name: "sever_name".to_owned() });
    let names = |error: &Error| error.variables().iter().map(|through| through.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&error), ["url", "link"]);
    assert_eq!(
        error.report(),
        "'sever_name' is undefined. Did you mean 'server_name'? While evaluating `sever_name` for `url` for `link` \
         at vars.yml:2:6.\n2 | url: 'http://{{ sever_name }}/'\n  |      ^\n\n\
         used by `link` at vars.yml:3:7\n3 | link: '{{ url }}index'\n  |       ^"
    );
    let error = context.render(&text("{{ alias }}")).unwrap_err();
    assert_eq!(names(&error), ["url", "link", "alias"]);
    let error = context.render(&text("{{ lonely.host }}")).unwrap_err();
    assert_eq!(
        error.report(),
        "'sever_name' is undefined. Did you mean 'server_name'? While evaluating `{{ sever_name.fqdn }}` for `lonely` \
         at vars.yml:5:9.\n5 | lonely: '{{ sever_name.fqdn }}'\n  |         ^"
    );
    let error = context.render(&text("{{ server_name | uper }}")).unwrap_err();
    assert!(error.message().contains("'uper'") && error.hint() == Some("Did you mean 'upper'?"), "{error}");
}

#[test]
fn self_referencing_variable_refused() {
    let context = context("a: '{{ b }}'\nb: ['{{ c }}']\nc: '{{ a[0] }}'\n");
    let error = context.render(&text("{{ a }}")).unwrap_err();
    match error.kind() {
        ErrorKind::Recursion { chain } => assert_eq!(chain.first(), chain.last()),
        kind => panic!("{kind:?}"),
    }
}

#[test]
fn long_chain_without_cycle_accepted() {
    let mut text_of_chain = String::from("v0: end\n");
    for index in 1..=100 {
        text_of_chain += &format!("v{index}: '{{{{ v{} }}}}'\n", index - 1);
    }
    text_of_chain += "w0: end\n";
    for index in 1..=100 {
        text_of_chain += &format!("w{index}: {{x: ['{{{{ w{}.x[0] | default(w0) ~ \"\" }}}}']}}\n", index - 1);
    }
    let context = context(&text_of_chain);
    assert_eq!(context.render_to_string(&text("{{ v100 }}")).unwrap(), "end");
    assert_eq!(context.render_to_string(&text("{{ w100.x[0] }}")).unwrap(), "end");
    let sum = vec!["1"; 500].join(" + ");
    assert_eq!(context.evaluate(&text(&sum)).unwrap(), Value::from(500));
    assert!(context.condition(&text(&vec!["v0 == 'x'"; 300].join(" or "))).is_ok());
    let branches = vec!["1 if v0 == 'x' else "; 100].concat();
    assert_eq!(context.evaluate(&text(&(branches + "2"))).unwrap(), Value::from(2));
}

#[test]
fn contexts_can_be_used_from_many_threads() {
    fn shared<T: Send + Sync>(value: T) -> T {
        value
    }
    let context = shared(context("a: '{{ b }}'\nb: {c: '{{ d }}'}\nd: 1\n"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for item in 0..50 {
                    let context = context.with(extra("item", item));
                    assert_eq!(context.render(&text("{{ a.c + item }}")).unwrap(), Value::from(1 + item));
                }
            });
        }
    });
}

#[test]
fn omitted_value_reported_to_caller() {
    let context = context("a: 1\n");
    assert_eq!(*context.render(&text("{{ nope | default(omit) }}")).unwrap_err().kind(), ErrorKind::Omitted);
    let arguments = yaml("owner: '{{ nope | default(omit) }}'\nmode: '{{ a }}'\nlist: [1, '{{ omit }}']\n");
    assert_eq!(windlass_template::text(&context.render(&arguments).unwrap()), "{'mode': 1, 'list': [1]}");
}

#[test]
fn task_name_rendered_as_far_as_possible() {
    let context = context("a: 1\n");
    assert_eq!(context.render_tolerant(&text("set {{ a }} to {{ nope.x }}")), "set 1 to {{ nope.x }}");
    assert_eq!(context.render_tolerant(&text("{{ nope }}")), "{{ nope }}");
    assert_eq!(context.render_tolerant(&text("broken {{ a")), "broken {{ a");
}

#[test]
fn conditions_accept_lists_and_project_text() {
    let context = context("a: 1\nrule: a == 1\nrules: {first: a > 0}\nalias: '{{ rule }}'\n");
    assert!(context.condition(&yaml("[a == 1, a < 2]")).unwrap());
    assert!(!context.condition(&yaml("[a == 2, nope]")).unwrap());
    assert!(context.condition(&yaml("[]")).unwrap());
    for condition in ["{{ rule }}", "{{ rules.first }}", "{{ alias }}"] {
        assert!(context.condition(&text(condition)).unwrap(), "{condition}");
    }
    let error = context.condition(&text("a")).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Conditional);
}

#[derive(Debug)]
struct WithPaths(PathBuf);

impl Scope for WithPaths {
    fn get(&self, name: &str) -> Option<Variable> {
        (name == "who").then(|| Variable::Data(Value::from("world")))
    }

    fn names(&self) -> Vec<Arc<str>> {
        vec![Arc::from("who")]
    }

    fn search_paths(&self) -> Vec<PathBuf> {
        vec![self.0.clone()]
    }
}

#[test]
fn template_includes_imports_and_extends() {
    let directory = std::env::temp_dir().join(format!("windlass-template-{}", std::process::id()));
    let templates = directory.join("templates");
    std::fs::create_dir_all(&templates).unwrap();
    let write = |name: &str, text: &str| std::fs::write(templates.join(name), text).unwrap();
    write("part.j2", "hello {{ who }}{{ x | default('') }}\n");
    write("macros.j2", "{% macro twice(a) %}{{ a }}{{ a }}{% endmacro %}\n{% set answer = 42 %}\n");
    write("base.j2", "<{% block body %}base{% endblock %}>\n");
    write("broken.j2", "line\n{{ nope }}\n");
    let context = Engine::new(&LIBRARY, Options::default()).scope(Arc::new(WithPaths(directory.clone())));
    let render = |text: &str| context.template(&Text::of_project(text), "main.j2", &TemplateOptions::default());
    assert_eq!(render("a {% include 'part.j2' %} b").unwrap(), "a hello world b");
    assert_eq!(render("{% set x = '!' %}{% include 'part.j2' %}").unwrap(), "hello world!");
    assert_eq!(render("{% include ['none.j2', 'part.j2'] %}").unwrap(), "hello world");
    assert_eq!(render("{% include 'none.j2' ignore missing %}x").unwrap(), "x");
    assert_eq!(render("{% import 'macros.j2' as m %}{{ m.twice(who) }}{{ m.answer }}").unwrap(), "worldworld42");
    assert_eq!(render("{% from 'macros.j2' import twice as t with context %}{{ t('a') }}").unwrap(), "aa");
    assert_eq!(render("{% extends 'base.j2' %}{% block body %}[{{ super() }}]{% endblock %}").unwrap(), "<[base]>");
    let missing = render("{% include 'none.j2' %}").unwrap_err();
    assert!(missing.message().contains("none.j2") && missing.message().contains("templates"), "{missing}");
    assert!(render("x\n\n{% include 'broken.j2' %}").unwrap_err().is_undefined());
    assert_eq!(render("x\n\n{{ nope }}{% if 1 %}{% endif %}").unwrap_err().span().unwrap().to_string(), "main.j2:3:1");
    for (text, line) in [
        ("{% if 1 %}\n\n{% endif %}\n{{ nope }}", 4),
        ("{% for x in [1] -%}\n\n  {%- endfor %}\n{% if nope %}{% endif %}", 4),
        ("a\nb {{ 1 }}\n{{ nope }}", 3),
        ("#jinja2: trim_blocks: True\n{{ nope }}", 2),
        ("{{ 1 +\n }}", 1),
    ] {
        let span = render(text).unwrap_err().span().unwrap().to_string();
        assert_eq!(span, format!("main.j2:{line}:1"), "{text}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn compat_2_18_converts_text_that_looks_like_data() {
    let table = variables("n: 1\nl: [1, 2]\nd: {a: 1}\nword: 'false'\nnothing:\nrule: n == 1\n");
    let context = Engine::new(&LIBRARY, Options { compat: Compat::V2_18, ..Options::default() }).scope(Arc::new(table));
    for (template, wanted) in [
        ("{{ n }}", "1"),
        ("{{ n + 1 }}", "'2'"),
        ("{{ 4 / 2 }}", "'2.0'"),
        ("{{ 'True' }}", "True"),
        ("{{ true }}", "True"),
        ("[{{ n }}, {{ n + 1 }}]", "[1, 2]"),
        ("{'a': {{ n }}}", "{'a': 1}"),
        ("{{ '{\"a\": [true, null]}' }}", "{'a': [True, None]}"),
        ("{{ l }}", "[1, 2]"),
        ("{{ d }}", "{'a': 1}"),
        ("{{ none }}", "''"),
        ("{{ nothing }}", "None"),
        ("{{ (1, 2) }}", "'(1, 2)'"),
        ("{{ range(3) }}", "[0, 1, 2]"),
        ("[not data", "'[not data'"),
        ("{% if n %}false{% endif %}", "'false'"),
    ] {
        assert_eq!(windlass_template::repr(&context.render(&text(template)).unwrap()), wanted, "{template}");
    }
    for (condition, wanted) in [
        ("n", true),
        ("word", true),
        ("l", true),
        ("d.b is defined", false),
        ("", true),
        ("0", false),
        ("{{ rule }}", true),
    ] {
        assert_eq!(context.condition(&text(condition)).unwrap(), wanted, "{condition}");
    }
}

#[test]
fn ten_thousand_conditions_evaluated_quickly() {
    let context =
        context("state: present\nversion: 1.20.3\nitems_: [a, b, c]\ncfg: {enabled: true, port: '{{ 8080 }}'}\n");
    let condition = text("state == 'present' and version is version('1.19', '>=') and cfg.enabled and 'b' in items_");
    let start = std::time::Instant::now();
    for item in 0..10_000 {
        let context = context.with(extra("item", item));
        assert!(context.condition(&condition).unwrap());
    }
    // Visible with --nocapture; the test does not assert a time.
    eprintln_if_asked(start.elapsed());
}

#[allow(clippy::print_stderr)]
fn eprintln_if_asked(elapsed: std::time::Duration) {
    eprintln!("10,000 conditions: {elapsed:?}");
}

/// The variables of a host as a controller provides them: each is looked up separately, and one of them is the object
/// itself.
#[derive(Debug)]
struct HostVars;

impl minijinja::value::Object for HostVars {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "good" => Some(Value::from(1)),
            "bad" => Some(windlass_template::undefined("nope")),
            "invalid" => Some(Value::from(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, "broken"))),
            "itself" => Some(Value::from_object(HostVars)),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> minijinja::value::Enumerator {
        minijinja::value::Enumerator::Str(&["good", "bad", "itself", "listed"])
    }
}

/// Lists a name that it has no value for.
#[derive(Debug)]
struct Listing;

impl minijinja::value::Object for Listing {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("a")).then(|| Value::from(1))
    }

    fn enumerate(self: &Arc<Self>) -> minijinja::value::Enumerator {
        minijinja::value::Enumerator::Str(&["a", "listed"])
    }
}

#[test]
fn listed_key_without_value_skipped() {
    let context = context("n: 1\n").with(extra("host", Value::from_object(Listing)));
    assert_eq!(context.render_to_string(&text("{{ host | to_json }}")).unwrap(), r#"{"a": 1}"#);
    assert_eq!(windlass_template::text(&context.render(&text("{{ host }}")).unwrap()), "{'a': 1}");
}

#[test]
fn controller_objects_queried_per_item() {
    let context = context("a: 1\n").with(extra("host", Value::from_object(HostVars)));
    let render = |template: &str| context.render(&text(template));
    assert_eq!(render("{{ host.good + host['good'] }}").unwrap(), Value::from(2));
    assert!(render("{{ host.bad }}").unwrap_err().is_undefined());
    assert!(render("{{ host.none }}").unwrap_err().is_undefined());
    assert_eq!(render("{{ host.bad | default(3) }}").unwrap(), Value::from(3));
    assert!(render("{{ host['invalid'] }}").unwrap_err().message().contains("Broken"));
    assert_eq!(render("{{ host.invalid is defined or true }}").unwrap_err().kind(), &ErrorKind::Filter);
    assert_eq!(render("{{ ['x'] | map('extract', {'x': host}, 'good') | list }}").unwrap(), Value::from(vec![1]));
    assert!(render("{{ host | to_json }}").is_err());
    assert_eq!(render("{{ host | length }}").unwrap(), Value::from(4));
    assert!(render("{{ host.itself.itself.good == 1 }}").unwrap().is_true());
    assert!(render("{{ {'x': host.itself} }}").is_err());
}
