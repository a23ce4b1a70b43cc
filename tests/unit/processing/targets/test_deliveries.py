from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.log.publishing import Event
from penstock.processing.targets.hub import (
    BYTES_MAX,
    EVENTS_MAX,
    Delivery,
    OutgoingEvent,
    is_portion,
    split_into_portions,
    split_into_requests,
)


def entries(*indices: int, size: int = 1) -> list[OutgoingEvent]:
    return [OutgoingEvent(index, Event({}), size) for index in indices]


def test_small_deliveries_are_one_portion() -> None:
    given = entries(1, 1, 4)
    assert [*split_into_portions(given)] == [given]
    assert [*split_into_portions([])] == []


def test_deliveries_of_one_event_stay_together() -> None:
    big = entries(*[1] * (EVENTS_MAX - 1), 2, 2, 3)
    assert [len(portion) for portion in split_into_portions(big)] == [EVENTS_MAX - 1, 3]
    wide = entries(*[1] * (EVENTS_MAX + 5))
    assert [len(portion) for portion in split_into_portions(wide)] == [EVENTS_MAX + 5]
    assert not is_portion(wide)


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([1, BYTES_MAX // 3, BYTES_MAX])), max_size=20))
def test_all_deliveries_keep_their_order_whatever_their_size(found: list[tuple[int, int]]) -> None:
    given = [OutgoingEvent(index, Event({}), size) for index, size in sorted(found)]
    cut = [*split_into_portions(given)]
    assert [entry for portion in cut for entry in portion] == given
    for portion in cut:
        assert is_portion(portion) or len({entry.index for entry in portion}) == 1
    for before, after in pairwise(cut):
        assert before[-1].index < after[0].index


@given(st.lists(st.tuples(st.sampled_from("STU"), st.integers(1, 3), st.sampled_from([1, BYTES_MAX // 3, BYTES_MAX]))))
def test_loads_hold_all_deliveries_in_their_order(found: list[tuple[str, int, int]]) -> None:
    given = [Delivery((stream, ""), None, entries(*range(count), size=size)) for stream, count, size in found]
    cut = [*split_into_requests(given)]
    assert [delivery for load in cut for delivery in load] == given
    for load in cut:
        assert len({delivery.lineage for delivery in load}) == len(load)
        assert len(load) == 1 or is_portion([entry for delivery in load for entry in delivery.entries])
    for before, after in pairwise(cut):
        both = [*before, after[0]]
        is_room = is_portion([entry for delivery in both for entry in delivery.entries])
        assert not is_room or after[0].lineage in {delivery.lineage for delivery in before}
