"""Settings over HTTP, in Nakadi's shape: administrators, the blacklist, features."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from penstock.hub.settings import BLOCK_KINDS, FEATURES
from tests.served import as_new, create, problem_of

ADA, BOB = {"data_type": "user", "value": "ada"}, {"data_type": "service", "value": "bob"}
LISTS = {"admins": [ADA, BOB], "readers": [ADA], "writers": [BOB]}
NOTHING = {"producers": {"event_types": [], "apps": []}, "consumers": {"event_types": [], "apps": []}}


@pytest.fixture(autouse=True)
def restored(either_http: httpx2.Client) -> Iterator[None]:
    """Leave the settings as they were: the hub is everybody's."""
    yield
    as_new(either_http)


def switch(http: httpx2.Client, feature: str, *, enabled: bool) -> httpx2.Response:
    return http.post("/settings/features", json={"feature": feature, "enabled": enabled})


def shown_features(http: httpx2.Client) -> dict[str, bool]:
    return {each["feature"]: each["enabled"] for each in http.get("/settings/features").json()["items"]}


def test_the_three_lists_are_replaced_whole(either_http: httpx2.Client) -> None:
    answer = either_http.post("/settings/admins", json=LISTS)
    assert (answer.status_code, answer.content) == (200, b"")
    assert either_http.get("/settings/admins").json() == LISTS

    fewer = {name: [ADA] for name in LISTS}
    assert either_http.post("/settings/admins", json=fewer | {"whatever": 1}).status_code == 200
    assert either_http.get("/settings/admins").json() == fewer


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "admins"),
        (LISTS | {"writers": []}, "writers"),
        (LISTS | {"readers": None}, "readers"),
        (LISTS | {"admins": [ADA, {"value": "bob"}]}, "admins[1].data_type"),
    ],
    ids=json.dumps,
)
def test_a_list_that_names_nobody_is_422_and_changes_nothing(
    either_http: httpx2.Client, body: dict[str, Any], field: str
) -> None:
    before = either_http.get("/settings/admins").json()
    problem = problem_of(either_http.post("/settings/admins", json=body), 422, "invalid-setting")
    assert problem["field"] == field
    assert problem["detail"].startswith(f'Field "{field}" ')
    assert either_http.get("/settings/admins").json() == before


@pytest.mark.parametrize("body", ["", "{", "[]", '{"admins":7}', '{"admins":[7]}', '{"admins":[{"data_type":7}]}'])
def test_administrators_that_are_written_otherwise_are_400(http: httpx2.Client, body: str) -> None:
    problem_of(http.post("/settings/admins", content=body), 400, "bad-parameter")


@pytest.mark.parametrize(
    ("kind", "side", "things"),
    [
        ("PRODUCER_ET", "producers", "event_types"),
        ("PRODUCER_APP", "producers", "apps"),
        ("CONSUMER_ET", "consumers", "event_types"),
        ("CONSUMER_APP", "consumers", "apps"),
    ],
)
def test_the_blacklist_shows_what_is_blocked(either_http: httpx2.Client, kind: str, side: str, things: str) -> None:
    assert either_http.get("/settings/blacklist").json() == NOTHING
    for name in ("b", "a", "b"):
        answer = either_http.put(f"/settings/blacklist/{kind}/{name}")
        assert (answer.status_code, answer.content) == (204, b"")
    assert either_http.get("/settings/blacklist").json() == NOTHING | {side: NOTHING[side] | {things: ["a", "b"]}}

    for name in ("b", "b", "never.was"):
        answer = either_http.delete(f"/settings/blacklist/{kind}/{name}")
        assert (answer.status_code, answer.content) == (204, b"")
    assert either_http.get("/settings/blacklist").json() == NOTHING | {side: NOTHING[side] | {things: ["a"]}}


