"""`penstock demo` on the first flights of the year: after each way of stopping it, to its end, and again; secured.

`tests/spark/test_commands.py` runs it to its end in a session of Spark that others have warmed up.
"""

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile

import httpx2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cli.failures import CommandFailure
from penstock.client import Client
from penstock.core.events.event import NewEvent
from penstock.errors import PenstockError
from penstock_demo.access import CALLERS, OPERATOR, PIPELINE, HubAccess
from penstock_demo.daily import DAILY
from penstock_demo.dataset import Series, definition_of
from penstock_demo.filling import create_missing, stored_counts
from tests.cli.command import PENSTOCK, Command, Result
from tests.cli.demo import DEPARTED, counted, gaps, left_running, mark
from tests.forks import Fork

ROWS = 40_000
OTHERS = 16 + 1458 + 3322 + 26_115


@pytest.fixture
def marked(penstock: Command) -> Command:
    return mark(penstock)


def stop_when(marked: Command, is_time: Callable[[Path], bool], number: int, *, rows: int = ROWS) -> Fork:
    """Run the demo until *is_time*, send it the signal *number*, and wait until it has ended."""
    with marked.start("demo", "--directory", "demo", "--rows", rows) as demo:
        while not is_time(marked.directory / "demo"):
            assert demo.poll() is None, demo.stderr and demo.stderr.read()
            time.sleep(0.05)
        demo.send_signal(number)
        demo.wait(60)
    return demo


def stored(directory: Path) -> int:
    """Return how many departures the feed holds, by the hub that the demo has started."""
    log = directory / "hub.log"
    if not log.exists():
        return 0
    for line in log.read_text().splitlines():
        said = json.loads(line) if line.endswith("}") else {}
        if said.get("event") == "serving":
            try:
                with Client(said["url"], retry_timeout=0) as client:
                    return sum(partition.head for partition in client.partitions(DEPARTED))
            except PenstockError:
                return 0
    return 0


def checks(printed: str) -> list[str]:
    """Return what the demo says of how much there is, each once."""
    return [line for line in printed.splitlines() if "each once" in line]


def lake_files(directory: Path) -> set[str]:
    return {str(path) for path in (directory / "lake").rglob("*.parquet")}


