"""The storage and the timelines, beyond Nakadi's contract: problems by code, and a timeline for each epoch."""

from uuid import UUID

import httpx2
import pytest

from tests.served import create, problem_of


@pytest.mark.parametrize(
    ("request_", "body", "status", "code"),
    [
        *(("POST /storages", body, 422, "storage-fixed") for body in ("", "{}", '{"id":"x","storage_type":"kafka"}')),
        ("DELETE /storages/default", "", 403, "storage-in-use"),
        *((request, "", 404, "storage-not-found")
          for request in ("GET /storages/kafka", "DELETE /storages/kafka", "PUT /storages/default/kafka")),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_storage_cannot_be_added_deleted_or_replaced(
    http: httpx2.Client, request_: str, body: str, status: int, code: str
) -> None:
    problem = problem_of(http.request(*request_.split(), content=body), status, code)
    assert (problem["storage"], problem.get("existing")) == (
        ("kafka", "default") if status == 404 else ("default", None)
    )


def test_storage_is_that_of_the_hub_and_a_timeline_that_of_an_epoch(either_http: httpx2.Client) -> None:
    assert either_http.get("/storages/default").json()["storage_type"] in ("sqlite", "postgresql")
    feed = create(either_http)
    path = f"/event-types/{feed.name}/timelines"
    (first,) = either_http.get(path).json()
    assert first == {
        "id": first["id"],
        "event_type": feed.name,
        "topic": feed.name,
        "order": 1,
        "storage_id": "default",
        "created_at": either_http.get(f"/event-types/{feed.name}").json()["created_at"],
        "switched_at": first["switched_at"],
        "cleaned_up_at": None,
        "latest_position": None,
    }
    problem = problem_of(either_http.post(path, json={"storage_id": "default"}), 422, "storage-fixed")
    assert "one timeline" in problem["detail"]

    feed.drop()
    create(either_http, 1, feed.name)
    (second,) = either_http.get(path).json()
    assert second["order"] == 2
    assert UUID(second["id"]) != UUID(first["id"])


@pytest.mark.parametrize("name", ["nowhere", "no name"])
def test_timelines_of_an_unknown_event_type_are_not_found(http: httpx2.Client, name: str) -> None:
    for answer in (http.get(f"/event-types/{name}/timelines"), http.post(f"/event-types/{name}/timelines", json={})):
        problem_of(answer, 404, "event-type-not-found")
