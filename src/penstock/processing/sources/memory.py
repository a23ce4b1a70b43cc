"""Events in memory, for tests and for programs that create their events."""

import json
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from penstock.errors import BadParameter
from penstock.processing.engine.tranche import Batch, Position, SourceItem, check_items
from penstock.processing.parameters import check_kind, check_texts
from penstock.processing.sources.source import ReadRequest
from penstock.processing.stream_event import StreamEvent


class MemorySource:
    """Streams that grow by `append`. Each call appends a batch; a position is a number of batches.

    Raises:
        BadParameter: the name of a tranche, or (`append`) of a stream or a kind, is no text; or (`append`) *events* is
            a single event.
    """

    is_dense = True
    is_by_stream = True
    is_replayable = True

    def __init__(self, *tranches: str) -> None:
        check_texts("tranches", tranches)
        self._batches: dict[str, list[list[SourceItem]]] = {tranche: [] for tranche in tranches or ("0",)}
        self._counts: dict[str, int] = {}
        self._changed = threading.Condition()

    def append(self, stream: str, events: Iterable[Any], *, kind: str = "event", tranche: str | None = None) -> None:
        """Append events, values that can be JSON, to a stream. A new *tranche* is created."""
        for name, text in (("stream", stream), ("kind", kind), ("tranche", "" if tranche is None else tranche)):
            check_kind(name, text, str, "a text")
        given: object = events
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            raise BadParameter(parameter="events", value=given, allowed="several, such as [{'n': 1}, {'n': 2}]")
        with self._changed:
            first = self._counts.get(stream, 0)
            made = [
                StreamEvent(stream, index, kind, json.dumps(event).encode(), tranche=self._choose_tranche(tranche))
                for index, event in enumerate(events, first)
            ]
            self._counts[stream] = first + len(made)
            self.deliver(made, tranche=tranche)

    def deliver(self, items: Sequence[SourceItem], *, tranche: str | None = None) -> None:
        """Append a batch of events unchanged, in any order and with repeats.

        Raises:
            BadParameter: a value is no event.
        """
        check_items("items", items)
        with self._changed:
            self._batches.setdefault(self._choose_tranche(tranche), []).append([*items])
            self._changed.notify_all()

    def tranches(self) -> Collection[str]:
        """Return the present tranches."""
        return list(self._batches)

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:  # noqa: ARG002 - The same for all.
        """Return the position before the first batch."""
        return 0

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return the next batch, of any size, of each wanted tranche that has one."""
        with self._changed:
            found = self._take_next(wants)
            if not found and self._changed.wait(timeout):
                found = self._take_next(wants)
            return found

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Return the batch behind an earlier position."""
        with self._changed:
            found = self._take_next({tranche: want})
        return found[0] if found else Batch(tranche, want.position, [], is_tail=True)

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events each tranche has behind its position now."""
        with self._changed:
            return {
                tranche: sum(map(len, batches[int(positions.get(tranche, 0)) :]))
                for tranche, batches in self._batches.items()
            }

    def close(self) -> None:
        """End, and wake the reading thread."""
        with self._changed:
            self._changed.notify_all()

    def _take_next(self, wants: Mapping[str, ReadRequest]) -> list[Batch]:
        found = []
        for tranche, want in wants.items():
            batches, at = self._batches[tranche], int(want.position)
            if at < len(batches):
                found.append(Batch(tranche, at + 1, batches[at], is_tail=at + 1 == len(batches)))
        return found

    def _choose_tranche(self, tranche: str | None) -> str:
        return tranche if tranche is not None else next(iter(self._batches))
