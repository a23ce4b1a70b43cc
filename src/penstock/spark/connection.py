"""The requests of a query to the hub."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import pyarrow as pa

from penstock.core.log.cursor import FeedCursor, FeedView, feed_mark
from penstock.errors import GroupNotFound
from penstock.schema.traversal import Schema
from penstock.spark.authorization import ANONYMOUS, Credential
from penstock.spark.heads import Heads, parse_heads
from penstock.spark.http import open_answer, send_request
from penstock.spark.mirror import Reset
from penstock.spark.offsets import FeedPlace
from penstock.spark.options import AskedOffsets
from penstock.spark.patience import patiently
from penstock.spark.planning import Range
from penstock.spark.reading import PagePart, sift
from penstock.wire.log.feedapi import ARROW, CURSOR_HEADER, LEFT_OUT_HEADER, feed_token
from penstock.wire.log.nakadi import parse_offset

PAGE_EVENTS: Final = 100_000
RESETS_ASKED: Final = 100
SPARK: Final = "spark"
"""The kind of consumer groups that Spark's queries are."""

Result = TypeVar("Result")


class RegisteredSchema(NamedTuple):
    """The registry's description of an event type's events."""

    version: str
    """Of its schema."""
    category: str
    schema: Schema


class SealedFile(NamedTuple):
    """A file that has a range of a partition's offsets."""

    path: str
    start: int
    stop: int


class ColdFiles(NamedTuple):
    """The files that have sealed events of a range."""

    tier: str | None
    """The id of the cold tier; None: the hub has none."""
    epoch: int
    files: Sequence[SealedFile]


@dataclass(frozen=True)
class RemoteHub:
    """A hub at a URL. Holds plain values and no connection: it can be sent to executors."""

    url: str
    retry_timeout: float
    """Seconds for which requests are retried while the hub does not answer."""
    credential: Credential = ANONYMOUS

    def heads(self, event_type: str) -> Heads:
        """Return what the feed has to offer now, what was committed to its outbox included.

        Raises:
            EventTypeNotFound: there is no such feed.
            Unreachable, Unavailable: the hub has not answered for too long.
        """
        address = f"{self._of(event_type)}/partitions"
        return self._patiently(lambda: self._ask(address, lambda told: parse_heads(event_type, told)))

    def since(self, event_type: str, time: str) -> AskedOffsets:
        """Return, by partition, the first offset that was received at *time* or later; where it ends if there is none.

        Raises:
            EventTypeNotFound: there is no such feed.
            Unreachable, Unavailable: the hub has not answered for too long.
        """
        address = f"{self._of(event_type)}/cursors?{urlencode({'at': time})}"
        return self._patiently(lambda: self._ask(address, _offsets))

    def load_schema(self, event_type: str, version: str | None) -> RegisteredSchema:
        """Return the schema of an event type, of its newest *version* where None is given.

        Raises:
            EventTypeNotFound, SchemaVersionNotFound: there is none.
            Unreachable, Unavailable: the hub has not answered for too long.
        """
        address = self._of(event_type)
        category = self._patiently(lambda: self._ask(address, lambda told: str(told["category"])))

        def read(told: Any) -> RegisteredSchema:
            return RegisteredSchema(str(told["version"]), category, json.loads(told["schema"]))

        return self._patiently(lambda: self._ask(f"{address}/schemas/{version or 'latest'}", read))

    def page(self, wanted: Range, *, with_headers: bool) -> Iterator[PagePart]:
        """Read events from the start of *wanted* on, a page at most; one attempt.

        Raises:
            PenstockError: what the hub answers, or that the connection failed.
        """
        count = wanted.partition_count
        query = {
            "token": feed_token(wanted.epoch, count),
            "partition": wanted.partition,
            "cursor": _cursor(wanted, wanted.start),
            "until": _cursor(wanted, wanted.end),
            "pagesizehint": PAGE_EVENTS,
        }
        if with_headers:
            query["headers"] = "_all"
        address = f"{self.url}/feeds/{quote(wanted.event_type, safe='')}/events?{urlencode(query)}"
        with ExitStack() as exits:
            answer = self.credential.send(
                lambda headers: exits.enter_context(open_answer(address, ARROW, headers=headers)),
            )
            stream = exits.enter_context(pa.ipc.open_stream(answer.body))
            left_out = answer.headers.get(LEFT_OUT_HEADER.lower())
            if left_out is not None:
                cursor = answer.headers.get(CURSOR_HEADER.lower(), "")
                yield from sift(list(stream), wanted, left_out, cursor)
                return
            end = wanted.start
            for batch in stream:
                end += batch.num_rows
                yield PagePart(batch, end)

    def cold_files(self, wanted: Range) -> ColdFiles:
        """Return the first files of the cold tier that have events of a range; one attempt.

        Raises:
            PenstockError: what the hub answers, or that the connection failed.
        """
        query = urlencode({"partition": wanted.partition, "offset": wanted.start})
        return self._ask(f"{self._of(wanted.event_type)}/cold-files?{query}", _cold_files)

    def resets(self, group: str, after: int) -> list[Reset]:
        """Return what a consumer group was reset to after the reset of that number, the newest first.

        Raises:
            Unreachable, Unavailable: the hub has not answered for too long.
        """
        found: list[Reset] = []
        at = address = f"{self.url}/groups/{quote(group, safe='')}/history?limit={RESETS_ASKED}"
        while True:
            try:
                items, goes_on = self._patiently(partial(self._ask, address, _history))
            except GroupNotFound:
                return []
            found += [reset for reset in items if reset.id > after]
            if not goes_on or not items or items[-1].id <= after:
                return found
            address = f"{at}&after={items[-1].id}"

    def commit(self, group: str, places: Mapping[str, FeedPlace]) -> None:
        """Store a consumer group's positions, whatever stands there.

        Raises:
            GroupKindDiffers: the name is that of a consumer group of another kind.
            UnusablePosition: a feed has no such place.
            Unreachable, Unavailable: the hub has not answered for too long.
        """
        address = f"{self.url}/groups/{quote(group, safe='')}/positions"
        items = [
            {"event_type": event_type, "partition": partition, "offset": offset, "epoch": place.epoch}
            for event_type, place in places.items()
            for partition, offset in enumerate(place.offsets)
        ]
        body = {"kind": SPARK, "items": items}
        self._patiently(lambda: self.credential.send(lambda headers: send_request(address, body, headers=headers)))

    def _of(self, event_type: str) -> str:
        return f"{self.url}/event-types/{quote(event_type, safe='')}"

    def _ask(self, address: str, read: Callable[[Any], Result]) -> Result:
        found: Result = self.credential.send(lambda headers: send_request(address, headers=headers, read=read))
        return found

    def _patiently(self, attempt: Callable[[], Result]) -> Result:
        return patiently(self.retry_timeout, attempt)


