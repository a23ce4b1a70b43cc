"""Runs one of Spark's queries in the foreground: its progress, its end, and Ctrl-C."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.cli.failures import CommandFailure
from penstock.cli.hub import find_credential
from penstock.cli.output import age, number, print_json_line, progress, say, tell
from penstock.cli.spark.running import reason
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.spark.pipelines import Report, watch

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def follow(
    query: "StreamingQuery", lag: Callable[[], float | None] | None, *, what: str, did: str, ends: bool, as_json: bool
) -> None:
    """Wait for a query's end, show meanwhile how far it is, and tell what has come of it.

    Ctrl-C and SIGTERM end it when its micro-batch is done. For programs each report is a line of JSON.

    Args:
        query: The query.
        lag: Says how old the oldest of what it has not read is, in seconds; where it says None, nobody knows. Where it
            is None itself, the query does, if anybody.
        what: What it does, in a word.
        did: What it has done then, before the number of events.
        ends: Whether it ends by itself.
        as_json: Whether reports are for programs.

    Raises:
        CommandFailure: it has failed; says why.
    """
    with _stopping() as stop:
        report = attend(query, lag, what=what, ends=ends, as_json=as_json, stop=stop)
    if not as_json:
        counts = f"{number(report.events)} events in {age(report.seconds)}, {number(round(report.rate))} a second"
        say(f"{did} {counts}; gap {_or_dash(report.gap, number)}")


def attend(
    query: "StreamingQuery",
    lag: Callable[[], float | None] | None,
    *,
    what: str,
    ends: bool = True,
    as_json: bool = False,
    stop: threading.Event | None = None,
) -> Report:
    """Wait and show the same, and return how far it came; Ctrl-C is the caller's: the query ends when *stop* is set."""
    from pyspark.errors import StreamingQueryException

    with progress(known_end=ends) as display:
        task = display.add_task(what, total=None, events=0)

        def told(report: Report) -> None:
            if as_json:
                print_json_line({**report._asdict(), "rate": round(report.rate, 1)})
                return
            total = report.events + (report.gap or 0)
            text = f"{what}  gap {_or_dash(report.gap, number)}  lag {_or_dash(report.lag_seconds, age)}"
            display.update(task, description=text, completed=report.events, total=total, events=report.events)
            if not display.console.is_terminal:
                tell(f"{text}  {number(report.events)} events  {number(round(report.rate))}/s")

        try:
            return watch(query, told, stop=stop, lag=lag)
        except StreamingQueryException as error:
            raise CommandFailure(
                reason(str(error)), "Mend that and start it again: it goes on where it was."
            ) from error


@contextmanager
def lag_of(group: str, url: str, auth: Any = None) -> Iterator[Callable[[], float | None]]:
    """Lend what says how old the oldest event is that a consumer group of the hub at *url* has not read.

    Unless *auth* is another credential, the hub is asked with that of the command.
    """
    with Client(url, auth=auth or find_credential(), retry_timeout=0) as client:

        def lag() -> float | None:
            try:
                return client.consumer_group(group).lag_seconds
            except PenstockError:  # It is not there yet, or the hub is away: the query waits for that, and so do we.
                return None

        yield lag


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Lend what is set by the first Ctrl-C or SIGTERM; a second one interrupts."""
    stop = threading.Event()

    def asked(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        tell("ending when the micro-batch is done; once more to end at once")

    kept = {each: signal.signal(each, asked) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)


def _or_dash(value: Any, text: Callable[[Any], str]) -> str:
    return "-" if value is None else text(value)
