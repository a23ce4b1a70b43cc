"""The outbox: rows that services have committed go into the log before later publishes, and before reads."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from penstock.core.log.cursor import FIRST
from penstock.errors import DatabaseUnavailable, HubUnavailable, OutcomeUnknown
from penstock.hub import committer as commit
from penstock.hub.committer import PublishRequest
from penstock.hub.hub import Hub
from penstock.hub.log import outbox
from penstock.hub.log.log import make_unsettled_error
from penstock.hub.log.outbox import RowGoneError, reject_row, take_rows
from penstock.hub.log.read import WantedPartition
from penstock.storage import Store, open_store
from penstock.storage.log.events import KindFilter
from penstock.storage.log.outbox import RejectedRow
from penstock.storage.store import Tx
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_new_event, an_event_type
from tests.failing import has_code
from tests.reading import open_settled
from tests.unit.hub.committing import GROUP_EVENTS_MAX, Log, read_next_offsets
from tests.unit.hub.feeds import NAME, create_feed, into_outbox
from tests.unit.hub.forwarding import ForwardingStore, Gate
from tests.unit.hub.numbering import a_publish

ROWS = [(NAME, f'{{"n":"{letter}"}}') for letter in "uvwx"]
"""One more than fit into a transaction of `small_moves`."""


@pytest.fixture
def small_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a transaction move three rows."""
    monkeypatch.setattr(outbox, "MOVE_BYTES", 3 * len(ROWS[0][1]))


def read_rejected(store: Store) -> list[RejectedRow]:
    with store.read() as tx:
        return list(tx.outbox.list_rejected(100, newest=False))


# Before a publish


def test_waiting_rows_go_before_a_publish_and_do_not_count_in_its_answer(log: Log) -> None:
    into_outbox(log.store, ROWS[:1])

    assert read_next_offsets(log.queue(a_publish(log.feed, "a"), PublishRequest(NAME))) == [{0: 2}, None]
    assert log.letters() == "ua"


@pytest.mark.usefixtures("small_moves")
def test_publish_waits_for_all_transactions_of_its_outbox(log: Log) -> None:
    other = create_feed(log.store, "another")
    into_outbox(log.store, ROWS)

    answers = log.queue(a_publish(log.feed, "a"), a_publish(other, "a"), a_publish(log.feed, "b"))

    assert read_next_offsets(answers) == [{0: 5}, {0: 1}, {0: 6}]
    assert log.letters() == "uvwxab"


@pytest.mark.usefixtures("small_moves")
def test_publish_does_not_wait_for_the_outbox_of_another_event_type(log: Log) -> None:
    other = create_feed(log.store, "another")
    [mine], [others] = log.feed.partition_ids, other.partition_ids
    into_outbox(log.store, ROWS)

    answers = log.queue(*[a_publish(feed, "a" * GROUP_EVENTS_MAX) for feed in (log.feed, other, log.feed, other)])

    assert read_next_offsets(answers) == [{0: 9}, {0: 5}, {0: 14}, {0: 10}]
    assert log.appended == [{}, {mine: 3}, {others: 5}, {others: 10}, {mine: 9}, {mine: 14}]


@pytest.mark.usefixtures("small_moves")
def test_publish_behind_a_backlog_fails_after_its_time_and_moved_rows_stay_moved(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "MOVE_TIMEOUT", -1.0)
    into_outbox(log.store, ROWS)

    [answer] = log.submit(a_publish(log.feed, "a"))

    assert has_code("outbox-backlog")(answer.exception(300))
    assert log.letters() == "uvw"
    assert read_next_offsets(log.submit(a_publish(log.feed, "b"))) == [{0: 5}]


@pytest.mark.usefixtures("small_moves")
def test_publish_behind_a_backlog_is_not_stored_after_the_stop_has_failed_it(log: Log) -> None:
    into_outbox(log.store, ROWS)
    committed = Gate()
    log.committer = log.make_committer(lambda _offsets: committed(1))
    [answer] = log.submit(a_publish(log.feed, "a"))
    committed.await_write()  # The outbox has filled the transaction: the request is to wait for the next one.

    assert not log.committer.stop(timeout=0)

    assert isinstance(answer.exception(0), OutcomeUnknown)
    committed.open()
    assert log.committer.stop()
    assert log.letters() == "uvw"


