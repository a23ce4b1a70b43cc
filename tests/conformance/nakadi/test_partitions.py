"""Partitions and offsets: how they are written, what is shown of them, and how partitions are added."""

import json
from typing import Any

import pytest

from tests.nakadi import BEFORE_FIRST, FIRST, EventType, Nakadi, offset, problem, statistic

AT_CONSUMED = ("BEGIN", "begin", "Begin", BEFORE_FIRST, "-1")
"""Before the first event, in every way in which it can be written."""


def unconsumed(created: EventType, consumed: str, partition: str = "0") -> int:
    answer = created.get(f"/partitions/{partition}", consumed_offset=consumed)
    assert answer.status_code == 200, answer.text
    found: int = answer.json()["unconsumed_events"]
    return found


def test_partitions_are_listed_with_three_members_each(nakadi: Nakadi) -> None:
    """1.6, 4.6; PartitionsControllerAT.whenListPartitionsThenOk."""
    created = nakadi.create(partitions=3)
    found = created.partitions()
    assert [each["partition"] for each in found] == ["0", "1", "2"]
    assert all(set(each) == {"partition", "oldest_available_offset", "newest_available_offset"} for each in found)


def test_an_empty_partition_begins_where_it_does_not_end_yet(nakadi: Nakadi) -> None:
    """4.1, 4.6; PartitionsControllerAT.testBeginShownForNoEvents."""
    assert nakadi.create().partitions() == [
        {"partition": "0", "oldest_available_offset": FIRST, "newest_available_offset": BEFORE_FIRST}
    ]


def test_each_event_moves_the_newest_offset_by_one(nakadi: Nakadi) -> None:
    """4.1; PartitionsControllerAT.whenListPartitionsAndWriteMessageThenOffsetInPartitionIsIncreased, and of one."""
    created = nakadi.create()
    for number in range(3):
        created.publish({"foo": str(number)})
        wanted = {"partition": "0", "oldest_available_offset": FIRST, "newest_available_offset": offset(number)}
        assert created.partitions() == [wanted]
        assert created.get("/partitions/0").json() == wanted


def test_an_offset_has_18_digits(nakadi: Nakadi) -> None:
    """4.1."""
    created = nakadi.create()
    created.publish(*({"foo": str(number)} for number in range(12)))
    assert created.newest() == {"0": "001-0001-000000000000000011"}


def test_one_partition_is_shown(nakadi: Nakadi) -> None:
    """1.2; PartitionsControllerAT.whenGetPartitionThenOk."""
    created = nakadi.create(partitions=2)
    assert created.get("/partitions/1").json() == created.partitions()[1]


@pytest.mark.parametrize("consumed", AT_CONSUMED)
def test_what_is_not_consumed_is_counted(nakadi: Nakadi, consumed: str) -> None:
    """4.6; PartitionsControllerAT.whenGetPartitionWithConsumedOffsetThenOk."""
    created = nakadi.create()
    assert unconsumed(created, consumed) == 0
    created.publish({"foo": "a"}, {"foo": "b"})
    answer = created.get("/partitions/0", consumed_offset=consumed).json()
    assert answer == created.partitions()[0] | {"unconsumed_events": 2}


@pytest.mark.parametrize("first", [FIRST, "001-0001-0", "001-0001-00", "0", "000000000000000000"])
def test_offsets_are_taken_in_old_forms_too(nakadi: Nakadi, first: str) -> None:
    """4.1: padding is not enforced, and plain numbers are of the first timeline."""
    created = nakadi.create()
    created.publish(*({"foo": str(number)} for number in range(3)))
    assert unconsumed(created, first) == 2
    assert unconsumed(created, "2") == 0


@pytest.mark.parametrize(
    "consumed",
    ["", "x", "-2", "001-0001", "001-0001-", "002-0001-0", "001-1-0", "001-0001-x", "001-0001--2", "END", "1.0", "+1"],
)
def test_what_is_no_offset_is_answered_422(nakadi: Nakadi, consumed: str) -> None:
    """4.6."""
    problem(nakadi.create().get("/partitions/0", consumed_offset=consumed), 422)


