from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager

import pytest

from penstock.core.event_type import EventType
from penstock.errors import EventTypeNotFound, InvalidEvent, PartitionRefused
from penstock.hub.hub import Hub
from penstock.storage import Store, open_store
from penstock.storage.store import Tx
from penstock.testing.factories import an_event_type
from tests.promises.scene import NAME, create, event, feed, hub_on, rows_of, service, until
from tests.promises.test_a_rejected_row_harms_no_other import refuse_poison

MANY = 30
FAILING_AT_COMMIT = {
    "sqlite": [
        "CREATE TABLE wanting (n INTEGER REFERENCES penstock_event_type (id) DEFERRABLE INITIALLY DEFERRED)",
        """CREATE TRIGGER failing AFTER INSERT ON penstock_event WHEN NEW.data LIKE '%poison%'
           BEGIN INSERT INTO wanting VALUES (-1); END""",
    ],
    "postgresql": [
        """CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN IF NEW.data LIKE '%poison%' THEN RAISE EXCEPTION 'poison'; END IF; RETURN NEW; END $$""",
        """CREATE CONSTRAINT TRIGGER failing AFTER INSERT ON penstock_event DEFERRABLE INITIALLY DEFERRED
           FOR EACH ROW EXECUTE FUNCTION fail()""",
    ],
}


@contextmanager
def queued(hub: Hub, url: str) -> Iterator[Tx]:
    """Keep the committer from committing while the block runs: what is submitted in it becomes a group."""
    with open_beside(url) as store, store.write() as tx:
        tx.events.lock_heads(sorted(part for each in hub.event_types() for part in each.partition_ids))
        first = hub.submit("first.one", [event({"n": "first"})])
        until(first.running, "the committer waits with this one")
        yield tx


@contextmanager
def open_beside(url: str) -> Iterator[Store]:
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def hub(migrated_url: str) -> Iterator[Hub]:
    with hub_on(migrated_url, partitions=1) as hub:
        create(hub, "first.one")
        yield hub


def test_publishers_share_a_transaction(hub: Hub, migrated_url: str) -> None:
    with queued(hub, migrated_url):
        told = [hub.submit(NAME, [event({"n": n})]) for n in range(MANY)]

    assert [each.result(300).next_offsets for each in told] == [{0: n + 1} for n in range(MANY)]
    assert [each["n"] for each in feed(hub)] == list(range(MANY))
    times = rows_of(migrated_url, "SELECT count(DISTINCT received_at) FROM penstock_event")[0][0]
    assert times <= 3  # Not one for each.


def test_what_the_log_refuses_fails_alone(hub: Hub, migrated_url: str) -> None:
    refuse_poison(migrated_url)
    with queued(hub, migrated_url):
        told = [hub.submit(NAME, [event({"n": n, "x": "poison" if n % 7 == 3 else ""})]) for n in range(MANY)]

    for n, each in enumerate(told):
        if n % 7 == 3:
            with pytest.raises(Exception, match="poison"):
                each.result(300)
        else:
            assert each.result(300).next_offsets
    assert [each["n"] for each in feed(hub)] == [n for n in range(MANY) if n % 7 != 3]


def test_nobody_is_told_before_the_commit_has_succeeded(hub: Hub, migrated_url: str) -> None:
    """What fails only at the commit fails for those whose it is, and nobody has been told otherwise."""
    for sql in FAILING_AT_COMMIT[migrated_url.partition(":")[0]]:
        with service(migrated_url) as (_, connection):
            connection.execute(sql)
            connection.commit()
    with queued(hub, migrated_url):
        told = [hub.submit(NAME, [event({"n": n, "x": "poison" if n % 7 == 3 else ""})]) for n in range(MANY)]

    for n, each in enumerate(told):
        if n % 7 == 3:
            with pytest.raises(Exception, match=r"(?i)poison|constraint"):
                each.result(300)
        else:
            assert each.result(300).next_offsets
    assert [each["n"] for each in feed(hub)] == [n for n in range(MANY) if n % 7 != 3]


def test_who_gives_up_harms_no_other(hub: Hub, migrated_url: str) -> None:
    with queued(hub, migrated_url):
        told = [hub.submit(NAME, [event({"n": n})]) for n in range(MANY)]
        assert all(each.cancel() for each in told[::3])

    for n, each in enumerate(told):
        if n % 3 == 0:
            with pytest.raises(CancelledError):
                each.result(300)
        else:
            assert each.result(300) is not None
    hub.publish(NAME, [event({"n": "after"})])
    assert [each["n"] for each in feed(hub)] == [*(n for n in range(MANY) if n % 3), "after"]


def test_an_event_type_created_anew_in_between_is_published_to_as_it_is_now(hub: Hub, migrated_url: str) -> None:
    """Another hub drops the event type and creates it again after a publish was prepared and before it is committed."""
    create(hub, "kept.one")
    hub.publish(NAME, [event({"n": "of the first feed"})])
    with queued(hub, migrated_url) as tx:
        kept = [hub.submit("kept.one", [event({"n": n})]) for n in range(3)]
        told = hub.submit(NAME, [event({"id": 7, "n": n}) for n in range(5)])
        unfit = hub.submit(NAME, [event({"id": 1}), event({"n": "no id"})], lines=[3, 8])
        tx.feeds.delete(NAME)
        again = {"partition_count": 4, "partition_strategy": "hash", "partition_key_fields": ["id"]}
        tx.feeds.insert(EventType.parse(an_event_type(NAME, **again)), 1)

    published = told.result(300)
    ((partition, next_offset),) = published.next_offsets.items()
    assert next_offset == 5
    assert (published.feed.epoch, published.feed.partition_count) == (2, 4)
    assert [each["n"] for each in feed(hub, partition)] == list(range(5))
    with pytest.raises(PartitionRefused) as refused:
        unfit.result(300)
    assert refused.value.fields["line"] == 8
    assert [each.result(300).next_offsets for each in kept] == [{0: 1}, {0: 2}, {0: 3}]


def test_an_event_type_dropped_in_between_is_told_to_those_alone_who_publish_to_it(hub: Hub, migrated_url: str) -> None:
    create(hub, "kept.one")
    with queued(hub, migrated_url) as tx:
        lost = [hub.submit(NAME, [event({"n": n})]) for n in range(3)]
        kept = [hub.submit("kept.one", [event({"n": n})]) for n in range(3)]
        tx.feeds.delete(NAME)

    for each in lost:
        with pytest.raises(EventTypeNotFound):
            each.result(300)
    assert [each.result(300).next_offsets for each in kept] == [{0: 1}, {0: 2}, {0: 3}]


def test_what_cannot_be_taken_is_told_before_it_is_queued(hub: Hub) -> None:
    for bad in ([event([1])], [event({}), event("x")]):
        with pytest.raises(InvalidEvent):
            hub.submit(NAME, bad)

    assert hub.publish(NAME, [event({})]).next_offsets == {0: 1}


def test_a_publish_of_nothing_stores_nothing(hub: Hub) -> None:
    assert hub.publish(NAME, []).next_offsets == {}
    assert feed(hub) == []
