//! Runs the fuzz targets on a stable toolchain: the seeds of each, and a fixed number of deterministic mutations.
//!
//! `make fuzz` searches further with a nightly toolchain.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    reason = "targets fail by panicking"
)]

use std::fs;
use std::path::Path;

#[path = "../fuzz/checks/frames.rs"]
mod frames;
#[path = "../fuzz/checks/inventory.rs"]
mod inventory;
#[path = "../fuzz/checks/journal.rs"]
mod journal;
#[path = "../fuzz/checks/key_value.rs"]
mod key_value;
#[path = "../fuzz/checks/pattern.rs"]
mod pattern;
#[path = "../fuzz/checks/results.rs"]
mod results;
#[path = "../fuzz/checks/template.rs"]
mod template;
#[path = "../fuzz/checks/vault.rs"]
mod vault;
#[path = "../fuzz/checks/yaml.rs"]
mod yaml;

/// Longest input, as in `make fuzz`.
const LONGEST: usize = 4096;

/// A seeded generator, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    /// A range within this length.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        start..(start + self.below(32)).min(length)
    }
}

fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let range = random.range(input.len());
    match random.below(8) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = b"\0\xff\x7f\"\\\n{}[]:= "[random.below(13)],
        2 => _ = input.drain(range),
        3 => {
            let piece = input[range].to_vec();
            input.splice(at..at, piece);
        }
        4 => input.truncate(at),
        5 => {
            let piece = other[random.range(other.len())].to_vec();
            input.splice(at..at, piece);
        }
        6 => {
            input.truncate(at);
            input.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
        _ => input.insert(at, random.below(256) as u8),
    }
    input.truncate(LONGEST);
}

/// Feeds the seeds and a number of mutations to a target.
fn smoke(name: &str, mutations: usize, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let corpus: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(!corpus.is_empty(), "{} is empty", folder.display());
    for input in &corpus {
        check(input);
    }
    let mut random = Random(17);
    for _ in 0..mutations {
        let mut input = corpus[random.below(corpus.len())].clone();
        for _ in 0..=random.below(4) {
            let other = &corpus[random.below(corpus.len())];
            mutate(&mut input, other, &mut random);
        }
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&input))).is_err();
        assert!(!failed, "{name}, with the input {:?}", String::from_utf8_lossy(&input));
    }
}

/// Passes inputs that are valid UTF-8 to targets that read text.
fn text(check: impl Fn(&str)) -> impl Fn(&[u8]) {
    move |data| check(&String::from_utf8_lossy(data))
}

#[test]
fn random_frames_read_alike_or_refused() {
    smoke("frames", 5000, frames::check);
}

#[test]
fn random_result_has_no_effect() {
    smoke("results", 5000, results::check);
}

#[test]
fn random_journal_read_or_refused_with_line() {
    smoke("journal", 5000, journal::check);
}

#[test]
fn random_yaml_read_or_refused() {
    smoke("yaml", 5000, text(yaml::check));
}

#[test]
fn random_inventory_read_or_refused() {
    smoke("inventory", 2000, text(inventory::check));
}

#[test]
fn random_pattern_matches_each_host_once() {
    smoke("pattern", 5000, text(pattern::check));
}

#[test]
fn random_template_rendered_or_refused() {
    smoke("template", 3000, text(template::check));
}

#[test]
fn random_envelope_decrypted_or_refused() {
    smoke("vault", 60, vault::check);
}

#[test]
fn random_arguments_split_or_refused() {
    smoke("key_value", 5000, text(key_value::check));
}
