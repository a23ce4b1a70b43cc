"""A source of which only some events are handled; positions go on over what is left out."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from re import Pattern
from typing import Any, Final, TypeAlias

from penstock.client.closing import Closing
from penstock.processing.engine.item import Batch, Item, Position
from penstock.processing.sources.names import Names, category_of
from penstock.processing.sources.source import Source, Want

SYSTEM: Final = "$"
"""Streams whose names begin so are the store's own."""
Wanted: TypeAlias = Iterable[str | Pattern[str]]
_log: Final = logging.getLogger("penstock.processing")


class Filtered(Closing):
    """The events of a source that are wanted: those that are allowed, without those that are excepted.

    A text of letters, digits and `_ . : -` is a name, all of it; any other is a regular expression, as is what
    `re.compile` gives, and it is enough that a part of the name matches: `^order[.]`. Where nothing is said, all
    are wanted.

    Args:
        source: What is read.
        event_types, streams, kinds: What is wanted, by the event types (categories) of streams, by their names, and by
            the kinds of events.
        except_event_types, except_streams, except_kinds: What of that is not.
        include_system: Whether streams are wanted, too, whose names begin with `$`.

    Raises:
        BadParameter: one of them is no regular expression.
    """

    def __init__(
        self,
        source: Source,
        *,
        event_types: Wanted = (),
        streams: Wanted = (),
        kinds: Wanted = (),
        except_event_types: Wanted = (),
        except_streams: Wanted = (),
        except_kinds: Wanted = (),
        include_system: bool = False,
    ) -> None:
        self._source = source
        self._event_types = Names("event_types", event_types, except_event_types)
        self._streams = Names("streams", streams, except_streams)
        self._kinds = Names("kinds", kinds, except_kinds)
        self._includes_system = include_system
        rules = [str(each) for each in (self._event_types, self._streams, self._kinds) if each]
        rules += [] if include_system else [f"streams: not {SYSTEM}…"]
        _log.info("of what %s has, is handled: %s", type(source).__name__, "; ".join(rules) or "all")

    @property
    def is_dense(self) -> bool:
        """Whether indices follow each other without gaps: not where some kinds of a stream's events are left out."""
        return self._source.is_dense and not self._kinds

    @property
    def is_replayable(self) -> bool:
        """Whether what was read can be read again."""
        return self._source.is_replayable

    def tranches(self) -> Collection[str]:
        """Return the tranches that there are now, wanted or not."""
        return self._source.tranches()

    def beginning(self, tranche: str) -> Position:
        """Return where a processor begins that has no position in a tranche."""
        return self._source.beginning(tranche)

    def read(self, wants: Mapping[str, Want], wait_s: float) -> Sequence[Batch]:
        """Return what is wanted of what follows; a batch may have nothing left, and moves the position all the same."""
        return [self._sifted(batch) for batch in self._source.read(wants, wait_s)]

    def reread(self, tranche: str, want: Want) -> Batch:
        """Return what is wanted of what a tranche has from an earlier position on."""
        return self._sifted(self._source.reread(tranche, want))

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events each tranche has behind its position now, wanted or not."""
        return self._source.behind(positions)

    def close(self) -> None:
        """End; who is reading is woken."""
        self._source.close()

    def _sifted(self, batch: Batch) -> Batch:
        return batch._replace(items=[item for item in batch.items if self._wants(item, batch.tranche)])

    def _wants(self, item: Item, tranche: str) -> bool:
        stream = item.stream
        if not self._includes_system and stream.startswith(SYSTEM):
            return False
        if self._kinds and not self._kinds.allow(_kind_of(item)):
            return False
        if self._event_types and not self._event_types.allow(category_of(stream, tranche)):
            return False
        return not self._streams or self._streams.allow(stream)


def _kind_of(item: Any) -> str:
    return str(item.kind)
