"""`penstock new`: its projects pass their own tests, their types hold, and they run until they are stopped."""

import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from penstock.client import Client
from penstock.processing import DatabaseCheckpoints, InlineProcessor, Rules
from penstock.processing.sources import MemorySource
from penstock.testing.live_hub import LiveHub, live_hub
from tests.cli.command import Command, clean_environment
from tests.docs.examples import ROOT, blocks
from tests.forks import FORKS, PYTHON
from tests.plugin import PLUGIN

KINDS = ["projector", "reactor", "ingester", "forwarder"]
LIMIT_SECONDS = 300.0


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a new project of each kind."""
    directory = tmp_path_factory.mktemp("projects")
    penstock = Command(directory, clean_environment())
    for kind in KINDS:
        made = penstock("new", kind, f"some-{kind}")
        assert made.status == 0, made.err
        assert f"some_{kind}/{kind}.py" in made.out
    return directory


def run_module(*words: str, directory: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=directory,
        env=clean_environment() | environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_tests(*words: str, directory: Path, **environment: str) -> int:
    """Run pytest; return how many tests have passed, which is all."""
    options = ("-W", "error", "-p", "no:cacheprovider", *words)
    shown = run_module("pytest", *options, directory=directory, **environment).splitlines()[-1]
    assert not {"failed", "error", "skipped"} & {*shown.replace(",", "").split()}
    return int(shown.split(" passed")[0].split()[-1])


def test_tests_of_new_projects_pass(projects: Path) -> None:
    packages = os.pathsep.join([str(ROOT), *(str(projects / f"some-{kind}") for kind in KINDS)])
    files = sorted(projects.glob("*/tests/test_*.py"))
    assert len(files) == len(KINDS)

    count = sum(text.count("\ndef test_") for text in (file.read_text() for file in files))
    options = ("--import-mode=importlib", "-p", "tests.cli.forked_hubs", "-p", "penstock.testing.plugin")
    # To load the plugins of this environment takes two seconds.
    alone = {"PYTHONPATH": packages, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    assert run_tests(*options, directory=projects, **alone) >= count


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_tests_of_a_new_project_pass_by_its_own_configuration(projects: Path, kind: str) -> None:
    assert run_tests(*PLUGIN, directory=projects / f"some-{kind}") > 1


def test_style_of_new_projects_holds(projects: Path) -> None:
    run_module("ruff", "check", directory=projects)
    run_module("ruff", "format", "--check", directory=projects)


@pytest.mark.exhaustive
def test_types_of_new_projects_hold(projects: Path) -> None:
    sources = [f"some-{kind}/{package}" for kind in KINDS for package in (f"some_{kind}", "tests")]
    path = os.pathsep.join(map(str, (*projects.iterdir(), ROOT / "src")))
    options = ("--follow-imports", "silent", "--explicit-package-bases", "--config-file", "some-reactor/pyproject.toml")
    run_module("mypy", *options, "--cache-dir", "mypy", *sources, directory=projects, MYPYPATH=path)


PROJECTED = """
import sys
from penstock.processing import InlineProcessor
from penstock.processing.sources import MemorySource
from some_projector.projector import Projector

source = MemorySource()
for number in range(30):
    source.append(f"customer-{number % 3}", [{"cents": 100}])
for url in sys.argv[1:]:
    projector = Projector(url)
    projector.create()
    projector.create()
    for _ in range(2):
        InlineProcessor(projector, source).drain()
    print({name: (found.orders, found.cents) for name, found in projector.totals().items()})
