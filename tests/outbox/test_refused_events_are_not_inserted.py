"""An event that the hub would refuse raises the hub's own error before the insert, on every kind of connection."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

from penstock.core.events.encoding import encode_event
from penstock.core.events.event import EVENT_BYTES_MAX, NewEvent
from penstock.core.registry.event_type import EventType
from penstock.errors import EventTooLarge, EventTypeNotFound, InvalidEvent, PenstockError
from penstock.hub.hub import Hub
from penstock.hub.log.publish import NewEvents, prepare
from penstock.outbox import publish, publish_many
from penstock.storage import open_store
from penstock.testing.factories import an_event_type
from tests.failing import has_code
from tests.outbox.kinds import Service, fetch, path_of, with_psycopg, with_sqlite3

METADATA = {"eid": "4ae5011e-eb01-11e5-8b4a-1c6f65464fc6", "occurred_at": "2026-11-20T10:00:00Z"}
TYPES: dict[str, dict[str, Any]] = {
    "order": {"schema": {"required": ["order_id"], "properties": {"order_id": {"type": "integer"}}}},
    "hashed": {"partition_strategy": "hash", "partition_key_fields": ["shop.id"], "partition_count": 3},
    "placed": {"partition_strategy": "user_defined", "partition_count": 3},
    "compacted": {"category": "business", "cleanup_policy": "compact"},
    "paid": {"category": "business", "schema": {"required": ["total"], "properties": {"total": {"type": "string"}}}},
    "changed": {"category": "data", "schema": {"required": ["id"]}},
    "short": {"category": "business", "max_event_bytes": 1_200},
}
REFUSED: list[tuple[str, Any, dict[str, Any], str]] = [
    ("order", {"customer": "Ada"}, {}, "invalid-event"),
    ("order", {"order_id": "7"}, {}, "invalid-event"),
    ("order", {"order_id": 7, "fill": "x" * EVENT_BYTES_MAX}, {}, "event-too-large"),
    ("order", {"order_id": 7}, {"headers": {"ce_type": ""}}, "invalid-event"),
    ("order", {"order_id": 7}, {"headers": {"ce_partitionkey": "a\nb"}}, "invalid-event"),
    ("hashed", {"shop": {}}, {}, "partition-refused"),
    ("hashed", {"shop": {"id": "x" * 1025}}, {}, "partition-refused"),
    ("placed", {}, {}, "partition-refused"),
    ("placed", {}, {"partition": 3}, "partition-refused"),
    ("compacted", {"metadata": METADATA}, {}, "invalid-event"),
    ("paid", {"total": 19.9, "metadata": METADATA}, {}, "invalid-event"),
    ("paid", {"total": "19.90", "metadata": METADATA | {"eid": "7"}}, {}, "invalid-event"),
    ("changed", {"data_type": "o", "data_op": "X", "data": {"id": 1}, "metadata": METADATA}, {}, "invalid-event"),
    ("changed", {"data_type": "o", "data_op": "C", "data": {}, "metadata": METADATA}, {}, "invalid-event"),
    ("short", {"fill": "x" * 500, "metadata": METADATA}, {}, "event-too-large"),
    ("short", {"metadata": METADATA}, {"headers": {"fill": "x" * 500}}, "event-too-large"),
]
TAKEN: list[tuple[str, Any, dict[str, Any]]] = [
    ("order", {"order_id": 7}, {}),
    ("hashed", {"shop": {}}, {"key": "7"}),
    ("hashed", {"shop": {"id": 7}}, {}),
    ("placed", {}, {"partition": 2}),
    ("compacted", {"metadata": {"partition_compaction_key": "7"}}, {}),
    ("paid", {"total": "19.90"}, {}),
    ("changed", {"data_type": "o", "data_op": "C", "data": {"id": 1}}, {}),
    ("short", {"fill": "x" * 100}, {"headers": {"fill": "x" * 100}}),
]


def an_event_type_of(name: str, **definition: Any) -> EventType:
    text = json.dumps(definition.pop("schema", {}))
    return EventType.parse(an_event_type(name, schema={"type": "json_schema", "schema": text}, **definition))


def create_types(url: str, types: dict[str, dict[str, Any]] = TYPES) -> None:
    with closing(open_store(url)) as store, store.write() as tx:
        for name, definition in types.items():
            tx.registry.insert(an_event_type_of(name, **definition), at=1)


def change(url: str, name: str, **definition: Any) -> None:
    """Let the event type *name* be another one, as the hub does that has been asked to."""
    with closing(open_store(url)) as store, store.write() as tx:
        feed = tx.registry.find(name, lock=True)
        assert feed is not None
        tx.registry.update(feed, an_event_type_of(name, **definition), at=1)


def hub_refuses(url: str, name: str, event: Any, beside: dict[str, Any]) -> PenstockError:
    """Return the error with which the hub would reject the event, were it in the outbox."""
    with closing(open_store(url)) as store, store.read() as tx:
        feed = tx.registry.find(name)
    assert feed is not None
    with pytest.raises(PenstockError) as refused:
        prepare(feed, NewEvents([NewEvent.of(encode_event(event), **beside)]), now=1)
    return refused.value


def publishes(name: str, event: Any, **beside: Any) -> Callable[[Any], Any]:
    return lambda connection: publish(connection, name, event, **beside)


def plainly(url: str) -> Any:
    return with_sqlite3 if url.startswith("sqlite") else with_psycopg


def test_outbox_refuses_the_same_events_as_the_hub(plain_service: Service) -> None:
    service = plain_service
    create_types(service.url)

    for name, event, beside, code in REFUSED:
        with pytest.raises((InvalidEvent, EventTooLarge), check=has_code(code)) as refused:
            service.transact(publishes(name, event, **beside))
        by_the_hub = hub_refuses(service.url, name, event, beside)
        assert refused.value.code == by_the_hub.code
        assert refused.value.fields.get("reason") == by_the_hub.fields.get("reason")
        assert refused.value.index == 0
    assert service.outbox() == []

    for name, event, beside in TAKEN:
        service.transact(publishes(name, event, **beside))
    assert len(service.outbox()) == len(TAKEN)


def test_publish_follows_a_change_of_the_event_type(plain_service: Service) -> None:
    service = plain_service
    create_types(service.url, {"order": TYPES["order"]})
    service.transact(publishes("order", {"order_id": 7}))
    change(service.url, "order", schema={"required": ["customer"]})

    with pytest.raises(InvalidEvent, match="customer"):
        service.transact(publishes("order", {"order_id": 7}))
    service.transact(publishes("order", {"customer": "Ada"}))

    with closing(open_store(service.url)) as store, store.write() as tx:
        tx.registry.delete("order")
    with pytest.raises(EventTypeNotFound):
        service.transact(publishes("order", {"customer": "Ada"}))
    service.transact(publishes("order", {}, allow_unknown_type=True))

    assert [data for _, data in service.outbox()] == ['{"order_id":7}', '{"customer":"Ada"}', "{}"]


def test_definition_read_in_a_rolled_back_transaction_is_not_kept(hub_url: str) -> None:
    create_types(hub_url, {"order": TYPES["order"]})
    loose = an_event_type_of("order")
    definition = json.dumps(loose.definition).replace("'", "''")
    forge = f"UPDATE penstock_event_type SET fingerprint = '{loose.fingerprint}', definition = '{definition}'"

    def work(connection: Any) -> None:
        connection.execute(forge + " WHERE name = 'order'")
        publish(connection, "order", {})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        plainly(hub_url)(hub_url, work)

    with pytest.raises(InvalidEvent):
        plainly(hub_url)(hub_url, publishes("order", {}))


def test_databases_with_event_types_of_one_name_are_not_mixed_up(sqlite_hub: str, postgres_hub: str) -> None:
    create_types(sqlite_hub, {"order": {"schema": {"required": ["a"]}}})
    create_types(postgres_hub, {"order": {"schema": {"required": ["b"]}}})

    for _ in range(2):
        for url, needs, lacks in ((sqlite_hub, "a", "b"), (postgres_hub, "b", "a")):
            plainly(url)(url, publishes("order", {needs: 1}))
            with pytest.raises(InvalidEvent):
                plainly(url)(url, publishes("order", {lacks: 1}))


def test_an_attached_database_is_the_one_that_counts(sqlite_hub: str) -> None:
    create_types(sqlite_hub, {"order": TYPES["order"]})
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("ATTACH ? AS hub", (path_of(sqlite_hub),))
        publish(connection, "order", {"order_id": 7})
        with pytest.raises(InvalidEvent):
            publish(connection, "order", {})

    assert fetch(sqlite_hub, "SELECT data FROM penstock_outbox") == [('{"order_id":7}',)]


def test_a_refusal_by_a_changed_event_type_leaves_no_transaction_of_sqlite_open(sqlite_hub: str) -> None:
    create_types(sqlite_hub, {"order": {}})
    with closing(sqlite3.connect(path_of(sqlite_hub))) as connection:
        publish(connection, "order", {})
        connection.commit()
        change(sqlite_hub, "order", schema={"required": ["order_id"]})

        for count in (1, 2):
            with pytest.raises(InvalidEvent):
                publish_many(connection, "order", [{}] * count)
            assert not connection.in_transaction


def test_publish_does_not_wait_for_an_uncommitted_change_of_the_event_type(postgres_hub: str) -> None:
    create_types(postgres_hub, {"order": TYPES["order"]})
    with closing(open_store(postgres_hub)) as store, store.write() as tx:
        feed = tx.registry.find("order", lock=True)
        assert feed is not None
        tx.registry.update(feed, an_event_type_of("order"), at=1)
        with psycopg.connect(postgres_hub) as session:
            session.execute("SET lock_timeout = '1ms'")
            publish(session, "order", {"order_id": 7})
            with pytest.raises(InvalidEvent):
                publish(session, "order", {})


@pytest.mark.parametrize("how", ["replace", "grow", "add_schema"])
def test_events_that_wait_are_published_before_their_event_type_changes(hub_url: str, how: str) -> None:
    create_types(hub_url, {"order": {"partition_strategy": "user_defined", "compatibility_mode": "none"}})
    plainly(hub_url)(hub_url, publishes("order", {"order_id": 7}, partition=0))
    plainly(hub_url)(hub_url, lambda connection: connection.execute(UNKEYED))
    definition = {"partition_strategy": "hash", "partition_key_fields": ["customer"], "compatibility_mode": "none"}
    schema = {"type": "json_schema", "schema": '{"required":["customer"]}'}
    hub = Hub(open_store(hub_url))
    try:
        changes: dict[str, Callable[[], None]] = {
            "replace": lambda: hub.registry.replace(
                "order", an_event_type("order", **definition), allow_reordering=True
            ),
            "grow": lambda: hub.registry.grow("order", 2),
            "add_schema": lambda: hub.registry.add_schema("order", schema),
        }
        changes[how]()
    finally:
        hub.stop()

    assert fetch(hub_url, "SELECT data FROM penstock_event") == [('{"order_id":7}',)]
    assert fetch(hub_url, "SELECT data FROM penstock_rejected") == [("{}",)]


UNKEYED = "INSERT INTO penstock_outbox (event_type, data, \"partition\") VALUES ('order', '{}', 1)"

FORKED = """
import os, sys
from penstock.schema.validation import VALIDATORS
from penstock.outbox import event_types
with event_types._KEPT._lock, VALIDATORS._lock:
    child = os.fork()
    if child == 0:
        event_types.recall("order")
        VALIDATORS.find("order")
        os._exit(7)
    status = os.waitpid(child, 0)[1]
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_worker_forked_while_another_thread_publishes_can_publish() -> None:
    assert subprocess.run([sys.executable, "-c", FORKED], check=False, timeout=300).returncode == 7
