"""Poison events are searched for, and skipped, kept as dead letters or parked: see docs/decisions/parked-keys.md."""

import json
from contextlib import closing
from typing import Any

import pytest

from penstock.core.access import Caller, Sender
from penstock.core.events.event import NewEvent
from penstock.core.subscriptions.definition import PARK_AFTER, POLICY, SEND_COUNT
from penstock.errors import DatabaseUnavailable
from penstock.hub.admin.settings import Settings
from penstock.hub.subscriptions.commits import CursorCommit
from penstock.hub.subscriptions.dead_letters import DEAD_LETTERS
from penstock.storage import Store, open_store
from penstock.storage.groups import PositionChange
from penstock.testing.clock import START_AT
from tests.store_contract import database_at
from tests.store_contract.database import until_waiting
from tests.unit.hub.feeds import NAME, find_feed, read_data
from tests.unit.hub.forwarding import ForwardingStore, Gate, fail
from tests.unit.hub.subscribing import (
    P,
    Played,
    Q,
    an_end,
    deliver,
    open_stream,
    read_offsets,
    read_slots,
    subscribe,
    subscribed,
)

SKIP, KEEP, PARK = (
    {SEND_COUNT: "2", POLICY: "SKIP_EVENT"},
    {SEND_COUNT: "2", POLICY: "DEAD_LETTER_QUEUE"},
    {PARK_AFTER: "2"},
)
IN_VAIN = "it was sent 2 times one by one, and never committed"


def read_letters(store: Store) -> list[dict[str, Any]]:
    """Return the dead letters."""
    with store.read() as tx:
        feed = tx.registry.find(DEAD_LETTERS)
    lines = [] if feed is None else [each for number in feed.partition_ids for each in read_data(store, number)]
    return [json.loads(line) for line in lines]


def read_parked(hub: Played, sub: str) -> list[tuple[str | None, int, int, int]]:
    """Return key, first and last event and attempts of each parked key of the first partition."""
    parked = hub.sessions.snapshot(sub).parked
    return [(each.key, each.first, each.last, each.attempts) for each in parked if each.place == P]


def send_in_vain(hub: Played, sub: str, times: int = 1) -> list[list[str]]:
    """Open streams one after the other, which commit all but event 2, and leave; return what each is sent."""
    seen = []
    for _ in range(times):
        stream = hub.stream(sub, batch_limit=2, max_uncommitted=2, flush_timeout=0.001)
        lines: list[str] = []
        while lines[-1:] != ["failed"]:
            sent = deliver(stream)
            hub.now += 0.002
            batches = [each.partition(" Stream started")[0] for each in sent + deliver(stream) if "[]" not in each]
            lines += batches or ["failed"]
            for each in batches:
                position, _, events = each[2:-1].partition("[")
                if "2" in events.split():
                    lines.append("failed")
                    break
                hub.commits.submit(sub, stream.session_id, [CursorCommit(P, int(position))]).result(300)
        stream.end("left")
        stream.close()
        for session in hub.sessions.snapshot(sub).sessions:  # It has left for good.
            hub.sessions.release(sub, session.id)
        seen.append(lines[:-1])
    return seen


def give_up(hub: Played, sub: str) -> list[int]:
    """Let one event be given up at the position of the first partition; return the positions afterwards."""
    session = hub.sessions.open(sub, frozenset(), batch_limit=2, commit_ms=1_000).session
    hub.sessions.end(sub, session.id, an_end())
    with hub.store.write() as tx:
        p, *others = tx.subscriptions.list_slots(sub)
        tx.subscriptions.put_slots(sub, [p._replace(failed=2, single_until=99), *others])
    hub.sessions.open(sub, frozenset(), batch_limit=2, commit_ms=1_000)
    return read_offsets(hub.store, sub)


