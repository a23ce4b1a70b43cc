"""A page of CloudEvents has the events and the cursor of the same page in other formats."""

import json
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import pytest

from tests.conformance.cloudevents.sending import cloud_event, count_events, publish, read
from tests.served import ARROW, CLOUD_EVENTS, Served, create, problem_of


@pytest.fixture
def rich(either_http: httpx2.Client) -> Served:
    """Events with and without keys, kinds and headers, in four partitions."""
    feed = create(either_http, 4)
    lines = []
    for i in range(60):
        line: dict[str, Any] = {"data": {"id": i, "text": "Æ\n🦑\x01" * (i % 5)}, "partition": i % 4}
        if i % 3:
            line["key"] = f'kéy "{i % 7}"'
        if i % 5 < 2:
            line["headers"] = {"ce_subject": str(i), "b": "x\n\x01"}
        if i % 6 == 0:
            line["headers"] = {"ce_type": "Kind.Ø"}
        lines.append(line)
    feed.publish_lines(lines)
    return feed


@pytest.mark.parametrize(
    ("n", "asked"),
    [
        *((n, {}) for n in (1, 4, 8)),
        (1, {"event_types": "kind.Ø"}),
        (2, {"skip_event_types": "Kind.Ø"}),
        (12, {"pagesizehint": 30}),
        (4, {"event_types": "nothing"}),
    ],
)
def test_page_has_the_events_and_cursors_of_the_same_page_as_arrow(rich: Served, n: int, asked: dict[str, Any]) -> None:
    query = {"n": n, **{f"cursor{v}": "_first" for v in range(n)}} | asked
    lines = rich.get(**query, headers="_all")
    answer, arrow = (rich.get(sending={"accept": each}, **query) for each in (CLOUD_EVENTS, ARROW))
    given = [line for line in map(json.loads, lines.text.splitlines()) if "data" in line]
    found = count_events(answer)
    assert [each["data"] for each in found] == [line["data"] for line in given]
    for event, line in zip(found, given, strict=True):
        own = {name: text for name, text in line["headers"].items() if name.startswith("ce_")}
        assert own.items() <= {f"ce_{name}": value for name, value in event.items()}.items()
    assert len({each["id"] for each in found}) == len(found)
    assert answer.headers["penstock-cursor"] == arrow.headers["penstock-cursor"]
    assert answer.headers.get("penstock-left-out") == arrow.headers.get("penstock-left-out")


def test_pages_are_read_on_with_the_cursor_in_the_header(rich: Served) -> None:
    asked: dict[str, Any] = {"n": 2, "cursor0": "_first", "cursor1": "_first", "pagesizehint": 16}
    seen: list[int] = []
    while True:
        answer = rich.get(sending={"accept": CLOUD_EVENTS}, **asked)
        found = count_events(answer)
        if not found:
            break
        seen += [each["data"]["id"] for each in found]
        asked |= dict(parse_qsl(answer.headers["penstock-cursor"]))
    assert sorted(seen) == list(range(60))
    first = rich.events(partition=3, pagesizehint=5, sending={"accept": CLOUD_EVENTS})
    rest = rich.events(partition=3, cursor=first.headers["penstock-cursor"], sending={"accept": CLOUD_EVENTS})
    assert [each["data"]["id"] for each in count_events(first) + count_events(rest)] == list(range(3, 60, 4))


def test_id_names_the_place_of_an_event_without_one_at_every_n(feed4: Served) -> None:
    feed4.publish_ids([0, 1], partition=2)
    for n, cursor in ((1, "cursor0"), (4, "cursor2"), (2, "cursor0")):
        found = count_events(feed4.get(n=n, **{cursor: "_first"}, sending={"accept": CLOUD_EVENTS}))
        assert [(each["id"], each["source"]) for each in found] == [
            ("1-2-0", f"/event-types/{feed4.name}"),
            ("1-2-1", f"/event-types/{feed4.name}"),
        ]
        assert found[0]["time"] <= found[1]["time"]


def test_empty_page_is_an_empty_array_and_head_has_the_headers(feed: Served) -> None:
    answer = feed.get(n=1, cursor0="_first", sending={"accept": CLOUD_EVENTS})
    assert (count_events(answer), answer.headers["cache-control"]) == ([], "no-store")
    head = feed.http.head(f"{feed.path}?n=1&cursor0=_first", headers={"Accept": CLOUD_EVENTS})
    for name in ("content-type", "penstock-cursor"):
        assert head.headers[name] == answer.headers[name]
    problem_of(feed.get(n=1, cursor0="0", sending={"accept": CLOUD_EVENTS}), 400, "bad-cursor")
    problem = problem_of(
        feed.get(n=1, cursor0="_first", sending={"accept": "application/cloudevents+json"}), 406, "not-acceptable"
    )
    assert CLOUD_EVENTS in problem["allowed"]


def test_large_page_is_sent_whole_and_a_filtered_one_ends_early(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    feed.publish(*({"id": i, "text": "x" * 1_000} for i in range(6_000)))
    assert [each["data"]["id"] for each in read(feed, pagesizehint=6_000)] == list(range(6_000))
    answer = feed.events(
        pagesizehint=6_000, event_types=feed.name, sending={"accept": CLOUD_EVENTS, "accept-encoding": "gzip"}
    )
    found = count_events(answer)
    assert 0 < len(found) < 6_000
    assert feed.read_v2(answer.headers["penstock-cursor"]).ids[0] == len(found)


def test_waiting_reader_gets_the_cloud_event_and_caches_may_keep_a_full_page(feed: Served) -> None:
    publish(feed, cloud_event(1), cloud_event(2))
    cursor = feed.read().cursor
    full = feed.get(n=1, cursor0="_first", pagesizehint=1, sending={"accept": CLOUD_EVENTS})
    assert (len(count_events(full)), "etag" in full.headers) == (1, True)
    known = {"accept": CLOUD_EVENTS, "if-none-match": full.headers["etag"]}
    assert feed.get(n=1, cursor0="_first", pagesizehint=1, sending=known).status_code == 304
    lines = feed.get(n=1, cursor0="_first", pagesizehint=1)
    assert lines.headers["etag"] != full.headers["etag"]
    assert read(feed, cursor, wait=0.01) == []
