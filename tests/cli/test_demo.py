"""`penstock demo` on the first flights of the year: after each way of stopping it, to its end, and again.

`tests/spark/test_commands.py` runs it to its end in a session of Spark that others have warmed up.
"""

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.client import Client
from penstock.errors import PenstockError
from tests.cli.command import Command
from tests.cli.demo import DEPARTED, counted, gaps, left_running, mark

ROWS = 40_000
OTHERS = 16 + 1458 + 3322 + 26_115


@pytest.fixture
def marked(penstock: Command) -> Command:
    return mark(penstock)


def stop_when(
    marked: Command, is_time: Callable[[Path], bool], number: int, *, rows: int = ROWS
) -> "subprocess.Popen[bytes]":
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
    again = marked("demo", "--directory", "demo", "--rows", ROWS)
    assert again.status == 0, again.err
    assert checks(again.out) == checks(finished.out)
    assert "restarts in the middle" not in again.out
    assert lake_files(directory) == files
