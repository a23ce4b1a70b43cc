"""The house style, as a test. Every message names the file and what to do."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "penstock"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
STATEMENTS = sorted(PACKAGE.rglob("*.sql"))

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
VAGUE_FILES = {"base", "common", "helper", "helpers", "impl", "manager", "misc", "types", "util", "utils"}
VAGUE_SUFFIXES = ("Base", "Common", "Helper", "Impl", "Manager", "Misc", "Util", "Utils")
TESTED_ELSEWHERE = {
    "cli/*.py": "tests/cli runs the command",
    "cli/checkpoint/*.py": "tests/cli runs the command",
    "cli/demo/*.py": "tests/cli runs the demo",
    "cli/event_type/*.py": "tests/cli runs the command",
    "cli/spark/*.py": "tests/cli runs the command",
    "cli/subscription/*.py": "tests/cli runs the command",
    "client/connection.py": "tests/client stores cursors through it on both databases",
    "client/asking.py": "tests/faults has it ask a hub, and loses what it asks",
    "client/*idempotent_producer.py": "tests/faults plays the whole fault matrix with it",
    "client/lanes.py": "tests/faults plays the whole fault matrix with it",
    "client/*consumer.py": "tests/client runs consumers against hubs, and kills these",
    "client/*subscription_stream.py": "tests/client iterates over streams of hubs",
    "client/cancel.py": "it is protocols",
    "client/hub_protocol.py": "it hands on, and the clients' own tests are of it",
    "client/replay.py": "tests/cli publishes files with it, and kills it",
    "client/positions.py": "tests/client runs it on both databases",
    "errors/*.py": "tests/test_errors.py is about all of them",
    "hub/stream_parts.py": "it is what streams are made with, whose own tests have it",
    "hub/reasons.py": "it is texts, which the tests of streams and the docs have",
    "outbox/django/**/*.py": "tests/outbox runs it in a Django that is set up",
    "processing/checkpoints/*.py": "tests/processing holds all checkpoints to what they promise",
    "processing/engine/*.py": "the engine's own tests, and tests/processing, have them: they are what it is made of",
    "processing/targets/hub.py": "tests/processing copies a feed with it, and kills it",
    "processing/targets/messagedb.py": "tests/processing copies to a MessageDB with it",
    "processing/targets/origins.py": "tests/processing copies and reacts with it, among lost answers",
    "processing/targets/target.py": "it is a protocol, and what it says",
    "processing/reacting.py": "tests/processing publishes to a hub with it, among lost answers",
    "processing/*/source.py": "it is a protocol",
    "processing/*/checkpoint.py": "it is a protocol",
    "processing/sources/exchanges.py": "tests/processing reads a hub's feeds with it",
    "processing/sources/feed*.py": "tests/processing reads a hub's feeds with it",
    "processing/group_calls.py": "tests/processing has handlers of many streams fail in it",
    "processing/projections/*.py": "tests/processing holds projections to the fold of their events",
    "processing/sharing.py": "tests/processing has processors share their work, and kills them",
    "processing/together.py": "tests/processing has handlers of many streams, and transactions, on both databases",
    "spark/projections/*.py": "tests/spark holds it to what the same projection makes in process",
    "spark/processors/*.py": "tests/spark runs processors with it",
    "spark/processors/sources/*.py": "tests/spark runs processors with it",
    "processing/sources/inflow.py": "tests/processing reads a hub's subscriptions with it",
    "processing/sources/subscri*.py": "tests/processing reads a hub's subscriptions with it",
    "processing/runners/*.py": "it is a part of the local runner, whose own tests have it",
    "server/*.py": "tests/server and tests/conformance ask a hub over HTTP",
    "spark/connection.py": "tests/spark reads with it",
    "spark/direct_rows.py": "tests/spark publishes with it",
    "spark/http.py": "tests/spark reads with it",
    "spark/messagedb/database.py": "tests/spark reads a MessageDB with it",
    "spark/messagedb/tasks.py": "tests/spark reads a MessageDB with it",
    "spark/naming.py": "tests/spark publishes with it",
    "spark/pipelines/feed.py": "tests/spark forwards and imports with it",
    "spark/pipelines/files.py": "tests/spark imports files with it",
    "spark/pipelines/formats.py": "tests/cli asks for one that is not there",
    "spark/pipelines/forwarding.py": "tests/spark forwards with it",
    "spark/pipelines/importing.py": "tests/spark imports with it",
    "spark/pipelines/kafka.py": "tests/spark goes to a real Kafka and back with it",
    "spark/pipelines/lake.py": "tests/spark fills lakes with it",
    "spark/pipelines/records.py": "tests/spark forwards with it",
    "spark/publishing.py": "tests/spark publishes with it",
    "spark/sink.py": "tests/spark publishes with it",
    "spark/tasks.py": "tests/spark reads with it",
    "spark/traversals/numbering.py": "tests/spark has Spark number rows",
    "spark/traversals/query.py": "tests/spark runs it",
    "spark/zeroeventhub/gathering.py": "tests/spark reads feeds of servers with it",
    "spark/zeroeventhub/intake.py": "tests/spark reads feeds of servers with it",
    "spark/zeroeventhub/reading.py": "tests/spark reads feeds of servers with it",
    "spark/zeroeventhub/remote.py": "tests/spark reads feeds of servers with it",
    "spark/zeroeventhub/tasks.py": "tests/spark reads feeds of servers with it",
    "storage/**/feeds.py": "tests/stores holds both databases to one contract",
    "core/choices.py": "it names choices, which the fields of definitions are tested with",
    "storage/group_rows.py": "tests/stores holds both databases to one contract",
    "storage/opening.py": "it is the contract, which tests/stores runs",
    "storage/postgres/opening.py": "tests/stores/test_postgres_is_asked_once_before_an_append.py asks a database",
    "storage/groups.py": "it is the contract, which tests/stores runs",
    "storage/parked.py": "it is the contract, which tests/stores runs",
    "storage/parked_rows.py": "tests/stores holds both databases to one contract",
    "storage/positions.py": "tests/stores holds both databases to one contract",
    "storage/schemas.py": "tests/stores holds both databases to one contract",
    "storage/*/rejected.py": "tests/stores holds both databases to one contract",
    "storage/staging.py": "it is the contract, which tests/stores runs",
    "storage/staging_rows.py": "tests/stores holds both databases to one contract",
    "storage/postgres/staging.py": "tests/stores holds both databases to one contract",
    "hub/staged.py": "it names what the tests of the ledger and of staging have",
    "storage/settings.py": "tests/stores holds both databases to one contract",
    "storage/outbox.py": "it is the contract, which tests/stores runs",
    "storage/postgres/doctor.py": "tests/cli has it look at a database",
    "storage/postgres/events.py": "tests/stores holds both databases to one contract",
    "storage/postgres/producers.py": "tests/stores holds both databases to one contract",
    "storage/producer_rows.py": "tests/stores holds both databases to one contract",
    "storage/producers.py": "it is the contract, which tests/stores runs",
    "storage/store.py": "it is the contract, which tests/stores runs",
    "storage/subscription_rows.py": "tests/stores holds both databases to one contract",
    "storage/subscriptions.py": "it is the contract, which tests/stores runs",
    "testing/pgbouncer.py": "tests/stores runs one",
    "testing/store_contract/*.py": "it is made of tests, which tests/stores runs",
}
"""What has no unit test because it takes more than a file to try it, and where it is tried."""
BANNED_WORDS = {"topic", "bookmark"}  # See docs/glossary.md. `message` and `token` are also words of others' wires.


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def words(name: str) -> set[str]:
    spaced = "".join(f"_{c}" if c.isupper() else c for c in name)
    return set(spaced.lower().split("_"))


def definitions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node


def line_count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno
    return node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_file_is_tidy(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    wrong = []

    if text.count("\n") > FILE_LINES_MAX:
        wrong.append(f"is longer than {FILE_LINES_MAX} lines: split it by noun")
    if path.stem in VAGUE_FILES:
        wrong.append("has a name that says nothing: name it after what it holds")
    if text.strip() and not ast.get_docstring(tree):
        wrong.append("does not say in its first line what it is")
    for node in definitions(tree):
        if not isinstance(node, ast.ClassDef) and line_count(node) > FUNCTION_LINES_MAX:
            wrong.append(f"{node.name}: longer than {FUNCTION_LINES_MAX} lines")
        if node.name.endswith(VAGUE_SUFFIXES):
            wrong.append(f"{node.name}: ends in a word that says nothing")
        if found := words(node.name) & BANNED_WORDS:
            wrong.append(f"{node.name}: the glossary has another word for {found}")

    assert not wrong, "\n  ".join([relative(path), *wrong])


@pytest.mark.parametrize("path", STATEMENTS, ids=relative)
def test_sql_says_first_what_it_promises(path: Path) -> None:
    assert path.read_text().startswith("-- "), f"{relative(path)} does not begin with a comment that says what it does"


def test_every_unit_test_has_its_source() -> None:
    unit = ROOT / "tests" / "unit"
    strays = [
        relative(test)
        for test in unit.rglob("test_*.py")
        if not (PACKAGE / test.relative_to(unit).with_name(test.name[5:])).exists()
    ]
    assert not strays, f"tests/unit mirrors src/penstock, but these mirror nothing: {strays}"


def test_every_source_has_its_unit_test() -> None:
    untested = {
        source
        for source in PACKAGE.rglob("[!_]*.py")
        if not (ROOT / "tests" / "unit" / source.relative_to(PACKAGE)).with_name(f"test_{source.name}").exists()
    }
    elsewhere = {pattern: untested & set(PACKAGE.glob(pattern)) for pattern in TESTED_ELSEWHERE}

    missing = sorted(map(relative, untested - set().union(*elsewhere.values())))
    assert not missing, f"give them a test in tests/unit, or a line in TESTED_ELSEWHERE that says why not: {missing}"
    stale = [pattern for pattern, found in elsewhere.items() if not found]
    assert not stale, f"nothing is there, or all of it has its unit test: take {stale} out of TESTED_ELSEWHERE"


def test_import_rules_are_as_strict_as_the_tree_allows() -> None:
    rules = (ROOT / "pyproject.toml").read_text()
    awaited = set(re.findall(r'"penstock\.(\w+)\.\*\*"', rules)) | set(re.findall(r'"?\((\w+)\)(?= \||")', rules))
    there = sorted(name for name in awaited if (PACKAGE / name / "__init__.py").exists())
    assert not there, f"{there} exist: take away their parentheses and `.**` in [tool.importlinter]"
