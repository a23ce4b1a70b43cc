"""What becomes of poison events (the digest of Nakadi's contract, 5.11), as the store is left by it."""

import json
from contextlib import closing, contextmanager
from typing import Any

import pytest

from penstock.core.event import NewEvent
from penstock.core.retrying import PARK_AFTER, POLICY, SEND_COUNT
from penstock.errors import DatabaseUnavailable
from penstock.hub.commits import Commit
from penstock.hub.dead_letters import DEAD_LETTERS
from penstock.storage import Store, open_store
from penstock.storage.groups import Intervention
from penstock.storage.opening import Opening
from penstock.testing.clock import START_AT
from penstock.testing.store_contract import database_at
from penstock.testing.store_contract.producers_together import until_waiting
from tests.unit.hub.feeds import NAME, find_feed, read_data
from tests.unit.hub.forwarding import ForwardingStore, Gate
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

POLICIES = {
    "skipped": {SEND_COUNT: "2", POLICY: "SKIP_EVENT"},
    "kept": {SEND_COUNT: "2", POLICY: "DEAD_LETTER_QUEUE"},
    "parked": {PARK_AFTER: "2"},
}


def fail(hub: Played, sub: str, times: int = 1, **rules: Any) -> list[list[str]]:
    """Open streams one after the other, which commit all but event 2, and leave; return what each is sent."""
    seen = []
    for _ in range(times):
        stream = hub.stream(sub, **({"batch_limit": 2, "max_uncommitted": 2, "flush_s": 0.001} | rules))
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
                hub.commits.submit(sub, stream.session_id, [Commit(P, int(position))]).result(300)
        stream.end("left")
        stream.close()
        for session in hub.sessions.look(sub).sessions:  # It has left for good.
            hub.sessions.give_back(sub, session.id)
        seen.append(lines[:-1])
    return seen


@pytest.fixture
def hub(store: Store) -> Played:
    return Played(store)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_poison_event_is_searched_and_given_up(hub: Played, store: Store, policy: str) -> None:
    sub = subscribed(store, partitions=1, annotations=POLICIES[policy])
    hub.publish(
        1,
        2,
        3,
        keys="aba",
    )

    seen = fail(hub, sub, 5)

    assert seen == [["0:2[1 2]"], ["0:2[1 2]"], ["0:1[1]", "0:2[2]"], ["0:2[2]"], ["0:3[3]"]]
    assert read_offsets(store, sub) == [3]
    parked = [(each.key, each.first, each.last, each.attempts) for each in hub.sessions.look(sub).parked]
    assert parked == ([("b", 1, 1, 2)] if policy == "parked" else [])
    with store.read() as tx:
        assert (tx.feeds.find(DEAD_LETTERS) is not None) == (policy == "kept")
        told_of = [each._replace(id=0) for each in tx.groups.history(sub, before=None, limit=10)]
    in_vain = "it was sent 2 times one by one, and never committed"
    reasons = {"skipped": [in_vain], "kept": [f"{in_vain}; {DEAD_LETTERS} has it"], "parked": []}[policy]
    assert told_of == [Intervention(NAME, "", 0, "skipped", 1, 1, 2, each, START_AT) for each in reasons]
    hub.stop()


def test_an_event_lies_among_the_dead_letters_as_it_was(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1, annotations=POLICIES["kept"])
    hub.publish(2)

    fail(hub, sub, 5)

    [letter] = map(json.loads, letters(store))
    assert letter.pop("metadata")["event_type"] == DEAD_LETTERS
    assert letter == {
        "subscription_id": sub,
        "event_type": NAME,
        "partition": "0",
        "offset": "001-0001-000000000000000000",
        "error": {"message": "it was sent 2 times one by one, and never committed"},
        "event": {"n": 2},
    }
    hub.stop()


