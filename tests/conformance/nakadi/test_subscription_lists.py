"""Lists of subscriptions (5.2): which there are, and the links to the pages before and after."""

import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from tests.nakadi import Nakadi, problem
from tests.subscribing import definition, subscribe


def fresh() -> str:
    """The name of an application that has no subscriptions."""
    return f"app.{uuid.uuid4().hex}"


def several(nakadi: Nakadi, count: int, **members: Any) -> tuple[str, list[str]]:
    """Create so many subscriptions of one application; return it, and their ids, the newest first."""
    created, owner = nakadi.create(), fresh()
    found = [subscribe(created, owning_application=owner, **members).id for _ in range(count)]
    return owner, found[::-1]


def listed(nakadi: Nakadi, **arguments: Any) -> tuple[list[str], dict[str, str]]:
    """The ids in a list, and its links."""
    answer = nakadi.http.get("/subscriptions", params=arguments)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert set(body) == {"items", "_links"}
    assert set(body["_links"]) <= {"next", "prev"}
    return [each["id"] for each in body["items"]], {name: each["href"] for name, each in body["_links"].items()}


def test_the_newest_come_first(nakadi: Nakadi) -> None:
    """5.2; SubscriptionAT.testListSubscriptions: two of one application, without links."""
    owner, ids = several(nakadi, 2)
    assert listed(nakadi, owning_application=owner) == (ids, {})


def test_items_are_whole_subscriptions_without_a_status(nakadi: Nakadi) -> None:
    """5.2."""
    owner, [one] = several(nakadi, 1)
    shown = nakadi.http.get(f"/subscriptions/{one}").json()
    items = nakadi.http.get("/subscriptions", params={"owning_application": owner}).json()["items"]
    assert items == [shown]
    assert "status" not in shown


def test_who_may_read_finds_it(nakadi: Nakadi) -> None:
    """5.2; SubscriptionAT.testQuerySubscriptionByAuthReturnsOk: two a page, and the link to the next one."""
    reader, other = f"reader{uuid.uuid4().hex}", {"data_type": "service", "value": "other"}
    admin = {"data_type": "service", "value": reader}
    _, ids = several(nakadi, 5, authorization={"admins": [other], "readers": [other, admin]})
    several(nakadi, 1, authorization={"admins": [admin], "readers": [other]})
    found, links = listed(nakadi, reader=f"service:{reader}", limit=2)
    assert found == ids[:2]
    assert links == {"next": f"/subscriptions?reader=service:{reader}&offset=2&limit=2"}
    found, links = listed(nakadi, reader=f"service:{reader}", limit=2, offset=2)
    assert found == ids[2:4]
    path = f"/subscriptions?reader=service:{reader}"
    assert links == {"prev": f"{path}&offset=0&limit=2", "next": f"{path}&offset=4&limit=2"}
    assert listed(nakadi, reader=f"service:{reader}", limit=2, offset=4) == (
        ids[4:],
        {"prev": f"{path}&offset=2&limit=2"},
    )
    assert listed(nakadi, reader=f"user:{reader}") == ([], {})


def test_there_is_a_next_page_whenever_one_is_full(nakadi: Nakadi) -> None:
    """5.2: even if nothing follows."""
    owner, ids = several(nakadi, 2)
    found, links = listed(nakadi, owning_application=owner, limit=2)
    assert (found, links) == (ids, {"next": f"/subscriptions?owning_application={owner}&offset=2&limit=2"})
    found, links = listed(nakadi, owning_application=owner, limit=2, offset=2)
    assert (found, links) == ([], {"prev": f"/subscriptions?owning_application={owner}&offset=0&limit=2"})


def test_parameters_stand_in_links_in_one_order(nakadi: Nakadi) -> None:
    """5.2: event_type, reader, owning_application, show_status, then offset and limit."""
    created, owner = nakadi.create(), fresh()
    jane = [{"data_type": "user", "value": "jane"}]
    for _ in range(2):
        subscribe(created, owning_application=owner, authorization={"admins": jane, "readers": jane})
    asked = {
        "limit": 1,
        "show_status": "true",
        "owning_application": owner,
        "reader": "user:jane",
        "event_type": created.name,
    }
    _, links = listed(nakadi, **asked)
    given = f"event_type={created.name}&reader=user:jane&owning_application={owner}&show_status=true"
    assert links == {"next": f"/subscriptions?{given}&offset=1&limit=1"}
    _, links = listed(nakadi, token="new", **asked)
    assert links["next"].startswith(f"/subscriptions?{given}&token=")
    assert links["next"].endswith("&limit=1")


def test_links_lead_through_all_pages(nakadi: Nakadi) -> None:
    """5.2."""
    owner, ids = several(nakadi, 5)
    found, path = [], f"/subscriptions?owning_application={owner}&limit=2"
    while path:
        body = nakadi.http.get(path).json()
        found += [each["id"] for each in body["items"]]
        path = body["_links"].get("next", {}).get("href")
    assert found == ids


