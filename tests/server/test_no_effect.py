"""An answer warns of given members that have no effect."""

import uuid
from typing import Any

import httpx2
import pytest

from penstock.testing.factories import an_event_type
from tests.served import Served, as_new

ANYBODY = [{"data_type": "user", "value": "ada"}]
LISTS = {"admins": ANYBODY, "readers": ANYBODY, "writers": ANYBODY}
SELECTOR = {"type": "static", "name": "owner", "value": "ada"}
BUSINESS = {"category": "business", "enrichment_strategies": ["metadata_enrichment"]}
GIVEN: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "nulls": ({"authorization": None, "options": {"retention_time": None}, "event_owner_selector": None}, []),
    "authorization": ({"authorization": LISTS}, ["authorization"]),
    "retention": ({"options": {"retention_time": 86_400_000}}, []),
    "selector": ({"event_owner_selector": SELECTOR}, ["event_owner_selector"]),
    "compaction": (BUSINESS | {"cleanup_policy": "compact"}, []),
    "all": (
        {"authorization": LISTS, "event_owner_selector": SELECTOR},
        ["authorization", "event_owner_selector"],
    ),
}


def warnings_of(answer: httpx2.Response) -> list[str]:
    """Return the members without effect in the warnings of *answer*."""
    assert answer.is_success, answer.text
    lines = answer.headers.get_list("warning")
    assert all(line.startswith('299 penstock "') for line in lines)
    return [line.partition(" has no effect:")[0].rpartition(": ")[2] for line in lines if "no effect:" in line]


@pytest.mark.parametrize(("given", "fields"), GIVEN.values(), ids=GIVEN)
def test_event_type_is_answered_with_warnings_of_members_without_effect(
    http: httpx2.Client, given: dict[str, Any], fields: list[str]
) -> None:
    name = f"test.{uuid.uuid4().hex}"
    definition = an_event_type(name, **given)
    assert warnings_of(http.post("/event-types", json=definition)) == fields
    assert warnings_of(http.put(f"/event-types/{name}", json=definition)) == fields
    assert "warning" not in http.get(f"/event-types/{name}").headers


def test_retention_that_stays_is_not_warned_of(http: httpx2.Client) -> None:
    name = f"test.{uuid.uuid4().hex}"
    http.post("/event-types", json=an_event_type(name, options={"retention_time": 86_400_000}))
    assert warnings_of(http.put(f"/event-types/{name}", json=an_event_type(name))) == []
    assert http.get(f"/event-types/{name}").json()["options"]["retention_time"] == 86_400_000


def test_authorization_of_subscriptions_is_warned_of(feed: Served) -> None:
    definition = {"owning_application": "x", "event_types": [feed.name]}
    plain = feed.http.post("/subscriptions", json=definition)
    named = feed.http.post("/subscriptions", json=definition | {"consumer_group": "b", "authorization": LISTS})
    again = feed.http.put(f"/subscriptions/{named.json()['id']}", json=named.json())

    assert [warnings_of(each) for each in (plain, named, again)] == [[], ["authorization"], ["authorization"]]


def test_administrators_are_warned_of(http: httpx2.Client) -> None:
    administered = http.post("/settings/admins", json=LISTS)
    as_new(http)

    assert "administrators have no effect here" in administered.headers["warning"]


def test_event_type_without_retention_shows_none(http: httpx2.Client) -> None:
    """Clients of Nakadi compute with the member if it is there."""
    for options in ({}, {"options": None}, {"options": {}}, {"options": {"retention_time": None}}):
        name = f"test.{uuid.uuid4().hex}"
        http.post("/event-types", json=an_event_type(name, **options))
        assert http.get(f"/event-types/{name}").json()["options"] == {}
