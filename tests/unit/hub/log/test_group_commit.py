"""The committer appends all queued requests in one transaction, and each publisher has its own result."""

import time
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from penstock.core.registry.event_type import EventType
from penstock.errors import (
    DatabaseUnavailable,
    HubUnavailable,
    InvalidEvent,
    OutcomeUnknown,
    Unavailable,
    WrongTransaction,
)
from penstock.hub.committer import PublishRequest
from penstock.hub.log.publish import NewEvents
from penstock.storage import Store
from penstock.testing.clock import START_AT
from penstock.testing.factories import a_new_event, an_event_type
from tests.failing import has_code
from tests.unit.hub import committing
from tests.unit.hub.committing import Log, read_next_offsets
from tests.unit.hub.feeds import NAME, create_feed, find_feed, prepare_events, raise_epochs, recreate_feed
from tests.unit.hub.forwarding import Gate
from tests.unit.hub.numbering import a_batch, a_publish


def test_queued_requests_share_transactions_in_their_order_and_none_is_divided(log: Log) -> None:
    requests = [a_publish(log.feed, letters) for letters in ("abc", "d", "efg", "hijklmnop", "q")]

    answers = log.queue(*requests)

    assert read_next_offsets(answers) == [{0: 3}, {0: 4}, {0: 7}, {0: 16}, {0: 17}]
    assert (log.letters(), log.writes) == ("abcdefghijklmnopq", 3)
    [partition_id] = log.feed.partition_ids
    assert log.appended == [{}, {partition_id: 7}, {partition_id: 16}, {partition_id: 17}]


def test_time_of_a_transaction_is_shared_by_the_requests_with_many_events(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "GROUP_EVENTS_MAX", 1_000)
    log, started = Log(store), time.monotonic()

    answers = log.queue(*(a_publish(log.feed, "a" * count) for count in (1, 100, 400)))

    few, many, more = (published.seconds for each in answers if (published := each.result(300)))
    assert log.writes == 1
    assert (few, more) == (0, pytest.approx(4 * many))
    assert 0 < more < time.monotonic() - started
    log.committer.stop()


def test_request_of_several_partitions_is_answered_with_the_next_offset_of_each(log: Log, store: Store) -> None:
    feed = create_feed(store, "another", partition_count=3)
    events = [a_new_event({"n": n}, partition=n % 2) for n in range(3)]
    request = PublishRequest(feed.name, NewEvents(events), prepare_events(feed, *events))

    assert read_next_offsets(log.queue(a_publish(feed, "a", partition=1), request)) == [{1: 1}, {0: 2, 1: 2}]


