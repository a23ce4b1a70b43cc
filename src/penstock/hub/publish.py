"""Makes events ready for the log: validate, partition, enrich. All of it is done before the transaction."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from penstock.core.document import unlike
from penstock.core.event import (
    NewEvent,
    Row,
    check_events,
    check_headers,
    check_key,
    check_kind,
    one_line_each,
    refuse_duplicate_keys,
)
from penstock.core.event_type import Feed
from penstock.core.metadata import check_shape, enrich
from penstock.core.partitioning import Path, hash_partition, key_path, key_text, random_partition
from penstock.errors import InvalidEvent, PartitionRefused, PublishingRestricted
from penstock.hub.clock import rfc3339

KEY_HEADER = "ce_partitionkey"
KIND_HEADER = "ce_type"


Place = Callable[[str | None, NewEvent, dict[str, Any], int], tuple[int, str | None]]
"""Chooses the partition by an event's key, what came with it, itself, and its line; returns its own key, too."""


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


def prepare(feed: Feed, events: Sequence[NewEvent], now: int, lines: Sequence[int] | None = None) -> Prepared:
    """Return *events* ready for the log of *feed*; all of them or none.

    Raises:
        InvalidEvent, EventTooLarge, PartitionRefused: for the first event that cannot be taken, with its
            number from *lines*, by default counted from 1.
    """
    raws = [bytes(event.data) for event in events]
    lines = lines or range(1, len(raws) + 1)
    decoded = check_events(raws, lines)
    raws = one_line_each(raws)
    place = _Placing(feed).place
    category, enriched_at = feed.event_type.category, rfc3339(now)
    rows: dict[int, list[Row]] = {}
    for line, new, raw, event in zip(lines, events, raws, decoded, strict=True):
        key, kind, headers, data = new.key, None, None, raw
        if category != "undefined":
            check_shape(event, category, line)
            kind = event.get("data_type") if category == "data" else None
        if new.headers:
            headers = check_headers(new.headers, line)
            kind = new.headers.get(KIND_HEADER, kind)
            key = new.headers.get(KEY_HEADER) if key is None else key
        if key is not None:
            check_key(key, line)
        partition, key = place(key, new, event, line)
        if category != "undefined":
            data = enrich(raw, event, event_type=feed.name, partition=partition, received_at=enriched_at)
        if kind is not None:
            kind = _own_kind(kind, feed.name, line)
        rows.setdefault(partition, []).append((key, kind, headers, data))
    return Prepared(feed, len(raws), rows)


def check_plain(feed: Feed) -> None:
    """Raise PublishingRestricted where a plain publish, which may store an event twice, is ruled out."""
    if feed.event_type.exactly_once:
        raise PublishingRestricted(event_type=feed.name)


class _Placing:
    """Chooses the partition of each event by the event type's strategy (digest of Nakadi's contract, 3.6)."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._count = feed.partition_count
        prefix = "data." if feed.event_type.category == "data" else ""
        self._paths: list[Path] = [key_path(prefix + field) for field in feed.event_type.partition_key_fields]
        strategies: dict[str, Place] = {"hash": self._hashed, "user_defined": self._asked}
        self.place = strategies.get(feed.event_type.partition_strategy, self._random)

    def _random(self, key: str | None, new: NewEvent, event: dict[str, Any], line: int) -> tuple[int, str | None]:  # noqa: ARG002
        return random_partition(self._count), key

    def _hashed(self, key: str | None, new: NewEvent, event: dict[str, Any], line: int) -> tuple[int, str]:  # noqa: ARG002
        if key is not None:
            return hash_partition((key,), self._count), key
        texts = self._texts(event, line)
        key = ",".join(texts)
        check_key(key, line)
        return hash_partition(texts, self._count), key

    def _texts(self, event: dict[str, Any], line: int) -> tuple[str, ...]:
        try:
            return tuple([key_text(event, path) for path in self._paths])
        except KeyError as missing:
            reason = f"partition key field {missing.args[0]!r} is missing; give the event the field, or the line a key"
            raise PartitionRefused(line=line, reason=reason) from None

    def _asked(self, key: str | None, new: NewEvent, event: dict[str, Any], line: int) -> tuple[int, str | None]:
        asked: object = new.partition
        if asked is None and type(metadata := event.get("metadata")) is dict:
            asked = metadata.get("partition")
        if type(asked) is str and asked.isascii() and asked.isdigit():
            asked = int(asked)
        if type(asked) is int and 0 <= asked < self._count:
            return asked, key
        reason = f"its partition {unlike(asked, 'one that there is')}; {self._feed.name!r} is user_defined"
        raise PartitionRefused(line=line, reason=f"{reason} and has partitions 0 to {self._count - 1}")


def _own_kind(kind: object, default: str, line: int) -> str | None:
    if kind == default:
        return None
    assert isinstance(kind, str)
    check_kind(kind, line)
    return kind


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
