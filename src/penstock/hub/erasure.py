"""Erasure of personal data: removes the events of a key, and all copies of them in the database.

A request is recorded before anything is erased, with the ends of all partitions: events that are published later are
not erased. The sweeper erases, in small transactions that count what they erase, and finishes a request once nothing
is left; a hub that is killed meanwhile goes on at its next start. Offsets stay: readers pass over them.
docs/guides/erasure.md lists what is erased, what is not, and for how long it stays.
"""

import hashlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from penstock.core.access import Sender
from penstock.core.events.event import KEY_CHARS_MAX
from penstock.errors import (
    BadParameter,
    ColdFileDamaged,
    ColdTierUnavailable,
    ColdTierUnsuitable,
    RecordNotFound,
)
from penstock.hub.background import Clock
from penstock.hub.changes import AuditedChange, record_change
from penstock.hub.cold.erasing import delete_given_up, erase_sealed
from penstock.hub.cold.sealing import ABANDONED_SECONDS
from penstock.hub.subscriptions.dead_letters import DEAD_LETTERS
from penstock.storage.cold.loading import load_and_repeat
from penstock.storage.cold.manifest import ManifestFile
from penstock.storage.log.erasure import ErasedCounts, StoredErasure
from penstock.storage.store import Store, Tx

if TYPE_CHECKING:
    import pyarrow as pa

STEP_OFFSETS: Final = 20_000
"""The number of offsets that are searched at once."""
UNSWEPT_MAX: Final = 1_000_000
"""More partitions than hold expired events."""
_log: Final = structlog.get_logger("penstock.erasure")


class _WaitError(Exception):
    """An erasure cannot continue now; the message names the reason."""


class _Letter(msgspec.Struct):
    """The part of a dead letter that says whose event it has."""

    event_type: str


_decode_letter: Final = msgspec.json.Decoder(_Letter).decode


