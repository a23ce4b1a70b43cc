"""Batches of idempotent producers that queue: each is decided about by what the one before has stored."""

import time
from typing import Any

import pytest

from penstock.core.producers import OffsetRange
from penstock.core.registry.event_type import EventType
from penstock.errors import InvalidEvent, OutOfSequence, PartitionNotFound
from penstock.hub.log import outbox
from penstock.hub.log.publish import ProducerResult
from penstock.storage import Store
from penstock.testing.clock import START_AT
from tests.failing import has_code
from tests.unit.hub.committing import Log, read_next_offsets, read_ranges
from tests.unit.hub.feeds import NAME, create_feed, find_feed, into_outbox, raise_epochs, read_data, recreate_feed
from tests.unit.hub.numbering import UNFIT, a_batch, a_publish, find_producer, settle


def tighten_schema(store: Store) -> None:
    """Let the event type take no letters any more."""
    schema = '{"type":"object","properties":{"n":{"type":"integer"}}}'
    definition = {"type": "json_schema", "schema": schema, "version": "2.0.0"}
    feed = find_feed(store)
    with store.write() as tx:
        tx.registry.update(feed, EventType.of(feed.event_type.definition | {"schema": definition}, 1), START_AT)


def test_batch_is_decided_about_by_the_one_of_its_producer_before(log: Log) -> None:
    answers = log.queue(
        a_batch(log.feed, 0, 0, "ab"),
        a_publish(log.feed, "p"),
        a_batch(log.feed, 0, 0, "h", group="h"),
        a_batch(log.feed, 0, 2, "c"),
        a_batch(log.feed, 0, 1, "i", group="h"),
        a_batch(log.feed, 0, 1, "i", group="h"),
        a_batch(log.feed, 0, 3, "d"),
        a_batch(log.feed, 0, 0, "abcd"),
    )
    del answers[1]

    assert read_ranges(answers) == [
        [(0, 1)],
        [(3, 3)],
        [(4, 4)],
        [(5, 5)],
        [(5, 5)],
        [(6, 6)],
        [(0, 1), (4, 4), (6, 6)],
    ]
    assert (log.letters(), log.writes) == ("abphcid", 4)


def test_refused_batch_harms_no_other(log: Log) -> None:
    gap, first, unfit, plain, last = log.queue(
        a_batch(log.feed, 0, 7, "!", group="gap"),
        a_batch(log.feed, 0, 0, "a"),
        a_batch(log.feed, 0, 0, "!", group="unfit", fits=False),
        a_publish(log.feed, "p"),
        a_batch(log.feed, 0, 0, "b", group="h"),
    )

    assert has_code("sequence-gap")(gap.exception(300))
    assert unfit.exception(300) is UNFIT
    assert (read_ranges([first, last]), read_next_offsets([plain])) == ([[(0, 0)], [(2, 2)]], [{0: 2}])
    assert (log.letters(), log.writes) == ("apb", 1)
    assert [find_producer(log.store, log.feed, group) for group in ("gap", "unfit")] == [None, None]


def test_unfit_batch_is_a_duplicate_if_it_is_stored_and_refused_otherwise(log: Log) -> None:
    _, again, new = log.submit(
        a_batch(log.feed, 0, 0, "ab"),
        a_batch(log.feed, 0, 1, "b", fits=False),
        a_batch(log.feed, 0, 2, "c", fits=False),
    )

    published = again.result(300)
    assert published and published.produced == ProducerResult("duplicate", 0, 1, 1, 2, [OffsetRange(1, 1)])
    assert new.exception(300) is UNFIT
    assert log.letters() == "ab"


@pytest.mark.parametrize("late", ["a", "b"])
def test_batch_after_its_deadline_is_not_stored_and_later_ones_are(log: Log, late: str) -> None:
    now = time.monotonic()

    expired, *answers = log.queue(
        a_batch(log.feed, 0, 0, "!", group=late, deadline=now - 1),
        *[a_batch(log.feed, 0, 0, group, group=group, deadline=now + 600) for group in "ab"],
    )

    assert has_code("deadline-passed")(expired.exception(300))
    assert read_ranges(answers) == [[(0, 0)], [(1, 1)]]
    assert (log.letters(), log.writes) == ("ab", 1)


def test_batch_that_another_hub_has_stored_meanwhile_is_a_duplicate(log: Log) -> None:
    answers = log.queue(
        a_batch(log.feed, 0, 0, "a"),
        a_batch(log.feed, 0, 1, "b"),
        at_write=lambda number: settle(log.store, a_batch(log.feed, 0, 0, "a")) if number == 1 else None,
    )

    assert read_ranges(answers) == [[(0, 0)], [(1, 1)]]
    assert log.letters() == "ab"


