"""What `penstock new` makes passes its own tests, its types hold, and it runs until it is told to stop."""

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from penstock.client import Client
from penstock.processing import DatabaseCheckpoints, Inline, MemorySource, Rules
from penstock.testing.live_hub import LiveHub, live_hub
from tests.cli.command import Command, clean_environment
from tests.docs.examples import ROOT, blocks
from tests.plugin import PLUGIN

KINDS = ["projector", "reactor", "ingester", "forwarder"]
SOON_S = 300.0


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def project(penstock: Command, kind: str, tmp_path: Path) -> Path:
    """A project that was just made."""
    made = penstock("new", kind, f"some-{kind}")
    assert made.status == 0, made.err
    assert f"some_{kind}/{kind}.py" in made.out
    return tmp_path / f"some-{kind}"


def ran(*words: str, directory: Path) -> str:
    environment = clean_environment() | {"MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=directory, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_own_tests_pass(project: Path) -> None:
    shown = ran("pytest", *PLUGIN, "-W", "error", "-p", "no:cacheprovider", directory=project)

    assert " passed" in shown
    assert not {"failed", "error", "skipped"} & {*shown.replace(",", "").split()}


def test_its_style_and_its_types_hold(project: Path, kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    cache = tmp_path_factory.getbasetemp() / "mypy"  # What is known of Penstock itself serves all four.
    ran("ruff", "check", directory=project)
    ran("ruff", "format", "--check", directory=project)
    ran("mypy", "--follow-imports", "silent", "--cache-dir", str(cache), f"some_{kind}", "tests", directory=project)


PROJECTED = """
import sys
from penstock.processing import Inline, MemorySource
from some_projector.projector import Projector

source, projector = MemorySource(), Projector(sys.argv[1])
for number in range(30):
    source.append(f"customer-{number % 3}", [{"cents": 100}])
projector.create()
projector.create()
for _ in range(2):
    Inline(projector, source).drain()
print({name: (found.orders, found.cents) for name, found in projector.totals().items()})
"""


@pytest.mark.parametrize("kind", ["projector"], indirect=True)
def test_a_projector_keeps_its_table_in_either_database(project: Path, database_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROJECTED, database_url], cwd=project, check=True, capture_output=True, text=True
    )

    assert done.stdout == f"{ {f'customer-{number}': (10, 1000) for number in range(3)} }\n"


def test_the_command_line_page_shows_what_it_says(penstock: Command) -> None:
    [shown] = [block.text for block in blocks(ROOT / "docs" / "cli.md") if block.text.startswith("$ penstock new")]
    command, _, says = shown.partition("\n")

    assert penstock(*command.split()[2:]).out == says


def test_what_was_there_stays(penstock: Command, project: Path, kind: str) -> None:
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    again = penstock("new", kind, project.name)

    assert again.status == 1
    assert "is not empty, and nothing was written" in again.err
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("kind", ["projector"], indirect=True)
@pytest.mark.parametrize(
    ("directory", "said"),
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
def test_names_that_cannot_be_are_refused(
    penstock: Command, kind: str, directory: str, said: str, tmp_path: Path
) -> None:
    refused = penstock("new", kind, directory)

    assert (refused.status, refused.out) == (2, "")
    assert said in refused.err
    assert [*tmp_path.iterdir()] == []


def test_a_directory_that_is_there_and_empty_will_do_and_a_file_will_not(penstock: Command, tmp_path: Path) -> None:
    (tmp_path / "Orders 2 CRM").mkdir()
    (tmp_path / "file").write_text("")
    made, refused = penstock("new", "forwarder", "Orders 2 CRM"), penstock("new", "forwarder", "file")

    assert made.status == 0
    assert (tmp_path / "Orders 2 CRM" / "orders_2_crm" / "forwarder.py").exists()
    assert 'name = "orders-2-crm"' in (tmp_path / "Orders 2 CRM" / "pyproject.toml").read_text()
    assert "cd 'Orders 2 CRM'" in made.out
    assert refused.status == 1
    assert "file is a file" in refused.err
    refused = penstock("new", "forwarder", "file/below")
    assert refused.status == 1
    assert "cannot be written: Not a directory" in refused.err


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LiveHub]:
    """A hub with the event types of all projects, made as their READMEs say, and five orders."""
    with live_hub(f"sqlite:///{tmp_path}/hub.db") as hub:
        for line in dict.fromkeys(each for kind in KINDS for each in commands(kind, "penstock event-type create ")):
            at_hub(line, hub)
        [order] = {each for kind in KINDS for each in commands(kind, "echo ")}
        at_hub(order.replace("echo ", "yes ").replace(" | ", " | head -n 5 | "), hub)
        yield hub


def commands(kind: str, beginning: str) -> list[str]:
    """Return the commands of a kind's README that begin so."""
    text = (ROOT / "src/penstock/cli/templates" / kind / "README.md.template").read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.strip().startswith(beginning)]


