"""What a processor reads: tranches, each from its position on."""

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from penstock.client.concurrency import Closing
from penstock.errors import BadParameter
from penstock.processing.engine.item import Batch, Position
from penstock.processing.parameters import check_members

_ALLOWED: Final = "a source, such as FeedSource(url, 'order.placed')"


class ReadRequest(NamedTuple):
    """What is wanted of a tranche."""

    position: Position
    """From where on."""
    events_max: int
    """How many events at most."""


class Source(Protocol):
    """Something that has events in tranches. One thread at a time reads of it; others may ask how far behind it is."""

    @property
    def is_dense(self) -> bool:
        """Whether the indices of a stream follow each other without gaps, from 0 on, whichever tranche they lie in.

        Then its events have to be given in the order of their indices, over all tranches; or the processor needs
        `require_all`, which projections cannot have. Else one that comes after a later one counts as a repeat, and is
        handled never: a tranche may be held up while others go on.

        Where they are not dense they grow, from 0 on or later.
        """
        ...

    @property
    def is_by_stream(self) -> bool:
        """Whether an index is its stream's own, and not the tranche's, so that two streams may have the same.

        Where indices are dense it is, and so it is where only some of such events are left.
        """
        ...

    @property
    def is_replayable(self) -> bool:
        """Whether what was read can be read again: streams can be parked."""
        ...

    def tranches(self) -> Collection[str]:
        """Return the tranches that there are now; more may come."""
        ...

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        """Return where a processor begins that has no position in a tranche.

        Where it has one in others, those in *kept*, this tranche has come since: it is begun with at its start.
        """
        ...

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return what follows, at most one batch of each tranche, or its parts; wait *timeout* where there is nothing.

        A batch without events tells that there are none up to its end.
        """
        ...

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Return what a tranche has from an earlier position on.

        Raises:
            EventsLost: it cannot be read again.
        """
        ...

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events each tranche has behind its position now; None: nobody can tell.

        Tranches that have no position are behind with all that they have. A processor asks every few seconds, and so
        finds out whether the source is there.

        Raises:
            PenstockError: the source cannot say it now. Nothing is waited for that is away.
        """
        ...

    def close(self) -> None:
        """End; who is reading is woken."""
        ...


def check_source(value: Any) -> None:
    """Raise BadParameter unless *value* is a source, as far as that can be told, and is not closed."""
    check_members("source", value, Source, _ALLOWED)
    if getattr(value, "is_closed", False):
        allowed = "one that is not closed: a processor closes its source when it ends. Make another, as the first was"
        raise BadParameter(parameter="source", value=f"a {type(value).__name__}", allowed=allowed)


class Closable(Closing):
    """A source that is closed by setting `_closed`."""

    _closed: threading.Event

    @property
    def is_closed(self) -> bool:
        """Whether it has ended: no processor can begin with it any more."""
        return self._closed.is_set()
