"""Storages, timelines and strategies: what clients of Nakadi ask for, answered with the one that there is."""

from uuid import UUID

import httpx2
import pytest

from tests.served import create, problem_of


def test_there_is_one_storage(either_http: httpx2.Client) -> None:
    (storage,) = either_http.get("/storages").json()
    assert (storage["id"], storage["default"]) == ("default", True)
    assert storage["storage_type"] in ("sqlite", "postgresql")
    assert either_http.get("/storages/default").json() == storage
    answer = either_http.put("/storages/default/default")
    assert (answer.status_code, answer.json()) == (200, storage)


@pytest.mark.parametrize("body", ["", "{}", '{"id":"other","storage_type":"kafka"}'])
def test_no_storage_can_be_added(http: httpx2.Client, body: str) -> None:
    problem = problem_of(http.post("/storages", content=body), 422, "storage-fixed")
    assert problem["storage"] == "default"


def test_the_storage_cannot_be_deleted(http: httpx2.Client) -> None:
    assert problem_of(http.delete("/storages/default"), 403, "storage-in-use")["storage"] == "default"


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("DELETE", ""), ("PUT", "/default")])
def test_another_storage_is_not_found(http: httpx2.Client, method: str, path: str) -> None:
    problem = problem_of(http.request(method, f"/storages{path}/kafka"), 404, "storage-not-found")
    assert (problem["storage"], problem["existing"]) == ("kafka", "default")


def test_an_event_type_has_one_timeline_which_changes_with_its_epoch(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    (first,) = either_http.get(f"/event-types/{feed.name}/timelines").json()
    told = {name: first[name] for name in ("event_type", "order", "storage_id", "cleaned_up_at", "latest_position")}
    assert told == {
        "event_type": feed.name,
        "order": 1,
        "storage_id": "default",
        "cleaned_up_at": None,
        "latest_position": None,
    }
    assert first["created_at"] == either_http.get(f"/event-types/{feed.name}").json()["created_at"]

    feed.drop()
    create(either_http, 1, feed.name)
    (second,) = either_http.get(f"/event-types/{feed.name}/timelines").json()
    assert second["order"] == 2
    assert UUID(second["id"]) != UUID(first["id"])


def test_no_timeline_can_be_added(either_http: httpx2.Client) -> None:
    path = f"/event-types/{create(either_http).name}/timelines"
    problem = problem_of(either_http.post(path, json={"storage_id": "default"}), 422, "storage-fixed")
    assert "one timeline" in problem["detail"]


def test_the_timelines_of_what_is_not_there_are_not_found(http: httpx2.Client) -> None:
    for name in ("nowhere", "no name"):
        problem_of(http.get(f"/event-types/{name}/timelines"), 404, "event-type-not-found")
        problem_of(http.post(f"/event-types/{name}/timelines", json={}), 404, "event-type-not-found")


def test_strategies_are_nakadis(http: httpx2.Client) -> None:
    assert http.get("/registry/enrichment-strategies").json() == ["metadata_enrichment"]
    assert http.get("/registry/partition-strategies").json() == ["hash", "user_defined", "random"]


def test_every_partition_strategy_can_be_chosen(http: httpx2.Client) -> None:
    for strategy in http.get("/registry/partition-strategies").json():
        create(http, 1, partition_strategy=strategy, partition_key_fields=["id"])
