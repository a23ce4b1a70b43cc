"""Partitions and cursors: shown, compared, shifted, and added."""

import json
from typing import Any

import pytest

from tests.conformance.nakadi.hubs import JSON, ON_SQLITE
from tests.nakadi import BEFORE_FIRST, FIRST, EventType, Nakadi, business, json_schema, offset, problem, statistic

BEGIN = "BEGIN"
OPERATIONS = ("cursor-distances", "shifted-cursors", "cursors-lag")


def at(partition: int, text: str, **members: Any) -> dict[str, Any]:
    return {"partition": str(partition), "offset": text} | members


@pytest.fixture
def created(nakadi: Nakadi) -> EventType:
    """An event type with three events in the first of two partitions."""
    traits = {"partition_strategy": "user_defined", "compatibility_mode": "forward", "schema": json_schema("{}")}
    created = nakadi.create(category="business", partitions=2, **traits)
    created.publish(*(business(n=number, meta={"partition": "0"}) for number in range(3)))
    return created


# Partitions


def test_partitions_show_their_oldest_and_newest_offsets(nakadi: Nakadi) -> None:
    """PartitionsControllerAT.testBeginShownForNoEvents, whenListPartitionsThenOk, whenGetPartitionThenOk.

    And whenListPartitionsAndWriteMessageThenOffsetInPartitionIsIncreased.
    """
    created = nakadi.create()
    for number in range(-1, 12):
        wanted = {"partition": "0", "oldest_available_offset": FIRST, "newest_available_offset": offset(number)}
        assert created.partitions() == [wanted]
        assert created.get("/partitions/0").json() == wanted
        created.publish({"foo": str(number)})
    assert created.newest() == {"0": "001-0001-000000000000000012"}, "18 digits"


@pytest.mark.parametrize(
    ("consumed", "count"),
    [
        (BEGIN, 3),
        ("begin", 3),
        (BEFORE_FIRST, 3),
        ("-1", 3),
        (FIRST, 2),
        ("001-0001-0", 2),
        ("0", 2),
        ("000000000000000001", 1),
    ],
)
def test_unconsumed_events_are_counted_from_each_form_of_an_offset(
    created: EventType, consumed: str, count: int
) -> None:
    """PartitionsControllerAT.whenGetPartitionWithConsumedOffsetThenOk."""
    answer = created.get("/partitions/0", consumed_offset=consumed).json()
    assert answer == created.partitions()[0] | {"unconsumed_events": count}


@ON_SQLITE
@pytest.mark.parametrize(
    "consumed", ["", "x", "-2", "001-0001-", "002-0001-0", "001-0002-0", "001-0001--2", "END", "+1"]
)
def test_text_that_is_no_available_offset_is_answered_422(created: EventType, consumed: str) -> None:
    problem(created.get("/partitions/0", consumed_offset=consumed), 422)


@ON_SQLITE
def test_unknown_partition_is_answered_404_and_422_with_an_offset(created: EventType) -> None:
    """PartitionsControllerAT.whenGetPartitionThenPartitionNotFound, whenListPartitionsThenTopicNotFound."""
    for partition in ("2", "-1", "00", "x", "99999"):
        problem(created.get(f"/partitions/{partition}"), 404)
        problem(created.get(f"/partitions/{partition}", consumed_offset=BEGIN), 422)
    for name in ("nowhere", "a b"):
        for path in ("/partitions", "/partitions/0"):
            problem(EventType(created.http, name).get(path), 404)


def test_partitions_with_a_cursor_are_listed_after_the_others(nakadi: Nakadi) -> None:
    created = nakadi.create(partitions=3)
    found = created.get("/partitions", cursors=json.dumps([at(1, BEGIN), at(0, BEFORE_FIRST)])).json()
    assert found[0]["partition"] == "2"
    assert {each["partition"]: each.get("unconsumed_events") for each in found} == {"0": 0, "1": 0, "2": None}


@ON_SQLITE
@pytest.mark.parametrize(
    "cursors",
    [
        "x",
        "{}",
        '[{"partition":"0"}]',
        '[{"offset":"BEGIN"}]',
        "[null]",
        json.dumps([at(0, "x")]),
        json.dumps([at(7, BEGIN)]),
        json.dumps([at(0, BEGIN)] * 2),
    ],
)
def test_unusable_cursors_of_a_list_are_answered_422(created: EventType, cursors: str) -> None:
    problem(created.get("/partitions", cursors=cursors), 422)


