"""Has late aircraft be flagged by a process that is killed once in the middle, and holds the flags against the lake."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from penstock.cli.failures import CommandFailure
from penstock_demo.access import FLAGGER, HubAccess
from penstock_demo.dataset import DEPARTED, LATE_MINUTES
from penstock_demo.filling import stored_count
from penstock_demo.flagging import FLAGGED, IN_A_ROW, Done, flights_seen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TRUE: Final = """
WITH flown AS (
    SELECT data.tailnum, data.flight_id, offset, data.dep_delay > {late} AS is_late
    FROM {flights} WHERE data.tailnum IS NOT NULL AND data.dep_delay IS NOT NULL
), rows AS (
    SELECT *, sum(CAST(NOT is_late AS INT)) OVER (PARTITION BY tailnum ORDER BY offset) AS row FROM flown
), numbered AS (
    SELECT *, row_number() OVER (PARTITION BY tailnum, row ORDER BY offset) AS number FROM rows WHERE is_late
)
SELECT tailnum, flight_id FROM numbered WHERE number = {in_a_row}
"""


class Kill(NamedTuple):
    """The progress before and after the process was killed."""

    before: int
    """Flights that were handled, as far as that was committed."""
    doubtful: int
    """Flags that were published while it was killed, before that was committed: they were not published twice."""
    after: int
    """Flights that were handled when it was started again."""


class Flags(NamedTuple):
    """The counts of the feed."""

    flags: int
    aircraft: int


def flag_all(hub: HubAccess, directory: Path, log: Path) -> Kill | None:
    """Flag the aircraft of new flights; return the progress around the kill, or None if nothing was killed.

    Nothing is killed if no aircraft is flagged in the second half of the new flights.

    Raises:
        CommandFailure: the process ended in another way.
    """
    with hub.open_client(FLAGGER) as client:
        count = stored_count(client, DEPARTED)
    begun = flights_seen(directory)
    if begun == count or _run(hub, directory, log, dies_after=(count - begun) // 2) is not None:
        return None
    done = _run(hub, directory, log)
    if done is None:
        raise _ended(-signal.SIGKILL, log)
    return Kill(count - begun - done.flights, done.repeated, done.flights)


def _run(hub: HubAccess, directory: Path, log: Path, dies_after: int | None = None) -> Done | None:
    """Run the reaction to its end; None: it was killed."""
    program = [sys.executable, "-m", "penstock_demo.flagging", hub.url, str(directory)]
    if (token := hub.find_token_file(FLAGGER)) is not None:
        program += ["--token-file", str(token)]
    if dies_after is not None:
        program += ["--dies-after", str(dies_after)]
    with log.open("ab") as output:
        process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        told = process.stdout.read()
        status = process.wait()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        with suppress(OSError):
            process.stdin.close()
    if status == -signal.SIGKILL:
        return None
    if status != os.EX_OK:
        raise _ended(status, log)
    return msgspec.json.decode(told, type=Done)


def _ended(status: int, log: Path) -> CommandFailure:
    return CommandFailure(f"flagging aircraft has ended with {status}", f"Why is in {log}.")


def check_flags(spark: "SparkSession", flights: "DataFrame", **hub: str) -> Flags:
    """Return what the feed has told, where that is true: the flags that the lake's *flights* lead to, each once.

    Raises:
        CommandFailure: it is not.
    """
    true = {tuple(row) for row in spark.sql(_TRUE, flights=flights, late=LATE_MINUTES, in_a_row=IN_A_ROW).collect()}
    feed = spark.read.format("penstock").options(**hub, eventType=FLAGGED, payload="typed").load()
    told = [tuple(row) for row in feed.select("data.tailnum", "data.flight_id").collect()]
    if len(told) != len(set(told)):
        raise CommandFailure(f"of {len(told)} flags in {FLAGGED} only {len(set(told))} are different ones")
    if wrong := true ^ set(told):
        raise CommandFailure(f"what {FLAGGED} says of {len(wrong)} flights is not what the lake's flights lead to")
    return Flags(len(told), len({tailnum for tailnum, _ in told}))
