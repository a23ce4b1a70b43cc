"""Mode direct: tasks publish their rows, and the driver completes the batch with their counts."""

from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import (
    BatchUnfinished,
    InvalidEvent,
    InvalidRecord,
    PayloadMismatch,
    PenstockError,
    ProducerFenced,
    ReplayDiffers,
)
from penstock.spark.direct_sink import Sent, complete, send
from penstock.spark.publishing import BatchPlace, QueryBatch
from penstock.wire.batches import BatchStatus
from tests.failing import has_code

BATCH = QueryBatch("a", "g", 7, "q")
FENCED = ProducerFenced(
    producer_group="g", partition=0, received=0, current_epoch=4, next_sequence=0, committed=None, ranges=[]
)


class Hub:
    """Keeps what it is sent."""

    def __init__(self, *states: str, refuses: PenstockError | None = None) -> None:
        self._states = list(states) or ["publishing"]
        self._refuses = refuses
        self.sent: list[tuple[int, BatchPlace, bytes]] = []
        self.counts: dict[int, int] | None = None

    def begin(self, batch: QueryBatch) -> BatchStatus:
        assert batch == BATCH
        state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        return BatchStatus("g", 7, "q", "direct", state, 0, 0, {}, "", "", 4, 3)

    def send(self, batch: QueryBatch, epoch: int, place: BatchPlace, lines: memoryview) -> None:
        assert batch == BATCH
        if self._refuses:
            raise self._refuses
        self.sent.append((epoch, place, bytes(lines)))

    def complete(self, batch: QueryBatch, counts: dict[int, int]) -> None:
        assert batch == BATCH
        if self._refuses:
            raise self._refuses
        self.counts = counts


def rows(*partitions: int) -> list[pa.RecordBatch]:
    lines = [b"%d\n" % number for number in range(len(partitions))]
    columns = {"partition": pa.array(partitions, pa.int32()), "line": pa.array(lines, pa.binary())}
    return [pa.RecordBatch.from_pydict(columns)]


def send_partitions(hub: Any, *partitions: int) -> Sent:
    return send(hub, BATCH, rows(*partitions))


def test_a_task_sends_its_rows_in_the_epoch_of_the_batch_and_counts_them() -> None:
    hub = Hub()

    assert send_partitions(hub, 1, 0, 1) == Sent(BATCH, {0: 1, 1: 2})
    assert hub.sent == [(3, BatchPlace(0, 0), b"1\n"), (3, BatchPlace(1, 0), b"0\n2\n")]


def test_task_of_a_published_batch_sends_nothing() -> None:
    hub = Hub("published")

    assert send_partitions(hub, 0) == Sent(BATCH, None)
    assert hub.sent == []


def test_a_task_without_rows_asks_nothing() -> None:
    assert send(None, BATCH, []) == Sent(BATCH, {})  # type: ignore[arg-type]


def test_task_fenced_from_a_published_batch_is_done() -> None:
    assert send_partitions(Hub("publishing", "published", refuses=FENCED), 0) == Sent(BATCH, None)


@pytest.mark.parametrize(
    ("refusal", "told", "said"),
    [
        (FENCED, ProducerFenced, "its epoch is now 4"),
        (
            PayloadMismatch(
                producer_group="g", partition=1, received=0, differs_at=5, current_epoch=3, next_sequence=9,
                committed=False, ranges=[],
            ),
            ReplayDiffers, "batch 7 of .*'g' was recomputed .*: event 5 of it in partition 0 is another one",
        ),
        (InvalidEvent(line=2, reason="no good"), InvalidRecord, "no good; it begins 1"),
    ],
)  # fmt: skip
def test_hub_refusal_raises_the_error_it_means(refusal: PenstockError, told: type[PenstockError], said: str) -> None:
    with pytest.raises(told, match=said):
        send_partitions(Hub(refuses=refusal), 0, 0)


def complete_batch(hub: Any, *tasks: Sent) -> None:
    complete(hub, tasks)


def test_the_counts_of_all_tasks_complete_a_batch() -> None:
    hub = Hub()
    complete_batch(hub, Sent(BATCH, {0: 2, 3: 1}), Sent(BATCH, {}), Sent(BATCH, {1: 5}))

    assert hub.counts == {0: 2, 3: 1, 1: 5}


def test_a_batch_that_is_published_is_left_as_it_is() -> None:
    hub = Hub("published")
    complete_batch(hub, Sent(BATCH, None))

    assert hub.counts is None


def test_partition_sent_by_several_tasks_is_an_error() -> None:
    with pytest.raises(ReplayDiffers, check=has_code("rows-scattered"), match="several tasks published to partition 3"):
        complete_batch(Hub(), Sent(BATCH, {3: 2}), Sent(BATCH, {3: 1}))


def test_repeated_batch_with_fewer_events_is_an_error() -> None:
    refusal = BatchUnfinished.of(
        "batch-incomplete", event_type="a", producer_group="g", batch=7, partition=2, counted=1, stored=4
    )
    with pytest.raises(
        ReplayDiffers,
        check=has_code("non-deterministic-replay"),
        match="it has 1 events for partition 2, of which 4 are stored",
    ):
        complete_batch(Hub(refuses=refusal), Sent(BATCH, {2: 1}))
