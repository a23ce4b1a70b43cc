"""Cursors of subscriptions that are reset over their streams' heads (5.5)."""

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.nakadi import BEFORE_FIRST, Nakadi, offset, problem
from tests.subscribing import at_once, event_type_of, filled, numbered, put, subscribe, told

ENDED = "Resetting subscription cursors"


def test_streams_end_and_the_next_one_goes_on_behind_the_cursor(nakadi: Nakadi) -> None:
    """5.5; HilaAT.whenResetCursorsThenStreamFromResetCursorOffset: reset to 4, and the first event is 5."""
    subscription = filled(nakadi, 10)
    with subscription.stream(batch_flush_timeout=30, max_uncommitted_events=3) as consumer:
        consumer.batches(3)
        subscription.reset(subscription.cursor(4))
        assert told(consumer.rest()) == [f"2[] {ENDED}"]
        assert subscription.committed() == [offset(4)]
        assert [each["state"] for each in subscription.partitions()] == ["unassigned"]
        assert consumer.commit(consumer.seen[0]).status_code == 422, "nothing of an old stream is left"
    with subscription.stream() as consumer:
        assert consumer.batch().numbers == [5]


def test_an_empty_list_only_begins_it_at_its_end(nakadi: Nakadi) -> None:
    """5.3, 5.5; HilaAT.whenPatchThenCursorsAreInitializedToDefault."""
    subscription = filled(nakadi, 3, partitions=2, read_from="end")
    assert subscription.cursors() == {}
    subscription.reset()
    put(event_type_of(subscription), 3)
    assert subscription.committed() == [offset(2)] * 2
    with subscription.stream() as consumer:
        assert consumer.batch().numbers == [3]
        subscription.reset()
        put(event_type_of(subscription), 4)
        assert consumer.batch().numbers == [4], "nor does it end streams"


def test_one_cursor_begins_it_and_sets_that_partition(nakadi: Nakadi) -> None:
    """5.3, 5.5; HilaAT.whenPatchThenCursorsAreInitializedAndPatched: the others begin as they do."""
    for read_from, other in (("end", offset(2)), ("begin", BEFORE_FIRST)):
        subscription = filled(nakadi, 3, partitions=2, read_from=read_from)
        subscription.reset(subscription.cursor(1, partition=1))
        assert subscription.committed() == [other, offset(1)]


def test_it_goes_back_and_forth(nakadi: Nakadi) -> None:
    """5.5: unconditionally."""
    subscription = filled(nakadi, 10)
    for text, wanted in (("7", 7), (offset(2), 2), ("BEGIN", -1), (offset(9), 9), ("-1", -1)):
        subscription.reset(subscription.cursor(text))
        assert subscription.committed() == [offset(wanted)]


@pytest.mark.parametrize("text", ["END", "end"])
def test_it_goes_to_the_end(nakadi: Nakadi, text: str) -> None:
    """A decision."""
    subscription = filled(nakadi, 10)
    subscription.reset(subscription.cursor(text))
    assert subscription.committed() == [offset(9)]


def test_it_goes_to_a_time(nakadi: Nakadi) -> None:
    """A decision: the first event that was received then or later comes next."""
    created = numbered(nakadi)
    subscription = subscribe(created)
    put(created, 0, 1)
    between = datetime.now(UTC)
    put(created, 2, 3)
    subscription.reset(subscription.cursor(between.isoformat()))
    assert subscription.committed() == [offset(1)]
    subscription.reset(subscription.cursor("2001-02-03T04:05:06Z"))
    assert subscription.committed() == [BEFORE_FIRST]
    subscription.reset(subscription.cursor("2101-02-03T04:05:06+01:00"))
    assert subscription.committed() == [offset(3)]


def test_several_partitions_are_reset_at_once(nakadi: Nakadi) -> None:
    """5.5: and the others are left where they are."""
    subscription = filled(nakadi, 5, partitions=3)
    with subscription.stream(batch_limit=5, max_uncommitted_events=15) as consumer:
        consumer.done(*consumer.batches(3))
    subscription.reset(subscription.cursor(1), subscription.cursor(2, partition=2))
    assert subscription.committed() == [offset(1), offset(4), offset(2)]


def test_those_who_have_left_are_in_no_ones_way(nakadi: Nakadi) -> None:
    """5.5: their time to commit ends with it."""
    subscription = filled(nakadi, 5)
    with subscription.stream(batch_limit=2) as consumer:
        batch = consumer.batch()
    subscription.reset(subscription.cursor(3))
    problem(consumer.commit(batch), 422)
    with subscription.stream() as consumer:
        assert consumer.next().numbers == [4]


def test_of_those_who_reset_at_once_none_is_told_anything_wrong(nakadi: Nakadi) -> None:
    """5.5: another one under way is 409; what is there is what one of them has asked for."""
    subscription = filled(nakadi, 5)
    with subscription.stream() as consumer:
        consumer.batch()
        calls = [lambda number=number: subscription.patch(subscription.cursor(number)) for number in range(4)]
        found = {number: each.status_code for number, each in enumerate(at_once(calls))}
        assert consumer.reason() == ENDED
    assert set(found.values()) <= {204, 409}, found
    assert subscription.committed()[0] in {offset(number) for number, status in found.items() if status == 204}


