"""A source of which only some events are handled; positions go on over what is left out."""

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from re import Pattern
from typing import Final, TypeAlias

from penstock.client.concurrency import Closing
from penstock.errors import BadParameter
from penstock.processing.engine.item import Batch, Position
from penstock.processing.parameters import check_flag
from penstock.processing.sources.source import ReadRequest, Source, check_source

REMEMBERED: Final = 65_536
"""Of so many names it is remembered whether they are wanted."""
_ALLOWED: Final = "a list of names or regular expressions"
_NAME: Final = re.compile(r"[\w.:-]+", re.ASCII)


class Names:
    """The names that are allowed, without those that are excepted; all, where nothing is allowed by name.

    Args:
        what: What is named, for errors and logs.
        allowed: Names, and regular expressions of which it is enough that they match a part of one.
        excepted: Likewise.

    Raises:
        BadParameter: one of them is no regular expression.
    """

    def __init__(
        self, what: str, allowed: Iterable[str | Pattern[str]] = (), excepted: Iterable[str | Pattern[str]] = ()
    ) -> None:
        self._what = what
        self._allowed = _patterns(what, allowed)
        self._excepted = _patterns(f"except_{what}", excepted)
        self.allow = lru_cache(REMEMBERED)(self._allow)
        """Tells whether a name is wanted."""

    def __reduce__(self) -> tuple[type, tuple[str, list[Pattern[str]], list[Pattern[str]]]]:
        return Names, (self._what, self._allowed, self._excepted)  # What is remembered of names stays where it is.

    def __bool__(self) -> bool:
        """Whether anything is said at all."""
        return bool(self._allowed or self._excepted)

    def __str__(self) -> str:
        allowed, excepted = (
            ", ".join(each.pattern for each in patterns) for patterns in (self._allowed, self._excepted)
        )
        return f"{self._what}: {allowed or 'all'}{f', not {excepted}' if excepted else ''}"

    def _allow(self, name: str) -> bool:
        if self._allowed and not any(each.search(name) for each in self._allowed):
            return False
        return not any(each.search(name) for each in self._excepted)


def category_of(stream: str, tranche: str) -> str:
    """Return what a stream is of: the event type of the feed that it was read from, or what its name begins with.

    >>> category_of("order-line.placed-7", "order-line.placed/3"), category_of("order-7-a", "0")
    ('order-line.placed', 'order')
    """
    event_type, slash, _ = tranche.rpartition("/")
    if slash and stream.startswith(f"{event_type}-"):
        return event_type
    return stream.partition("-")[0]


def _patterns(parameter: str, given: Iterable[str | Pattern[str]]) -> list[Pattern[str]]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise BadParameter(parameter=parameter, value=given, allowed=_ALLOWED)
    return [_pattern(parameter, each) for each in given]


def _pattern(parameter: str, given: str | Pattern[str]) -> Pattern[str]:
    if isinstance(given, re.Pattern):
        return given
    if not isinstance(given, str):
        raise BadParameter(parameter=parameter, value=given, allowed=_ALLOWED)
    if _NAME.fullmatch(given):
        return re.compile(f"^{re.escape(given)}\\Z")
    try:
        return re.compile(given)
    except re.error as error:
        raise BadParameter(
            parameter=parameter, value=given, allowed=f"a name, or a regular expression: {error}"
        ) from None


SYSTEM: Final = "$"
"""Streams whose names begin so are the store's own."""
Wanted: TypeAlias = Iterable[str | Pattern[str]]


class Selection:
    """What is allowed, without what is excepted. It can be sent to other processes.

    Raises:
        BadParameter: one of them is no regular expression.
    """

    def __init__(
        self,
        *,
        event_types: Wanted = (),
        streams: Wanted = (),
        kinds: Wanted = (),
        except_event_types: Wanted = (),
        except_streams: Wanted = (),
        except_kinds: Wanted = (),
        include_system: bool = False,
    ) -> None:
        check_flag("include_system", include_system)
        self._event_types = Names("event_types", event_types, except_event_types)
        self._streams = Names("streams", streams, except_streams)
        self.kinds = Names("kinds", kinds, except_kinds)
        """Which kinds; it is false where all are wanted."""
        self._includes_system = include_system

    def __str__(self) -> str:
        rules = [str(each) for each in (self._event_types, self._streams, self.kinds) if each]
        rules += [] if self._includes_system else [f"streams: not {SYSTEM}…"]
        return "; ".join(rules) or "all"

    def allows(self, stream: str, kind: str, tranche: str) -> bool:
        """Tell whether an event is wanted that is of a *kind*, in a stream that was read in a *tranche*."""
        if not self._includes_system and stream.startswith(SYSTEM):
            return False
        if self.kinds and not self.kinds.allow(kind):
            return False
        if self._event_types and not self._event_types.allow(category_of(stream, tranche)):
            return False
        return not self._streams or self._streams.allow(stream)


_log: Final = logging.getLogger("penstock.processing")


class Filtered(Closing):
    """The events of a source that are wanted: those that are allowed, without those that are excepted.

    A text of letters, digits and `_ . : -` is a name, all of it; any other is a regular expression, as is what
    `re.compile` gives, and it is enough that a part of the name matches: `^order[.]`. Where nothing is said, all
    are wanted.

    Args:
        source: What is read.
        event_types: The event types (categories) of streams that are wanted.
        streams: The names of streams that are wanted.
        kinds: The kinds of events that are wanted.
        except_event_types: Event types that are not wanted, though they are among these.
        except_streams: Streams that are not wanted.
        except_kinds: Kinds that are not wanted.
        include_system: Whether streams are wanted, too, whose names begin with `$`.

    Raises:
        BadParameter: the source is none, or one of the others is no regular expression.
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
        check_source(source)
        self.inner = source
        self._selection = Selection(
            event_types=event_types, streams=streams, kinds=kinds, except_event_types=except_event_types,
            except_streams=except_streams, except_kinds=except_kinds, include_system=include_system,
        )  # fmt: skip
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

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return what is wanted of what follows; a batch may have nothing left, and moves the position all the same."""
        return [self._sifted(batch) for batch in self.inner.read(wants, timeout)]

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
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
