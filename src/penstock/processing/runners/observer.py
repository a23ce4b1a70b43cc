"""Makes a processor observable: takes snapshots of it, and logs its events and figures."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import structlog

from penstock.errors.root import PenstockError, printable
from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.stream import Trouble
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_name, check_some_seconds
from penstock.processing.snapshot import Snapshot, SourceAnswer, Tally, describe_silence, take_snapshot

LINES_MAX: Final = 10
INTERVAL: Final = 60.0


class LogQuota:
    """Limits the log lines of each kind in an interval, and counts the others.

    Args:
        lines_max: Maximum number of lines of each kind.
        interval: Length of an interval in seconds.
    """

    def __init__(self, lines_max: int = LINES_MAX, interval: float = INTERVAL) -> None:
        self._lines_max = lines_max
        self._interval = interval
        self._seen: Counter[str] = Counter()
        self._began: float | None = None

    def allows(self, kind: str, now: float) -> bool:
        """Return whether one more line of *kind* may be logged."""
        if self._began is None:
            self._began = now
        self._seen[kind] += 1
        return self._seen[kind] <= self._lines_max

    def take_omitted(self, now: float) -> dict[str, int]:
        """Return the number of suppressed lines by kind once the interval is over, and begin the next interval."""
        if self._began is None or now - self._began < self._interval:
            return {}
        left = {kind: count - self._lines_max for kind, count in self._seen.items() if count > self._lines_max}
        self._seen.clear()
        self._began = None
        return left


def is_logged(count: int) -> bool:
    """Return whether to log the *count*-th consecutive failure: the more there are, the less often.

    >>> [count for count in range(1, 20) if is_logged(count)]
    [1, 2, 4, 8, 16]
    """
    return count & (count - 1) == 0


STALLED_ATTEMPTS: Final = 2
"""Number of calls without progress before the log reports it: a single one means that the handler waits."""
MISSING_MAX: Final = 3
"""Maximum number of streams whose missing index a log line names."""
_MORE: Final = {
    "failing": "streams have begun to fail",
    "stalled": "streams have stalled",
    "parked": "streams were parked",
    "recovered": "streams have recovered",
    "unparked": "streams are parked no more",
}
_log: Final[structlog.stdlib.BoundLogger] = structlog.wrap_logger(
    logging.getLogger("penstock.processing"),
    processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
    wrapper_class=structlog.stdlib.BoundLogger,
)


class ProcessorLog:
    """Logs the events of one processor. The loop that owns its engine calls it.

    Args:
        name: The processor's name.
        engine: Its engine; streams that are already parked there are not logged.
        quota: The limit of lines of each kind.
    """

    def __init__(self, name: str, engine: Engine, quota: LogQuota) -> None:
        self._log = _log.bind(processor=name)
        self._name = name
        self._engine = engine
        self._quota = quota
        self._failing: set[str] = set()
        self._stalled: set[str] = set()
        self._parked = self._count_attempts()

    def log_changes(self, now: float) -> None:
        """Log the changes since the last call."""
        busy, parked = self._engine.busy, self._engine.parking.streams
        while busy.news:  # They include streams that have recovered since.
            self._log_failing(busy.news.popleft(), now)
        for stream in busy.failing.keys() - self._failing:  # The news keep only the last ones.
            self._log_failing(busy.failing[stream], now)
        attempts = self._count_attempts()
        for stream in attempts:
            if attempts[stream] > self._parked.get(stream, -1):
                self._log_parked(stream, now, again=stream in self._parked)
        for stream in self._parked.keys() - parked.keys():
            self._write("unparked", f"{stream} is parked no more", now, stream=stream)
        for stream in self._failing - busy.failing.keys() - parked.keys():
            self._write("recovered", f"{stream} fails no more", now, stream=stream)
        self._failing, self._parked = set(busy.failing), attempts
        self._log_stalled(now)
        for kind, count in self._quota.take_omitted(now).items():
            self._log.warning(f"{self._name}: {count} more {_MORE[kind]} in the last while", kind=kind, count=count)

    def log_figures(self, snapshot: Snapshot, before: Snapshot | None) -> None:
        """Log one line of figures, some of them since *before*."""
        figures = compute_figures(snapshot, before)
        busy = snapshot.busy_now()
        has_trouble = busy["failing"].streams or busy["stalled"].streams or snapshot.commits_failing
        is_well = not (has_trouble or describe_silence(snapshot.unanswered_seconds))
        (self._log.info if is_well else self._log.warning)(f"{self._name}: {describe_figures(figures)}", **figures)

    def log_end(self, error: BaseException | None) -> None:
        """Log the end of the processor and its cause, *error*; None: it was stopped."""
        if error is None:
            self._log.info(f"{self._name} was stopped")
        else:
            kind = type(error).__name__
            text = str(error) if isinstance(error, PenstockError) else f"{kind}: {error}"  # `SystemExit` says `3`.
            self._log.error(printable(f"{self._name} has ended: {text}"), error=kind)

    def _log_failing(self, trouble: Trouble, now: float) -> None:
        stream, index, tag, detail = trouble.stream, trouble.index, trouble.tag, trouble.detail
        if stream not in self._failing:
            self._failing.add(stream)
            text = f"{stream} fails at {index}: {tag}: {detail}"
            self._write("failing", text, now, stream=stream, index=index, tag=tag, detail=detail)

    def _count_attempts(self) -> dict[str, int]:
        """Return the attempts of each parked stream. A stream stays parked during its retries."""
        parked = self._engine.parking.streams
        return {stream: sum(span.attempts for span in spans.values()) for stream, spans in parked.items()}

    def _log_parked(self, stream: str, now: float, *, again: bool) -> None:
        spans = self._engine.parking.streams[stream].values()
        first = next(iter(spans))
        parked = "parked again" if again else "parked"
        text = f"{stream} is {parked} at {first.index} after {first.attempts} attempts: {first.tag}: {first.detail}"
        self._write("parked", text, now, stream=stream, index=first.index, attempts=first.attempts, tag=first.tag)

    def _log_stalled(self, now: float) -> None:
        troubles = self._engine.busy.stalled
        stalled = {stream for stream, each in troubles.items() if each.attempts >= STALLED_ATTEMPTS}
        for stream in stalled - self._stalled:
            each = troubles[stream]
            text = f"{stream} stalls at {each.index}: handled {each.attempts} times without getting any further"
            self._write("stalled", text, now, stream=stream, index=each.index, attempts=each.attempts, tag=each.tag)
        for stream in self._stalled - troubles.keys() - self._failing - self._parked.keys():
            self._write("recovered", f"{stream} stalls no more", now, stream=stream)
        self._stalled = stalled

    def _write(self, kind: str, text: str, now: float, **fields: Any) -> None:
        if self._quota.allows(kind, now):
            say = self._log.info if kind in ("recovered", "unparked") else self._log.warning
            say(printable(f"{self._name}: {text}"), kind=kind, **fields)  # Names and texts come from outside.


def compute_figures(snapshot: Snapshot, before: Snapshot | None) -> dict[str, Any]:
    """Return the figures of a log line: counts since *before*, and the present state."""
    busy = snapshot.busy_now()
    seconds = snapshot.taken - before.taken if before else 0.0
    handled = snapshot.handled - (before.handled if before else 0)
    ok = snapshot.took.get("ok")
    recent = None if ok is None else ok.since(before.took.get("ok") if before else None)
    lag, unanswered_seconds = snapshot.lag_seconds(), snapshot.unanswered_seconds
    return {
        "handled": handled,
        "per_second": round(handled / seconds, 1) if seconds > 0 else None,
        "repeats": snapshot.repeats - (before.repeats if before else 0),
        "ahead": snapshot.events_ahead,
        "gap": snapshot.gap,
        "lag_seconds": None if lag is None else round(lag, 1),
        "unanswered_seconds": None if unanswered_seconds is None else round(unanswered_seconds, 1),
        **{state: each.streams for state, each in busy.items()},
        **{f"{state}_seconds": round(each.oldest_seconds, 1) for state, each in busy.items()},
        "parked": snapshot.streams["parked"],
        "gapped": snapshot.streams["gapped"],
        "missing": {each.stream: each.missing for each in snapshot.gapped[:MISSING_MAX]},
        "p50_ms": None if recent is None else round(recent.percentile(0.5) * 1e3, 3),
        "p99_ms": None if recent is None else round(recent.percentile(0.99) * 1e3, 3),
        "round_seconds": None if snapshot.round_seconds is None else round(snapshot.round_now_seconds(), 1),
        "commits_failing": snapshot.commits_failing,
        "counts": dict(snapshot.counts),
        "gauges": dict(snapshot.gauges),
        "observed": _summarize_observed(snapshot, before),
    }


def describe_figures(figures: dict[str, Any]) -> str:
    """Return *figures* in words."""
    texts = [f"{figures['handled']} events handled"]
    texts += [f"{figures['per_second']:g}/s"] if figures["per_second"] is not None else []
    texts.append(f"{figures['ahead']} read ahead")
    texts += [f"{figures['gap']} behind"] if figures["gap"] is not None else []
    texts += [f"lag {figures['lag_seconds']:g} s"] if figures["lag_seconds"] is not None else []
    texts += [silent] if (silent := describe_silence(figures["unanswered_seconds"])) else []
    for state in ("active", "failing", "stalled"):
        streams, age = figures[state], figures[f"{state}_seconds"]
        texts.append(f"{streams} {state}" + (f" for up to {age:g} s" if streams else ""))
    texts += [f"{figures['parked']} parked"] if figures["parked"] else []
    texts += [_describe_gapped(figures["gapped"], figures["missing"])] if figures["gapped"] else []
    texts += [f"p50 {figures['p50_ms']:g} ms, p99 {figures['p99_ms']:g} ms"] if figures["p50_ms"] is not None else []
    texts += [f"a round for {figures['round_seconds']:g} s"] if figures["round_seconds"] is not None else []
    texts += [f"{figures['commits_failing']} commits in a row have failed"] if figures["commits_failing"] else []
    texts += [f"{name} {count}" for name, count in sorted(figures["counts"].items())]
    texts += [f"{name} {value:g}" for name, value in sorted(figures["gauges"].items())]
    texts += [
        f"{name} p50 {each['p50']:g}, p99 {each['p99']:g}"
        for name, each in sorted(figures["observed"].items())
        if each["count"]
    ]
    return ", ".join(texts)


def _summarize_observed(snapshot: Snapshot, before: Snapshot | None) -> dict[str, dict[str, float]]:
    """Return the handlers' observations since *before*, by name."""
    found = {}
    for name, distribution in snapshot.observed.items():
        recent = distribution.since(before.observed.get(name) if before else None)
        p50, p99 = (float(f"{recent.percentile(share):.3g}") for share in (0.5, 0.99))
        found[name] = {"count": recent.count, "sum": recent.sum, "p50": p50, "p99": p99}
    return found