@pytest.mark.parametrize(
    "data",
    [b'{"n":"%b"}' % (b"x" * 998_950), b'{"n":' + b"[" * 255 + b"2" + b"]" * 255 + b"}"],
    ids=["too large with what is written about it", "too deep"],
)
def test_what_the_dead_letters_do_not_take_is_parked_alone(hub: Played, store: Store, data: bytes) -> None:
    sub = subscribed(store, partitions=1, annotations=POLICIES["kept"])
    hub.hub.publish(NAME, [NewEvent.of(data, partition=0, key="a"), NewEvent.of(b'{"n":3}', partition=0, key="a")])

    assert given_up(store, sub, hub) == [1]

    assert letters(store) == []
    parked = [(each.key, each.first, each.last, each.attempts) for each in hub.sessions.look(sub).parked]
    assert parked == [(None, 0, 0, 2)]


def letters(store: Store) -> list[str]:
    """Return the dead letters."""
    with store.read() as tx:
        feed = tx.feeds.find(DEAD_LETTERS)
    return [] if feed is None else [each for number in feed.partition_ids for each in read_data(store, number)]


def test_dead_letters_are_kept_with_the_very_transaction_that_gives_up(store: Store) -> None:
    """Where it is undone there is neither a letter nor a position that has moved."""
    undoing = Undoing(store)
    hub = Played(undoing)
    sub = subscribed(store, partitions=1, annotations=POLICIES["kept"])
    hub.publish(2)
    fail(hub, sub, 4)
    undoing.undo = True
    with pytest.raises(DatabaseUnavailable):
        hub.sessions.open(sub, frozenset(), batch_limit=2, commit_ms=1_000)
    assert (letters(store), read_offsets(store, sub)) == ([], [0])
    undoing.undo = False
    hub.sessions.open(sub, frozenset(), batch_limit=2, commit_ms=1_000)

    assert (len(letters(store)), read_offsets(store, sub)) == (1, [1])
    hub.stop()


class Undoing(ForwardingStore):
    """Fails at the end of each transaction, when it is told to."""

    undo = False

    @contextmanager
    def write(self, *, patient: bool = True, opening: Opening | None = None) -> Any:
        with super().write(patient=patient, opening=opening) as tx:
            yield tx
            if self.undo:
                raise DatabaseUnavailable(reason="away", retry_after=1)


def test_the_dead_letters_go_on_where_they_have_begun(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1, annotations=POLICIES["kept"])
    other = subscribe(store, "other", annotations=POLICIES["kept"])
    hub.publish(2)

    for each in (sub, other):
        fail(hub, each, 5)

    assert [json.loads(each)["subscription_id"] for each in letters(store)] == [sub, other]
    assert find_feed(store, DEAD_LETTERS).event_type.category == "business"
    hub.stop()


def test_a_partition_without_a_policy_is_never_given_up(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1)
    hub.publish(1, 2)

    assert fail(hub, sub, 9) == [["0:2[1 2]"]] * 9
    assert [(each.failed, each.single_until, each.offset) for each in read_slots(store, sub)] == [(1, 0, 0)]
    hub.stop()


def test_a_policy_that_is_taken_away_is_forgotten_with_the_next_stream(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1, annotations=POLICIES["skipped"])
    hub.publish(1, 2)
    fail(hub, sub, 3)
    assert read_slots(store, sub)[0].single_until == 2
    with store.write() as tx:
        subscription = tx.subscriptions.find(sub)
        assert subscription is not None
        tx.subscriptions.change(sub, subscription.definition | {"annotations": {}}, 0)

    assert fail(hub, sub, 2) == [["0:2[2]"]] * 2

    assert (read_slots(store, sub)[0].single_until, read_offsets(store, sub)) == (0, [1])
    hub.stop()


def given_up(store: Store, sub: str, hub: Played, **slot: Any) -> list[int]:
    """Let one event be given up from where a partition stands; return where its partitions stand then."""
    session = hub.sessions.open(sub, frozenset(), batch_limit=2, commit_ms=1_000).session
    hub.sessions.end(sub, session.id, an_end())
    with store.write() as tx:
        p, *others = tx.subscriptions.slots(sub)
        tx.subscriptions.put(sub, [p._replace(failed=2, single_until=99, **slot), *others])
    hub.sessions.open(sub, frozenset(), batch_limit=2, commit_ms=1_000)
    return read_offsets(store, sub)


