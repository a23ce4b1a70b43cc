"""Micro-batches and tasks over a store in memory, whose positions have holes."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.messagedb.batches import cut_at, next_end, plan
from penstock.spark.messagedb.places import CategoryPlace, CategoryRange, opening, stretches_between


class Positions:
    """The global positions of each category's events."""

    def __init__(self, **positions: list[int]) -> None:
        self.positions = positions
        self.counted = 0

    @property
    def heads(self) -> dict[str, int]:
        return {category: max(each, default=0) + 1 for category, each in self.positions.items()}

    def of(self, stretch: CategoryRange) -> list[int]:
        positions = self.positions[stretch.category]
        return positions[bisect_left(positions, stretch.start) : bisect_left(positions, stretch.end)]

    def count(self, stretch: CategoryRange, most: int | None = None) -> int:
        self.counted += 1
        return len(self.of(stretch)[:most])

    def behind(self, stretch: CategoryRange, events: int) -> int:
        return [*self.of(stretch), stretch.end][min(events, len(self.of(stretch)))]


SOME = Positions(account=[3, 5, 6, 20], payment=[4, 7])
NEW = {"account": CategoryPlace(1), "payment": CategoryPlace(5)}


@pytest.mark.parametrize(
    ("start", "store", "events_max", "end"),
    [
        (NEW, SOME, None, {"account": CategoryPlace(21), "payment": CategoryPlace(8)}),
        (NEW, SOME, 3, {"account": CategoryPlace(6), "payment": CategoryPlace(8)}),
        ({"account": CategoryPlace(5)}, Positions(account=SOME.positions["account"]), 3,
         {"account": CategoryPlace(21)}),
        ({"account": CategoryPlace(4)}, Positions(account=SOME.positions["account"]), 2,
         {"account": CategoryPlace(20)}),
        ({"account": CategoryPlace(17), "payment": CategoryPlace(9)}, Positions(account=[], payment=[3]), 10, None),
        ({"account": CategoryPlace(9)}, Positions(payment=[4, 7]), None, {"payment": CategoryPlace(8, 1)}),
        ({"account": CategoryPlace(4)}, Positions(account=[3], payment=[]), None,
         {"account": CategoryPlace(4), "payment": CategoryPlace(1, 1)}),
        (opening({"account": 4, "payment": 8}), SOME, None, {"account": CategoryPlace(21, 4),
         "payment": CategoryPlace(8, 8)}),
    ],
    ids=[
        "all there is", "one category leaves its share to the other", "as many as it may take", "fewer than there are",
        "an empty category and lost events", "a category added, another left out", "an empty category added",
        "the first says where it began",
    ],
)  # fmt: skip
def test_micro_batch_ends_at_heads_or_where_its_limit_does(
    start: dict[str, CategoryPlace], store: Positions, events_max: int | None, end: dict[str, CategoryPlace] | None
) -> None:
    assert next_end(start, store.heads, events_max, store) == end


def test_nothing_new_is_no_batch_and_nothing_is_counted() -> None:
    store = Positions(account=[3])

    assert next_end({"account": CategoryPlace(4)}, store.heads, 10, store) is None
    assert store.counted == 0


def test_stretch_whose_events_were_deleted_is_still_cut_completely() -> None:
    assert cut_at(CategoryRange("payment", 1, 9), [2, 2], SOME) == [
        CategoryRange("payment", 1, 9),
        CategoryRange("payment", 9, 9),
    ]


@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(1, 300), unique=True), min_size=1),
    st.integers(1, 40),
    st.integers(1, 9),
)
def test_micro_batch_after_micro_batch_every_event_is_read_once(
    positions: dict[str, list[int]], most: int, tasks: int
) -> None:
    store = Positions(**{category: sorted(each) for category, each in positions.items()})
    places, read = opening(dict.fromkeys(positions, 1)), []
    while (end := next_end(places, store.heads, most, store)) is not None:
        planned = plan(stretches_between(places, end), min_tasks=tasks, cores=2, store=store)
        events = [(piece.category, each) for task in planned for piece in task for each in store.of(piece)]
        assert 0 < len(events) <= most
        read += events
        places = end

    assert sorted(read) == sorted((category, each) for category in positions for each in positions[category])
