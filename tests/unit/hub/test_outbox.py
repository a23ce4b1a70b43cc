from contextlib import suppress

import pytest

from penstock.hub.outbox import RowGoneError, reject, take
from penstock.storage import Store
from penstock.storage.outbox import RejectedRow
from penstock.storage.store import Tx
from penstock.testing.clock import VirtualClock
from tests.unit.hub.feeds import NAME, created, into_outbox


@pytest.fixture(autouse=True)
def feed(store: Store) -> None:
    created(store)


def data(tx: Tx, clock: VirtualClock, names: list[str], **limits: int) -> list[list[bytes]]:
    """Take and return the data of each batch."""
    moved = take(tx, names, clock, **limits)
    return [[row[3] for rows in batch.rows.values() for row in rows] for batch in moved.batches]


def rejected(store: Store) -> list[RejectedRow]:
    with store.read() as tx:
        return list(tx.rejected.list(100, newest=False))


def test_nothing_is_taken_from_an_empty_outbox(store: Store, clock: VirtualClock) -> None:
    with store.write() as tx:
        assert take(tx, [NAME, "unheard.of"], clock) == ([], None, [])


def test_rows_are_taken_as_one_batch_in_their_order(store: Store, clock: VirtualClock) -> None:
    into_outbox(store, [(NAME, f'{{"n":{n}}}') for n in range(3)])

    with store.write() as tx:
        assert data(tx, clock, [NAME]) == [[b'{"n":0}', b'{"n":1}', b'{"n":2}']]


def test_only_the_event_types_that_were_named_are_taken(store: Store, clock: VirtualClock) -> None:
    created(store, "another")
    into_outbox(store, [("another", "{}"), (NAME, "{}")])

    with store.write() as tx:
        moved = take(tx, [NAME], clock)
        assert [batch.feed.name for batch in moved.batches] == [NAME]
        assert tx.outbox.waiting(None) == ["another"]


def test_event_types_take_their_turn_by_name_so_that_locks_have_one_order(store: Store, clock: VirtualClock) -> None:
    for name in ("c", "a", "b"):
        created(store, name)
    into_outbox(store, [("c", "{}"), ("a", "{}"), ("b", "{}")])

    with store.write() as tx:
        assert [batch.feed.name for batch in take(tx, ["b", "c", "a"], clock).batches] == ["a", "b", "c"]


def test_what_had_to_be_left_is_told_with_where_it_ends(store: Store, clock: VirtualClock) -> None:
    into_outbox(store, [(NAME, f'{{"n":{n}}}') for n in range(5)])

    with store.write() as tx:
        first = take(tx, [NAME], clock, rows_max=3)
        second = take(tx, [NAME], clock, rows_max=3)

    assert first.left == (NAME, first.row_ids[-1], second.row_ids[-1])
    assert (len(first.row_ids), len(second.row_ids), second.left) == (3, 2, None)


def test_as_much_as_may_be_taken_leaves_nothing_where_nothing_more_waits(store: Store, clock: VirtualClock) -> None:
    into_outbox(store, [(NAME, "{}")] * 3)

    with store.write() as tx:
        assert take(tx, [NAME], clock, rows_max=3).left is None


def test_who_comes_after_one_that_has_filled_the_transaction_is_still_looked_at(
    store: Store, clock: VirtualClock
) -> None:
    """Or nobody would know that more waits, and a publish would come before it."""
    created(store, "other")
    created(store, "zebra")
    into_outbox(store, [(NAME, "{}")] * 3 + [("other", "{}")] * 2 + [("zebra", "{}")])

    with store.write() as tx:
        moved = take(tx, [NAME, "other", "zebra"], clock, rows_max=3)

    assert moved.left is not None
    with store.read() as tx:
        assert moved.left.name in tx.outbox.waiting(None)


def test_one_row_that_cannot_be_published_is_put_aside_and_the_others_go_on(store: Store, clock: VirtualClock) -> None:
    into_outbox(store, [(NAME, '{"n":0}'), (NAME, "[]"), (NAME, '{"n":2}')])
    clock.advance(seconds=5)

    with store.write() as tx:
        moved = data(tx, clock, [NAME])

    assert [each for batch in moved for each in batch] == [b'{"n":0}', b'{"n":2}']
    (row,) = rejected(store)
    assert (row.data, row.rejected_at[:19].replace(" ", "T")) == ("[]", "2023-11-14T22:13:25")


def test_the_reason_speaks_of_the_row_and_of_no_line(store: Store, clock: VirtualClock) -> None:
    into_outbox(store, [(NAME, "[]"), (NAME, "{"), (NAME, '{"x":"' + "x" * 999_000 + '"}')])

    with store.write() as tx:
        take(tx, [NAME], clock)

    first, second, third = (row.reason for row in rejected(store))
    assert first == "an event is a JSON object, this is an array"
    assert second.startswith("not valid JSON")
    assert "999008" in third


def test_row_whose_line_would_be_longer_than_its_event_type_allows_is_put_aside(
    store: Store, clock: VirtualClock
) -> None:
    created(store, "short", max_event_bytes=300)
    into_outbox(store, [("short", "{}"), ("short", '{"x":"' + "x" * 300 + '"}')])

    with store.write() as tx:
        assert data(tx, clock, ["short"]) == [[b"{}"]]
    (row,) = rejected(store)
    assert "max_event_bytes" in row.reason


def test_rows_of_an_event_type_that_does_not_exist_are_put_aside_all_together(
    store: Store, clock: VirtualClock
) -> None:
    into_outbox(store, [("unheard.of", "{}")] * 3)

    with store.write() as tx:
        moved = take(tx, ["unheard.of"], clock)

    assert (moved.batches, moved.left, len(moved.row_ids)) == ([], None, 3)
    assert ["unheard.of" in row.reason for row in rejected(store)] == [True] * 3


def first_row(store: Store, clock: VirtualClock) -> int:
    """Return the id of the first row that waits, and leave it there."""
    with suppress(ZeroDivisionError), store.write() as tx:
        (row_id,) = take(tx, [NAME], clock, rows_max=1).row_ids
        raise ZeroDivisionError
    return row_id


class TestRejecting:
    def test_the_first_that_waits_is_put_aside_with_the_reason(self, store: Store, clock: VirtualClock) -> None:
        into_outbox(store, [(NAME, '{"n":0}'), (NAME, '{"n":1}')])
        row_id = first_row(store, clock)

        with store.write() as tx:
            reject(tx, NAME, row_id, "the log refused it", clock)

        assert [(row.data, row.reason) for row in rejected(store)] == [('{"n":0}', "the log refused it")]
        with store.write() as tx:
            assert data(tx, clock, [NAME]) == [[b'{"n":1}']]

    @pytest.mark.parametrize("others", [0, 1])
    def test_one_that_is_no_longer_the_first_was_moved_by_another_hub(
        self, store: Store, clock: VirtualClock, others: int
    ) -> None:
        into_outbox(store, [(NAME, "{}")] * (1 + others))
        with store.write() as tx:  # Another hub.
            (row_id,) = take(tx, [NAME], clock, rows_max=1).row_ids

        with pytest.raises(RowGoneError), store.write() as tx:
            reject(tx, NAME, row_id, "the log refused it", clock)

        assert rejected(store) == []
        with store.read() as tx:
            assert len(tx.outbox.waiting([NAME])) == others
