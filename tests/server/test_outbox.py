"""The routes of the outbox: administrators see rejected rows, put them back, and delete them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.core.access import Caller
from penstock.server import HubApp
from penstock.server.authentication.tokens import TokenMethod
from penstock.server.log import outbox
from penstock.storage.log.outbox import OutboxRow
from tests.served import problem_of
from tests.server.in_process import open_hub

AUDIT = "nakadi.audit.log"
ADDRESS = "10.0.0.7"
AT = 1_767_225_600_000_000


class Scene:
    """A hub, which moves no outbox by itself, with six rejected rows, and clients of it."""

    def __init__(self, url: str) -> None:
        self.hub = open_hub(url)
        self.app = HubApp(lambda: self.hub, authentication=[TokenMethod()], administrators=["service:root"])
        self.root, self.shop = map(self.http, ("root", "shop"))
        self.reject(*(("unheard.of" if each % 2 else "order.placed", f'{{"n":{each}}}') for each in range(6)))

    def http(self, name: str) -> TestClient:
        token = self.hub.admin.tokens.create(Caller("service", name)).secret
        return TestClient(self.app, client=(ADDRESS, 1), headers={"Authorization": f"Bearer {token}"})

    def reject(self, *rows: tuple[str, str]) -> None:
        with self.hub.store.write() as tx:
            for event_type, data in rows:
                row = OutboxRow(0, event_type, data, None, None, None, "2026-01-01T00:00:00.000Z")
                tx.outbox.reject([(row, "there is no such event type")], AT)

    def rows(self, query: str = "") -> list[dict[str, Any]]:
        answer = self.root.get(f"/outbox/rejected?limit=1000{query}")
        assert answer.status_code == 200, answer.text
        rows: list[dict[str, Any]] = answer.json()["items"]
        return rows

    def numbers(self, query: str = "") -> list[int]:
        return [json.loads(each["data"])["n"] for each in self.rows(query)]

    def waiting(self) -> dict[str, Any]:
        shown: dict[str, Any] = self.root.get("/outbox").json()
        return shown

    def audit(self) -> list[dict[str, Any]]:
        """Return the changes of rejected rows in the audit log."""
        answer = self.root.get(f"/feeds/{AUDIT}?n=1&cursor0=_first")
        events = [json.loads(line).get("data") for line in answer.text.splitlines()]
        return [each for each in events if each and each["resource_type"] == "rejected_rows"]


@pytest.fixture
def scene(migrated_url: str) -> Iterator[Scene]:
    found = Scene(migrated_url)
    with TestClient(found.app):
        yield found


def test_rejected_rows_are_listed_with_their_reasons_newest_first(scene: Scene) -> None:
    assert scene.numbers() == [5, 4, 3, 2, 1, 0]
    assert scene.numbers("&oldest=true") == [0, 1, 2, 3, 4, 5]
    assert scene.numbers("&event_type=unheard.of") == [5, 3, 1]
    first = scene.rows("&oldest=true")[0]
    assert scene.rows(f"&id={first['id']}") == [first]
    assert (first["event_type"], first["reason"]) == ("order.placed", "there is no such event type")
    assert (first["created_at"], first["rejected_at"]) == ("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z")


@pytest.mark.parametrize("order", ["", "&oldest=true"])
def test_pages_of_rejected_rows_follow_each_other(scene: Scene, order: str) -> None:
    found, link = [], f"/outbox/rejected?event_type=unheard.of&limit=2{order}"
    while link:
        page = scene.root.get(link).json()
        found += [json.loads(each["data"])["n"] for each in page["items"]]
        link = page["_links"].get("next", {}).get("href")

    assert found == scene.numbers(f"&event_type=unheard.of{order}")


def test_page_of_large_rows_ends_early(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "PAGE_BYTES", 1)

    page = scene.root.get("/outbox/rejected?limit=4").json()

    assert [each["data"] for each in page["items"]] == ['{"n":5}']
    assert "after=" in page["_links"]["next"]["href"]


def test_retried_rows_wait_in_the_outbox_and_are_audited(scene: Scene) -> None:
    ids = [each["id"] for each in scene.rows("&event_type=unheard.of&oldest=true")]

    answer = scene.root.post("/outbox/rejected/retry?event_type=unheard.of")

    assert answer.json() == {"retried": 3}
    assert scene.numbers() == [4, 2, 0]
    shown = scene.waiting()
    assert (shown["waiting"], shown["event_types"], shown["rejected"]) == (3, ["unheard.of"], 3)
    assert shown["oldest_at"] == "2026-01-01T00:00:00.000Z"
    [change] = scene.audit()
    assert (change["action"], change["resource_id"], change["user"], change["address"]) == (
        ("updated", "unheard.of", "root", ADDRESS)
    )
    assert change["previous_object"] == {"rows": 3, "ids": ids, "state": "rejected"}


def test_deleted_rows_are_gone_and_audited(scene: Scene) -> None:
    ids = [each["id"] for each in scene.rows()][:2]

    answer = scene.root.delete("/outbox/rejected", params={"id": ids})

    assert answer.json() == {"deleted": 2}
    assert scene.numbers() == [3, 2, 1, 0]
    assert scene.root.delete("/outbox/rejected?all=true").json() == {"deleted": 4}
    assert [(each["action"], each["resource_id"]) for each in scene.audit()] == [("deleted", "*"), ("deleted", "*")]


@pytest.mark.parametrize(("method", "path"), [("POST", "/outbox/rejected/retry"), ("DELETE", "/outbox/rejected")])
def test_change_of_a_missing_row_does_nothing(scene: Scene, method: str, path: str) -> None:
    there = scene.rows()[0]["id"]

    problem = problem_of(scene.root.request(method, f"{path}?id={there}&id=999"), 404, "rejected-row-not-found")

    assert problem["rows"] == [999]
    assert len(scene.rows()) == 6


@pytest.mark.parametrize("query", ["", "?all=false", "?all=true&id=1", "?all=true&event_type=a.b", "?id=x", "?id=-1"])
@pytest.mark.parametrize(("method", "path"), [("POST", "/outbox/rejected/retry"), ("DELETE", "/outbox/rejected")])
def test_change_that_says_not_which_rows_is_refused(scene: Scene, method: str, path: str, query: str) -> None:
    problem_of(scene.root.request(method, path + query), 400, "bad-parameter")
    assert len(scene.rows()) == 6


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/outbox"),
        ("GET", "/outbox/rejected"),
        ("POST", "/outbox/rejected/retry?all=true"),
        ("DELETE", "/outbox/rejected?all=true"),
    ],
)
def test_others_than_administrators_do_not_see_the_outbox(scene: Scene, method: str, path: str) -> None:
    problem_of(scene.shop.request(method, path), 403, "access-denied")
    assert len(scene.rows()) == 6


def test_reader_of_everything_sees_how_much_waits_and_no_rows(scene: Scene) -> None:
    lists = {"admins": [], "readers": [{"data_type": "service", "value": "shop"}], "writers": []}
    lists["admins"] = [{"data_type": "service", "value": "root"}]
    lists["writers"] = [{"data_type": "service", "value": "root"}]
    assert scene.root.post("/settings/admins", json=lists).status_code == 200

    assert scene.shop.get("/outbox").json()["rejected"] == 6
    problem_of(scene.shop.get("/outbox/rejected"), 403, "access-denied")
