import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import closing
from typing import Any

import pytest

from penstock.core.event import NewEvent
from penstock.core.event_type import EventType
from penstock.core.producer import Range
from penstock.errors import (
    DatabaseUnavailable,
    DeadlinePassed,
    HubStopped,
    InsideTransaction,
    InvalidEvent,
    OutboxBacklog,
    OutcomeUnknown,
    PartitionNotFound,
    PartitionRefused,
    SequenceGap,
    Unavailable,
)
from penstock.hub import commit
from penstock.hub.append import Published
from penstock.hub.commit import Committer, Request
from penstock.hub.outbox import MOVE_ROWS
from penstock.hub.publish import Handed
from penstock.hub.registry import Registry
from penstock.hub.stamped import Produced
from penstock.storage import Store
from penstock.testing.clock import START_AT, VirtualClock
from penstock.testing.factories import a_new_event
from tests.unit.hub.feeds import NAME, created, found, into_outbox, ready, stored
from tests.unit.hub.forwarding import ForwardingStore, Gate
from tests.unit.hub.numbering import UNFIT, known, numbered, plain, settle

GROUP_EVENTS_MAX = 5
Told = Future[Published | None]


@pytest.fixture
def appended() -> list[dict[int, int]]:
    """What the watch is told."""
    return []


@pytest.fixture
def committer(forwarding: ForwardingStore, clock: VirtualClock, appended: list[dict[int, int]]) -> Iterator[Committer]:
    created(forwarding)
    forwarding.patience.clear()
    committer = Committer(
        forwarding, clock, Registry(forwarding, clock).load, appended.append, group_events_max=GROUP_EVENTS_MAX
    )
    yield committer
    committer.stop()


def events(count: int, name: str = "") -> list[NewEvent]:
    return [a_new_event({"n": f"{name}{n}"}, partition=0) for n in range(count)]


def request(
    store: Store, given: list[NewEvent], name: str = NAME, lines: list[int] | None = None, **others: Any
) -> Request:
    return Request(name, Handed(given, lines), ready(found(store, name), *given), **others)


def queued(
    committer: Committer,
    forwarding: ForwardingStore,
    requests: list[Request],
    then: Callable[[int], None] | None = None,
) -> list[Told]:
    """Submit *requests* while a first one is being committed, so that they queue; *then* is told of later writes."""
    gate = Gate()

    def at_write(number: int) -> None:
        gate(number)
        if number > 1 and then:
            then(number - 1)

    forwarding.at_write = at_write
    committer.submit(Request("nobody.s"))
    gate.await_write()
    told = [committer.submit(each) for each in requests]
    gate.open()
    return told


def lines(store: Store) -> list[str]:
    return stored(store, found(store).partition_ids[0])


def offsets(told: list[Told]) -> list[Any]:
    return [(published := each.result(300)) and published.next_offsets for each in told]


