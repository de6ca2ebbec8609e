# The two commands: `make demo` and `make test`. Each installs what it needs on a Debian machine, as root.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO_HOME ?= $(HOME)/.cargo
export PATH := $(CARGO_HOME)/bin:$(PATH)
WINDLASS_CACHE ?= /var/cache/windlass
export WINDLASS_CACHE
FUZZ_SECONDS ?= 60

.PHONY: help setup build artifacts demo demo-down test check unit lab-test compat fuzz bench release clean

help:
	@echo 'make demo       three hosts on this machine, a Kubernetes cluster on them'
	@echo 'make demo-down  remove the hosts'
	@echo 'make test       everything: format, lints, tests, and a cluster end to end'
	@echo 'make compat     the recorded answers of ansible-core beside those of the real engines'
	@echo 'make fuzz       every fuzz target for FUZZ_SECONDS (60); needs a nightly toolchain and cargo-fuzz'
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

unit:
	@tools/programs
	cargo test --workspace

lab-test: build artifacts
	tests/lab/run

compat:
	@tools/setup python3-venv python3-apt
	@tools/programs
	tools/compat

fuzz:
	cp Cargo.lock fuzz/Cargo.lock
	for target in yaml inventory pattern vault template key_value; do \
		cargo +nightly fuzz run --dev --sanitizer none --features controller $$target -- -max_len=4096 -max_total_time=$(FUZZ_SECONDS); \
	done

bench: release artifacts
	WINDLASS=target/release/windlass benches/run
	benches/peers/run
	cargo build --release --package windlass-bench
	benches/scale
	cargo bench --package windlass-bench
