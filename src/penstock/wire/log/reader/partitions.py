"""Partitions of a feed: their discovery, a worker's share, and a reader's cursors while partitions split and close.

FeedAPI has two ways to change the partitions of a feed that is being read:

    startsAfterPartition    the parent is closed and its children continue it: read the parent to its end first
    cursorFromPartitions    the parent is gone and its children contain its history: its cursor is valid in each

Invariants:
    A child that starts after a partition of the same reader is not read before the end of that partition.
    A cursor of the reader is dropped only when its partition is gone and its successors have taken it over.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from penstock.core.log.cursor import FIRST
from penstock.errors import BadParameter, MalformedAnswer, WrongAddress
from penstock.wire.arguments import check_count
from penstock.wire.http import (
    FEED,
    Exchange,
    HttpRequest,
    HttpResponse,
    error_of,
    fetch,
    is_page,
    join_url,
)
from penstock.wire.log.reader.pages import Page

PARTITION_MAX: Final = 32_767
"""FeedAPI's maximum id of a partition."""


class Partition(msgspec.Struct, frozen=True):
    """One partition of a feed."""

    id: int
    closed: bool = False
    """Whether the partition gets no more events."""
    starts_after: int | None = None
    """The partition to read to its end before this one, to keep the order."""
    cursor_from: tuple[int, ...] = ()
    """The partitions whose cursors are valid in this one, nearest ancestor first."""


class Discovery(msgspec.Struct, frozen=True):
    """The protocol and the partitions of a feed."""

    version: int
    """1: ZeroEventHub; 2: FeedAPI."""
    partitions: tuple[Partition, ...]
    token: str | None = None
    """FeedAPI's token for this state of the partitions, which is sent with each read."""
    exactly_once: bool = False
    """Whether the publisher guarantees that no event is in the feed twice."""

    @property
    def partition_count(self) -> int:
        """Number of partitions."""
        return len(self.partitions)

    @property
    def ids(self) -> list[int]:
        """The partitions' numbers."""
        return [partition.id for partition in self.partitions]

    @property
    def is_static(self) -> bool:
        """True if the partitions are numbered from 0, and none is closed or a successor of another."""
        return self.ids == list(range(self.partition_count)) and not any(
            partition.closed or partition.cursor_from or partition.starts_after is not None
            for partition in self.partitions
        )


def zeroeventhub_discovery(partition_count: int) -> Discovery:
    """Return the discovery of a ZeroEventHub feed with the partition count that its consumer chose.

    >>> zeroeventhub_discovery(2).ids
    [0, 1]
    """
    if type(partition_count) is not int or not 1 <= partition_count <= PARTITION_MAX + 1:
        raise BadParameter(parameter="partition_count", value=partition_count, allowed=f"1 to {PARTITION_MAX + 1}")
    return Discovery(version=1, partitions=tuple(Partition(number) for number in range(partition_count)))


def discover(url: str, partition_count: int | None = None) -> Exchange[Discovery]:
    """Return the protocol and partitions of the feed at *url*.

    FeedAPI defines how: to a GET without arguments a ZeroEventHub server responds 400.

    Raises:
        BadParameter: The feed speaks ZeroEventHub, and *partition_count* is missing.
        WrongAddress, MalformedAnswer: It speaks neither protocol.
    """
    answer = yield from fetch(HttpRequest(method="GET", url=join_url(url), headers={"accept": "application/json"}))
    if answer.status == 400:
        if partition_count is None and is_page(answer):
            raise WrongAddress(status=400, url=url, body=answer.body[:200].decode(errors="replace"), wanted=FEED)
        if partition_count is None:
            raise BadParameter(
                f"{url} speaks ZeroEventHub (version 1), which does not tell its partitions: say partition_count=..., "
                "the number that its publisher documents",
                parameter="partition_count",
            )
        return zeroeventhub_discovery(partition_count)
    if answer.status != 200 or is_page(answer):
        raise error_of(answer, FEED)
    return parse_discovery(answer)


class _WireFeedPartition(msgspec.Struct):
    # FeedAPI's text and its examples name the last two differently: both names are accepted.
    id: str | int
    closed: bool | None = None
    starts_after_partition: str | int | None = msgspec.field(name="startsAfterPartition", default=None)
    starts_after_parent: str | int | None = msgspec.field(name="startsAfterParent", default=None)
    cursor_from_partitions: list[str | int] | None = msgspec.field(name="cursorFromPartitions", default=None)
    split_from_ancestors: list[str | int] | None = msgspec.field(name="splitFromAncestors", default=None)


class _WireDiscovery(msgspec.Struct):
    token: str
    partitions: list[_WireFeedPartition]
    exactly_once: bool | None = msgspec.field(name="exactlyOnce", default=None)


