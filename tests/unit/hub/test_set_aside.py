"""Events of parked keys: they wait in their order, and those of others flow."""

from collections.abc import Iterator

import pytest

from penstock.core.delivery import COMMIT_TIMEOUT
from penstock.core.proof import ParkedSpan, parked_token_of
from penstock.errors import DatabaseUnavailable
from penstock.hub.commits import Commit
from penstock.hub.parking import Parking
from penstock.hub.reasons import GIVEN_BACK, STOPPING, TIME_OVER
from penstock.hub.stream import PAUSE_S, Stream
from penstock.hub.subscriptions import begin, existing
from penstock.storage import Store
from penstock.storage.parked import Parked
from penstock.testing.clock import VirtualClock
from penstock.testing.store_contract import database_at
from tests.promises.scene import until
from tests.unit.hub.forwarding import ForwardingStore
from tests.unit.hub.subscribing import (
    P,
    Played,
    Q,
    an_end,
    deliver,
    let_time_pass,
    open_stream,
    read_offsets,
    read_owners,
    read_slots,
    subscribed,
)


@pytest.fixture
def hub(forwarding: ForwardingStore) -> Iterator[Played]:
    played = Played(forwarding)
    yield played
    played.stop()


@pytest.fixture
def sub(store: Store) -> str:
    return subscribed(store, partitions=1)


def park(store: Store, sub: str, key: str | None = "a", *waiting: int) -> int:
    """Let a key wait from its first event on, which the position has passed then; return its id."""
    with store.write() as tx:
        begun = begin(tx, existing(sub, tx.subscriptions.lock(sub)), 0)
        for each in waiting or (0,):
            tx.parked.park(sub, P, key, each, attempts=2, at=0)
        passed = max(waiting or (0,)) + 1
        tx.subscriptions.move(sub, {P: max(passed, *(slot.offset for slot in begun if slot.place == P))}, 0)
        return tx.parked.list(sub)[-1].id


def waits(store: Store, sub: str) -> dict[str | None, list[int]]:
    """Return which events of each key wait."""
    with store.read() as tx:
        return {each.key: list(tx.parked.offsets(each.id, after=-1, limit=99)) for each in tx.parked.list(sub)}


def acknowledge(hub: Played, stream: Stream, parked_id: int, last: int) -> None:
    token = parked_token_of(stream.secret, ParkedSpan(parked_id, last))
    hub.commits.submit(stream.subscription_id, stream.session_id, [Commit(P, 0, token)]).result(300)


def retry(hub: Played, sub: str) -> None:
    Parking(hub.store, VirtualClock()).retry(sub)
    hub.live.changed(sub)


def pass_over(hub: Played, stream: Stream, position: int) -> None:
    """Let a stream commit what it has left out, which it does soon where parked events wait for that."""
    hub.now += PAUSE_S
    deliver(stream)
    until(lambda: read_offsets(hub.store, stream.subscription_id) == [position], f"it has passed {position}")
    until(lambda: stream.unread, "the stream has heard of it")


def flushed(hub: Played, stream: Stream) -> list[str]:
    """Return what is sent up to the next flush, without keep-alives."""
    hub.now += 1
    hub.live.renew()
    return [each.partition(" Stream started")[0] for each in deliver(stream) if "[]" not in each]


def test_a_parked_keys_events_wait_and_the_others_flow(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, 2, 3, 4, 5, keys="abacb")
    park(store, sub)
    stream = hub.stream(sub, batch_limit=1)

    assert [each.partition(" ")[0] for each in deliver(stream)] == ["0:2[2]", "0:4[4]", "0:5[5]"]
    assert waits(store, sub) == {"a": [0, 2]}
    hub.publish(6, 7, keys="a.")

    assert deliver(stream) == ["0:7[7]"]
    assert waits(store, sub) == {"a": [0, 2, 5]}
    assert read_offsets(store, sub) == [1]


