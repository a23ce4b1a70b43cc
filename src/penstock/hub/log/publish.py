"""Makes events ready for the log: validate, partition, enrich. All of it is done before the transaction."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias, TypedDict

import msgspec

from penstock.core.events.event import Enrichment, NewEvent, Row, check_sizes, one_line_each
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
    UndeletableEvents,
)
from penstock.hub.background import rfc3339
from penstock.schema.json_text import refuse_duplicate_keys
from penstock.storage.store import DELETION


class NewEvents(NamedTuple):
    """What a producer hands in at once; all of it is published, or nothing."""

    events: Sequence[NewEvent] = ()
    lines: Sequence[int] | None = None
    """The numbers by which errors call the events; by default counted from 1."""
    flow_id: str | None = None
    """For the metadata of those events that have none."""
    strict: bool = False
    """Whether metadata that holds what only a hub writes is refused, as Nakadi does; else that is replaced."""
    deletes: bool = False
    """Whether these are marks that the earlier events of their keys are to be forgotten."""
    partition: int | None = None
    """Where all of them are to go; where the event type's strategy says otherwise of one, that is refused."""
    among: int | None = None
    """How many partitions there were when theirs were chosen; None: as many as there are."""
    validated: bool = False
    """Whether they were valid when they were handed in, which is not looked at again."""


NOTHING: Final = NewEvents()


class PublishOptions(TypedDict, total=False):
    """The members of `NewEvents` that say how events are handed in."""

    flow_id: str | None
    strict: bool
    deletes: bool
    partition: int | None


class Prepared(NamedTuple):
    """Events ready to be appended, as of one revision of their event type."""

    feed: StoredFeed
    events: int
    """How many."""
    rows: dict[int, list[Row]]
    """By partition, in the order in which they came."""

    @property
    def partition_ids(self) -> list[int]:
        """The store's numbers of the partitions that they go to."""
        return [self.feed.partition_ids[partition] for partition in self.rows]

    def without_first(self, count: int) -> "Prepared":
        """Return these events, all of one partition, without the first *count* of them."""
        [(partition, rows)] = self.rows.items()
        return self._replace(events=self.events - count, rows={partition: rows[count:]})


class Unpublishable(NamedTuple):
    """Events that cannot be appended, as of one revision of their event type."""

    feed: StoredFeed
    error: PenstockError


Preparation: TypeAlias = Prepared | Unpublishable
"""Events ready to be appended, or the reason why they cannot be."""


def prepare(feed: StoredFeed, handed: NewEvents, now: int, *, tells: bool = True) -> Prepared:
    """Return what was handed in, ready for the log of *feed*; all of it or none.

    Unless it *tells*, what is wrong with an event that the schema does not allow is not looked for, which can take much
    longer than to find that it is not allowed.

    All events are parsed, then validated, then partitioned, then enriched, as in Nakadi. The first failure ends it.

    Raises:
        MalformedEvent: it cannot be read; nothing was looked at but that.
        InvalidEvent, EventTooLarge: it is not valid.
        PartitionRefused: it has no partition, or no key, or another partition than was asked for.
        PartitionNotFound: there is no such partition.
        UndeletableEvents: the event type does not take deletions.
    """
    if handed.partition is not None and handed.partition >= feed.partition_count:
        told = {"event_type": feed.name, "partition": handed.partition, "partition_count": feed.partition_count}
        raise PartitionNotFound(**told)
    batch = ParsedBatch.parse(handed.events, handed.lines)
    partitioner = Partitioner(
        feed.event_type, accepts_keys=not handed.strict, partition=handed.partition, partition_count=handed.among
    )
    if handed.deletes:
        return _prepare_deletions(feed, batch, partitioner)
    accepted = accept(
        feed.event_type, batch, partitioner, strict=handed.strict, validated=handed.validated, explains=tells
    )
    partitions = accepted.partitions
    datas = one_line_each(batch.raws)
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
    return Prepared(feed, len(datas), _by_partition(partitions, rows))


def _check_metadata(feed: StoredFeed, batch: ParsedBatch) -> None:
    """Raise InvalidEvent for an event without metadata: it was validated while its event type needed none."""
    for event, line in zip(batch.decoded, batch.lines, strict=True):
        if type(event.get("metadata")) is not dict:
            reason = f"it has no metadata, which events of the category {feed.event_type.category} need"
            raise InvalidEvent(line=line, reason=reason)


def prepare_or_refuse(
    feed: StoredFeed, handed: NewEvents, now: int, *, exact: bool = False, tells: bool = True
) -> Preparation:
    """Return what was handed in, ready for the log, or what keeps it out of that: see `prepare`.

    Unless it is *exact*, it is looked at whether a plain publish, which may store an event twice, is ruled out.

    Raises:
        MalformedEvent: it cannot be read.
    """
    try:
        if not exact:
            check_plain(feed)
        return prepare(feed, handed, now, tells=tells)
    except MalformedEvent:
        raise
    except (Invalid, TooLarge, Conflict, PartitionNotFound) as error:
        return Unpublishable(feed, error)


def find_refusal(found: Preparation, *, exact: bool) -> PenstockError | None:
    """Return why what is *ready* is not looked at any further; None where it is.

    What is *exact* may be in the log, however unfit it is by now.
    """
    if isinstance(found, Prepared) or (exact and not isinstance(found.error, PartitionNotFound)):
        return None
    return found.error


def _prepare_deletions(feed: StoredFeed, batch: ParsedBatch, partitioner: Partitioner) -> Prepared:
    """Return marks of deletion: their size counts, their partition and their key; nothing else is looked at."""
    if not feed.event_type.is_compacted:
        raise UndeletableEvents(event_type=feed.name)
    check_sizes(batch.raws, batch.lines)
    partitions, keys = assign_partitions(feed.event_type, batch, partitioner)
    rows = ((key, DELETION, None, data) for key, data in zip(keys, one_line_each(batch.raws), strict=True))
    return Prepared(feed, len(batch.raws), _by_partition(partitions, rows))


def _by_partition(partitions: Sequence[int], rows: Iterable[Row]) -> dict[int, list[Row]]:
    if len(set(partitions)) == 1:
        return {partitions[0]: list(rows)}
    found: dict[int, list[Row]] = {}
    for partition, row in zip(partitions, rows, strict=True):
        found.setdefault(partition, []).append(row)
    return found


def check_plain(feed: StoredFeed) -> None:
    """Raise PublishingRestricted where a plain publish, which may store an event twice, is ruled out."""
    if feed.event_type.is_exactly_once:
        raise PublishingRestricted(event_type=feed.name)


def parse_headers(text: str | None) -> dict[str, str] | None:
    """Read headers that an outbox row holds as JSON; raise InvalidEvent unless it is an object of strings."""
    if text is None:
        return None
    try:
        headers: dict[str, str] = msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InvalidEvent(line=1, reason=f"its headers are not a JSON object of strings: {error}") from None
    if len(msgspec.json.encode(headers)) < len(raw := text.encode(errors="surrogateescape")):
        refuse_duplicate_keys(raw, 1)
    return headers
