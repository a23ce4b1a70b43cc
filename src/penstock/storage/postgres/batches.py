"""Uploads and batches in PostgreSQL."""

from collections.abc import Collection, Mapping, Sequence

from penstock.storage.batches import BatchRepository, LedgerBatch


class PostgresBatches(BatchRepository):
    """Uploads and batches in PostgreSQL, where a transaction locks the row of a batch before it publishes a part."""

    def lock(self, batch_ids: Collection[int], partition_ids: Sequence[int]) -> Mapping[int, LedgerBatch]:
        """Return batches, locked until the transaction ends."""
        self._run("event_types_share", ids=list(partition_ids))
        self._run("batches_lock", wanted=list(batch_ids))
        return super().lock(batch_ids, partition_ids)
