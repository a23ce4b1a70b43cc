"""Assignment of partitions to sessions: even, and stable where it can be."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.subscriptions.assignment import (
    FeedPartition,
    PartitionSlot,
    StreamSession,
    assign_slots,
    find_conflicts,
)


def places(count: int, source: str = "orders") -> list[FeedPartition]:
    return [(source, number) for number in range(count)]


def slots(owners: str) -> list[PartitionSlot]:
    """Return partitions with these owners, a letter each; `-` is none."""
    return [
        PartitionSlot(place, None if owner == "-" else owner)
        for place, owner in zip(places(len(owners)), owners, strict=True)
    ]


def shown(found: Sequence[PartitionSlot]) -> str:
    return " ".join((slot.owner or "-") + (f">{slot.successor}" if slot.successor else "") for slot in found)


def sessions(ids: str, **wants: Sequence[int]) -> list[StreamSession]:
    auto = [StreamSession(each) for each in ids]
    return auto + [
        StreamSession(name, frozenset(("orders", number) for number in asked)) for name, asked in wants.items()
    ]


CASES = {
    "the first has all": (slots("----"), sessions("a"), "a a a a"),
    "a second one takes half": (slots("aaaaaaaa"), sessions("ab"), "a a a a a>b a>b a>b a>b"),
    "one that is gone leaves all": (slots("aaaabbbb"), sessions("a"), "a a a a a a a a"),
    "what does not divide": (slots("-------"), sessions("abc"), "a a a b b c c"),
    "those who ask get it": (slots("aaaaaaaa"), sessions("ab", y=[6], z=[7]), "a a a a>b a>b a>b a>y a>z"),
    "no partition is left": (slots("ab"), sessions("abc"), "a b"),
    "all are asked for": (slots("aa"), sessions("a", z=[0, 1]), "a>z a>z"),
    "there are none": (slots("ab"), [], "- -"),
    "one that asked is gone": (slots("azza"), sessions("a"), "a a a a"),
    "it comes back to its owner": (
        [PartitionSlot(("orders", 0), "a", "b"), PartitionSlot(("orders", 1), "a")],
        sessions("a"),
        "a a",
    ),
    "the successor is gone": (
        [PartitionSlot(("orders", 0), "a", "b"), PartitionSlot(("orders", 1), "a")],
        sessions("ac"),
        "a>c a",
    ),
    "the successor is gone before it had anything": (
        [
            PartitionSlot(("orders", 0), "a"),
            *(PartitionSlot(("orders", at), "c", "b") for at in (1, 2)),
            PartitionSlot(("orders", 3), "a", "b"),
        ],
        sessions("ac"),
        "a c c a",
    ),
    "who has more keeps it": (slots("bbbcc"), sessions("abc"), "b b b>a c c"),
    "the owner is gone": (
        [PartitionSlot(("orders", 0), "a", "b"), PartitionSlot(("orders", 1), "c")],
        sessions("bc"),
        "b c",
    ),
}


@pytest.mark.parametrize(("before", "now", "expected"), CASES.values(), ids=CASES)
def test_partitions_are_assigned_evenly_and_stay_where_they_can(
    before: list[PartitionSlot], now: list[StreamSession], expected: str
) -> None:
    assert shown(assign_slots(before, now)) == expected


def test_partition_of_a_gone_session_passes_on_once_it_is_released() -> None:
    assert shown(assign_slots(slots("xxaa"), sessions("ab"), ending={"x"})) == "x>b x>b a a"
    assert shown(assign_slots(slots("xxaa"), [], ending={"x"})) == "x x - -"
    assert shown(assign_slots(slots("xxaa"), sessions("b"), expired={"x"})) == "b b b b"
    assert shown(assign_slots(slots("xxaa"), [], expired={"x"})) == "x x - -"
    assert PartitionSlot(("orders", 0), "x", "b").release() == PartitionSlot(("orders", 0), "b")
    assert PartitionSlot(("orders", 0), "x").release() == PartitionSlot(("orders", 0))


def test_sessions_are_accepted_up_to_the_number_of_partitions() -> None:
    all_ = places(3)
    assert find_conflicts(all_, sessions("ab"), StreamSession("c")) is None
    assert find_conflicts(all_, sessions("abc"), StreamSession("d")) == frozenset(all_)
    assert find_conflicts(all_, sessions("a", z=[0, 1]), StreamSession("b")) == frozenset(all_)
    assert find_conflicts(all_, sessions("abc"), StreamSession("z", frozenset(all_[:2]))) is None, (
        "those who have not asked give way"
    )
    assert find_conflicts(all_, sessions("", y=[0], z=[1]), StreamSession("x", frozenset(all_[1:]))) == {("orders", 1)}


ids = st.sampled_from("abcdef")
scenes = st.lists(
    st.tuples(st.sets(ids, max_size=6), st.sets(st.integers(0, 11), max_size=3), st.sets(st.integers(0, 11))),
    max_size=6,
)


@given(count=st.integers(1, 12), scenes=scenes)
def test_assignment_stays_even_and_stable_in_any_history(
    count: int, scenes: list[tuple[set[str], set[int], set[int]]]
) -> None:
    found: Sequence[PartitionSlot] = [PartitionSlot(place) for place in places(count)]
    for who, asked, released in scenes:
        wants = frozenset(("orders", number) for number in asked if number < count)
        now = [StreamSession(each) for each in sorted(who)] + ([StreamSession("z", wants)] if wants else [])
        before, found = found, assign_slots(found, now)

        assert list(assign_slots(found, now)) == list(found)
        is_there = {session.id for session in now}
        for old, new in zip(before, found, strict=True):
            assert new.owner in is_there | {None} and new.successor in is_there | {None}
            assert new.owner == old.owner or old.owner not in is_there, "only who is gone loses it at once"
            assert new.successor is None or new.successor != new.owner
        assert stayed(before, found, who) == may_stay(before, who, {("orders", each) for each in asked})
        ends = Counter(slot.successor or slot.owner for slot in found)
        shares = [ends[each] for each in who]
        assert not shares or max(shares) - min(shares) <= 1
        assert all((slot.successor or slot.owner) == "z" for slot in found if slot.place in wants)
        assert ends[None] == 0 or not who
        found = [slot.release() if slot.place[1] in released and slot.successor else slot for slot in found]


def holder(slot: PartitionSlot, who: set[str]) -> str | None:
    """Return the session among *who* that has the partition or is about to."""
    return next((each for each in (slot.successor, slot.owner) if each in who), None)


def stayed(before: Sequence[PartitionSlot], now: Sequence[PartitionSlot], who: set[str]) -> int:
    """Return how many partitions stay with sessions that have not asked for any."""
    return sum(
        holder(old, who) is not None and (new.successor or new.owner) == holder(old, who)
        for old, new in zip(before, now, strict=True)
    )


def may_stay(before: Sequence[PartitionSlot], who: set[str], taken: set[FeedPartition]) -> int:
    """Return how many can stay where they are when they are shared out evenly."""
    rest = [slot for slot in before if slot.place not in taken]
    held = Counter(holder(slot, who) for slot in rest)
    each, more = divmod(len(rest), len(who)) if who else (0, 0)
    return sum(min(held[one], each) for one in who) + min(more, sum(held[one] > each for one in who))
