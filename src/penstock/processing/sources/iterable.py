"""Batches of an iterable, read once: a generator, a list, the rows of a query."""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from penstock.errors import BadParameter, EventsLost
from penstock.processing.engine.tranche import Batch, Position, SourceItem, check_items
from penstock.processing.parameters import check_flag, check_kind
from penstock.processing.sources.source import Closable, Puller, ReadRequest


class IterableSource(Closable):
    """The batches of an iterable, as one tranche. A position is a number of batches.

    A separate thread iterates over it while the processor has room, at most one batch ahead. A processor with a
    position skips that number of batches: give it an iterable that begins each time with the same ones, or have it keep
    its positions in memory.

    Args:
        batches: Each has events in their order, for example of class `StreamEvent`. An event with an
            index that its stream had already is a repeat: skipped, or handled once more if its stream was idle.
        tranche: The tranche's name.
        is_dense: True if the indices of each stream have no gaps, from 0 on.

    Raises:
        BadParameter: an argument is invalid; or (`read`) a batch is invalid, or the iterable ends before the position.
        EventsLost: (`read`) the position is before batches that were read already.
        Exception: (`read`) an exception of the iterable.
    """

    is_replayable = False

    def __init__(self, batches: Iterable[Iterable[SourceItem]], *, tranche: str = "0", is_dense: bool = False) -> None:
        given: object = batches
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            raise BadParameter(
                parameter="batches", value=type(given).__name__, allowed="an iterable of lists of events"
            )
        check_kind("tranche", tranche, str, "a text")
        check_flag("is_dense", is_dense)
        self.is_dense = self.is_by_stream = is_dense
        self._tranche = tranche
        self._batches = iter(batches)
        self._puller: Puller[list[SourceItem]] = Puller(lambda: _list_events(next(self._batches)))
        self._count = 0
        """The number of batches read."""
        self._failed: BaseException | None = None
        self._is_exhausted = False
        self._closed = threading.Event()

    def tranches(self) -> Collection[str]:
        """Return the only tranche."""
        return [self._tranche]

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:  # noqa: ARG002 - The only one.
        """Return the position before the first batch."""
        return 0

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return the next batch, whatever its size; an empty one at the end."""
        if self._tranche not in wants:
            return []
        at = int(wants[self._tranche].position)
        if at < self._count:
            raise EventsLost.of("not-replayable", source=type(self).__name__)
        while not self._is_exhausted:
            items = self._take_next(timeout)
            if items is None:
                break
            self._count += 1
            if self._count > at:
                return [Batch(self._tranche, self._count, items)]
        if not self._is_exhausted:
            return []
        if self._count < at:
            allowed = f"as many as were handled, {at} at least, which it begins with; or checkpoints in memory"
            raise BadParameter(parameter="batches", value=f"{self._count} batches", allowed=allowed)
        self._closed.wait(timeout)
        return [Batch(self._tranche, at, [], is_tail=True)]

    def reread(self, tranche: str, want: ReadRequest) -> Batch:  # noqa: ARG002 - Never possible.
        """Raise EventsLost.

        Raises:
            EventsLost: an iterable is read once.
        """
        raise EventsLost.of("not-replayable", source=type(self).__name__)

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return 0 once the iterable has ended and all is handled; None before, since the number is unknown."""
        is_done = self._is_exhausted and int(positions.get(self._tranche, 0)) >= self._count
        return {self._tranche: 0 if is_done else None}

    def close(self) -> None:
        """End, and wake the reading thread; a running call of the iterable is not waited for."""
        self._closed.set()
        self._puller.close()

    def _take_next(self, timeout: float) -> list[SourceItem] | None:
        """Return the next batch; None: there is none yet, or the iterable has ended.

        Raises:
            BaseException: the iterable has raised it. A generator ends then, which is not the end of the events.
        """
        try:
            items = self._puller.take(timeout)
        except StopIteration:
            if self._failed is not None:
                raise self._failed from None
            self._is_exhausted = True
            return None
        except BaseException as error:
            self._failed = error
            raise
        if items is not None:
            self._failed = None
        return items


def _list_events(given: Any) -> list[SourceItem]:
    """Return the events of a batch.

    Raises:
        BadParameter: it is no batch, or a value is no event.
    """
    is_batch = isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)
    if not is_batch:
        allowed = "an iterable of batches, each a list of events, such as [StreamEvent(…), …]"
        raise BadParameter(parameter="batches", value=f"{type(given).__name__} in place of events", allowed=allowed)
    items = [*given]
    check_items("batches", items)
    return items