def test_what_is_read_twice_waits_once(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, 2, keys="ab")
    park(store, sub)

    for _ in range(2):
        stream = hub.stream(sub, batch_limit=1)
        assert deliver(stream) == ["0:2[2] Stream started"]
        stream.end("left")
        stream.close()
        for each in hub.sessions.look(sub).sessions:
            hub.sessions.give_back(sub, each.id)

    assert waits(store, sub) == {"a": [0]}


def test_one_event_without_a_key_that_waits_keeps_no_other(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, 2, keys="..")
    park(store, sub, None, 0)
    hub.sessions.end(sub, open_stream(hub.sessions, sub).session.id, an_end())
    with store.write() as tx:
        tx.subscriptions.move(sub, {P: 1}, 0)

    assert deliver(hub.stream(sub, batch_limit=1)) == ["0:2[2] Stream started"]
    assert waits(store, sub) == {None: [0]}


def test_nothing_is_looked_at_where_no_key_waits(hub: Played, store: Store, sub: str) -> None:
    with store.write() as tx:
        tx.parked.park(sub, Q, "a", 0, attempts=2, at=0)
    hub.publish(1, keys="a")
    stream = hub.stream(sub, batch_limit=1)
    before = hub.store.writes

    assert deliver(stream) == ["0:1[1] Stream started"]
    assert hub.store.writes == before


def test_a_key_is_sent_again_in_its_order_and_flows_once_all_of_it_is_committed(
    hub: Played, store: Store, sub: str
) -> None:
    hub.publish(1, 2, 3, keys="aba")
    parked_id = park(store, sub)
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)
    retry(hub, sub)

    assert deliver(stream) == ["0:3[1] Parked events"], "as many as make a batch; its position is where others are"
    hub.publish(4, keys="a")
    assert deliver(stream) == []
    acknowledge(hub, stream, parked_id, 0)
    assert deliver(stream) == [], "what is behind an event that is not committed would be read again by the next stream"
    hub.commits.submit(sub, stream.session_id, [Commit(P, 3)], trusted=True).result(300)
    assert deliver(stream) == ["0:3[3] Parked events"]
    acknowledge(hub, stream, parked_id, 2)
    assert deliver(stream) == []
    pass_over(hub, stream, 4)
    assert deliver(stream) == ["0:4[4] Parked events"]
    acknowledge(hub, stream, parked_id, 3)
    assert deliver(stream) == []

    hub.publish(5, keys="a")
    assert deliver(stream) == ["0:5[5]"]
    assert (waits(store, sub), read_offsets(store, sub)) == ({}, [4])


def test_of_a_key_only_those_are_sent_again_that_the_position_has_passed(hub: Played, store: Store, sub: str) -> None:
    """The others would be read again by whoever has the partition next, and be set aside once more."""
    hub.publish(1, 2, 3, 4, keys="abaa")
    parked_id = park(store, sub)
    stream = hub.stream(sub, batch_limit=10)
    assert flushed(hub, stream) == []
    hub.now += 30
    assert flushed(hub, stream) == ["0:4[2]"]
    retry(hub, sub)

    assert deliver(stream) == ["0:4[1] Parked events"]
    acknowledge(hub, stream, parked_id, 0)
    assert deliver(stream) == []
    hub.commits.submit(sub, stream.session_id, [Commit(P, 3)]).result(300)
    assert deliver(stream) == ["0:4[3] Parked events"]
    acknowledge(hub, stream, parked_id, 2)
    hub.commits.submit(sub, stream.session_id, [Commit(P, 4)]).result(300)
    assert deliver(stream) == ["0:4[4] Parked events"]
    acknowledge(hub, stream, parked_id, 3)

    assert (waits(store, sub), read_offsets(store, sub)) == ({}, [4])


