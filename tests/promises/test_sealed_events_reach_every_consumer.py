"""Consumers whose position is in a file read on into the database: streams, groups, parked keys, dead letters."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.cold.storage import DirectoryStorage
from penstock.core.groups.groups import GroupReset, PositionCommit, ResetTarget
from penstock.core.log.cursor import FeedView
from penstock.core.log.start import Start
from penstock.core.subscriptions.definition import PARK_AFTER, POLICY, SEND_COUNT
from penstock.errors import ColdFileDamaged, CursorExpired, UnusablePosition
from penstock.hub.hub import Hub
from penstock.hub.log.read import WantedPartition
from penstock.hub.subscriptions.commits import CursorCommit
from penstock.hub.subscriptions.consumer_stream import ConsumerStream
from penstock.hub.subscriptions.dead_letters import DEAD_LETTERS
from penstock.processing import DatabaseCheckpoints, InlineProcessor, Rules
from penstock.processing.sources.feed import FeedSource
from penstock.storage import Store, open_store
from penstock.testing.clock import VirtualClock
from penstock.testing.live_hub import live_hub
from tests.nakadi import offset
from tests.processing.orders import Seen
from tests.promises.scene import (
    Follower,
    Remote,
    commit_to_outbox,
    create,
    event,
    feed,
    rows_of,
    service,
    slow_append,
    until,
)
from tests.reading import open_settled
from tests.sealing import EVENT_ROWS, files_of, seal, sealing_hub
from tests.served import client_of
from tests.subscribing import Subscription
from tests.unit.hub.feeds import NAME
from tests.unit.hub.forwarding import ForwardingStore
from tests.unit.hub.subscribing import P, Played, deliver, read_offsets, subscribe

SKIP, KEEP, PARK = (
    {SEND_COUNT: "2", POLICY: "SKIP_EVENT"},
    {SEND_COUNT: "2", POLICY: "DEAD_LETTER_QUEUE"},
    {PARK_AFTER: "2"},
)


@pytest.fixture
def cold(tmp_path: Path) -> str:
    return (tmp_path / "cold").as_uri()


@pytest.fixture
def hub(url: str, cold: str, clock: VirtualClock) -> Iterator[Hub]:
    """A hub that seals when it is told to, in files of one or two events, and an event type with one partition."""
    with sealing_hub(url, cold, clock=clock, file_bytes=10) as hub:
        create(hub)
        yield hub


@pytest.fixture
def streams(url: str, cold: str, clock: VirtualClock, hub: Hub) -> Iterator[Played]:
    """Another hub on the same database, which streams subscriptions, and has nothing of the files in memory."""
    played = Played(open_store(url, cold), "another", clock=clock)
    yield played
    played.stop()
    played.store.close()


def publish(hub: Hub, clock: VirtualClock, *numbers: int, keys: str = "") -> None:
    """Publish events a second apart; *keys* has the key of each, a letter each, and a dot for none."""
    for number, key in zip(numbers, keys or "." * len(numbers), strict=True):
        clock.advance(seconds=1)
        hub.log.publish(NAME, [event({"n": number}, key=None if key == "." else key)])


def commit(hub: Played, stream: ConsumerStream, position: int) -> None:
    hub.commits.submit(stream.subscription_id, stream.session_id, [CursorCommit(P, position)]).result(300)


def leave(hub: Played, stream: ConsumerStream, reason: str | None = "left") -> None:
    """End a stream, which leaves for good."""
    if reason is not None:
        stream.end(reason)
    stream.close()
    for session in hub.sessions.snapshot(stream.subscription_id).sessions:
        hub.sessions.release(stream.subscription_id, session.id)


def receive(hub: Played, stream: ConsumerStream) -> list[int]:
    """Return the numbers of the events that are sent now, and of those that are sent once a batch may be small."""
    sent = deliver(stream)
    hub.now += 1
    hub.lease.renew()
    sent += deliver(stream)
    return [int(n) for each in sent for n in each.partition("[")[2].partition("]")[0].split()]


def hot_offsets(url: str) -> list[int]:
    return [at for _, at in rows_of(url, EVENT_ROWS)]


# Subscriptions


def test_stream_that_begins_in_files_goes_on_in_the_database_and_a_crash_repeats_only_uncommitted_events(
    hub: Hub, streams: Played, url: str, cold: str, clock: VirtualClock
) -> None:
    publish(hub, clock, *range(10))
    seal(hub)
    sub = subscribe(streams.store)
    first = streams.stream(sub, batch_limit=4, max_uncommitted=8, flush_timeout=0.001)
    assert receive(streams, first) == [*range(8)]
    commit(streams, first, 4)
    publish(streams.hub, clock, *range(10, 15))
    seal(hub)  # While it reads.
    publish(streams.hub, clock, *range(15, 20))
    assert hot_offsets(url) == [*range(14, 20)]
    until(lambda: first.has_work, "the stream has heard of the commit")
    assert receive(streams, first) == [*range(8, 12)]
    streams.stop()  # It crashes: nothing is said of its session.

    with sealing_hub(url, cold, clock=clock) as other:
        again = Played(other.store, "third", clock=clock)
        rows_of(url, "UPDATE penstock_hub SET seen_at = seen_at - 60000000 WHERE id = 'another'")
        second = again.stream(sub, batch_limit=4, max_uncommitted=100, flush_timeout=0.001)
        assert receive(again, second) == [*range(4, 20)]
        commit(again, second, 20)
        assert read_offsets(other.store, sub) == [20]
        publish(again.hub, clock, 20)
        until(lambda: second.has_work, "the stream has heard of the event")
        assert receive(again, second) == [20]
        leave(again, second)
        again.stop()


def test_position_of_a_subscription_may_be_reset_into_files_and_below_the_floor_it_skips_to_the_floor(
    hub: Hub, streams: Played, clock: VirtualClock
) -> None:
    publish(hub, clock, *range(10))
    seal(hub)
    sub = subscribe(streams.store, read_from="end")
    resets = streams.hub.subscriptions.resets
    for to, expected in ((3, [*range(3, 10)]), (0, [*range(10)]), (9, [9])):
        assert resets.begin(sub, {P: to})
        assert resets.finish(sub, {P: to})
        stream = streams.stream(sub, flush_timeout=0.001)
        assert receive(streams, stream) == expected
        leave(streams, stream)
    with_retention(hub, 5_500)
    hub.admin.retention.run()

    assert resets.begin(sub, {P: 2})
    assert resets.finish(sub, {P: 2})
    stream = streams.stream(sub, flush_timeout=0.001)
    assert receive(streams, stream) == [*range(4, 10)]
    leave(streams, stream)


def with_retention(hub: Hub, milliseconds: int) -> None:
    known = hub.registry.load(NAME)
    hub.registry.replace(NAME, known.event_type.whole | {"options": {"retention_time": milliseconds}})


def test_parked_events_that_are_sealed_meanwhile_are_shown_and_sent_again(
    hub: Hub, streams: Played, url: str, clock: VirtualClock
) -> None:
    sub = subscribe(streams.store, annotations=PARK)
    publish(hub, clock, 0, 1, 2, 3, keys="abab")
    park(streams, sub)
    stream = streams.stream(sub, batch_limit=1, flush_timeout=0.001)
    assert receive(streams, stream) == [1, 3]
    publish(streams.hub, clock, 4, 5, keys="ac")
    until(lambda: stream.has_work, "the stream has heard of the events")
    assert receive(streams, stream) == [5]
    commit(streams, stream, 6)
    seal(hub)
    assert hot_offsets(url) == [5]

    [parked] = streams.parked_keys.list(sub)
    assert [at for at, _ in streams.parked_keys.read_events(parked, 10)] == [0, 2, 4]
    streams.parked_keys.retry(sub)
    streams.local_streams.notify_changed(sub)
    assert receive(streams, stream) == [0]  # A batch of one event; the next one comes once it is committed.
    leave(streams, stream)
    stream = streams.stream(sub, flush_timeout=0.001)
    assert receive(streams, stream) == [0, 2, 4]
    leave(streams, stream)


def test_streams_go_on_with_other_partitions_while_the_storage_is_away(
    url: str, cold: str, clock: VirtualClock, tmp_path: Path
) -> None:
    root, aside = tmp_path / "cold", tmp_path / "aside"
    with sealing_hub(url, cold, clock=clock) as hub:
        create(hub, partitions=2)
        sub = subscribe(hub.store)
        publish(hub, clock, *range(6))
        seal(hub)
    with (
        live_hub(url, options=["--cold", cold, "--cold-after", "never"]) as hub,
        client_of(hub) as http,
        closing(Remote(hub.port)) as remote,
    ):
        root.rename(aside)
        root.write_bytes(b"")  # What is asked for below it is answered by an error, not by its absence.
        subscription = Subscription(http, {"id": sub, "event_types": [NAME]})
        with subscription.stream(batch_flush_timeout=1) as consumer:
            for n in (10, 11):
                assert remote.publish({"n": n}, partition=1)[0] == 200
                batch = consumer.batch()
                assert (batch.partition, batch.numbers) == ("1", [n])
                consumer.done(batch)
            root.unlink()
            aside.rename(root)
            found: list[int] = []
            while len(found) < 6:
                batch = consumer.batch()
                assert batch.partition == "0"
                found += batch.numbers
                consumer.done(batch)
            assert found == [*range(6)]


def test_stream_that_meets_a_missing_file_ends_after_other_partitions_were_sent(
    url: str, cold: str, clock: VirtualClock, tmp_path: Path
) -> None:
    with sealing_hub(url, cold, clock=clock) as hub:
        create(hub, partitions=2)
        publish(hub, clock, *range(6))
        seal(hub)
        hub.log.publish(NAME, [event({"n": 10}, 1)])
        [file] = files_of(hub.store)
        (tmp_path / "cold" / file.path).unlink()
        streams = Played(open_store(url, cold), clock=clock)
        sub = subscribe(hub.store)
        stream = streams.stream(sub, batch_limit=1, flush_timeout=0.001)
        steps, sent = stream.step(), list[Any]()
        with pytest.raises(ColdFileDamaged, match="it is not there"):
            sent.extend(batch for batches in steps for batch in batches)
        assert [(place, position, *events) for place, position, events, *_ in sent] == [((NAME, 1), 1, b'{"n": 10}')]
        leave(streams, stream)
        stream = streams.stream(sub, timeout=1)
        streams.now += 2
        streams.lease.renew()
        assert deliver(stream)[-1].endswith("Stream timeout reached")
        leave(streams, stream, None)
        streams.stop()
        streams.store.close()


@pytest.mark.parametrize("how", ["erased", "expired"])
def test_parked_events_whose_files_lose_them_are_parked_no_more(
    hub: Hub, streams: Played, clock: VirtualClock, how: str
) -> None:
    sub = subscribe(streams.store, annotations=PARK)
    publish(hub, clock, 0, 1, 2, 3, keys="abab")
    park(streams, sub)
    stream = streams.stream(sub, batch_limit=1, flush_timeout=0.001)
    assert receive(streams, stream) == [1, 3]
    commit(streams, stream, 4)
    leave(streams, stream)
    publish(hub, clock, *range(4, 7))
    seal(hub)
    if how == "erased":
        hub.erasures.request(NAME, "a")
        hub.erasures.run()
    else:
        with_retention(hub, 2_500)
        hub.admin.retention.run()

    streams.parked_keys.retry(sub)
    stream = streams.stream(sub, flush_timeout=0.001)
    assert receive(streams, stream) == [4, 5, 6]
    assert streams.parked_keys.list(sub) == []
    leave(streams, stream)


@pytest.mark.parametrize("where", ["database", "file"])
def test_stream_by_timespan_passes_over_ranges_whose_events_were_all_erased(
    hub: Hub, streams: Played, clock: VirtualClock, where: str
) -> None:
    publish(hub, clock, *range(6), keys="aaaabc")
    if where == "file":
        seal(hub)
    hub.erasures.request(NAME, "a")
    hub.erasures.run()

    stream = streams.stream(
        subscribe(streams.store), batch_limit=4, max_uncommitted=4, timespan_seconds=60, flush_timeout=1
    )
    assert receive(streams, stream) == [4, 5]
    leave(streams, stream)


def park(streams: Played, sub: str) -> None:
    """Park the key of the first event, as if it had been sent in vain."""
    from penstock.hub.subscriptions.slots import begin_subscription, get_subscription

    with streams.store.write() as tx:
        [slot] = begin_subscription(tx, get_subscription(tx, sub, lock=True), 0)
        tx.subscriptions.park(sub, P, "a", 0, attempts=2, at=0)
        tx.groups.put(sub, [slot._replace(offset=1).position], 0)


@pytest.mark.parametrize("policy", [SKIP, KEEP, PARK], ids=["skip", "dead letter queue", "park"])
def test_poison_event_in_a_file_is_given_up_once_it_is_in_memory(
    hub: Hub, streams: Played, url: str, clock: VirtualClock, policy: dict[str, str]
) -> None:
    sub = subscribe(streams.store, annotations=policy)
    publish(hub, clock, 0, 1, 2, 3, keys="aabc")
    seal(hub)
    assert hot_offsets(url)[0] == 3

    def fail_once() -> int:
        stream = streams.stream(sub, batch_limit=1, max_uncommitted=1, flush_timeout=0.001)
        found = receive(streams, stream)
        leave(streams, stream, None)
        return found[0] if found else -1

    sent = []
    while (number := fail_once()) in (0, -1):
        sent.append(number)
        assert len(sent) < 10
    assert number == (2 if policy is PARK else 1)

    with streams.store.read() as tx:
        letters = tx.registry.find(DEAD_LETTERS)
    if policy is KEEP:
        assert letters is not None
        found = feed(hub, name=DEAD_LETTERS)
        assert [(each["event"], each["offset"]) for each in found] == [({"n": 0}, offset(0))]
    else:
        assert letters is None


def test_dead_letters_are_read_though_they_and_their_events_are_sealed(
    hub: Hub, streams: Played, url: str, clock: VirtualClock
) -> None:
    create(hub, DEAD_LETTERS)
    publish(hub, clock, *range(4))
    for n in range(3):
        hub.log.publish(DEAD_LETTERS, [event({"event_type": NAME, "partition": "0", "offset": str(n)})])
    clock.advance(seconds=1)
    seal(hub)

    letters = feed(streams.hub, name=DEAD_LETTERS)
    assert [each["offset"] for each in letters] == ["0", "1", "2"]
    assert [feed(streams.hub)[int(each["offset"])] for each in letters] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_parked_streams_of_a_processor_are_tried_again_though_their_events_are_sealed(
    hub: Hub, url: str, cold: str, clock: VirtualClock, tmp_path: Path
) -> None:
    checkpoints = DatabaseCheckpoints(f"sqlite:///{tmp_path}/consumer.db", "mailer")
    seen = Seen("order.placed-0_a")
    rules = Rules(attempts_max=1, exhausted="park", events_per_call=2)
    publish(hub, clock, *range(8), keys="abababab")
    with (
        live_hub(url, options=["--cold", cold, "--cold-after", "never"]) as served,
        FeedSource(served.url, NAME) as source,
    ):
        running = InlineProcessor(seen, source, checkpoints=checkpoints, rules=rules)
        running.drain()
        seal(hub)
        publish(hub, clock, 8, 9, keys="ab")
        seal(hub)
        publish(hub, clock, 10, 11, keys="ab")
        running.drain()
        assert seen.numbers == {"order.placed-0_b": [1, 3, 5, 7, 9, 11]}
        assert hot_offsets(url) == [9, 10, 11]
        seen.broken = set()
        checkpoints.ask("order.placed-0_a", "retry")
        running.drain()
    assert seen.numbers["order.placed-0_a"] == [0, 2, 4, 6, 8, 10]
    assert list(checkpoints.parked()) == []


# Groups


def test_cursor_set_that_begins_in_files_goes_on_in_the_database_after_a_crash(
    hub: Hub, url: str, cold: str, clock: VirtualClock
) -> None:
    publish(hub, clock, *range(10))
    seal(hub)
    found: list[int] = []
    cursor = "_first"
    for step in range(7):
        with sealing_hub(url, cold, clock=clock) as other:  # Each page is read after another crash.
            if step:
                cursor = other.groups.resume(NAME, "mine", 1, [0])[0]
            if step == 2:
                publish(hub, clock, *range(10, 15))
                seal(hub)
                publish(hub, clock, *range(15, 20))
            follower = Follower(other)
            follower.cursors = {0: cursor}
            follower.page(3)
            found += [each["n"] for each in follower.found[0]]
            loaded = other.registry.load(NAME)
            place = open_settled(other, NAME, None, [WantedPartition("cursor0", 0, follower.cursors[0])], 0)
            other.groups.store_cursors(loaded, "mine", [(FeedView(1, 0, 1), place.tracks[0].offsets)])
    assert found == [*range(20)]


def test_group_is_reset_into_files_by_offset_and_time_and_refused_below_the_floor(
    hub: Hub, streams: Played, clock: VirtualClock
) -> None:
    began = clock()
    publish(hub, clock, *range(10))
    seal(hub)
    other = streams.hub
    other.groups.commit("mailer", "processor", [PositionCommit(NAME, 0, 10)])

    def reset(to: Start | None = None, offset: int | None = None, *, dry_run: bool = False) -> int:
        target = GroupReset(ResetTarget(to, offset), NAME, partition=0)
        [moved] = other.groups.reset("mailer", [target], None, dry_run=dry_run)
        return moved.place.offset

    def after(microseconds: int) -> datetime:
        return datetime.fromtimestamp((began + microseconds) / 1_000_000, UTC)

    assert reset(offset=3) == 3
    assert [reset(after(seconds * 1_000_000)) for seconds in (0, 1, 2, 9, 10, 11)] == [0, 0, 1, 8, 9, 10]
    assert reset(after(4_500_000), dry_run=True) == 4
    assert reset(to="earliest") == 0
    with_retention(hub, 5_500)
    hub.admin.retention.run()
    assert reset(to="earliest") == 4
    assert reset(after(0)) == 4
    with pytest.raises(UnusablePosition, match="retention has removed what is before 4, and with that 3"):
        reset(offset=3)


def test_gap_and_lag_of_a_subscription_in_a_file_are_told(hub: Hub, streams: Played, clock: VirtualClock) -> None:
    publish(hub, clock, *range(10))
    seal(hub)
    files = files_of(hub.store)
    publish(hub, clock, *range(10, 12))
    sub = subscribe(streams.store)
    stream = streams.stream(sub, batch_limit=4, max_uncommitted=4)
    deliver(stream)
    commit(streams, stream, 4)
    leave(streams, stream)

    [summary] = [each for each in streams.hub.groups.list(everything(), 10) if each.name == sub]
    [lag] = streams.hub.groups.measure([summary])
    [file] = [each for each in files if each.start <= 4 < each.stop]
    assert lag.behind is not None and lag.behind.gap == 8
    assert lag.behind.lag == clock() - file.content.received_from
    partition_id = hub.registry.load(NAME).partition_ids[0]
    assert streams.hub.subscriptions.find_ages({partition_id: 4}) == {partition_id: lag.behind.lag}


def everything() -> Any:
    from penstock.storage.groups import GroupFilter

    return GroupFilter()


def test_reader_whose_position_retention_has_passed_within_files_is_told(
    hub: Hub, streams: Played, clock: VirtualClock
) -> None:
    publish(hub, clock, *range(10))
    seal(hub)
    follower = Follower(streams.hub)
    follower.page(2)
    with_retention(hub, 3_500)
    hub.admin.retention.run()

    with pytest.raises(CursorExpired) as caught:
        follower.page(2)
    assert caught.value.lost == 4
    assert feed(streams.hub) == [{"n": n} for n in range(6, 10)]


# Publishers


def test_events_of_the_outbox_and_of_slow_transactions_follow_those_that_are_sealed_meanwhile(
    url: str, cold: str, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ForwardingStore(open_store(url, cold))
    store.migrate()
    from penstock.hub.cold.sealing import SealingOptions

    hub = Hub(cast(Store, store), clock=clock, sealing=SealingOptions(0.0))
    create(hub)
    publish(hub, clock, *range(6))
    other = Hub(open_store(url, cold), clock=clock)
    write, threads = DirectoryStorage.write, list[threading.Thread]()
    appended, sealing = threading.Event(), threading.Event()

    def append() -> None:
        with slow_append(other.store, other, b'{"n": 6}', NAME):
            appended.set()
            assert sealing.wait(300)

    def meanwhile(self: DirectoryStorage, path: str, body: Any) -> None:
        write(self, path, body)
        if path.endswith(".parquet") and not threads:
            commit_to_outbox(url, {"n": 7})
            threads.append(threading.Thread(target=append))
            threads[0].start()
            assert appended.wait(300)
            store.at_write = lambda _: sealing.set()

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStorage, "write", meanwhile)
        seal(hub)
    threads[0].join()
    assert [each.stop for each in files_of(hub.store)] == [5, 6]
    with service(url) as (database, connection):
        database.insert(connection, NAME, json.dumps({"n": 8}), partition=0)
        sealing.clear()
        clock.advance(seconds=1)
        run = threading.Thread(target=hub.cold.sealer.run)
        run.start()
        assert sealing.wait(300)
        connection.commit()
        run.join()
    assert feed(other) == [{"n": n} for n in range(9)]
    clock.advance(seconds=1)
    seal(hub)
    assert hot_offsets(url) == [8]
    assert feed(other) == [{"n": n} for n in range(9)]
    hub.stop()
    other.stop()
