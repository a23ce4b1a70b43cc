# Every task of the project. `make` alone lists them.

PYTHON ?= python3
BIN := .venv/bin
PYTEST_ARGS ?=
# Such as --serve, which leaves the hub and its console serving.
DEMO_ARGS ?=
# One worker more than there are processors, since tests wait for processes, and at most 5. A worker takes whole files, in
# the order of tests/order.py: those that take longest come first.
WORKERS ?= $(shell n=$$(($$(getconf _NPROCESSORS_ONLN) + 1)); echo $$((n < 5 ? n : 5)))
# It collects the tests of a file when it runs them, so nobody knows beforehand how many there are, and what share is done.
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder -p tests.late_collection -o console_output_style=classic
# Two parts of the set-up at a time: they wait for the network, and for each other where they need to. Several tasks, as
# in `make clean test`, are done in their order.
ifeq ($(words $(MAKECMDGOALS)),1)
MAKEFLAGS += --jobs=2
endif
# Else each of the thousands of processes that tests start would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup system packages demo demo-secure test test-all check lint bench bench-peers lock docs dist clean

help: ## list the tasks
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r task text; do \
		printf '  make %-13s %s\n' "$$task" "$$text"; done

setup: ## install the locked environment into .venv, and the libraries of pages for browsers
	@scripts/setup-python $(PYTHON)
	@{ scripts/setup-assets console && scripts/setup-assets docs; } || echo "The hub runs without its pages for browsers: for these, run \`make setup\` again once npm can be used" >&2

system: setup packages ## install Java, PostgreSQL, PgBouncer, nginx, Chromium, Maven and npm from the system's packages, where missing; load Kafka, AsyncAPI's parser, CloudEvents' SDK and axe; archive Spark's classes
	@scripts/setup-spark-archive

packages:
	@scripts/setup-system java postgresql pgbouncer nginx chromium maven npm
	@scripts/setup-jars kafka-broker kafka-connector
	@scripts/setup-npm asyncapi cloudevents
	@scripts/setup-assets axe

demo: setup ## publish a year of flights, stream them into a lake, tables and other feeds, look at the result
	@scripts/setup-system java
	$(BIN)/penstock demo --directory build/demo $(DEMO_ARGS)

demo-secure: setup ## the same over HTTPS, with a token and rights for each process, and with what the hub refuses
	@scripts/setup-system java
	$(BIN)/penstock demo --secure --directory build/demo-secure $(DEMO_ARGS)

test: setup system lint ## everything a change needs, as CI runs it: about a quarter of an hour on two cores
	$(BIN)/pytest $(PARALLEL) $(PYTEST_ARGS)

test-all: setup system lint ## every test, with all cases, many examples, long runs and a Spark cluster; loads strace, Delta, the oldest PySpark, promtool and the benchmarks' peers
	@scripts/setup-system strace
	@scripts/setup-jars delta
	@scripts/setup-oldest-spark
	@scripts/setup-promtool
	@scripts/setup-peers
	$(BIN)/pytest -m "" --hypothesis-profile exhaustive --timeout 3600 $(PARALLEL) $(PYTEST_ARGS)

# It leaves out the unit tests of the demo and of `penstock.testing`, which load data and start processes.
check: setup lint ## format, lint, types, imports and unit tests: under 45 seconds
	$(BIN)/pytest $(PARALLEL) src/penstock tests/unit tests/test_tidy.py tests/test_public_api.py \
		--ignore tests/unit/demo --ignore tests/unit/testing $(PYTEST_ARGS)

lint: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: setup system ## run the benchmarks and write docs/benchmarks.md
	$(BIN)/python -m bench

bench-peers: setup system ## measure Redis, NATS, RabbitMQ, Kafka, nginx and bare databases beside Penstock, and write it into docs/: most of an hour
	@scripts/setup-peers
	$(BIN)/python -m bench.peers

lock: setup ## bring the lock files up to date
	@scripts/lock

docs: setup ## build the documentation site into build/docs; a broken link and a public name without a docstring are errors
	@scripts/setup-assets mermaid
	$(BIN)/sphinx-build --fresh-env --jobs auto --fail-on-warning --keep-going --quiet -c docs/site . build/docs
	@echo "The site is in build/docs: begin with build/docs/index.html"

dist: setup ## build the source distribution and the wheel of `penstock-hub` into dist/
	rm -rf dist
	scripts/build-dist dist

clean: ## remove what was installed and built
	rm -rf .venv build dist src/penstock/server/console/vendor src/penstock/server/docs/vendor .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
