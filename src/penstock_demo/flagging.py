"""A reaction: flags an aircraft that leaves late three times in a row, by an event in a feed of its own.

It is a process of its own, `python -m penstock_demo.flagging URL DIRECTORY`, so that it can be killed. With
`--dies-after N` it kills itself at the worst moment: flags are published, and the transaction that records them is
open. After a restart it reads those flights again and publishes the same flags, which the hub recognises as repeats.
"""

import argparse
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from penstock.cli.output import print_json_line
from penstock.client import Client, TokenFile
from penstock.processing import DatabaseCheckpoints, FeedSource, LocalProcessor, StreamEvent, Transactional
from penstock.processing.effects import Effect
from penstock.processing.reactions import Publisher
from penstock.processing.sources.feed_position import FeedPosition
from penstock_demo.dataset import DEPARTED, LATE_MINUTES

FLAGGED: Final = "aircraft.flagged"
IN_A_ROW: Final = 3
STREAMS_MAX: Final = 1_000
"""Maximum number of aircraft whose flags are published and whose rows are committed at once."""
RETRY_TIMEOUT: Final = 600.0
DATABASE: Final = "flagging.db"
_TABLE: Final = "CREATE TABLE IF NOT EXISTS aircraft (tailnum TEXT PRIMARY KEY, late TEXT NOT NULL)"
_FIND: Final = "SELECT tailnum, late FROM aircraft WHERE tailnum IN (SELECT value FROM json_each(?))"
_KEEP: Final = """
INSERT INTO aircraft (tailnum, late) VALUES (?, ?) ON CONFLICT (tailnum) DO UPDATE SET late = excluded.late
"""


class Done(NamedTuple):
    """The counts of a run."""

    flights: int
    """Handled."""
    flagged: int
    """Flags published."""
    repeated: int
    """Flags that were published already, by a run that did not come to say so."""


class Flagging:
    """The handler: see `Transactional`. It keeps each aircraft's delays in a row."""

    def __init__(self, publisher: Publisher, dies_after: int | None) -> None:
        self.flights = self.flagged = self.repeated = 0
        self._publisher = publisher
        self._dies_after = dies_after

    def __call__(self, connection: sqlite3.Connection, spans: Sequence[Any]) -> None:
        """Publish the flags that the flights in *spans* lead to, and write down what is known of their aircraft."""
        flown = {span.stream: span.events for span in spans if span.events[0].data["tailnum"] is not None}
        names = {stream: events[0].data["tailnum"] for stream, events in flown.items()}
        found = connection.execute(_FIND, (msgspec.json.encode([*names.values()]).decode(),))
        known = {tailnum: msgspec.json.decode(late) for tailnum, late in found}
        flags: dict[str, list[tuple[StreamEvent, list[Effect]]]] = {}
        rows = []
        for stream, events in flown.items():
            late, due = in_a_row(known.get(names[stream], []), events)
            if due:
                flags[stream] = due
            rows.append((names[stream], msgspec.json.encode(late).decode()))
        self.flights += sum(len(span.events) for span in spans)
        self._publish(flags)
        connection.executemany(_KEEP, rows)

    def _publish(self, flags: dict[str, list[tuple[StreamEvent, list[Effect]]]]) -> None:
        flagged, repeated = self._publisher.publish_all(flags)
        self.flagged += flagged
        self.repeated += repeated
        if flagged and self._dies_after is not None and self.flights >= self._dies_after:
            os.kill(os.getpid(), signal.SIGKILL)


def in_a_row(
    late: list[int], flights: Sequence[StreamEvent]
) -> tuple[list[int], list[tuple[StreamEvent, list[Effect]]]]:
    """Return the delays in a row after *flights* of an aircraft that had *late* ones before, and the flags due.

    One that was cancelled counts for nothing, and one that is in time ends the row. A row is flagged once.
    """
    due = []
    for flight in flights:
        delay = flight.data["dep_delay"]
        if delay is None:
            continue
        late = [*late, delay][: IN_A_ROW + 1] if delay > LATE_MINUTES else []
        if len(late) == IN_A_ROW:
            due.append((flight, [Effect(FLAGGED, _flag(flight, late))]))
    return late, due


def _flag(flight: StreamEvent, late: Sequence[int]) -> dict[str, Any]:
    data = flight.data
    metadata = {"occurred_at": flight.metadata["occurred_at"]}
    return {"tailnum": data["tailnum"], "flight_id": data["flight_id"], "delays": [*late], "metadata": metadata}


def flights_seen(directory: Path) -> int:
    """Return how many flights are handled, as far as that is committed."""
    positions = _checkpoints(directory).positions()
    return sum(FeedPosition.decode(str(position)).offset for position in positions.values())


def _checkpoints(directory: Path) -> DatabaseCheckpoints:
    return DatabaseCheckpoints(f"sqlite:///{directory / DATABASE}", "flagging")


def flag(url: str, directory: Path, *, dies_after: int | None = None, token_file: str | None = None) -> Done:
    """Handle the flights that are new, and return what was done."""
    auth = None if token_file is None else TokenFile(token_file)
    with closing(sqlite3.connect(directory / DATABASE)) as connection:
        connection.execute(_TABLE)
    with Client(url, auth=auth) as client:
        handler = Flagging(Publisher(client, "flagging"), dies_after)
        transactional = Transactional(
            f"sqlite:///{directory / DATABASE}", handler, _checkpoints(directory), streams_max=STREAMS_MAX
        )
        with LocalProcessor(transactional, FeedSource(url, DEPARTED, auth=auth)) as processor:
            processor.wait_until_caught_up(RETRY_TIMEOUT)
    return Done(handler.flights, handler.flagged, handler.repeated)


def main() -> None:
    """Flag, and tell on stdout what was done."""
    parser = argparse.ArgumentParser("penstock_demo.flagging")
    parser.add_argument("url")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--dies-after", type=int)
    parser.add_argument("--token-file")
    given = parser.parse_args()
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    print_json_line(flag(given.url, given.directory, dies_after=given.dies_after, token_file=given.token_file))


def _end_with_stdin() -> None:
    """Exit as soon as the parent process has ended, for any reason."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
