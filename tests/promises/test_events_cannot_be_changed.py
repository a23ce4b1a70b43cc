"""The database itself refuses changes of events."""

import pytest

from penstock.hub.hub import Hub
from tests.promises.scene import DRIVER_ERRORS, NAME, event, feed, rows_of

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
