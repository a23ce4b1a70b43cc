"""Reads the ranges of feeds on the executors."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PenstockError, Unavailable
from penstock.processing.sources.feed_position import encode_tranche
from penstock.spark.connection import RemoteHub
from penstock.spark.patience import Patience
from penstock.spark.planning import Range
from penstock.spark.processors.reading import EVENTS, ProcessingPlan, select_needed
from penstock.spark.processors.sources.source import Then
from penstock.spark.reading import read_range
from penstock.wire.http import is_transient


@dataclass(frozen=True)
class FeedTasks:
    """The ranges that each task reads. It is sent to executors, so it has plain values."""

    hub: RemoteHub
    new: tuple[tuple[Range, ...], ...]
    again: tuple[tuple[Range, ...], ...]
    """Ranges that were read before."""
    hashed: frozenset[str]
    """The event types in which a key always falls in the same partition."""
    fail_on_loss: bool


@dataclass(frozen=True)
class ReadFeeds:
    """Reads the ranges of tasks, which a column `id` names by number: those with new events first."""

    plan: ProcessingPlan
    tasks: FeedTasks
    then: Then | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the events of the tasks that *batches* name.

        Raises:
            EventsLost: some are gone, and that is to fail.
            Unavailable: the hub has been away for too long. Whatever that was is told as this: of an error that Spark
                passes on nothing is left but its name and its words.
            PenstockError: what else the hub answers.
        """
        try:
            yield from self._read_all(batches)
        except PenstockError as error:
            if not is_transient(error):
                raise
            raise Unavailable(reason=error.detail) from error

    def _read_all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tasks, then = self.tasks, self.then
        new = len(tasks.new)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                again = number >= new
                for wanted in tasks.again[number - new] if again else tasks.new[number]:
                    for events in self._read(wanted, again=again):
                        if events.num_rows:
                            yield events if then is None else then.make(events)

    def _read(self, wanted: Range, *, again: bool) -> Iterator[pa.RecordBatch]:
        hub, fails = self.tasks.hub, self.tasks.fail_on_loss
        patience = Patience(hub.retry_timeout)
        number = self.plan.numbers[encode_tranche(wanted.event_type, wanted.partition)]
        for batch in read_range(hub, wanted, patience, fail_on_loss=fails, with_headers=False):
            yield select_needed(self._shape(batch, wanted, number, again=again), self.plan, again=again)

    def _shape(self, batch: pa.RecordBatch, wanted: Range, number: int, *, again: bool) -> pa.RecordBatch:
        rows = batch.num_rows
        columns = [
            self._streams(batch.column("key"), wanted),
            pa.repeat(pa.scalar(number, pa.int32()), rows),
            pa.repeat(pa.scalar(again), rows),
            batch.column("offset"),
            batch.column("key"),
            pc.fill_null(batch.column("kind"), wanted.event_type),
            batch.column("headers"),
            batch.column("data"),
            batch.column("received_at").cast(pa.int64()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=EVENTS)

    def _streams(self, keys: pa.Array, wanted: Range) -> pa.Array:
        """Name streams as `stream_name` does."""
        in_partition = f"{wanted.event_type}-{wanted.partition}_"
        own = pc.binary_join_element_wise(in_partition, pc.fill_null(keys, ""), "")
        if wanted.event_type not in self.tasks.hashed:
            return own
        named = pc.binary_join_element_wise(f"{wanted.event_type}-", keys, "")
        return pc.if_else(pc.is_valid(keys), named, own) if keys.null_count else named
