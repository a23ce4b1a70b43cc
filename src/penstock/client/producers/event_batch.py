"""`EventBatch`: events for one partition that are published together."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.client.log.publishing import Event, check_unpublished
from penstock.client.producers.options import PublishResult
from penstock.errors import AlreadyUsed, BadParameter, Conflict


class EventBatch:
    """A batch of events for one partition, made by `create_batch`. It accepts events up to a maximum size."""

    def __init__(
        self, event_type: str, partition: int, max_bytes: int, *, line: Callable[[Event], bytes], count_max: int
    ) -> None:
        self.event_type = event_type
        self.partition = partition
        self.max_bytes = max_bytes
        self.byte_count = 0
        """Size of the events in bytes, as they are sent."""
        self._line = line
        self._count_max = count_max
        self._events: list[Event] = []
        self._held: set[int] = set()
        self._sending = False
        self._result: PublishResult | None = None

    def try_add(self, event: Any) -> bool:
        """Add *event* and return True, or return False if the batch has no room for it.

        Raises:
            InvalidEvent, EventTooLarge: The event is invalid.
            BadParameter: The event is too large for an empty batch of this size, or is in the batch already.
            AlreadyUsed, Conflict: The batch is published, or is being sent.
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
        """Number of events."""
        return len(self._events)

    @property
    def events(self) -> Sequence[Event]:
        """The events."""
        return tuple(self._events)

    @property
    def result(self) -> PublishResult | None:
        """The result of publishing; None if the batch is not known to be published."""
        return self._result

    @property
    def starting_published_sequence(self) -> int | None:
        """The sequence number of the first event; None if the batch is not known to be published."""
        return self._events[0].published_sequence if self._result is not None and self._events else None

    @property
    def published_sequences(self) -> Iterator[int]:
        """The sequence numbers of the events, which wrap to 0; empty if the batch is not known to be published."""
        return iter([each.published_sequence for each in self._events if each.published_sequence is not None])

    def check_open(self) -> None:
        """Raise AlreadyUsed if the batch is known to be published."""
        if self._result is not None:
            raise AlreadyUsed.of("already-published", partition=self.partition, sequence=self._result.first_sequence)

    def begin_sending(self) -> None:
        """Accept no more events.

        Raises:
            Conflict: The batch is being sent already.
        """
        if self._sending:
            raise Conflict("this batch is being sent already")
        self._sending = True

    def __repr__(self) -> str:
        return f"EventBatch({self.event_type!r}, partition={self.partition}, count={self.count})"

    def end_sending(self, result: PublishResult | None) -> None:
        """Record the result; None means a failure, after which the batch accepts events again."""
        self._sending = False
        self._result = result
