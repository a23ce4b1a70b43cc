"""Two hub processes on one database: blocks and features of one hold at the other soon."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from penstock.testing.live_hub import live_hub
from tests.served import Served, client_of, create, problem_of, until, waiters


class Hubs(NamedTuple):
    """The same feed, at one hub and at the other."""

    here: Served
    there: Served

    def block(self, kind: str) -> None:
        assert self.here.http.put(f"/settings/blacklist/{kind}/{self.here.name}").status_code == 204

    def unblock(self, kind: str) -> None:
        assert self.here.http.delete(f"/settings/blacklist/{kind}/{self.here.name}").status_code == 204


@pytest.fixture
def hubs(migrated_url: str, tmp_path: Path) -> Iterator[Hubs]:
    with ExitStack() as stack:
        clients: list[httpx2.Client] = []
        for name in ("here", "there"):
            hub = stack.enter_context(live_hub(migrated_url, log=tmp_path / f"{name}.log"))
            clients.append(stack.enter_context(client_of(hub)))
        here = create(clients[0])
        yield Hubs(here, Served(clients[1], here.name, here.partitions))


def test_block_or_feature_of_one_hub_holds_at_the_other(hubs: Hubs) -> None:
    with ThreadPoolExecutor(1) as threads:
        wait = threads.submit(hubs.there.get, n=1, cursor0="_last", wait=60)
        until(lambda: waiters(hubs.there.http) == 1)
        hubs.block("CONSUMER_ET")
        problem_of(wait.result(timeout=300), 403, "blocked")

    def is_taken() -> bool:
        return hubs.there.post(b'{"data":{}}').status_code == 200

    def is_on() -> bool:
        shown = hubs.there.http.get("/settings/features").json()["items"]
        return {"feature": "disable_event_type_creation", "enabled": True} in shown

    assert is_taken()
    hubs.block("PRODUCER_ET")
    until(lambda: not is_taken())
    hubs.unblock("PRODUCER_ET")
    until(is_taken)

    assert not is_on()
    body = {"feature": "disable_event_type_creation", "enabled": True}
    assert hubs.here.http.post("/settings/features", json=body).status_code == 204
    until(is_on)
