"""The database itself refuses changes of events; only dropping an event type removes its events."""

import pytest

from penstock.hub.hub import Hub
from penstock.testing.factories import an_event_type
from tests.promises.scene import DRIVER_ERRORS, NAME, event, feed, hub_on, rows_of

CHANGES = {
    "sqlite": [
        "UPDATE penstock_event SET data = '{}'",
        "UPDATE OR REPLACE penstock_event SET place = place - 1",
        "DELETE FROM penstock_event",
    ],
    "postgresql": [
        "UPDATE penstock_event SET data = '{}'",
        "DELETE FROM penstock_event",
        "TRUNCATE penstock_event",
        "WITH gone AS (DELETE FROM penstock_event RETURNING *) SELECT count(*) FROM gone",
    ],
}


def test_database_refuses_to_change_or_remove_an_event(hub: Hub, url: str) -> None:
    hub.log.publish(NAME, [event({"n": n}) for n in range(3)])
    for change in CHANGES[url.partition(":")[0]]:
        with pytest.raises(DRIVER_ERRORS, match="penstock: events are"):
            rows_of(url, change)

        assert feed(hub) == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_dropping_an_event_type_removes_its_events_only(url: str) -> None:
    with hub_on(url, partitions=2) as hub:
        hub.registry.create(an_event_type("kept.one"))
        hub.log.publish("kept.one", [event({"n": "kept"})])
        hub.log.publish(NAME, [event({"n": n}, n % 2) for n in range(100)])

        hub.registry.delete(NAME)
        hub.log.publish("kept.one", [event({"n": "later"})])
        hub.stop()  # The sweeper ends after the transaction at hand …

    with hub_on(url) as hub:  # … and goes on in the next hub.
        for _ in range(100):
            with hub.store.write() as tx:
                if not tx.registry.sweep(1000):
                    break
        assert rows_of(url, "SELECT count(*) FROM penstock_event")[0][0] == 2
        assert [each["n"] for each in feed(hub, name="kept.one")] == ["kept", "later"]
