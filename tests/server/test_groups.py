"""Consumer groups over HTTP: their lists, lag, commits, resets, history, and refusals."""

import json
import uuid
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from tests.served import Served, blocked_readers, create, page_of, problem_of


def new_name(of: str = "group") -> str:
    return f"{of}-{uuid.uuid4().hex}"


def commit(http: httpx2.Client, group: str, *items: dict[str, Any], kind: str | None = "processor") -> httpx2.Response:
    body = {"items": list(items)} | ({} if kind is None else {"kind": kind})
    return http.post(f"/groups/{quote(group, safe='')}/positions", json=body)


def reset(http: httpx2.Client, group: str, **body: Any) -> httpx2.Response:
    return http.patch(f"/groups/{quote(group, safe='')}/positions", json=body)


def at(feed: Served, partition: int, offset: int, **others: Any) -> dict[str, Any]:
    return {"event_type": feed.name, "partition": partition, "offset": offset, **others}


def show(http: httpx2.Client, group: str) -> dict[str, Any]:
    answer = http.get(f"/groups/{quote(group, safe='')}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def offsets(http: httpx2.Client, group: str) -> dict[tuple[str, int], int]:
    return {(each["slice"], each["partition"]): each["offset"] for each in show(http, group)["positions"]}


def pages(http: httpx2.Client, link: str, member: str) -> list[list[str]]:
    """Return that member of the items on each page from *link* on."""
    seen = []
    while link:
        page = http.get(link).json()
        seen.append([each[member] for each in page["items"]])
        link = page["_links"].get("next", {}).get("href", "")
    return seen


@pytest.fixture
def five(feed4: Served) -> Served:
    """A feed with 5 events in each of its four partitions."""
    for partition in range(4):
        feed4.publish_ids(range(5), partition=partition)
    return feed4


def test_groups_are_listed_by_name_with_their_event_types(either_http: httpx2.Client) -> None:
    first, second = create(either_http), create(either_http)
    mine, yours = new_name("mine"), new_name("yours")
    for feed, name in ((first, mine), (second, mine), (second, yours)):
        feed.read(cursorset=name)
    up_to_date = {"kind": "cursorset", "gap": 0, "lag_seconds": 0, "offset_sum": 0}
    listed = [
        {"name": mine, "event_types": sorted([first.name, second.name]), **up_to_date},
        {"name": yours, "event_types": [second.name], **up_to_date},
    ]

    everybody = either_http.get("/groups", params={"limit": 1000}).json()["items"]
    assert [each for each in everybody if each["name"] in (mine, yours)] == listed
    assert [each["name"] for each in everybody] == sorted(each["name"] for each in everybody)
    of_second = either_http.get("/groups", params={"event_type": second.name}).json()
    assert of_second == {"items": listed, "_links": {}}
    assert either_http.get("/groups", params={"event_type": first.name}).json()["items"] == listed[:1]


def test_list_of_an_event_type_without_groups_is_empty_and_of_an_unknown_one_404(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    feed.read()
    assert either_http.get("/groups", params={"event_type": feed.name}).json() == {"items": [], "_links": {}}
    for name in ("nowhere", "no name", "\x00"):
        problem_of(either_http.get("/groups", params={"event_type": name}), 404, "event-type-not-found")


def test_list_is_read_by_page_and_by_kind(five: Served) -> None:
    http = five.http
    names = sorted(new_name() for _ in range(3))
    for name, kind in zip(names, ("processor", "spark", "processor"), strict=True):
        assert commit(http, name, at(five, 0, 1), kind=kind).status_code == 200

    seen = pages(http, f"/groups?event_type={five.name}&limit=2", "name")
    spark = http.get("/groups", params={"event_type": five.name, "kind": "spark"}).json()["items"]

    assert seen == [names[:2], names[2:]]
    assert [(each["name"], each["kind"], each["gap"]) for each in spark] == [(names[1], "spark", 4)]


def test_wrong_parameter_of_a_list_is_refused_by_name(http: httpx2.Client) -> None:
    for query in ("kind=nobody", "limit=0", "limit=1001", "after=", "after=%00", "event_type="):
        assert problem_of(http.get(f"/groups?{query}"), 400, "bad-parameter")["parameter"] == query.partition("=")[0]


def test_gap_of_a_cursor_set_is_that_of_its_slowest_slices(five: Served) -> None:
    name = new_name("team/a, b")[:50]
    end = page_of(five.get(n=4, **{f"cursor{p}": "_last" for p in range(4)}, pagesizehint=0)).cursors
    five.read(4, {0: end[0], 1: end[1]}, cursorset=name, pagesizehint=0, store_cursor=1)
    five.read(8, {1: "_first"}, cursorset=name, pagesizehint=0, store_cursor=1)

    group = show(five.http, name)

    places = [(each["slice"], each["partition"], each["offset"], each["gap"]) for each in group["positions"]]
    assert places == [("4/0", 0, 5, 0), ("4/1", 1, 5, 0), ("8/1", 1, 0, 5)]
    assert (group["kind"], group["gap"]) == ("cursorset", 5)
    assert group["lag_seconds"] == max(each["lag_seconds"] for each in group["positions"]) > 0
    assert all((each["head"], each["lost"], each["reason"]) == (5, 0, None) for each in group["positions"])
    [listed] = five.http.get("/groups", params={"event_type": five.name}).json()["items"]
    assert (listed["name"], listed["gap"]) == (name, 5)


@pytest.mark.parametrize("name", ["nobody", "gr%C3%BCn", "%00", "x" * 256])
def test_unknown_group_is_not_found(either_http: httpx2.Client, name: str) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/history"), ("GET", "/lag"), ("PATCH", "/positions")):
        body = {"to": "latest"} if method == "PATCH" else None
        problem_of(either_http.request(method, f"/groups/{name}{path}", json=body), 404, "group-not-found")


def test_positions_of_several_event_types_are_committed_and_shown(five: Served) -> None:
    http, name, other = five.http, new_name(), create(five.http)
    answer = commit(http, name, at(five, 3, 5), at(other, 0, 0, slice="worker 7"), at(five, 0, 2))

    assert answer.status_code == 200, answer.text
    placed = [(each["event_type"], each["slice"], each["partition"], each["offset"]) for each in answer.json()["items"]]
    assert placed == sorted([(five.name, "", 0, 2), (five.name, "", 3, 5), (other.name, "worker 7", 0, 0)])
    assert show(http, name)["gap"] == 3
    assert commit(http, name, at(five, 0, 1), kind=None).status_code == 200
    assert offsets(http, name)["", 0] == 1


def test_commit_with_another_expected_offset_is_refused_whole(five: Served) -> None:
    http, name = five.http, new_name()
    assert commit(http, name, at(five, 0, 2, expected=None), at(five, 1, 1)).status_code == 200

    moved = problem_of(commit(http, name, at(five, 1, 3), at(five, 0, 4, expected=1)), 409, "position-moved")
    nothing = problem_of(commit(http, name, at(five, 3, 3, expected=2)), 409, "position-moved")
    something = problem_of(commit(http, name, at(five, 0, 3, expected=None)), 409, "position-moved")

    assert (moved["partition"], moved["expected"], moved["offset"], moved["epoch"]) == (0, 1, 2, 1)
    assert (nothing["offset"], nothing["epoch"]) == (None, None)
    assert (something["expected"], something["offset"]) == (None, 2)
    assert offsets(http, name) == {("", 0): 2, ("", 1): 1}, "nothing of a commit that is refused is stored"
    assert commit(http, name, at(five, 1, 3), at(five, 0, 4, expected=2)).status_code == 200
    assert offsets(http, name) == {("", 0): 4, ("", 1): 3}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        *(({"offset": offset}, f"there is no offset {offset}: it ends at 5") for offset in (6, -1)),
        *(({"partition": partition}, "partitions are numbered from 0 to 3") for partition in (4, -1)),
        *(({"event_type": name}, "there is no such event type") for name in ("nothing", "\x00")),
        ({"epoch": 2}, "it is of the feed's epoch 2, which is now 1"),
        ({"slice": "\x00"}, "a slice is up to 255 printable characters of ASCII"),
        ({"partition": 1}, "it is named twice"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_unusable_position_of_a_commit_is_refused_by_item(five: Served, wrong: dict[str, Any], reason: str) -> None:
    name = new_name()
    told = problem_of(commit(five.http, name, at(five, 1, 1), at(five, 0, 1) | wrong), 422, "unusable-position")

    assert (told["item"], told["reason"]) == (1, reason)
    assert five.http.get(f"/groups/{name}").status_code == 404


def test_cursor_set_is_committed_by_slice(five: Served) -> None:
    http, name = five.http, new_name()
    for part in ("", "3/0", "4/1", "2/2", "x"):
        told = problem_of(commit(http, name, at(five, 2, 1, slice=part), kind="cursorset"), 422, "unusable-position")
        assert told["reason"].startswith("the slice of a cursor set is n/partition")

    assert commit(http, name, at(five, 2, 1, slice="4/2"), kind="cursorset").status_code == 200
    resumed = page_of(five.get(n=4, resume="2", cursorset=name))
    assert resumed.ids == [1, 2, 3, 4]


PLACE = {"event_type": "a", "partition": 0, "offset": 0}


def test_malformed_body_of_a_commit_or_reset_is_refused(http: httpx2.Client) -> None:
    wrong = [PLACE | member for member in ({"more": 1}, {"partition": 0.0}, {"offset": None})]
    wholes = [{}, {"items": []}, {"items": [{}]}, {"items": [PLACE], "kind": "subscription"}]
    wholes += [{"items": [each]} for each in wrong]
    texts = (b"{", b'{"items":[],"items":[]}', b"[]", *(json.dumps(each).encode() for each in wholes))
    for body in texts:
        for method in ("POST", "PATCH"):
            problem_of(http.request(method, "/groups/a/positions", content=body), 400, "bad-parameter")


def test_kind_of_a_group_is_given_by_its_first_commit_and_kept(five: Served) -> None:
    http, name = five.http, new_name()

    assert problem_of(commit(http, name, at(five, 0, 1), kind=None), 400, "bad-parameter")["parameter"] == "kind"
    assert commit(http, name, at(five, 0, 1), kind="spark").status_code == 200
    told = problem_of(commit(http, name, at(five, 0, 2), kind="processor"), 409, "group-kind-differs")
    assert (told["kind"], told["reason"]) == ("spark", "it cannot be a processor")
    kept = five.get(n=4, cursor0="_first", cursorset=name)
    assert problem_of(kept, 409, "group-kind-differs")["kind"] == "spark"
    assert offsets(http, name) == {("", 0): 1}


def test_name_that_could_not_be_requested_is_refused(http: httpx2.Client) -> None:
    for name in (".", "..", "grün", "\x00", "x" * 256):
        path = "/groups/" + "".join(f"%{byte:02X}" for byte in name.encode()) + "/positions"
        body = {"kind": "spark", "items": [PLACE]}
        assert problem_of(http.post(path, json=body), 400, "bad-parameter")["parameter"] == "group"


def test_reset_moves_all_positions_of_the_group_and_is_in_its_history(five: Served) -> None:
    http, name, other = five.http, new_name(), create(five.http)
    other.publish_ids(range(3))
    commit(http, name, at(five, 0, 2), at(other, 0, 1))

    tried = reset(http, name, to="earliest", dry_run=True).json()
    assert show(http, name)["gap"] == 3 + 2, "a dry run moves nothing"
    done = reset(http, name, to="earliest", reason="the table was lost").json()

    assert (tried["dry_run"], done["dry_run"]) == (True, False)
    assert tried["items"] == done["items"]
    moved = {(each["event_type"], each["partition"]): (each["came_from"], each["offset"], each["gap"])
             for each in done["items"]}  # fmt: skip
    assert moved == {(five.name, p): (2 if p == 0 else None, 0, 5) for p in range(4)} | {(other.name, 0): (1, 0, 3)}
    assert show(http, name)["gap"] == 4 * 5 + 3
    history = http.get(f"/groups/{name}/history").json()["items"]
    assert len(history) == 5
    assert {each["reason"] for each in history} == {"the table was lost"}
    assert {(each["event_type"], each["partition"], each["came_from"], each["went_to"]) for each in history} == {
        (*place, came_from, offset) for place, (came_from, offset, _) in moved.items()
    }


@pytest.mark.parametrize(
    ("to", "offset"), [("1h", 0), ("2020-01-01T00:00:00Z", 0), ("2999-01-01T00:00:00+01:00", 5), ("LATEST", 5)]
)
def test_reset_moves_to_a_time_a_duration_ago_or_an_end(five: Served, to: str, offset: int) -> None:
    name = new_name()
    commit(five.http, name, at(five, 0, 2))

    moved = reset(five.http, name, items=[{"event_type": five.name, "partition": 0, "to": to}]).json()["items"]

    assert [(each["came_from"], each["offset"]) for each in moved] == [(2, offset)]


def test_reset_to_an_unknown_position_is_refused_whole(five: Served) -> None:
    name = new_name()
    commit(five.http, name, at(five, 0, 2))
    items = [
        {"event_type": five.name, "partition": 0, "to": "latest"},
        {"event_type": five.name, "partition": 7, "to": "latest"},
    ]

    refused = problem_of(reset(five.http, name, items=items), 422, "unusable-position")

    assert (refused["item"], refused["reason"]) == (1, "partitions are numbered from 0 to 3")
    assert offsets(five.http, name) == {("", 0): 2}
    assert five.http.get(f"/groups/{name}/history").json()["items"] == []


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({}, "to"),
        ({"at": "2026-11-20T10:00:00Z"}, "body"),
        ({"to": 7}, "body"),
        ({"to": "begin"}, "to"),
        ({"to": "17"}, "to"),
        ({"to": "2026-11-20T10:00:00"}, "to"),
        ({"to": "latest", "offset": 7}, "body"),
        ({"to": "latest", "items": [{"event_type": "a", "to": "latest"}]}, "items"),
        ({"items": []}, "items"),
        ({"items": [{"event_type": "a"}]}, "items[0]"),
        ({"items": [{"event_type": "a", "to": "latest", "offset": 0}]}, "items[0]"),
        ({"items": [{"event_type": "a", "offset": 0}]}, "items[0].partition"),
        ({"items": [{"event_type": "a", "to": "now"}]}, "items[0].to"),
        ({"to": "latest", "reason": "a\nb"}, "reason"),
        ({"to": "latest", "reason": "x" * 1_001}, "reason"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_reset_without_exactly_one_goal_is_refused_by_parameter(http: httpx2.Client, body: Any, parameter: str) -> None:
    assert problem_of(reset(http, "a", **body), 400, "bad-parameter")["parameter"] == parameter


def test_history_is_read_by_page(five: Served) -> None:
    http, name = five.http, new_name("a/b")
    commit(http, name, at(five, 0, 2))
    for offset in range(3):
        reset(http, name, items=[at(five, 0, offset)], reason=f"number {offset}")

    seen = pages(http, f"/groups/{quote(name, safe='')}/history?limit=2", "reason")

    assert seen == [["number 2", "number 1"], ["number 0"]]


def test_forgotten_group_leaves_no_positions_and_no_history(five: Served) -> None:
    http, name = five.http, new_name()
    commit(http, name, at(five, 0, 2))
    reset(http, name, to="latest")

    assert http.delete(f"/groups/{name}").status_code == 204

    problem_of(http.get(f"/groups/{name}"), 404, "group-not-found")
    assert commit(http, name, at(five, 0, 1, expected=None)).status_code == 200
    assert http.get(f"/groups/{name}/history").json() == {"items": [], "_links": {}}


def test_blocked_consumer_commits_nothing(five: Served) -> None:
    with blocked_readers(five):
        problem_of(commit(five.http, new_name(), at(five, 0, 2)), 403, "blocked")


def test_subscription_is_listed_as_a_group_but_changed_by_its_own_routes(five: Served) -> None:
    http = five.http
    wanted = {"owning_application": "shop", "event_types": [five.name], "consumer_group": "mails"}
    made = http.post("/subscriptions", json=wanted | {"read_from": "begin"}).json()["id"]
    commit(http, new_name("a"), at(five, 0, 5))

    of_both = http.get("/groups", params={"event_type": five.name}).json()["items"]
    [listed] = http.get("/groups", params={"event_type": five.name, "kind": "subscription"}).json()["items"]

    assert sorted(each["kind"] for each in of_both) == ["processor", "subscription"]
    assert listed == {
        "name": made,
        "kind": "subscription",
        "event_types": [five.name],
        "gap": None,
        "lag_seconds": None,
        "owning_application": "shop",
        "consumer_group": "mails",
    }
    assert show(http, made) == listed | {"positions": []}
    refused = [
        commit(http, made, at(five, 0, 1), kind=None),
        reset(http, made, to="latest", dry_run=True),
        http.delete(f"/groups/{made}"),
    ]
    reasons = [problem_of(each, 409, "group-kind-differs")["reason"] for each in refused]
    assert [reason.partition("/")[0].split()[-1] for reason in reasons] == ["POST", "PATCH", "DELETE"]


def test_group_of_a_subscription_has_its_gap_once_it_is_read(five: Served) -> None:
    http = five.http
    wanted = {"owning_application": "shop", "event_types": [five.name], "read_from": "begin"}
    made = http.post("/subscriptions", json=wanted).json()["id"]
    with http.stream("GET", f"/subscriptions/{made}/events") as stream:
        assert next(stream.iter_lines())

    group = show(http, made)

    assert (group["gap"], len(group["positions"])) == (20, 4)
    assert group["lag_seconds"] > 0