@pytest.mark.parametrize("consumed", ["001-0002-000000000000000000", "001-00ff--1"])
def test_an_offset_of_an_unknown_timeline_is_answered_422(nakadi: Nakadi, consumed: str) -> None:
    """4.1."""
    problem(nakadi.create().get("/partitions/0", consumed_offset=consumed), 422)


@pytest.mark.parametrize("partition", ["1", "-1", "00", "x", "99999"])
def test_a_partition_that_is_not_there_is_answered_404(nakadi: Nakadi, partition: str) -> None:
    """4.6; PartitionsControllerAT.whenGetPartitionThenPartitionNotFound."""
    created = nakadi.create()
    problem(created.get(f"/partitions/{partition}"), 404)
    problem(created.get(f"/partitions/{partition}", consumed_offset="BEGIN"), 422)


def test_an_event_type_that_is_not_there_is_answered_404(nakadi: Nakadi) -> None:
    """4.6; PartitionsControllerAT.whenListPartitionsThenTopicNotFound, whenGetPartitionThenTopicNotFound."""
    nowhere = EventType(nakadi.http, "nowhere")
    problem(nowhere.get("/partitions"), 404)
    problem(nowhere.get("/partitions/0"), 404)


def test_partitions_with_a_cursor_come_after_the_others(nakadi: Nakadi) -> None:
    """1.2, 4.6."""
    created = nakadi.create(partitions=3)
    cursors = [{"partition": "1", "offset": "BEGIN"}, {"partition": "0", "offset": BEFORE_FIRST}]
    found = created.get("/partitions", cursors=json.dumps(cursors)).json()
    assert found[0]["partition"] == "2"
    assert {each["partition"]: each.get("unconsumed_events") for each in found} == {"0": 0, "1": 0, "2": None}


@pytest.mark.parametrize(
    "cursors",
    [
        "x",
        "{}",
        '[{"partition":"0"}]',
        '[{"offset":"BEGIN"}]',
        "[null]",
        '[{"partition":"0","offset":"x"}]',
        '[{"partition":"7","offset":"BEGIN"}]',
        '[{"partition":"0","offset":"BEGIN"},{"partition":"0","offset":"BEGIN"}]',
    ],
)
def test_cursors_that_are_none_are_answered_422(nakadi: Nakadi, cursors: str) -> None:
    """4.6: duplicates, malformed JSON, empty members."""
    problem(nakadi.create().get("/partitions", cursors=cursors), 422)


# Adding partitions


def grow(created: EventType, count: Any) -> Any:
    return created.http.put(f"{created.path}/partition-count", json={"partition_count": count})


def test_partitions_are_added(nakadi: Nakadi) -> None:
    """1.2, 4.6; UserJourneyAT.testRepartition: 204, and again."""
    created = nakadi.create(default_statistic=statistic(1))
    created.publish({"foo": "a"})
    for _ in range(2):
        answer = grow(created, 3)
        assert (answer.status_code, answer.content) == (204, b"")
        assert created.shown()["default_statistic"] == statistic(3)
        assert created.newest() == {"0": FIRST, "1": BEFORE_FIRST, "2": BEFORE_FIRST}


@pytest.mark.parametrize("count", [2, 0, -1])
def test_partitions_are_never_taken_away(nakadi: Nakadi, count: int) -> None:
    """1.2, 4.6."""
    created = nakadi.create(partitions=3)
    problem(grow(created, count), 422)
    assert len(created.partitions()) == 3


def test_there_is_a_largest_number_of_partitions(nakadi: Nakadi) -> None:
    """1.2; a decision: 256 unless the hub is strict."""
    problem(grow(nakadi.create(), 257), 422)


@pytest.mark.parametrize("count", ["3", 1.5, True, [3]])
def test_a_number_of_partitions_is_a_whole_number(nakadi: Nakadi, count: Any) -> None:
    """0.2: the wrong JSON type."""
    problem(grow(nakadi.create(), count), 400)


def test_what_is_not_there_has_no_partitions_added(nakadi: Nakadi) -> None:
    """1.2."""
    problem(grow(EventType(nakadi.http, "nowhere"), 3), 404)
