from penstock.hub.append import append_rows, is_stale, lock_heads
from penstock.storage import Store
from penstock.storage.store import Head
from penstock.testing.clock import START_AT
from penstock.testing.factories import a_new_event
from tests.unit.hub.feeds import a_feed, created, heads_of, ready, stored


def test_only_the_heads_of_what_is_appended_are_locked(store: Store) -> None:
    feed = created(store, partition_count=3)
    batches = [None, ready(feed, a_new_event(partition=2)), ready(feed, a_new_event(partition=0)), None]

    with store.write() as tx:
        assert lock_heads(tx, batches).keys() == {feed.partition_ids[0], feed.partition_ids[2]}
        assert lock_heads(tx, [None]) == {}


def test_what_was_prepared_for_another_revision_is_stale() -> None:
    feed = a_feed(2, partition_strategy="user_defined")
    prepared = ready(feed, a_new_event(partition=0), a_new_event(partition=1))
    heads = heads_of(feed, 0, 0)

    assert not is_stale(prepared, heads)
    assert is_stale(prepared, {100: heads[100], 101: heads[101]._replace(revision=2)})
    assert is_stale(prepared, {100: heads[100]}), "its other partition is gone"


def test_what_has_no_event_is_never_stale() -> None:
    assert not is_stale(ready(a_feed()), {})


def test_batches_go_in_one_after_the_other_and_are_answered_by_partition_number(store: Store) -> None:
    feed = created(store, partition_count=2)
    first = ready(feed, a_new_event({"n": 1}, partition=1), a_new_event({"n": 2}, partition=1))
    second = ready(feed, a_new_event({"n": 3}, partition=1), a_new_event({"n": 4}, partition=0))

    with store.write() as tx:
        heads = lock_heads(tx, [first, second])
        told = append_rows(tx, [first, None, second, ready(feed)], heads, START_AT)

    assert [each and each.next_offsets for each in told] == [{1: 2}, None, {1: 3, 0: 1}, {}]
    assert stored(store, feed.partition_ids[1]) == ['{"n":1}', '{"n":2}', '{"n":3}']
    assert stored(store, feed.partition_ids[0]) == ['{"n":4}']


def test_the_heads_that_were_handed_in_move_on(store: Store) -> None:
    feed = created(store)
    partition_id = feed.partition_ids[0]

    with store.write() as tx:
        heads = {partition_id: Head(feed.revision, 0, 0, 0)}
        append_rows(tx, [ready(feed, a_new_event(partition=0))], heads, START_AT)
        assert heads == tx.events.heads([partition_id]) == {partition_id: Head(feed.revision, 0, 1, START_AT)}


def test_a_partition_whose_last_event_lies_ahead_of_the_clock_keeps_its_time(store: Store) -> None:
    feed = created(store, partition_count=2)
    ahead, behind = feed.partition_ids
    batch = ready(feed, a_new_event(partition=0), a_new_event(partition=1))
    heads = {ahead: Head(feed.revision, 0, 0, START_AT + 5), behind: Head(feed.revision, 0, 0, START_AT - 5)}

    with store.write() as tx:
        append_rows(tx, [batch], heads, START_AT)
        found = tx.events.heads(feed.partition_ids)

    assert (found[ahead].received_at, found[behind].received_at) == (START_AT + 5, START_AT)


def test_nothing_to_append_is_answered_with_nothing(store: Store) -> None:
    with store.write() as tx:
        assert append_rows(tx, [None], {}, START_AT) == [None]