@pytest.mark.parametrize("name", ["a.b-c_d", "käse", "a b", "a%20b", "é" * 255, "\u2713"])
def test_a_name_is_kept_as_it_is(either_http: httpx2.Client, name: str) -> None:
    path = f"/settings/blacklist/PRODUCER_APP/{name.replace('%', '%25')}"
    assert either_http.put(path).status_code == 204
    assert either_http.get("/settings/blacklist").json()["producers"]["apps"] == [name]
    assert either_http.delete(path).status_code == 204
    assert either_http.get("/settings/blacklist").json() == NOTHING


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("PRODUCER/a", "type"),
        ("consumer_app/a", "type"),
        ("CONSUMER_APP/%00", "name"),
        ("CONSUMER_APP/%0A", "name"),
        ("CONSUMER_APP/%FF", "name"),
        ("CONSUMER_APP/" + "x" * 256, "name"),
    ],
)
def test_what_cannot_be_blocked_is_400_naming_what_can(http: httpx2.Client, path: str, parameter: str) -> None:
    for method in ("PUT", "DELETE"):
        problem = problem_of(http.request(method, f"/settings/blacklist/{path}"), 400, "bad-parameter")
        assert problem["parameter"] == parameter
        assert all(kind in problem["allowed"] for kind in BLOCK_KINDS) or parameter == "name"


def test_publishing_is_blocked_and_lifted_again(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    assert feed.post(b'{"data":{}}').status_code == 200
    assert either_http.put(f"/settings/blacklist/PRODUCER_ET/{feed.name}").status_code == 204

    problem = problem_of(feed.post(b'{"data":{}}'), 403, "blocked")
    assert problem["detail"] == "Application or event type is blocked"

    assert either_http.delete(f"/settings/blacklist/PRODUCER_ET/{feed.name}").status_code == 204
    assert feed.post(b'{"data":{}}').status_code == 200


def test_features_are_off_until_they_are_switched_on(either_http: httpx2.Client) -> None:
    assert shown_features(either_http) == dict.fromkeys(FEATURES, False)

    for _ in range(2):
        answer = switch(either_http, "delete_event_type_with_subscriptions", enabled=True)
        assert (answer.status_code, answer.content) == (204, b"")
    on = {"delete_event_type_with_subscriptions": True}
    assert shown_features(either_http) == dict.fromkeys(FEATURES, False) | on

    for _ in range(2):
        assert switch(either_http, "delete_event_type_with_subscriptions", enabled=False).status_code == 204
    assert shown_features(either_http) == dict.fromkeys(FEATURES, False)


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ("", "body"),
        ("[]", "body"),
        ("{}", "feature"),
        ('{"feature":"audit_log_collection","enabled":true}', "feature"),
        ('{"feature":["disable_event_type_creation"],"enabled":true}', "feature"),
        ('{"feature":"disable_event_type_creation"}', "enabled"),
        ('{"feature":"disable_event_type_creation","enabled":"true"}', "enabled"),
        ('{"feature":"disable_event_type_creation","enabled":true,"x":1}', "x"),
    ],
)
def test_an_unknown_feature_or_member_is_400_naming_it(http: httpx2.Client, body: str, parameter: str) -> None:
    problem = problem_of(http.post("/settings/features", content=body), 400, "bad-parameter")
    assert problem["parameter"] == parameter
    assert shown_features(http) == dict.fromkeys(FEATURES, False)


def test_while_changes_are_switched_off_settings_but_features_stay(either_http: httpx2.Client) -> None:
    assert either_http.put("/settings/blacklist/PRODUCER_APP/a").status_code == 204
    assert switch(either_http, "disable_db_write_operations", enabled=True).status_code == 204

    for method, path, body in (
        ("POST", "/settings/admins", LISTS),
        ("PUT", "/settings/blacklist/PRODUCER_APP/b", None),
        ("DELETE", "/settings/blacklist/PRODUCER_APP/a", None),
    ):
        answer = either_http.request(method, path, json=body)
        problem_of(answer, 503, "changes-switched-off")
        assert int(answer.headers["retry-after"]) > 0
    assert either_http.get("/settings/blacklist").json()["producers"]["apps"] == ["a"]

    assert switch(either_http, "disable_db_write_operations", enabled=False).status_code == 204
    assert either_http.delete("/settings/blacklist/PRODUCER_APP/a").status_code == 204


def test_a_setting_has_a_limit(http: httpx2.Client) -> None:
    body = json.dumps(LISTS | {"admins": [{"data_type": "user", "value": "x" * (1 << 18)}]})
    problem_of(http.post("/settings/admins", content=body), 413, "body-too-large")
