"""An event type tells who has published to it in the last 30 days, and which consumer groups read it."""

from starlette.testclient import TestClient

from penstock.core.access import Caller
from penstock.core.groups.groups import PositionCommit
from penstock.core.subscriptions.definition import complete_subscription
from penstock.hub.admin.publishers import KEPT_US, NOTE_INTERVAL
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.server.authentication.tokens import TokenMethod
from penstock.storage import open_store
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import an_event_type
from tests.server.in_process import open_hub

NAME = "order.placed"


def publish_and_refuse(http: TestClient) -> None:
    """Publish an event, and another one that is refused."""
    assert http.post(f"/feeds/{NAME}", content=b'{"data":{"id":1}}').status_code == 200
    assert http.post(f"/feeds/{NAME}", content=b'{"data":7}').status_code == 422


def test_event_type_tells_its_producers_and_consumers(migrated_url: str) -> None:
    hub = open_hub(migrated_url)
    app = HubApp(lambda: hub, authentication=[TokenMethod()])
    token = hub.admin.tokens.create(Caller("service", "shop")).secret
    hub.registry.create(an_event_type(NAME, partition_count=1))
    subscription = {"owning_application": "mail", "event_types": [NAME]}
    found, _ = hub.subscriptions.create(complete_subscription(subscription))
    hub.groups.commit("reports", "processor", [PositionCommit(NAME, 0, 0)])

    with TestClient(app, headers={"Authorization": f"Bearer {token}"}) as http:
        publish_and_refuse(http)
        links = http.get(f"/event-types/{NAME}").links
        producers = http.get(links["producers"]["url"]).json()["items"]
        consumers = http.get(links["consumers"]["url"]).json()["items"]
        assert http.get("/event-types/no.such/producers").status_code == 404

    assert [each["caller"] for each in producers] == ["service:shop"]
    assert producers[0]["last_seen"] > "2026"
    group, sub = sorted(consumers, key=lambda each: each["kind"])
    assert (group["group"], group["kind"], group["owner"]) == ("reports", "processor", None)
    assert group["last_commit"] is not None
    assert (sub["group"], sub["owning_application"], sub["last_commit"]) == (found.id, "mail", None)


def test_producers_are_recorded_in_the_background_and_forgotten_after_30_days(
    migrated_url: str,
) -> None:
    clock = VirtualClock()
    hub, other = (Hub(open_store(migrated_url), clock=clock) for _ in range(2))
    hub.store.migrate()
    hub.registry.create(an_event_type(NAME))
    publishers, caller = hub.admin.publishers, Caller("service", "shop")
    publishers.note(NAME, caller)
    publishers.record()
    assert (list(publishers.list(NAME)), list(other.admin.publishers.list(NAME))) == (["service:shop"], [])

    publishers.record(lambda: 1e12)
    assert list(other.admin.publishers.list(NAME)) == ["service:shop"]

    clock.advance(seconds=KEPT_US / 1_000_000 + 1)
    assert list(other.admin.publishers.list(NAME)) == []
    publishers.note(NAME, Caller("service", "billing"))
    publishers.record(lambda: 1e12 + 2 * NOTE_INTERVAL)
    assert list(other.admin.publishers.list(NAME)) == ["service:billing"]
    hub.registry.delete(NAME)
    clock.advance(seconds=1)
    hub.registry.create(an_event_type(NAME))
    assert list(other.admin.publishers.list(NAME)) == []
    for each in (hub, other):
        each.stop()


def test_event_types_of_an_open_hub_have_no_known_producers(sqlite_url: str) -> None:
    hub = open_hub(sqlite_url)
    hub.registry.create(an_event_type(NAME))
    with TestClient(HubApp(lambda: hub)) as http:
        publish_and_refuse(http)
        assert http.get(f"/event-types/{NAME}/producers").json()["items"] == []
