"""Settings over HTTP, beyond Nakadi's contract: problems by code and field, names of any text, and limits."""

from collections.abc import Iterator
from urllib.parse import quote

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


def test_wrong_administrators_are_refused_by_field(either_http: httpx2.Client) -> None:
    before = either_http.get("/settings/admins").json()
    for body, field in ((LISTS | {"writers": []}, "writers"), (LISTS | {"admins": [ADA, {}]}, "admins[1].data_type")):
        problem = problem_of(either_http.post("/settings/admins", json=body), 422, "invalid-setting")
        assert problem["field"] == field
        assert problem["detail"].startswith(f'Field "{field}" ')
    problem_of(either_http.post("/settings/admins", json={"admins": [7]}), 400, "bad-parameter")
    large = LISTS | {"admins": [ADA | {"value": "x" * (1 << 18)}]}
    problem_of(either_http.post("/settings/admins", json=large), 413, "body-too-large")
    assert either_http.get("/settings/admins").json() == before


def test_blocked_name_of_any_text_is_kept(either_http: httpx2.Client) -> None:
    for name in ("a.b-c_d", "käse", "a b", "a%20b", "é" * 255, "\u2713", "spiffe://example.org/shop/", "/"):
        path = f"/settings/blacklist/PRODUCER_APP/{quote(name, safe='')}"
        assert either_http.put(path).status_code == 204
        assert either_http.get("/settings/blacklist").json()["producers"]["apps"] == [name]
        assert either_http.delete(path).status_code == 204
        assert either_http.get("/settings/blacklist").json() == NOTHING


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_wrong_kind_or_name_of_a_block_is_refused(http: httpx2.Client, method: str) -> None:
    rows = (
        ("consumer_app/a", "type"),
        *((f"CONSUMER_APP/{name}", "name") for name in ("%00", "%0A", "%FF", "x" * 256)),
    )
    for path, parameter in rows:
        problem = problem_of(http.request(method, f"/settings/blacklist/{path}"), 400, "bad-parameter")
        assert problem["parameter"] == parameter
        assert all(kind in problem["allowed"] for kind in BLOCK_KINDS) or parameter == "name"


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ("[]", "body"),
        ("{}", "feature"),
        ('{"feature":["disable_event_type_creation"],"enabled":true}', "feature"),
        ('{"feature":"disable_event_type_creation","enabled":"true"}', "enabled"),
        ('{"feature":"disable_event_type_creation","enabled":true,"x":1}', "x"),
    ],
)
def test_unknown_feature_or_member_is_refused_by_name(http: httpx2.Client, body: str, parameter: str) -> None:
    problem = problem_of(http.post("/settings/features", content=body), 400, "bad-parameter")
    assert problem["parameter"] == parameter
    shown = http.get("/settings/features").json()["items"]
    assert {each["feature"]: each["enabled"] for each in shown} == dict.fromkeys(FEATURES, False)


# Replicas


def test_readers_of_replicas_are_shown_and_replaced(either_http: httpx2.Client) -> None:
    for readers in ([BOB], [], None):
        assert either_http.put("/settings/replicas", json={"readers": readers}).json() == {"readers": readers}
        assert either_http.get("/settings/replicas").json() == {"readers": readers}


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ("[]", 400, "body"),
        ("{}", 400, "body"),
        ('{"readers":null,"x":1}', 400, "body"),
        ('{"readers":"bob"}', 400, "readers"),
        ('{"readers":[{"data_type":"service"}]}', 422, "readers[0].value"),
    ],
)
def test_wrong_readers_of_replicas_are_refused_and_change_nothing(
    http: httpx2.Client, body: str, status: int, named: str
) -> None:
    answer = http.put("/settings/replicas", content=body)

    problem = problem_of(answer, status, "bad-parameter" if status == 400 else "invalid-setting")
    assert named in (problem.get("parameter"), problem.get("field"))
    assert http.get("/settings/replicas").json() == {"readers": None}


# Retention


def test_retention_of_event_types_that_set_none_is_shown_and_replaced(either_http: httpx2.Client) -> None:
    for limits in (
        {"retention_time": 86_400_000, "retention_bytes": None},
        {"retention_time": None, "retention_bytes": 10**10},
        {"retention_time": None, "retention_bytes": None},
    ):
        assert either_http.put("/settings/retention", json=limits).json() == limits
        assert either_http.get("/settings/retention").json() == limits


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ("[]", "body"),
        ("{}", "body"),
        ('{"retention_time":1}', "body"),
        ('{"retention_time":1,"retention_bytes":1,"retention":1}', "body"),
        ('{"retention_time":"1","retention_bytes":1}', "retention_time"),
        ('{"retention_time":true,"retention_bytes":1}', "retention_time"),
        ('{"retention_time":1,"retention_bytes":0}', "retention_bytes"),
        ('{"retention_time":-1,"retention_bytes":1}', "retention_time"),
        ('{"retention_time":1,"retention_bytes":1e3}', "retention_bytes"),
    ],
)
def test_wrong_retention_is_refused_by_name_and_changes_nothing(http: httpx2.Client, body: str, parameter: str) -> None:
    before = http.get("/settings/retention").json()

    problem = problem_of(http.put("/settings/retention", content=body), 400, "bad-parameter")

    assert problem["parameter"] == parameter
    assert http.get("/settings/retention").json() == before == {"retention_time": None, "retention_bytes": None}
