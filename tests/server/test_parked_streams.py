"""Parked streams of groups over HTTP: put with positions, listed, retried, skipped, moved, and bounded."""

from typing import Any

import httpx2
import pytest

from penstock.core.groups import parking as group_parking
from tests.served import Served, create, problem_of
from tests.server.test_groups import at, new_name, pages

SPAN = {"index": 3, "next": 5, "events": 2, "attempts": 2, "tag": "ValueError", "detail": "no", "since": "1:2"}


@pytest.fixture
def group(five: Served) -> str:
    """A group with a position in each partition."""
    name = new_name()
    assert commit(five, name, items=[at(five, partition, 1) for partition in range(4)]).status_code == 200
    return name


@pytest.fixture
def five(feed4: Served) -> Served:
    """A feed with 5 events in each of its four partitions."""
    for partition in range(4):
        feed4.publish_ids(range(5), partition=partition)
    return feed4


def stream(feed: Served, name: str, partition: int = 0, **others: Any) -> dict[str, Any]:
    return {"event_type": feed.name, "partition": partition, "stream": name, **others}


def commit(feed: Served, group: str, *, items: Any = (), kind: str = "processor", **changes: Any) -> httpx2.Response:
    return feed.http.post(f"/groups/{group}/positions", json={"items": list(items), "kind": kind, **changes})


def parked(feed: Served, group: str, query: str = "") -> list[dict[str, Any]]:
    answer = feed.http.get(f"/groups/{group}/parked{query}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def test_streams_are_parked_with_the_positions_or_not_at_all(five: Served, group: str) -> None:
    first = commit(five, group, items=[at(five, 0, 4, expected=1)], parked=[stream(five, "a", **SPAN)])
    assert first.status_code == 200, first.text

    later = {**SPAN, "next": 9}
    late = commit(five, group, items=[at(five, 0, 5, expected=1)], parked=[stream(five, "b", **SPAN)])
    problem_of(late, 409, "position-moved")
    assert commit(five, group, parked=[stream(five, "a", **later)]).status_code == 200

    [found] = parked(five, group)
    assert found.items() >= {**later, "event_type": five.name, "partition": 0, "stream": "a", "request": None}.items()
    assert commit(five, group, unparked=[stream(five, "a")]).status_code == 200
    assert parked(five, group) == []


def test_request_stays_until_the_stream_is_tried_in_vain_or_parked_anew(five: Served, group: str) -> None:
    http = five.http
    commit(five, group, parked=[stream(five, "a", **SPAN), stream(five, "a", 1, **SPAN), stream(five, "b", **SPAN)])
    first, second = (each for each in parked(five, group) if each["stream"] == "a")

    assert http.post(f"/groups/{group}/parked/{first['id']}/retry").status_code == 204
    assert [each["id"] for each in parked(five, group, "?requested=true")] == [first["id"], second["id"]]
    commit(five, group, parked=[stream(five, "a", **SPAN)])
    assert len(parked(five, group, "?requested=true")) == 2, "it goes on being tried"
    commit(five, group, parked=[stream(five, "a", **{**SPAN, "attempts": 4})], tried=[stream(five, "a", 1)])
    assert parked(five, group, "?requested=true") == []

    assert http.post(f"/groups/{group}/parked/retry").json() == {"retried": 2}
    assert len(parked(five, group, "?requested=true")) == 3
    commit(five, group, unparked=[stream(five, "b")], parked=[stream(five, "b", **SPAN)])
    assert [each["stream"] for each in parked(five, group, "?requested=true")] == ["a", "a"]
    assert [each["stream"] for each in parked(five, group)] == ["a", "a", "b"], "b is the youngest now"


def test_skip_needs_a_reason_and_is_in_the_history(five: Served, group: str) -> None:
    http = five.http
    commit(five, group, parked=[stream(five, "a", **SPAN)])
    path = f"/groups/{group}/parked/{parked(five, group)[0]['id']}/skip"
    for body in (b"", b"{}", b'{"reason": " "}', b'{"reason": 7}', b"[]", b'{"reason": "\\u0000"}'):
        problem_of(http.post(path, content=body), 400, "bad-parameter")

    assert http.post(path, json={"reason": "a test order"}).status_code == 204

    assert [each["request"] for each in parked(five, group)] == ["skip"]
    [done] = http.get(f"/groups/{group}/history").json()["items"]
    wanted = {"kind": "skipped", "came_from": 3, "went_to": 5, "reason": "a test order (stream a)", "epoch": 1}
    assert done.items() >= wanted.items()


def test_parked_streams_are_read_by_page(five: Served) -> None:
    group = new_name("team/a")
    path = group.replace("/", "%2F")
    streams = [stream(five, f"s{number}", **SPAN) for number in range(5)]
    commit(five, path, items=[at(five, 0, 1)], parked=streams)

    assert pages(five.http, f"/groups/{path}/parked?limit=2", "stream") == [["s0", "s1"], ["s2", "s3"], ["s4"]]
    five.http.post(f"/groups/{path}/parked/retry")
    found = pages(five.http, f"/groups/{path}/parked?limit=3&requested=true", "stream")
    assert found == [["s0", "s1", "s2"], ["s3", "s4"]]
    for query in ("limit=0", "limit=1001", "after=x", "requested=1"):
        problem_of(five.http.get(f"/groups/{path}/parked?{query}"), 400, "bad-parameter")


@pytest.mark.parametrize(("offset", "index", "since"), [(1, 0, "1:1"), (2, 0, "1:2"), (3, 3, "1:2"), (5, 3, "1:2")])
def test_parked_stream_waits_from_the_earlier_position_once_its_group_is_moved(
    five: Served, group: str, offset: int, index: int, since: str
) -> None:
    commit(five, group, items=[at(five, 0, 5)], parked=[stream(five, "a", **SPAN), stream(five, "b", 1, **SPAN)])
    moves = {"items": [{"event_type": five.name, "partition": 0, "offset": offset}]}
    assert five.http.patch(f"/groups/{group}/positions", json=moves | {"dry_run": True}).status_code == 200
    assert five.http.patch(f"/groups/{group}/positions", json=moves).status_code == 200

    assert [(each["index"], each["since"]) for each in parked(five, group)] == [(index, since), (3, "1:2")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"index": -1}, {"events": 10**19}, {"tag": "x" * 201}, {"detail": "x" * 4_001}, {"detail": "a\0b"},
        {"since": "2"}, {"since": "1:2\n"}, {"since": "1:" + "9" * 19}, {"stream": ""}, {"stream": "x" * 2_001},
        {"stream": "a\0"}, {"partition": 4}, {"partition": -1}, {"event_type": "nowhere"}, {"more": 1},
    ],
    ids=lambda wrong: repr(wrong)[:24],
)  # fmt: skip
def test_malformed_parked_stream_is_refused_whole(five: Served, group: str, wrong: dict[str, Any]) -> None:
    refused = commit(five, group, items=[at(five, 0, 4)], parked=[stream(five, "a", **SPAN) | wrong])
    assert problem_of(refused, 400, "bad-parameter")
    assert five.http.get(f"/groups/{group}").json()["positions"][0]["offset"] == 1


