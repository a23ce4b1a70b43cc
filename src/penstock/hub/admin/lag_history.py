"""Keeps the gap and lag of consumer groups over the last hours, in memory."""

import threading
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import structlog

from penstock.hub.background import Background
from penstock.storage.groups import GroupMeasurement

SAMPLE_INTERVAL: Final = 60.0
"""About the time between two samples, in seconds."""
EARLY_SHARE: Final = 0.9
"""A measurement is kept if so much of the interval has passed since the last one that was."""
KEPT_SECONDS: Final = 12 * 3_600.0
"""How long samples are kept."""
SAMPLES_MAX: Final = int(KEPT_SECONDS / (SAMPLE_INTERVAL * EARLY_SHARE))
"""Maximum number of samples of one group."""
GROUPS_MAX: Final = 400
"""Maximum number of groups: their samples take up to 8 MB."""
PAUSE_SHARE: Final = 20.0
"""After a measurement the recorder pauses for so many times as long as it took, at least."""
_MICROSECONDS: Final = 1_000_000
_log: Final = structlog.get_logger("penstock.lag")


class LagSample(NamedTuple):
    """How far a consumer group was behind at one time."""

    at: int
    """In microseconds since 1970, UTC."""
    gap: int
    """Number of retained events that were not committed."""
    lag: int
    """Age of the oldest of these in microseconds; 0 if there was none."""


_NUMBERS: Final = len(LagSample._fields)


class LagHistory:
    """The gap and lag of consumer groups over the last `KEPT_SECONDS`. Safe to use from many threads.

    A measurement need not have all groups: one that is missing in it, since others are further behind, keeps its
    samples. Memory is bounded: of more than `GROUPS_MAX` groups those are forgotten that have been missing for longest;
    each has up to `SAMPLES_MAX` samples, of 24 bytes.

    Attributes:
        since: when this history began, in microseconds since 1970, UTC.
        interval: about the time between two samples, in seconds.
    """

    def __init__(
        self, since: int, interval: float = SAMPLE_INTERVAL, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.since = since
        self.interval = interval
        self._monotonic = monotonic
        self._guard = threading.Lock()
        self._measured_at = monotonic()
        self._sampled_at = float("-inf")
        self._samples: dict[str, array[int]] = {}
        """By group: the numbers of its samples, one sample after the other."""

    def compute_wait(self) -> float:
        """Return the seconds until a measurement is due; 0: it is due now. Each measurement puts it off."""
        with self._guard:
            return max(0.0, self._measured_at + self.interval - self._monotonic())

    def add(self, at: int, groups: Iterable[GroupMeasurement]) -> None:
        """Add a measurement of all groups that was made *at* that time, in microseconds since 1970, UTC.

        One that comes too soon after the last sample is not kept. If the clock was set back, the samples of the time
        that comes again are replaced.
        """
        with self._guard:
            now = self._measured_at = self._monotonic()
            if now - self._sampled_at < EARLY_SHARE * self.interval:
                return
            self._sampled_at = now
            for each in groups:
                numbers = self._samples.pop(each.name, array("q"))
                self._samples[each.name] = numbers  # At the end: those that are missing come to the beginning.
                _remove_later(numbers, at)
                lag = 0 if each.received_at is None else max(0, at - each.received_at)
                numbers.extend(LagSample(at, each.gap, lag))
            for numbers in self._samples.values():
                _remove_outdated(numbers, at)
            for name in [name for name, numbers in self._samples.items() if not numbers]:
                del self._samples[name]
            for name in [*self._samples][: max(0, len(self._samples) - GROUPS_MAX)]:
                del self._samples[name]

    def list(self, group: str) -> Sequence[LagSample]:
        """Return the samples of a group, oldest first; none if it was in no measurement."""
        with self._guard:
            numbers = self._samples.get(group, array("q"))
            return [LagSample(*numbers[start : start + _NUMBERS]) for start in range(0, len(numbers), _NUMBERS)]


def _remove_later(numbers: "array[int]", at: int) -> None:
    """Remove the samples of the time *at* and of later ones."""
    stop = len(numbers)
    while stop and numbers[stop - _NUMBERS] >= at:
        stop -= _NUMBERS
    del numbers[stop:]


def _remove_outdated(numbers: "array[int]", at: int) -> None:
    """Remove the samples that are too old at the time *at*, or too many."""
    start = max(0, len(numbers) - SAMPLES_MAX * _NUMBERS)
    while start < len(numbers) and numbers[start] < at - KEPT_SECONDS * _MICROSECONDS:
        start += _NUMBERS
    del numbers[:start]


class LagRecorder:
    """Adds measurements to a history in a background thread while no request does.

    A measurement that fails leaves a hole in the history. The first of several failures is logged.

    Args:
        history: the history.
        record: measures, and adds the measurement to *history*.
    """

    def __init__(self, history: LagHistory, record: Callable[[], object]) -> None:
        self._history = history
        self._record = record
        self._is_failing = False
        self._stop_wanted = threading.Event()
        self._thread = Background("penstock-lag", self._run)

    def start(self) -> None:
        """Start recording, once. The first measurement is due after the history's interval."""
        self._thread.start()

    def stop(self, timeout: float | None = None) -> bool:
        """End after the current measurement; return whether that was within *timeout*."""
        self._stop_wanted.set()
        return self._thread.wait_for_end(timeout)

    def _run(self) -> None:
        interval = self._history.interval
        pause = interval
        while not self._stop_wanted.wait(pause):
            began = time.monotonic()
            if not self._history.compute_wait():
                self._attempt()
            took = time.monotonic() - began
            pause = max(self._history.compute_wait() or interval, PAUSE_SHARE * took)

    def _attempt(self) -> None:
        try:
            self._record()
            self._is_failing = False
        except Exception as error:  # noqa: BLE001 - if this thread ended, the history would, too
            if not self._is_failing:
                _log.warning("lag of consumer groups was not measured: its history has a hole", error=str(error))
            self._is_failing = True