def test_partitions_are_added_and_never_removed(nakadi: Nakadi) -> None:
    """UserJourneyAT.testRepartition; more than 256 are refused unless the hub is strict, which allows 8."""
    created = nakadi.create(default_statistic=statistic(1))
    created.publish({"foo": "a"})

    def grow(count: Any, of: EventType = created) -> Any:
        return of.http.put(f"{of.path}/partition-count", json={"partition_count": count})

    for _ in range(2):
        answer = grow(3)
        assert (answer.status_code, answer.content) == (204, b"")
    for count, status in ((2, 422), (0, 422), (-1, 422), (257, 422), ("3", 400), (1.5, 400), (True, 400), ([3], 400)):
        problem(grow(count), status)
    problem(grow(3, EventType(nakadi.http, "nowhere")), 404)
    assert created.shown()["default_statistic"] == statistic(3)
    assert created.newest() == {"0": FIRST, "1": BEFORE_FIRST, "2": BEFORE_FIRST}


# Operations on cursors


def test_distance_is_the_number_of_events_between_two_cursors(created: EventType) -> None:
    """Negative where the final cursor is the earlier one; answers are in the order of the request."""
    rows = [
        (BEGIN, BEGIN, 0), (BEFORE_FIRST, BEGIN, 0), (BEGIN, FIRST, 1), (BEGIN, offset(2), 3), (FIRST, offset(2), 2),
        (offset(2), FIRST, -2), (offset(2), BEGIN, -3), ("0", "001-0001-1", 1),
    ]  # fmt: skip
    pairs = [{"initial_cursor": at(0, initial), "final_cursor": at(0, final)} for initial, final, _ in rows]
    found = created.post("/cursor-distances", pairs).json()
    assert found == [pair | {"distance": row[2]} for pair, row in zip(pairs, rows, strict=True)]
    assert created.post("/cursor-distances", []).json() == []


def test_cursor_is_shifted_beyond_the_newest_event_but_not_before_the_first(created: EventType) -> None:
    """CursorOperationsAT.unshiftCursor, without timelines; an omitted shift is 0."""
    rows = [
        (0, BEGIN, 0, BEFORE_FIRST), (0, BEGIN, 1, FIRST), (0, BEGIN, 99, offset(98)), (0, offset(2), -1, offset(1)),
        (0, offset(2), -3, BEFORE_FIRST), (0, "2", 0, offset(2)), (1, BEGIN, 2, offset(1)),
    ]  # fmt: skip
    cursors = [at(partition, start, shift=shift) for partition, start, shift, _ in rows]
    assert created.post("/shifted-cursors", cursors).json() == [at(row[0], row[3]) for row in rows]
    assert created.post("/shifted-cursors", [at(0, offset(1))]).json() == [at(0, offset(1))]
    for start, shift in ((BEGIN, -1), (offset(2), -4)):
        problem(created.post("/shifted-cursors", [at(0, start, shift=shift)]), 422)
    for wrong in ("1", 1.5, True, 2**64):
        problem(created.post("/shifted-cursors", [at(0, BEGIN, shift=wrong)]), 400)


def test_lag_is_the_number_of_unconsumed_events(created: EventType) -> None:
    """CursorOperationsAT.calculateCursorLag, without timelines."""
    rows = [(BEGIN, 3), (FIRST, 2), (offset(2), 0), ("0", 2)]
    found = created.post("/cursors-lag", [at(0, start) for start, _ in rows]).json()
    partition = {"partition": "0", "oldest_available_offset": FIRST, "newest_available_offset": offset(2)}
    assert found == [partition | {"unconsumed_events": lag} for _, lag in rows]
    created.publish(business(n=3, meta={"partition": "0"}))
    assert created.post("/cursors-lag", [at(0, BEGIN)]).json()[0]["unconsumed_events"] == 4


@ON_SQLITE
@pytest.mark.parametrize(
    "cursor", [at(7, BEGIN), at(0, "x"), at(0, "001-0002-0"), {"partition": "0"}, {"offset": BEGIN}, None], ids=str
)
def test_unusable_cursor_of_an_operation_is_answered_422(created: EventType, cursor: Any) -> None:
    """A stream answers 412."""
    for operation in ("shifted-cursors", "cursors-lag"):
        problem(created.post(f"/{operation}", [cursor]), 422)
    for pair in ({"initial_cursor": at(0, BEGIN), "final_cursor": cursor}, {"initial_cursor": cursor}, None):
        problem(created.post("/cursor-distances", [pair]), 422)
    problem(created.post("/cursor-distances", [{"initial_cursor": at(0, BEGIN), "final_cursor": at(1, BEGIN)}]), 422)


@ON_SQLITE
@pytest.mark.parametrize("operation", OPERATIONS)
def test_unreadable_body_of_an_operation_is_answered_400(created: EventType, operation: str) -> None:
    for body in ("", "{", "{}", "1", "[1]"):
        problem(created.http.post(f"{created.path}/{operation}", content=body, headers=JSON), 400)
    problem(EventType(created.http, "nowhere").post(f"/{operation}", []), 404)
