import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import EventsLost
from penstock.spark.heads import Heads
from penstock.spark.offsets import FeedPlace
from penstock.spark.planning import Range, next_end, opening, ranges_between, share

HEADS = {"a": Heads(1, (0, 0), (100, 30))}
GROWN = {"a": Heads(1, (0, 0, 0), (100, 30, 0))}
TWO_TYPES = {"a": Heads(1, (0,) * 4, (1000,) * 4), "b": Heads(1, (0,), (1000,))}
FIRST = {"a": FeedPlace(1, (45, 5), FeedPlace(1, (40, 0)))}
"""Where the first micro-batch of a query has ended."""


@pytest.mark.parametrize(
    ("start", "heads", "events_max", "end"),
    [
        ({"a": FeedPlace(1, (40, 0))}, HEADS, None, {"a": FeedPlace(1, (100, 30))}),
        ({"a": FeedPlace(1, (0, 0))}, HEADS, 50, {"a": FeedPlace(1, (25, 25))}),
        (
            {"a": FeedPlace(1, (0,) * 4), "b": FeedPlace(1, (0,))},
            TWO_TYPES,
            80,
            {"a": FeedPlace(1, (10,) * 4), "b": FeedPlace(1, (40,))},
        ),
        ({"a": FeedPlace(1, (40, 0)), "b": FeedPlace(1, (7,))}, HEADS, None, {"a": FeedPlace(1, (100, 30))}),
        ({"a": FeedPlace(1, (100, 30))}, HEADS, None, None),
        ({"a": FeedPlace(1, (100, 30))}, GROWN, None, None),
        (opening({"a": FeedPlace(1, (40, 0))}), HEADS, 10, FIRST),
        (opening({"a": FeedPlace(1, (100, 30))}), HEADS, None, None),
        (FIRST, HEADS, None, {"a": FeedPlace(1, (100, 30))}),
    ],
    ids=[
        "all there is", "up to a limit", "event types share alike", "without an event type left out", "nothing new",
        "nothing in added partitions", "the first says where it began", "nothing for a new query",
        "the second says where it is alone",
    ],
)  # fmt: skip
def test_micro_batch_ends_where_its_share_of_the_new_events_does(
    start: dict[str, FeedPlace], heads: dict[str, Heads], events_max: int | None, end: dict[str, FeedPlace] | None
) -> None:
    assert next_end(start, heads, events_max, fail_on_loss=True) == end


@pytest.mark.parametrize(
    ("heads", "added"),
    [
        ({"a": Heads(1, (0, 0, 0), (100, 30, 7))}, Range("a", 1, 3, 2, 0, 7)),
        (HEADS | {"b": Heads(1, (5,), (9,))}, Range("b", 1, 1, 0, 5, 9)),
    ],
    ids=["partition", "event type"],
)
def test_added_partition_or_event_type_is_read_from_its_first_retained_event(
    heads: dict[str, Heads], added: Range
) -> None:
    start = {"a": FeedPlace(1, (100, 30))}
    end = next_end(start, heads, None, fail_on_loss=True)

    assert end is not None
    assert ranges_between(start, end) == [added]


def test_micro_batch_without_new_events_has_no_ranges() -> None:
    assert ranges_between(FIRST, FIRST) == []
    assert ranges_between(opening({"a": FeedPlace(1, (200, 40))}), opening({"a": FeedPlace(1, (100, 30))})) == []


def test_share_that_one_does_not_need_goes_to_the_others() -> None:
    assert share(100, {"a": 10, "b": 500, "c": 70, "d": 0}) == {"a": 10, "b": 45, "c": 45, "d": 0}


@given(st.integers(0, 10_000), st.dictionaries(st.integers(), st.integers(0, 3_000), max_size=20))
def test_all_is_shared_that_is_wanted_and_there(total: int, wanted: dict[int, int]) -> None:
    shares = share(total, wanted)

    assert sum(shares.values()) == min(total, sum(wanted.values()))
    assert all(0 <= shares[key] <= wanted[key] for key in wanted)
    satisfied = [shares[key] for key in wanted if shares[key] == wanted[key]]
    curtailed = [shares[key] for key in wanted if shares[key] < wanted[key]]
    assert not curtailed or max(curtailed) - min(curtailed) <= 1
    assert not curtailed or not satisfied or max(satisfied) <= max(curtailed) + 1


