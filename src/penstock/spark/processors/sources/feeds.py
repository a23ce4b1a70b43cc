"""The feeds of a hub as a source on Spark: each partition a tranche, read by executors over HTTP."""

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql import SparkSession

from penstock.client.credentials import TokenFile
from penstock.core.log.start import Start
from penstock.errors import BadParameter, PenstockError, Unavailable
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_members
from penstock.processing.sources.feed import FeedSource
from penstock.processing.sources.feed_position import (
    FeedPosition,
    check_epoch,
    check_place,
    decode_tranche,
    encode_tranche,
    numbering_of,
)
from penstock.spark.authorization import Credential
from penstock.spark.connection import RemoteHub
from penstock.spark.heads import Heads
from penstock.spark.patience import Patience
from penstock.spark.planning import Range, plan_tasks
from penstock.spark.processors.reading import EVENTS_SQL, ProcessingPlan
from penstock.spark.processors.sources.feed_reading import FeedTasks, ReadFeeds
from penstock.spark.processors.sources.source import Look, PlannedRead, SparkSource, Then, TrancheRange

RETRY_TIMEOUT: Final = 60.0
"""Seconds for which executors retry a hub that does not answer, before the round is given up and repeated."""


class SparkFeedSource(FeedSource):
    """The same as `FeedSource`, read by executors.

    Args:
        url: The hub's address, as executors reach it.
        event_types: Which feeds, at least one.
        start: As for `FeedSource`.
        fail_on_loss: As for `FeedSource`.
        auth: The credential that the driver and executors send: a token, or `TokenFile(path)` with a file that is at
            the same path on each machine, and that each follows.

    Raises:
        BadParameter: there is no event type, *start* is none, or *auth* is another credential.
    """

    def __init__(
        self,
        url: str,
        *event_types: str,
        start: Start = "earliest",
        fail_on_loss: bool = True,
        auth: str | TokenFile | None = None,
    ) -> None:
        super().__init__(url, *event_types, start=start, fail_on_loss=fail_on_loss, auth=auth)
        self._hub = RemoteHub(url, RETRY_TIMEOUT, _credential_of(auth))
        self._closed = threading.Event()
        self._event_types = tuple(dict.fromkeys(event_types))
        self._fails = fail_on_loss
        self.passes_over_loss = not fail_on_loss
        self._spark: SparkSession | None = None

    def open(self, spark: SparkSession) -> None:
        """Begin, in a session."""
        self._spark = spark

    def look(self) -> Look:
        """Ask the hub what there is now.

        Raises:
            Unreachable, Unavailable: it has not answered for too long, or the source was closed meanwhile.
        """
        assert self._spark is not None, "it is open"
        heads = {event_type: self._heads(event_type) for event_type in self._event_types}
        hashed = frozenset(name for name in self._event_types if self.is_hashed(name))
        return _FeedLook(self._spark, self._hub, heads, hashed, fail_on_loss=self._fails)

    def close(self) -> None:
        """End; who waits for the hub is woken."""
        self._closed.set()
        super().close()

    def _heads(self, event_type: str) -> Heads:
        asked, patience = replace(self._hub, retry_timeout=0.0), Patience(RETRY_TIMEOUT, sleep=self._closed.wait)
        while not self._closed.is_set():
            try:
                return asked.heads(event_type)
            except PenstockError as error:
                patience.endure(error)
        raise Unavailable(reason="the source is closed")


def _credential_of(auth: Any) -> Credential:
    if isinstance(auth, TokenFile):
        return Credential(file=str(auth.path.absolute()))
    if auth is None or isinstance(auth, str):
        return Credential(auth)
    allowed = "a token, or TokenFile(path): executors send no other credentials"
    raise BadParameter(parameter="auth", value=type(auth).__name__, allowed=allowed)


@dataclass(frozen=True)
class _FeedLook:
    spark: SparkSession
    hub: RemoteHub
    heads: Mapping[str, Heads]
    hashed: frozenset[str]
    fail_on_loss: bool

    @property
    def tranches(self) -> Collection[str]:
        return [encode_tranche(name, at) for name, head in sorted(self.heads.items()) for at in range(len(head.nexts))]

    def check(self, positions: Mapping[str, Position]) -> None:
        for tranche in self.tranches:
            if tranche in positions:
                head = self.heads[decode_tranche(tranche)[0]]
                check_place(tranche, FeedPosition.decode(str(positions[tranche])), head.epoch, head.nexts)

    def stretch(self, tranche: str, position: Position | None, events_max: int) -> TrancheRange | None:
        event_type, partition = decode_tranche(tranche)
        head = self.heads[event_type]
        if partition >= len(head.nexts):
            return None
        start, next_ = self._start(tranche, position), head.nexts[partition]
        end = min(next_, start + events_max)
        if end <= start:
            return None
        return TrancheRange(
            tranche, start, end, end - start, FeedPosition(head.epoch, end).encode(), is_tail=end >= next_
        )

    def numbering(self, tranche: str) -> str:
        event_type, _ = decode_tranche(tranche)
        return numbering_of(tranche, self.heads[event_type].epoch)

    def _start(self, tranche: str, position: Position | None) -> int:
        event_type, partition = decode_tranche(tranche)
        head = self.heads[event_type]
        if position is None:
            return head.floors[partition]
        place = FeedPosition.decode(str(position))
        check_epoch(tranche, place, head.epoch)  # Others may have moved it since `check`.
        return place.offset

    def reading(
        self, plan: ProcessingPlan, new: Sequence[TrancheRange], again: Sequence[TrancheRange], then: Then | None
    ) -> PlannedRead:
        tasks = FeedTasks(
            self.hub,
            tuple(plan_tasks([*self._ranges(new)], min_tasks=None, cores=plan.partitions)),
            tuple(plan_tasks([*self._ranges(again)], min_tasks=None, cores=plan.partitions)),
            self.hashed,
            self.fail_on_loss,
        )
        count = len(tasks.new) + len(tasks.again)
        columns = EVENTS_SQL if then is None else then.columns
        numbers = self.spark.range(0, count, 1, max(1, count))
        return PlannedRead(numbers.mapInArrow(ReadFeeds(plan, tasks, then), columns), count)

    def _ranges(self, stretches: Sequence[TrancheRange]) -> Iterator[Range]:
        for tranche, start, end, *_ in stretches:
            event_type, partition = decode_tranche(tranche)
            head = self.heads[event_type]
            if partition < len(head.nexts):
                last = min(end, head.nexts[partition])
                yield Range(event_type, head.epoch, len(head.nexts), partition, start, last)


def spark_source(
    source: str | SparkSource, event_types: Sequence[str], *, start: Start = "earliest", fail_on_loss: bool = True
) -> SparkSource:
    """Return *source* itself, or the feeds of the hub whose address it is.

    Raises:
        BadParameter: it is no such source; or what is said of feeds is said beside another source.
    """
    if isinstance(source, str):
        return SparkFeedSource(source, *event_types, start=start, fail_on_loss=fail_on_loss)
    check_members("source", source, SparkSource, "the hub's address, or a source that Spark reads, such as TableSource")
    for name, value, default in (
        ("event_types", tuple(event_types), ()),
        ("start", start, "earliest"),
        ("fail_on_loss", fail_on_loss, True),
    ):
        if value != default:
            raise BadParameter(
                parameter=name, value=value, allowed="given to the source where that is no hub's address"
            )
    return source
