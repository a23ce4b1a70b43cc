"""A span that is with a handler."""

from collections.abc import Sequence

from penstock.processing.engine.item import Item


class Call:
    """A run of one stream's events, which a handler is called with.

    As long as it is not settled, its stream is not handed out again.
    """

    __slots__ = ("attempt", "began", "events", "is_overdue", "stream")

    def __init__(self, stream: str, events: Sequence[Item], attempt: int, began: float) -> None:
        self.stream = stream
        self.events = events
        self.attempt = attempt
        """From 1 on: how often in a row it was tried to get its first event done."""
        self.began = began
        self.is_overdue = False
        """Whether it has been told to fail since it lasts too long."""

    @property
    def index(self) -> int:
        """The index of its first event."""
        return self.events[0].index

    @property
    def next(self) -> int:
        """The index behind its last event."""
        return self.events[-1].next

    def __repr__(self) -> str:
        return f"Call({self.stream!r}, {self.index} to {self.next}, attempt={self.attempt})"
