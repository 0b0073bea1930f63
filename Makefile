# The verbs of this repository; `make help` lists them. Each sets up what it needs in .venv by itself.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup proto lint test test-all demo bench java
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
BIN := .venv/bin
PROTOS := $(wildcard proto/krift/v1/*.proto)
INSTALLED := .venv/installed
GENERATED := .venv/generated

# Loopback only. Ray stores a token on first use and some of its processes then demand it of others that have none;
# so the mode is always said.
export RAY_AUTH_MODE := disabled
export SPARK_LOCAL_IP := 127.0.0.1
export RAY_USAGE_STATS_ENABLED := 0

# The tests start hundreds of processes, and each would compile all of Krift again.
export PYTHONDONTWRITEBYTECODE :=

help: ## list the verbs
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: java $(GENERATED) ## a virtual environment in .venv with Krift and its tools
	@echo "Ready: $(BIN)/krift"

proto: $(GENERATED) ## generate krift from proto/ and orchestrator/api
	@:

lint: quick types ## format, lint, types, layers and wire
	@:

.PHONY: quick types
quick: $(GENERATED)
	@echo "ruff"; $(BIN)/ruff check --quiet .; $(BIN)/ruff format --quiet --check . || { echo "not formatted: run $(BIN)/ruff format ." >&2; exit 1; }
	@echo "import-linter"; $(BIN)/lint-imports --no-logo > .venv/lint-imports.log || { cat .venv/lint-imports.log; exit 1; }
	@echo "buf"; $(BIN)/buf lint proto
	@echo "codespell"; git ls-files -z | xargs -0 $(BIN)/codespell

types: $(GENERATED)
	@echo "mypy"; $(BIN)/mypy --no-error-summary; $(BIN)/mypy --no-error-summary -p krift

# First the tests that need neither Ray nor Spark; then those that do, file by file, each of the two workers with at most
# one Ray cluster and one JVM at a time, as a third would leave live nodes too little time. What is left of the cores goes
# to mypy and to tests that can wait. pytest says 5 where PYTEST_ARGS leaves no test to run.
test: java quick ## everything that a change must pass
	@none=0; ended() { [ $$1 -ne 5 ] || none=$$((none + 1)); [ $$1 -eq 0 ] || [ $$1 -eq 5 ] || exit $$1; }; \
	code=0; $(BIN)/pytest -n 2 --dist loadgroup -m "not ray and not spark and not unhurried" $(PYTEST_ARGS) || code=$$?; ended $$code; \
	set -m; nice -n 19 $(MAKE) -j2 --output-sync=target types unhurried > .venv/unhurried.log 2>&1 & beside=$$!; set +m; \
	trap 'kill -- -$$beside 2> /dev/null || true' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; \
	code=0; $(BIN)/pytest -n 2 --dist loadfile -m "ray or spark" $(PYTEST_ARGS) || code=$$?; ended $$code; \
	code=0; wait $$beside || code=$$?; cat .venv/unhurried.log; ended $$code; ended "$$(cat .venv/unhurried.code)"; [ $$none -lt 3 ]

.PHONY: unhurried
unhurried: $(GENERATED)
	@code=0; $(BIN)/pytest --timeout $(LONGEST) -n 2 --dist loadgroup -m unhurried $(PYTEST_ARGS) || code=$$?; echo $$code > .venv/unhurried.code

# How far the tests look that can look as far as one likes; CONTRIBUTING.md says what the names mean.
FURTHER := KRIFT_SEEDS=50 KRIFT_KILLS=30 KRIFT_KILL_SEEDS=100 KRIFT_SMOKE=50 KRIFT_FINDINGS=30 KRIFT_PARITY_SEEDS=5
# What one of them may take, in seconds; beside others, or with a seed of its own, it may need longer than the usual 120.
LONGEST := 600

# Tests of live clusters one after the other, as one cluster beside another leaves both too little time. What is left of the
# cores goes to the sim's seeds.
test-all: test ## test, and what takes longer: a browser, the real Kafka beside Krift, and more seeds
	@set -m; nice -n 19 $(MAKE) seeds > .venv/seeds.log 2>&1 & beside=$$!; set +m; \
	trap 'kill -- -$$beside 2> /dev/null || true' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; \
	echo "seeds: beside all that follows, into .venv/seeds.log"; \
	echo "long"; $(BIN)/pytest -n 1 --dist loadfile -m "long and not alone"; \
	RAY_AUTH_MODE=token $(BIN)/pytest -n 0 -m "long and alone" tests/integration/test_outsiders.py; \
	echo "pages in a browser"; $(BIN)/python -m tests.browser.chromium; $(BIN)/pytest -n 0 -m browser tests/browser; \
	echo "the real Kafka"; $(BIN)/pytest -n 0 -m real_kafka tests/real_kafka; \
	echo "live kills"; $(FURTHER) $(BIN)/pytest -n 0 tests/integration/test_live_kills.py; \
	code=0; wait $$beside || code=$$?; cat .venv/seeds.log; exit $$code

.PHONY: seeds
seeds: $(GENERATED)
	@echo "further"; $(BIN)/pytest --timeout $(LONGEST) -n 2 --dist loadgroup -m further
	@echo "$(FURTHER)"
	@$(FURTHER) $(BIN)/pytest --timeout $(LONGEST) -n 2 -m "not ray and not spark" tests/property/test_nemeses.py \
	tests/property/test_determinism.py tests/integration/test_kills.py tests/scenario/test_findings.py tests/parity/test_parity.py
	@echo "KRIFT_RANDOM=1"; KRIFT_RANDOM=1 $(BIN)/pytest --timeout $(LONGEST) -n 2 -m "not ray and not spark" tests/property

demo: java $(GENERATED) ## KIP-207 on a live cluster: the incident without it, and its absence with it
	@$(BIN)/krift run kip-207 --runtime live --variant off --variant seed

bench: java $(GENERATED) ## the figures in docs, measured here beside their yardsticks
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -nE '1s/.*version "([0-9]+).*/\1/p' || true); \
	[ "$${version:-0}" -ge 17 ] || { echo "Krift needs Java 17 or newer for Spark; found: $${version:-none}. Install one, or set JAVA_HOME." >&2; exit 1; }

# Not compiled: that takes two fifths of the installation, and Python compiles the few modules that it imports.
$(INSTALLED): pyproject.toml constraints.txt hatch_build.py
	@command -v $(PYTHON) >/dev/null && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "Krift needs Python 3.11 or newer as $(PYTHON); set PYTHON=/path/to/python3.11 if it has another name." >&2; exit 1; }
	@echo "Installing into .venv (once; a few minutes)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(GENERATED): $(INSTALLED) $(PROTOS) hatch_build.py generate_messages.py proto_sources.py orchestrator/api/__init__.py
	@$(BIN)/python hatch_build.py
	@touch $@
