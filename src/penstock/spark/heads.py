"""The extent of a feed, and the offsets at which a query begins or ends."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from penstock.errors import EventsLost, Unavailable
from penstock.spark.offsets import FeedPlace
from penstock.spark.options import EARLIEST, LATEST, Asked, AskedOffsets, AskedTime, bad_option
from penstock.wire.log.nakadi import parse_offset

_log: Final = logging.getLogger("penstock.spark")


def report_loss(fail: bool, *, event_type: str, partition: int | None, lost: int | None, reason: str) -> None:
    """Raise EventsLost, or, unless *fail*, log it as a warning and return.

    Args:
        fail: The option failOnDataLoss.
        event_type: The feed.
        partition: The partition; None: all of them.
        lost: The number of lost events; None: unknown.
        reason: Why they are gone.
    """
    where = "all partitions" if partition is None else f"partition {partition}"
    count = "an unknown number of" if lost is None else str(lost)
    detail = f"{count} events of {event_type!r}, {where}, can no longer be read: {reason}"
    if fail:
        raise EventsLost(detail, event_type=event_type, partition=partition, lost=lost, reason=reason)
    _log.warning("%s; going on without them (failOnDataLoss=false)", detail)


Wanted: TypeAlias = Literal["earliest", "latest"] | dict[str, AskedOffsets]
"""The offsets that an option requests."""


class Heads(NamedTuple):
    """The ends of a feed's partitions."""

    epoch: int
    floors: tuple[int, ...]
    """By partition: the offset of the first event that is still there."""
    nexts: tuple[int, ...]
    """By partition: the offset that the next event will have."""


def parse_heads(event_type: str, partitions: list[dict[str, Any]]) -> Heads:
    """Read what the hub says of the partitions of *event_type*.

    Raises:
        Unavailable: it is just being created or deleted.
        KeyError, TypeError, BadCursor: it is not what a hub answers.
    """
    known = {int(each["partition"]): each for each in partitions}
    if not known or sorted(known) != list(range(len(known))):
        raise Unavailable(reason=f"the partitions of {event_type!r} are changing")
    oldest = [parse_offset(known[partition]["oldest_available_offset"]) for partition in range(len(known))]
    newest = [parse_offset(known[partition]["newest_available_offset"]) for partition in range(len(known))]
    return Heads(oldest[0][0], tuple(offset for _, offset in oldest), tuple(offset + 1 for _, offset in newest))


def at_offsets(asked: Asked, event_types: Iterable[str], since: Callable[[str, str], AskedOffsets]) -> Wanted:
    """Return what an option asks for with offsets in place of times; *since* says which they are of an event type."""
    if isinstance(asked, str):
        return asked
    by_type = dict.fromkeys(event_types, asked) if isinstance(asked, AskedTime) else asked
    return {
        event_type: since(event_type, each.text) if isinstance(each, AskedTime) else each
        for event_type, each in by_type.items()
    }


def beginning(asked: Wanted, heads: Mapping[str, Heads], *, fail_on_loss: bool) -> dict[str, FeedPlace]:
    """Return where startingOffsets says that a query begins.

    Raises:
        BadParameter: it names what is not there.
        EventsLost: it names events that are gone, and that is to fail.
    """
    places = {}
    for event_type, ends in heads.items():
        default = ends.nexts if asked == "latest" else ends.floors
        offsets = default
        if isinstance(asked, dict) and event_type in asked:
            offsets = _chosen("startingOffsets", event_type, asked[event_type], ends, default)
            place = FeedPlace(asked[event_type].epoch or ends.epoch, offsets)
            offsets = settle(event_type, place, ends, fail_on_loss=fail_on_loss)
        places[event_type] = FeedPlace(ends.epoch, offsets)
    return places


def ending(asked: Wanted, starts: Mapping[str, FeedPlace], heads: Mapping[str, Heads]) -> dict[str, FeedPlace]:
    """Return where endingOffsets says that a batch ends.

    Raises:
        BadParameter: it names what is not there, or lies before the beginning.
    """
    places = {}
    for event_type, ends in heads.items():
        offsets = ends.nexts
        if isinstance(asked, dict) and event_type in asked:
            offsets = _chosen("endingOffsets", event_type, asked[event_type], ends, ends.nexts)
            if asked[event_type].epoch not in (None, ends.epoch):
                raise bad_option("endingOffsets", asked[event_type].epoch, f"epoch {ends.epoch} of {event_type!r}")
        for partition, (start, end) in enumerate(zip(starts[event_type].offsets, offsets, strict=True)):
            if end < start:
                allowed = f"for partition {partition} of {event_type!r}, {start} or more: it begins there"
                raise bad_option("endingOffsets", end, allowed)
        places[event_type] = FeedPlace(ends.epoch, offsets)
    return places


def settle(event_type: str, start: FeedPlace, heads: Heads, *, fail_on_loss: bool) -> tuple[int, ...]:
    """Return, by partition, where reading goes on after *start*: there, or where it can after events were lost.

    A partition that was added since begins at its first event.

    Raises:
        EventsLost: events are gone that were not read, and that is to fail.
    """
    if start.epoch != heads.epoch:
        reason = explain_new_epoch(start.epoch, heads.epoch)
        report_loss(fail_on_loss, event_type=event_type, partition=None, lost=None, reason=reason)
        return heads.floors
    added = (0,) * (len(heads.nexts) - len(start.offsets))
    offsets = []
    for partition, offset in enumerate(start.offsets[: len(heads.nexts)] + added):
        floor, head = heads.floors[partition], heads.nexts[partition]
        at = min(max(offset, floor), head)
        if at != offset:
            reason = "retention has removed them" if at > offset else f"the partition ends at offset {head}"
            report_loss(fail_on_loss, event_type=event_type, partition=partition, lost=abs(at - offset), reason=reason)
        offsets.append(at)
    return tuple(offsets)


def raise_heads(heads: Heads, place: FeedPlace | None) -> Heads:
    """Return *heads* raised to *place*, which the feed is known to have reached.

    >>> raise_heads(Heads(1, (0, 0), (7, 4)), FeedPlace(1, (9, 2))).nexts
    (9, 4)
    """
    if place is None or place.epoch != heads.epoch:
        return heads
    seen = place.offsets + (0,) * (len(heads.nexts) - len(place.offsets))
    return heads._replace(nexts=tuple(map(max, heads.nexts, seen)))


def explain_new_epoch(was: int, now: int) -> str:
    """Return why events of the epoch *was* are gone."""
    return f"the feed was created again, or a backup was put back: its epoch was {was} and is {now} now"


def _chosen(
    option: str, event_type: str, asked: AskedOffsets, heads: Heads, default: tuple[int, ...]
) -> tuple[int, ...]:
    count = len(heads.nexts)
    for partition, offset in asked.offsets.items():
        if partition >= count:
            raise bad_option(option, partition, f"partitions 0 to {count - 1} of {event_type!r}")
        if offset > heads.nexts[partition] and asked.epoch in (None, heads.epoch):
            allowed = f"for partition {partition} of {event_type!r}, up to {heads.nexts[partition]}, where it ends"
            raise bad_option(option, offset, allowed)
    words = {EARLIEST: heads.floors, LATEST: heads.nexts}
    chosen: list[int] = []
    for partition in range(count):
        wanted = asked.offsets.get(partition)
        if wanted is None:
            wanted = default[partition]
        chosen.append(words[wanted][partition] if wanted in words else wanted)
    return tuple(chosen)
