# The two commands: `make demo` and `make test`. Each installs what it needs on a Debian machine, as root.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO_HOME ?= $(HOME)/.cargo
export PATH := $(CARGO_HOME)/bin:$(PATH)
WINDLASS_CACHE ?= /var/cache/windlass
export WINDLASS_CACHE
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := frames results journal yaml inventory pattern vault template key_value

.PHONY: help setup build artifacts demo demo-down test check unit lab-test lab-matrix lab-matrix-short compat fuzz bench release clean

help:
	@echo 'make demo       three hosts on this machine, a Kubernetes cluster on them'
	@echo 'make demo-down  remove the hosts'
	@echo 'make test       everything: format, lints, tests, and a cluster end to end'
	@echo 'make lab-matrix a cluster for every combination of components, in pairs, as a table; about an hour'
	@echo 'make compat     the recorded answers of ansible-core beside those of the real engines'
	@echo 'make fuzz       every fuzz target for FUZZ_SECONDS (60) with a nightly toolchain and cargo-fuzz; shortly without'
	@echo 'make release    target/release/windlass'
	@echo 'make bench      what a run costs, and how it compares with its peers, as tables'

setup:
	@tools/setup

build: setup
	cargo build

release: setup
	cargo build --release

artifacts: setup
	lab/artifacts/build --cache $(WINDLASS_CACHE)/artifacts

demo: build artifacts
	tools/demo

demo-down:
	target/debug/windlass lab down

# The artifacts come first because tables of `unit` run on their API server too.
test: setup check artifacts unit lab-test

check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	# The smaller executor, which only a release build makes.
	cargo clippy --package windlass-modules --no-default-features --bin windlass-executor -- -D warnings
	tools/catalog check --complete
	@# Advisories need a database from the network, so they are not among these.
	@if cargo deny --version > /dev/null 2>&1; then cargo deny --offline check bans licenses sources; \
	else echo 'check: cargo-deny is not installed; licences, bans and sources of dependencies were not checked'; fi
	@if mdbook --version > /dev/null 2>&1; then mdbook build docs; else echo 'check: mdbook is not installed; the book was not built'; fi

unit:
	@tools/programs
	cargo test --workspace

lab-test: build artifacts
	tests/lab/run

lab-matrix: build artifacts
	@tools/setup python3
	tests/lab/matrix

lab-matrix-short: build artifacts
	@tools/setup python3
	tests/lab/matrix --short

compat:
	@tools/setup python3-venv python3-apt
	@tools/programs
	tools/compat

# What is found goes into fuzz/corpus; fuzz/seeds holds what we made. Without a nightly toolchain the seeds and what is mutated from them.
fuzz:
	@if cargo +nightly fuzz --version > /dev/null 2>&1; then \
		cp Cargo.lock fuzz/Cargo.lock; \
		for target in $(FUZZ_TARGETS); do \
			mkdir -p fuzz/corpus/$$target; \
			cargo +nightly fuzz run --dev --sanitizer none --features controller $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
				-max_len=4096 -max_total_time=$(FUZZ_SECONDS); \
		done; \
	else \
		echo 'fuzz: no nightly toolchain with cargo-fuzz; the targets run on a fixed number of inputs'; \
		cargo test --test fuzz; \
	fi

bench: release artifacts
	WINDLASS=target/release/windlass benches/run
	benches/peers/run
	cargo build --release --package windlass-bench
	benches/scale
	cargo bench --package windlass-bench