def test_stale_batch_is_prepared_again_with_its_sequence_numbers(log: Log) -> None:
    answers = log.queue(
        a_batch(log.feed, 0, 0, "ab"),
        a_batch(log.feed, 0, 2, "c"),
        a_batch(log.feed, 0, 1, "bc"),
        at_write=lambda number: raise_epochs(log.store) if number == 1 else None,
    )

    assert read_ranges(answers) == [[(0, 1)], [(2, 2)], [(1, 2)]]
    assert (log.letters(), log.writes) == ("abc", 2 + 2 + 1)
    assert (published := answers[0].result()) and published.feed.epoch > log.feed.epoch


def test_stricter_schema_refuses_new_events_and_not_stored_ones(log: Log) -> None:
    settle(log.store, a_batch(log.feed, 0, 0, "a"))

    again, *new = log.queue(
        a_batch(log.feed, 0, 0, "a"),
        a_batch(log.feed, 0, 0, "h", group="h"),
        a_batch(log.feed, 0, 1, "b"),
        at_write=lambda number: tighten_schema(log.store) if number == 1 else None,
    )

    assert read_ranges([again]) == [[(0, 0)]]
    assert [type(each.exception(300)) for each in new] == [InvalidEvent, InvalidEvent]
    assert log.letters() == "a"


def test_batch_that_another_hub_has_stored_before_the_schema_became_stricter_is_a_duplicate(log: Log) -> None:
    def interfere(number: int) -> None:
        if number == 1:
            tighten_schema(log.store)
        elif number == 2:
            settle(log.store, a_batch(log.feed, 0, 0, "a"))

    assert read_ranges(log.queue(a_batch(log.feed, 0, 0, "a"), at_write=interfere)) == [[(0, 0)]]
    assert log.letters() == "a"


def test_event_type_that_was_created_again_knows_no_producer(log: Log) -> None:
    settle(log.store, a_batch(log.feed, 0, 0, "ab"))

    goes_on, begins = log.queue(
        a_batch(log.feed, 0, 2, "c"),
        a_batch(log.feed, 0, 0, "h", group="h"),
        at_write=lambda number: recreate_feed(log.store) if number == 1 else None,
    )

    error = goes_on.exception(300)
    assert isinstance(error, OutOfSequence)
    assert (error.code, error.expected, error.committed) == ("sequence-gap", 0, None)
    assert read_ranges([begins]) == [[(0, 0)]]
    assert log.letters() == "h"


def test_batch_for_a_partition_that_is_gone_is_refused(log: Log) -> None:
    feed = create_feed(log.store, "another", partition_count=2)

    gone, kept = log.queue(
        a_batch(feed, 0, 0, "a", partition=1),
        a_batch(log.feed, 0, 0, "b"),
        at_write=lambda number: recreate_feed(log.store, "another") if number == 1 else None,
    )

    assert isinstance(gone.exception(300), PartitionNotFound)
    assert read_ranges([kept]) == [[(0, 0)]]


def test_batches_keep_their_order_behind_an_outbox_of_several_transactions(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MOVE_BYTES", 6)
    into_outbox(log.store, [(NAME, "{}")] * 4)

    answers = log.queue(*[a_batch(log.feed, 0, n, letter) for n, letter in enumerate("abc")])

    assert read_ranges(answers) == [[(4, 4)], [(5, 5)], [(6, 6)]]


def test_refused_batch_is_not_stored_when_its_partition_returns(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outbox of another event type fills the transaction after the refusal, and then the partition is back."""
    monkeypatch.setattr(outbox, "MOVE_BYTES", 6)
    feed = create_feed(log.store, "another", partition_count=2)

    def interfere(number: int) -> None:
        if number in (1, 3):
            recreate_feed(log.store, "another", partition_count=2 if number == 3 else 1)
        elif number == 2:
            into_outbox(log.store, [(NAME, "{}")] * 4)

    gone, kept = log.queue(a_batch(feed, 0, 0, "a", partition=1), a_publish(log.feed, "p"), at_write=interfere)

    assert read_next_offsets([kept]) == [{0: 5}]
    assert isinstance(gone.exception(300), PartitionNotFound)
    assert read_data(log.store, find_feed(log.store, "another").partition_ids[-1]) == []


def test_failed_batch_does_not_use_up_the_numbers_of_the_others(log: Log) -> None:
    def fail(number: int) -> None:
        if number in (1, 3):  # The group, and the second of its requests.
            raise ZeroDivisionError

    requests: list[Any] = [a_batch(log.feed, 0, 0, group, group=group) for group in "abcb"]
    answers = log.queue(*requests, at_write=fail)

    assert isinstance(answers.pop(1).exception(300), ZeroDivisionError)
    assert read_ranges(answers) == [[(0, 0)], [(1, 1)], [(2, 2)]]
    assert log.letters() == "acb"
