"""Events read ahead: parts of batches, streams that are ready, and streams ahead of their tranche's position."""

from itertools import pairwise

import pytest

from penstock.processing.engine.stream import ReadyQueue, Stream
from penstock.processing.engine.tranche import Batch, StreamsAhead, Tranche, UnfinishedBatch, split_batch
from tests.unit.processing.engine.items import Thing


@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (1, [1]), (3, [3]), (4, [3, 1]), (6, [3, 3]), (7, [3, 3, 1])])
def test_batch_is_cut_into_parts_with_a_position_behind_each(count: int, sizes: list[int]) -> None:
    batch = Batch("0", 100, [Thing("S", index) for index in range(count)], is_tail=True, bytes=70)
    parts = split_batch(batch, 3, lambda item: item.next)

    assert [len(part.items) for part in parts] == sizes
    assert [item for part in parts for item in part.items] == batch.items
    assert [part.end for part in parts] == [*[3, 6, 9][: len(sizes) - 1], 100]
    assert [part.is_part for part in parts] == [following is not None for _, following in pairwise([*parts, None])]
    assert [(part.is_tail, part.bytes) for part in parts] == [(False, None)] * (len(sizes) - 1) + [(True, 70)]


def make_stream(name: str) -> Stream:
    return Stream(name, Tranche("t", 0, batches_max=1, events_max=1))


def test_stream_is_ready_once() -> None:
    ready, stream = ReadyQueue(), make_stream("S1")
    ready.add(stream)
    ready.add(stream)

    assert len(ready) == 1
    assert ready.pop(0, 1) is stream
    assert ready.pop(0, 1) is None
    ready.add(stream)
    assert ready.pop(0, 1) is stream


def test_held_streams_wake_in_the_order_of_their_times() -> None:
    ready, streams = ReadyQueue(), [make_stream(f"S{number}") for number in range(3)]
    for stream, until in zip(streams, (3.0, 1.0, 2.0), strict=True):
        ready.hold(stream, until)
    assert (len(ready), ready.due) == (0, 1.0)

    ready.wake(2.5)

    assert [ready.pop(0, 1), ready.pop(0, 1), ready.pop(0, 1)] == [streams[1], streams[2], None]
    assert ready.due == 3.0


FIRST, SECOND = UnfinishedBatch(0, 0, 2, 2), UnfinishedBatch(1, 2, 4, 2)


def test_stream_is_ahead_until_the_batch_that_it_has_reached_is_done() -> None:
    ahead = StreamsAhead({})
    ahead.reach("S1", 3, FIRST)
    assert ahead.find_changes() == {"S1": 3}
    ahead.confirm("S1", 3)
    assert ahead.find_changes() == {}
    ahead.reach("S1", 5, SECOND)
    ahead.end(FIRST)
    assert ahead.find_changes() == {"S1": 5}
    ahead.end(SECOND)
    assert ahead.find_changes() == {"S1": None}
    ahead.confirm("S1", None)
    assert ahead.find_changes() == {}


def test_stream_ahead_for_a_moment_is_never_kept() -> None:
    ahead = StreamsAhead({})
    ahead.reach("S1", 3, FIRST)
    assert ahead.predict_changes({"S2": 1}, [FIRST]) == {"S2": 1}
    ahead.end(FIRST)
    assert ahead.find_changes() == {}


def test_kept_stream_is_known_by_its_events_however_they_are_read_now() -> None:
    ahead = StreamsAhead({"S1": 3})
    assert ahead.is_repeat(Thing("S1", 0), FIRST)
    ahead.end(FIRST)
    assert ahead.find_changes() == {}, "its last event lies further on"
    assert ahead.is_repeat(Thing("S1", 2), SECOND)
    assert "S1" not in ahead.unseen
    assert ahead.predict_changes({}, [SECOND]) == {"S1": None}


def test_event_beyond_the_kept_index_is_no_repeat() -> None:
    ahead = StreamsAhead({"S1": 3})
    assert not ahead.is_repeat(Thing("S1", 7), FIRST)
    assert not ahead.unseen
    ahead.end(FIRST)
    assert ahead.find_changes() == {"S1": None}


def test_passed_over_events_wait_for_no_earlier_batch() -> None:
    ahead = StreamsAhead({})
    ahead.reach("S1", 3, FIRST)
    ahead.pass_over("S1", 6)
    ahead.end(FIRST)
    assert ahead.find_changes() == {"S1": 6}
    ahead.pass_over("S1", 4)
    assert ahead.find_changes() == {"S1": 6}
    assert ahead.is_repeat(Thing("S1", 5), SECOND)
