"""The audit log over HTTP: who made a change, and from where."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.core.access import Caller
from penstock.server import HubApp
from penstock.server.authentication.tokens import TokenMethod
from penstock.testing.factories import an_event_type
from tests.server.in_process import open_hub

NAME, AUDIT = "order.placed", "nakadi.audit.log"
ADDRESS = "10.0.0.7"


class Scene:
    """A hub that knows callers by tokens, and a client for each of them."""

    def __init__(self, url: str) -> None:
        self.hub = open_hub(url)
        self.app = HubApp(lambda: self.hub, authentication=[TokenMethod()], administrators=["service:root"])

    def http(self, name: str) -> TestClient:
        token = self.hub.admin.tokens.create(Caller("service", name)).secret
        headers = {"Authorization": f"Bearer {token}"}
        return TestClient(self.app, client=(ADDRESS, 1), headers=headers)


@pytest.fixture
def secured(migrated_url: str) -> Iterator[Scene]:
    scene = Scene(migrated_url)
    with TestClient(scene.app):
        yield scene


def read_audit(http: TestClient) -> list[dict[str, Any]]:
    """Return the events of the audit log, but the switches that began it."""
    answer = http.get(f"/feeds/{AUDIT}?n=1&cursor0=_first")
    assert answer.status_code == 200, answer.text
    events = [json.loads(line)["data"] for line in answer.text.splitlines() if "data" in json.loads(line)]
    return [each for each in events if each["resource_type"] not in ("feature", "token")]


def test_audit_log_names_the_caller_and_its_address(secured: Scene) -> None:
    shop, root = secured.http("shop"), secured.http("root")

    assert shop.post("/event-types", json=an_event_type(NAME, partition_count=1)).status_code == 201
    assert root.put(f"/event-types/{NAME}/partition-count", json={"partition_count": 2}).status_code == 204
    assert root.put("/settings/blacklist/CONSUMER_ET/x").status_code == 204
    assert shop.delete(f"/event-types/{NAME}").status_code == 200

    events = read_audit(root)
    assert [(each["user"], each["resource_type"], each["action"]) for each in events] == [
        ("shop", "event_type", "created"),
        ("root", "event_type", "updated"),
        ("root", "blacklist_entry", "created"),
        ("shop", "event_type", "deleted"),
    ]
    assert {(each["user_type"], each["address"]) for each in events} == {("service", ADDRESS)}


def test_audit_log_is_hidden_from_those_who_may_not_read_it(secured: Scene) -> None:
    shop, root = secured.http("shop"), secured.http("root")

    assert shop.get(f"/feeds/{AUDIT}?n=1&cursor0=_first").status_code == 403
    assert shop.get(f"/event-types/{AUDIT}").status_code == 403
    given = {"owning_application": "shop", "event_types": [AUDIT], "read_from": "begin"}
    assert shop.post("/subscriptions", json=given).status_code == 403
    assert AUDIT not in [each["name"] for each in shop.get("/event-types").json()]
    assert AUDIT in [each["name"] for each in root.get("/event-types").json()]


def test_audit_log_of_an_open_hub_has_addresses_without_callers(migrated_url: str) -> None:
    hub = open_hub(migrated_url)
    with TestClient(HubApp(lambda: hub), client=(ADDRESS, 1)) as http:
        assert http.get(f"/event-types/{AUDIT}").status_code == 404
        assert http.post("/settings/features", json={"feature": "audit_log_collection", "enabled": True}).is_success
        assert http.post("/event-types", json=an_event_type(NAME)).status_code == 201

        [event] = read_audit(http)
    assert (event["user"], event["user_type"], event["address"]) == ("unauthenticated", "service", ADDRESS)


def test_events_of_others_are_refused_in_the_audit_log(secured: Scene) -> None:
    root = secured.http("root")
    metadata = {"eid": "038fc871-1d2c-4e2e-aa29-1579e8f2e71f", "occurred_at": "2026-11-29T00:00:00Z"}
    event = {"metadata": metadata, "resource_id": "x"}

    answers = [
        root.post(f"/feeds/{AUDIT}", content=json.dumps({"data": event})),
        root.post(f"/event-types/{AUDIT}/events", json=[event]),
    ]

    assert [each.status_code for each in answers] == [409, 422], [each.text for each in answers]
    assert answers[0].json()["type"] == "urn:penstock:problem:events-of-the-hub"
    assert read_audit(root) == []


def test_change_of_the_readers_of_replicas_is_in_the_audit_log(secured: Scene) -> None:
    root, readers = secured.http("root"), {"readers": [{"data_type": "service", "value": "analytics"}]}

    assert root.put("/settings/replicas", json=readers).status_code == 200

    [event] = read_audit(root)
    assert (event["user"], event["resource_type"], event["resource_id"]) == ("root", "replicas", "readers")
    assert (event["previous_object"], event["new_object"]) == ({"readers": None}, readers)


def test_change_of_the_retention_is_in_the_audit_log(secured: Scene) -> None:
    root, limits = secured.http("root"), {"retention_time": 86_400_000, "retention_bytes": None}

    assert root.put("/settings/retention", json=limits).status_code == 200

    [event] = read_audit(root)
    assert (event["user"], event["resource_type"], event["action"]) == ("root", "retention", "updated")
    assert (event["previous_object"], event["new_object"]) == (dict.fromkeys(limits), limits)