@pytest.mark.parametrize(
    "change",
    [
        {"event_type": "no.such"},
        {"event_type": None},
        {"partition": None},
        {"partition": "1"},
        {"partition": "x"},
        {"offset": None},
        {"offset": "x"},
        {"offset": "5"},
        {"offset": offset(5)},
        {"offset": "001-0002-000000000000000000"},
    ],
    ids=str,
)
def test_a_cursor_that_is_not_available_is_answered_422(nakadi: Nakadi, change: dict[str, Any]) -> None:
    """5.5; and nothing is reset, no stream ends."""
    subscription = filled(nakadi, 5)
    with subscription.stream() as consumer:
        batch = consumer.batch()
        given = {name: value for name, value in (subscription.cursor(3) | change).items() if value is not None}
        problem(subscription.patch(subscription.cursor(3), given), 422)
        consumer.done(batch)
    assert subscription.committed() == [offset(0)]


@pytest.mark.parametrize("text", ["2001-02-03T04:05:06", "2001-02-03T25:05:06Z"])
def test_a_time_needs_a_zone_and_to_be_one(nakadi: Nakadi, text: str) -> None:
    """A decision: as any offset that is none."""
    subscription = filled(nakadi, 1)
    problem(subscription.patch(subscription.cursor(text)), 422)


def test_partitions_are_those_of_the_subscription_and_once_each(nakadi: Nakadi) -> None:
    """5.5: 422."""
    subscription, other = filled(nakadi, 5), filled(nakadi, 5)
    name = other.event_types[0]
    problem(subscription.patch(subscription.cursor(3, event_type=name)), 422)
    problem(subscription.patch(subscription.cursor(3), subscription.cursor(4)), 422)


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b'{"items":{}}', b'{"items":["0"]}'])
def test_a_body_that_cannot_be_read_is_answered_400(nakadi: Nakadi, body: bytes) -> None:
    """6."""
    path, headers = f"{filled(nakadi, 1).path}/cursors", {"Content-Type": "application/json"}
    problem(nakadi.http.patch(path, content=body, headers=headers), 400)


def test_what_is_not_there_cannot_be_reset(nakadi: Nakadi) -> None:
    """6."""
    problem(nakadi.http.patch(f"/subscriptions/{uuid.uuid4()}/cursors", json={"items": []}), 404)


def test_there_is_no_put_of_cursors(nakadi: Nakadi) -> None:
    """1.4."""
    problem(nakadi.http.put(f"{filled(nakadi, 1).path}/cursors", json={"items": []}), 405)


def test_a_dry_run_tells_where_it_would_stand_and_moves_nothing(nakadi: Nakadi) -> None:
    """A decision: as consumer groups are moved."""
    subscription = filled(nakadi, 5, partitions=2)
    asked = [subscription.cursor("END", partition=1), subscription.cursor(2)]

    before_it_has_begun = subscription.patch(*asked, dry_run=True)
    with subscription.stream() as consumer:
        consumer.batch()
        answer = subscription.patch(*asked, dry_run=True)
        consumer.batch()

    items = [subscription.cursor(2), subscription.cursor(4, partition=1)]
    assert (answer.status_code, answer.json()) == (200, {"items": items, "dry_run": True})
    assert before_it_has_begun.json() == answer.json()
    assert subscription.committed() == [BEFORE_FIRST] * 2


def test_a_dry_run_is_refused_as_the_reset_would_be(nakadi: Nakadi) -> None:
    subscription, another = filled(nakadi, 5), numbered(nakadi)
    foreign = {"event_type": another.name, "partition": "0", "offset": "BEGIN"}
    for wrong in (
        [subscription.cursor(9)],
        [subscription.cursor(0, partition=1)],
        [foreign],
        [subscription.cursor(1)] * 2,
    ):
        told_of = [problem(subscription.patch(*wrong, **how), 422) for how in ({}, {"dry_run": True})]
        assert told_of[0] == told_of[1]


def test_strictly_what_is_not_known_is_passed_over(strict: Nakadi) -> None:
    """0.2."""
    subscription = filled(strict, 5)
    asked = {"items": [subscription.cursor("END") | {"colour": "red"}], "colour": "red"}
    assert strict.http.patch(f"{subscription.path}/cursors", json=asked).status_code == 204


@pytest.mark.parametrize("given", [{"dryrun": True}, {"items": [], "dry-run": True}, {"dry_run": "yes"}, []])
def test_what_is_misspelt_moves_nothing(nakadi: Nakadi, given: Any) -> None:
    subscription = filled(nakadi, 5)
    asked = {"items": [subscription.cursor("END")]} | given if isinstance(given, dict) else given
    told = problem(nakadi.http.patch(f"{subscription.path}/cursors", json=asked), 400)
    assert told["allowed"] == "a JSON object with items, reason, dry_run"
    with subscription.stream() as consumer:
        assert consumer.batch().numbers == [0]