@pytest.mark.parametrize(
    ("policy", "parked", "reasons"),
    [
        (SKIP, [], [IN_VAIN]),
        (KEEP, [], [f"{IN_VAIN}; {DEAD_LETTERS} has it"]),
        (PARK, [("b", 1, 1, 2)], []),
    ],
    ids=["skip", "dead letter queue", "park"],
)
def test_poison_event_is_found_by_single_events_and_given_up(
    hub: Played, store: Store, policy: dict[str, str], parked: list[Any], reasons: list[str]
) -> None:
    sub = subscribed(store, partitions=1, annotations=policy)
    hub.publish(1, 2, 3, keys="aba")

    seen = send_in_vain(hub, sub, 5)

    assert seen == [["0:2[1 2]"], ["0:2[1 2]"], ["0:1[1]", "0:2[2]"], ["0:2[2]"], ["0:3[3]"]]
    assert read_offsets(store, sub) == [3]
    assert read_parked(hub, sub) == parked
    with store.read() as tx:
        assert (tx.registry.find(DEAD_LETTERS) is not None) == (policy == KEEP)
        history = [each._replace(id=0) for each in tx.groups.list_changes(sub, before=None, limit=10)]
    assert history == [PositionChange(NAME, "", 0, "skipped", 1, 1, 2, each, START_AT) for each in reasons]


def test_dead_letter_has_the_event_and_letters_of_all_subscriptions_share_a_feed(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1, annotations=KEEP)
    other = subscribe(store, "other", annotations=KEEP)
    hub.publish(2)

    for each in (sub, other):
        send_in_vain(hub, each, 5)

    letter, another = read_letters(store)
    assert letter.pop("metadata")["event_type"] == DEAD_LETTERS
    assert letter == {
        "subscription_id": sub,
        "event_type": NAME,
        "partition": "0",
        "offset": "001-0001-000000000000000000",
        "error": {"message": IN_VAIN},
        "event": {"n": 2},
    }
    assert another["subscription_id"] == other
    assert find_feed(store, DEAD_LETTERS).event_type.category == "business"


@pytest.mark.parametrize(
    "data",
    [b'{"n":"%b"}' % (b"x" * 998_950), b'{"n":' + b"[" * 255 + b"2" + b"]" * 255 + b"}"],
    ids=["too large with the rest of the letter", "too deep"],
)
def test_event_that_makes_no_dead_letter_is_parked_alone(hub: Played, store: Store, data: bytes) -> None:
    sub = subscribed(store, partitions=1, annotations=KEEP)
    hub.hub.log.publish(NAME, [NewEvent.of(each, partition=0, key="a") for each in (data, b'{"n":3}')])

    assert give_up(hub, sub) == [1]

    assert read_letters(store) == []
    assert read_parked(hub, sub) == [(None, 0, 0, 2)]


def test_dead_letter_is_stored_in_the_transaction_that_moves_the_position(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1, annotations=KEEP)
    hub.publish(2)
    send_in_vain(hub, sub, 4)
    hub.store.at_commit = fail
    with pytest.raises(DatabaseUnavailable):
        open_stream(hub.sessions, sub)
    assert (read_letters(store), read_offsets(store, sub)) == ([], [0])

    hub.store.at_commit = lambda: None
    open_stream(hub.sessions, sub)

    assert (len(read_letters(store)), read_offsets(store, sub)) == (1, [1])


def test_no_event_is_given_up_without_a_policy(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1)
    hub.publish(1, 2)

    assert send_in_vain(hub, sub, 6) == [["0:2[1 2]"]] * 6
    assert [(each.failed, each.single_until, each.offset) for each in read_slots(store, sub)] == [(1, 0, 0)]


def test_removed_policy_ends_the_search_with_the_next_stream(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1, annotations=SKIP)
    hub.publish(1, 2)
    send_in_vain(hub, sub, 3)
    assert read_slots(store, sub)[0].single_until == 2
    with store.write() as tx:
        subscription = tx.subscriptions.find(sub)
        assert subscription is not None
        definition = subscription.definition | {"annotations": {}}
        tx.subscriptions.update(subscription._replace(definition=definition))

    assert send_in_vain(hub, sub, 2) == [["0:2[2]"]] * 2

    assert (read_slots(store, sub)[0].single_until, read_offsets(store, sub)) == (0, [1])


