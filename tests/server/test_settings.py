"""Settings over HTTP, beyond Nakadi's contract: problems by code and field, names of any text, and limits."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from penstock.hub.admin.settings import BLOCK_KINDS, FEATURES
from tests.served import as_new, problem_of

ADA, BOB = {"data_type": "user", "value": "ada"}, {"data_type": "service", "value": "bob"}
LISTS = {"admins": [ADA, BOB], "readers": [ADA], "writers": [BOB]}
NOTHING = {"producers": {"event_types": [], "apps": []}, "consumers": {"event_types": [], "apps": []}}


@pytest.fixture(autouse=True)
def restored(either_http: httpx2.Client) -> Iterator[None]:
    """Leave the settings as they were: other tests use the same hub."""
    yield
    as_new(either_http)


def switch(http: httpx2.Client, feature: str, *, enabled: bool) -> httpx2.Response:
    return http.post("/settings/features", json={"feature": feature, "enabled": enabled})


def features(http: httpx2.Client) -> dict[str, bool]:
    return {each["feature"]: each["enabled"] for each in http.get("/settings/features").json()["items"]}


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
def test_administrators_without_a_name_are_refused_by_field(
    either_http: httpx2.Client, body: dict[str, Any], field: str
) -> None:
    before = either_http.get("/settings/admins").json()
    problem = problem_of(either_http.post("/settings/admins", json=body), 422, "invalid-setting")
    assert problem["field"] == field
    assert problem["detail"].startswith(f'Field "{field}" ')
    assert either_http.get("/settings/admins").json() == before


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        *((body, 400, "bad-parameter")
          for body in ("", "{", "[]", '{"admins":7}', '{"admins":[7]}', '{"admins":[{"data_type":7}]}')),
        (json.dumps(LISTS | {"admins": [ADA | {"value": "x" * (1 << 18)}]}), 413, "body-too-large"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_body_that_is_no_administrators_is_refused(http: httpx2.Client, body: str, status: int, code: str) -> None:
    problem_of(http.post("/settings/admins", content=body), status, code)


@pytest.mark.parametrize("name", ["a.b-c_d", "käse", "a b", "a%20b", "é" * 255, "\u2713"])
def test_blocked_name_of_any_text_is_kept(either_http: httpx2.Client, name: str) -> None:
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
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_wrong_kind_or_name_of_a_block_is_refused(http: httpx2.Client, path: str, parameter: str, method: str) -> None:
    problem = problem_of(http.request(method, f"/settings/blacklist/{path}"), 400, "bad-parameter")
    assert problem["parameter"] == parameter
    assert all(kind in problem["allowed"] for kind in BLOCK_KINDS) or parameter == "name"


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ("", "body"),
        ("[]", "body"),
        ("{}", "feature"),
        ('{"feature":"remote_tokeninfo","enabled":true}', "feature"),
        ('{"feature":["disable_event_type_creation"],"enabled":true}', "feature"),
        ('{"feature":"disable_event_type_creation"}', "enabled"),
        ('{"feature":"disable_event_type_creation","enabled":"true"}', "enabled"),
        ('{"feature":"disable_event_type_creation","enabled":true,"x":1}', "x"),
    ],
)
def test_unknown_feature_or_member_is_refused_by_name(http: httpx2.Client, body: str, parameter: str) -> None:
    problem = problem_of(http.post("/settings/features", content=body), 400, "bad-parameter")
    assert problem["parameter"] == parameter
    assert features(http) == dict.fromkeys(FEATURES, False)


def test_settings_but_features_are_kept_while_changes_are_switched_off(either_http: httpx2.Client) -> None:
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
