"""A page as an Arrow stream holds row by row what the same page holds as lines."""

import json
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import pyarrow as pa
import pytest

from tests.served import ARROW, Page, Served, create, page_of

EID = "6f1b2f60-0000-4000-8000-{:012d}"


def table_of(answer: httpx2.Response) -> pa.Table:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == ARROW
    with pa.ipc.open_stream(answer.content) as stream:
        return stream.read_all()


def rows(answer: httpx2.Response) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table_of(answer).to_pylist()
    return found


def as_lines(answer: httpx2.Response, *, v1: bool, headers: bool) -> list[dict[str, Any]]:
    """Return the lines that the rows stand for."""
    lines = []
    for row in rows(answer):
        line: dict[str, Any] = {"partition": row["partition"]} if v1 else {}
        if headers and row["headers"]:
            line["headers"] = json.loads(row["headers"])
        lines.append(line | {"data": json.loads(row["data"])})
    return lines


def events_of(page: Page) -> list[dict[str, Any]]:
    return [line for line in page.lines if "data" in line]


@pytest.fixture
def rich(either_http: httpx2.Client) -> Served:
    """Events with and without keys, kinds and headers, in four partitions."""
    feed = create(either_http, 4)
    lines = []
    for i in range(120):
        line: dict[str, Any] = {"data": {"id": i, "text": "Æ\n🦑\x01" * (i % 5)}, "partition": i % 4}
        if i % 3:
            line["key"] = f"kéy {i % 7}"
        if i % 5 < 2:
            line["headers"] = {"a": str(i), "b": "x\n\x01"}
        if i % 6 == 0:
            line["headers"] = {"ce_type": "Kind.Ø", "a": "1"}
        lines.append(line)
    feed.publish_lines(lines)
    return feed


@pytest.mark.parametrize("n", [1, 2, 4, 8, 12])
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"headers": "_all"},
        {"headers": "a,ce_partitionkey"},
        {"event_types": "kind.Ø"},
        {"skip_event_types": "Kind.Ø", "headers": "a"},
        {"pagesizehint": 30},
        {"event_types": "nothing"},
    ],
    ids=["plain", "all", "some", "only", "skip", "hint", "none"],
)
def test_rows_equal_lines_of_v1_at_every_n(rich: Served, n: int, asked: dict[str, Any]) -> None:
    given = {"n": n, **{f"cursor{v}": "_first" for v in range(n)}} | asked
    page = page_of(rich.get(**given))
    arrow = rich.get(sending={"accept": ARROW}, **given)
    assert as_lines(arrow, v1=True, headers="headers" in asked) == events_of(page)


@pytest.mark.parametrize("asked", [{}, {"headers": "_all"}, {"event_types": "kind.Ø"}, {"pagesizehint": 5}])
def test_rows_equal_lines_of_v2(rich: Served, asked: dict[str, Any]) -> None:
    for partition in range(4):
        page = rich.read_v2(partition=partition, **asked)
        arrow = rich.events(partition=partition, sending={"accept": ARROW}, **asked)
        assert as_lines(arrow, v1=False, headers="headers" in asked) == events_of(page)


def test_columns_hold_place_key_kind_own_headers_and_time(either_http: httpx2.Client) -> None:
    feed = create(either_http, 2)
    feed.publish_lines(
        [
            {"data": {"id": 0}, "partition": 1},
            {"data": {"id": 1}, "partition": 1, "key": "k", "headers": {"ce_type": "K", "a": "b"}},
        ]
    )
    answer = feed.events(partition=1, sending={"accept": ARROW})
    table = table_of(answer)
    assert table.schema.names == ["partition", "offset", "key", "kind", "headers", "data", "received_at"]
    assert str(table.schema.field("received_at").type) == "timestamp[us, tz=UTC]"
    first, second = table.to_pylist()
    assert (first["partition"], first["offset"], first["key"], first["kind"], first["headers"]) == (
        1,
        0,
        None,
        None,
        None,
    )
    assert (second["offset"], second["key"], second["kind"]) == (1, "k", "K")
    assert json.loads(second["headers"]) == {"ce_type": "K", "a": "b"}
    assert first["received_at"] <= second["received_at"]