def parse_discovery(answer: HttpResponse) -> Discovery:
    """Parse FeedAPI's discovery document.

    Raises:
        MalformedAnswer: The document is malformed.
    """
    try:
        wire = msgspec.json.decode(answer.body, type=_WireDiscovery)
        partitions = tuple(map(_partition, wire.partitions))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        reason = f"this is not FeedAPI's discovery: {answer.body[:200]!r} ({error})"
        raise MalformedAnswer(url=answer.url, reason=reason) from error
    if len({partition.id for partition in partitions}) != len(partitions) or not partitions:
        raise MalformedAnswer(
            url=answer.url, reason=f"a feed has partitions, each of its own number: {answer.body[:200]!r}"
        )
    return Discovery(2, partitions, wire.token, bool(wire.exactly_once))


def _partition(wire: _WireFeedPartition) -> Partition:
    after: Any = wire.starts_after_partition if wire.starts_after_partition is not None else wire.starts_after_parent
    return Partition(
        id=_parse_number(wire.id),
        closed=bool(wire.closed),
        starts_after=None if after is None else _parse_number(after),
        cursor_from=tuple(map(_parse_number, wire.cursor_from_partitions or wire.split_from_ancestors or ())),
    )


def _parse_number(text: str | int) -> int:
    number = int(text)
    if not 0 <= number <= PARTITION_MAX:
        raise ValueError(f"a partition is a number from 0 to {PARTITION_MAX}, not {text!r}")
    return number


def share(partition_count: int, workers: int, worker: int) -> range:
    """Return the contiguous range of partitions that *worker*, counted from 0, reads of *partition_count*.

    The ranges of all workers cover each partition once and differ in size by at most one. Publishers can optimize reads
    of contiguous ranges.

    >>> [list(share(8, 4, worker)) for worker in range(4)]
    [[0, 1], [2, 3], [4, 5], [6, 7]]
    """
    check_count("partition_count", partition_count, 0)
    check_count("workers", workers, 1)
    check_count("worker", worker, 0)
    if not 0 <= worker < workers:
        raise BadParameter(parameter="worker", value=worker, allowed=f"0 to {workers - 1}, of {workers}")
    return range(partition_count * worker // workers, partition_count * (worker + 1) // workers)


class ReadState:
    """The cursors of one reader, and the partitions that it can read.

    Args:
        cursors: The initial cursors, by partition.
        chosen: The partitions to read, with their successors; None reads the whole feed.
        start: The cursor of partitions without one, if *cursors* is empty; partitions that appear later are read from
            their beginning.
        ends: The last cursor of closed partitions, shared by the readers of one feed.
    """

    discovery: Discovery
    """The last known state of the partitions."""

    def __init__(
        self, cursors: Mapping[int, str], chosen: Collection[int] | None, start: str, ends: dict[int, str]
    ) -> None:
        self.cursors = dict(cursors)
        self.stale_count = 0
        """Number of consecutive reads that found the partitions changed."""
        self._chosen = None if chosen is None else set(chosen)
        self._start = start if not cursors else FIRST
        self._ends = ends
        self._partitions: dict[int, Partition] = {}

    def update_partitions(self, discovery: Discovery) -> None:
        """Adopt a new state of the partitions: successors inherit cursors, and new partitions are added.

        Raises:
            BadParameter: None of the chosen partitions exists.
        """
        before = self.cursors
        self.discovery = discovery
        self._partitions = {partition.id: partition for partition in discovery.partitions}
        self.cursors = {}
        self._choose_successors(discovery)
        for partition in discovery.partitions:
            if cursor := self._cursor_for(partition, before):
                self.cursors[partition.id] = cursor
        if not self.cursors:
            asked = sorted(self._chosen if self._chosen is not None else before)
            raise BadParameter(parameter="partitions", value=asked, allowed=f"those of the feed, {discovery.ids}")
        self._start = FIRST

    def list_readable(self) -> list[int]:
        """Return the partitions that may have events now, in the feed's order."""
        return [number for number in self.cursors if not self._has_ended(number) and not self._is_waiting(number)]

    def record(self, asked: Mapping[int, str], page: Page) -> None:
        """Record the result of a read with the cursors *asked*."""
        self.cursors.update(page.cursors)
        if page.events:
            return
        for number, cursor in asked.items():
            # A filtered response may be empty before the end: only an unchanged cursor is the end.
            if self._partitions[number].closed and page.cursors.get(number) == cursor:
                self._ends[number] = cursor

    def _choose_successors(self, discovery: Discovery) -> None:
        """Add the successors of chosen partitions to the chosen ones."""
        if self._chosen is None:
            return
        size = -1
        while size != len(self._chosen):
            size = len(self._chosen)
            for partition in discovery.partitions:
                if partition.starts_after in self._chosen or not self._chosen.isdisjoint(partition.cursor_from):
                    self._chosen.add(partition.id)

    def _cursor_for(self, partition: Partition, before: Mapping[int, str]) -> str | None:
        chosen = before if self._chosen is None else before.keys() & self._chosen
        if self._chosen is not None and partition.id not in self._chosen:
            return None
        source = next((number for number in (partition.id, *partition.cursor_from) if number in chosen), None)
        return self._start if source is None else before[source]

    def _has_ended(self, number: int) -> bool:
        return number in self._ends and self._ends[number] == self.cursors[number]

    def _is_waiting(self, number: int) -> bool:
        parent = self._partitions[number].starts_after
        return parent is not None and parent in self.cursors and not self._has_ended(parent)
