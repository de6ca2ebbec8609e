//! The hot paths of a run, each measured alone: `cargo bench -p windlass-bench`.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "the templates are the benchmark's own")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use criterion::{Criterion, criterion_group, criterion_main};
use indexmap::IndexMap;
use windlass::output::Secrets;
use windlass::settings::{Config, Settings};
use windlass::vars::{Run, TaskScope, World};
use windlass_inventory::{Inventory, LoadOptions};
use windlass_protocol::{FrameDecoder, Reply, encode};
use windlass_template::{Engine, LIBRARY, Options, Scope as _, Value, Variable};
use windlass_yaml::{Node, Source, Span, load_one};

fn yaml(criterion: &mut Criterion) {
    let mut text = String::from("- hosts: all\n  tasks:\n");
    for task in 0..100 {
        writeln!(
            text,
            "    - name: note {task}\n      ansible.builtin.copy: {{content: \"{{{{ x }}}}\", dest: /srv/{task}, mode: \"0644\"}}\n      when: [x is defined]"
        )
        .unwrap();
    }
    let options = windlass_yaml::Options::default();
    criterion.bench_function("YAML, a playbook of 100 tasks", |bencher| {
        bencher.iter(|| load_one(Source::new("play.yml", black_box(text.as_str())), &options).unwrap());
    });
}

fn templates(criterion: &mut Criterion) {
    let variables = load_one(
        Source::new("vars.yml", "name: web\nport: 80\nlabel: '{{ name }}:{{ port }}'\n"),
        &windlass_yaml::Options::default(),
    );
    let variables = variables.unwrap();
    let variables = variables.as_map().unwrap().string_entries();
    let variables: IndexMap<Arc<str>, Variable> =
        variables.map(|(name, node)| (Arc::from(name), Variable::Text(node.clone()))).collect();
    let (engine, variables) = (Engine::new(&LIBRARY, Options::default()), Arc::new(variables));
    let text = |text: &str| Node::of_project(text, Span::none());
    let mut count = 0;
    criterion.bench_function("template, compiled and evaluated", |bencher| {
        bencher.iter(|| {
            // The engine caches compiled texts, so each iteration needs a new one.
            count += 1;
            engine.scope(variables.clone()).render(&text(&format!("{{{{ label | upper }}}} {count}"))).unwrap()
        });
    });
    let known = text("{{ label | upper }} known");
    criterion.bench_function("template, evaluated", |bencher| {
        bencher.iter(|| engine.scope(variables.clone()).render(black_box(&known)).unwrap());
    });
    let condition = text("port > 10 and name in ['web', 'db']");
    criterion.bench_function("condition", |bencher| {
        bencher.iter(|| engine.scope(variables.clone()).condition(black_box(&condition)).unwrap());
    });
}

/// An inventory of 1,000 hosts in 100 groups.
fn hosts() -> (tempfile::TempDir, Inventory) {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for group in 0..100 {
        writeln!(text, "[g{group:02}]").unwrap();
        (0..10).for_each(|host| writeln!(text, "h{group:02}{host} ansible_host=10.0.{group}.{host}").unwrap());
        writeln!(text, "[g{group:02}:vars]\ncluster=c{group}").unwrap();
    }
    std::fs::write(folder.path().join("hosts"), text).unwrap();
    let inventory = load(&folder);
    (folder, inventory)
}

fn load(folder: &tempfile::TempDir) -> Inventory {
    Inventory::load(&[folder.path().join("hosts").display().to_string()], &LoadOptions::default()).unwrap().0
}

fn inventory(criterion: &mut Criterion) {
    let (folder, inventory) = hosts();
    criterion.bench_function("inventory, 1,000 hosts in 100 groups", |bencher| bencher.iter(|| load(&folder)));
    criterion.bench_function("pattern over 1,000 hosts", |bencher| {
        bencher.iter(|| inventory.matching(black_box("g1*:&g*5:!h153")).unwrap());
    });
    let run = Run {
        settings: Arc::new(Settings::from_config(&Config::default()).unwrap()),
        engine: Engine::new(&LIBRARY, Options { playbook_dir: PathBuf::from("."), ..Options::default() }),
        extra_vars: Arc::default(),
        secrets: Secrets::default(),
        python: LazyLock::new(Box::new(String::new)),
        jobs: Default::default(),
        answers: Default::default(),
    };
    let world = Arc::new(World::new(Arc::new(run), Arc::new(inventory)));
    let host: Arc<str> = Arc::from("h427");
    criterion.bench_function("scope of a host, one variable of its group looked up", |bencher| {
        bencher.iter(|| TaskScope::of_play(&world, &host).get(black_box("cluster")).unwrap());
    });
}

fn frames(criterion: &mut Criterion) {
    let result = Value::from_pairs((0..20).map(|key| (format!("key{key}"), Value::from("a value of some length"))));
    let reply = Reply::Done { id: 1, result, spent: Default::default() };
    criterion.bench_function("frame, a result of 20 keys there and back", |bencher| {
        bencher.iter(|| {
            let mut decoder = FrameDecoder::default();
            decoder.extend(&encode(black_box(&reply), &[]).unwrap());
            decoder.next_frame::<Reply<Value>>().unwrap().unwrap()
        });
    });
}

criterion_group!(all, yaml, templates, inventory, frames);
criterion_main!(all);
