"""A span that is with a handler."""

from collections.abc import Sequence

import msgspec

from penstock.processing.engine.item import Item


class Call(msgspec.Struct, gc=False, eq=False):
    """A run of one stream's events, which a handler is called with.

    As long as it is not settled, its stream is not handed out again.
    """

    stream: str
    events: Sequence[Item]
    attempt: int
    """From 1 on: how often in a row it was tried to get its first event done."""
    began: float
    called: float = 0.0
    """When its handler was called; infinite while it waits for a thread."""
    is_overdue: bool = False
    """Whether it has been told to fail since it lasts too long."""

    given_up: str | None = None
    """Of a stream that was parked while it went on: the tranche that its events lie in."""

    index: int = 0
    """The index of its first event, whatever its handler does to that."""
    next: int = 0
    """The index behind its last event, likewise."""

    def __post_init__(self) -> None:
        events = self.events
        self.index, self.next = events[0].index, events[-1].next

    def below(self, index: int) -> int:
        """Return how many of its events lie below *index*."""
        return len(self.events) if index >= self.next else sum(item.next <= index for item in self.events)

    def is_below(self, index: int) -> bool:
        """Tell whether nothing of it is at *index* or behind: its stream goes on there, whatever comes of it."""
        return self.next <= index

    def __repr__(self) -> str:
        return f"Call({self.stream!r}, {self.index} to {self.next}, attempt={self.attempt})"
