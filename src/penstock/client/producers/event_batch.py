"""Events that are published together, packed as they come."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.client.log.publishing import Event, check_unpublished
from penstock.client.producers.options import PublishResult
from penstock.errors import AlreadyPublished, BadParameter, Conflict


class EventBatch:
    """A batch for one partition, made by `create_batch`; it takes events as long as they fit."""

    def __init__(
        self, event_type: str, partition: int, max_bytes: int, *, line: Callable[[Event], bytes], count_max: int
    ) -> None:
        self.event_type = event_type
        self.partition = partition
        self.max_bytes = max_bytes
        self.byte_count = 0
        """Bytes of what it holds, as they are sent."""
        self._line = line
        self._count_max = count_max
        self._events: list[Event] = []
        self._held: set[int] = set()
        self._sending = False
        self._result: PublishResult | None = None

    def try_add(self, event: Any) -> bool:
        """Add *event* if there is room for it; say whether there was.

        Raises:
            InvalidEvent, EventTooLarge: it cannot be published at all.
            BadParameter: not even an empty batch of this size has room for it.
            AlreadyPublished, Conflict: the batch is published, or is just being sent.
        """
        self.check_open()
        if self._sending:
            raise Conflict("this batch is being sent: it takes no more events until that has failed")
        added = Event.of(event)
        check_unpublished([added])
        if id(added) in self._held:
            raise BadParameter("this Event is in the batch already", parameter="event")
        size = len(self._line(added))
        if size > self.max_bytes:
            raise BadParameter(parameter="max_bytes", value=self.max_bytes, allowed=f"{size} or more for this event")
        if self.byte_count + size > self.max_bytes or len(self._events) == self._count_max:
            return False
        self._events.append(added)
        self._held.add(id(added))
        self.byte_count += size
        return True

    @property
    def count(self) -> int:
        """How many events it holds."""
        return len(self._events)

    @property
    def events(self) -> Sequence[Event]:
        """What it holds."""
        return tuple(self._events)

    @property
    def result(self) -> PublishResult | None:
        """What came of publishing it; None: it is not known to be published."""
        return self._result

    @property
    def starting_published_sequence(self) -> int | None:
        """The number of its first event; None: it is not known to be published."""
        return self._events[0].published_sequence if self._result is not None and self._events else None

    @property
    def published_sequences(self) -> Iterator[int]:
        """The numbers of its events, which begin again with 0 after the last there is; none as long as it is not."""
        return iter([each.published_sequence for each in self._events if each.published_sequence is not None])

    def check_open(self) -> None:
        """Raise AlreadyPublished where it is known to be published."""
        if self._result is not None:
            raise AlreadyPublished(partition=self.partition, sequence=self._result.first_sequence)

    def sending(self) -> None:
        """Take no more events.

        Raises:
            Conflict: it is being sent already.
        """
        if self._sending:
            raise Conflict("this batch is being sent already")
        self._sending = True

    def __repr__(self) -> str:
        return f"EventBatch({self.event_type!r}, partition={self.partition}, count={self.count})"

    def sent(self, result: PublishResult | None) -> None:
        """Take note of what came of it; None: it has failed, and may take more events."""
        self._sending = False
        self._result = result
