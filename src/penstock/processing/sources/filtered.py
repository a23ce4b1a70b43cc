"""A source of which only some events are handled; positions go on over what is left out."""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Unpack

from penstock.client.concurrency import Closing
from penstock.processing.engine.item import Batch, Position
from penstock.processing.sources.selection import Selection, SelectionOptions
from penstock.processing.sources.source import Source, Want, check_source

_log: Final = logging.getLogger("penstock.processing")


class Filtered(Closing):
    """The events of a source that are wanted: those that are allowed, without those that are excepted.

    A text of letters, digits and `_ . : -` is a name, all of it; any other is a regular expression, as is what
    `re.compile` gives, and it is enough that a part of the name matches: `^order[.]`. Where nothing is said, all
    are wanted.

    Args:
        source: What is read.
        wanted: `event_types`, `streams` and `kinds` that are wanted, what of that is not with `except_` before it, and
            `include_system`: see `SelectionOptions`.

    Raises:
        BadParameter: the source is none, or one of the others is no regular expression.
    """

    def __init__(self, source: Source, **wanted: Unpack[SelectionOptions]) -> None:
        check_source(source)
        self.inner = source
        self._selection = Selection(**wanted)
        _log.info("of what %s has, is handled: %s", type(source).__name__, self._selection)

    @property
    def is_dense(self) -> bool:
        """Whether indices follow each other without gaps: not where some kinds of a stream's events are left out."""
        return self.inner.is_dense and not self._selection.kinds

    @property
    def is_by_stream(self) -> bool:
        """Whether an index is its stream's own: as in the source, whatever is left out of it."""
        return self.inner.is_by_stream

    @property
    def is_replayable(self) -> bool:
        """Whether what was read can be read again."""
        return self.inner.is_replayable

    @property
    def is_closed(self) -> bool:
        """Whether the source has ended."""
        return getattr(self.inner, "is_closed", False)

    def tranches(self) -> Collection[str]:
        """Return the tranches that there are now, wanted or not."""
        return self.inner.tranches()

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        """Return where a processor begins that has no position in a tranche."""
        return self.inner.beginning(tranche, kept)

    def read(self, wants: Mapping[str, Want], timeout: float) -> Sequence[Batch]:
        """Return what is wanted of what follows; a batch may have nothing left, and moves the position all the same."""
        return [self._sifted(batch) for batch in self.inner.read(wants, timeout)]

    def reread(self, tranche: str, want: Want) -> Batch:
        """Return what is wanted of what a tranche has from an earlier position on."""
        return self._sifted(self.inner.reread(tranche, want))

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events each tranche has behind its position now, wanted or not."""
        return self.inner.behind(positions)

    def close(self) -> None:
        """End; who is reading is woken."""
        self.inner.close()

    def _sifted(self, batch: Batch) -> Batch:
        allows, tranche = self._selection.allows, batch.tranche
        wanted = [item for item in batch.items if allows(item.stream, getattr(item, "kind", ""), tranche)]
        return batch._replace(items=wanted)
