"""Streams of events without a subscription, in virtual time: cases of Nakadi's acceptance tests, and more."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.log.batching import EVENT_OVERHEAD, FeedBatch, FeedBatcher, FeedStreamRules

PARTITIONS = 8


class Stream:
    """A stream in virtual time, with all that it has sent."""

    def __init__(self, positions: Sequence[int] = (0,) * PARTITIONS, **rules: float) -> None:
        given = {"batch_limit": 1, "stream_limit": 0, "flush_timeout": 30, "timeout": 3600, "keep_alive_limit": 0}
        self.rules = FeedStreamRules(**{"bytes_max": 1 << 30} | given | rules)  # type: ignore[arg-type]
        self.now = 1_000.0
        self.batching = FeedBatcher(self.rules, dict(enumerate(positions)), self.now)
        self.read = list(positions)
        self.sent: list[tuple[float, FeedBatch]] = []

    def add(self, count: int, partition: int = 0, event: bytes = b"{}") -> None:
        """Read so many more events of a partition."""
        start = self.read[partition]
        self.read[partition] += count
        offsets = range(start, start + count)
        self.batching.add(partition, [event] * count, offsets, start + count, self.now)
        self.take()

    def take(self) -> None:
        self.sent += [(self.now - 1_000, batch) for batch in self.batching.take(self.now)]

    def wait(self, seconds: float) -> None:
        """Let time pass, and look whenever something is due."""
        until = self.now + seconds
        while not self.batching.is_closed and self.batching.due_at <= until:
            self.now = self.batching.due_at
            self.take()
        self.now = until

    def of(self, partition: int) -> list[tuple[float, int, int]]:
        """Return the batches of a partition: the time, the number of events, and the next offset of each."""
        return [(at, len(batch.events), batch.position) for at, batch in self.sent if batch.partition == partition]


def test_few_events_are_one_batch_and_empty_partitions_get_keep_alives() -> None:
    stream = Stream(batch_limit=5, timeout=2, flush_timeout=2)

    stream.add(2, partition=3)
    stream.wait(10)

    assert stream.batching.is_closed
    assert stream.of(3) == [(2, 2, 2)]
    assert [stream.of(partition) for partition in range(PARTITIONS) if partition != 3] == [[(2, 0, 0)]] * 7


def test_keep_alive_limit_ends_the_stream_once_every_partition_has_reached_it() -> None:
    stream = Stream([7] * PARTITIONS, flush_timeout=1, keep_alive_limit=3)

    stream.wait(100)

    assert stream.batching.is_closed
    assert [stream.of(partition) for partition in range(PARTITIONS)] == [[(1, 0, 7), (2, 0, 7), (3, 0, 7)]] * PARTITIONS


@pytest.mark.parametrize(("batch_limit", "at"), [(1, 1.5), (9, 2)], ids=["full", "flushed"])
def test_batch_resets_the_keep_alives_of_its_partition(batch_limit: int, at: float) -> None:
    stream = Stream([0, 0], batch_limit=batch_limit, flush_timeout=1, keep_alive_limit=2)

    stream.wait(1.5)
    stream.add(1, partition=1)
    stream.wait(100)

    assert stream.of(1) == [(1, 0, 0), (at, 1, 1), (at + 1, 0, 1), (at + 2, 0, 1)]
    assert stream.of(0)[:3] == [(1, 0, 0), (2, 0, 0), (3, 0, 0)]
    assert stream.now - 1_000 > 3.5
    assert stream.batching.is_closed


def test_waiting_events_are_sent_when_keep_alives_end_the_stream() -> None:
    """Of two partitions in step, one gets an event after its last keep-alive, and the other has its last then."""
    stream = Stream([0, 0], batch_limit=9, flush_timeout=10, keep_alive_limit=1)

    stream.wait(4)
    stream.add(9, partition=1)
    stream.wait(8)
    stream.add(1, partition=0)
    assert not stream.batching.is_closed
    stream.wait(100)

    assert stream.of(0) == [(10, 0, 0), (14, 1, 1)]
    assert stream.of(1) == [(4, 9, 9), (14, 0, 9)]


def test_flush_timeout_begins_with_the_last_batch_of_a_partition() -> None:
    stream = Stream([0, 0], batch_limit=2, flush_timeout=10)

    stream.wait(4)
    stream.add(3, partition=0)
    stream.wait(11)

    assert stream.of(0) == [(4, 2, 2), (14, 1, 3)]
    assert stream.of(1) == [(10, 0, 0)]


def test_full_batches_are_sent_at_once_and_the_rest_waits() -> None:
    stream = Stream([40], batch_limit=3)

    stream.add(1)
    stream.add(1)
    assert stream.sent == []
    stream.add(5)

    assert stream.of(0) == [(0, 3, 43), (0, 3, 46)]
    assert stream.batching.size == 2 + EVENT_OVERHEAD


@pytest.mark.parametrize(("batch_limit", "sizes"), [(1, [1] * 10), (3, [3, 3, 3, 1]), (10, [10])])
def test_stream_limit_ends_the_stream_with_its_last_event(batch_limit: int, sizes: list[int]) -> None:
    stream = Stream([0, 0], batch_limit=batch_limit, stream_limit=10)

    assert stream.batching.left == 10
    stream.add(4)
    assert (stream.batching.left, stream.batching.is_closed) == (6, False)
    stream.add(100)

    assert (stream.batching.left, stream.batching.is_closed) == (0, True)
    assert [size for _, size, _ in stream.of(0)] == sizes
    assert stream.of(0)[-1][2] == 10
    assert stream.of(1) == []


def test_stream_limit_counts_the_events_of_all_partitions() -> None:
    stream = Stream([0, 0, 0], batch_limit=4, stream_limit=5)

    stream.add(3, partition=0)
    stream.add(3, partition=2)

    assert stream.batching.is_closed
    assert [stream.of(partition) for partition in range(3)] == [[(0, 3, 3)], [], [(0, 2, 2)]]


def test_events_after_the_stream_limit_are_ignored() -> None:
    stream = Stream([0, 5], stream_limit=1)
    events = [b"{}"]

    stream.batching.add(0, events, range(1), 1, stream.now)
    stream.batching.add(1, events, range(5, 6), 6, stream.now)

    assert stream.batching.take(stream.now) == [FeedBatch(0, 1, events)]


def test_stream_timeout_flushes_and_ends_the_stream() -> None:
    stream = Stream([0, 0], batch_limit=9, flush_timeout=30, timeout=12)

    stream.wait(3)
    stream.add(4, partition=1)
    stream.wait(100)

    assert stream.sent == [(12, FeedBatch(1, 4, [b"{}"] * 4))]
    assert stream.batching.is_closed
    stream.take()
    assert len(stream.sent) == 1


def test_largest_partition_is_flushed_when_memory_is_full() -> None:
    weight = 1_000 + EVENT_OVERHEAD
    stream = Stream([0, 0, 0], batch_limit=100, flush_timeout=11, bytes_max=10 * weight)

    for partition, count in enumerate((3, 4, 3)):
        stream.add(count, partition, event=b"x" * 1_000)
    assert stream.sent == []
    stream.add(1, 0, event=b"x" * 1_000)

    assert stream.of(0) == [(0, 4, 4)]
    assert (stream.of(1), stream.of(2)) == ([], [])
    assert stream.batching.size == 7 * weight
    stream.wait(11)
    assert (stream.of(0)[1:], stream.of(1)) == ([(11, 0, 4)], [(11, 4, 4)])


def test_small_events_count_with_an_overhead() -> None:
    stream = Stream([0], batch_limit=1_000_000, bytes_max=10_000)

    stream.add(1_000, event=b"{}")

    assert stream.of(0) == [(0, 1_000, 1_000)]


def test_position_of_a_batch_lies_behind_filtered_events() -> None:
    stream = Stream([0], batch_limit=2, flush_timeout=5)

    stream.batching.add(0, [b"a", b"b", b"c"], [1, 4, 6], 9, stream.now)
    stream.take()
    stream.wait(5)
    stream.batching.add(0, [], [], 20, stream.now)
    stream.wait(5)

    assert [(batch.position, list(batch.events)) for _, batch in stream.sent] == [
        (5, [b"a", b"b"]),
        (9, [b"c"]),
        (20, []),
    ]


def test_stream_is_due_with_its_first_partition_or_at_its_timeout() -> None:
    stream = Stream([0, 0], flush_timeout=10, timeout=12)
    assert stream.batching.due_at == stream.now + 10

    stream.wait(5)
    stream.add(1, partition=0)
    assert stream.batching.due_at == 1_010
    stream.wait(5)
    assert stream.batching.due_at == stream.batching.ends_at == 1_012


STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.floats(0, 3)), max_size=30)


@given(STEPS, st.integers(1, 5), st.sampled_from([0, 7, 20]), st.sampled_from([0, 200, 1 << 20]))
def test_events_are_sent_once_and_in_order_in_any_schedule(
    steps: list[tuple[int, int, float]], batch_limit: int, stream_limit: int, bytes_max: int
) -> None:
    stream = Stream(
        [5, 5, 5], batch_limit=batch_limit, stream_limit=stream_limit, bytes_max=bytes_max, flush_timeout=2, timeout=60
    )
    total = 0
    for partition, count, seconds in steps:
        if stream.batching.is_closed:
            break
        taken = count if stream.batching.left is None else min(count, stream.batching.left)
        stream.batching.add(
            partition,
            [b"%d" % offset for offset in range(stream.read[partition], stream.read[partition] + count)],
            range(stream.read[partition], stream.read[partition] + count),
            stream.read[partition] + count,
            stream.now,
        )
        stream.read[partition] += taken
        total += taken
        stream.take()
        assert stream.batching.size <= bytes_max
        stream.wait(seconds)
    stream.wait(60)

    assert stream.batching.is_closed
    for partition in range(3):
        batches = [batch for _, batch in stream.sent if batch.partition == partition]
        found = [int(event) for batch in batches for event in batch.events]
        assert found == list(range(5, stream.read[partition]))
        assert all(len(batch.events) <= batch_limit for batch in batches)
        assert all(batch.position == int(batch.events[-1]) + 1 for batch in batches if batch.events)
        assert all(first.position <= second.position for first, second in pairwise(batches))
    assert sum(len(batch.events) for _, batch in stream.sent) == total
    assert stream_limit == 0 or total <= stream_limit