def test_an_event_of_a_key_that_waits_no_longer_is_sent_though_the_stream_thinks_it_waits(
    hub: Played, store: Store, sub: str
) -> None:
    """Somebody has acknowledged the rest of it, and the stream has not looked since."""
    hub.publish(1, keys="a")
    parked_id = park(store, sub)
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)
    with store.write() as tx:
        tx.subscriptions.lock(sub)
        tx.parked.acknowledge(parked_id, 0)
    hub.publish(2, 3, keys="ab")

    assert deliver(stream) == ["0:2[2] Stream started", "0:3[3]"]

    assert waits(store, sub) == {}
    assert stream.unread, "it looks then"


def test_a_key_that_is_parked_again_under_another_id_waits_all_the_same(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, keys="a")
    first = park(store, sub)
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)
    with store.write() as tx:
        tx.parked.clear(sub, P)
    second = park(store, sub)
    assert second != first
    stream.changed()
    hub.publish(2, keys="a")

    assert deliver(stream) == []
    assert waits(store, sub) == {"a": [0, 1]}


def test_what_cannot_be_set_aside_is_read_again(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, 2, 3, keys="aab")
    park(store, sub)
    stream = hub.stream(sub, batch_limit=1)

    def away(_: int) -> None:
        raise DatabaseUnavailable(reason="away", retry_after=1)

    hub.store.at_write = away
    with pytest.raises(DatabaseUnavailable):
        deliver(stream)
    hub.store.at_write = lambda _: None

    assert deliver(stream) == ["0:3[3] Stream started"]


def test_what_could_not_be_read_to_be_sent_again_is_sent_later(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, keys="a")
    park(store, sub)
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)
    retry(hub, sub)
    before = hub.store.reads

    def away(number: int) -> None:
        if number == before + 2:
            raise DatabaseUnavailable(reason="away", retry_after=1)

    hub.store.at_read = away
    with pytest.raises(DatabaseUnavailable):
        deliver(stream)
    assert stream.needs() is not None

    assert deliver(stream) == ["0:1[1] Stream started"]


DONE = "Stream timeout reached"


@pytest.mark.parametrize("reason", [None, COMMIT_TIMEOUT, GIVEN_BACK, STOPPING, TIME_OVER, DONE])
def test_what_is_sent_again_in_vain_is_parked_again_and_counted(
    hub: Played, store: Store, sub: str, reason: str | None
) -> None:
    """In vain: its consumer has left, or has had its time, or says so; not where the stream was to end anyway."""
    hub.publish(1, keys="a")
    parked_id = park(store, sub)
    retry(hub, sub)
    stream = hub.stream(sub, batch_limit=1)
    assert deliver(stream) == ["0:1[1] Stream started"]
    if reason is not None:
        stream.end(reason)

    stream.close()

    again = Parked(parked_id, P, "a", 3, 0, False, 1, 0, 0)
    if reason in (STOPPING, TIME_OVER, DONE):
        again = again._replace(attempts=2, is_retried=True)  # The next stream sends it, which nobody need ask for.
    assert hub.sessions.look(sub, counts=True).parked == [again]
    assert read_slots(store, sub)[0].failed == 0, "the partition itself has not failed"


def test_what_was_sent_again_can_be_committed_after_the_end_of_its_stream_and_belongs_to_it_until_then(
    hub: Played, store: Store, sub: str
) -> None:
    hub.publish(1, 2, keys="aa")
    parked_id = park(store, sub, "a", 0, 1)
    retry(hub, sub)
    first = hub.stream(sub, batch_limit=1)
    assert deliver(first) == ["0:2[1] Stream started"]
    first.end(DONE)
    first.close()
    second = hub.stream(sub, batch_limit=1)
    assert (deliver(second), read_slots(store, sub)[0].owner) == ([], first.session_id)

    acknowledge(hub, first, parked_id, 0)

    assert read_slots(store, sub)[0].owner == second.session_id
    assert deliver(second) == ["0:2[2] Stream started"], "the rest of the key comes with the next stream"


