"""Uploads and batches in PostgreSQL."""

from collections.abc import Collection, Mapping, Sequence

from penstock.storage.staging import Batch
from penstock.storage.staging_rows import SqlStaging


class PostgresStaging(SqlStaging):
    """Many write at the same time: who publishes a part of a batch holds its row."""

    def lock(self, batch_ids: Collection[int], partition_ids: Sequence[int]) -> Mapping[int, Batch]:
        """See `Staging.lock`."""
        self._run("event_types_share", ids=list(partition_ids))
        self._run("batches_lock", wanted=list(batch_ids))
        return super().lock(batch_ids, partition_ids)
