"""Discovery: which protocol a feed speaks, and which partitions it has."""

from typing import Any, Final

import msgspec

from penstock.errors import BadParameter, WrongAddress
from penstock.wire.exchange import Answer, Exchange, Request, address, fetch, malformed
from penstock.wire.refusal import FEED, is_page, refusal

PARTITION_MAX: Final = 32_767
"""As FeedAPI bounds a partition's id."""


class Partition(msgspec.Struct, frozen=True):
    """One partition of a feed."""

    id: int
    closed: bool = False
    """Nothing will ever be added to it."""
    starts_after: int | None = None
    """The partition that is to be read to its end before this one is begun, so that the order is kept."""
    cursor_from: tuple[int, ...] = ()
    """The partitions whose cursors are good here too, the nearest ancestor first."""


class Discovery(msgspec.Struct, frozen=True):
    """What is known of a feed before it is read."""

    version: int
    """1: ZeroEventHub; 2: FeedAPI."""
    partitions: tuple[Partition, ...]
    token: str | None = None
    """FeedAPI's mark of this state of the partitions; it is handed back with each read."""
    exactly_once: bool = False
    """Whether the publisher promises that no event comes twice in the feed."""

    @property
    def partition_count(self) -> int:
        """How many partitions there are."""
        return len(self.partitions)

    @property
    def ids(self) -> list[int]:
        """The partitions' numbers."""
        return [partition.id for partition in self.partitions]

    @property
    def is_static(self) -> bool:
        """Whether the partitions are numbered from 0 and none is closed or takes over from another."""
        return self.ids == list(range(self.partition_count)) and not any(
            partition.closed or partition.cursor_from or partition.starts_after is not None
            for partition in self.partitions
        )


def version_one(partition_count: int) -> Discovery:
    """Return what is known of a ZeroEventHub feed: the partition count that its consumer chose.

    >>> version_one(2).ids
    [0, 1]
    """
    if type(partition_count) is not int or not 1 <= partition_count <= PARTITION_MAX + 1:
        raise BadParameter(parameter="partition_count", value=partition_count, allowed=f"1 to {PARTITION_MAX + 1}")
    return Discovery(version=1, partitions=tuple(Partition(number) for number in range(partition_count)))


def discover(url: str, partition_count: int | None = None) -> Exchange[Discovery]:
    """Find out what the feed at *url* speaks, as FeedAPI says: a GET without arguments; 400 means ZeroEventHub.

    Raises:
        BadParameter: it speaks ZeroEventHub, and *partition_count* was not given.
        WrongAddress, MalformedAnswer: it is neither.
    """
    answer = yield from fetch(Request(method="GET", url=address(url), headers={"accept": "application/json"}))
    if answer.status == 400:
        if partition_count is None and is_page(answer):
            raise WrongAddress(status=400, url=url, body=answer.body[:200].decode(errors="replace"), wanted=FEED)
        if partition_count is None:
            raise BadParameter(
                f"{url} speaks ZeroEventHub (version 1), which does not tell its partitions: say partition_count=..., "
                "the number that its publisher documents",
                parameter="partition_count",
            )
        return version_one(partition_count)
    if answer.status != 200 or is_page(answer):
        raise refusal(answer, FEED)
    return parse_discovery(answer)


class _WirePartition(msgspec.Struct):
    # FeedAPI's text calls the last two by one name and its examples by another: both are taken.
    id: str | int
    closed: bool | None = None
    starts_after_partition: str | int | None = msgspec.field(name="startsAfterPartition", default=None)
    starts_after_parent: str | int | None = msgspec.field(name="startsAfterParent", default=None)
    cursor_from_partitions: list[str | int] | None = msgspec.field(name="cursorFromPartitions", default=None)
    split_from_ancestors: list[str | int] | None = msgspec.field(name="splitFromAncestors", default=None)


class _WireDiscovery(msgspec.Struct):
    token: str
    partitions: list[_WirePartition]
    exactly_once: bool | None = msgspec.field(name="exactlyOnce", default=None)


def parse_discovery(answer: Answer) -> Discovery:
    """Read FeedAPI's discovery document.

    Raises:
        MalformedAnswer: it is none.
    """
    try:
        wire = msgspec.json.decode(answer.body, type=_WireDiscovery)
        partitions = tuple(map(_partition, wire.partitions))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        reason = f"this is not FeedAPI's discovery: {answer.body[:200]!r} ({error})"
        raise malformed(answer.url, reason) from error
    if len({partition.id for partition in partitions}) != len(partitions) or not partitions:
        raise malformed(answer.url, f"a feed has partitions, each of its own number: {answer.body[:200]!r}")
    return Discovery(2, partitions, wire.token, bool(wire.exactly_once))


def _partition(wire: _WirePartition) -> Partition:
    after: Any = wire.starts_after_partition if wire.starts_after_partition is not None else wire.starts_after_parent
    return Partition(
        id=_number(wire.id),
        closed=bool(wire.closed),
        starts_after=None if after is None else _number(after),
        cursor_from=tuple(map(_number, wire.cursor_from_partitions or wire.split_from_ancestors or ())),
    )


def _number(text: str | int) -> int:
    number = int(text)
    if not 0 <= number <= PARTITION_MAX:
        raise ValueError(f"a partition is a number from 0 to {PARTITION_MAX}, not {text!r}")
    return number