@dataclass(frozen=True)
class MirroredGroup:
    """A consumer group at a hub, as a mirror needs it."""

    hub: RemoteHub
    name: str

    def resets(self, after: int) -> list[Reset]:
        """See `RemoteHub.resets`."""
        return self.hub.resets(self.name, after)

    def commit(self, places: Mapping[str, FeedPlace]) -> None:
        """See `RemoteHub.commit`."""
        self.hub.commit(self.name, places)


def _offsets(told: list[dict[str, str]]) -> AskedOffsets:
    """Read cursors, which name the event before the one that is wanted."""
    found = {int(each["partition"]): parse_offset(each["offset"]) for each in told}
    epochs = {epoch for epoch, _ in found.values()}
    return AskedOffsets(min(epochs), {partition: offset + 1 for partition, (_, offset) in found.items()})


def _cold_files(told: Any) -> ColdFiles:
    files = [SealedFile(str(each["path"]), int(each["start"]), int(each["stop"])) for each in told["items"]]
    return ColdFiles(told["tier"], int(told["epoch"]), files)


def _history(told: Any) -> tuple[list[Reset], bool]:
    """Parse a page of a group's history; return its resets, and whether another page follows."""
    resets = [
        Reset(int(each["id"]), each["event_type"], int(each["partition"]), int(each["epoch"]), int(each["went_to"]))
        for each in told["items"]
    ]
    return resets, "next" in told["_links"]


def _cursor(wanted: Range, offset: int) -> str:
    count = wanted.partition_count
    return FeedCursor(
        feed_mark(wanted.event_type), wanted.epoch, FeedView(count, wanted.partition, count), (offset,)
    ).encode()