"""


def test_new_projector_keeps_its_table_in_either_database(projects: Path, sqlite_url: str, postgres_url: str) -> None:
    command = [PYTHON, "-c", PROJECTED, sqlite_url, postgres_url]
    with closing(
        FORKS.with_pipes(command, projects / "some-projector", clean_environment(), has_input=False)
    ) as forked:
        shown, errors = (each.decode() for each in forked.communicate())

    assert forked.returncode == 0, errors
    assert shown == 2 * f"{ {f'customer-{number}': (10, 1000) for number in range(3)} }\n"


# Making


def test_command_line_page_shows_the_output_of_new(penstock: Command) -> None:
    [shown] = [
        block.text
        for block in blocks(ROOT / "docs" / "reference" / "cli" / "spark.md")
        if block.text.startswith("$ penstock new")
    ]
    command, _, says = shown.partition("\n")

    assert penstock(*command.split()[2:]).out == says


def test_new_overwrites_nothing(penstock: Command, tmp_path: Path) -> None:
    assert penstock("new", "reactor", "some-reactor").status == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = penstock("new", "reactor", "some-reactor")

    assert again.status == 1
    assert "is not empty, and nothing was written" in again.err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("directory", "says"),
    [
        ("2026", "'2026' does not give a name for a Python package"),
        ("class", "'class' does not give a name for a Python package"),
        ("json", "a package 'json' would stand in the way of another one"),
        ("test", "a package 'test' would stand in the way of another one"),
        ("msgspec", "a package 'msgspec' would stand in the way of another one"),
        ("Penstock", "a package 'penstock' would stand in the way of another one"),
        ("a" * 300, "aaa cannot be used: File name too long"),
    ],
)
def test_unusable_project_name_is_refused(penstock: Command, directory: str, says: str, tmp_path: Path) -> None:
    refused = penstock("new", "projector", directory)

    assert (refused.status, refused.out) == (2, "")
    assert says in refused.err
    assert [*tmp_path.iterdir()] == []


def test_new_takes_an_empty_directory_and_no_file(penstock: Command, tmp_path: Path) -> None:
    (tmp_path / "Orders 2 CRM").mkdir()
    (tmp_path / "file").write_text("")
    made = penstock("new", "forwarder", "Orders 2 CRM")
    of_file, below_file = (penstock("new", "forwarder", name) for name in ("file", "file/below"))

    assert made.status == 0
    assert (tmp_path / "Orders 2 CRM" / "orders_2_crm" / "forwarder.py").exists()
    assert 'name = "orders-2-crm"' in (tmp_path / "Orders 2 CRM" / "pyproject.toml").read_text()
    assert "cd 'Orders 2 CRM'" in made.out
    assert (of_file.status, below_file.status) == (1, 1)
    assert "file is a file" in of_file.err
    assert "cannot be written: Not a directory" in below_file.err


# Running


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LiveHub]:
    """A hub with the event types of all projects, made as their READMEs say, and five orders."""
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub:
        penstock = Command(tmp_path, clean_environment()).at(hub.url)
        for line in dict.fromkeys(each for kind in KINDS for each in commands(kind, "penstock event-type create ")):
            run_command(penstock, line)
        [line] = {each for kind in KINDS for each in commands(kind, "echo ")}
        order, _, command = line.partition(" | ")
        run_command(penstock, command, stdin=5 * f"{shlex.split(order)[1]}\n")
        yield hub


def commands(kind: str, beginning: str) -> list[str]:
    """Return the commands of a kind's README that begin so."""
    text = (ROOT / "src/penstock/cli/templates" / kind / "README.md.template").read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.strip().startswith(beginning)]


def run_command(penstock: Command, command: str, stdin: str = "") -> None:
    """Run a command of a README."""
    name, *words = shlex.split(command)
    assert name == "penstock"
    done = penstock(*words, stdin=stdin)
    assert done.status == 0, done.err


class Endpoint(BaseHTTPRequestHandler):
    """Counts what is sent to it."""

    count = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        type(self).count += 1
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


