"""Sources: the tranches that a processor reads, each from its position on."""

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from penstock.client.concurrency import Closing
from penstock.errors import BadParameter
from penstock.processing.engine.tranche import Batch, Position
from penstock.processing.parameters import check_members

_ALLOWED: Final = "a source, such as FeedSource(url, 'order.placed')"


class ReadRequest(NamedTuple):
    """A request for events of a tranche."""

    position: Position
    """The position to read from."""
    events_max: int
    """The maximum number of events."""


class Source(Protocol):
    """Provides events in tranches. One thread at a time reads it; others may call `behind`."""

    @property
    def is_dense(self) -> bool:
        """True if the indices of a stream have no gaps, from 0 on, over all tranches.

        Then the source must return a stream's events in the order of indices, over all tranches; or the processor needs
        `require_all`, which projections cannot have. Otherwise an event behind a later one counts as a repeat, and is
        never handled: a tranche may be delayed while others continue.

        Indices that are not dense grow, from 0 on or later.
        """
        ...

    @property
    def is_by_stream(self) -> bool:
        """True if indices are those of the stream, and not of the tranche, so that two streams may have the same.

        This holds for dense indices, and for a filtered part of events with dense indices.
        """
        ...

    @property
    def is_replayable(self) -> bool:
        """True if events can be read again, so that streams can be parked."""
        ...

    def tranches(self) -> Collection[str]:
        """Return the present tranches; more may be added."""
        ...

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        """Return the first position in a tranche for a processor that has none.

        If it has positions in others, those in *kept*, this tranche is new: it is read from its start.
        """
        ...

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return the next events, at most one batch of each tranche, or its parts; wait *timeout* if there are none.

        A batch without events says that there are none up to its end.
        """
        ...

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Read a tranche again from an earlier position.

        Raises:
            EventsLost: the events cannot be read again.
        """
        ...

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events each tranche has behind its position now; None: unknown.

        For a tranche without a position all its events count. A processor calls it every few seconds, and so detects an
        unavailable source.

        Raises:
            PenstockError: the source is unavailable, which is not waited for.
        """
        ...

    def close(self) -> None:
        """End, and wake the reading thread."""
        ...


def check_source(value: Any) -> None:
    """Raise BadParameter if *value* lacks members of a source, or is closed."""
    check_members("source", value, Source, _ALLOWED)
    if getattr(value, "is_closed", False):
        allowed = "one that is not closed: a processor closes its source when it ends. Make another, as the first was"
        raise BadParameter(parameter="source", value=f"a {type(value).__name__}", allowed=allowed)


class Closable(Closing):
    """Base of sources that are closed by setting `_closed`."""

    _closed: threading.Event

    @property
    def is_closed(self) -> bool:
        """True if it is closed: no processor can start with it."""
        return self._closed.is_set()
