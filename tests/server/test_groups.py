"""Consumer groups over HTTP: who reads what, how far each is behind, and what moves them."""

import uuid
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from tests.served import Served, create, page_of, problem_of


def a_name(of: str = "group") -> str:
    return f"{of}-{uuid.uuid4().hex}"


def commit(http: httpx2.Client, group: str, *items: dict[str, Any], kind: str | None = "processor") -> httpx2.Response:
    body = {"items": list(items)} | ({} if kind is None else {"kind": kind})
    return http.post(f"/groups/{quote(group, safe='')}/positions", json=body)


def reset(http: httpx2.Client, group: str, **body: Any) -> httpx2.Response:
    return http.patch(f"/groups/{quote(group, safe='')}/positions", json=body)


def at(feed: Served, partition: int, offset: int, **others: Any) -> dict[str, Any]:
    return {"event_type": feed.name, "partition": partition, "offset": offset, **others}


def shown(http: httpx2.Client, group: str) -> dict[str, Any]:
    answer = http.get(f"/groups/{quote(group, safe='')}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def offsets(http: httpx2.Client, group: str) -> dict[tuple[str, int], int]:
    return {(each["slice"], each["partition"]): each["offset"] for each in shown(http, group)["positions"]}


@pytest.fixture
def filled(feed4: Served) -> Served:
    """A feed with 5 events in each of its four partitions."""
    for partition in range(4):
        feed4.publish_ids(range(5), partition=partition)
    return feed4


def test_a_group_is_listed_with_all_that_it_has_read(either_http: httpx2.Client) -> None:
    first, second = create(either_http), create(either_http)
    mine, yours = a_name("mine"), a_name("yours")
    for feed, name in ((first, mine), (second, mine), (second, yours)):
        feed.read(cursorset=name)
    up_to_date = {"kind": "cursorset", "gap": 0, "lag_seconds": 0}
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


def test_an_event_type_that_nobody_has_read_has_no_groups(http: httpx2.Client) -> None:
    feed = create(http)
    feed.read()
    assert http.get("/groups", params={"event_type": feed.name}).json() == {"items": [], "_links": {}}


@pytest.mark.parametrize("name", ["nowhere", "no name", "\x00"])
def test_the_groups_of_what_is_not_there_are_not_found(either_http: httpx2.Client, name: str) -> None:
    problem_of(either_http.get("/groups", params={"event_type": name}), 404, "event-type-not-found")


def test_a_list_is_read_page_by_page_and_by_kind(filled: Served) -> None:
    http = filled.http
    names = sorted(a_name() for _ in range(3))
    for name, kind in zip(names, ("processor", "spark", "processor"), strict=True):
        assert commit(http, name, at(filled, 0, 1), kind=kind).status_code == 200

    seen, link = [], f"/groups?event_type={filled.name}&limit=2"
    while link:
        page = http.get(link).json()
        seen += [[each["name"] for each in page["items"]]]
        link = page["_links"].get("next", {}).get("href", "")
    spark = http.get("/groups", params={"event_type": filled.name, "kind": "spark"}).json()["items"]

    assert seen == [names[:2], names[2:]]
    assert [(each["name"], each["kind"], each["gap"]) for each in spark] == [(names[1], "spark", 4)]


@pytest.mark.parametrize(
    "query", ["kind=nobody", "kind=", "limit=0", "limit=1001", "after=", "after=%00", "event_type="], ids=str
)
def test_what_a_list_cannot_be_asked_for_is_named(http: httpx2.Client, query: str) -> None:
    assert problem_of(http.get(f"/groups?{query}"), 400, "bad-parameter")["parameter"] == query.partition("=")[0]


def test_a_cursor_set_is_behind_as_its_slowest_slices(filled: Served) -> None:
    name = a_name("team/a, b")[:50]
    end = page_of(filled.get(n=4, **{f"cursor{p}": "_last" for p in range(4)}, pagesizehint=0)).cursors
    filled.read(4, {0: end[0], 1: end[1]}, cursorset=name, pagesizehint=0, store_cursor=1)
    filled.read(8, {1: "_first"}, cursorset=name, pagesizehint=0, store_cursor=1)

    group = shown(filled.http, name)

    places = [(each["slice"], each["partition"], each["offset"], each["gap"]) for each in group["positions"]]
    assert places == [("4/0", 0, 5, 0), ("4/1", 1, 5, 0), ("8/1", 1, 0, 5)]
    assert (group["kind"], group["gap"]) == ("cursorset", 5)
    assert group["lag_seconds"] == max(each["lag_seconds"] for each in group["positions"]) > 0
    assert all((each["head"], each["lost"], each["reason"]) == (5, 0, None) for each in group["positions"])
    [listed] = filled.http.get("/groups", params={"event_type": filled.name}).json()["items"]
    assert (listed["name"], listed["gap"]) == (name, 5)


@pytest.mark.parametrize("name", ["nobody", "gr%C3%BCn", "%00", "x" * 256])
@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("DELETE", ""), ("GET", "/history"), ("PATCH", "/positions")], ids=" ".join
)
def test_what_is_no_group_is_not_found(either_http: httpx2.Client, name: str, method: str, path: str) -> None:
    body = {"json": {"to": "end"}} if method == "PATCH" else {}
    problem_of(either_http.request(method, f"/groups/{name}{path}", **body), 404, "group-not-found")