@pytest.mark.exhaustive
def test_demo_that_was_stopped_continues_and_publishes_nothing_twice(marked: Command) -> None:
    directory = marked.directory / "demo"

    interrupted = stop_when(marked, lambda at: stored(at) > 0, signal.SIGINT)
    assert interrupted.returncode != 0
    assert left_running(marked) == []

    killed = stop_when(marked, lambda at: stored(at) > 0, signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL

    begun = Path("checkpoints", "delays.daily", "offsets", "0")  # Its first micro-batch.
    ended = stop_when(marked, lambda at: (at / begun).exists(), signal.SIGTERM)
    assert ended.returncode != 0
    assert left_running(marked) == []

    finished = marked("demo", "--directory", "demo", "--rows", ROWS)
    assert finished.status == 0, finished.err
    assert left_running(marked) == []
    total = f"{ROWS + OTHERS:,}".replace(",", " ")
    assert f"All {total} events are in their feeds already" in finished.err
    assert f"{total} rows in, {total} rows out, each once" in finished.out
    assert "the last of each is what the lake adds up to" in finished.out
    assert gaps(finished.out) == {"delays:daily": 0, "lake:flights": 0}
    assert "ExpressJet Airlines Inc." in finished.out
    said = " ".join(finished.out.split())
    assert re.search(r"[1-9][\d ]* flags of [1-9][\d ]* aircraft in aircraft.flagged, each once", said)
    assert re.search(r"stopped with 20 000 flights in its rows, and 10 000 more .* folded the 20 000 that", said)
    handled = r"with [\d ]+ flights handled, and [1-9]\d* flags? that were published and not noted"
    nothing = r"before it had noted any flight down as handled; it had published [1-9]\d* flags? by then"
    assert re.search(rf"killed ({handled}|{nothing})", said)
    assert f"flagging --database sqlite:///{directory.name}/flagging.db" in finished.out
    assert counted(directory) == ROWS
    assert (directory / "delays.png").read_bytes().startswith(b"\x89PNG")
    events = pq.read_table(directory / "lake" / f"event_type={DEPARTED}")["data"].combine_chunks()
    ids = events.field("metadata").field("eid")
    assert len(ids) == len(ids.unique()) == ROWS

    files = lake_files(directory)
    again = served_again(marked)
    assert again.status == 0, again.err
    assert checks(again.out) == checks(finished.out)
    assert "restarts in the middle" not in again.out
    assert lake_files(directory) == files

    refused = marked("demo", "--directory", "demo", "--rows", 100)
    assert (refused.status, "there are only 100" in refused.err) == (1, True)
    assert left_running(marked) == []


def served_again(marked: Command) -> Result:
    """Run the demo again with --serve, ask for the console that it serves, and end it by Ctrl-C."""
    lines = []
    with marked.start("demo", "--directory", "demo", "--rows", ROWS, "--serve") as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            lines.append(line.decode())
            if b"/console" in line:
                break
        assert httpx2.get(lines[-1].split()[0]).status_code == 200
        demo.send_signal(signal.SIGINT)
        demo.wait(60)
        return Result(demo.returncode, "".join(lines), demo.stderr.read().decode() if demo.stderr else "")


def seen_while_running(marked: Command, *arguments: object) -> tuple[Result, set[str]]:
    """Run the demo to its end; return what it printed, and the command lines of all processes that it had.

    It is not forked from a process that has chosen already which authorities it trusts.
    """
    lines: set[str] = set()
    with TemporaryFile() as out, TemporaryFile() as err:
        words = [*PENSTOCK, "demo", *map(str, arguments)]
        with subprocess.Popen(
            words, cwd=marked.directory, env=marked.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        ) as demo:
            try:
                while demo.poll() is None:
                    lines.update(left_running(marked))
                    time.sleep(0.02)
            finally:
                demo.kill()
        out.seek(0)
        err.seek(0)
        return Result(demo.returncode, out.read().decode(), err.read().decode()), lines


def test_event_type_of_an_open_run_gets_its_rights_from_a_secured_one(client: Client) -> None:
    hub = HubAccess("https://h", {name: Path(name) for name in CALLERS})
    create_missing(client, DAILY, definition_of(DAILY))
    before = client.event_type(DAILY)

    for _ in range(2):
        create_missing(client, DAILY, hub.protect(DAILY, definition_of(DAILY)))
    create_missing(client, DAILY, definition_of(DAILY))

    after = client.event_type(DAILY)
    assert (before.get("authorization"), after["schema"]) == (None, before["schema"])
    lists = {right: [each["value"] for each in callers] for right, callers in after["authorization"].items()}
    assert lists == {"admins": [OPERATOR], "writers": [PIPELINE], "readers": [PIPELINE]}


def test_feed_with_more_events_than_there_are_is_refused(client: Client, orders: str) -> None:
    client.publish(orders, [{"order_id": "1"}, {"order_id": "2"}])
    fewer = Series(event_type=orders, definition={}, table=pa.table({"n": [1]}), event=NewEvent.of)

    with pytest.raises(CommandFailure, match=f"the feed {orders} holds 2 events, there are only 1"):
        stored_counts(client, [fewer])


@pytest.mark.exhaustive
def test_secured_demo_refuses_whom_it_should_and_shows_no_token(marked: Command) -> None:
    directory = marked.directory / "demo"

    finished, lines = seen_while_running(marked, "--directory", "demo", "--rows", 2_000, "--secure")

    assert finished.status == 0, finished.err
    assert left_running(marked) == []
    for part in (" serve ", "penstock_demo.flagging", "java", "pyspark"):
        assert any(part in line for line in lines), (part, lines)
    assert not [line for line in lines if "pst_" in line]
    assert "pst_" not in finished.out + finished.err
    secret = [directory / "tls" / "hub.key", *(directory / "tokens").iterdir()]
    assert {(file.stat().st_mode & 0o777, file.suffix) for file in secret} == {(0o600, ".key"), (0o600, ".token")}
    assert "Publishing 8 796 events over HTTPS" in finished.err
    assert "8 796 rows in, 8 796 rows out, each once" in finished.out
    assert gaps(finished.out) == {"delays:daily": 0, "lake:flights": 0}
    said = " ".join(finished.out.split())
    reading, publishing = f"GET /feeds/{DEPARTED}", f"POST /event-types/{DEPARTED}/events"
    for answer in (
        f"nobody: no token {reading} 401 unauthenticated",
        f"service:stranger {reading} 403 access-denied",
        f"service:publisher {reading} 403 access-denied",
        f"service:pipeline {reading} 200",
        f"service:pipeline {publishing} 403 access-denied",
        "no connection: unknown authority",
        "no connection: closed",
    ):
        assert answer in said, answer
    tokens, files = {file.read_text() for file in secret[1:]}, lake_files(directory)

    again, lines = seen_while_running(marked, "--directory", "demo", "--rows", 2_000, "--secure")
    assert again.status == 0, again.err
    assert not [line for line in lines if "pst_" in line]
    assert checks(again.out) == checks(finished.out)
    assert lake_files(directory) == files
    assert not tokens & {file.read_text() for file in secret[1:]}
