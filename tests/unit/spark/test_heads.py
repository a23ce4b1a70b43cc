import logging

import pytest

from penstock.errors import BadParameter, EventsLost, Unavailable
from penstock.spark.heads import Heads, at_offsets, beginning, ending, parse_heads, settle
from penstock.spark.offsets import FeedPlace
from penstock.spark.options import AskedOffsets, AskedTime
from penstock.wire.log.nakadi import partition_object

HEADS = {"a": Heads(1, (0, 5), (10, 20)), "b": Heads(3, (0,), (4,))}


def test_heads_are_read_from_the_hub_answer() -> None:
    answer = [partition_object(2, 1, 5, 20), partition_object(2, 0, 0, 0)]

    assert parse_heads("a", answer) == Heads(2, (0, 5), (0, 20))


@pytest.mark.parametrize("numbers", [[], [1], [0, 2]])
def test_partitions_that_are_being_changed_are_asked_for_again(numbers: list[int]) -> None:
    with pytest.raises(Unavailable, match="changing"):
        parse_heads("a", [partition_object(1, number, 0, 0) for number in numbers])


def test_earliest_is_the_first_retained_offset() -> None:
    assert beginning("earliest", HEADS, fail_on_loss=True) == {"a": FeedPlace(1, (0, 5)), "b": FeedPlace(3, (0,))}


def test_latest_is_the_end() -> None:
    assert beginning("latest", HEADS, fail_on_loss=True) == {"a": FeedPlace(1, (10, 20)), "b": FeedPlace(3, (4,))}


def test_offsets_may_name_some_partitions_and_words() -> None:
    asked = {"a": AskedOffsets(None, {1: -1}), "b": AskedOffsets(3, {0: -2})}

    assert beginning(asked, HEADS, fail_on_loss=True) == {"a": FeedPlace(1, (0, 20)), "b": FeedPlace(3, (0,))}


@pytest.mark.parametrize(
    ("offsets", "allowed"), [({2: 1}, "partitions 0 to 1 of 'a'"), ({0: 11}, "for partition 0 of 'a', up to 10")]
)
def test_offsets_that_do_not_exist_are_refused(offsets: dict[int, int], allowed: str) -> None:
    with pytest.raises(BadParameter, match=f"option startingOffsets .*{allowed}"):
        beginning({"a": AskedOffsets(None, offsets)}, HEADS, fail_on_loss=True)
    with pytest.raises(BadParameter, match=f"option endingOffsets .*{allowed}"):
        ending({"a": AskedOffsets(None, offsets)}, beginning("earliest", HEADS, fail_on_loss=True), HEADS)


def test_a_beginning_that_retention_removed_is_a_loss() -> None:
    asked = {"a": AskedOffsets(None, {1: 2})}

    with pytest.raises(EventsLost, match="3 events of 'a', partition 1") as lost:
        beginning(asked, HEADS, fail_on_loss=True)

    assert lost.value.lost == 3


def test_a_beginning_in_an_earlier_life_of_the_feed_is_a_loss() -> None:
    asked = {"b": AskedOffsets(2, {0: 100})}

    with pytest.raises(EventsLost, match="its epoch was 2 and is 3 now"):
        beginning(asked, HEADS, fail_on_loss=True)
    assert beginning(asked, HEADS, fail_on_loss=False)["b"] == FeedPlace(3, (0,))


def test_batch_ends_at_the_head_or_its_ending_offset() -> None:
    starts = beginning("earliest", HEADS, fail_on_loss=True)

    assert ending("latest", starts, HEADS) == {"a": FeedPlace(1, (10, 20)), "b": FeedPlace(3, (4,))}
    assert ending({"a": AskedOffsets(1, {0: 3, 1: -1})}, starts, HEADS)["a"] == FeedPlace(1, (3, 20))


def test_a_batch_that_ends_before_it_begins_is_refused() -> None:
    starts = beginning("earliest", HEADS, fail_on_loss=True)

    with pytest.raises(BadParameter, match="option endingOffsets is 4; allowed: for partition 1 of 'a', 5 or more"):
        ending({"a": AskedOffsets(None, {1: 4})}, starts, HEADS)


def test_an_end_in_another_life_of_the_feed_is_refused() -> None:
    starts = beginning("earliest", HEADS, fail_on_loss=True)

    with pytest.raises(BadParameter, match="option endingOffsets is 2; allowed: epoch 1"):
        ending({"a": AskedOffsets(2, {})}, starts, HEADS)


@pytest.mark.parametrize(
    ("start", "settled", "lost"),
    [
        (FeedPlace(1, (3, 7)), (3, 7), None),
        (FeedPlace(1, (3,)), (3, 5), "5 events of 'a', partition 1"),
        (FeedPlace(1, (3, 1)), (3, 5), "4 events of 'a', partition 1"),
        (FeedPlace(1, (30, 5)), (10, 5), "20 events of 'a', partition 0"),
        (FeedPlace(2, (3, 7)), (0, 5), "an unknown number of events of 'a', all partitions"),
    ],
)
def test_reading_resumes_after_lost_events_and_counts_them(
    start: FeedPlace, settled: tuple[int, ...], lost: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        assert settle("a", start, HEADS["a"], fail_on_loss=False) == settled

    assert [record.getMessage()[: len(lost or "")] for record in caplog.records] == ([lost] if lost else [])
    if lost:
        with pytest.raises(EventsLost, match=lost):
            settle("a", start, HEADS["a"], fail_on_loss=True)


def test_times_become_offsets_of_each_event_type() -> None:
    def since(event_type: str, time: str) -> AskedOffsets:
        return AskedOffsets(1, {0: {"a": 5, "b": 7}[event_type] + len(time)})

    assert at_offsets(AskedTime("noon"), ["a", "b"], since) == {
        "a": AskedOffsets(1, {0: 9}),
        "b": AskedOffsets(1, {0: 11}),
    }
    some = {"a": AskedTime("noon"), "b": AskedOffsets(None, {0: -1})}
    assert at_offsets(some, ["a", "b"], since) == {"a": AskedOffsets(1, {0: 9}), "b": AskedOffsets(None, {0: -1})}
    assert at_offsets("latest", ["a", "b"], since) == "latest"
