"""Idempotent producers, in either database."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from penstock.core.producers import EpochEnd, ProducerState, StoredBatch
from penstock.storage.producers import Batch, NewBatch, Producer, ProducerKey, Window
from penstock.storage.statements import Statements


class SqlProducers:
    """See `penstock.storage.producers.Producers`; nothing is locked here, as if there were one writer at a time."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements.run
        self._run_each = statements.run_each

    def look(self, wanted: Sequence[ProducerKey]) -> Mapping[ProducerKey, Producer | None]:
        """See `Producers.look`."""
        return found_of(self._run("producers_look", wanted=wanted_of(wanted)).fetchall())

    def lock(
        self, wanted: Sequence[ProducerKey], partition_ids: Sequence[int]
    ) -> Mapping[ProducerKey, Producer | None]:
        """See `Producers.lock`."""
        del partition_ids
        return self.look(wanted)

    def insert(
        self, key: ProducerKey, state: ProducerState, at: int, *, claim_id: str | None, is_pinned: bool
    ) -> int | None:
        """See `Producers.insert`."""
        partition_id, name = key
        given = {"partition_id": partition_id, "name": name, "claim_id": claim_id, "is_pinned": is_pinned, "at": at}
        found = self._run("producer_insert", **given, **_columns(state)).fetchall()
        return int(found[0][0]) if found else None

    def update(self, producer: Producer) -> None:
        """See `Producers.update`."""
        given = {"claim_id": producer.claim_id, "is_pinned": producer.is_pinned, "at": producer.updated_at}
        self._run("producer_update", id=producer.id, **given, **_columns(producer.state))

    def append(self, batches: Iterable[NewBatch], at: int) -> None:
        """See `Producers.append`."""
        rows = [
            (producer_id, epoch, stored.first, stored.end - stored.first, stored.first_offset, at, stored.digests)
            for producer_id, epoch, stored in batches
        ]
        self._run_each("produced_add", rows)

    def batches(self, producer_id: int, epoch: int, first: int, stop: int) -> Sequence[StoredBatch]:
        """See `Producers.batches`."""
        found = self._run("produced_find", producer_id=producer_id, epoch=epoch, first=first, stop=stop)
        return [StoredBatch(number, offset, bytes(digests)) for number, offset, digests in found.fetchall()]

    def ending(self, producer_id: int, epoch: int) -> EpochEnd | None:
        """See `Producers.ending`."""
        found = self._run("produced_ending", producer_id=producer_id, epoch=epoch).fetchall()
        return EpochEnd(epoch, *found[0]) if found else None

    def window(self, producer_id: int, epoch: int) -> Window:
        """See `Producers.window`."""
        [(batches, first)] = self._run("produced_window", producer_id=producer_id, epoch=epoch).fetchall()
        return Window(batches, first)

    def count(self, partition_id: int) -> int:
        """See `Producers.count`."""
        [(found,)] = self._run("producers_count", partition_id=partition_id).fetchall()
        return int(found)

    def list(self, partition_id: int, *, after: str, limit: int) -> Sequence[Producer]:
        """See `Producers.list`."""
        found = self._run("producers_list", partition_id=partition_id, after=after, limit=limit).fetchall()
        return [each for each in found_of(found).values() if each is not None]

    def idle(self, since: int, limit: int) -> Sequence[Producer]:
        """See `Producers.idle`."""
        found = self._run("producers_idle", since=since, limit=limit).fetchall()
        return [each for each in found_of(found).values() if each is not None]

    def forget(self, before: int) -> int:
        """See `Producers.forget`."""
        return self._run("producers_forget", before=before).rowcount

    def gone_batches(self, rows: int, kept: int) -> Sequence[Batch]:
        """See `Producers.gone_batches`."""
        return [Batch(*row) for row in self._run("produced_gone", rows=rows, kept=kept).fetchall()]

    def forget_batches(self, batches: Sequence[Batch]) -> None:
        """See `Producers.forget_batches`."""
        self._run_each("produced_remove", sorted(batches))  # So that two who do it wait in one order.


def wanted_of(wanted: Sequence[ProducerKey]) -> str:
    """Return keys as a statement takes them."""
    return msgspec.json.encode(wanted).decode()


def found_of(rows: Iterable[Sequence[Any]]) -> dict[ProducerKey, Producer | None]:
    """Return producers by their keys, from rows of the columns that all looks at them have."""
    return {(partition_id, name): _producer(partition_id, name, own) for partition_id, name, *own in rows}


def _producer(partition_id: int, name: str, row: Sequence[Any]) -> Producer | None:
    producer_id, epoch, begins, *previous, claim_id, is_pinned, is_expired, updated_at, next_, last, appended_at = row
    if producer_id is None:
        return None
    state = ProducerState(
        epoch,
        begins,
        begins if next_ is None else next_,
        last,
        None if previous[0] is None else EpochEnd(*previous),
        bool(is_expired),
    )
    heard_at = max(updated_at, appended_at or 0)
    return Producer(producer_id, partition_id, name, state, claim_id, bool(is_pinned), heard_at)


def _columns(state: ProducerState) -> dict[str, Any]:
    epoch, next_, last_offset = state.previous or (None, None, None)
    return {
        "epoch": state.epoch,
        "begins": state.begin,
        "previous_epoch": epoch,
        "previous_next": next_,
        "previous_last_offset": last_offset,
        "is_expired": state.is_expired,
    }