def test_rows_that_the_log_refuses_are_rejected_and_the_others_moved_in_few_transactions(log: Log) -> None:
    with closing(sqlite3.connect(log.store.url.removeprefix("sqlite:///"))) as service:
        service.execute(
            "CREATE TRIGGER refusing BEFORE INSERT ON penstock_event WHEN NEW.data LIKE '%poison%' "
            "BEGIN SELECT RAISE(ABORT, 'poison'); END"
        )
    rows = [f'{{"n":{n}}}' for n in range(500)]
    rows[200] = rows[201] = rows[499] = '{"n":"poison"}'
    into_outbox(log.store, [(NAME, row) for row in rows])

    read_next_offsets(log.submit(a_publish(log.feed, "a")))

    assert log.lines() == [row for row in rows if "poison" not in row] + ['{"n":"a"}']
    assert [row.reason for row in read_rejected(log.store)] == ["the log refused it: poison"] * 3
    assert log.writes < 80


# Taking rows out of it


@pytest.fixture
def feed(store: Store) -> None:
    create_feed(store)


def take_data(tx: Tx, clock: VirtualClock, names: list[str], **limits: int) -> list[list[bytes]]:
    """Take rows and return the data of each batch."""
    moved = take_rows(tx, names, clock, **limits)
    return [[row[3] for rows in batch.rows.values() for row in rows] for batch in moved.batches]


@pytest.mark.usefixtures("feed")
def test_rows_of_the_named_event_types_are_taken_in_their_order(store: Store, clock: VirtualClock) -> None:
    for name in ("c", "a", "b"):
        create_feed(store, name)
    with store.write() as tx:
        assert take_rows(tx, ["a", "unheard.of"], clock) == ([], None, [])
    into_outbox(store, [("c", "{}"), ("a", '{"n":0}'), (NAME, "{}"), ("b", "{}"), ("a", '{"n":1}')])

    with store.write() as tx:
        moved = take_data(tx, clock, ["b", "c", "a"])
        assert moved == [[b'{"n":0}', b'{"n":1}'], [b"{}"], [b"{}"]], "by name, so that locks have one order"
        assert tx.outbox.find_waiting(None) == [NAME]


@pytest.mark.usefixtures("feed")
def test_limited_take_returns_the_row_that_it_ended_with_and_the_last_one(store: Store, clock: VirtualClock) -> None:
    into_outbox(store, [(NAME, f'{{"n":{n}}}') for n in range(6)])

    with store.write() as tx:
        first, second = (take_rows(tx, [NAME], clock, rows_max=3) for _ in range(2))

    assert first.left == (NAME, first.row_ids[-1], second.row_ids[-1])
    assert (len(first.row_ids), len(second.row_ids), second.left) == (3, 3, None)


@pytest.mark.usefixtures("feed")
def test_event_type_behind_a_full_transaction_is_still_known_to_wait(store: Store, clock: VirtualClock) -> None:
    """Otherwise a publish would come before its rows."""
    for name in ("other", "zebra"):
        create_feed(store, name)
    into_outbox(store, [(NAME, "{}")] * 3 + [("other", "{}")] * 2 + [("zebra", "{}")])

    with store.write() as tx:
        moved = take_rows(tx, [NAME, "other", "zebra"], clock, rows_max=3)

    assert moved.left is not None
    with store.read() as tx:
        assert moved.left.name in tx.outbox.find_waiting(None)


def test_unpublishable_rows_are_rejected_with_a_reason_and_the_others_taken(store: Store, clock: VirtualClock) -> None:
    create_feed(store, max_event_bytes=300)
    long = '{"x":"' + "x" * 300 + '"}'
    into_outbox(store, [(NAME, data) for data in ('{"n":0}', "[]", "{", long, '{"n":2}')])
    clock.advance(seconds=5)

    with store.write() as tx:
        taken = take_data(tx, clock, [NAME])

    assert [each for batch in taken for each in batch] == [b'{"n":0}', b'{"n":2}']
    rejected = read_rejected(store)
    assert [row.data for row in rejected] == ["[]", "{", long]
    assert rejected[0].rejected_at[:19].replace(" ", "T") == "2023-11-14T22:13:25"
    array, malformed, large = (row.reason for row in rejected)
    assert array == "an event is a JSON object, this is an array"
    assert malformed.startswith("not valid JSON")
    assert "max_event_bytes" in large


def test_rows_of_an_unknown_event_type_are_all_rejected(store: Store, clock: VirtualClock) -> None:
    into_outbox(store, [("unheard.of", "{}")] * 3)

    with store.write() as tx:
        moved = take_rows(tx, ["unheard.of"], clock)

    assert (moved.batches, moved.left, len(moved.row_ids)) == ([], None, 3)
    assert ["unheard.of" in row.reason for row in read_rejected(store)] == [True] * 3


@pytest.mark.usefixtures("feed")
def test_first_waiting_row_is_rejected_with_its_reason(store: Store, clock: VirtualClock) -> None:
    into_outbox(store, ROWS[:2])
    with suppress(ZeroDivisionError), store.write() as tx:  # It stays where it is.
        [row_id] = take_rows(tx, [NAME], clock, rows_max=1).row_ids
        raise ZeroDivisionError

    with store.write() as tx:
        reject_row(tx, NAME, row_id, "the log refused it", clock)

    assert [(row.data, row.reason) for row in read_rejected(store)] == [(ROWS[0][1], "the log refused it")]
    with store.write() as tx:
        assert take_data(tx, clock, [NAME]) == [[ROWS[1][1].encode()]]


