"""Micro-batches and tasks over a store in memory, whose positions have holes."""

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.messagedb.batches import cut_at, next_end, plan
from penstock.spark.messagedb.places import Place, Stretch, opening, stretches_between


class Positions:
    """The global positions of each category's events."""

    def __init__(self, **positions: list[int]) -> None:
        self.positions = positions
        self.counted = 0

    @property
    def heads(self) -> dict[str, int]:
        return {category: max(each, default=0) + 1 for category, each in self.positions.items()}

    def of(self, stretch: Stretch) -> list[int]:
        positions = self.positions[stretch.category]
        return positions[bisect_left(positions, stretch.start) : bisect_left(positions, stretch.end)]

    def count(self, stretch: Stretch, most: int | None = None) -> int:
        self.counted += 1
        return len(self.of(stretch)[:most])

    def behind(self, stretch: Stretch, events: int) -> int:
        return [*self.of(stretch), stretch.end][min(events, len(self.of(stretch)))]


SOME = Positions(account=[3, 5, 6, 20], payment=[4, 7])


def test_a_batch_takes_all_there_is() -> None:
    end = next_end({"account": Place(1), "payment": Place(5)}, SOME.heads, None, SOME)

    assert end == {"account": Place(21), "payment": Place(8)}


def test_batch_limit_left_by_one_category_goes_to_the_others() -> None:
    end = next_end({"account": Place(1), "payment": Place(5)}, SOME.heads, 3, SOME)

    assert end == {"account": Place(6), "payment": Place(8)}


def test_a_batch_of_as_many_as_it_may_take_goes_to_the_end() -> None:
    assert next_end({"account": Place(5)}, {"account": 21}, 3, SOME) == {"account": Place(21)}
    assert next_end({"account": Place(4)}, {"account": 21}, 2, SOME) == {"account": Place(20)}


def test_nothing_new_is_no_batch_and_nothing_is_counted() -> None:
    store = Positions(account=[3])

    assert next_end({"account": Place(4)}, store.heads, 10, store) is None
    assert store.counted == 0


def test_an_empty_category_and_one_that_has_lost_events_are_no_batch() -> None:
    store = Positions(account=[], payment=[3])

    assert next_end({"account": Place(17), "payment": Place(9)}, store.heads, 10, store) is None


def test_a_category_that_is_added_is_read_from_its_first_event_and_one_left_out_no_longer() -> None:
    store = Positions(payment=[4, 7])

    assert next_end({"account": Place(9)}, store.heads, None, store) == {"payment": Place(8, 1)}


def test_the_first_batch_says_where_it_began() -> None:
    end = next_end(opening({"account": 4, "payment": 8}), SOME.heads, None, SOME)

    assert end == {"account": Place(21, 4), "payment": Place(8, 8)}


def test_a_stretch_is_cut_after_so_many_events_and_the_last_piece_goes_to_its_end() -> None:
    pieces = cut_at(Stretch("account", 1, 30), [2, 2], SOME)

    assert pieces == [Stretch("account", 1, 6), Stretch("account", 6, 30)]


def test_stretch_whose_events_were_deleted_is_still_cut_completely() -> None:
    assert cut_at(Stretch("payment", 1, 9), [2, 2], SOME) == [Stretch("payment", 1, 9), Stretch("payment", 9, 9)]


def test_stretch_without_events_plans_no_task() -> None:
    assert plan([Stretch("payment", 5, 7)], min_tasks=4, cores=4, store=SOME) == []


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
