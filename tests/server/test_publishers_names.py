"""Events say who has published them: `published_by` in their metadata is the caller, whichever way they came."""

import asyncio
import json
import uuid
from typing import Any

import httpx2
import pytest

from penstock.core.access import Caller
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.server.authentication.tokens import TokenMethod
from penstock.storage import open_store
from penstock.testing.factories import an_event_type

NAME = "order.placed"
CALLERS = ("shop", "billing", "unauthenticated-looking-service-with-a-long-name")


def an_event(number: int) -> dict[str, Any]:
    return {"n": number, "metadata": {"eid": str(uuid.uuid4()), "occurred_at": "2026-11-29T03:00:00Z"}}


def test_each_way_of_publishing_names_the_caller(migrated_url: str) -> None:
    store = open_store(migrated_url)
    store.migrate()
    hub = Hub(store)
    app = HubApp(lambda: hub, authentication=[TokenMethod()])
    tokens = {name: hub.admin.tokens.create(Caller("service", name)).secret for name in CALLERS}
    hub.registry.create(an_event_type(NAME, category="business", partition_count=1))
    published: dict[int, str] = {}

    async def publish(http: httpx2.AsyncClient, caller: str, way: str) -> None:
        number = len(published)
        published[number] = caller
        event = an_event(number)
        headers = {"Authorization": f"Bearer {tokens[caller]}"}
        if way == "lines":
            answer = await http.post(f"/feeds/{NAME}", content=json.dumps({"data": event}), headers=headers)
        elif way == "chunks":
            answer = await http.post(f"/feeds/{NAME}?chunk=1", content=json.dumps({"data": event}), headers=headers)
        elif way == "array":
            answer = await http.post(f"/event-types/{NAME}/events", json=[event], headers=headers)
        else:
            answer = await http.post(f"/event-types/{NAME}/partitions/0/events", json=[event], headers=headers)
        assert answer.status_code == 200, answer.text

    async def main() -> list[dict[str, Any]]:
        async with app.lifespan():
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://hub") as http:
                for way in ("lines", "chunks", "array", "partition"):
                    for _ in range(2):  # The second publishes are joined.
                        await asyncio.gather(*(publish(http, caller, way) for caller in CALLERS))
                headers = {"Authorization": f"Bearer {tokens['shop']}"}
                page = await http.get(f"/feeds/{NAME}?n=1&cursor0=_first", headers=headers)
                return [json.loads(line)["data"] for line in page.text.splitlines() if "data" in json.loads(line)]

    events = asyncio.run(main())

    assert {each["n"]: each["metadata"]["published_by"] for each in events} == published
    assert len(events) == 24


@pytest.mark.parametrize(("caller", "status"), [("shop", 200), ("b" * 255, 413)], ids=["short", "long"])
def test_name_of_the_caller_counts_toward_the_largest_line(migrated_url: str, caller: str, status: int) -> None:
    store = open_store(migrated_url)
    store.migrate()
    hub = Hub(store)
    app = HubApp(lambda: hub, authentication=[TokenMethod()])
    token = hub.admin.tokens.create(Caller("service", caller)).secret
    hub.registry.create(an_event_type(NAME, category="business", partition_count=1, max_event_bytes=1_000))

    async def main() -> int:
        async with app.lifespan():
            transport = httpx2.ASGITransport(app=app)
            headers = {"Authorization": f"Bearer {token}"}
            async with httpx2.AsyncClient(transport=transport, base_url="http://hub", headers=headers) as http:
                answer = await http.post(f"/feeds/{NAME}", content=json.dumps({"data": an_event(1)}))
                return answer.status_code

    assert asyncio.run(main()) == status
