"""Operations on cursors: how far they are apart, those before and after them, and what has not been consumed."""

from typing import Any

import pytest

from tests.nakadi import BEFORE_FIRST, FIRST, EventType, Nakadi, offset, only, problem

BEGIN = "BEGIN"
OPERATIONS = ("cursor-distances", "shifted-cursors", "cursors-lag")


def at(partition: int, text: str, **members: Any) -> dict[str, Any]:
    return {"partition": str(partition), "offset": text} | members


@pytest.fixture
def created(nakadi: Nakadi) -> EventType:
    """An event type of two partitions, the second of which has no events, and the first three."""
    created = nakadi.create(
        category="business", partitions=2, partition_strategy="user_defined", compatibility_mode="forward"
    )
    metadata = {"eid": "00000000-0000-0000-0000-000000000000", "occurred_at": "2026-01-02T03:04:05Z", "partition": "0"}
    created.publish(*[{"metadata": metadata}] * 3)
    return created


# 4.4


@pytest.mark.parametrize(
    ("initial", "final", "distance"),
    [
        (BEGIN, BEGIN, 0),
        (BEFORE_FIRST, BEGIN, 0),
        (BEGIN, FIRST, 1),
        (BEGIN, offset(2), 3),
        (FIRST, offset(2), 2),
        (offset(2), FIRST, -2),
        (offset(2), BEGIN, -3),
        ("0", "001-0001-1", 1),
    ],
)
def test_a_distance_is_the_number_of_events_between(
    created: EventType, initial: str, final: str, distance: int
) -> None:
    """4.4: below zero where the final one is the earlier; both are repeated as they were given."""
    pair = {"initial_cursor": at(0, initial), "final_cursor": at(0, final)}
    assert created.post("/cursor-distances", [pair]).json() == [pair | {"distance": distance}]


def test_distances_are_told_in_the_order_in_which_they_were_asked(created: EventType) -> None:
    """4.4."""
    pairs = [{"initial_cursor": at(p, BEGIN), "final_cursor": at(p, BEGIN)} for p in (1, 0, 1)]
    assert created.post("/cursor-distances", pairs).json() == [pair | {"distance": 0} for pair in pairs]
    assert created.post("/cursor-distances", []).json() == []


@pytest.mark.parametrize(
    "pair",
    [
        {"initial_cursor": at(0, BEGIN), "final_cursor": at(1, BEGIN)},
        {"initial_cursor": at(0, BEGIN), "final_cursor": at(7, BEGIN)},
        {"initial_cursor": at(0, "x"), "final_cursor": at(0, BEGIN)},
        {"initial_cursor": at(0, BEGIN), "final_cursor": at(0, "001-0002-0")},
        {"initial_cursor": at(0, BEGIN)},
        {"initial_cursor": at(0, BEGIN), "final_cursor": None},
        {"initial_cursor": at(0, BEGIN), "final_cursor": {"partition": "0"}},
        {"initial_cursor": {"offset": BEGIN}, "final_cursor": at(0, BEGIN)},
        None,
    ],
)
def test_a_distance_of_what_is_no_pair_is_answered_422(created: EventType, pair: Any) -> None:
    """4.4: different partitions, bad cursors, null members."""
    problem(created.post("/cursor-distances", [pair]), 422)


# 4.5


@pytest.mark.parametrize(
    ("start", "shift", "shifted"),
    [
        (BEGIN, 0, BEFORE_FIRST),
        (BEGIN, 1, FIRST),
        (BEGIN, 2, offset(1)),
        (BEGIN, 3, offset(2)),
        (BEGIN, 4, offset(3)),
        (BEGIN, 99, offset(98)),
        (offset(2), -1, offset(1)),
        (offset(2), -2, FIRST),
        (offset(2), -3, BEFORE_FIRST),
        ("2", 0, offset(2)),
    ],
)
def test_a_cursor_is_shifted(created: EventType, start: str, shift: int, shifted: str) -> None:
    """4.5; CursorOperationsAT.unshiftCursor, without timelines: beyond the newest event, too (11, no. 7)."""
    assert created.post("/shifted-cursors", [at(0, start, shift=shift)]).json() == [at(0, shifted)]


