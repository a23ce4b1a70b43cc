"""Resets: cursors of subscriptions are set while streams read, which end."""

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.conformance.nakadi.hubs import ON_SQLITE
from tests.nakadi import BEFORE_FIRST, Nakadi, offset, problem
from tests.producing import together
from tests.subscribing import event_type_of, filled, numbered, put, subscribe, told

ENDED = "Resetting subscription cursors"


def test_reset_ends_streams_and_the_next_one_begins_after_the_cursor(nakadi: Nakadi) -> None:
    """HilaAT.whenResetCursorsThenStreamFromResetCursorOffset: reset to 4, and the first event is 5."""
    subscription = filled(nakadi, 10)
    with subscription.stream(batch_flush_timeout=30, max_uncommitted_events=3) as consumer:
        consumer.batches(3)
        subscription.reset(subscription.cursor(4))
        assert told(consumer.rest()) == [f"2[] {ENDED}"]
        assert subscription.committed() == [offset(4)]
        assert [each["state"] for each in subscription.partitions()] == ["unassigned"]
        assert consumer.commit(consumer.seen[0]).status_code == 422, "the old stream is forgotten"
    with subscription.stream() as consumer:
        assert consumer.batch().numbers == [5]


def test_reset_does_not_wait_for_clients_that_have_left(nakadi: Nakadi) -> None:
    """Their time to commit ends with it."""
    subscription = filled(nakadi, 5)
    with subscription.stream(batch_limit=2) as consumer:
        batch = consumer.batch()
    subscription.reset(subscription.cursor(3))
    problem(consumer.commit(batch), 422)
    with subscription.stream() as consumer:
        assert consumer.next().numbers == [4]


def test_reset_of_no_cursors_begins_the_subscription_and_ends_no_streams(nakadi: Nakadi) -> None:
    """HilaAT.whenPatchThenCursorsAreInitializedToDefault."""
    subscription = filled(nakadi, 3, partitions=2, read_from="end")
    assert subscription.cursors() == {}
    subscription.reset()
    put(event_type_of(subscription), 3)
    assert subscription.committed() == [offset(2)] * 2
    with subscription.stream() as consumer:
        assert consumer.batch().numbers == [3]
        subscription.reset()
        put(event_type_of(subscription), 4)
        assert consumer.batch().numbers == [4]


@pytest.mark.parametrize(("read_from", "other"), [("end", offset(2)), ("begin", BEFORE_FIRST)])
def test_reset_of_one_partition_begins_the_others_as_the_subscription_does(
    nakadi: Nakadi, read_from: str, other: str
) -> None:
    """HilaAT.whenPatchThenCursorsAreInitializedAndPatched."""
    subscription = filled(nakadi, 3, partitions=2, read_from=read_from)
    subscription.reset(subscription.cursor(1, partition=1))
    assert subscription.committed() == [other, offset(1)]


def test_reset_leaves_partitions_without_a_cursor_where_they_are(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 5, partitions=3)
    with subscription.stream(batch_limit=5, max_uncommitted_events=15) as consumer:
        consumer.done(*consumer.batches(3))
    subscription.reset(subscription.cursor(1), subscription.cursor(2, partition=2))
    assert subscription.committed() == [offset(1), offset(4), offset(2)]


def test_reset_goes_to_any_offset_to_either_end_or_to_a_time(nakadi: Nakadi) -> None:
    """At a time, the first event that was received then or later comes next."""
    created = numbered(nakadi)
    subscription = subscribe(created)
    put(created, 0, 1)
    between = datetime.now(UTC).isoformat()
    put(created, 2, 3)
    for text, wanted in (
        ("2", 2),
        (offset(1), 1),
        ("BEGIN", -1),
        (offset(3), 3),
        ("-1", -1),
        ("END", 3),
        (between, 1),
        ("end", 3),
        ("0001-01-01T00:00:00Z", -1),
        ("9999-12-31T23:59:59-23:59", 3),
    ):
        subscription.reset(subscription.cursor(text))
        assert subscription.committed() == [offset(wanted)], text