def test_new_projects_run_until_sigterm_and_report_a_missing_or_other_feed(projects: Path, hub: LiveHub) -> None:
    (projects / "records.json").write_text('[{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}, {"id": 5}]')
    database = projects / "some-projector" / "some_projector.db"
    with (
        Client(hub.url) as client,
        HTTPServer(("127.0.0.1", 0), Endpoint) as server,
        ExitStack() as running,
    ):

        def published(event_type: str) -> int:
            feed = client.feed(event_type)
            return len(feed.read(feed.cursors()).events)

        def projected() -> int:
            with suppress(sqlite3.OperationalError), closing(sqlite3.connect(database)) as connection:
                return int(connection.execute("SELECT COALESCE(SUM(orders), 0) FROM customer_orders").fetchone()[0])
            return 0

        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        words: dict[str, tuple[list[str], Callable[[], int]]] = {
            "projector": ([], projected),
            "reactor": ([], lambda: published("invoice.requested")),
            "ingester": ([(projects / "records.json").as_uri()], lambda: published("catalog.changed")),
            "forwarder": ([url], lambda: Endpoint.count),
        }
        for kind, (arguments, count) in words.items():
            running.enter_context(stopped_when(lambda count=count: count() == 5, projects, kind, *arguments, hub=hub))
        running.close()
        server.shutdown()

        groups = {group.name: group.gap for group in client.consumer_groups()}
        assert groups["some-reactor"] == 0
        definition = client.event_type("order.taken")
        client.delete_event_type("order.taken")
        for kind, arguments in (("projector", []), ("reactor", []), ("forwarder", ["http://localhost:1/"])):
            assert "'order.taken'" in last_words(projects, kind, *arguments, hub=hub.url)
        client.create_event_type(
            "order.taken", category=definition["category"], partition_key_fields=definition["partition_key_fields"]
        )
        assert "is another feed than this processor has read" in last_words(projects, "projector", hub=hub.url)


def stopped_when(is_done: Callable[[], bool], projects: Path, kind: str, *words: str, hub: LiveHub) -> ExitStack:
    """Start a package; at the end of the block wait until *is_done*, stop the package and look at its exit code."""
    command = [PYTHON, "-m", f"some_{kind}", *words, "--hub", hub.url]
    process = FORKS.with_pipes(command, projects / f"some-{kind}", clean_environment(), has_input=False)

    def stop() -> None:
        with closing(process):
            deadline = time.monotonic() + LIMIT_SECONDS
            while not is_done() and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT_SECONDS) == 0, process.stderr and process.stderr.read()
            assert is_done()

    stack = ExitStack()
    stack.callback(stop)
    return stack


def last_words(projects: Path, kind: str, *words: str, hub: str = "http://localhost:1", status: int = 1) -> str:
    """Return the errors of a package that ends by itself, without a traceback."""
    environment = clean_environment() | {"PENSTOCK_URL": hub}
    command = [PYTHON, "-m", f"some_{kind}", *words]
    with closing(FORKS.with_pipes(command, projects / f"some-{kind}", environment, has_input=False)) as ended:
        errors = ended.communicate()[1].decode()

    assert ended.returncode == status
    assert "Traceback" not in errors
    assert status != 1 or f"some-{kind}: " in errors
    return errors


def test_new_project_names_an_unusable_database_or_address(projects: Path) -> None:
    assert "port 1 failed" in last_words(projects, "projector", "--database", "postgresql://localhost:1/x")
    assert "there is no directory" in last_words(projects, "projector", "--database", "sqlite:///nowhere/x.db")
    assert "allowed: sqlite:///FILE, postgresql://…" in last_words(projects, "projector", "--database", "x.db")
    says = "'products.json' is no address: it begins with http://, https://, file:/; a file would be "
    path = (projects / "some-ingester").as_uri()
    assert f"{says}{path}/products.json" in " ".join(
        last_words(projects, "ingester", "products.json", status=2).split()
    )


def test_parked_keys_of_the_forwarder_are_shown_and_retried_as_its_readme_says(
    penstock: Command, tmp_path: Path
) -> None:
    def refuse(stream: str, events: object) -> None:
        raise ValueError("refused")

    [shown] = [line.partition("` ")[0].strip("`") for line in commands("forwarder", "`penstock groups parked list ")]
    shown = shown.replace("$project", "some-forwarder").replace("$package", "some_forwarder")
    checkpoints = DatabaseCheckpoints(f"sqlite:///{tmp_path}/some_forwarder.db", "some-forwarder")
    source = MemorySource()
    source.append("Ada", [1])
    rules = Rules(attempts_max=1, exhausted="park")
    InlineProcessor(refuse, source, checkpoints=checkpoints, rules=rules).drain(advance=True)

    assert "ValueError: refused" in penstock(*shown.split()[1:]).out
    assert penstock(*shown.replace("parked list", "parked retry").split()[1:], "Ada").status == 0
    assert [*checkpoints.requests().values()] == ["retry"]
