"""What callers do with a served hub is in its own event types: publishes, streams, requests."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2
import pytest

from penstock.core.access import Caller
from penstock.hub.admin.tokens import Tokens
from penstock.hub.background import system_clock
from penstock.storage import Store, open_store
from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import LiveHub
from tests.nakadi import EventType
from tests.promises.scene import until
from tests.unit.hub.feeds import find_feed, read_data

NAME = "order.placed"
ACCESS, PUBLISHED, STREAMED = "nakadi.access.log", "nakadi.batch.published", "nakadi.data.streamed"
BODY = b'{"data":{"n":1}}\n{"data":{"n":2}}\n'
Logs = dict[str, list[dict[str, Any]]]


def read_log(store: Store, name: str) -> list[dict[str, Any]]:
    feed = find_feed(store, name)
    return [json.loads(line) for each in feed.partition_ids for line in read_data(store, each)]


class Played:
    """What callers have done, and what the logs have after the hub has stopped."""

    def __init__(self, url: str) -> None:
        with closing(open_store(url)) as store:
            store.migrate()
            tokens = Tokens(store, system_clock)
            self.secrets = {name: tokens.create(Caller("service", name)).secret for name in ("shop", "root")}
            self.hub = LiveHub(url, options=["--auth", "token", "--admin", "service:root"])
            try:
                self.hub.start()
                with self.client("shop") as shop, self.client("root") as root:
                    self._play(shop, root)
                assert self.hub.stop() == 0
            finally:
                self.hub.kill()
            self.logs: Logs = {name: read_log(store, name) for name in (ACCESS, PUBLISHED, STREAMED)}

    def client(self, name: str) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {self.secrets[name]}", "User-Agent": name}
        return httpx2.Client(base_url=self.hub.url, headers=headers, trust_env=False, timeout=60)

    def _play(self, shop: httpx2.Client, root: httpx2.Client) -> None:
        for feature in ("access_log_enabled", "kpi_collection"):
            switch = {"feature": feature, "enabled": True}
            assert root.post("/settings/features", json=switch).status_code == 204
        shown = shop.post("/event-types", json=an_event_type(NAME, partition_count=1))
        assert shown.status_code == 201, shown.text
        for _ in range(2):
            assert shop.post(f"/feeds/{NAME}", content=BODY).status_code == 200
        created = EventType(shop, NAME)
        created.publish({"n": 3})
        assert shop.post(f"/feeds/{NAME}", content=b"{").status_code == 422
        assert shop.get(f"/feeds/{NAME}?n=1&cursor0=_first&access_token=hidden").status_code == 200
        assert created.read(3)
        given = {"owning_application": "shop", "event_types": [NAME], "read_from": "begin"}
        self.subscription = shop.post("/subscriptions", json=given).json()["id"]
        limits = {"stream_limit": 4, "batch_limit": 2}
        with shop.stream("GET", f"/subscriptions/{self.subscription}/events", params=limits) as streamed:
            lines = streamed.iter_lines()
            assert [len(json.loads(next(lines))["events"]) for _ in range(2)] == [2, 2]
        assert httpx2.get(f"{self.hub.url}/event-types", headers={"Authorization": "Bearer x"}).status_code == 401
        assert shop.get("/health").status_code == 200
        until(lambda: "/subscriptions" in self._read(root, ACCESS), "requests are written while the hub runs")
        assert shop.get(f"/feeds/{ACCESS}?n=1&cursor0=_first").status_code == 403

    def _read(self, http: httpx2.Client, name: str) -> str:
        answer = http.get(f"/feeds/{name}?n=1&cursor0=_first")
        assert answer.status_code == 200, answer.text
        return answer.text


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.exhaustive)])
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    url = f"sqlite:///{tmp_path_factory.mktemp('activity')}/hub.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_cluster").create_database()
    return Played(url)


def select(event: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(event[name] for name in names)


def test_publishes_of_a_caller_are_in_one_event(played: Played) -> None:
    [event] = played.logs[PUBLISHED]

    assert event["metadata"].keys() >= {"eid", "occurred_at", "received_at", "flow_id", "partition"}
    assert select(event, "event_type", "app", "token_realm") == (NAME, "shop", "service")
    assert select(event, "number_of_events", "batches") == (5, 3)
    assert event["batch_size"] == 2 * len(BODY) + len(b'[{"n":3}]')
    assert event["ms_spent"] >= 0
    assert len(event["app_hashed"]) == 64


def test_each_way_of_reading_an_event_type_is_in_one_event(played: Played) -> None:
    events = {each["api"]: each for each in played.logs[STREAMED]}

    assert len(played.logs[STREAMED]) == len(events) == 3, events
    counted = ("number_of_events", "batches_streamed", "bytes_streamed")
    assert select(events["feed"], *counted[:2]) == (5, 1)
    assert events["feed"]["bytes_streamed"] > 5 * len('{"n":1}')
    assert select(events["lola"], *counted) == (3, 3, 3 * len('{"n":1}'))
    assert select(events["hila"], *counted) == (4, 2, 4 * len('{"n":1}'))
    assert events["hila"]["subscription"] == played.subscription
    assert all("subscription" not in events[api] for api in ("feed", "lola"))
    assert {select(each, "event_type", "app", "token_realm") for each in events.values()} == {(NAME, "shop", "service")}


def test_requests_are_in_the_access_log_without_secrets_and_those_of_its_readers(played: Played) -> None:
    found = [select(each, "method", "path", "query", "app", "status_code") for each in played.logs[ACCESS]]

    assert found.count(("POST", f"/feeds/{NAME}", "", "shop", 200)) == 2
    assert ("POST", f"/feeds/{NAME}", "", "shop", 422) in found
    assert ("POST", f"/event-types/{NAME}/events", "", "shop", 200) in found
    assert ("GET", f"/feeds/{NAME}", "?n=1&cursor0=_first&access_token=***", "shop", 200) in found
    assert ("GET", "/event-types", "", "-", 401) in found
    assert ("POST", "/settings/features", "", "root", 204) in found
    assert [each for each in found if ACCESS in each[1]] == [
        ("GET", f"/feeds/{ACCESS}", "?n=1&cursor0=_first", "shop", 403)
    ], "readers of the log do not make it grow"
    assert not [each for each in found if each[1] == "/health"]
    [published] = [each for each in played.logs[ACCESS] if each["path"] == f"/event-types/{NAME}/events"
                   and each["method"] == "POST"]  # fmt: skip
    assert select(published, "request_length", "response_length", "content_encoding", "user_agent") == (
        len(b'[{"n":3}]'), 0, "-", "shop"
    )  # fmt: skip
    assert "gzip" in published["accept_encoding"]
    assert not [secret for secret in played.secrets.values() if secret in json.dumps(played.logs)]
