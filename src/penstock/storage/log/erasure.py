"""Port of erasures: requests to erase the events of a key, and counts of the erased events."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from penstock.storage.statements import SqlRunner

_decode_ends: Final = msgspec.json.Decoder(dict[int, int]).decode


class ErasedCounts(NamedTuple):
    """Counts of erased objects."""

    events: int = 0
    parked_keys: int = 0
    rejected: int = 0
    dead_letters: int = 0


class StoredErasure(NamedTuple):
    """Request to erase the events of a key. All times are microseconds since 1970, UTC."""

    id: str
    event_type: str
    epoch: int
    ends: Mapping[int, int]
    """By partition: the offset up to which events are erased."""
    key: str | None
    """None once all that has it is erased."""
    digest: str
    """SHA-256 digest of the key, in hexadecimal."""
    requested_by: str | None
    """The caller, as `DATA_TYPE:VALUE`; None: callers are not authenticated."""
    requested_at: int
    finished_at: int | None = None
    erased: ErasedCounts = ErasedCounts()


class StreamOfKey(NamedTuple):
    """Parked stream of a group that may have personal data of a key."""

    group: str
    id: int
    partition: int
    next: int
    """Index behind its last event: of a feed, the offset."""
    is_named: bool
    """True if it is the stream of the key; else only its failure names the key."""


class ErasureRepository:
    """Erasures."""

    def __init__(self, sql: SqlRunner) -> None:
        self._run = sql.run

    def insert(self, erasure: StoredErasure) -> None:
        """Record a request."""
        given = erasure._asdict() | {"ends": msgspec.json.encode(erasure.ends).decode()}
        self._run("erasure_insert", **{name: given[name] for name in StoredErasure._fields[:8]})

    def list(
        self, *, id: str | None = None, event_type: str | None = None, unfinished: bool = False, limit: int = 100
    ) -> Sequence[StoredErasure]:
        """Return up to *limit* erasures, newest first: those of an *id*, of an *event_type*, those *unfinished*."""
        rows = self._run("erasures_find", id=id, event_type=event_type, unfinished=unfinished, limit=limit).fetchall()
        return [_read(row) for row in rows]

    def add(self, id: str, erased: ErasedCounts) -> None:
        """Add what the transaction has erased."""
        self._run("erasure_add", id=id, **erased._asdict())

    def forget_key(self, id: str) -> None:
        """Delete the key: all that has it is erased."""
        self._run("erasure_forget", id=id)

    def finish(self, id: str, at: int) -> None:
        """Note that all was erased."""
        self._run("erasure_finish", id=id, at=at)

    def list_parked_keys(self, event_type: str, key: str) -> Sequence[tuple[str, int, int]]:
        """Return the parked keys of all subscriptions that are *key* of an event type: subscription, id, partition."""
        rows = self._run("parked_of_key", event_type=event_type, key=key).fetchall()
        return [(subscription, parked_id, partition) for subscription, parked_id, partition in rows]

    def list_parked_streams(self, event_type: str, key: str) -> Sequence["StreamOfKey"]:
        """Return the parked streams of all groups that are those of a *key*, or whose failures name it."""
        rows = self._run("streams_of_key", event_type=event_type, key=key).fetchall()
        return [StreamOfKey._make([*row[:4], bool(row[4])]) for row in rows]

    def delete_parked_stream(self, id: int) -> None:
        """Delete a parked stream of a locked group."""
        self._run("stream_erase", id=id)

    def blank_parked_stream(self, id: int, *, retried: bool) -> None:
        """Forget why a stream of a locked group is parked, and have it tried again if it is to be *retried*."""
        self._run("stream_blank", id=id, request="retry" if retried else None)

    def delete_rejected(self, event_type: str, key: str) -> int:
        """Delete the rejected rows of a key, and return how many there were."""
        return self._run("rejected_of_key", event_type=event_type, key=key).rowcount


def _read(row: Sequence[Any]) -> StoredErasure:
    stored = StoredErasure._make([*row[:9], ErasedCounts(*row[9:])])
    return stored._replace(ends=_decode_ends(row[3]))
