"""Knows values again that were handed in as something else than events, and of which it is not told what became."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from penstock.client.event import Event

VALUES_MAX: Final = 100_000
"""So many are remembered; of more, the oldest are forgotten."""


class PlainValues:
    """Values, each with the event that was made of it. The same value is the same object, with the same content."""

    def __init__(self) -> None:
        self._kept: dict[int, list[Event]] = {}

    def events(self, values: Sequence[Any]) -> list[Event]:
        """Return *values* as events: those that are remembered as the same ones.

        An object that is there more than once is as many events.
        """
        if not self._kept:
            return [Event.of(value) for value in values]
        seen: Counter[int] = Counter()
        return [self._event(value, seen) for value in values]

    def keep(self, events: Sequence[Event], values: Sequence[Any]) -> None:
        """Remember which of *events*, whose lines are made, were made of *values*."""
        for event, value in zip(events, values, strict=True):
            if event is value:
                continue
            kept = self._kept.setdefault(id(event.data), [])
            if all(each is not event for each in kept):
                kept.append(event)

    def drop(self, events: Sequence[Event]) -> None:
        """Forget those of *events* that were made of values: it is told what became of them."""
        for event in events if self._kept else ():
            kept = self._kept.get(id(event.data), [])
            kept[:] = [each for each in kept if each is not event]
            if not kept:
                self._kept.pop(id(event.data), None)

    def drop_oldest(self) -> None:
        """Forget the oldest where there are too many."""
        for oldest in list(self._kept)[: max(0, len(self._kept) - VALUES_MAX)]:
            del self._kept[oldest]

    def _event(self, value: Any, seen: Counter[int]) -> Event:
        event = Event.of(value)
        kept = self._kept.get(id(event.data), ())
        at = seen[id(event.data)]
        if event is value or at >= len(kept):
            return event
        if not kept[at].is_like(event):
            return event
        seen[id(event.data)] += 1
        return kept[at]
