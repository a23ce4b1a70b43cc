"""Which events of a source are wanted: by the event types and names of their streams, and by their kinds."""

from collections.abc import Iterable
from re import Pattern
from typing import Final, TypeAlias, TypedDict, Unpack

from penstock.errors import BadParameter
from penstock.processing.parameters import check_flag
from penstock.processing.sources.names import Names, category_of

SYSTEM: Final = "$"
"""Streams whose names begin so are the store's own."""
Wanted: TypeAlias = Iterable[str | Pattern[str]]


class SelectionOptions(TypedDict, total=False):
    """What can be said of the events that are wanted. Where nothing is said, all are."""

    event_types: Wanted
    """The event types (categories) of streams."""
    streams: Wanted
    """Their names."""
    kinds: Wanted
    """The kinds of events."""
    except_event_types: Wanted
    except_streams: Wanted
    except_kinds: Wanted
    """What of that is not wanted."""
    include_system: bool
    """Whether streams are wanted, too, whose names begin with `$`."""


class Selection:
    """What is allowed, without what is excepted. It can be sent to other processes.

    Raises:
        BadParameter: one of them is no regular expression, or there is no such option.
    """

    def __init__(self, **wanted: Unpack[SelectionOptions]) -> None:
        if strange := wanted.keys() - SelectionOptions.__annotations__.keys():
            allowed = f"one of {', '.join(SelectionOptions.__annotations__)}"
            raise BadParameter(parameter="wanted", value=min(strange), allowed=allowed)
        check_flag("include_system", wanted.get("include_system", False))
        self._event_types = Names("event_types", wanted.get("event_types", ()), wanted.get("except_event_types", ()))
        self._streams = Names("streams", wanted.get("streams", ()), wanted.get("except_streams", ()))
        self.kinds = Names("kinds", wanted.get("kinds", ()), wanted.get("except_kinds", ()))
        """Which kinds; it is false where all are wanted."""
        self._includes_system = wanted.get("include_system", False)

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
