"""The event type of dead letters is created for the first subscription that needs it."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from penstock.hub.subscriptions.dead_letters import DEAD_LETTERS
from penstock.server import HubApp
from penstock.testing.factories import an_event_type

PREFIX = "nakadi.zalando.org/subscription-"
POLICY = {f"{PREFIX}max-event-send-count": "2", f"{PREFIX}unprocessable-event-policy": "DEAD_LETTER_QUEUE"}
READS = {"owning_application": "a", "event_types": ["a.b"]}


@pytest.fixture(params=[False, True], ids=["plain", "strict"])
def http(sqlite_url: str, request: pytest.FixtureRequest) -> Iterator[TestClient]:
    with TestClient(HubApp(sqlite_url, nakadi_strict=request.param)) as http:
        assert http.post("/event-types", json=an_event_type("a.b")).status_code == 201
        yield http


def is_there(http: TestClient) -> bool:
    return http.get(f"/event-types/{DEAD_LETTERS}").status_code == 200


def test_subscription_to_the_dead_letters_creates_their_event_type(http: TestClient) -> None:
    assert http.post("/subscriptions", json=READS | {"event_types": ["nowhere", DEAD_LETTERS]}).status_code == 422
    assert not is_there(http)
    made = http.post("/subscriptions", json=READS | {"event_types": [DEAD_LETTERS, "a.b"], "read_from": "begin"})
    again = http.post("/subscriptions", json=READS | {"event_types": [DEAD_LETTERS], "consumer_group": "b"})

    assert [made.status_code, again.status_code] == [201, 201]
    assert is_there(http)


def test_subscription_with_a_dead_letter_policy_creates_their_event_type(http: TestClient) -> None:
    made = http.post("/subscriptions", json=READS).json()
    assert not is_there(http)
    changed = http.put(f"/subscriptions/{made['id']}", json=made | {"annotations": POLICY})

    assert changed.status_code == 204, changed.text
    assert is_there(http)
    assert http.delete(f"/event-types/{DEAD_LETTERS}").status_code == 200
    assert http.post("/subscriptions", json=READS | {"consumer_group": "b", "annotations": POLICY}).status_code == 201
    assert is_there(http)
