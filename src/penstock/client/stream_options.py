"""How a consumer wants the events of a subscription: the parameters of its streams."""

from collections.abc import Collection
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Final, TypedDict

from penstock.core.subscriptions.assignment import Place
from penstock.errors import BadParameter

BATCHES_AHEAD: Final = 10
"""So many whole batches may be sent ahead of what is committed, unless it is said otherwise."""
ALONE_TIMES: Final = 2
"""A stream without a partition says nothing for so many commit timeouts."""


class StreamOptions(TypedDict, total=False):
    """Options of a subscription's streams; see `StreamWish`."""

    batch_limit: int
    batch_flush_timeout: int
    batch_timespan: int
    max_uncommitted_events: int
    partitions: Collection[Place]
    commit_timeout: int
    stream_timeout: int
    stream_limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWish:
    """How a consumer wants its events. Times are seconds."""

    batch_limit: int = 100
    """How many events make a batch; …"""
    batch_flush_timeout: int = 1
    """… a smaller one comes after so long. With a batch_limit of 1 each event comes at once."""
    batch_timespan: int = 0
    """A batch spans no more than so long a time in which its events were received; 0: any."""
    max_uncommitted_events: int = 0
    """How far what is sent may be ahead of what is committed, over all partitions; 0: ten whole batches."""
    partitions: Collection[Place] = ()
    """The partitions that it wants for itself, as pairs of event type and number; none: its share of the rest."""
    commit_timeout: int = 60
    """So long after the last commit a stream ends of which anything is uncommitted, unless its lease is extended."""
    stream_timeout: int = 0
    """A stream ends after so long; 0: after about an hour."""
    stream_limit: int = 0
    """A stream ends once so many events are sent and committed; 0: it does not."""

    def __post_init__(self) -> None:
        for name, least in (("batch_limit", 1), ("batch_flush_timeout", 1), ("commit_timeout", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise BadParameter(parameter=name, value=value, allowed=f"a whole number, {least} or more")
        for name in ("batch_timespan", "max_uncommitted_events", "stream_timeout", "stream_limit"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise BadParameter(parameter=name, value=value, allowed="a whole number, 0 or more")

    @property
    def silence(self) -> float:
        """How long a stream that is alive may say nothing."""
        return float(max(self.batch_flush_timeout, ALONE_TIMES * self.commit_timeout))

    def members(self) -> dict[str, Any]:
        """Return what a hub is asked for.

        >>> StreamWish(batch_limit=5, partitions=[("a.b", 3)]).members()["partitions"]
        [{'event_type': 'a.b', 'partition': '3'}]
        """
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        found["max_uncommitted_events"] = self.max_uncommitted_events or BATCHES_AHEAD * self.batch_limit
        found["partitions"] = [
            {"event_type": name, "partition": str(partition)} for name, partition in sorted(self.partitions)
        ]
        return {name: value for name, value in found.items() if value}


def stream_wish(options: StreamOptions) -> StreamWish:
    """Return how events are wanted.

    Raises:
        TypeError: one of them is no option, and probably mistyped.
        BadParameter: a number makes no sense.

    >>> stream_wish({"batch_limit": 10}).batch_limit
    10
    """
    known = StreamOptions.__annotations__
    for stranger in options.keys() - known.keys():
        close = get_close_matches(stranger, known, 1)
        asks = f"; did you mean {close[0]!r}?" if close else f", which has {', '.join(known)}"
        raise TypeError(f"{stranger!r} is no option of a subscription's stream{asks}")
    return StreamWish(**options)
