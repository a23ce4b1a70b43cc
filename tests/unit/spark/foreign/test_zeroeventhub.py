import msgspec
import pytest

from penstock.core.log.cursor import FIRST
from penstock.errors import MalformedAnswer
from penstock.spark.foreign import zeroeventhub
from penstock.spark.foreign.landing import pages_between
from penstock.spark.foreign.query import encode_offset
from penstock.spark.foreign.zeroeventhub import (
    EMPTY_PAGES_MAX,
    Ends,
    FeedMicroBatch,
    FeedQuery,
    LandedPlaces,
    PartitionPlace,
    to_batches,
)
from penstock.wire.log.reader.pages import FeedEvent, Page
from penstock.wire.log.reader.partitions import Discovery, Partition, ReadState, zeroeventhub_discovery

FULL = Page([FeedEvent(0, msgspec.Raw(b"1"))], {0: "2"}, {0: "1"})
MOVED = Page([], {0: "2"}, {0: "1"})
OTHER = Page([], {1: "2"}, {1: "1"})


def test_three_empty_pages_in_a_row_are_the_end_of_a_partition_whose_cursor_moves_on() -> None:
    seen = Ends(FeedQuery(url="http://x"))

    assert EMPTY_PAGES_MAX == 3
    assert not seen.is_end(1, OTHER), "each partition has an end of its own"
    assert [seen.is_end(0, page) for page in (MOVED, MOVED, FULL, MOVED, MOVED, MOVED)] == [False] * 5 + [True]


def event(raw: bytes, headers: dict[str, str] | None = None) -> FeedEvent:
    return FeedEvent(3, msgspec.Raw(raw), headers)


def test_events_are_rows_byte_for_byte() -> None:
    events = [event('{"b": 1,  "a":"é"}'.encode()), event(b'"text"', {"ce_id": "7"})]

    [batch] = to_batches(events, 3, 40, "http://x")

    assert batch.to_pylist() == [
        {"partition": 3, "number": 40, "headers": None, "data": '{"b": 1,  "a":"é"}'},
        {"partition": 3, "number": 41, "headers": [("ce_id", "7")], "data": '"text"'},
    ]


def test_batches_are_of_a_bounded_size_and_numbered_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeroeventhub, "BATCH_BYTES", 10)
    batches = list(to_batches([event(b'"12345"')] * 5, 0, 0, "http://x"))

    assert [batch.column("number").to_pylist() for batch in batches] == [[0, 1], [2, 3], [4]]
    assert list(to_batches([], 0, 0, "http://x")) == []


@pytest.mark.parametrize("wrong", [event(b'"\xff"'), event(b"1", {"ce_id": 7})])  # type: ignore[dict-item]
def test_event_that_is_not_text_is_reported_with_its_origin(wrong: FeedEvent) -> None:
    with pytest.raises(MalformedAnswer, match=r"http://x.*an event of partition 3 is no text, or its headers are none"):
        list(to_batches([wrong], 3, 0, "http://x"))


BEGIN = LandedPlaces("6f1c", "r", {0: PartitionPlace(3, 70, "a"), 1: PartitionPlace(2, 9, "b")})


def pages(start: LandedPlaces, end: LandedPlaces) -> list[tuple[str, int, int]]:
    return [(each.lane, each.start, each.end) for each in pages_between("/landing", start, end)]


def test_offsets_are_json_by_partition_and_read_as_they_were_written() -> None:
    assert encode_offset(BEGIN)["partitions"]["0"] == {"page": 3, "number": 70, "cursor": "a"}
    assert FeedQuery(url="http://x").decode(encode_offset(BEGIN)) == BEGIN


def test_micro_batch_reads_the_pages_between_two_offsets() -> None:
    places = {0: PartitionPlace(5, 90, "c"), 1: PartitionPlace(2, 9, "b"), 2: PartitionPlace(1, 4, "d")}

    assert pages(BEGIN, LandedPlaces("6f1c", "r", places)) == [("r/0", 3, 5), ("r/2", 0, 1)]
    assert pages(BEGIN, BEGIN) == []


def test_first_micro_batch_reads_all_pages_for_any_start_offset() -> None:
    assert pages(LandedPlaces("other", "r", {}), BEGIN) == [("r/0", 0, 3), ("r/1", 0, 2)]


def test_another_run_goes_on_with_pages_of_its_own() -> None:
    begin = BEGIN.of_run("s")
    end = LandedPlaces("6f1c", "s", {0: PartitionPlace(2, 80, "c"), 1: begin.partitions[1]})

    assert begin.partitions == {0: PartitionPlace(0, 70, "a"), 1: PartitionPlace(0, 9, "b")}
    assert pages(BEGIN, end) == [("s/0", 0, 2)]
    assert BEGIN.of_run("r") is BEGIN


def batch(events_max: int | None = None) -> FeedMicroBatch:
    course = ReadState({0: "a", 1: "b"}, None, FIRST, {})
    course.update_partitions(zeroeventhub_discovery(2))
    return FeedMicroBatch(BEGIN, course, (), events_max)


def test_a_limit_is_shared_by_those_that_are_asked() -> None:
    assert batch(9).turn(500) == ([0, 1], 5)
    assert batch(9000).turn(500) == ([0, 1], 500)
    assert batch(1).turn(500) == ([0], 1)


def test_partition_read_last_is_read_after_the_others() -> None:
    micro_batch = batch(1)
    micro_batch.take(0, BEGIN.partitions[0])

    assert micro_batch.turn(500) == ([1], 1)


def test_a_partition_that_is_gone_stays_while_its_pages_are_in_the_batch() -> None:
    for has_brought in (False, True):
        micro_batch = batch()
        if has_brought:
            micro_batch.take(0, PartitionPlace(4, 79, "c"))
            micro_batch.course.cursors[0] = "c"
        micro_batch.course.update_partitions(Discovery(2, (Partition(1), Partition(2, cursor_from=(0,)))))
        places = {1: PartitionPlace(2, 9, "b"), 2: PartitionPlace(0, 0, "c" if has_brought else "a")}

        assert micro_batch.end().partitions == (places | {0: PartitionPlace(4, 79, "c")} if has_brought else places)