def _describe_gapped(streams: int, missing: dict[str, int]) -> str:
    named = ", ".join(f"{stream} for {index}" for stream, index in missing.items())
    return f"{streams} waiting for an index that is missing ({named})"


ASK_INTERVAL: Final = 5.0
"""The interval between two questions to the source about its heads, in seconds."""
ASK_SHARE: Final = 20
"""A slow source is asked less often: the pause is at least this many times the duration of the last question."""
Behind: TypeAlias = Callable[[Mapping[str, Position]], Mapping[str, int | None]]


class ProcessorObserver:
    """Provides snapshots and log lines of a processor. The loop that owns the engine calls it.

    Any thread may read `snapshot`.

    Every few seconds a thread asks the source how many events follow the handled ones. A source that does not answer
    does not block the loop, and is not asked again meanwhile.

    Args:
        name: The processor's name.
        engine: Its engine.
        behind: Asks the source how many events each tranche has after a position.
        stats_interval: Seconds between lines of figures in the log; None: no such lines.
        now: The time at which it begins.

    Raises:
        BadParameter: *stats_interval* is not a number of seconds above 0.
    """

    def __init__(self, name: str, engine: Engine, behind: Behind, stats_interval: float | None, now: float) -> None:
        check_some_seconds("stats_interval", stats_interval)
        self.tally = Tally()
        self.name = name
        """The processor's name in logs, views and metrics."""
        self._engine = engine
        self._behind = behind
        self._is_asking = self._has_ended = False
        self._ask_at = now
        self._processor_log = ProcessorLog(name, engine, LogQuota())
        self._stats_interval = stats_interval
        self._logged: Snapshot | None = None
        self._logged_at = now
        self.snapshot = take_snapshot(name, engine, self.tally, now, is_running=False)
        """The snapshot of the last `observe`, which replaces it. A snapshot itself never changes."""

    def observe(self, now: float) -> None:
        """Take a snapshot, and log changes and figures."""
        self.tally.source.begin(now)
        self.snapshot = take_snapshot(self.name, self._engine, self.tally, now, is_running=True)
        self._ask(now)
        self._processor_log.log_changes(now)
        if self._stats_interval is not None and now - self._logged_at >= self._stats_interval:
            self._log_figures(now)

    def check_source(self, now: float) -> None:
        """Raise ProcessorUnhealthy if the source has not answered for longer than the rules allow."""
        self.tally.check_source(self._engine.rules.health, now)

    def end(self, now: float, error: BaseException | None) -> None:
        """Take the last snapshot, and log the cause of the processor's end."""
        self._has_ended = True
        self._processor_log.log_changes(now)
        self.snapshot = take_snapshot(self.name, self._engine, self.tally, now, is_running=False)
        if self._stats_interval is not None:
            self._log_figures(now)
        self._processor_log.log_end(error)

    def _ask(self, now: float) -> None:
        if self.snapshot.tranches and now >= self._ask_at and not self._is_asking:
            self._is_asking = True
            threading.Thread(
                target=self._count_behind, args=(self.snapshot, now), name="penstock-gap", daemon=True
            ).start()

    def _count_behind(self, snapshot: Snapshot, now: float) -> None:
        began = time.monotonic()
        try:
            counts = self._behind({each.name: each.position for each in snapshot.tranches})
        except Exception as error:  # noqa: BLE001 - It is no answer.
            counts = None
            if not (isinstance(error, PenstockError) or self._has_ended):  # Else the reader reports it.
                _log.warning(f"{self.name}: the source does not say how many events it has: {error!r}")
        if counts is not None:
            rules, tranches = self._engine.rules, snapshot.tranches
            is_wanted = any(
                each.events_ahead < rules.events_ahead and each.pages_ahead < rules.batches_ahead for each in tranches
            )
            answer = SourceAnswer(counts, {each.name: each.events_done for each in tranches})
            self.tally.source.note_counts(answer, now, is_wanted=is_wanted)
        self._ask_at = now + max(ASK_INTERVAL, ASK_SHARE * (time.monotonic() - began))
        self._is_asking = False

    def _log_figures(self, now: float) -> None:
        self._processor_log.log_figures(self.snapshot, self._logged)
        self._logged, self._logged_at = self.snapshot, now


def choose_name(name: str | None, checkpoints: Checkpoints) -> str:
    """Return a processor's name: *name*, else that of its checkpoints, else `processor`.

    Raises:
        BadParameter: *name* is not a valid name.
    """
    if name is None:
        return str(getattr(checkpoints, "name", "processor"))
    check_name("name", name)
    return name
