"""A source that filters the events of another; positions move past omitted events."""

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from re import Pattern
from typing import Final, TypeAlias

from penstock.client.concurrency import Closing
from penstock.errors import BadParameter
from penstock.processing.engine.tranche import Batch, Position
from penstock.processing.parameters import check_flag
from penstock.processing.sources.source import ReadRequest, Source, check_source

REMEMBERED: Final = 65_536
"""The size of the LRU cache of names."""
_ALLOWED: Final = "a list of names or regular expressions"
_NAME: Final = re.compile(r"[\w.:-]+", re.ASCII)


class Names:
    """A filter of names: the allowed ones without the excepted ones; without allowed ones, all but the excepted.

    Args:
        what: The kind of things with these names, for errors and logs.
        allowed: Names, and regular expressions that match a part of a name.
        excepted: Likewise.

    Raises:
        BadParameter: a value is no regular expression.
    """

    def __init__(
        self, what: str, allowed: Iterable[str | Pattern[str]] = (), excepted: Iterable[str | Pattern[str]] = ()
    ) -> None:
        self._what = what
        self._allowed = _compile_all(what, allowed)
        self._excepted = _compile_all(f"except_{what}", excepted)
        self.allow = lru_cache(REMEMBERED)(self._allow)
        """Returns whether a name passes."""

    def __reduce__(self) -> tuple[type, tuple[str, list[Pattern[str]], list[Pattern[str]]]]:
        return Names, (self._what, self._allowed, self._excepted)  # The cache is not sent.

    def __bool__(self) -> bool:
        """Return whether the filter restricts names."""
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


def find_category(stream: str, tranche: str) -> str:
    """Return the category of a stream: the event type of its feed, or else the beginning of its name.

    >>> find_category("order-line.placed-7", "order-line.placed/3"), find_category("order-7-a", "0")
    ('order-line.placed', 'order')
    """
    event_type, slash, _ = tranche.rpartition("/")
    if slash and stream.startswith(f"{event_type}-"):
        return event_type
    return stream.partition("-")[0]


def _compile_all(parameter: str, given: Iterable[str | Pattern[str]]) -> list[Pattern[str]]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise BadParameter(parameter=parameter, value=given, allowed=_ALLOWED)
    return [_compile(parameter, each) for each in given]


def _compile(parameter: str, given: str | Pattern[str]) -> Pattern[str]:
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
"""The prefix of names of the store's own streams."""
Wanted: TypeAlias = Iterable[str | Pattern[str]]


class Selection:
    """A filter of events by allowed and excepted names. It can be sent to other processes.

    Raises:
        BadParameter: a value is no regular expression.
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
        """The filter of kinds; false if all kinds pass."""
        self._includes_system = include_system

    def __str__(self) -> str:
        rules = [str(each) for each in (self._event_types, self._streams, self.kinds) if each]
        rules += [] if self._includes_system else [f"streams: not {SYSTEM}…"]
        return "; ".join(rules) or "all"

    def allows(self, stream: str, kind: str, tranche: str) -> bool:
        """Return whether an event of a *kind*, in a stream read from a *tranche*, passes."""
        if not self._includes_system and stream.startswith(SYSTEM):
            return False
        if self.kinds and not self.kinds.allow(kind):
            return False
        if self._event_types and not self._event_types.allow(find_category(stream, tranche)):
            return False
        return not self._streams or self._streams.allow(stream)


_log: Final = logging.getLogger("penstock.processing")


class Filtered(Closing):
    """A source with the selected events of another: the allowed ones without the excepted ones.

    A text of letters, digits and `_ . : -` is a complete name; any other text, and a result of `re.compile`, is a
    regular expression that matches a part of a name: `^order[.]`. Without arguments, all events are selected.

    Args:
        source: The source to read.
        event_types: The event types (categories) of allowed streams.
        streams: The names of allowed streams.
        kinds: The kinds of allowed events.
        except_event_types: Event types to omit of these.
        except_streams: Streams to omit.
        except_kinds: Kinds to omit.
        include_system: True: also streams whose names begin with `$`.

    Raises:
        BadParameter: the source is none, or another argument is no regular expression.
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
        """True if indices have no gaps: not if a filter of kinds omits events of a stream."""
        return self.inner.is_dense and not self._selection.kinds

    @property
    def is_by_stream(self) -> bool:
        """True if an index is its stream's own, as in the source."""
        return self.inner.is_by_stream

    @property
    def is_replayable(self) -> bool:
        """True if events can be read again."""
        return self.inner.is_replayable

    @property
    def is_closed(self) -> bool:
        """True if the source is closed."""
        return getattr(self.inner, "is_closed", False)

    def tranches(self) -> Collection[str]:
        """Return the present tranches, selected or not."""
        return self.inner.tranches()

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        """Return the first position in a tranche for a processor that has none."""
        return self.inner.beginning(tranche, kept)

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return the selected events that follow; an empty batch moves the position, too."""
        return [self._filter(batch) for batch in self.inner.read(wants, timeout)]

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Read a tranche again from an earlier position, and return the selected events."""
        return self._filter(self.inner.reread(tranche, want))

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events each tranche has behind its position now, selected or not."""
        return self.inner.behind(positions)

    def close(self) -> None:
        """End, and wake the reading thread."""
        self.inner.close()

    def _filter(self, batch: Batch) -> Batch:
        allows, tranche = self._selection.allows, batch.tranche
        wanted = [item for item in batch.items if allows(item.stream, getattr(item, "kind", ""), tranche)]
        return batch._replace(items=wanted)