@pytest.mark.parametrize("joined", [False, True], ids=["repeated", "with commas"])
def test_it_reads_each_of_the_event_types_that_are_asked_for(nakadi: Nakadi, *, joined: bool) -> None:
    """1.4, 10: all of them, and others may be there too."""
    one, two, three = (nakadi.create() for _ in range(3))
    owner = fresh()
    ids = [subscribe(*each, owning_application=owner).id for each in ([one], [one, two], [one, two, three], [three])]

    def asked(*names: str) -> list[str]:
        given: Sequence[str] | str = ",".join(names) if joined else names
        return listed(nakadi, owning_application=owner, event_type=given)[0]

    assert asked(one.name) == [ids[2], ids[1], ids[0]]
    assert asked(one.name, two.name) == [ids[2], ids[1]]
    assert asked(three.name, one.name) == [ids[2]]
    assert asked("no.such") == []


@pytest.mark.parametrize("name", ["event_type", "owning_application", "reader"])
@pytest.mark.parametrize("text", ["", "a\0b"], ids=["empty", "with NUL"])
def test_what_nothing_is_called_is_not_looked_for(nakadi: Nakadi, name: str, text: str) -> None:
    """A decision: a list of all would look as if these had been found."""
    said = problem(nakadi.http.get("/subscriptions", params={name: text}), 400)
    assert name in said["detail"]


def test_tokens_lead_through_all_in_the_order_of_their_ids(nakadi: Nakadi) -> None:
    """5.2; the new one begins."""
    owner, ids = several(nakadi, 5)
    found, path = [], f"/subscriptions?owning_application={owner}&token=new&limit=2"
    while path:
        body = nakadi.http.get(path).json()
        assert "prev" not in body["_links"]
        found += [each["id"] for each in body["items"]]
        path = body["_links"].get("next", {}).get("href")
    assert found == sorted(ids)


def test_one_whose_status_is_asked_for_tells_it(nakadi: Nakadi) -> None:
    """5.2, 5.9; SubscriptionAT.whenLightStatsOnNotInitializedSubscriptionThenCorrectResponse."""
    created, owner = nakadi.create(partitions=2), fresh()
    subscribe(created, owning_application=owner)
    answer = nakadi.http.get("/subscriptions", params={"owning_application": owner, "show_status": "true"})
    [item] = answer.json()["items"]
    partitions = [{"partition": each, "state": "unassigned", "stream_id": ""} for each in ("0", "1")]
    assert item["status"] == [{"event_type": created.name, "partitions": partitions}]


@pytest.mark.parametrize(
    "arguments",
    [
        {"limit": 0},
        {"limit": 1001},
        {"limit": "x"},
        {"limit": -1},
        {"offset": -1},
        {"offset": "x"},
        {"show_status": "maybe"},
        {"reader": "jane"},
    ],
    ids=str,
)
def test_a_parameter_out_of_range_is_answered_400(nakadi: Nakadi, arguments: dict[str, Any]) -> None:
    """1.4, 6."""
    problem(nakadi.http.get("/subscriptions", params=arguments), 400)


@pytest.mark.parametrize("arguments", [{"limit": 1}, {"limit": 1000}, {"offset": 0}, {"token": "new"}], ids=str)
def test_a_parameter_at_the_edge_is_taken(nakadi: Nakadi, arguments: dict[str, Any]) -> None:
    """1.4."""
    listed(nakadi, **arguments)


def test_a_trailing_slash_is_the_same_path(nakadi: Nakadi) -> None:
    """0.2, 10: one client asks for statistics so."""
    found = subscribe(nakadi.create())
    for path in ("", "/stats", "/cursors"):
        plain = nakadi.http.get(found.path + path)
        slashed = nakadi.http.get(f"{found.path}{path}/", params={"show_time_lag": "true"} if path == "/stats" else {})
        assert (slashed.status_code, slashed.json()) == (200, plain.json())
    assert nakadi.http.get("/subscriptions/").status_code == 200


# 6: what is not there


@pytest.mark.parametrize("subscription_id", ["no-such", "00000000-0000-0000-0000-000000000000"])
def test_one_that_is_not_there_is_named(strict: Nakadi, subscription_id: str) -> None:
    """6; SubscriptionAT.testGetSubscriptionNotFound."""
    body = definition(strict.create())
    path, stream = f"/subscriptions/{subscription_id}", {"X-Nakadi-StreamId": str(uuid.uuid4())}
    cursor = {"event_type": body["event_types"][0], "partition": "0", "offset": "BEGIN"}
    answers = [
        strict.http.get(path),
        strict.http.put(path, json=body),
        strict.http.delete(path),
        strict.http.get(f"{path}/cursors"),
        strict.http.get(f"{path}/stats"),
        strict.http.get(f"{path}/events"),
        strict.http.post(f"{path}/events", json={}),
        strict.http.patch(f"{path}/cursors", json={"items": []}),
        strict.http.post(f"{path}/cursors", json={"items": [cursor]}, headers=stream),
    ]
    detail = f'Subscription with id "{subscription_id}" does not exist'
    wanted = {"title": "Not Found", "status": 404, "detail": detail}
    assert [(each.status_code, each.json()) for each in answers] == [(404, wanted)] * len(answers)
