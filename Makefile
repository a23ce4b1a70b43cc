# Every task of the project. `make` alone lists them.

PYTHON ?= python3
BIN := .venv/bin
PYTEST_ARGS ?=
# Whole files to each processor, in their order: those that take longest come first.
PARALLEL := -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
# Whose properties are looked at with examples of their own in each soak.
AT_LENGTH := $(addprefix tests/processing/test_,every_runner_keeps_its_promises.py others_go_on_while_some_fail.py \
	what_is_parked_is_handled_in_the_end.py those_who_share_keep_their_promises.py)

.DEFAULT_GOAL := help
.PHONY: help setup system demo test check lint bench soak test-cluster lock dist clean

help: ## list the tasks
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r task text; do \
		printf '  make %-13s %s\n' "$$task" "$$text"; done

setup: ## install the locked environment into .venv
	@scripts/setup-python $(PYTHON)

system: setup ## install Java, PostgreSQL, PgBouncer, nginx, Maven and npm from the system's packages, where missing; load Kafka, Delta and promtool; archive Spark's classes
	@scripts/setup-system java postgresql pgbouncer nginx maven npm
	@scripts/setup-jars
	@scripts/setup-promtool
	@scripts/setup-oldest-spark
	@scripts/setup-spark-archive

demo: setup ## publish a year of flights, stream them into a lake, tables and other feeds, look at the result
	@scripts/setup-system java
	$(BIN)/penstock demo --directory build/demo

test: setup system lint ## everything a change needs, as CI runs it
	$(BIN)/pytest $(PARALLEL) $(PYTEST_ARGS)

check: setup lint ## format, lint, types, imports and unit tests: under a minute
	$(BIN)/pytest -n auto src/penstock tests/unit tests/test_tidy.py tests/test_public_api.py $(PYTEST_ARGS)

lint: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: setup system ## run the benchmarks and write docs/benchmarks.md
	$(BIN)/python -m bench

soak: setup system ## the long tests: publishing without end, producers among faults, hundreds of kills, properties at length; an hour and a half
	$(BIN)/pytest -m soak --timeout 0 $(PYTEST_ARGS)
	$(BIN)/pytest --hypothesis-profile at-length --timeout 0 $(AT_LENGTH) $(PYTEST_ARGS)

test-cluster: setup system ## the tests on a Spark cluster of several processes
	$(BIN)/pytest -m cluster $(PYTEST_ARGS)

lock: setup ## bring the lock files up to date
	@scripts/lock

dist: setup ## build the source distribution and the wheel of `penstock-hub` into dist/
	rm -rf dist
	scripts/build-dist dist

clean: ## remove what was installed and built
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
