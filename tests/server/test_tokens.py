"""The routes of tokens: administrators create, list, rotate and revoke them, as `penstock token` does."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.core.access import Attribute, Caller
from penstock.errors import DatabaseUnavailable
from penstock.server import HubApp
from penstock.server.authentication.tokens import TokenMethod
from tests.served import problem_of
from tests.server.in_process import open_hub

AUDIT = "nakadi.audit.log"
ADDRESS = "10.0.0.7"


class Scene:
    """A hub that knows callers by tokens, and clients of it."""

    def __init__(self, url: str) -> None:
        self.hub = open_hub(url)
        self.app = HubApp(lambda: self.hub, authentication=[TokenMethod()], administrators=["service:root"])
        self.root = self.http(self.hub.admin.tokens.create(Caller("service", "root")).secret)

    def http(self, token: str) -> TestClient:
        return TestClient(self.app, client=(ADDRESS, 1), headers={"Authorization": f"Bearer {token}"})

    def audit(self) -> list[dict[str, Any]]:
        """Return the changes of tokens and administrators in the audit log."""
        answer = self.root.get(f"/feeds/{AUDIT}?n=1&cursor0=_first")
        events = [json.loads(line).get("data") for line in answer.text.splitlines()]
        return [each for each in events if each and each["resource_type"] in ("token", "admins") and each["address"]]


@pytest.fixture
def scene(migrated_url: str) -> Iterator[Scene]:
    found = Scene(migrated_url)
    with TestClient(found.app):
        yield found


def test_administrator_creates_rotates_and_revokes_a_token(scene: Scene) -> None:
    created = scene.root.post("/tokens", json={"name": "billing", "expires_in_seconds": 3600})
    billing = scene.http(created.json()["token"])
    listed = {each["id"]: each for each in scene.root.get("/tokens").json()["items"]}
    rotated = scene.root.post(f"/tokens/{created.json()['id']}/rotation", json={"overlap_seconds": 60})
    newer = scene.http(rotated.json()["token"])
    names = [each.get("/caller").json()["name"] for each in (billing, newer)]
    revoked = scene.root.delete(f"/tokens/{rotated.json()['id']}")

    assert (created.status_code, rotated.status_code, revoked.status_code) == (201, 201, 200)
    assert created.headers["cache-control"] == rotated.headers["cache-control"] == "no-store"
    assert created.json()["caller"] == rotated.json()["caller"] == "service:billing"
    assert created.json()["expires_at"] is not None
    assert listed[created.json()["id"]] == {name: value for name, value in created.json().items() if name != "token"}
    assert "pst_" not in json.dumps(listed)
    assert names == ["billing", "billing"]
    assert revoked.json() == {
        "revoked": rotated.json()["id"],
        "caller": "service:billing",
        "lists": [],
        "valid_tokens": 1,
    }
    problem_of(newer.get("/caller"), 401, "unauthenticated")
    assert billing.get("/caller").status_code == 200


def test_changes_of_tokens_are_audited_without_secrets(scene: Scene) -> None:
    created = scene.root.post("/tokens", json={"name": "jane", "type": "user", "admin": True}).json()
    rotated = scene.root.post(f"/tokens/{created['id']}/rotation").json()
    revoked = scene.root.delete(f"/tokens/{created['id']}").json()

    found = scene.audit()
    assert [(each["resource_type"], each["action"]) for each in found] == [
        ("token", "created"),
        ("admins", "updated"),
        ("token", "created"),
        ("token", "updated"),
        ("token", "deleted"),
    ]
    assert {(each["user"], each["address"]) for each in found} == {("root", ADDRESS)}
    assert not {created["token"], rotated["token"]} & set(json.dumps(found).split('"'))
    assert (revoked["lists"], revoked["valid_tokens"]) == (["admins"], 1)


def test_new_administrator_may_administer_at_once(scene: Scene) -> None:
    jane = scene.http(scene.root.post("/tokens", json={"name": "jane", "type": "user", "admin": True}).json()["token"])

    assert jane.get("/caller").json()["hub"]["administer"]
    assert jane.get("/tokens").status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/tokens"), ("POST", "/tokens"), ("POST", "/tokens/x/rotation"), ("DELETE", "/tokens/x")],
)
def test_others_than_administrators_may_do_nothing_with_tokens(scene: Scene, method: str, path: str) -> None:
    shop = scene.http(scene.hub.admin.tokens.create(Caller("service", "shop")).secret)

    problem_of(shop.request(method, path, json={"name": "shop"}), 403, "access-denied")
    assert len(scene.hub.admin.tokens.list()) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"name": "user:jane"},
        {"name": "*"},
        {"name": ""},
        {"name": "a" * 256},
        {"name": "jane", "type": "team"},
        {"name": "jane", "expires_in_seconds": 0},
        {"name": "jane", "expires_in_seconds": 1e300},
        {"name": "jane", "secret": "x"},
        {},
        [],
    ],
)
def test_token_for_an_impossible_caller_or_time_is_refused(scene: Scene, body: object) -> None:
    problem_of(scene.root.post("/tokens", json=body), 400, "bad-parameter")
    assert len(scene.hub.admin.tokens.list()) == 1


def test_missing_and_superseded_tokens_are_refused(scene: Scene) -> None:
    old = scene.root.post("/tokens", json={"name": "billing", "expires_in_seconds": 3600}).json()["id"]
    assert scene.root.post(f"/tokens/{old}/rotation", json={"overlap_seconds": 60}).status_code == 201

    problem_of(scene.root.post(f"/tokens/{old}/rotation"), 409, "token-superseded")
    problem_of(scene.root.post("/tokens/none/rotation"), 404, "token-not-found")
    problem_of(scene.root.delete("/tokens/none"), 404, "token-not-found")


@pytest.mark.parametrize("body", [{"name": "billing"}, {}])
def test_hub_without_authentication_hands_out_no_tokens(migrated_url: str, body: dict[str, str]) -> None:
    hub = open_hub(migrated_url)
    token = hub.admin.tokens.create(Caller("service", "root")).token
    path = "/tokens" if body else f"/tokens/{token.id}/rotation"
    with TestClient(HubApp(lambda: hub)) as http:
        problem_of(http.post(path, json=body), 403, "callers-unknown")
        assert len(http.get("/tokens").json()["items"]) == 1


def test_token_is_revoked_again_if_its_caller_cannot_become_administrator(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> bool:
        raise DatabaseUnavailable(reason="gone", retry_after=1)

    monkeypatch.setattr(scene.hub.admin.settings, "add_member", fail)
    answer = scene.root.post("/tokens", json={"name": "jane", "type": "user", "admin": True})

    problem_of(answer, 503, "database-unavailable")
    assert [each.caller for each in scene.hub.admin.tokens.list()] == [Attribute("service", "root")]
