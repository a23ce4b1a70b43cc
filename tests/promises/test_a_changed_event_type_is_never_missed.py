"""What one hub process changes of an event type holds at once for those who publish through another."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

import httpx2
import pytest

from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import live_hub

NAME = "order.placed"


@pytest.fixture
def hubs(database_url: str) -> Iterator[tuple[httpx2.Client, httpx2.Client]]:
    """Two hub processes on one database; the second has published already, so it remembers the event type."""
    with ExitStack() as stack:
        here, there = (
            stack.enter_context(httpx2.Client(base_url=stack.enter_context(live_hub(database_url)).url))
            for _ in range(2)
        )
        created = here.post("/event-types", json=defined())
        assert created.status_code == 201, created.text
        assert publish(there, {"n": 1}) == 200
        yield here, there


def defined(properties: str = '{"n": {"type": "integer"}}', **members: object) -> dict[str, object]:
    schema = {"type": "json_schema", "schema": f'{{"properties": {properties}, "additionalProperties": false}}'}
    return an_event_type(NAME, schema=schema, compatibility_mode="none") | members


def publish(hub: httpx2.Client, event: dict[str, object]) -> int:
    """Publish in both shapes; return the status that both have."""
    lines = hub.post(f"/feeds/{NAME}", content=json.dumps({"data": event}))
    array = hub.post(f"/event-types/{NAME}/events", json=[event])
    assert lines.status_code == array.status_code, (lines.text, array.text)
    return lines.status_code


def test_a_schema_that_allows_more(hubs: tuple[httpx2.Client, httpx2.Client]) -> None:
    here, there = hubs
    assert publish(there, {"n": 1, "more": 1}) == 422
    assert here.put(f"/event-types/{NAME}", json=defined('{"n": {}, "more": {}}')).status_code == 200

    assert publish(there, {"n": 1, "more": 1}) == 200


def test_a_schema_that_allows_less(hubs: tuple[httpx2.Client, httpx2.Client]) -> None:
    here, there = hubs
    assert here.put(f"/event-types/{NAME}", json=defined('{"n": {"type": "string"}}')).status_code == 200

    assert publish(there, {"n": 1}) == 422
    assert publish(there, {"n": "1"}) == 200


def test_partitions_that_are_added(hubs: tuple[httpx2.Client, httpx2.Client]) -> None:
    here, there = hubs
    asked = {"data": {"n": 1}, "partition": 1}
    chosen = defined(partition_strategy="user_defined")
    assert here.put(f"/event-types/{NAME}", json=chosen).status_code == 200
    assert there.post(f"/feeds/{NAME}", json=asked).status_code == 422
    assert here.put(f"/event-types/{NAME}/partition-count", json={"partition_count": 2}).status_code == 204

    assert there.post(f"/feeds/{NAME}", json=asked).status_code == 200


def test_an_event_type_that_is_gone_and_one_that_is_new(hubs: tuple[httpx2.Client, httpx2.Client]) -> None:
    here, there = hubs
    assert here.delete(f"/event-types/{NAME}").status_code == 200
    assert publish(there, {"n": "x"}) == 404
    assert publish(there, {"n": 1}) == 404
    assert here.post("/event-types", json=defined('{"n": {"type": "string"}}')).status_code == 201

    assert publish(there, {"n": "x"}) == 200