def at_hub(command: str, hub: LiveHub) -> None:
    """Carry out a command of a README."""
    command = command.replace("penstock ", f"{sys.executable} -m penstock ")
    environment = clean_environment() | {"PENSTOCK_URL": hub.url}
    done = subprocess.run(["bash", "-c", command], env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Endpoint(BaseHTTPRequestHandler):
    """Takes whatever is sent to it."""

    taken = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        type(self).taken += 1
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


def test_it_runs_until_it_is_told_to_stop(project: Path, kind: str, hub: LiveHub) -> None:
    def published(event_type: str) -> int:
        with Client(hub.url) as client:
            feed = client.feed(event_type)
            return len(feed.read(feed.cursors()).events)

    def projected() -> int:
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(project / "some_projector.db")) as connection:
            return int(connection.execute("SELECT COALESCE(SUM(orders), 0) FROM customer_orders").fetchone()[0])
        return 0

    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (project / "records.json").write_text('[{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}, {"id": 5}]')
        Endpoint.taken = 0
        words, count = {
            "projector": ([], projected),
            "reactor": ([], lambda: published("invoice.requested")),
            "ingester": ([(project / "records.json").as_uri()], lambda: published("catalog.changed")),
            "forwarder": ([f"http://127.0.0.1:{server.server_port}/"], lambda: Endpoint.taken),
        }[kind]
        run_until(lambda: count() == 5, project, f"some_{kind}", *words, "--hub", hub.url)
        server.shutdown()
    with Client(hub.url) as client:
        if kind == "reactor":
            assert [(group.name, group.gap) for group in client.consumer_groups()] == [("some-reactor", 0)]
        if kind == "projector":
            create_again(client, "order.taken")
            assert "is another feed than this processor has read" in told_at_its_end(project, hub=hub.url)


def create_again(client: Client, event_type: str) -> None:
    definition = client.event_type(event_type)
    client.delete_event_type(event_type)
    client.create_event_type(
        event_type, category=definition["category"], partition_key_fields=definition["partition_key_fields"]
    )


def run_until(is_done: Callable[[], bool], directory: Path, *words: str) -> None:
    """Run a package until something has come of it, and tell it to stop."""
    command = [sys.executable, "-W", "error", "-m", *words]
    with subprocess.Popen(
        command, cwd=directory, env=clean_environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + SOON_S
        while not is_done() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON_S) == 0, process.stderr and process.stderr.read()
        assert is_done()


def told_at_its_end(project: Path, *words: str, hub: str = "http://localhost:1") -> str:
    """Return what a package says when it ends by itself, which is no traceback."""
    ended = subprocess.run(
        [sys.executable, "-m", project.name.replace("-", "_"), *words],
        cwd=project,
        env=clean_environment() | {"PENSTOCK_URL": hub},
        check=False,
        capture_output=True,
        text=True,
        timeout=SOON_S,
    )

    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert f"{project.name}: " in ended.stderr
    return ended.stderr


@pytest.mark.parametrize("kind", ["projector", "reactor", "forwarder"], indirect=True)
def test_what_ends_it_is_told(project: Path, kind: str, hub: LiveHub) -> None:
    with Client(hub.url) as client:
        client.delete_event_type("order.taken")

    words = ["http://localhost:1/"] if kind == "forwarder" else []
    assert "'order.taken'" in told_at_its_end(project, *words, hub=hub.url)


@pytest.mark.parametrize("kind", ["projector"], indirect=True)
def test_a_database_that_cannot_be_opened_is_told(project: Path) -> None:
    assert "port 1 failed" in told_at_its_end(project, "--database", "postgresql://localhost:1/x")
    assert "there is no directory" in told_at_its_end(project, "--database", "sqlite:///nowhere/x.db")
    assert "allowed: sqlite:///FILE, postgresql://…" in told_at_its_end(project, "--database", "x.db")


@pytest.mark.parametrize("kind", ["ingester"], indirect=True)
def test_where_records_are_is_an_address(project: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "some_ingester", "products.json"],
        cwd=project,
        env=clean_environment(),
        check=False,
        capture_output=True,
        text=True,
        timeout=SOON_S,
    )

    assert ended.returncode == 2
    told = "'products.json' is no address: it begins with http://, https://, file:/; a file would be "
    assert f"{told}{project.as_uri()}/products.json" in " ".join(ended.stderr.split())


def test_what_the_forwarder_has_parked_is_shown_and_tried_again_as_its_readme_says(tmp_path: Path) -> None:
    def refuse(stream: str, events: object) -> None:
        raise ValueError("refused")

    [shown] = [line.partition("` ")[0].strip("`") for line in commands("forwarder", "`penstock checkpoint parked ")]
    shown = shown.replace("$project", "some-forwarder").replace("$package", "some_forwarder")
    source, checkpoints = (
        MemorySource(),
        DatabaseCheckpoints(f"sqlite:///{tmp_path}/some_forwarder.db", "some-forwarder"),
    )
    source.append("Ada", [1])
    rules = Rules(attempts_max=1, exhausted="park")
    Inline(refuse, source, checkpoints=checkpoints, rules=rules).drain(advance=True)

    penstock = Command(tmp_path, clean_environment())
    assert "ValueError: refused" in penstock(*shown.split()[1:]).out
    assert penstock(*shown.replace("parked", "retry").split()[1:], "Ada").status == 0
    assert [*checkpoints.requests().values()] == ["retry"]