def test_parked_streams_of_a_group_are_bounded(five: Served, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    most = group_parking.PARKED_MAX
    span = SPAN | {"detail": "", "tag": ""}
    full = commit(five, group, parked=[stream(five, f"s{number}", **span) for number in range(most)])
    assert full.status_code == 200, full.text

    refused = problem_of(commit(five, group, parked=[stream(five, "more", **span)]), 429, "too-many-parked")
    assert (refused["group"], refused["limit"]) == (group, most)
    replaced = commit(five, group, unparked=[stream(five, "s1")], parked=[stream(five, "more", **span)])
    assert replaced.status_code == 200


def test_only_processors_park_streams(five: Served) -> None:
    group = new_name()
    refused = commit(five, group, items=[at(five, 0, 1)], kind="spark", parked=[stream(five, "a", **SPAN)])
    assert "only a processor parks" in problem_of(refused, 409, "group-kind-differs")["detail"]


def test_unknown_parked_stream_is_not_found(five: Served, group: str) -> None:
    other = new_name()
    commit(five, group, parked=[stream(five, "a", **SPAN)])
    commit(five, other, items=[at(five, 0, 1)])
    [found] = parked(five, group)
    for name, number in ((other, found["id"]), (group, "999999999"), (group, "x"), (group, "9" * 19)):
        for act in ("retry", "skip"):
            answer = five.http.post(f"/groups/{name}/parked/{number}/{act}", json={"reason": "no"})
            problem_of(answer, 404, "parked-of-group-not-found")
    assert [each["request"] for each in parked(five, group)] == [None]
    problem_of(five.http.get(f"/groups/{new_name()}/parked"), 404, "group-not-found")


def test_parked_streams_go_with_their_event_type_and_with_their_group(either_http: httpx2.Client) -> None:
    mine, dropped, group = create(either_http), create(either_http), new_name()
    streams = [stream(mine, "a", **SPAN), stream(dropped, "b", **SPAN)]
    assert commit(mine, group, items=[at(mine, 0, 0), at(dropped, 0, 0)], parked=streams).status_code == 200
    assert either_http.delete(f"/event-types/{dropped.name}").status_code == 200
    assert [each["stream"] for each in parked(mine, group)] == ["a"]

    assert either_http.delete(f"/groups/{group}").status_code == 204
    commit(mine, group, items=[at(mine, 0, 0)])
    assert parked(mine, group) == []
