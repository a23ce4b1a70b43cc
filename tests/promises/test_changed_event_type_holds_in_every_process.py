"""A change of an event type through one hub process holds at once for publishes through another."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import httpx2
import pytest

from penstock.core.events.partitioning import hash_partition
from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.errors import InvalidEvent
from penstock.hub.hub import Hub
from penstock.hub.log.publish import AppendResult
from penstock.storage import open_store
from penstock.storage.store import Tx
from penstock.testing.factories import a_business_event, a_new_event, an_event_type
from penstock.testing.live_hub import live_hub
from tests.promises.scene import NAME, feed, hub_on, until, waiting_for_locks
from tests.store_contract.database import FIRST_AT, append, created, row

EVENTS = range(1, 9)
BY_ORDER: dict[str, Any] = {
    "partitions": 1, "category": "business", "partition_strategy": "hash", "partition_key_fields": ["order_id"]
}  # fmt: skip
Told = Future[AppendResult | None]


@pytest.fixture
def hubs(migrated_url: str) -> Iterator[tuple[httpx2.Client, httpx2.Client]]:
    """Two hub processes on one database; the second has published already, so that it has cached the event type."""
    with ExitStack() as stack:
        here, there = (
            stack.enter_context(httpx2.Client(base_url=stack.enter_context(live_hub(migrated_url)).url))
            for _ in range(2)
        )
        created = here.post("/event-types", json=definition())
        assert created.status_code == 201, created.text
        assert publish(there, {"n": 1}) == 200
        yield here, there


def definition(properties: str = '{"n": {"type": "integer"}}', **members: object) -> dict[str, object]:
    schema = {"type": "json_schema", "schema": f'{{"properties": {properties}, "additionalProperties": false}}'}
    return an_event_type(NAME, schema=schema, compatibility_mode="none") | members


def publish(hub: httpx2.Client, event: dict[str, object]) -> int:
    """Publish as lines and as an array; return the status, which is the same."""
    lines = hub.post(f"/feeds/{NAME}", content=json.dumps({"data": event}))
    array = hub.post(f"/event-types/{NAME}/events", json=[event])
    assert lines.status_code == array.status_code, (lines.text, array.text)
    return lines.status_code


def test_change_of_an_event_type_holds_in_another_process_at_once(hubs: tuple[httpx2.Client, httpx2.Client]) -> None:
    here, there = hubs
    path = f"/event-types/{NAME}"
    in_partition_1 = {"data": {"n": "1"}, "partition": 1}

    assert publish(there, {"n": 1, "more": 1}) == 422
    assert here.put(path, json=definition('{"n": {}, "more": {}}')).status_code == 200
    assert publish(there, {"n": 1, "more": 1}) == 200

    assert here.put(path, json=definition('{"n": {"type": "string"}}')).status_code == 200
    assert (publish(there, {"n": 1}), publish(there, {"n": "1"})) == (422, 200)

    chosen = definition('{"n": {"type": "string"}}', partition_strategy="user_defined")
    assert here.put(f"{path}?allow_reordering=true", json=chosen).status_code == 200
    assert there.post(f"/feeds/{NAME}", json=in_partition_1).status_code == 422
    assert here.put(f"{path}/partition-count", json={"partition_count": 2}).status_code == 204
    assert there.post(f"/feeds/{NAME}", json=in_partition_1).status_code == 200

    assert here.delete(path).status_code == 200
    assert publish(there, {"n": "1"}) == publish(there, {"n": 1}) == 404
    assert here.post("/event-types", json=definition('{"n": {"type": "boolean"}}')).status_code == 201
    assert (publish(there, {"n": True}), publish(there, {"n": 1})) == (200, 422)


def test_page_follows_a_change_of_its_event_type_in_another_process_at_once(
    hubs: tuple[httpx2.Client, httpx2.Client],
) -> None:
    here, there = hubs

    def read(n: int, partition: int, cursor: str = "_first") -> tuple[int, str]:
        page = there.get(f"/feeds/{NAME}", params={"n": n, f"cursor{partition}": cursor})
        return page.status_code, page.text

    status, page = read(1, 0)
    cursor = json.loads(page.splitlines()[-1])["cursor"]
    assert (status, page.count('"data"'), read(3, 2)[0]) == (200, 2, 200)

    assert here.put(f"/event-types/{NAME}/partition-count", json={"partition_count": 2}).status_code == 204
    assert publish(here, {"n": 2}) == 200
    assert (read(3, 2)[0], read(1, 0, cursor)[0]) == (400, 200)
    assert sum(read(2, partition)[1].count('"data"') for partition in (0, 1)) == 4

    stale = {"token": there.get(f"/feeds/{NAME}").json()["token"], "partition": 1, "cursor": cursor}
    assert here.delete(f"/event-types/{NAME}").status_code == 200
    assert (read(2, 0)[0], read(2, 0, cursor)[0]) == (404, 404)
    assert here.post("/event-types", json=definition()).status_code == 201
    assert publish(here, {"n": 3}) == 200
    assert (read(1, 0)[1].count('"data"'), read(1, 0, cursor)[0]) == (2, 410)
    answers = [there.get(f"/feeds/{NAME}/events", params=stale).status_code for _ in range(2)]
    assert answers == [409, 409], "the token is refused before the cursor"


def test_prepared_publish_is_prepared_again_after_a_change(migrated_url: str) -> None:
    schema = {"type": "json_schema", "schema": '{"properties": {"n": {}}}', "version": "2.0.0"}
    with hub_on(migrated_url, **BY_ORDER) as hub:
        hub.log.publish(NAME, [a_new_event(a_business_event(0))])

        told = publish_across(hub, migrated_url, lambda tx, old: change_in(tx, old, 2, schema=schema))

        published = told.result(300)
        assert published is not None
        assert published.feed == hub.registry.load(NAME)
        found = [feed(hub, partition) for partition in range(2)]
    expected: list[list[int]] = [[0], []]
    for number in EVENTS:
        expected[hash_partition((str(number),), 2)].append(number)
    assert expected[1], "no event falls in the new partition: this shows nothing"
    assert [[each["order_id"] for each in events] for events in found] == expected
    assert published.next_offsets == {number: len(events) for number, events in enumerate(found)}
    told_of = [(each["metadata"]["version"], each["metadata"]["partition"]) for events in found for each in events]
    assert told_of == [("1.0.0", "0"), *[("2.0.0", "0")] * (len(found[0]) - 1), *[("2.0.0", "1")] * len(found[1])]


def test_prepared_publish_is_refused_if_the_changed_schema_refuses_it(migrated_url: str) -> None:
    narrow = {"type": "json_schema", "schema": '{"required": ["more"]}', "version": "2.0.0"}
    with hub_on(migrated_url, **BY_ORDER) as hub:
        told = publish_across(hub, migrated_url, lambda tx, old: change_in(tx, old, 1, schema=narrow))

        assert isinstance(told.exception(60), InvalidEvent)
        assert feed(hub) == []


def test_change_waits_for_an_append_under_way(migrated_postgres_url: str) -> None:
    """On SQLite every writer waits for the file."""
    with closing(open_store(migrated_postgres_url)) as store, ThreadPoolExecutor(1) as threads:
        before, beside = created(store, NAME), created(store, "beside")

        def change() -> StoredFeed:
            with store.write() as tx:
                old = tx.registry.find(NAME, lock=True)
                assert old is not None
                return change_in(tx, old, 2)

        with store.write() as tx:
            tx.log.find_heads(before.partition_ids, lock=True)
            tx.log.append([row(before.partition_ids[0], 0)])
            changing = threads.submit(change)
            until(lambda: waiting_for_locks(migrated_postgres_url) == 1, "the change waits for the append")
            append(store, row(beside.partition_ids[0], 0))  # Nobody else waits.
            assert not changing.done()

        after = changing.result(300)
        with store.read() as tx:
            heads = tx.log.find_heads(after.partition_ids)
    assert [heads[each][:3] for each in after.partition_ids] == [(after.revision, 0, 1), (after.revision, 0, 0)]


def publish_across(hub: Hub, url: str, change: Callable[[Tx, StoredFeed], object]) -> Told:
    """Change the event type as another process, while a prepared publish waits to be appended."""
    with closing(open_store(url)) as other, other.write() as tx:
        locked = tx.registry.find(NAME, lock=True)
        assert locked is not None
        told = hub.log.submit(NAME, [a_new_event(a_business_event(number)) for number in EVENTS])
        if url.startswith("postgres"):
            until(lambda: waiting_for_locks(url) == 1, "the publish waits for the change")
        change(tx, locked)
        assert not told.done()
    return told


def change_in(tx: Tx, old: StoredFeed, partitions: int, **members: object) -> StoredFeed:
    tx.registry.update(old, EventType.of(old.event_type.definition | members, partitions), FIRST_AT)
    found = tx.registry.find(old.name)
    assert found is not None
    return found
