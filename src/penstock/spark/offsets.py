"""Spark's offsets: readable JSON by event type and partition, and the places that it stands for.

    {"order.placed": {"epoch": 1, "0": 17, "1": 4}}

is where a micro-batch ends: the offset wanted next of each partition, in the first life of the feed.

Spark keeps where each micro-batch ends, and takes it that the next begins there. That is not so for the first one of a
query, whose beginning Spark forgets, nor after events were lost. There the end says where its batch begins:

    {"order.placed": {"epoch": 1, "0": 17, "1": 4, "from": {"epoch": 1, "0": 9, "1": 0}}}

Beside that it may say which version of the schema its columns were made of (`schema`), and up to which one the resets
of its consumer group have been heeded (`reset`).

Invariants:
    A micro-batch that is planned again has the same ranges, whatever has happened to the feed since.
"""

from typing import Any, Final, NamedTuple

from penstock.errors import BadParameter

MARKS: Final = frozenset(["epoch", "from", "schema", "reset"])
"""Members beside the partitions."""


class FeedPlace(NamedTuple):
    """A place in one feed."""

    epoch: int
    """Which life of the feed it is in: deleted and created again, or put back from a backup, it is in another."""
    offsets: tuple[int, ...]
    """By partition: the offset wanted next."""
    begun: "FeedPlace | None" = None
    """Where the micro-batch that ends here began, where that is not the end of the one before."""
    schema: str | None = None
    """The version of the event type's schema of which the columns were made; None: none was."""
    reset: int | None = None
    """The newest reset of the consumer group that was heeded; None: the query has no group."""


def encode_places(places: dict[str, FeedPlace]) -> dict[str, Any]:
    """Return the offset that Spark keeps.

    >>> encode_places({"order.placed": FeedPlace(1, (17, 4), FeedPlace(1, (9, 0)))})
    {'order.placed': {'epoch': 1, '0': 17, '1': 4, 'from': {'epoch': 1, '0': 9, '1': 0}}}
    """
    return {event_type: _encode(place) for event_type, place in places.items()}


def decode_places(given: dict[str, Any]) -> dict[str, FeedPlace]:
    """Read an offset that Spark has kept.

    Raises:
        BadParameter: it is not one of ours.

    >>> decode_places({"order.placed": {"epoch": 1, "0": 17, "1": 4}})
    {'order.placed': FeedPlace(epoch=1, offsets=(17, 4), begun=None, schema=None, reset=None)}
    """
    try:
        return {event_type: _decode(place) for event_type, place in given.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BadParameter(
            f"the checkpoint holds an offset that is not one of format('penstock'): {given!r}",
            parameter="offset",
            value=given,
            allowed='offsets such as {"order.placed": {"epoch": 1, "0": 17}}',
        ) from None


def _encode(place: FeedPlace) -> dict[str, Any]:
    encoded: dict[str, Any] = {"epoch": place.epoch}
    encoded |= {str(partition): offset for partition, offset in enumerate(place.offsets)}
    encoded |= {name: mark for name, mark in (("schema", place.schema), ("reset", place.reset)) if mark is not None}
    if place.begun is not None:
        encoded["from"] = _encode(place.begun)
    return encoded


def _decode(given: dict[str, Any]) -> FeedPlace:
    begun = given.get("from")
    offsets = tuple(int(given[str(partition)]) for partition in range(len(given.keys() - MARKS)))
    schema, reset = given.get("schema"), given.get("reset")
    return FeedPlace(
        int(given["epoch"]),
        offsets,
        None if begun is None else _decode(begun),
        None if schema is None else str(schema),
        None if reset is None else int(reset),
    )