def test_positions_are_committed_together_and_shown_as_they_are_stored(filled: Served) -> None:
    http, name, other = filled.http, a_name(), create(filled.http)
    answer = commit(http, name, at(filled, 3, 5), at(other, 0, 0, slice="worker 7"), at(filled, 0, 2))

    assert answer.status_code == 200, answer.text
    placed = [(each["event_type"], each["slice"], each["partition"], each["offset"]) for each in answer.json()["items"]]
    assert placed == sorted([(filled.name, "", 0, 2), (filled.name, "", 3, 5), (other.name, "worker 7", 0, 0)])
    assert shown(http, name)["gap"] == 3
    assert commit(http, name, at(filled, 0, 1), kind=None).status_code == 200
    assert offsets(http, name)["", 0] == 1


def test_a_commit_goes_through_only_where_it_finds_what_it_expects(filled: Served) -> None:
    http, name = filled.http, a_name()
    assert commit(http, name, at(filled, 0, 2, expected=None), at(filled, 1, 1)).status_code == 200

    told = problem_of(commit(http, name, at(filled, 1, 3), at(filled, 0, 4, expected=1)), 409, "position-moved")
    nothing = problem_of(commit(http, name, at(filled, 3, 3, expected=2)), 409, "position-moved")
    something = problem_of(commit(http, name, at(filled, 0, 3, expected=None)), 409, "position-moved")

    assert (told["partition"], told["expected"], told["offset"], told["epoch"]) == (0, 1, 2, 1)
    assert (nothing["offset"], nothing["epoch"]) == (None, None)
    assert (something["expected"], something["offset"]) == (None, 2)
    assert offsets(http, name) == {("", 0): 2, ("", 1): 1}, "nothing of a commit that is refused is stored"
    assert commit(http, name, at(filled, 1, 3), at(filled, 0, 4, expected=2)).status_code == 200
    assert offsets(http, name) == {("", 0): 4, ("", 1): 3}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"offset": 6}, "there is no offset 6: it ends at 5"),
        ({"offset": -1}, "there is no offset -1: it ends at 5"),
        ({"partition": 4}, "partitions are numbered from 0 to 3"),
        ({"partition": -1}, "partitions are numbered from 0 to 3"),
        ({"event_type": "nothing"}, "there is no such event type"),
        ({"event_type": "\x00"}, "there is no such event type"),
        ({"epoch": 2}, "it is of the feed's epoch 2, which is now 1"),
        ({"slice": "\x00"}, "a slice is up to 255 printable characters of ASCII"),
        ({"partition": 1}, "it is named twice"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_position_that_cannot_be_had_is_named(filled: Served, wrong: dict[str, Any], reason: str) -> None:
    name = a_name()
    told = problem_of(commit(filled.http, name, at(filled, 1, 1), at(filled, 0, 1) | wrong), 422, "unusable-position")

    assert (told["item"], told["reason"]) == (1, reason)
    assert filled.http.get(f"/groups/{name}").status_code == 404


@pytest.mark.parametrize("part", ["", "3/0", "4/1", "2/2", "x"])
def test_a_cursor_set_is_committed_by_its_views(filled: Served, part: str) -> None:
    http, name = filled.http, a_name()
    told = problem_of(commit(http, name, at(filled, 2, 1, slice=part), kind="cursorset"), 422, "unusable-position")
    assert told["reason"].startswith("the slice of a cursor set is n/partition")

    assert commit(http, name, at(filled, 2, 1, slice="4/2"), kind="cursorset").status_code == 200
    resumed = page_of(filled.get(n=4, resume="2", cursorset=name))
    assert resumed.ids == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"items": []},
        {"items": [{}]},
        {"items": [{"event_type": "a", "partition": 0, "offset": 0, "more": 1}]},
        {"items": [{"event_type": "a", "partition": 0.0, "offset": 0}]},
        {"items": [{"event_type": "a", "partition": 0, "offset": None}]},
        {"items": [{"event_type": "a", "partition": 0, "offset": 0}], "kind": "subscription"},
    ],
    ids=str,
)
def test_a_commit_that_cannot_be_understood_is_refused(http: httpx2.Client, body: Any) -> None:
    problem_of(http.post("/groups/a/positions", json=body), 400, "bad-parameter")


