"""GET /groups/{group}/lag: what the hub has measured in the background, while nobody asked."""

import asyncio
from urllib.parse import quote

import pytest

from penstock.core.groups.groups import PositionCommit
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.factories import a_new_event, an_event_type
from tests.served import problem_of
from tests.server.in_process import serve

pytestmark = pytest.mark.anyio
NAME, GROUP = "order.placed", "team/mailer"


async def test_gap_and_lag_of_a_group_are_recorded_while_nobody_asks(migrated_url: str) -> None:
    hub = Hub(open_store(migrated_url), lag_interval=0.05)
    hub.store.migrate()
    hub.registry.create(an_event_type(NAME, partition_count=1))
    hub.log.publish(NAME, [a_new_event()] * 3)
    hub.groups.commit(GROUP, "processor", [PositionCommit(NAME, 0, 1)])
    history = hub.admin.database.lag_history
    hub.start()

    async with serve(hub) as here, asyncio.timeout(300):
        while len(history.list(GROUP)) < 2:  # noqa: ASYNC110 - nobody tells when the hub has measured
            await asyncio.sleep(0.01)
        answer = await here.http.get(f"/groups/{quote(GROUP, safe='')}/lag")
        unknown = await here.http.get("/groups/nobody/lag")

    found = answer.json()
    times = [each["at"] for each in found["items"]]
    assert answer.status_code == 200
    assert times == sorted(times)
    assert times[0] >= found["since"] > "2026"
    assert {each["gap"] for each in found["items"]} == {2}
    assert 0 <= found["items"][0]["lag_seconds"] < found["items"][-1]["lag_seconds"] < 300
    problem_of(unknown, 404, "group-not-found")


async def test_lag_of_a_group_that_was_not_measured_yet_is_empty(migrated_url: str) -> None:
    hub = Hub(open_store(migrated_url))
    hub.store.migrate()
    hub.registry.create(an_event_type(NAME))
    hub.groups.commit(GROUP, "processor", [PositionCommit(NAME, 0, 0)])

    async with serve(hub) as here:
        found = (await here.http.get(f"/groups/{quote(GROUP, safe='')}/lag")).json()
        metrics = await here.http.get("/metrics")
        later = (await here.http.get(f"/groups/{quote(GROUP, safe='')}/lag")).json()

    assert found["items"] == []
    assert metrics.status_code == 200
    assert later == {"items": [{"at": later["items"][0]["at"], "gap": 0, "lag_seconds": 0}], "since": found["since"]}
