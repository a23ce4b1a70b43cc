"""Prepares events for the log before the transaction: parse, validate, partition, enrich."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias, TypedDict

import msgspec

from penstock.core.events.event import NewEvent, Row, check_sizes, remove_all_line_breaks
from penstock.core.events.metadata import Enrichment
from penstock.core.log.acceptance import ParsedBatch, Partitioner, accept, assign_partitions
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import (
    Conflict,
    Invalid,
    InvalidEvent,
    MalformedEvent,
    PartitionNotFound,
    PenstockError,
    PublishingRestricted,
    TooLarge,
)
from penstock.hub.background import rfc3339
from penstock.schema.json_text import refuse_duplicate_keys
from penstock.storage.log.events import DELETION


class NewEvents(NamedTuple):
    """Events of one publish: all of them are published, or none."""

    events: Sequence[NewEvent] = ()
    lines: Sequence[int] | None = None
    """The numbers by which errors name the events; counted from 1 by default."""
    flow_id: str | None = None
    """The flow id for events whose metadata has none."""
    strict: bool = False
    """Whether to refuse metadata members that only a hub may write, as Nakadi does, instead of replacing them."""
    deletes: bool = False
    """Whether these are tombstones, which delete the earlier events of their keys."""
    partition: int | None = None
    """The partition of all events; an event that the partition strategy assigns elsewhere is refused."""
    among: int | None = None
    """The number of partitions when theirs were chosen; None for the current number."""
    validated: bool = False
    """Whether they were validated when they were uploaded, so that validation is skipped."""


NOTHING: Final = NewEvents()


class PublishOptions(TypedDict, total=False):
    """The members of `NewEvents` that callers may set."""

    flow_id: str | None
    strict: bool
    deletes: bool
    partition: int | None


class Prepared(NamedTuple):
    """Events ready to be appended, as of one revision of their event type."""

    feed: StoredFeed
    events: int
    """The number of events."""
    rows: dict[int, list[Row]]
    """By partition number, in publishing order."""

    @property
    def partition_ids(self) -> list[int]:
        """The ids of their partitions in the store."""
        return [self.feed.partition_ids[partition] for partition in self.rows]

    def without_first(self, count: int) -> "Prepared":
        """Return these events, all of one partition, without the first *count*."""
        [(partition, rows)] = self.rows.items()
        return self._replace(events=self.events - count, rows={partition: rows[count:]})


class Unpublishable(NamedTuple):
    """The reason why events cannot be appended, as of one revision of their event type."""

    feed: StoredFeed
    error: PenstockError


Preparation: TypeAlias = Prepared | Unpublishable
"""Events ready to be appended, or the reason why they cannot be."""


def prepare(feed: StoredFeed, handed: NewEvents, now: int, *, explains: bool = True) -> Prepared:
    """Return the events of *handed* ready for the log of *feed*, all of them or none.

    All events are parsed, then validated, then partitioned, then enriched, as in Nakadi; the first failure ends it.
    With *explains* False the error does not explain a violation of the schema, because finding the explanation can take
    much longer than finding the violation.

    Raises:
        MalformedEvent: an event cannot be parsed.
        InvalidEvent, EventTooLarge: an event is not valid; or it has no partition or no key, or belongs to another
            partition than the requested one.
        PartitionNotFound: there is no such partition.
        PublishingRestricted: the event type is not compacted, so it takes no tombstones.
    """
    if handed.partition is not None and handed.partition >= feed.partition_count:
        fields = {"event_type": feed.name, "partition": handed.partition, "partition_count": feed.partition_count}
        raise PartitionNotFound(**fields)
    batch = ParsedBatch.parse(handed.events, handed.lines)
    partitioner = Partitioner(
        feed.event_type, accepts_keys=not handed.strict, partition=handed.partition, partition_count=handed.among
    )
    if handed.deletes:
        return _prepare_deletions(feed, batch, partitioner)
    accepted = accept(
        feed.event_type, batch, partitioner, strict=handed.strict, validated=handed.validated, explains=explains
    )
    partitions = accepted.partitions
    datas = remove_all_line_breaks(batch.raws)
    if feed.event_type.category != "undefined":
        if handed.validated:
            _check_metadata(feed, batch)
        enrichment = Enrichment(
            event_type=feed.name,
            version=feed.event_type.schema_version,
            received_at=rfc3339(now),
            flow_id=handed.flow_id,
        )
        datas = list(map(enrichment.complete, datas, batch.decoded, partitions))
    rows = zip(accepted.keys, accepted.kinds, accepted.headers, datas, strict=True)
    return Prepared(feed, len(datas), _group_by_partition(partitions, rows))


def _check_metadata(feed: StoredFeed, batch: ParsedBatch) -> None:
    """Raise InvalidEvent for an event without metadata, validated while its event type required none."""
    for event, line in zip(batch.decoded, batch.lines, strict=True):
        if type(event.get("metadata")) is not dict:
            reason = f"it has no metadata, which events of the category {feed.event_type.category} need"
            raise InvalidEvent(line=line, reason=reason)


def prepare_or_refuse(
    feed: StoredFeed, handed: NewEvents, now: int, *, exact: bool = False, explains: bool = True
) -> Preparation:
    """Return events ready for the log, or the reason why they cannot be appended: see `prepare`.

    Unless they are *exact* (of an idempotent producer, or of a batch), the event type has to accept plain publishes.

    Raises:
        MalformedEvent: an event cannot be parsed.
    """
    try:
        if not exact:
            check_plain(feed)
        return prepare(feed, handed, now, explains=explains)
    except MalformedEvent:
        raise
    except (Invalid, TooLarge, Conflict, PartitionNotFound) as error:
        return Unpublishable(feed, error)


def find_refusal(found: Preparation, *, exact: bool) -> PenstockError | None:
    """Return the error that ends a request before the transaction, or None.

    An *exact* request goes on even if its events are unpublishable by now: they may already be in the log.
    """
    if isinstance(found, Prepared) or (exact and not isinstance(found.error, PartitionNotFound)):
        return None
    return found.error


def _prepare_deletions(feed: StoredFeed, batch: ParsedBatch, partitioner: Partitioner) -> Prepared:
    """Prepare tombstones: only their size, partition and key are checked."""
    if not feed.event_type.is_compacted:
        raise PublishingRestricted.of("undeletable-events", event_type=feed.name)
    check_sizes(batch.raws, batch.lines)
    partitions, keys = assign_partitions(feed.event_type, batch, partitioner)
    rows = ((key, DELETION, None, data) for key, data in zip(keys, remove_all_line_breaks(batch.raws), strict=True))
    return Prepared(feed, len(batch.raws), _group_by_partition(partitions, rows))


def _group_by_partition(partitions: Sequence[int], rows: Iterable[Row]) -> dict[int, list[Row]]:
    if len(set(partitions)) == 1:
        return {partitions[0]: list(rows)}
    found: dict[int, list[Row]] = {}
    for partition, row in zip(partitions, rows, strict=True):
        found.setdefault(partition, []).append(row)
    return found


def check_plain(feed: StoredFeed) -> None:
    """Raise PublishingRestricted if the event type refuses plain publishes, which may store an event twice."""
    if feed.event_type.is_exactly_once:
        raise PublishingRestricted(event_type=feed.name)


def parse_headers(text: str | None) -> dict[str, str] | None:
    """Parse the headers of an outbox row, JSON; raise InvalidEvent unless they are an object of strings."""
    if text is None:
        return None
    try:
        headers: dict[str, str] = msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InvalidEvent(line=1, reason=f"its headers are not a JSON object of strings: {error}") from None
    if len(msgspec.json.encode(headers)) < len(raw := text.encode(errors="surrogateescape")):
        refuse_duplicate_keys(raw, 1)
    return headers