def test_a_header_that_no_event_has_leaves_the_column_null(feed: Served) -> None:
    feed.publish_lines([{"data": {}, "headers": {"a": "1"}}, {"data": {}}])
    found = rows(feed.events(headers="a", sending={"accept": ARROW}))
    assert [row["headers"] for row in found] == ['{"a":"1"}', None]


def test_an_empty_page_has_the_schema_and_the_cursor(feed: Served) -> None:
    answer = feed.events(sending={"accept": ARROW})
    assert table_of(answer).num_rows == 0
    assert answer.headers["penstock-cursor"] == feed.read_v2().cursor


@pytest.mark.parametrize("asked", [{}, {"pagesizehint": 3}, {"event_types": "kind.Ø"}, {"event_types": "nothing"}])
def test_the_header_tells_the_cursor_after_the_page(rich: Served, asked: dict[str, Any]) -> None:
    answer = rich.events(partition=2, sending={"accept": ARROW}, **asked)
    assert answer.headers["penstock-cursor"] == rich.read_v2(partition=2, **asked).cursor


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_the_header_of_a_v1_page_is_the_query_that_goes_on(rich: Served, n: int) -> None:
    given = {"n": n, "pagesizehint": 16} | {f"cursor{v}": "_first" for v in range(n)}
    seen: list[int] = []
    while True:
        answer = rich.get(sending={"accept": ARROW}, **given)
        found = [json.loads(row["data"])["id"] for row in rows(answer)]
        seen += found
        after = dict(parse_qsl(answer.headers["penstock-cursor"]))
        if all(given[name] == cursor for name, cursor in after.items()):
            break
        assert set(after) == {f"cursor{v}" for v in range(n)}
        given |= after
    assert sorted(seen) == list(range(120))


def test_a_large_page_comes_in_batches_with_the_cursor_known_before(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    feed.publish(*({"id": i, "text": "x" * 1_000} for i in range(9_000)))
    answer = feed.events(pagesizehint=8_000, sending={"accept": ARROW})
    table = table_of(answer)
    assert table.column("offset").to_pylist() == list(range(8_000))
    assert len(table.column("offset").chunks) > 1
    assert feed.read_v2(answer.headers["penstock-cursor"]).ids == list(range(8_000, 9_000))


def test_a_large_sifted_page_ends_early_and_leads_on(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    feed.publish(*({"id": i, "text": "x" * 1_000} for i in range(6_000)))
    seen: list[int] = []
    pages, cursor = 0, "_first"
    while True:
        answer = feed.events(cursor=cursor, pagesizehint=100_000, event_types=feed.name, sending={"accept": ARROW})
        found = table_of(answer).column("offset").to_pylist()
        if not found:
            break
        seen += found
        pages, cursor = pages + 1, answer.headers["penstock-cursor"]
    assert seen == list(range(6_000))
    assert pages > 1


def test_stored_metadata_is_the_same_in_both_forms(either_http: httpx2.Client) -> None:
    feed = create(either_http, category="business")
    feed.publish(
        *({"metadata": {"eid": EID.format(i), "occurred_at": "2026-01-01T00:00:00Z"}, "n": i} for i in range(3))
    )
    assert [json.loads(row["data"]) for row in rows(feed.events(sending={"accept": ARROW}))] == feed.read_v2().events


@pytest.mark.parametrize(
    ("accept", "is_arrow"),
    [
        ("*/*", False),
        (f"{ARROW};q=0.9, */*;q=0.1", True),
        (ARROW.title(), True),
        (f"{ARROW}, application/x-ndjson", True),
        (f"{ARROW};q=0, application/x-ndjson", False),
        (f"{ARROW};q=0.1, application/x-ndjson;q=0.9", False),
        (f"application/json, {ARROW};q=0.5", False),
    ],
)
def test_columns_are_given_to_who_names_them_and_likes_them_no_less(feed: Served, accept: str, is_arrow: bool) -> None:
    given = feed.events(sending={"accept": accept}).headers["content-type"]
    assert given == ARROW if is_arrow else "ndjson" in given
