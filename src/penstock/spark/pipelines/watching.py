"""Looks after a query that runs: tells how far it is, and ends it when it is asked to."""

import json
import time
from collections.abc import Callable, Mapping
from threading import Event
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_INTERVAL: Final = 0.2
OBSERVED: Final = "penstock"
"""The name of a query's observation: `newest` is the time of the newest record that it has read, in seconds."""
PUBLISHED: Final = "penstock-published"
"""The name of an observation: `events`, the number of events that a query publishes where these are not its rows."""
STOP_TIMEOUT: Final = 30.0
"""Seconds that a micro-batch under way has to finish after a request to end the query."""


class Report(NamedTuple):
    """How far a query is."""

    batches: int
    """How many micro-batches have ended since it was started."""
    events: int
    """How many events were in them."""
    seconds: float
    """Since it was started."""
    gap: int | None
    """How many events it had not read when the last of them ended; None: none has ended."""
    lag_seconds: float | None
    """The age of the oldest of these, by the hub's clock; None: unknown.

    Of records of Kafka it is less old than that: so long ago came the newest that was read.
    """

    @property
    def rate(self) -> float:
        """Events a second, since it was started."""
        return self.events / self.seconds if self.seconds else 0.0


def watch(
    query: "StreamingQuery",
    tell: Callable[[Report], object],
    *,
    stop: Event | None = None,
    lag: Callable[[], float | None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Report:
    """Wait for the end of a query, pass its progress to *tell* whenever it changes, and return the last progress.

    When *stop* is set, the query ends after the current micro-batch, or after 30 s. Its output is complete, and a
    restarted query continues from there. If micro-batches follow each other at once, the next one may have begun: it is
    repeated after a restart.

    Raises:
        pyspark.errors.StreamingQueryException: the query failed.
    """
    began, seen, report = clock(), _Seen(), Report(0, 0, 0.0, None, None)
    asked: tuple[float, int] | None = None
    is_over = False
    while not is_over:
        is_over = bool(query.awaitTermination(LOOK_INTERVAL))  # type: ignore[arg-type]  # It takes parts of seconds, too.
        if seen.look(query):
            report = seen.report(clock() - began)
            if lag is not None:  # The group may not be committed yet up to where the query has read.
                report = report._replace(lag_seconds=0.0 if report.gap == 0 else lag())
            tell(report)
        if stop is not None and stop.is_set() and not is_over:
            asked = asked or (clock(), seen.newest)
            is_between = not query.status["isTriggerActive"] or seen.newest != asked[1]
            if is_between or clock() > asked[0] + STOP_TIMEOUT:
                query.stop()
                is_over = True
    return seen.report(clock() - began)._replace(lag_seconds=report.lag_seconds)


class _Seen:
    """Sums of a query's reports about its micro-batches that had rows."""

    def __init__(self) -> None:
        self.newest = -1
        """The number of the last of them; -1: there was none."""
        self._batches = self._events = 0
        self._gap: int | None = None
        self._lag: float | None = None
        self._last: Any = None

    def look(self, query: "StreamingQuery") -> bool:
        """Look what has come since; tell whether a micro-batch has ended."""
        last = query.lastProgress
        if last is None or last == self._last:  # Spark keeps many, and tells all of them anew when it is asked.
            return False
        self._last = last
        news = {
            each["batchId"]: each for each in query.recentProgress if rows_of(each) and each["batchId"] > self.newest
        }
        if not news:
            return False
        self._batches += len(news)
        self._events += sum(map(count_events, news.values()))
        self.newest = max(news)
        self._gap = gap_of(news[self.newest])
        self._lag = lag_of(news[self.newest], self._gap, time.time())
        return True

    def report(self, seconds: float) -> Report:
        return Report(self._batches, self._events, seconds, self._gap, self._lag)


def rows_of(progress: Mapping[str, Any]) -> int:
    """Return how many rows were in a micro-batch. Of all sources: their sum is not told over Spark Connect."""
    return sum(int(source["numInputRows"]) for source in progress["sources"])


def count_events(progress: Mapping[str, Any]) -> int:
    """Return how many events were in a micro-batch: those that a query has observed, else its rows.

    >>> count_events({"sources": [{"numInputRows": 3}], "observedMetrics": {PUBLISHED: {"events": 2}}})
    2
    """
    observed = (progress.get("observedMetrics") or {}).get(PUBLISHED)
    if observed is None:
        return rows_of(progress)
    # Over Connect, PySpark 4.3 gives a row as Spark writes it to JSON: its values, and its schema.
    return int(observed["values"][0] if "values" in observed else observed["events"])


def gap_of(progress: Mapping[str, Any]) -> int | None:
    """Return how many events were left at the end of a micro-batch; None where its sources do not say.

    They do whose offsets are the next ones wanted, by feed and partition, as ours and those of Spark's own for Kafka.

    >>> end, latest = '{"orders": {"0": 3, "1": 7}}', '{"orders": {"0": 4, "1": 7}}'
    >>> gap_of({"sources": [{"endOffset": end, "latestOffset": latest}]})
    1
    """
    gap = 0
    for source in progress["sources"]:
        end, latest = _parse_offset(source["endOffset"]), _parse_offset(source["latestOffset"])
        if end is None or latest is None:
            return None
        gap += sum(_count_left(end.get(feed, {}), head) for feed, head in latest.items())
    return gap


def lag_of(progress: Mapping[str, Any], gap: int | None, now: float) -> float | None:
    """Return how old the oldest record can be that was left, where a query has observed when those came that it read.

    >>> lag_of({"observedMetrics": {OBSERVED: {"newest": 990.0}}}, 3, 1_000.0)
    10.0
    """
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED)
    if observed is None or observed["newest"] is None:
        return None
    return 0.0 if gap == 0 else max(0.0, now - observed["newest"])


def _parse_offset(offset: Any) -> dict[str, dict[str, int]] | None:
    found = json.loads(offset) if isinstance(offset, str) else offset
    is_known = isinstance(found, dict) and found and all(isinstance(each, dict) for each in found.values())
    return found if is_known else None


def _count_left(end: Mapping[str, int], head: Mapping[str, int]) -> int:
    done = end if end.get("epoch") == head.get("epoch") else {}
    return sum(max(0, head[each] - done.get(each, 0)) for each in head if each.isdecimal())
