"""Guidelines of event types: the hub warns of broken ones, or refuses them."""

import pytest
from starlette.testclient import TestClient

from penstock.server import HubApp
from penstock.testing.factories import an_event_type

KEPT = an_event_type(
    "order.placed",
    category="business",
    owning_application="shop",
    schema={
        "type": "json_schema",
        "schema": '{"properties": {"process_id": {"type": "string"}, "version": {"type": "integer"}},'
        ' "required": ["process_id", "version"]}',
    },
    ordering_key_fields=["version"],
)
BROKEN = KEPT | {"name": "order.shipped", "owning_application": ""}
WAIVED = BROKEN | {"annotations": {"penstock.waiver/ownership": "Nobody owns it, on purpose."}}


def test_broken_guideline_is_a_warning_unless_it_is_waived(sqlite_url: str) -> None:
    with TestClient(HubApp(sqlite_url)) as hub:
        assert "warning" not in hub.post("/event-types", json=KEPT).headers
        checked = hub.post("/event-types/order.shipped/definition-check", json=BROKEN)
        answer = hub.post("/event-types", json=BROKEN)
        again = hub.put("/event-types/order.shipped", json=WAIVED)

    assert answer.status_code == 201
    assert answer.headers["warning"].startswith('299 penstock "MUST ownership')
    assert (checked.status_code, checked.headers["warning"]) == (204, answer.headers["warning"])
    assert (again.status_code, "warning" in again.headers) == (200, False)


def test_broken_guideline_is_refused_by_a_hub_that_refuses(sqlite_url: str) -> None:
    with TestClient(HubApp(sqlite_url, guidelines="refuse")) as hub:
        answers = [hub.post("/event-types", json=each) for each in (KEPT, BROKEN, WAIVED)]
        changed = hub.put("/event-types/order.placed", json=KEPT | {"owning_application": ""})
        left = hub.get("/event-types/order.placed").json()["owning_application"]

    assert [answer.status_code for answer in answers] == [201, 422, 201]
    assert answers[1].json()["type"] == "urn:penstock:problem:guidelines-broken"
    assert "ownership" in answers[1].json()["broken"][0]
    assert (changed.status_code, left) == (422, "shop")


@pytest.mark.parametrize("guidelines", ["warn", "refuse"])
def test_warning_of_a_definition_with_line_breaks_has_none(sqlite_url: str, guidelines: str) -> None:
    strange = BROKEN | {"name": "a", "partition_key_fields": ['x"\n\r\u2028\\'], "partition_strategy": "hash"}

    with TestClient(HubApp(sqlite_url, guidelines=guidelines)) as hub:  # type: ignore[arg-type]
        answer = hub.post("/event-types", json=strange)

    assert answer.status_code in (201, 422)
    assert answer.headers.get("warning", "").isprintable()


def test_schema_that_breaks_a_guideline_is_refused(sqlite_url: str) -> None:
    personal = KEPT["schema"]["schema"].replace('"properties": {', '"properties": {"email": {"type": "string"}, ')

    with TestClient(HubApp(sqlite_url, guidelines="refuse")) as hub:
        hub.post("/event-types", json=KEPT)
        answer = hub.post("/event-types/order.placed/schemas", json={"type": "json_schema", "schema": personal})

    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:penstock:problem:guidelines-broken"
