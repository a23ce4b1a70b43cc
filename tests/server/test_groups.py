"""Consumer groups over HTTP: who has kept positions, and in what."""

import uuid

import httpx2
import pytest

from tests.served import create, problem_of


def test_a_group_is_listed_with_all_that_it_has_read(either_http: httpx2.Client) -> None:
    first, second = create(either_http), create(either_http)
    mine, yours = f"mine-{uuid.uuid4().hex}", f"yours-{uuid.uuid4().hex}"
    for feed, name in ((first, mine), (second, mine), (second, yours)):
        feed.read(cursorset=name)
    listed = [
        {"name": mine, "kind": "cursorset", "event_types": sorted([first.name, second.name])},
        {"name": yours, "kind": "cursorset", "event_types": [second.name]},
    ]

    everybody = either_http.get("/groups").json()["items"]
    assert [each for each in everybody if each["name"] in (mine, yours)] == listed
    assert [each["name"] for each in everybody] == sorted(each["name"] for each in everybody)
    assert either_http.get("/groups", params={"event_type": second.name}).json() == {"items": listed}
    assert either_http.get("/groups", params={"event_type": first.name}).json() == {"items": listed[:1]}


def test_an_event_type_that_nobody_has_read_has_no_groups(http: httpx2.Client) -> None:
    feed = create(http)
    feed.read()
    assert http.get("/groups", params={"event_type": feed.name}).json() == {"items": []}


@pytest.mark.parametrize("name", ["nowhere", "no name", "", "\x00"])
def test_the_groups_of_what_is_not_there_are_not_found(either_http: httpx2.Client, name: str) -> None:
    problem_of(either_http.get("/groups", params={"event_type": name}), 404, "event-type-not-found")
