# `make demo` and `make test` install their requirements on a Debian machine, as root.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO_HOME ?= $(HOME)/.cargo
export PATH := $(CARGO_HOME)/bin:$(PATH)
WINDLASS_CACHE ?= /var/cache/windlass
export WINDLASS_CACHE
FUZZ_SECONDS ?= 60
# `make host-test` fails without these; other requirements let a test be ignored.
REQUIRED := artifacts blkid etcd etcdctl git ip losetup mkfs.ext4 namespaces openssl parted root rsync ssh-keygen sshd sudo tables wipefs
AS_ROOT = $(if $(filter 0,$(shell id -u)),WINDLASS_REQUIRE='$(REQUIRED)')
# Test programs that use the host (root, sshd, namespaces, package managers) or take minutes; all others are `make unit`.
HOST_TESTS := attacks authentication become_user budgets collections connection control_planes crypto detached etcd filesystems git \
	host_key_user host_keys hostile kill repositories suite
UNIT_TESTS := $(filter-out compat $(HOST_TESTS),$(sort $(basename $(notdir $(patsubst %/main.rs,%.rs, \
	$(wildcard tests/*.rs tests/*/main.rs modules/tests/*.rs modules/tests/*/main.rs crates/*/tests/*.rs))))))
FUZZ_TARGETS := frames results journal yaml inventory pattern vault template key_value

.PHONY: help advisories setup build compiled artifacts packages book demo demo-down test check check-fast lints unit compat-test host-test lab-test lab-matrix lab-matrix-short lab-operations compat fuzz bench release dist hostile-release clean

help:
	@echo 'make demo       start three hosts on this machine and a Kubernetes cluster on them'
	@echo 'make demo-down  remove the hosts'
	@echo 'make check      check format, lints, the catalog and prose'
	@echo 'make unit       run the tests that need no root'
	@echo 'make compat-test  compare with recorded answers of ansible-core'
	@echo 'make host-test  run the tests that need root, sshd and other programs of this machine'
	@echo 'make lab-test   run modules on real hosts, and a cluster end to end'
	@echo 'make test       run all of these'
	@echo 'make lab-matrix test a cluster for every pair of components; prints a table, takes hours'
	@echo 'make lab-operations  test operations of clusters, such as undoing a reset; takes an hour'
	@echo 'make advisories look for known vulnerabilities of dependencies; needs cargo-deny and the network'
	@echo 'make compat     compare recorded answers of ansible-core with the real engines'
	@echo 'make fuzz       run each fuzz target for FUZZ_SECONDS (60); without nightly and cargo-fuzz, only briefly'
	@echo 'make hostile-release  run the attacks of tests/hostile against the release build'
	@echo 'make book       build the documentation site in target/book; needs mdbook'
	@echo 'make release    build target/release/windlass'
	@echo 'make dist       build archives, packages and images for x86_64 and aarch64, in target/dist'
	@echo 'make bench      print tables of the costs of a run, also compared with its peers'

setup:
	@tools/setup

build: setup
	cargo build

release: setup
	cargo build --release
	tools/executor-size

dist: setup
	tools/dist

# The program that users run is optimised and has both executors, which abort on panics. Without `--workspace`, cargo would
# compile the test with fewer features of the dependencies, and them again.
# Optimising it all the way would take many minutes more, and resist no other attacks.
hostile-release: export CARGO_PROFILE_RELEASE_LTO := off
hostile-release: export CARGO_PROFILE_RELEASE_OPT_LEVEL := 1
hostile-release: export CARGO_PROFILE_RELEASE_CODEGEN_UNITS := 16
hostile-release: release
	WINDLASS_REQUIRE='$(REQUIRED)' WINDLASS_BINARY=$(CURDIR)/target/release/windlass cargo test --workspace --test hostile

# Tests and recorded answers rely on Debian's Kubernetes 1.20.2, wherever they run.
artifacts: setup
	WINDLASS_ARTIFACTS_FROM=debian lab/artifacts/build

# Packages of the distribution, which the lab's hosts cannot fetch: Docker, nginx, keepalived.
packages: setup
	lab/artifacts/packages --cache $(WINDLASS_CACHE)/artifacts

# Upstream's releases, where they can be reached.
demo: build
	tools/demo

demo-down:
	target/debug/windlass lab down

# The lab takes longest and mostly waits for Kubernetes, so everything else that takes long runs beside it; its output
# follows theirs. Some tests need the API server in the artifacts. `make` by its variable would run this recipe even with
# `make -n`.
BESIDE ?= lints unit compat-test host-test hostile-release
LAB_OPTIONS ?=
test: check-fast compiled artifacts
	@tests/lab/run $(LAB_OPTIONS) > target/lab-test.log 2>&1 & lab=$$!; \
	trap 'kill $$lab 2> /dev/null' EXIT; \
	for target in $(BESIDE); do make $$target || failed=1; done; \
	wait $$lab || failed=1; \
	trap - EXIT; cat target/lab-test.log; [ -z "$${failed:-}" ]

check: check-fast lints

check-fast: setup
	cargo fmt --all --check
	tools/catalog check --complete
	tools/style

lints: setup
	cargo clippy --workspace --all-targets -- -D warnings
	# Only a release build has the smaller executor.
	cargo clippy --package windlass-modules --no-default-features --bin windlass-executor -- -D warnings
	@if cargo deny --version > /dev/null 2>&1; then cargo deny --offline check bans licenses sources; \
	else echo 'check: cargo-deny is not installed; licences, bans and sources of dependencies were not checked'; fi
	@if mdbook --version > /dev/null 2>&1; then $(MAKE) book; else echo 'check: mdbook is not installed; the book was not built (tests/suite/docs.rs checks its links)'; fi

# The documentation site, in target/book.
book: build
	tools/book
	mdbook build target/book-src

# Known vulnerabilities of dependencies. The database of advisories needs the network, so `check` leaves them out.
advisories:
	cargo deny check advisories

# `cargo build` would compile much a second time, with fewer features of the dependencies.
compiled: setup
	cargo test --workspace --no-run
	# Only a release build has the smaller executor.
	cargo check --package windlass-modules --no-default-features --bin windlass-executor

# As root, a test that finds a requirement missing fails.
unit: setup
	$(AS_ROOT) cargo test --workspace --no-fail-fast --lib $(UNIT_TESTS:%=--test %)

# Without root, tables of modules are ignored.
compat-test: setup
	@tools/programs
	$(AS_ROOT) cargo test --workspace --no-fail-fast --test compat

host-test: compiled artifacts
	@WINDLASS_REQUIRE='$(REQUIRED)' tools/programs
	WINDLASS_REQUIRE='$(REQUIRED)' cargo test --workspace --no-fail-fast $(HOST_TESTS:%=--test %)

lab-test: compiled artifacts
	tests/lab/run

lab-matrix: build artifacts packages
	@tools/setup python3
	tests/lab/matrix

lab-matrix-short: build artifacts packages
	@tools/setup python3
	tests/lab/matrix --short

lab-operations: build artifacts packages
	tests/lab/operations

compat:
	@tools/setup python3-venv python3-apt
	@tools/programs
	tools/compat

# Findings go to fuzz/corpus; fuzz/seeds has handmade inputs. Without a nightly toolchain, only seeds and mutations run.
fuzz:
	@if cargo +nightly fuzz --version > /dev/null 2>&1; then \
		cp Cargo.lock fuzz/Cargo.lock; \
		for target in $(FUZZ_TARGETS); do \
			mkdir -p fuzz/corpus/$$target; \
			cargo +nightly fuzz run --dev --sanitizer none --features controller $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
				-max_len=4096 -max_total_time=$(FUZZ_SECONDS); \
		done; \
	else \
		echo 'fuzz: found no nightly toolchain with cargo-fuzz; running a fixed number of inputs'; \
		cargo test --test fuzz; \
	fi

bench: release artifacts
	WINDLASS=target/release/windlass benches/run
	benches/peers/run
	cargo build --release --package windlass-bench
	benches/scale
	cargo bench --package windlass-bench