def test_receipt_time_of_a_partition_never_goes_back(log: Log, store: Store) -> None:
    received = []
    for seconds in (5, -10, 10):
        log.clock.advance(seconds=seconds)
        read_next_offsets(log.submit(a_publish(log.feed, "a")))
        with store.read() as tx:
            [head] = tx.log.find_heads(log.feed.partition_ids).values()
        received.append((head.received_at - START_AT) // 1_000_000)

    assert received == [5, 5, 5]


def test_request_without_events_is_answered_with_none(log: Log) -> None:
    assert read_next_offsets(log.submit(PublishRequest("nobody.s"))) == [None]


def test_cancelled_request_is_not_stored(log: Log) -> None:
    gate = log.forwarding.at_write = Gate()
    log.submit(PublishRequest("nobody.s"))
    gate.await_write()
    cancelled, kept = log.submit(a_publish(log.feed, "a"), a_publish(log.feed, "b"))
    assert cancelled.cancel()
    gate.open()

    assert read_next_offsets([kept]) == [{0: 1}]
    with pytest.raises(CancelledError):
        cancelled.result()
    assert log.letters() == "b"


@pytest.mark.parametrize("is_queued_again", [False, True])
def test_request_after_its_deadline_fails_and_is_not_taken_up(log: Log, is_queued_again: bool) -> None:
    request = a_batch(log.feed, 0, 0, "a", deadline=time.monotonic() - 1)
    if is_queued_again:
        request.future.set_running_or_notify_cancel()

    assert not request.start()

    error = request.future.exception(0)
    assert has_code("deadline-passed")(error)
    assert (error.retryable, error.fields) == (True, {"retry_after": 1})


# Failures


@pytest.mark.parametrize(
    "error", [DatabaseUnavailable(reason="away", retry_after=1), OutcomeUnknown(reason="the line was cut")]
)
def test_database_failure_fails_the_whole_group_at_once(log: Log, error: Exception) -> None:
    def fail(number: int) -> None:
        if number == 1:
            raise error

    answers = log.queue(*[a_publish(log.feed, "a") for _ in range(4)], at_write=fail)

    assert [each.exception(300) for each in answers] == [error] * 4
    assert log.writes == 1
    assert read_next_offsets(log.submit(a_publish(log.feed, "a"))) == [{0: 1}]


def test_other_failure_has_the_requests_committed_one_by_one(log: Log) -> None:
    def fail(number: int) -> None:
        if number in (1, 3):  # The group, and the second of its requests.
            raise ZeroDivisionError

    answers = log.queue(*[a_publish(log.feed, letter) for letter in "abcd"], at_write=fail)

    assert isinstance(answers.pop(1).exception(300), ZeroDivisionError)
    assert read_next_offsets(answers) == [{0: 1}, {0: 2}, {0: 3}]
    assert (log.letters(), log.writes) == ("acd", 1 + 4)


def test_request_inside_the_callers_transaction_is_refused_alone(log: Log) -> None:
    def refuse(_number: int) -> None:
        if not log.forwarding.patience[-1]:
            raise WrongTransaction.of("inside-transaction")

    answers = log.queue(*[a_publish(log.feed, letter, direct=letter == "b") for letter in "abc"], at_write=refuse)

    assert has_code("inside-transaction")(answers.pop(1).exception(300))
    assert read_next_offsets(answers) == [{0: 1}, {0: 2}]
    assert log.forwarding.patience == [True, False, True]


# Event types that change while a request is queued


def grow(store: Store) -> None:
    """Give the event type another partition."""
    definition = an_event_type(NAME, partition_count=2, partition_strategy="user_defined")
    with store.write() as tx:
        tx.registry.update(find_feed(store), EventType.parse(definition), START_AT)


@pytest.mark.parametrize("change", [raise_epochs, grow], ids=["restored", "grown"])
def test_request_is_prepared_again_after_its_event_type_has_changed(
    log: Log, store: Store, change: Callable[[Store], None]
) -> None:
    answers = log.queue(a_publish(log.feed, "ab"), at_write=lambda number: change(store) if number == 1 else None)

    assert read_next_offsets(answers) == [{0: 2}]
    assert (published := answers[0].result()) and published.feed == find_feed(store) != log.feed


def test_request_that_no_longer_fits_is_refused_by_line_and_the_others_are_stored(log: Log, store: Store) -> None:
    feed = create_feed(store, "another", partition_count=2)
    events = [a_new_event(partition=0), a_new_event(partition=1)]
    unfit = PublishRequest("another", NewEvents(events, lines=[3, 8]), prepare_events(feed, *events))

    kept, refused = log.queue(
        a_publish(log.feed, "a"),
        unfit,
        at_write=lambda number: recreate_feed(store, "another") if number == 1 else None,
    )

    assert read_next_offsets([kept]) == [{0: 1}]
    error = refused.exception(300)
    assert isinstance(error, InvalidEvent) and (error.code, error.line) == ("partition-refused", 8)


def test_request_for_an_event_type_that_keeps_changing_is_unavailable(log: Log, store: Store) -> None:
    [answer] = log.queue(a_publish(log.feed, "a"), at_write=lambda _number: raise_epochs(store))

    error = answer.exception(300)
    assert isinstance(error, Unavailable) and "keeps changing" in error.detail
    log.forwarding.at_write = lambda _number: None
    assert read_next_offsets(log.submit(a_publish(find_feed(store), "b"))) == [{0: 1}]
    assert log.letters() == "b"


# Stopping


def test_stop_stores_queued_requests_and_refuses_later_ones(log: Log) -> None:
    answers = log.queue(*[a_publish(log.feed, "abcd") for _ in range(3)])

    assert log.committer.stop()

    assert read_next_offsets(answers) == [{0: 4}, {0: 8}, {0: 12}]
    with pytest.raises(HubUnavailable, check=has_code("hub-stopped")):
        log.submit(a_publish(log.feed, "e"))


def test_committer_without_requests_stops_at_once(log: Log) -> None:
    assert log.committer.stop(timeout=0)
    assert log.committer.stop()
    with pytest.raises(HubUnavailable, check=has_code("hub-stopped")):
        log.submit(PublishRequest("nobody.s"))


def test_stop_with_a_stuck_database_fails_all_requests_and_stores_none_of_them(log: Log) -> None:
    gate = log.forwarding.at_write = Gate()
    stuck = log.submit(a_publish(log.feed, "a"))
    gate.await_write()
    behind = log.submit(a_publish(log.feed, "b"))

    assert not log.committer.stop(timeout=0)

    assert all(has_code("hub-stopped")(each.exception(0)) for each in stuck + behind)
    gate.open()
    assert log.committer.stop()
    assert log.letters() == ""