@pytest.mark.parametrize(
    ("keys", "parked", "stands"),
    [("ab", [("a", 0)], 1), ("", [], 0), ("aab", [("a", 0), ("b", 2)], 3)],
    ids=["the first", "nothing is there", "the first whose key does not wait"],
)
def test_the_next_event_that_would_be_sent_is_given_up(
    hub: Played, store: Store, keys: str, parked: list[tuple[str, int]], stands: int
) -> None:
    sub = subscribed(store, partitions=1, annotations=POLICIES["parked"])
    if keys:
        hub.publish(*range(len(keys)), keys=keys)
    with store.write() as tx:
        tx.parked.park(sub, Q, "b", 0, attempts=2, at=0)
        if stands == 3:
            tx.parked.park(sub, P, "a", 0, attempts=2, at=0)

    assert given_up(store, sub, hub) == [stands]

    assert [(each.key, each.first) for each in hub.sessions.look(sub).parked if each.place == P] == parked
    hub.stop()


def test_what_was_passed_over_before_a_poison_event_waits_with_its_key(hub: Played, store: Store) -> None:
    """The position moves past events of a parked key, which were never set aside: they would be lost."""
    sub = subscribed(store, partitions=1, annotations=POLICIES["parked"])
    hub.publish(1, 2, 3, keys="aab")
    with store.write() as tx:
        tx.parked.park(sub, P, "a", 0, attempts=2, at=0)

    given_up(store, sub, hub)

    with store.read() as tx:
        [a, b] = tx.parked.list(sub)
        assert list(tx.parked.offsets(a.id, after=-1, limit=9)) == [0, 1]
        assert list(tx.parked.offsets(b.id, after=-1, limit=9)) == [2]
    hub.stop()


def test_an_event_without_a_key_waits_alone(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1, annotations=POLICIES["parked"])
    hub.publish(1, 2, keys="..")

    assert given_up(store, sub, hub) == [1]

    assert [(each.key, each.first, each.events) for each in hub.sessions.look(sub, counts=True).parked] == [
        (None, 0, 1)
    ]
    hub.stop()


def test_who_commits_for_several_at_once_locks_all_of_them_before_the_dead_letters(migrated_postgres_url: str) -> None:
    """Or it would wait in a circle with who hands over one of them, and gives up an event of it."""
    with closing(open_store(migrated_postgres_url)) as store, closing(open_store(migrated_postgres_url)) as other:
        store.migrate()
        ids = [subscribed(store, 2, annotations=POLICIES["kept"])]
        ids += [subscribe(store, f"group {n}", annotations=POLICIES["kept"]) for n in range(2)]
        forwarding, gate = ForwardingStore(store), Gate()
        hub = Played(forwarding)
        hub.publish(*range(4))
        hub.publish(*range(4), partition=1)
        first, second, third = sorted(ids)
        given_up(store, third, hub)  # So there are dead letters.
        leaving = {each: open_stream(hub.sessions, each) for each in (first, second)}
        hub.sessions.end(first, leaving[first].session.id, an_end(hold_s=60, p0=1))
        open_stream(hub.sessions, first)
        with store.write() as tx:  # Once it is shared out anew, an event of the second partition is given up.
            p, q = tx.subscriptions.slots(first)
            tx.subscriptions.put(first, [p, q._replace(owner="gone", heir=None, failed=2, single_until=99)])
        forwarding.patience.clear()
        forwarding.at_write = gate

        hub.commits.submit(third, "nobody", [Commit(P, 1)])
        gate.await_write()
        asked = [
            hub.commits.submit(each, leaving[each].session.id, [Commit(P, 1)], trusted=True) for each in (first, second)
        ]
        with other.write() as tx:
            tx.subscriptions.lock(second)
            gate.open()
            until_waiting(database_at(migrated_postgres_url), 1)
            feed = tx.feeds.find(DEAD_LETTERS)
            assert feed is not None
            assert tx.events.lock_heads(feed.partition_ids)

        assert [each.result(300) for each in asked] == [[True], [True]]
        assert len(letters(store)) == 2
        hub.stop()
