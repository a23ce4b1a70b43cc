"""A reset that fails leaves its subscription as it was, and the next reset or stream begins at once."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.core.subscriptions.definition import complete_subscription
from penstock.core.subscriptions.delivery import DeliveryRules
from penstock.errors import DatabaseUnavailable
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.testing.factories import a_new_event, an_event_type
from tests.served import problem_of
from tests.server.in_process import open_hub

NAME = "order.placed"
RULES = DeliveryRules(max_uncommitted=9, batch_limit=1, flush_timeout=30, commit_timeout=60, bytes_max=1 << 20)
BEHIND_THE_FIRST = {"items": [{"event_type": NAME, "partition": "0", "offset": "001-0001-000000000000000000"}]}


def fail_once(monkeypatch: pytest.MonkeyPatch, hub: Hub, name: str) -> None:
    """Make the first call of the method *name* of the resets fail, as if the database were away."""
    real, calls = getattr(hub.subscriptions.resets, name), []

    def fail(*given: Any, **named: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            raise DatabaseUnavailable(reason=f"away at {name}", retry_after=1)
        return real(*given, **named)

    monkeypatch.setattr(hub.subscriptions.resets, name, fail)


@pytest.mark.parametrize("undone", [True, False], ids=["it could be undone", "it could not be undone either"])
def test_reset_that_fails_raises_its_error_and_leaves_the_subscription(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch, undone: bool
) -> None:
    hub = open_hub(migrated_url)
    with TestClient(HubApp(lambda: hub)) as http:
        hub.registry.create(an_event_type(NAME))
        hub.log.publish(NAME, [a_new_event()])
        given = {"owning_application": "shop", "event_types": [NAME], "read_from": "begin"}
        wanted = hub.subscriptions.create(complete_subscription(given))[0].id
        fail_once(monkeypatch, hub, "finish")
        if not undone:
            fail_once(monkeypatch, hub, "cancel")

        failed = http.patch(f"/subscriptions/{wanted}/cursors", json=BEHIND_THE_FIRST)

        assert "away at finish" in problem_of(failed, 503, "database-unavailable")["detail"]
        assert [slot.offset for slot in hub.subscriptions.sessions.snapshot(wanted).slots] == [0]
        again = http.patch(f"/subscriptions/{wanted}/cursors", json=BEHIND_THE_FIRST)
        if undone:
            assert again.status_code == 204, again.text
            assert [slot.offset for slot in hub.subscriptions.sessions.snapshot(wanted).slots] == [1]
            hub.subscriptions.streams.open(wanted, frozenset(), RULES).close()
        else:
            problem_of(again, 409, "reset-under-way")