class Erasures:
    """The erasures of one store."""

    def __init__(
        self, store: Store, clock: Clock, settle: Callable[[str], object], sweep: Callable[[], object]
    ) -> None:
        """*settle* moves the outbox of an event type into the log, and *sweep* has `run` called soon."""
        self._store = store
        self._clock = clock
        self._settle = settle
        self._sweep = sweep
        self._waits: dict[str, str] = {}
        """For what erasures wait, by id."""

    def request(self, name: str, key: str, by: Sender | None = None) -> StoredErasure:
        """Have the events of a key erased that the event type *name* has now, those in the outbox included.

        Raises:
            EventTypeNotFound: there is no such event type.
            BadParameter: *key* is longer than a key can be.
            HubUnavailable, DatabaseUnavailable: the outbox could not be moved now.
        """
        if len(key) > KEY_CHARS_MAX:
            raise BadParameter(parameter="key", value=key[:80], allowed=f"a text of at most {KEY_CHARS_MAX} characters")
        self._settle(name)
        with self._store.write() as tx:
            feed = tx.registry.get(name)
            heads = tx.log.find_heads(sorted(feed.partition_ids), lock=True)
            ends = {number: heads[each].next_offset for number, each in enumerate(feed.partition_ids) if each in heads}
            owner = by.owner if by else None
            digest = hashlib.sha256(key.encode()).hexdigest()
            now = self._clock()
            found = StoredErasure(str(uuid.uuid4()), name, feed.epoch, ends, key, digest, owner, now)
            tx.erasures.insert(found)
            shown = {"event_type": name, "key_sha256": digest, "ends": {str(each): end for each, end in ends.items()}}
            record_change(tx, AuditedChange("erasure", found.id, None, shown), by, now)
        self._sweep()
        return found

    def find(self, name: str, id: str) -> StoredErasure:
        """Return an erasure of an event type.

        Raises:
            RecordNotFound: there is none.
        """
        if id.isprintable():  # PostgreSQL refuses to look for other texts.
            with self._store.read() as tx:
                for each in tx.erasures.list(id=id, event_type=name):
                    return each
        raise RecordNotFound.of("erasure-not-found", event_type=name, erasure=id)

    def list(self, name: str) -> Sequence[StoredErasure]:
        """Return the 100 newest erasures of an event type, newest first."""
        with self._store.read() as tx:
            return tx.erasures.list(event_type=name)

    def find_wait(self, erasure: StoredErasure) -> str | None:
        """Return the reason why an erasure waits, as this hub last found it; None if it does not wait."""
        return self._waits.get(erasure.id) if erasure.finished_at is None else None

    def run(self, pause: Callable[[float], bool] = lambda seconds: False) -> None:  # noqa: ARG005
        """Go on with all erasures. *pause*: see `penstock.hub.admin.sweeping.SweepTask`.

        Raises:
            Unavailable: the database cannot be asked; what was erased is.
        """
        with self._store.read() as tx:
            unfinished = tx.erasures.list(unfinished=True)
        self._waits = {each.id: self._waits[each.id] for each in unfinished if each.id in self._waits}
        for each in reversed(unfinished):
            try:
                if self._erase(each, pause):
                    return
            except _WaitError as wait:  # Others go on.
                self._note_wait(each, str(wait))
            except (ColdTierUnavailable, ColdFileDamaged, ColdTierUnsuitable) as error:
                self._note_wait(each, error.detail)

    def _note_wait(self, erasure: StoredErasure, reason: str) -> None:
        self._waits[erasure.id] = reason
        _log.warning("an erasure goes on later", id=erasure.id, reason=reason)

    def _erase(self, erasure: StoredErasure, pause: Callable[[float], bool]) -> bool:
        """Erase what there is; return whether to stop."""
        if erasure.key is not None:
            if self._erase_all(erasure, erasure.key, pause):
                return True
            with self._store.write() as tx, tx.removal.overwriting():
                tx.erasures.forget_key(erasure.id)
        self._delete_other_files(erasure)
        if not self._store.forget_deleted():
            raise _WaitError("readers keep the write-ahead log from being emptied")
        with self._store.write() as tx:
            tx.erasures.finish(erasure.id, self._clock())
        _log.info("events were erased", id=erasure.id, event_type=erasure.event_type)
        return False

    def _erase_all(self, erasure: StoredErasure, key: str, pause: Callable[[float], bool]) -> bool:
        for partition_id, start, stop in self._list_ranges(erasure):
            if self._rest(pause, partial(self._erase_range, erasure, partition_id, start, stop)):
                return True
        for file, end in self._list_files(erasure):  # After those of the database, which may be sealed meanwhile.
            if self._rest(pause, partial(self._erase_file, erasure, file, end)):
                return True
        has_tier = self._store.cold is not None  # Then events may have been fetched meanwhile.
        for partition_id, start, stop in self._list_ranges(erasure) if has_tier else ():
            if self._rest(pause, partial(self._erase_range, erasure, partition_id, start, stop)):
                return True
        self._wait_for_subscriptions(erasure)
        for partition_id, start, stop in self._list_letter_ranges():
            erase = partial(load_and_repeat, partial(self._erase_letters, erasure, partition_id, start, stop))
            if self._rest(pause, erase):
                return True
        for file in self._list_letter_files():
            if self._rest(pause, partial(self._erase_letter_file, erasure, file)):
                return True
        self._erase_parked(erasure, key)
        with self._store.write() as tx, tx.removal.overwriting():
            tx.erasures.add(erasure.id, ErasedCounts(rejected=tx.erasures.delete_rejected(erasure.event_type, key)))
        return False

    @staticmethod
    def _rest(pause: Callable[[float], bool], act: Callable[[], None]) -> bool:
        began = time.monotonic()
        act()
        return pause(time.monotonic() - began)

    def _erase_range(self, erasure: StoredErasure, partition_id: int, start: int, stop: int) -> None:
        assert erasure.key is not None
        with self._store.read() as tx:
            if not tx.removal.list_offsets(partition_id, start, stop, erasure.key):
                return
        with self._store.write() as tx:
            if not tx.log.find_heads([partition_id], lock=True):
                return  # Dropped meanwhile.
            offsets = tx.removal.list_offsets(partition_id, start, stop, erasure.key)
            self._remove(tx, partition_id, offsets)
            tx.erasures.add(erasure.id, ErasedCounts(events=len(offsets)))

    def _list_ranges(self, erasure: StoredErasure) -> Iterator[tuple[int, int, int]]:
        """Yield the ranges to search: partition id, start and stop. Expired events that are still there count."""
        with self._store.read() as tx:
            feed = tx.registry.find(erasure.event_type)
            if feed is None or feed.epoch != erasure.epoch:  # It was dropped, and its events are being deleted.
                return
            heads = tx.log.find_heads(feed.partition_ids)
            expired = {each.partition_id: each.start for each in tx.removal.list_unswept(UNSWEPT_MAX)}
        for number, partition_id in enumerate(feed.partition_ids):
            if partition_id in heads and number in erasure.ends:
                start = expired.get(partition_id, heads[partition_id].floor)
                for each in _ranges(start, erasure.ends[number]):
                    yield partition_id, *each

    @staticmethod
    def _find_ends(tx: Tx, erasure: StoredErasure) -> Mapping[int, int]:
        """Return the offsets up to which events are erased, by the id of the partition."""
        feed = tx.registry.find(erasure.event_type)
        if feed is None or feed.epoch != erasure.epoch:  # It was dropped, and its files are being deleted.
            return {}
        return {each: erasure.ends.get(number, 0) for number, each in enumerate(feed.partition_ids)}

    def _list_files(self, erasure: StoredErasure) -> Sequence[tuple[ManifestFile, int]]:
        """Return the files of the cold tier to search, each with the offset up to which events are erased."""
        with self._store.read() as tx:
            ends = self._find_ends(tx, erasure)
            files = tx.cold.list([*ends], "sealed")
        return [(each, ends[each.partition_id]) for each in files if each.start < ends[each.partition_id]]

    def _delete_other_files(self, erasure: StoredErasure) -> None:
        """Delete files that are no longer valid and may still have the events, once none is being written.

        A file whose writing began before the events were erased is never sealed: the sealing transaction detects the
        erasure.

        Raises:
            _WaitError: a hub is writing a file, or was killed meanwhile.
        """
        with self._store.read() as tx:
            ends = self._find_ends(tx, erasure)
            letters = tx.registry.find(DEAD_LETTERS)
            partition_ids = [*ends, *(letters.partition_ids if letters else ())]
            given_up = tx.cold.list(partition_ids, "removed")
            writing = [
                each
                for each in tx.cold.list(partition_ids, "writing")
                if each.start < ends.get(each.partition_id, each.stop)
            ]
        if given_up:
            delete_given_up(self._store, [erasure.event_type, DEAD_LETTERS], given_up, self._clock)
        if writing:
            path, minutes = writing[0].path, int(ABANDONED_SECONDS // 60)
            raise _WaitError(f"a hub is writing {path}; if it was killed, the file is deleted after {minutes} minutes")

    def _erase_file(self, erasure: StoredErasure, file: ManifestFile, end: int) -> None:
        from penstock.cold.parquet import find_key

        key = erasure.key
        assert key is not None

        def find(batch: "pa.RecordBatch") -> Sequence[int]:
            return [each for each in find_key(batch, key) if each < end]

        erase_sealed(self._store, file, find, self._clock, partial(_count_events, erasure.id))

    def _list_letter_files(self) -> Sequence[ManifestFile]:
        with self._store.read() as tx:
            letters = tx.registry.find(DEAD_LETTERS)
            return tx.cold.list(letters.partition_ids, "sealed") if letters else []

    def _erase_letter_file(self, erasure: StoredErasure, file: ManifestFile) -> None:
        from penstock.cold.parquet import find_key

        key = erasure.key
        assert key is not None

        def find(batch: "pa.RecordBatch") -> Sequence[int]:
            found = set(find_key(batch, key))
            rows = zip(batch.column("offset").to_pylist(), batch.column("data"), strict=True) if found else ()
            return [
                each
                for each, data in rows
                if each in found and _decode_letter(data.as_py()).event_type == erasure.event_type
            ]

        erase_sealed(self._store, file, find, self._clock, partial(_count_letters, erasure.id))

    def _list_letter_ranges(self) -> Iterator[tuple[int, int, int]]:
        """Yield the ranges of all dead letters: partition id, start and stop."""
        with self._store.read() as tx:
            letters = tx.registry.find(DEAD_LETTERS)
            heads = tx.log.find_heads(letters.partition_ids) if letters else {}
        for partition_id, head in heads.items():
            for each in _ranges(head.floor, head.next_offset):
                yield partition_id, *each

    def _erase_letters(self, erasure: StoredErasure, partition_id: int, start: int, stop: int) -> None:
        """Erase the dead letters of a range; they have the keys of the events that they are about."""
        assert erasure.key is not None
        with self._store.read() as tx:
            found = tx.removal.list_offsets(partition_id, start, stop, erasure.key)
            read = {each: tx.log.read_columns(partition_id, each, each + 1) for each in found}
        offsets = [
            each
            for each, columns in read.items()
            if columns.rows and _decode_letter(columns.data).event_type == erasure.event_type
        ]
        if not offsets:
            return
        with self._store.write() as tx:
            if tx.log.find_heads([partition_id], lock=True):
                self._remove(tx, partition_id, offsets)
                tx.erasures.add(erasure.id, ErasedCounts(dead_letters=len(offsets)))

    def _wait_for_subscriptions(self, erasure: StoredErasure) -> None:
        """Wait for transactions that may park a key, or publish a dead letter, of an event that they have read before.

        Such a transaction locks its subscription first. One that begins later no longer finds the event.
        """
        with self._store.read() as tx:
            readers = tx.subscriptions.list_readers(erasure.event_type)
        for each in readers:
            with self._store.write() as tx:
                tx.subscriptions.find(each, lock=True)

    def _erase_parked(self, erasure: StoredErasure, key: str) -> None:
        """Erase the parked events of the key; those that are parked behind them and stay are sent again."""
        with self._store.read() as tx:
            feed = tx.registry.find(erasure.event_type)
            if feed is None or feed.epoch != erasure.epoch:  # The parked keys went with its subscriptions.
                return
            found = tx.erasures.list_parked_keys(erasure.event_type, key)
        for subscription, parked_id, partition in found:
            end = erasure.ends.get(partition, 0)
            with self._store.write() as tx, tx.removal.overwriting():
                if tx.subscriptions.find(subscription, lock=True) is None:
                    continue
                parked = tx.subscriptions.list_parked(subscription, counted=False)
                if any(each.id == parked_id and each.first < end for each in parked):
                    tx.subscriptions.acknowledge_parked({parked_id: end - 1})
                    tx.subscriptions.mark_parked([parked_id], retried=True)
                    tx.subscriptions.revise(subscription)
                    tx.erasures.add(erasure.id, ErasedCounts(parked_keys=1))
        self._erase_parked_streams(erasure, key)

    def _erase_parked_streams(self, erasure: StoredErasure, key: str) -> None:
        """Erase the streams of the key that processors have parked, and why any stream is parked that names the key.

        Events of such a stream that stay are tried again, so that it is parked no longer than it has to be.
        """
        with self._store.read() as tx:
            found = tx.erasures.list_parked_streams(erasure.event_type, key)
        for each in found:
            with self._store.write() as tx, tx.removal.overwriting():
                if tx.groups.lock(each.group) is None:
                    continue
                now = [one for one in tx.erasures.list_parked_streams(erasure.event_type, key) if one.id == each.id]
                for _, parked_id, partition, end, is_named in now:
                    if is_named and end <= erasure.ends.get(partition, 0):
                        tx.erasures.delete_parked_stream(parked_id)
                    else:
                        tx.erasures.blank_parked_stream(parked_id, retried=is_named)
                    tx.erasures.add(erasure.id, ErasedCounts(parked_keys=1))

    @staticmethod
    def _remove(tx: Tx, partition_id: int, offsets: Sequence[int]) -> None:
        with tx.removal.overwriting():
            tx.removal.remove(partition_id, offsets)


def _count_events(id: str, tx: Tx, count: int) -> None:
    tx.erasures.add(id, ErasedCounts(events=count))


def _count_letters(id: str, tx: Tx, count: int) -> None:
    tx.erasures.add(id, ErasedCounts(dead_letters=count))


def _ranges(start: int, stop: int) -> Iterator[tuple[int, int]]:
    for each in range(start, stop, STEP_OFFSETS):
        yield each, min(stop, each + STEP_OFFSETS)
