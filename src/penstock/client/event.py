"""An event on its way out, which knows afterwards where it has come to."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from penstock.client.publishing import raw_of
from penstock.core.events.event import NewEvent
from penstock.errors import AlreadyPublished, PenstockError

Make: TypeAlias = Callable[[bytes, str | None, NewEvent | None, bool], bytes]
"""See `Publishing.line_of`."""


class Publication(NamedTuple):
    """Under which number, and where, an event is stored."""

    group: str
    partition: int
    epoch: int
    sequence: int
    offset: int


class Event:
    """An event that an idempotent producer is to publish, once.

    What it holds is turned into bytes when it is first sent, with its `eid` and `occurred_at`: however often it is sent
    again, they are the same.

    Args:
        data: A mapping, a dataclass, a msgspec Struct or a pydantic model; a DataChange of one of them; the bytes or
            the text of a JSON object.
        key: Its key, where it is to have another one than its event type's partition key fields give.
        headers: Its own headers.
    """

    __slots__ = ("__weakref__", "_line", "_publication", "_raw", "_wanted", "data", "headers", "key")

    def __init__(self, data: Any, *, key: str | None = None, headers: dict[str, str] | None = None) -> None:
        self.data = data
        self.key = key
        self.headers = headers
        self._line: tuple[bool, bytes] | None = None
        self._raw = b""
        self._wanted: int | None = None
        self._publication: Publication | None = None

    @classmethod
    def of(cls, value: Any) -> "Event":
        """Return *value* as an event: itself, if it is one."""
        if isinstance(value, Event):
            return value
        if not isinstance(value, NewEvent):
            return cls(value)
        event = cls(value.data, key=value.key, headers=value.headers)
        event._wanted = value.partition  # The hub refuses it where it is sent elsewhere.
        return event

    @property
    def published_sequence(self) -> int | None:
        """Its number; None: it is not known to be published."""
        return None if self._publication is None else self._publication.sequence

    @property
    def published_epoch(self) -> int | None:
        """The epoch, or owner level, that it was published with; None: it is not known to be published."""
        return None if self._publication is None else self._publication.epoch

    @property
    def published_group(self) -> str | None:
        """The producer group that it was published by; None: it is not known to be published."""
        return None if self._publication is None else self._publication.group

    @property
    def published_partition(self) -> int | None:
        """Where it was published to; None: it is not known to be published."""
        return None if self._publication is None else self._publication.partition

    @property
    def published_offset(self) -> int | None:
        """Its offset there; None: it is not known to be published."""
        return None if self._publication is None else self._publication.offset

    def line(self, has_metadata: bool, make: Make) -> bytes:
        """Return the line that publishes it, which *make* makes once: one that *has_metadata*, or one without."""
        if self._line is None or self._line[0] != has_metadata:
            self._raw, given = raw_of(self.data), None
            if self.headers or self._wanted is not None:
                given = NewEvent.of(self._raw, headers=self.headers, partition=self._wanted)
            self._line = has_metadata, make(self._raw, self.key, given, has_metadata)
        return self._line[1]

    def is_like(self, other: "Event") -> bool:
        """Tell whether *other*, of the same object, still holds what this one has been sent with."""
        if (self.key, self.headers, self._wanted) != (other.key, other.headers, other._wanted):
            return False
        try:
            return raw_of(other.data) == self._raw
        except (PenstockError, TypeError):  # It cannot even be sent by now.
            return False

    def published(self, publication: Publication) -> None:
        """Take note that it is stored."""
        self._publication = publication

    def __repr__(self) -> str:
        where = "" if self._publication is None else f", published_sequence={self._publication.sequence}"
        return f"Event({self.data!r}{where})"


def check_unpublished(events: Iterable[Event]) -> None:
    """Raise AlreadyPublished where one of *events* is known to be published."""
    for event in events:
        if event.published_sequence is not None:
            raise AlreadyPublished(partition=event.published_partition, sequence=event.published_sequence)
