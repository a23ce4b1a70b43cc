"""The events of a key are erased with what else the database has of them, and nothing else is."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.core.access import Caller, Sender
from penstock.core.groups.groups import PositionCommit
from penstock.core.groups.parking import ParkedChanges, ParkedStream
from penstock.errors import BadParameter, EventTypeNotFound, RecordNotFound
from penstock.hub import erasure as module
from penstock.hub.admin.sweeping import Sweeper
from penstock.hub.hub import Hub
from penstock.hub.own_events import AUDIT_LOG
from penstock.hub.subscriptions.dead_letters import DEAD_LETTERS, DeadLetter, publish_dead_letter
from penstock.storage.log.erasure import ErasedCounts
from penstock.storage.log.outbox import OutboxRow
from penstock.storage.store import Tx
from penstock.testing.clock import START_AT, VirtualClock
from penstock.testing.factories import a_new_event
from tests.promises.scene import until, waiting_for_locks
from tests.unit.hub.feeds import JOINED, NAME, create_feed, find_feed, insert_subscription

KEY, SECRET = "jane", "Jane's street"
SUBSCRIPTION = "038fc871-1d2c-4e2e-aa29-1579e8f2e71f"


@pytest.fixture(autouse=True)
def feed(hub: Hub) -> None:
    create_feed(hub.store, partition_count=2)


def publish(hub: Hub, keys: str, partition: int = 0, name: str = NAME) -> None:
    """Publish one event a letter; j has the key, and the secret in its data."""
    hub.log.publish(
        name,
        [
            a_new_event(
                {"n": n, "of": SECRET if key == "j" else key}, key=KEY if key == "j" else key, partition=partition
            )
            for n, key in enumerate(keys)
        ],
    )


def left(hub: Hub, partition: int = 0, name: str = NAME) -> str:
    with hub.store.read() as tx:
        found = tx.removal.list_keys(tx.registry.get(name).partition_ids[partition], 0, 9_999, 9_999)
    return "".join("j" if each.key == KEY else each.key or "-" for each in found)


def test_oldest_erasure_that_is_not_finished_is_measured(hub: Hub, clock: VirtualClock) -> None:
    publish(hub, "aj")
    for _ in range(2):
        hub.erasures.request(NAME, KEY)
        clock.advance(seconds=7)

    assert hub.admin.database.measure().erasing == 14_000_000
    hub.erasures.run()
    assert hub.admin.database.measure().erasing == 0


@pytest.mark.parametrize("step", [1, 3, 20_000])
def test_events_of_the_key_are_erased_in_all_partitions(hub: Hub, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(module, "STEP_OFFSETS", step)
    publish(hub, "ajbjja")
    publish(hub, "jcj", 1)
    requested = hub.erasures.request(NAME, KEY)

    hub.erasures.run()

    assert (left(hub), left(hub, 1)) == ("aba", "c")
    found = hub.erasures.find(NAME, requested.id)
    assert found.erased == ErasedCounts(events=5)
    assert (found.key, found.digest) == (None, hashlib.sha256(KEY.encode()).hexdigest())
    assert (found.finished_at, found.ends) == (START_AT, {0: 6, 1: 3})
    [first, second] = find_feed(hub.store).partition_ids
    with hub.store.read() as tx:
        assert tx.removal.list_holes(first, 0, 99) == [(1, 2), (3, 5)]
        assert tx.log.find_heads([second])[second].next_offset == 3


def test_events_that_are_published_after_the_request_stay(hub: Hub) -> None:
    publish(hub, "aj")
    hub.erasures.request(NAME, KEY)
    publish(hub, "jb")

    hub.erasures.run()

    assert left(hub) == "ajb"


def test_expired_events_that_are_still_there_are_erased_too(hub: Hub) -> None:
    publish(hub, "jajaj")
    with hub.store.write() as tx:
        tx.removal.raise_floor(find_feed(hub.store).partition_ids[0], 3)
    hub.erasures.request(NAME, KEY)

    hub.erasures.run()

    assert left(hub) == "aa"


def test_erasure_that_is_interrupted_goes_on_and_counts_everything_once(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP_OFFSETS", 2)
    publish(hub, "jjjjjjjja")
    requested = hub.erasures.request(NAME, KEY)
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) == 2

    hub.erasures.run(pause)
    half = hub.erasures.find(NAME, requested.id)
    Hub(hub.store).erasures.run()

    assert (half.finished_at, half.erased.events, half.key) == (None, 4, KEY)
    found = hub.erasures.find(NAME, requested.id)
    assert (found.finished_at is not None, found.erased.events, left(hub)) == (True, 8, "a")


def test_parked_keys_rejected_rows_and_dead_letters_are_erased(hub: Hub, clock: VirtualClock) -> None:
    create_feed(hub.store, "other")
    publish(hub, "aj")
    insert_subscription(hub.store, SUBSCRIPTION, find_feed(hub.store).id)
    with hub.store.write() as tx:
        for key, name in ((KEY, NAME), ("a", NAME), (KEY, "other")):
            tx.subscriptions.park(SUBSCRIPTION, (name, 0), key, 1, attempts=1, at=START_AT)
            tx.outbox.reject([(OutboxRow(1, name, "{}", key, None, 0, "2024-01-01T00:00:00.000Z"), "no")], START_AT)
    for key, name in ((KEY, NAME), ("a", NAME), (None, NAME), (KEY, "other")):
        with hub.store.write() as tx:
            publish_dead_letter(tx, DeadLetter(SUBSCRIPTION, name, 0, 1, 1, "no", b"{}", key), hub.limits, clock)
    requested = hub.erasures.request(NAME, KEY)

    hub.erasures.run()

    assert hub.erasures.find(NAME, requested.id).erased == ErasedCounts(1, 1, 1, 1)
    with hub.store.read() as tx:
        parked = {(each.place[0], each.key) for each in tx.subscriptions.list_parked(SUBSCRIPTION)}
        rejected = {(each.event_type, each.key) for each in tx.outbox.list_rejected(9)}
    assert parked == rejected == {(NAME, "a"), ("other", KEY)}
    assert left(hub, name=DEAD_LETTERS) == "a-j"


def test_parked_streams_of_the_key_are_erased_and_failures_that_name_it_are_forgotten(hub: Hub) -> None:
    create_feed(hub.store, "other")
    publish(hub, "ajaj")
    span = {"first": 1, "next": 2, "events": 1, "attempts": 3, "tag": "ValueError", "since": "1:0"}

    def stream(name: str, detail: str = "no", source: str = NAME, **others: Any) -> ParkedStream:
        return ParkedStream(source, 0, name, detail=detail, **{**span, **others})

    streams = [
        stream(f"{NAME}-{KEY}"),
        stream(f"{NAME}-0_{KEY}", next=9, detail=f"{KEY} again"),
        stream(f"{NAME}-a", f"no customer {KEY}"),
        stream(f"{NAME}-b"),
        stream(f"other-{KEY}", source="other"),
    ]
    commits = [PositionCommit(NAME, 0, 0), PositionCommit("other", 0, 0)]
    hub.groups.commit("mailer", "processor", commits, parked=ParkedChanges(streams))
    requested = hub.erasures.request(NAME, KEY)

    hub.erasures.run()

    found = hub.groups.parked.list("mailer", after=0, limit=9)
    assert [(each.parked.stream, each.parked.detail, each.request) for each in found] == [
        (f"{NAME}-0_{KEY}", "", "retry"),  # Events that came later wait behind: whoever tries it again ends it.
        (f"{NAME}-a", "", None),
        (f"{NAME}-b", "no", None),
        (f"other-{KEY}", "no", None),
    ]
    assert hub.erasures.find(NAME, requested.id).erased.parked_keys == 3


def park(tx: Tx, *offsets: int) -> None:
    for each in offsets:
        tx.subscriptions.park(SUBSCRIPTION, (NAME, 0), KEY, each, attempts=1, at=START_AT)


def test_key_that_is_being_parked_meanwhile_is_erased_and_so_is_a_dead_letter(
    hub: Hub, clock: VirtualClock, migrated_url: str
) -> None:
    """Whoever gives an event up locks the subscription, reads the event, and then parks its key or publishes it."""
    publish(hub, "aj")
    insert_subscription(hub.store, SUBSCRIPTION, find_feed(hub.store).id)
    letter = DeadLetter(SUBSCRIPTION, NAME, 0, 1, 1, "no", b"{}", KEY)
    with hub.store.write() as tx:
        publish_dead_letter(tx, letter, hub.limits, clock)
    requested = hub.erasures.request(NAME, KEY)
    with ThreadPoolExecutor(1) as threads:
        with hub.store.write() as tx:
            assert tx.subscriptions.find(SUBSCRIPTION, lock=True) is not None
            assert tx.log.read_columns(find_feed(hub.store).partition_ids[0], 1, 2).rows == 1
            erasing = threads.submit(hub.erasures.run)
            if migrated_url.startswith("postgres"):  # SQLite has one write at a time.
                until(lambda: erasing.done() or waiting_for_locks(migrated_url), "the erasure to wait")
                assert left(hub) == "a"
            park(tx, 1)
            publish_dead_letter(tx, letter, hub.limits, clock)
        erasing.result(300)

    with hub.store.read() as tx:
        assert tx.subscriptions.list_parked(SUBSCRIPTION) == []
    assert (left(hub), left(hub, name=DEAD_LETTERS)) == ("a", "")
    assert hub.erasures.find(NAME, requested.id).erased == ErasedCounts(1, 1, 0, 2)


def test_events_that_were_parked_behind_erased_ones_and_stay_are_sent_again(hub: Hub) -> None:
    publish(hub, "ajj")
    insert_subscription(hub.store, SUBSCRIPTION, find_feed(hub.store).id)
    requested = hub.erasures.request(NAME, KEY)
    publish(hub, "ja")
    with hub.store.write() as tx:
        park(tx, 1, 2, 3)

    hub.erasures.run()
    with hub.store.write() as tx:  # As if it had been killed before it had finished.
        tx.erasures.insert(requested._replace(id="again"))
    hub.erasures.run()

    with hub.store.read() as tx:
        [parked] = tx.subscriptions.list_parked(SUBSCRIPTION)
        assert tx.subscriptions.list_parked_offsets(parked.id, after=0, limit=9) == [3]
    assert (parked.key, parked.is_retried) == (KEY, True)
    assert [hub.erasures.find(NAME, each).erased.parked_keys for each in (requested.id, "again")] == [1, 0]


def test_erasure_that_was_restored_with_a_backup_goes_on(hub: Hub) -> None:
    publish(hub, "aj")
    create_feed(hub.store, "other")
    publish(hub, "aj", name="other")
    requested, dropped = (hub.erasures.request(name, KEY) for name in (NAME, "other"))
    with hub.store.write() as tx:
        tx.registry.delete("other")
    create_feed(hub.store, "other")
    hub.registry.load("other")
    publish(hub, "aj", name="other")
    with hub.store.write() as tx:
        tx.registry.raise_epochs()

    hub.erasures.run()

    assert (left(hub), left(hub, name="other")) == ("a", "aj")
    assert hub.erasures.find(NAME, requested.id).erased == ErasedCounts(events=1)
    assert hub.erasures.find("other", dropped.id).erased == ErasedCounts()


def test_event_type_that_was_created_again_keeps_its_events(hub: Hub) -> None:
    publish(hub, "aj")
    requested = hub.erasures.request(NAME, KEY)
    with hub.store.write() as tx:
        tx.registry.delete(NAME)
    create_feed(hub.store, partition_count=2)
    hub.registry.load(NAME)
    publish(hub, "jb")

    hub.erasures.run()

    assert left(hub) == "jb"
    assert hub.erasures.find(NAME, requested.id).finished_at is not None


def test_request_is_in_the_audit_log_without_the_key(hub: Hub) -> None:
    hub.admin.settings.switch("audit_log_collection", on=True)

    requested = hub.erasures.request(NAME, KEY, Sender(Caller("user", "root"), "10.0.0.1"))

    with hub.store.read() as tx:
        log = tx.registry.get(AUDIT_LOG.name)
        events = [
            json.loads(line)
            for each in log.partition_ids
            for line in tx.log.read_lines(each, 0, 9, JOINED, None).body.splitlines()
        ]
    [event] = [each for each in events if each["resource_type"] == "erasure"]
    assert (event["user"], event["resource_id"], event["action"]) == ("root", requested.id, "created")
    assert event["new_object"]["key_sha256"] == requested.digest
    assert KEY not in json.dumps(event)


def test_unknown_event_types_erasures_and_long_keys_are_refused(hub: Hub) -> None:
    with pytest.raises(EventTypeNotFound):
        hub.erasures.request("nothing", KEY)
    with pytest.raises(BadParameter, match="key"):
        hub.erasures.request(NAME, "x" * 1_025)
    requested = hub.erasures.request(NAME, "x" * 1_024)
    for name, other in (("other", requested.id), (NAME, "\0")):
        with pytest.raises(RecordNotFound):
            hub.erasures.find(name, other)
    assert [each.id for each in hub.erasures.list(NAME)] == [requested.id]


def test_sweeper_erases(hub: Hub) -> None:
    publish(hub, "aj")
    requested = hub.erasures.request(NAME, KEY)
    sweeper = Sweeper(hub.store, tasks=[hub.erasures.run])

    sweeper.start()
    until(lambda: hub.erasures.find(NAME, requested.id).finished_at, "the sweeper to erase")
    assert sweeper.stop(300)
    assert left(hub) == "a"
