"""Storages and timelines, beyond Nakadi's contract: problems by code, and a timeline for each epoch."""

from uuid import UUID

import httpx2

from tests.served import create, problem_of


def test_refusal_of_a_storage_names_it(http: httpx2.Client) -> None:
    for method, path, status, code, storage in (
        ("POST", "/storages", 422, "storage-fixed", "default"),
        ("DELETE", "/storages/default", 403, "storage-in-use", "default"),
        ("PUT", "/storages/default/kafka", 404, "storage-not-found", "kafka"),
    ):
        assert problem_of(http.request(method, path), status, code)["storage"] == storage


def test_timeline_is_that_of_an_epoch(either_http: httpx2.Client) -> None:
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
    assert "one timeline" in problem_of(either_http.post(path, json={}), 422, "storage-fixed")["detail"]

    feed.drop()
    create(either_http, 1, feed.name)
    (second,) = either_http.get(path).json()
    assert second["order"] == 2
    assert UUID(second["id"]) != UUID(first["id"])
