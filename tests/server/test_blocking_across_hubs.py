"""Two hub processes on one database: who is blocked at one is blocked at the other within about a second."""

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


def test_a_wait_at_the_other_hub_ends(hubs: Hubs) -> None:
    with ThreadPoolExecutor(1) as threads:
        wait = threads.submit(hubs.there.get, n=1, cursor0="_last", wait=60)
        until(lambda: waiters(hubs.there.http) == 1)
        hubs.block("CONSUMER_ET")

        problem_of(wait.result(timeout=300), 403, "blocked")


def test_the_other_hub_takes_no_events_until_that_is_lifted(hubs: Hubs) -> None:
    def taken() -> bool:
        return hubs.there.post(b'{"data":{}}').status_code == 200

    assert taken()
    for change, is_taken in ((hubs.block, False), (hubs.unblock, True)):
        change("PRODUCER_ET")
        until(lambda is_taken=is_taken: taken() == is_taken)


def test_features_are_the_same_at_both(hubs: Hubs) -> None:
    def is_on() -> bool:
        shown = hubs.there.http.get("/settings/features").json()["items"]
        return {"feature": "disable_event_type_creation", "enabled": True} in shown

    assert not is_on()
    body = {"feature": "disable_event_type_creation", "enabled": True}
    assert hubs.here.http.post("/settings/features", json=body).status_code == 204
    until(is_on)