@pytest.mark.parametrize("body", [b"", b"{", b'{"items":[],"items":[]}', b"\xff"], ids=repr)
def test_a_body_that_is_no_json_is_refused(http: httpx2.Client, body: bytes) -> None:
    for method in ("POST", "PATCH"):
        problem_of(http.request(method, "/groups/a/positions", content=body), 400, "bad-parameter")


def test_a_new_group_says_of_which_kind_it_is_and_stays_so(filled: Served) -> None:
    http, name = filled.http, a_name()

    assert problem_of(commit(http, name, at(filled, 0, 1), kind=None), 400, "bad-parameter")["parameter"] == "kind"
    assert commit(http, name, at(filled, 0, 1), kind="spark").status_code == 200
    told = problem_of(commit(http, name, at(filled, 0, 2), kind="processor"), 409, "group-kind-differs")
    assert (told["kind"], told["reason"]) == ("spark", "it cannot be a processor")
    kept = filled.get(n=4, cursor0="_first", cursorset=name)
    assert problem_of(kept, 409, "group-kind-differs")["kind"] == "spark"
    assert offsets(http, name) == {("", 0): 1}


@pytest.mark.parametrize("name", [".", "..", "grün", "\x00", "x" * 256], ids=repr)
def test_no_group_is_made_that_could_not_be_asked_for(http: httpx2.Client, name: str) -> None:
    path = "/groups/" + "".join(f"%{byte:02X}" for byte in name.encode()) + "/positions"
    body = {"kind": "spark", "items": [{"event_type": "a", "partition": 0, "offset": 0}]}
    assert problem_of(http.post(path, json=body), 400, "bad-parameter")["parameter"] == "group"


def test_a_reset_moves_all_that_the_group_reads_and_is_remembered(filled: Served) -> None:
    http, name, other = filled.http, a_name(), create(filled.http)
    other.publish_ids(range(3))
    commit(http, name, at(filled, 0, 2), at(other, 0, 1))

    tried = reset(http, name, to="begin", dry_run=True).json()
    assert shown(http, name)["gap"] == 3 + 2, "a dry run moves nothing"
    done = reset(http, name, to="begin", reason="the table was lost").json()

    assert (tried["dry_run"], done["dry_run"]) == (True, False)
    assert tried["items"] == done["items"]
    moved = {(each["event_type"], each["partition"]): (each["came_from"], each["offset"], each["gap"])
             for each in done["items"]}  # fmt: skip
    assert moved == {(filled.name, p): (2 if p == 0 else None, 0, 5) for p in range(4)} | {(other.name, 0): (1, 0, 3)}
    assert shown(http, name)["gap"] == 4 * 5 + 3
    history = http.get(f"/groups/{name}/history").json()["items"]
    assert len(history) == 5
    assert {each["reason"] for each in history} == {"the table was lost"}
    assert {(each["event_type"], each["partition"], each["came_from"], each["went_to"]) for each in history} == {
        (*place, came_from, offset) for place, (came_from, offset, _) in moved.items()
    }


