"""Discovery: which protocol a feed speaks, and which partitions it has.

Which partitions a reader reads: its share of them, and its course as they close, split and take over.

FeedAPI has two ways to change the partitions of a feed that is being read:

    startsAfterPartition    the parent is closed; its children begin where it ends, so it is read to its end first
    cursorFromPartitions    the parent is gone; its children hold its history too, and its cursor is good for each

Invariants:
    A child that starts after a partition of the same reader is not read before that one's end.
    A cursor that was handed in is dropped only when its partition is no longer there, and after its heirs have it.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from penstock.core.log.cursor import FIRST
from penstock.errors import BadParameter, WrongAddress
from penstock.wire.http import FEED, Answer, Exchange, Request, address, fetch, is_page, malformed, refusal
from penstock.wire.log.reader.pages import Page

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


def share(partition_count: int, workers: int, worker: int) -> range:
    """Return the contiguous range of partitions that *worker*, counted from 0, reads of *partition_count*.

    The ranges of all workers cover each partition once. They are of equal size where the count allows it, and differ by
    one otherwise; publishers can make such reads cheap.

    >>> [list(share(8, 4, worker)) for worker in range(4)]
    [[0, 1], [2, 3], [4, 5], [6, 7]]
    """
    if workers < 1:
        raise BadParameter(parameter="workers", value=workers, allowed="at least 1")
    if not 0 <= worker < workers:
        raise BadParameter(parameter="worker", value=worker, allowed=f"0 to {workers - 1}, of {workers}")
    return range(partition_count * worker // workers, partition_count * (worker + 1) // workers)


class Course:
    """What one reader reads next.

    Args:
        cursors: Where it has come to, by partition.
        chosen: The partitions that it reads, with all that follow from them; None for the whole feed.
        start: The cursor of a partition that it reads for the first time, when *cursors* is empty; a partition that
            appears later is read from its beginning.
        ends: Partition to the cursor at which it is known to end, shared by the readers of one feed.
    """

    discovery: Discovery
    """The state of the partitions that it has met last."""

    def __init__(
        self, cursors: Mapping[int, str], chosen: Collection[int] | None, start: str, ends: dict[int, str]
    ) -> None:
        self.cursors = dict(cursors)
        self.stale_count = 0
        """How often in a row the partitions had changed when they were read."""
        self._chosen = None if chosen is None else set(chosen)
        self._start = start if not cursors else FIRST
        self._ends = ends
        self._partitions: dict[int, Partition] = {}

    def meet(self, discovery: Discovery) -> None:
        """Take over cursors from partitions that are gone, and take up those that are new.

        Raises:
            BadParameter: nothing of what was chosen is there.
        """
        before = self.cursors
        self.discovery = discovery
        self._partitions = {partition.id: partition for partition in discovery.partitions}
        self.cursors = {}
        self._choose_heirs(discovery)
        for partition in discovery.partitions:
            if cursor := self._cursor_for(partition, before):
                self.cursors[partition.id] = cursor
        if not self.cursors:
            asked = sorted(self._chosen if self._chosen is not None else before)
            raise BadParameter(parameter="partitions", value=asked, allowed=f"those of the feed, {discovery.ids}")
        self._start = FIRST

    def readable(self) -> list[int]:
        """Return the partitions that can bring something now, in the feed's order."""
        return [number for number in self.cursors if not self._has_ended(number) and not self._waits(number)]

    def record(self, asked: Mapping[int, str], page: Page) -> None:
        """Take note of what came of reading with the cursors *asked*."""
        self.cursors.update(page.cursors)
        if page.events:
            return
        for number, cursor in asked.items():
            # A filter can leave an answer empty half-way: only a cursor that stays where it was tells the end.
            if self._partitions[number].closed and page.cursors.get(number) == cursor:
                self._ends[number] = cursor

    def _choose_heirs(self, discovery: Discovery) -> None:
        """Add to what was chosen all that follows from it."""
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

    def _waits(self, number: int) -> bool:
        parent = self._partitions[number].starts_after
        return parent is not None and parent in self.cursors and not self._has_ended(parent)
