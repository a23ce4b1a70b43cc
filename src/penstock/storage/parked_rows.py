"""Keys whose events wait, in either database."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from penstock.core.subscriptions.assignment import FeedPartition
from penstock.storage.parked import Parked
from penstock.storage.statements import Statements


class SqlParkedKeys:
    """See `penstock.storage.parked.ParkedKeys`."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements.run
        self._run_each = statements.run_each

    def list(self, subscription: str, *, counted: bool = True) -> Sequence[Parked]:
        """See `ParkedKeys.list`."""
        found = self._run("parked_list", subscription=subscription, counted=counted).fetchall()
        return [
            Parked(parked_id, (event_type, partition), key, attempts, parked_at, bool(is_retried), *events)
            for parked_id, event_type, partition, key, attempts, parked_at, is_retried, *events in found
        ]

    def park(
        self, subscription: str, place: FeedPartition, key: str | None, offset: int, *, attempts: int, at: int
    ) -> None:
        """See `ParkedKeys.park`."""
        event_type, partition = place
        at_place = {"subscription": subscription, "event_type": event_type, "partition": partition, "key": key}
        found = self._run("parked_find", **at_place).fetchall() if key is not None else []
        [(parked_id,)] = found or self._run("park", **at_place, attempts=attempts, at=at).fetchall()
        self.add({parked_id: [offset]})

    def add(self, offsets: Mapping[int, Sequence[int]]) -> None:
        """See `ParkedKeys.add`."""
        self._run_each("parked_add", [(key_id, offset) for key_id, each in offsets.items() for offset in each])

    def offsets(self, id: int, *, after: int, limit: int) -> Sequence[int]:
        """See `ParkedKeys.offsets`."""
        return [offset for (offset,) in self._run("parked_offsets", id=id, after=after, limit=limit).fetchall()]

    def retry(self, ids: Collection[int]) -> None:
        """See `ParkedKeys.retry`."""
        self._run("parked_retry", ids=_json(ids))

    def failed(self, ids: Collection[int]) -> None:
        """See `ParkedKeys.failed`."""
        self._run("parked_failed", ids=_json(ids))

    def acknowledge(self, id: int, last: int) -> None:
        """See `ParkedKeys.acknowledge`."""
        self._run("parked_acknowledge", id=id, last=last)
        self._run("parked_done", ids=_json([id]))

    def clear(self, subscription: str, place: FeedPartition) -> None:
        """See `ParkedKeys.clear`."""
        event_type, partition = place
        self._run("parked_clear", subscription=subscription, event_type=event_type, partition=partition)


def _json(ids: Collection[int]) -> str:
    return msgspec.json.encode(list(ids)).decode()