def test_without_a_shift_a_cursor_stays(created: EventType) -> None:
    """4.5: the default is 0."""
    assert created.post("/shifted-cursors", [at(0, offset(1))]).json() == [at(0, offset(1))]


def test_without_events_a_cursor_is_shifted_too(created: EventType) -> None:
    """4.5."""
    assert created.post("/shifted-cursors", [at(1, BEGIN, shift=0)]).json() == [at(1, BEFORE_FIRST)]
    assert created.post("/shifted-cursors", [at(1, BEGIN, shift=2), at(0, BEGIN, shift=1)]).json() == [
        at(1, offset(1)),
        at(0, FIRST),
    ]


@pytest.mark.parametrize(("start", "shift"), [(BEGIN, -1), (offset(2), -4), (BEFORE_FIRST, -1)])
def test_before_the_first_event_there_is_one_place_alone(created: EventType, start: str, shift: int) -> None:
    """4.5; CursorOperationsAT.unshiftCursor: the one 422."""
    problem(created.post("/shifted-cursors", [at(0, start, shift=shift)]), 422)


@pytest.mark.parametrize("shift", ["1", 1.5, True, 2**64])
def test_a_shift_is_a_whole_number(created: EventType, shift: Any) -> None:
    """0.2."""
    problem(created.post("/shifted-cursors", [at(0, BEGIN, shift=shift)]), 400)


@pytest.mark.parametrize(
    ("start", "lag"), [(BEGIN, 3), (BEFORE_FIRST, 3), (FIRST, 2), (offset(1), 1), (offset(2), 0), ("0", 2)]
)
def test_a_lag_is_what_has_not_been_consumed(created: EventType, start: str, lag: int) -> None:
    """4.5; CursorOperationsAT.calculateCursorLag, without timelines."""
    assert created.post("/cursors-lag", [at(0, start)]).json() == [
        {
            "partition": "0",
            "oldest_available_offset": FIRST,
            "newest_available_offset": offset(2),
            "unconsumed_events": lag,
        }
    ]


def test_a_lag_grows_with_each_event(nakadi: Nakadi) -> None:
    """4.5; CursorOperationsAT.calculateCursorLag: empty, 2 events, 2 more."""
    created = nakadi.create()

    def lag() -> dict[str, Any]:
        found: dict[str, Any] = only(created.post("/cursors-lag", [at(0, BEGIN)]).json())
        return found

    assert lag() == {
        "partition": "0",
        "oldest_available_offset": FIRST,
        "newest_available_offset": BEFORE_FIRST,
        "unconsumed_events": 0,
    }
    for count in (2, 4):
        created.publish({"foo": "a"}, {"foo": "b"})
        assert (lag()["unconsumed_events"], lag()["newest_available_offset"]) == (count, offset(count - 1))


@pytest.mark.parametrize("operation", ["shifted-cursors", "cursors-lag"])
@pytest.mark.parametrize(
    "cursor",
    [at(7, BEGIN), at(0, "x"), at(0, "001-0002-0"), {"partition": "0"}, {"offset": BEGIN}, None],
    ids=str,
)
def test_a_bad_cursor_is_answered_422(created: EventType, operation: str, cursor: Any) -> None:
    """4.5, 6: not 412, as a stream does."""
    problem(created.post(f"/{operation}", [cursor]), 422)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("body", ["", "{", "{}", "1", '[{"partition":[]}]', '[{"initial_cursor":1}]'])
def test_a_body_that_cannot_be_read_is_answered_400(created: EventType, operation: str, body: str) -> None:
    """0.2."""
    if body.startswith("[") and ("initial" in body) != (operation == "cursor-distances"):
        body = "[1]"
    answer = created.http.post(
        f"{created.path}/{operation}", content=body, headers={"Content-Type": "application/json"}
    )
    problem(answer, 400)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_not_there_has_no_cursors(nakadi: Nakadi, operation: str) -> None:
    """6."""
    problem(EventType(nakadi.http, "nowhere").post(f"/{operation}", []), 404)