def test_concurrent_resets_succeed_or_are_answered_409(nakadi: Nakadi) -> None:
    """The cursor is that of one that succeeded."""
    subscription = filled(nakadi, 5)
    with subscription.stream() as consumer:
        consumer.batch()
        calls = [lambda number=number: subscription.patch(subscription.cursor(number)) for number in range(4)]
        found = {number: each.status_code for number, each in enumerate(together(calls))}
        assert consumer.reason() == ENDED
    assert set(found.values()) <= {204, 409}, found
    assert subscription.committed()[0] in {offset(number) for number, status in found.items() if status == 204}


def test_refused_reset_moves_nothing_and_ends_no_stream(nakadi: Nakadi) -> None:
    """A dry run is refused as the reset is; more malformed cursors are in test_hostile_subscriptions.py."""
    subscription, other = filled(nakadi, 5), numbered(nakadi)
    unusable = ("x", "5", offset(5), "001-0002-000000000000000000", "2001-02-03T04:05:06", "2001-02-03T25:05:06Z")
    refused = [
        *([subscription.cursor(text)] for text in unusable),
        [subscription.cursor(3), subscription.cursor("x")],
        [subscription.cursor(3), subscription.cursor(4)],
        [subscription.cursor(0, partition=1)],
        [subscription.cursor("BEGIN", event_type=other.name)],
        [subscription.cursor("BEGIN", event_type="no.such")],
    ]
    with subscription.stream() as consumer:
        batch = consumer.batch()
        for cursors in refused:
            first, dry = (problem(subscription.patch(*cursors, **how), 422) for how in ({}, {"dry_run": True}))
            assert first == dry, cursors
        consumer.done(batch)
    assert subscription.committed() == [offset(0)]


@ON_SQLITE
@pytest.mark.parametrize("given", [{"dryrun": True}, {"items": [], "dry-run": True}, {"dry_run": "yes"}, []], ids=str)
def test_misspelt_reset_is_answered_400_with_its_legal_members(nakadi: Nakadi, strict: Nakadi, given: Any) -> None:
    """A strict hub ignores unknown members."""
    subscription = filled(nakadi, 5)
    asked = {"items": [subscription.cursor("END")]} | given if isinstance(given, dict) else given
    found = problem(nakadi.http.patch(f"{subscription.path}/cursors", json=asked), 400)
    assert found["allowed"] == "a JSON object with items, reason, dry_run"
    assert subscription.cursors() == {}
    subscription = filled(strict, 5)
    asked = {"items": [subscription.cursor("END") | {"colour": "red"}], "colour": "red"}
    assert strict.http.patch(f"{subscription.path}/cursors", json=asked).status_code == 204


@ON_SQLITE
def test_reset_of_an_unknown_subscription_is_answered_404_and_a_put_405(nakadi: Nakadi) -> None:
    problem(nakadi.http.patch(f"/subscriptions/{uuid.uuid4()}/cursors", json={"items": []}), 404)
    problem(nakadi.http.put(f"{filled(nakadi, 1).path}/cursors", json={"items": []}), 405)


def test_dry_run_shows_the_cursors_and_moves_nothing(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 5, partitions=2)
    asked = [subscription.cursor("END", partition=1), subscription.cursor(2)]
    before = subscription.patch(*asked, dry_run=True)
    with subscription.stream() as consumer:
        consumer.batch()
        answer = subscription.patch(*asked, dry_run=True)
        consumer.batch()
    changes = [{"repeated": 0, "skipped": 3}, {"repeated": 0, "skipped": 5}]
    cursors = [subscription.cursor(2), subscription.cursor(4, partition=1)]
    items = [{**each, "came_from": BEFORE_FIRST, **change} for each, change in zip(cursors, changes, strict=True)]
    assert (answer.status_code, answer.json()) == (200, {"items": items, "dry_run": True})
    assert before.json() == answer.json(), "before the subscription has begun"
    assert subscription.committed() == [BEFORE_FIRST] * 2