@pytest.mark.usefixtures("feed")
@pytest.mark.parametrize("others", [0, 1])
def test_row_that_another_hub_has_moved_is_not_rejected(store: Store, clock: VirtualClock, others: int) -> None:
    into_outbox(store, [(NAME, "{}")] * (1 + others))
    with store.write() as tx:  # Another hub.
        [row_id] = take_rows(tx, [NAME], clock, rows_max=1).row_ids

    with pytest.raises(RowGoneError), store.write() as tx:
        reject_row(tx, NAME, row_id, "the log refused it", clock)

    assert read_rejected(store) == []
    with store.read() as tx:
        assert len(tx.outbox.find_waiting([NAME])) == others


# Before a read


PAGE = (NAME, None, [WantedPartition("cursor0", 0, FIRST)])


@pytest.fixture
def hub(forwarding: ForwardingStore) -> Iterator[Hub]:
    hub = Hub(forwarding)
    hub.registry.create(an_event_type(NAME))
    yield hub
    hub.stop()


def test_settle_moves_waiting_rows_and_returns_if_there_were_any(hub: Hub) -> None:
    assert (hub.log.has_waiting(NAME), hub.log.settle(NAME)) == (False, False)

    into_outbox(hub.store, ROWS)

    assert (hub.log.has_waiting(NAME), hub.log.settle(NAME), hub.log.has_waiting(NAME)) == (True, True, False)


def test_read_writes_nothing_while_the_outbox_is_empty(hub: Hub, forwarding: ForwardingStore) -> None:
    writes = forwarding.writes

    open_settled(hub, *PAGE, 10)
    hub.log.find_heads(NAME)

    assert forwarding.writes == writes


def test_page_that_reaches_the_head_moves_the_outbox_and_no_other(hub: Hub) -> None:
    hub.log.publish(NAME, [a_new_event() for _ in range(10)])
    into_outbox(hub.store, ROWS[:1])

    assert hub.log.reader.open(*PAGE, 10).reaches_head
    before = open_settled(hub, *PAGE, 9)
    assert hub.log.has_waiting(NAME)
    after = open_settled(hub, *PAGE, 10)

    assert not hub.log.has_waiting(NAME)
    assert (before.tracks[0].stops, after.tracks[0].stops) == ({0: 10}, {0: 11})


def test_page_far_from_the_known_end_moves_the_outbox_if_its_filter_may_take_it_there(hub: Hub) -> None:
    hub.log.publish(NAME, [a_new_event() for _ in range(50)])
    begin = open_settled(hub, *PAGE, 10).tracks[0].cursor
    into_outbox(hub.store, ROWS[:1])
    paid = KindFilter(frozenset({"paid"}), skip=False, default=NAME)

    plain = open_settled(hub, NAME, 1, [WantedPartition("cursor0", 0, begin)], 10)
    assert (plain.tracks[0].stops, hub.log.has_waiting(NAME)) == ({0: 50}, True)
    filtered = open_settled(hub, NAME, 1, [WantedPartition("cursor0", 0, begin)], 10, kinds=paid)

    assert (filtered.tracks[0].stops, hub.log.has_waiting(NAME)) == ({0: 51}, False)


def test_heads_include_the_outbox(hub: Hub) -> None:
    into_outbox(hub.store, ROWS)

    assert [head.next_offset for head in hub.log.find_heads(NAME)[1].values()] == [4]


def test_rows_that_another_hub_moves_while_a_page_is_opened_are_in_the_page(
    hub: Hub, forwarding: ForwardingStore
) -> None:
    other = Hub(open_store(forwarding.url))
    into_outbox(hub.store, ROWS[:1])
    before = forwarding.reads

    def move(number: int) -> None:
        if number > before + 1:
            other.log.settle(NAME)

    forwarding.at_read = move

    assert [list(track.quotas.values()) for track in open_settled(hub, *PAGE, 10).tracks] == [[1]]
    other.stop()


def test_read_that_could_not_move_the_outbox_can_be_repeated() -> None:
    late = make_unsettled_error(NAME, TimeoutError())
    unknown = make_unsettled_error(NAME, OutcomeUnknown(reason="the line was cut"))

    assert isinstance(late, HubUnavailable) and late.code == "outbox-backlog" and late.event_type == NAME
    assert isinstance(unknown, DatabaseUnavailable) and unknown.reason == "the line was cut"
    assert late.retryable and unknown.retryable