def test_the_first_batch_planned_again_has_the_same_ranges_though_the_beginning_has_moved() -> None:
    start, later = opening({"a": FeedPlace(1, (40, 0))}), opening({"a": FeedPlace(1, (90, 30))})
    end = next_end(start, HEADS, None, fail_on_loss=True)
    assert end is not None

    assert ranges_between(later, end) == ranges_between(start, end)
    assert ranges_between(start, end) == [Range("a", 1, 2, 0, 40, 100), Range("a", 1, 2, 1, 0, 30)]


def test_lost_events_fail_the_batch() -> None:
    heads = {"a": Heads(1, (50, 0), (100, 30))}

    with pytest.raises(EventsLost, match="10 events of 'a', partition 0"):
        next_end({"a": FeedPlace(1, (40, 0))}, heads, None, fail_on_loss=True)


@pytest.mark.parametrize(
    ("heads", "ranges"),
    [
        (Heads(1, (50, 0), (100, 30)), [Range("a", 1, 2, 0, 50, 100), Range("a", 1, 2, 1, 0, 30)]),
        (Heads(2, (0, 0), (5, 6)), [Range("a", 2, 2, 0, 0, 5), Range("a", 2, 2, 1, 0, 6)]),
        (Heads(2, (0,), (5,)), [Range("a", 2, 1, 0, 0, 5)]),
        (Heads(1, (0, 0), (20, 0)), []),
        (Heads(1, (40, 0, 5), (40, 0, 9)), [Range("a", 1, 3, 2, 5, 9)]),
    ],
    ids=["retention", "created again", "created again with fewer partitions", "cut short", "in an added partition"],
)
def test_after_a_loss_the_batch_goes_on_and_can_be_planned_again(heads: Heads, ranges: list[Range]) -> None:
    start = {"a": FeedPlace(1, (40, 0))}

    end = next_end(start, {"a": heads}, None, fail_on_loss=False)

    assert end is not None
    assert ranges_between(start, end) == ranges
    assert next_end(end, {"a": heads}, None, fail_on_loss=True) is None


@given(st.data())
def test_batches_of_any_size_cover_every_event_once(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(0, 50), min_size=1, max_size=5))
    heads = {"a": Heads(1, (0,) * len(counts), tuple(counts))}
    start = opening({"a": FeedPlace(1, (0,) * len(counts))})
    read: list[tuple[int, int]] = []

    while end := next_end(start, heads, data.draw(st.integers(1, 60)), fail_on_loss=True):
        read += [
            (each.partition, offset) for each in ranges_between(start, end) for offset in range(each.start, each.end)
        ]
        start = end

    assert sorted(read) == [(partition, offset) for partition, count in enumerate(counts) for offset in range(count)]


def test_a_batch_that_is_rewound_says_where_it_begins() -> None:
    kept, rewound = {"a": FeedPlace(1, (100, 30))}, {"a": FeedPlace(1, (40, 30))}

    end = next_end(rewound, HEADS, None, fail_on_loss=True, rewound=rewound)

    assert end == {"a": FeedPlace(1, (100, 30), begun=FeedPlace(1, (40, 30)))}
    assert ranges_between(kept, end) == [Range("a", 1, 2, 0, 40, 100)]
    after = next_end(end, {"a": Heads(1, (0, 0), (110, 30))}, None, fail_on_loss=True)
    assert after == {"a": FeedPlace(1, (110, 30))}


def test_a_batch_that_is_rewound_to_the_end_is_empty_and_is_one() -> None:
    kept, forward = {"a": FeedPlace(1, (40, 30))}, {"a": FeedPlace(1, (100, 30))}

    end = next_end(forward, HEADS, None, fail_on_loss=True, rewound=forward)

    assert end is not None
    assert ranges_between(kept, end) == []