class TestGroups:
    def test_what_queues_meanwhile_shares_transactions_and_no_request_is_divided(
        self, committer: Committer, forwarding: ForwardingStore, store: Store, appended: list[dict[int, int]]
    ) -> None:
        sizes = [3, 1, 3, 9, 1]

        told = queued(committer, forwarding, [request(store, events(size)) for size in sizes])

        assert offsets(told) == [{0: 3}, {0: 4}, {0: 7}, {0: 16}, {0: 17}]
        assert forwarding.writes == 1 + 3
        partition_id = found(store).partition_ids[0]
        assert appended == [{}, {partition_id: 7}, {partition_id: 16}, {partition_id: 17}]

    def test_events_lie_in_the_order_in_which_they_were_submitted(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        offsets(queued(committer, forwarding, [request(store, events(1, name)) for name in "abcdefgh"]))

        assert lines(store) == [f'{{"n":"{name}0"}}' for name in "abcdefgh"]

    def test_a_request_that_was_given_up_is_not_carried_out(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        gate = Gate()
        forwarding.at_write = gate
        committer.submit(Request("nobody.s"))
        gate.await_write()
        given_up, kept = (committer.submit(request(store, events(1, name))) for name in "ab")
        assert given_up.cancel()
        gate.open()

        assert offsets([kept]) == [{0: 1}]
        with pytest.raises(CancelledError):
            given_up.result()
        assert lines(store) == ['{"n":"b0"}']

    def test_a_request_without_events_is_answered_with_nothing(self, committer: Committer) -> None:
        assert committer.submit(Request("nobody.s")).result(60) is None


class TestFailures:
    @pytest.mark.parametrize(
        "error", [DatabaseUnavailable(reason="away", retry_after=1), OutcomeUnknown(reason="the line was cut")]
    )
    def test_what_concerns_the_database_is_told_to_the_whole_group_at_once(
        self, committer: Committer, forwarding: ForwardingStore, store: Store, error: Exception
    ) -> None:
        def fail(number: int) -> None:
            if number == 1:
                raise error

        told = queued(committer, forwarding, [request(store, events(1)) for _ in range(4)], fail)

        assert [each.exception(60) for each in told] == [error] * 4
        assert forwarding.writes == 1 + 1
        assert committer.submit(request(store, events(1))).result(300)

    def test_any_other_failure_has_the_requests_tried_one_by_one(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        def fail(number: int) -> None:
            if number in (1, 3):  # The group, and of its requests the second.
                raise ZeroDivisionError

        told = queued(committer, forwarding, [request(store, events(1, name)) for name in "abcd"], fail)

        assert isinstance(told[1].exception(60), ZeroDivisionError)
        assert offsets([told[0], *told[2:]]) == [{0: 1}, {0: 2}, {0: 3}]
        assert lines(store) == ['{"n":"a0"}', '{"n":"c0"}', '{"n":"d0"}']
        assert forwarding.writes == 1 + 1 + 4

    def test_who_may_hold_the_database_makes_the_group_impatient_and_is_refused_alone(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        def refuse(_number: int) -> None:
            if not forwarding.patience[-1]:
                raise InsideTransaction

        requests = [request(store, events(1, name), direct=name == "b") for name in "abc"]
        first, direct, last = queued(committer, forwarding, requests, refuse)

        assert isinstance(direct.exception(60), InsideTransaction)
        assert offsets([first, last]) == [{0: 1}, {0: 2}]
        assert forwarding.patience == [True, False, True]


class TestStale:
    def test_what_was_prepared_for_a_feed_that_has_changed_is_prepared_again(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        def change(number: int) -> None:
            if number == 1:
                self.change(store)

        before = found(store).epoch
        (told,) = queued(committer, forwarding, [request(store, events(2))], change)

        published = told.result(300)
        assert published and published.next_offsets == {0: 2}
        assert published.feed.epoch > before

    def test_what_no_longer_fits_is_told_so_by_its_own_lines_and_the_others_go_on(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        created(store, "another", partition_count=2)
        fitting = request(store, events(1))
        unfit = request(store, [a_new_event(partition=0), a_new_event(partition=1)], "another", lines=[3, 8])

        def shrink(number: int) -> None:
            if number == 1:
                with store.write() as tx:
                    tx.feeds.delete("another")
                created(store, "another", partition_count=1)

        kept, refused = queued(committer, forwarding, [fitting, unfit], shrink)

        assert offsets([kept]) == [{0: 1}]
        error = refused.exception(60)
        assert isinstance(error, PartitionRefused) and error.fields["line"] == 8

    def test_a_feed_that_changes_all_the_time_is_told_as_something_that_passes(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        (told,) = queued(committer, forwarding, [request(store, events(1))], lambda _number: self.change(store))

        error = told.exception(60)
        assert isinstance(error, Unavailable) and "keeps changing" in error.detail
        forwarding.at_write = lambda _number: None
        assert committer.submit(request(store, events(1))).result(300)
        assert len(lines(store)) == 1

    @staticmethod
    def change(store: Store) -> None:
        with store.write() as tx:
            tx.feeds.raise_epochs()


class TestNumbered:
    """Requests of idempotent producers."""

    def test_each_of_a_producer_is_decided_about_by_what_the_one_before_has_stored(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        feed = found(store)
        requests = [
            numbered(feed, 0, 0, "ab"),
            plain(feed, "p"),
            numbered(feed, 0, 0, "h", group="h"),
            numbered(feed, 0, 2, "c"),
            numbered(feed, 0, 1, "i", group="h"),
            numbered(feed, 0, 1, "i", group="h"),
            numbered(feed, 0, 3, "d"),
            numbered(feed, 0, 0, "abcd"),
        ]

        told = queued(committer, forwarding, requests)

        assert ranges(told[:1] + told[2:]) == [
            [Range(0, 1)], [Range(3, 3)], [Range(4, 4)], [Range(5, 5)], [Range(5, 5)], [Range(6, 6)],
            [Range(0, 1), Range(4, 4), Range(6, 6)],
        ]  # fmt: skip
        assert letters(store) == "abphcid"
        assert forwarding.writes == 1 + 4

    def test_a_refusal_harms_no_other(self, committer: Committer, forwarding: ForwardingStore, store: Store) -> None:
        feed = found(store)
        requests = [
            numbered(feed, 0, 7, "!", group="gap"),
            numbered(feed, 0, 0, "a"),
            numbered(feed, 0, 0, "!", group="unfit", fits=False),
            plain(feed, "p"),
            numbered(feed, 0, 0, "b", group="h"),
        ]

        gap, first, unfit, nobodys, last = queued(committer, forwarding, requests)

        assert isinstance(gap.exception(60), SequenceGap)
        assert unfit.exception(60) is UNFIT
        assert ranges([first, last]) == [[Range(0, 0)], [Range(2, 2)]]
        assert offsets([nobodys]) == [{0: 2}]
        assert (letters(store), forwarding.writes) == ("apb", 1 + 1)
        assert [known(store, feed, group) for group in ("gap", "unfit")] == [None, None]

    def test_one_that_is_unfit_by_now_is_told_where_it_is_stored_and_else_that_it_is_unfit(
        self, committer: Committer, store: Store
    ) -> None:
        feed = found(store)
        committer.submit(numbered(feed, 0, 0, "ab")).result(300)

        stored_already = committer.submit(numbered(feed, 0, 1, "b", fits=False)).result(300)
        with pytest.raises(InvalidEvent):
            committer.submit(numbered(feed, 0, 2, "c", fits=False)).result(300)

        assert stored_already and stored_already.produced == Produced("duplicate", 0, 1, 1, 2, [Range(1, 1)])
        assert letters(store) == "ab"

    @pytest.mark.parametrize("late", ["a", "b"])
    def test_one_whose_deadline_has_passed_is_not_begun_and_the_others_are(
        self, committer: Committer, forwarding: ForwardingStore, store: Store, late: str
    ) -> None:
        feed = found(store)
        requests = [numbered(feed, 0, 0, "!", group=late, deadline=time.monotonic() - 1)]
        requests += [numbered(feed, 0, 0, group, group=group, deadline=time.monotonic() + 60) for group in "ab"]

        passed, *told = queued(committer, forwarding, requests)

        assert isinstance(passed.exception(60), DeadlinePassed)
        assert ranges(told) == [[Range(0, 0)], [Range(1, 1)]]
        assert (letters(store), forwarding.writes) == ("ab", 1 + 1)

    def test_what_another_hub_has_stored_meanwhile_counts(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        feed = found(store)

        def store_elsewhere(number: int) -> None:
            if number == 1:
                settle(store, numbered(feed, 0, 0, "a"))

        told = queued(committer, forwarding, [numbered(feed, 0, 0, "a"), numbered(feed, 0, 1, "b")], store_elsewhere)

        assert ranges(told) == [[Range(0, 0)], [Range(1, 1)]]
        assert letters(store) == "ab"

    def test_a_stale_one_is_made_ready_again_with_its_numbers(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        feed = found(store)
        requests = [numbered(feed, 0, 0, "ab"), numbered(feed, 0, 2, "c"), numbered(feed, 0, 1, "bc")]

        told = queued(committer, forwarding, requests, lambda number: TestStale.change(store) if number == 1 else None)

        assert ranges(told) == [[Range(0, 1)], [Range(2, 2)], [Range(1, 2)]]
        assert (letters(store), forwarding.writes) == ("abc", 1 + 2 + 2 + 1)
        assert (published := told[0].result()) and published.feed.epoch > feed.epoch

    def test_where_the_event_type_has_become_stricter_only_what_is_new_is_held_to_it(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        feed = found(store)
        settle(store, numbered(feed, 0, 0, "a"))

        requests = [numbered(feed, 0, 0, "a"), numbered(feed, 0, 0, "h", group="h"), numbered(feed, 0, 1, "b")]
        again, *new = queued(
            committer, forwarding, requests, lambda number: self.tighten(store) if number == 1 else None
        )

        assert ranges([again]) == [[Range(0, 0)]]
        assert [type(each.exception(60)) for each in new] == [InvalidEvent, InvalidEvent]
        assert letters(store) == "a"

    def test_what_another_hub_has_stored_before_it_became_stricter_is_told_as_stored(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        feed = found(store)

        def meanwhile(number: int) -> None:
            if number == 1:
                self.tighten(store)
            elif number == 2:
                settle(store, numbered(feed, 0, 0, "a"))

        [told] = queued(committer, forwarding, [numbered(feed, 0, 0, "a")], meanwhile)

        assert ranges([told]) == [[Range(0, 0)]]
        assert letters(store) == "a"

    @staticmethod
    def tighten(store: Store) -> None:
        schema = '{"type":"object","properties":{"n":{"type":"integer"}}}'
        given = {"type": "json_schema", "schema": schema, "version": "2.0.0"}
        feed = found(store)
        with store.write() as tx:
            tx.feeds.update(feed, EventType.of(feed.event_type.definition | {"schema": given}, 1), START_AT)

    def test_in_an_event_type_that_was_created_again_nobody_has_been(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        feed = found(store)
        settle(store, numbered(feed, 0, 0, "ab"))

        def create_again(number: int) -> None:
            if number == 1:
                with store.write() as tx:
                    tx.feeds.delete(NAME)
                created(store)

        goes_on, begins = queued(
            committer, forwarding, [numbered(feed, 0, 2, "c"), numbered(feed, 0, 0, "h", group="h")], create_again
        )

        error = goes_on.exception(60)
        assert isinstance(error, SequenceGap)
        assert (error.fields["expected"], error.fields["committed"]) == (0, None)
        assert ranges([begins]) == [[Range(0, 0)]]
        assert letters(store) == "h"

    def test_those_of_a_partition_that_is_gone_are_told_so(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        feed = created(store, "another", partition_count=2)

        def shrink(number: int) -> None:
            if number == 1:
                with store.write() as tx:
                    tx.feeds.delete("another")
                created(store, "another", partition_count=1)

        gone, kept = queued(
            committer,
            forwarding,
            [numbered(feed, 0, 0, "a", partition=1), numbered(found(store), 0, 0, "b")],
            shrink,
        )

        assert isinstance(gone.exception(60), PartitionNotFound)
        assert ranges([kept]) == [[Range(0, 0)]]

    def test_their_order_is_kept_behind_an_outbox_that_takes_several_transactions(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        feed = found(store)
        into_outbox(store, [(NAME, "{}") for _ in range(MOVE_ROWS + 1)])

        told = queued(committer, forwarding, [numbered(feed, 0, n, letter) for n, letter in enumerate("abc")])

        assert ranges(told) == [[Range(at, at)] for at in range(MOVE_ROWS + 1, MOVE_ROWS + 4)]

    def test_one_that_was_told_is_not_stored_later(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        """Another's outbox fills up when it has been told, and then its partition comes again."""
        feed = created(store, "another", partition_count=2)

        def change(number: int) -> None:
            if number in (1, 3):
                with store.write() as tx:
                    tx.feeds.delete("another")
                created(store, "another", partition_count=2 if number == 3 else 1)
            elif number == 2:
                into_outbox(store, [(NAME, "{}") for _ in range(MOVE_ROWS + 1)])

        requests = [numbered(feed, 0, 0, "a", partition=1), plain(found(store), "p")]
        gone, kept = queued(committer, forwarding, requests, change)

        assert offsets([kept]) == [{0: MOVE_ROWS + 2}]
        assert isinstance(gone.exception(60), PartitionNotFound)
        assert stored(store, found(store, "another").partition_ids[-1]) == []

    def test_where_one_fails_the_others_keep_their_numbers(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        feed = found(store)

        def fail(number: int) -> None:
            if number in (1, 3):  # The group, and of its requests the second.
                raise ZeroDivisionError

        requests = [numbered(feed, 0, 0, group, group=group) for group in "abc"]
        told = queued(committer, forwarding, [*requests, numbered(feed, 0, 0, "b", group="b")], fail)

        assert isinstance(told[1].exception(60), ZeroDivisionError)
        assert ranges([told[0], *told[2:]]) == [[Range(0, 0)], [Range(1, 1)], [Range(2, 2)]]
        assert letters(store) == "acb"


def ranges(told: list[Told]) -> list[Any]:
    return [(published := each.result(300)) and published.produced and published.produced.ranges for each in told]


def letters(store: Store) -> str:
    return "".join(line[6] for line in lines(store))


class TestOutbox:
    def test_what_waits_in_it_goes_before_and_is_no_ones_answer(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        into_outbox(store, [(NAME, '{"n":"first"}')])

        told = queued(committer, forwarding, [request(store, events(1, "a")), Request(NAME)])

        assert offsets(told) == [{0: 2}, None]
        assert lines(store) == ['{"n":"first"}', '{"n":"a0"}']

    def test_however_many_transactions_it_takes(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        created(store, "another")
        into_outbox(store, [(NAME, f'{{"n":{n}}}') for n in range(MOVE_ROWS + 1)])

        requests = [
            request(store, events(1, "a")),
            request(store, events(1), "another"),
            request(store, events(1, "b")),
        ]
        first, other, second = queued(committer, forwarding, requests)

        assert offsets([first, second]) == [{0: MOVE_ROWS + 2}, {0: MOVE_ROWS + 3}]
        assert offsets([other]) == [{0: 1}]
        assert lines(store)[-3:] == [f'{{"n":{MOVE_ROWS}}}', '{"n":"a0"}', '{"n":"b0"}']

    def test_nobody_waits_for_another_event_types_and_those_who_wait_keep_their_order(
        self, committer: Committer, forwarding: ForwardingStore, store: Store, appended: list[dict[int, int]]
    ) -> None:
        mine, others = found(store).partition_ids[0], created(store, "another").partition_ids[0]
        into_outbox(store, [(NAME, "{}") for _ in range(MOVE_ROWS + 1)])
        names = [NAME, "another", NAME, "another"]

        told = queued(committer, forwarding, [request(store, events(GROUP_EVENTS_MAX), name) for name in names])

        assert offsets(told) == [{0: MOVE_ROWS + 6}, {0: 5}, {0: MOVE_ROWS + 11}, {0: 10}]
        assert appended == [
            {},
            {mine: MOVE_ROWS},
            {others: 5},
            {others: 10},
            {mine: MOVE_ROWS + 6},
            {mine: MOVE_ROWS + 11},
        ]

    def test_who_has_waited_for_it_too_long_is_told_so(
        self, committer: Committer, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(commit, "MOVE_SECONDS_MAX", -1.0)
        into_outbox(store, [(NAME, "{}") for _ in range(MOVE_ROWS + 1)])

        with pytest.raises(OutboxBacklog):
            committer.submit(request(store, events(1))).result(300)

        assert len(lines(store)) == MOVE_ROWS  # What was moved until then stays moved.
        assert committer.submit(request(store, events(1))).result(300)

    def test_a_row_that_the_log_refuses_is_put_aside_and_the_publish_behind_it_is_not(
        self, committer: Committer, store: Store
    ) -> None:
        with closing(sqlite3.connect(store.url.removeprefix("sqlite:///"))) as service:
            service.execute(
                "CREATE TRIGGER refusing BEFORE INSERT ON penstock_event WHEN NEW.data LIKE '%poison%' "
                "BEGIN SELECT RAISE(ABORT, 'poison'); END"
            )
        into_outbox(store, [(NAME, '{"n":1}'), (NAME, '{"n":"poison"}'), (NAME, '{"n":3}')])

        assert committer.submit(request(store, events(1, "a"))).result(300)

        assert lines(store) == ['{"n":1}', '{"n":3}', '{"n":"a0"}']
        with store.read() as tx:
            assert [row.reason for row in tx.rejected.list(9)] == ["the log refused it: poison"]

    def test_a_few_rows_that_the_log_refuses_do_not_have_all_the_others_moved_one_by_one(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        with closing(sqlite3.connect(store.url.removeprefix("sqlite:///"))) as service:
            service.execute(
                "CREATE TRIGGER refusing BEFORE INSERT ON penstock_event WHEN NEW.data LIKE '%poison%' "
                "BEGIN SELECT RAISE(ABORT, 'poison'); END"
            )
        rows = [f'{{"n":{n}}}' for n in range(2000)]
        rows[700] = rows[701] = rows[1999] = '{"n":"poison"}'
        into_outbox(store, [(NAME, row) for row in rows])

        assert committer.submit(request(store, events(1, "a"))).result(300)

        assert lines(store) == [row for row in rows if "poison" not in row] + ['{"n":"a0"}']
        with store.read() as tx:
            assert len(tx.rejected.list(9)) == 3
        assert forwarding.writes < 100


class TestStopping:
    def test_who_was_told_that_nobody_knows_is_not_taken_up_again(
        self, forwarding: ForwardingStore, clock: VirtualClock, store: Store
    ) -> None:
        created(store)
        into_outbox(store, [(NAME, "{}") for _ in range(MOVE_ROWS + 1)])
        committed = Gate()
        committer = Committer(
            forwarding,
            clock,
            Registry(forwarding, clock).load,
            lambda _offsets: committed(1),
            group_events_max=GROUP_EVENTS_MAX,
        )
        told = committer.submit(request(store, events(1)))
        committed.await_write()  # The transaction was filled by the outbox: the request is to wait for the next.

        assert not committer.stop(timeout_s=0)

        assert isinstance(told.exception(0), OutcomeUnknown)
        committed.open()
        assert committer.stop()
        assert len(lines(store)) == MOVE_ROWS

    def test_what_is_queued_is_stored_and_nothing_is_taken_after_that(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        told = queued(committer, forwarding, [request(store, events(4)) for _ in range(3)])

        committer.stop()

        assert offsets(told) == [{0: 4}, {0: 8}, {0: 12}]
        with pytest.raises(HubStopped):
            committer.submit(request(store, events(1)))

    def test_one_that_was_never_used_stops_at_once(self, committer: Committer) -> None:
        committer.stop(timeout_s=0)
        committer.stop()

        with pytest.raises(HubStopped):
            committer.submit(Request(NAME))

    def test_who_waits_behind_a_stuck_database_is_told_in_time_and_stored_by_nobody(
        self, committer: Committer, forwarding: ForwardingStore, store: Store
    ) -> None:
        gate = Gate()
        forwarding.at_write = gate
        stuck = committer.submit(request(store, events(1, "stuck")))
        gate.await_write()
        behind = committer.submit(request(store, events(1, "behind")))

        committer.stop(timeout_s=0)

        assert isinstance(behind.exception(0), HubStopped)
        assert isinstance(stuck.exception(0), HubStopped)
        gate.open()
        committer.stop()
        assert '{"n":"behind0"}' not in lines(store)
        assert lines(store) == []