@pytest.mark.parametrize(
    ("keys", "waiting", "parked", "position"),
    [
        ("ab", "", {"a": [0]}, 1),
        ("", "", {}, 0),
        ("aab", "a", {"a": [0, 1], "b": [2]}, 3),
        ("..", "", {None: [0]}, 1),
    ],
    ids=["the first", "none is there", "behind events of a parked key", "without a key"],
)
def test_next_event_that_would_be_sent_is_parked(
    hub: Played, store: Store, *, keys: str, waiting: str, parked: dict[str | None, list[int]], position: int
) -> None:
    """The position moves past events of a parked key that were not set aside: they wait, too."""
    sub = subscribed(store, partitions=1, annotations=PARK)
    if keys:
        hub.publish(*range(len(keys)), keys=keys)
    with store.write() as tx:
        tx.subscriptions.park(sub, Q, "b", 0, attempts=2, at=0)
        for key in waiting:
            tx.subscriptions.park(sub, P, key, 0, attempts=2, at=0)

    assert give_up(hub, sub) == [position]

    with store.read() as tx:
        found = [each for each in tx.subscriptions.list_parked(sub) if each.place == P]
        assert {
            each.key: list(tx.subscriptions.list_parked_offsets(each.id, after=-1, limit=9)) for each in found
        } == parked


def test_commits_for_several_subscriptions_lock_all_of_them_before_the_dead_letters(migrated_postgres_url: str) -> None:
    """Otherwise two hubs wait in a circle: one that hands over a partition gives up an event of it."""
    with closing(open_store(migrated_postgres_url)) as store, closing(open_store(migrated_postgres_url)) as other:
        store.migrate()
        ids = [subscribed(store, 2, annotations=KEEP)]
        ids += [subscribe(store, f"group {n}", annotations=KEEP) for n in range(2)]
        forwarding, gate = ForwardingStore(store), Gate()
        hub = Played(forwarding)
        hub.publish(*range(4))
        hub.publish(*range(4), partition=1)
        first, second, third = sorted(ids)
        give_up(hub, third)  # So there are dead letters.
        leaving = {each: open_stream(hub.sessions, each).session.id for each in (first, second)}
        hub.sessions.end(first, leaving[first], an_end(hold_seconds=6000, p0=1))
        open_stream(hub.sessions, first)
        with store.write() as tx:  # Once it is shared out again, an event of the second partition is given up.
            p, q = tx.subscriptions.list_slots(first)
            tx.subscriptions.put_slots(first, [p, q._replace(owner="gone", successor=None, failed=2, single_until=99)])
        forwarding.patience.clear()
        forwarding.at_write = gate

        hub.commits.submit(third, "nobody", [CursorCommit(P, 1)])
        gate.await_write()
        answers = [
            hub.commits.submit(each, leaving[each], [CursorCommit(P, 1)], is_trusted=True) for each in (first, second)
        ]
        with other.write() as tx:
            tx.subscriptions.find(second, lock=True)
            gate.open()
            until_waiting(database_at(migrated_postgres_url))
            feed = tx.registry.find(DEAD_LETTERS)
            assert feed is not None
            assert tx.log.find_heads(feed.partition_ids, lock=True)

        assert [each.result(300) for each in answers] == [[True], [True]]
        assert len(read_letters(store)) == 2
        hub.stop()


def test_retry_and_skip_of_a_parked_key_are_in_the_audit_log(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1, annotations=PARK)
    hub.publish(1, 2, 3, keys="aba")
    send_in_vain(hub, sub, 5)
    Settings(store, lambda: None).switch("audit_log_collection", on=True)
    [parked] = hub.parked_keys.list(sub)
    by = Sender(Caller("user", "jane"), "10.0.0.7")
    hub.parked_keys.retry(sub, parked.id, by)
    hub.parked_keys.skip(sub, parked.id, "a wrong price", by)

    feed = find_feed(store, "nakadi.audit.log")
    _, retried, skipped = [json.loads(line) for each in feed.partition_ids for line in read_data(store, each)]
    assert [each["resource_id"] for each in (retried, skipped)] == [str(parked.id)] * 2
    assert [each["new_object"]["state"] for each in (retried, skipped)] == ["retrying", "skipped"]
    assert skipped["previous_object"].items() >= {"subscription_id": sub, "key": "b", "state": "retrying"}.items()
    assert (skipped["user"], skipped["address"], skipped["reason"]) == ("jane", "10.0.0.7", "a wrong price")