def test_a_reset_to_the_end_leaves_nothing(filled: Served) -> None:
    http, name = filled.http, a_name()
    commit(http, name, at(filled, 2, 2))

    assert reset(http, name, items=[{"event_type": filled.name, "partition": 2, "to": "end"}]).status_code == 200

    assert offsets(http, name) == {("", 2): 5}
    assert shown(http, name)["gap"] == 0


def test_a_reset_to_a_time_goes_to_the_first_event_received_then_or_later(feed4: Served) -> None:
    http, name = feed4.http, a_name()
    commit(http, name, at(feed4, 0, 0))
    received = []
    for number in range(3):
        feed4.publish_ids([number], partition=0)
        [moment] = http.get(f"/groups/{name}").json()["positions"]
        received.append(moment["head"])
        commit(http, name, at(feed4, 0, number + 1))
    since = datetime.fromisoformat(shown(http, name)["positions"][0]["updated_at"])

    early, late = (since + timedelta(days=days) for days in (-1, 1))
    for time, offset in ((early, 0), (late, 3)):
        item = {"event_type": feed4.name, "partition": 0, "at": time.isoformat()}
        [moved] = reset(http, name, items=[item]).json()["items"]
        assert moved["offset"] == offset
    assert received == [1, 2, 3]


def test_a_reset_of_a_cursor_set_moves_its_views(filled: Served) -> None:
    name = a_name()
    filled.read(2, {0: "_first"}, cursorset=name, pagesizehint=0, store_cursor=1)

    reset(filled.http, name, items=[{"event_type": filled.name, "partition": 2, "offset": 3}])

    assert offsets(filled.http, name) == {("2/0", 0): 0, ("2/0", 2): 3}
    resumed = page_of(filled.get(n=2, resume="0", cursorset=name))
    assert sorted(resumed.ids) == [0, 1, 2, 3, 3, 4, 4]
    item = {"event_type": filled.name, "partition": 1, "to": "end"}
    told = problem_of(reset(filled.http, name, items=[item]), 422, "unusable-position")
    assert told["reason"] == "the group has no position there: say in which slice it is to have one"
    assert reset(filled.http, name, items=[item | {"slice": "4/1"}]).status_code == 200
    assert offsets(filled.http, name)["4/1", 1] == 5


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"partition": 0, "offset": 6}, "6 is beyond its end, which is 5"),
        ({"partition": 0, "offset": -1}, "there is no offset -1"),
        ({"partition": 7, "to": "end"}, "partitions are numbered from 0 to 3"),
        ({"event_type": "nothing", "to": "end"}, "there is no such event type"),
    ],
    ids=["beyond the end", "before the beginning", "no partition", "no event type"],
)
def test_a_group_cannot_be_moved_to_where_nothing_is(filled: Served, item: dict[str, Any], reason: str) -> None:
    name = a_name()
    commit(filled.http, name, at(filled, 0, 2))
    given = {"event_type": filled.name} | item

    told = problem_of(reset(filled.http, name, items=[given]), 422, "unusable-position")

    assert (told["item"], told["reason"]) == (0, reason)
    assert offsets(filled.http, name) == {("", 0): 2}
    assert filled.http.get(f"/groups/{name}/history").json()["items"] == []


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({}, "to"),
        ({"to": "end", "at": "2026-11-20T10:00:00Z"}, "to"),
        ({"to": "middle"}, "body"),
        ({"at": "yesterday"}, "at"),
        ({"at": "2026-11-20T10:00:00"}, "at"),
        ({"to": "end", "offset": 7}, "body"),
        ({"to": "end", "items": [{"event_type": "a", "to": "end"}]}, "items"),
        ({"items": []}, "items"),
        ({"items": [{"event_type": "a"}]}, "items[0]"),
        ({"items": [{"event_type": "a", "to": "end", "offset": 0}]}, "items[0]"),
        ({"items": [{"event_type": "a", "offset": 0}]}, "items[0].partition"),
        ({"items": [{"event_type": "a", "at": "now"}]}, "items[0].at"),
        ({"to": "end", "reason": "a\nb"}, "reason"),
        ({"to": "end", "reason": "x" * 1_001}, "reason"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_a_reset_that_cannot_be_understood_is_refused(http: httpx2.Client, body: Any, parameter: str) -> None:
    assert problem_of(reset(http, "a", **body), 400, "bad-parameter")["parameter"] == parameter


def test_history_is_read_page_by_page(filled: Served) -> None:
    http, name = filled.http, a_name("a/b")
    commit(http, name, at(filled, 0, 2))
    for offset in range(3):
        reset(http, name, items=[at(filled, 0, offset)], reason=f"number {offset}")

    seen, link = [], f"/groups/{quote(name, safe='')}/history?limit=2"
    while link:
        page = http.get(link).json()
        seen += [[each["reason"] for each in page["items"]]]
        link = page["_links"].get("next", {}).get("href", "")

    assert seen == [["number 2", "number 1"], ["number 0"]]


def test_a_group_that_is_forgotten_has_never_been(filled: Served) -> None:
    http, name = filled.http, a_name()
    commit(http, name, at(filled, 0, 2))
    reset(http, name, to="end")

    assert http.delete(f"/groups/{name}").status_code == 204

    problem_of(http.get(f"/groups/{name}"), 404, "group-not-found")
    assert commit(http, name, at(filled, 0, 1, expected=None)).status_code == 200
    assert http.get(f"/groups/{name}/history").json() == {"items": [], "_links": {}}


def test_who_is_blocked_commits_nothing(filled: Served) -> None:
    block = f"/settings/blacklist/CONSUMER_ET/{filled.name}"
    assert filled.http.put(block).status_code == 204
    try:
        problem_of(commit(filled.http, a_name(), at(filled, 0, 2)), 403, "blocked")
    finally:
        filled.http.delete(block)


def test_a_subscription_is_shown_beside_the_others_and_moved_as_one(filled: Served) -> None:
    http = filled.http
    wanted = {"owning_application": "shop", "event_types": [filled.name], "consumer_group": "mails"}
    made = http.post("/subscriptions", json=wanted | {"read_from": "begin"}).json()["id"]
    commit(http, a_name("a"), at(filled, 0, 5))

    of_both = http.get("/groups", params={"event_type": filled.name}).json()["items"]
    [listed] = http.get("/groups", params={"event_type": filled.name, "kind": "subscription"}).json()["items"]

    assert sorted(each["kind"] for each in of_both) == ["processor", "subscription"]
    assert listed == {
        "name": made,
        "kind": "subscription",
        "event_types": [filled.name],
        "gap": None,
        "lag_seconds": None,
        "owning_application": "shop",
        "consumer_group": "mails",
    }
    assert shown(http, made) == listed | {"positions": []}
    refused = [
        commit(http, made, at(filled, 0, 1), kind=None),
        reset(http, made, to="end", dry_run=True),
        http.delete(f"/groups/{made}"),
    ]
    reasons = [problem_of(each, 409, "group-kind-differs")["reason"] for each in refused]
    assert [reason.partition("/")[0].split()[-1] for reason in reasons] == ["POST", "PATCH", "DELETE"]


def test_a_subscription_that_has_begun_tells_how_far_behind_it_is(filled: Served) -> None:
    http = filled.http
    wanted = {"owning_application": "shop", "event_types": [filled.name], "read_from": "begin"}
    made = http.post("/subscriptions", json=wanted).json()["id"]
    with http.stream("GET", f"/subscriptions/{made}/events") as stream:
        assert next(stream.iter_lines())

    group = shown(http, made)

    assert (group["gap"], len(group["positions"])) == (20, 4)
    assert group["lag_seconds"] > 0
