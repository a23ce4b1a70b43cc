"""Events say who has published them: `published_by` in their metadata is the caller, whichever way they came."""

import asyncio
import json
import uuid
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.core.access import Caller
from penstock.server import HubApp
from penstock.server.authentication.tokens import TokenMethod
from penstock.testing.factories import an_event_type
from tests.server.in_process import Here, open_hub, serve

NAME = "order.placed"
CALLERS = ("shop", "billing", "unauthenticated-looking-service-with-a-long-name")


def an_event(number: int) -> dict[str, Any]:
    return {"n": number, "metadata": {"eid": str(uuid.uuid4()), "occurred_at": "2026-11-29T03:00:00Z"}}


async def publish(here: Here, way: str, event: dict[str, Any], token: str) -> None:
    path, body = {
        "lines": (f"/feeds/{NAME}", {"data": event}),
        "chunks": (f"/feeds/{NAME}?chunk=1", {"data": event}),
        "array": (f"/event-types/{NAME}/events", [event]),
        "partition": (f"/event-types/{NAME}/partitions/0/events", [event]),
    }[way]
    answer = await here.http.post(path, json=body, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text


@pytest.mark.anyio
async def test_each_way_of_publishing_names_the_caller(migrated_url: str) -> None:
    hub = open_hub(migrated_url)
    tokens = {name: hub.admin.tokens.create(Caller("service", name)).secret for name in CALLERS}
    hub.registry.create(an_event_type(NAME, category="business", partition_count=1))
    published: dict[int, str] = {}
    async with serve(hub, authentication=[TokenMethod()]) as here:
        for way in ("lines", "chunks", "array", "partition"):
            for _ in range(2):  # The second publishes are joined.
                numbers = {len(published) + place: caller for place, caller in enumerate(CALLERS)}
                published |= numbers
                await asyncio.gather(
                    *(publish(here, way, an_event(number), tokens[caller]) for number, caller in numbers.items())
                )
        headers = {"Authorization": f"Bearer {tokens['shop']}"}
        page = await here.http.get(f"/feeds/{NAME}?n=1&cursor0=_first", headers=headers)
    events = [line["data"] for line in map(json.loads, page.text.splitlines()) if "data" in line]

    assert {each["n"]: each["metadata"]["published_by"] for each in events} == published
    assert len(events) == 24


@pytest.mark.parametrize(("caller", "status"), [("shop", 200), ("b" * 255, 413)], ids=["short", "long"])
def test_name_of_the_caller_counts_toward_the_largest_line(sqlite_url: str, caller: str, status: int) -> None:
    hub = open_hub(sqlite_url)
    token = hub.admin.tokens.create(Caller("service", caller)).secret
    hub.registry.create(an_event_type(NAME, category="business", partition_count=1, max_event_bytes=1_000))
    app = HubApp(lambda: hub, authentication=[TokenMethod()])
    with TestClient(app, headers={"Authorization": f"Bearer {token}"}) as http:
        assert http.post(f"/feeds/{NAME}", content=json.dumps({"data": an_event(1)})).status_code == status
