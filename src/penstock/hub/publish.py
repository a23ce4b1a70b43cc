"""Makes events ready for the log: validate, partition, enrich. All of it is done before the transaction."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypedDict

import msgspec

from penstock.core.document import unlike
from penstock.core.event import (
    NewEvent,
    Row,
    check_events,
    check_headers,
    check_key,
    check_kind,
    check_size,
    check_sizes,
    first_large,
    one_line_each,
    refuse_duplicate_keys,
)
from penstock.core.event_type import Feed
from penstock.core.metadata import Enrichment, drop_server_members
from penstock.errors import (
    Conflict,
    Invalid,
    InvalidEvent,
    MalformedEvent,
    PartitionNotFound,
    PartitionRefused,
    PenstockError,
    PublishingRestricted,
    TooLarge,
    UndeletableEvents,
)
from penstock.hub.clock import rfc3339
from penstock.hub.placing import Placing
from penstock.storage.store import DELETION

KEY_HEADER = "ce_partitionkey"
KIND_HEADER = "ce_type"
_COMPACTION_KEY = "#/metadata/partition_compaction_key"
_UNTOLD = "is not what the schema allows"


class Handed(NamedTuple):
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


NOTHING: Final = Handed()


class How(TypedDict, total=False):
    """The members of `Handed` that say how events are handed in."""

    flow_id: str | None
    strict: bool
    deletes: bool
    partition: int | None


class Prepared(NamedTuple):
    """Events ready to be appended, as of one revision of their event type."""

    feed: Feed
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


class Unfit(NamedTuple):
    """Events that cannot be appended, as of one revision of their event type."""

    feed: Feed
    error: PenstockError


def prepare(feed: Feed, handed: Handed, now: int, *, tells: bool = True) -> Prepared:
    """Return what was handed in, ready for the log of *feed*; all of it or none.

    Unless it *tells*, what is wrong with an event that the schema does not allow is not looked for, which can take much
    longer than to find that it is not allowed.

    First everything is parsed, then validated, then given a partition, then completed: the first event that fails ends
    it (digest of Nakadi's contract, 3.2).

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
    raws = [bytes(event.data) for event in handed.events]
    lines = handed.lines or range(1, len(raws) + 1)
    decoded = check_events(raws, lines)
    if handed.deletes:
        return _prepare_deletions(feed, handed, raws, decoded, lines)
    if not handed.strict and feed.event_type.category != "undefined":
        drop_server_members(decoded)
    if not handed.validated:
        _validate(feed, raws, decoded, lines, tells=tells)
    partitions, keys = _placed(feed, handed, decoded, lines)
    kinds, headers = _described(feed, handed.events, decoded, lines)
    datas = one_line_each(raws)
    if feed.event_type.category != "undefined":
        enrichment = Enrichment(
            event_type=feed.name,
            version=feed.event_type.schema_version,
            received_at=rfc3339(now),
            flow_id=handed.flow_id,
        )
        datas = list(map(enrichment.complete, datas, decoded, partitions))
    return Prepared(feed, len(raws), _by_partition(partitions, zip(keys, kinds, headers, datas, strict=True)))


def ready(feed: Feed, handed: Handed, now: int, *, exact: bool = False, tells: bool = True) -> Prepared | Unfit:
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
        return Unfit(feed, error)


def refusal(found: Prepared | Unfit, *, exact: bool) -> PenstockError | None:
    """Return why what is *ready* is not looked at any further; None where it is.

    What is *exact* may be in the log, however unfit it is by now.
    """
    if isinstance(found, Prepared) or (exact and not isinstance(found.error, PartitionNotFound)):
        return None
    return found.error


def _prepare_deletions(
    feed: Feed, handed: Handed, raws: list[bytes], decoded: list[dict[str, Any]], lines: Sequence[int]
) -> Prepared:
    """Return marks of deletion: their size counts, their partition and their key; nothing else is looked at."""
    if not feed.event_type.compacted:
        raise UndeletableEvents(event_type=feed.name)
    check_sizes(raws, lines)
    partitions, keys = _placed(feed, handed, decoded, lines)
    rows = ((key, DELETION, None, data) for key, data in zip(keys, one_line_each(raws), strict=True))
    return Prepared(feed, len(raws), _by_partition(partitions, rows))


def _by_partition(partitions: Sequence[int], rows: Iterable[Row]) -> dict[int, list[Row]]:
    if len(set(partitions)) == 1:
        return {partitions[0]: list(rows)}
    found: dict[int, list[Row]] = {}
    for partition, row in zip(partitions, rows, strict=True):
        found.setdefault(partition, []).append(row)
    return found


def _validate(
    feed: Feed, raws: list[bytes], decoded: list[dict[str, Any]], lines: Sequence[int], *, tells: bool
) -> None:
    """Raise for the first event that the schema does not allow, or that is too large."""
    validator = feed.event_type.validator
    large = first_large(raws)  # What is too large is not looked into.
    invalid = validator.first_invalid(decoded[:large], raws[:large])
    if invalid is not None:
        raise InvalidEvent(line=lines[invalid], reason=validator.why(decoded[invalid]) if tells else _UNTOLD)
    if large is not None:
        check_size(raws[large], lines[large])


def _placed(
    feed: Feed, handed: Handed, decoded: list[dict[str, Any]], lines: Sequence[int]
) -> tuple[Sequence[int], Sequence[str | None]]:
    """Return each event's partition, and its key."""
    events = handed.events
    given = [new.headers.get(KEY_HEADER) if new.key is None and new.headers else new.key for new in events]
    compacted, placing = feed.event_type.compacted, _placing(feed, handed)
    if not compacted and placing.is_random:
        for line, new, key in zip(lines, events, given, strict=True):
            if key is not None:
                _check_given(key, new, line)
        return placing.random(len(given)), given
    partitions, keys = [], []
    for line, new, own, event in zip(lines, events, given, decoded, strict=True):
        if own is not None:
            _check_given(own, new, line)
        partition, key = placing.place(own, new, event, line)
        partitions.append(partition)
        keys.append(_compaction_key(event, line) if compacted else key)
    return partitions, keys


def _placing(feed: Feed, handed: Handed) -> Placing:
    return Placing(feed, takes_keys=not handed.strict, only=handed.partition, among=handed.among)


def _check_given(key: str, new: NewEvent, line: int) -> None:
    """Raise InvalidEvent unless *key*, with which *new* was handed in, can be one."""
    check_key(key, line, where=f"header {KEY_HEADER!r}" if new.key is None else None)


def _compaction_key(event: dict[str, Any], line: int) -> str:
    metadata = event.get("metadata")
    key = metadata.get("partition_compaction_key") if type(metadata) is dict else None
    if type(key) is not str or not key:
        reason = f"{_COMPACTION_KEY}: {unlike(key, 'a text of at least one character')}"
        raise PartitionRefused(line=line, reason=reason)
    check_key(key, line, PartitionRefused, where=_COMPACTION_KEY)
    return key


def _described(
    feed: Feed, events: Sequence[NewEvent], decoded: list[dict[str, Any]], lines: Sequence[int]
) -> tuple[list[str | None], list[str | None]]:
    """Return each event's kind, None for that of the event type, and its own headers."""
    kinds: list[str | None] = [None] * len(events)
    headers: list[str | None] = [None] * len(events)
    if feed.event_type.category == "data":
        kinds = [event["data_type"] for event in decoded]
    described = [number for number, new in enumerate(events) if new.headers]
    if not described and feed.event_type.category != "data":
        return kinds, headers
    for number in described:
        own = events[number].headers or {}
        headers[number] = check_headers(own, lines[number])
        kinds[number] = own.get(KIND_HEADER, kinds[number])
    for kind in dict.fromkeys(kinds):
        if kind is not None and kind != feed.name:
            first = kinds.index(kind)
            is_header = KIND_HEADER in (events[first].headers or {})
            check_kind(kind, lines[first], f"header {KIND_HEADER!r}" if is_header else "#/data_type")
    return [None if kind == feed.name else kind for kind in kinds], headers


def check_plain(feed: Feed) -> None:
    """Raise PublishingRestricted where a plain publish, which may store an event twice, is ruled out."""
    if feed.event_type.exactly_once:
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
