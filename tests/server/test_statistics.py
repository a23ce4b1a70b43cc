"""`GET /statistics`: figures of all event types that the caller may view."""

import pytest
from starlette.testclient import TestClient

from penstock.core.access import Caller
from penstock.errors import DatabaseUnavailable
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.server.authentication.tokens import TokenMethod
from penstock.storage import open_store
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_new_event, an_event_type
from tests.served import problem_of


def open_at(url: str, clock: VirtualClock) -> Hub:
    hub = Hub(open_store(url), clock=clock)
    hub.store.migrate()
    return hub


def test_statistics_have_the_figures_of_each_event_type(migrated_url: str) -> None:
    hub = open_at(migrated_url, VirtualClock())
    for name in ("order.placed", "order.shipped"):
        hub.registry.create(an_event_type(name, partition_count=2, owning_application="shop"))
    hub.log.publish("order.placed", [a_new_event({"id": number}, partition=number % 2) for number in range(5)])
    with TestClient(HubApp(lambda: hub)) as http:
        shown = http.get("/statistics").json()

    placed, shipped = shown["items"]
    assert placed["bytes"] > 0
    assert placed | {"bytes": 0} == {
        "name": "order.placed",
        "owning_application": "shop",
        "category": "undefined",
        "partition_count": 2,
        "events": 5,
        "bytes": 0,
        "newest_at": shown["measured_at"],
    }
    assert (shipped["name"], shipped["events"], shipped["bytes"], shipped["newest_at"]) == (
        "order.shipped",
        0,
        None,
        None,
    )


def test_statistics_show_what_the_caller_may_view_alone(migrated_url: str) -> None:
    hub = open_at(migrated_url, VirtualClock())
    lists = {each: [{"data_type": "service", "value": "shop"}] for each in ("admins", "readers", "writers")}
    hub.registry.create(an_event_type("order.placed", authorization=lists))
    app = HubApp(lambda: hub, authentication=[TokenMethod()], administrators=["service:root"])
    seen = {}
    with TestClient(app) as http:
        for name in ("shop", "stranger", "root"):
            token = hub.admin.tokens.create(Caller("service", name)).secret
            items = http.get("/statistics", headers={"Authorization": f"Bearer {token}"}).json()["items"]
            seen[name] = [each["name"] for each in items if not each["name"].startswith("nakadi.")]
        problem_of(http.get("/statistics"), 401, "unauthenticated")

    assert seen == {"shop": ["order.placed"], "stranger": [], "root": ["order.placed"]}


def test_statistics_show_no_event_type_that_was_deleted_after_they_were_measured(migrated_url: str) -> None:
    hub = open_at(migrated_url, VirtualClock())
    lists = {each: [{"data_type": "service", "value": "shop"}] for each in ("admins", "readers", "writers")}
    hub.registry.create(an_event_type("order.placed", authorization=lists))
    app = HubApp(lambda: hub, authentication=[TokenMethod()], administrators=["service:root"])
    shown = []
    with TestClient(app) as http:
        token = hub.admin.tokens.create(Caller("service", "stranger")).secret
        for delete in (lambda: None, lambda: hub.registry.delete("order.placed")):
            delete()
            hub.admin.permissions.refresh()
            items = http.get("/statistics", headers={"Authorization": f"Bearer {token}"}).json()["items"]
            shown += [each["name"] for each in items if not each["name"].startswith("nakadi.")]

    assert shown == []


def test_statistics_of_a_database_that_does_not_answer_are_refused(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = open_at(sqlite_url, VirtualClock())

    def fail(*_: object) -> None:
        raise DatabaseUnavailable(reason="gone", retry_after=1)

    monkeypatch.setattr(hub.admin.database, "measure_event_types", fail)
    with TestClient(HubApp(lambda: hub)) as http:
        problem_of(http.get("/statistics"), 503, "database-unavailable")