@pytest.mark.parametrize("is_first", [True, False], ids=["the position first", "the key first"])
def test_a_stream_that_has_ended_keeps_a_partition_until_all_that_it_was_sent_is_committed(
    hub: Played, store: Store, sub: str, is_first: bool
) -> None:
    hub.publish(1, 2, keys="ab")
    parked_id = park(store, sub)
    retry(hub, sub)
    stream = hub.stream(sub, batch_limit=1)
    assert deliver(stream) == ["0:1[1] Stream started", "0:2[2]"]
    stream.end(DONE)
    stream.close()
    steps = [
        lambda: hub.commits.submit(sub, stream.session_id, [Commit(P, 2)]).result(300),
        lambda: acknowledge(hub, stream, parked_id, 0),
    ]
    first, second = steps if is_first else reversed(steps)

    first()
    assert read_owners(store, sub) == [stream.session_id]
    assert read_slots(store, sub)[0].failed == 1 - is_first
    second()
    assert read_owners(store, sub) == [None]
    assert (waits(store, sub), read_offsets(store, sub)) == ({}, [2])


def test_a_stream_that_has_ended_keeps_what_it_was_sent_again_no_longer_than_its_time(
    hub: Played, store: Store, sub: str
) -> None:
    hub.publish(1, keys="a")
    park(store, sub)
    retry(hub, sub)
    first = hub.stream(sub, batch_limit=1)
    deliver(first)
    first.end(DONE)
    first.close()
    let_time_pass(store.url, 61)

    assert deliver(hub.stream(sub, batch_limit=1)) == ["0:1[1] Stream started"]


def test_a_partition_is_not_let_go_while_parked_events_of_it_are_under_way(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=2)
    hub.publish(1, keys="a")
    parked_id = park(store, sub)
    retry(hub, sub)
    first = hub.stream(sub, batch_limit=1)
    deliver(first)
    second = hub.stream(sub, P, batch_limit=1)
    hub.live.changed(sub)

    assert deliver(first) == []
    assert read_slots(store, sub)[0].owner == first.session_id
    acknowledge(hub, first, parked_id, 0)
    deliver(first)

    assert read_slots(store, sub)[0].owner == second.session_id


def test_nothing_is_sent_again_of_a_partition_that_others_are_to_have(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=2)
    hub.publish(1, 2, keys="ab")
    park(store, sub)
    first = hub.stream(sub, batch_limit=1)
    assert deliver(first) == ["0:2[2] Stream started"]
    second = hub.stream(sub, P, batch_limit=1)
    assert deliver(second) == []

    retry(hub, sub)

    assert deliver(first) == []
    hub.commits.submit(sub, first.session_id, [Commit(P, 2)]).result(300)
    deliver(first)
    assert read_slots(store, sub)[0].owner == second.session_id
    assert deliver(second) == ["0:2[1] Stream started"]


def test_what_was_left_out_is_committed_at_the_end(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, 2, 3, keys="aaa")
    park(store, sub)
    stream = hub.stream(sub, batch_limit=1)
    assert deliver(stream) == []
    assert read_offsets(store, sub) == [1]
    stream.end("left")

    stream.close()

    assert read_offsets(store, sub) == [3]
    assert waits(store, sub) == {"a": [0, 1, 2]}


def test_parked_events_that_are_gone_wait_no_longer(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, 2, keys="aa")
    park(store, sub, "a", 0, 1)
    park(store, sub, "b", 0)
    database = database_at(store.url)
    database.run("UPDATE penstock_partition SET floor = 1")
    database.run('DELETE FROM penstock_event WHERE "offset" = 0')
    retry(hub, sub)
    stream = hub.stream(sub, batch_limit=1)

    sent = [each for _ in range(3) for each in flushed(hub, stream)]

    assert sent == ["0:2[2]"]
    assert waits(store, sub) == {"a": [0, 1]}, "what is gone of it goes with the next commit"
