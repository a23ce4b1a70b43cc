"""A page as an Arrow stream has a row for each line of the same page."""

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
    """Return the lines with the contents of the rows."""
    lines = []
    for row in rows(answer):
        line: dict[str, Any] = {"partition": row["partition"]} if v1 else {}
        if headers and row["headers"]:
            line["headers"] = json.loads(row["headers"])
        lines.append(line | {"data": json.loads(row["data"])})
    return lines


def count_events(page: Page) -> list[dict[str, Any]]:
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


@pytest.mark.parametrize(
    ("n", "asked"),
    [
        *((n, {}) for n in (1, 2, 4, 8, 12)),
        (4, {"headers": "_all"}),
        (8, {"headers": "a,ce_partitionkey"}),
        (1, {"event_types": "kind.Ø"}),
        (2, {"skip_event_types": "Kind.Ø", "headers": "a"}),
        (12, {"pagesizehint": 30}),
        (4, {"event_types": "nothing"}),
    ],
)
def test_rows_of_a_page_equal_its_lines(rich: Served, n: int, asked: dict[str, Any]) -> None:
    given = {"n": n, **{f"cursor{v}": "_first" for v in range(n)}} | asked
    page = page_of(rich.get(**given))
    arrow = rich.get(sending={"accept": ARROW}, **given)
    assert as_lines(arrow, v1=True, headers="headers" in asked) == count_events(page)


@pytest.mark.parametrize(
    "asked",
    [{}, {"headers": "_all"}, {"event_types": "kind.Ø"}, {"event_types": "nothing"}, {"pagesizehint": 5}],
)
def test_rows_and_cursor_of_a_partitions_page_equal_its_lines(rich: Served, asked: dict[str, Any]) -> None:
    for partition in range(4):
        page = rich.read_v2(partition=partition, **asked)
        arrow = rich.events(partition=partition, sending={"accept": ARROW}, **asked)
        assert as_lines(arrow, v1=False, headers="headers" in asked) == count_events(page)
        assert arrow.headers["penstock-cursor"] == page.cursor


def test_columns_are_partition_offset_key_kind_headers_data_and_time(either_http: httpx2.Client) -> None:
    feed = create(either_http, 2)
    keyed = {"data": {"id": 1}, "partition": 1, "key": "k", "headers": {"ce_type": "K", "a": "b"}}
    feed.publish_lines([{"data": {"id": 0}, "partition": 1}, keyed])
    table = table_of(feed.events(partition=1, sending={"accept": ARROW}))
    assert table.schema.names == ["partition", "offset", "key", "kind", "headers", "data", "received_at"]
    assert str(table.schema.field("received_at").type) == "timestamp[us, tz=UTC]"
    first, second = table.to_pylist()
    assert [first[name] for name in table.schema.names[:5]] == [1, 0, None, None, None]
    assert (second["offset"], second["key"], second["kind"]) == (1, "k", "K")
    assert json.loads(second["headers"]) == {"ce_type": "K", "a": "b"}
    assert first["received_at"] <= second["received_at"]


def test_empty_page_has_the_schema_and_the_cursor_and_missing_headers_are_null(feed: Served) -> None:
    answer = feed.events(sending={"accept": ARROW})
    assert table_of(answer).num_rows == 0
    assert answer.headers["penstock-cursor"] == feed.read_v2().cursor

    feed.publish_lines([{"data": {}, "headers": {"a": "1"}}, {"data": {}}])
    found = rows(feed.events(headers="a", sending={"accept": ARROW}))
    assert [row["headers"] for row in found] == ['{"a":"1"}', None]


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_cursor_header_of_a_page_is_the_query_of_the_next(rich: Served, n: int) -> None:
    given = {"n": n, "pagesizehint": 16} | {f"cursor{v}": "_first" for v in range(n)}
    seen: list[int] = []
    while True:
        answer = rich.get(sending={"accept": ARROW}, **given)
        seen += [json.loads(row["data"])["id"] for row in rows(answer)]
        after = dict(parse_qsl(answer.headers["penstock-cursor"]))
        if all(given[name] == cursor for name, cursor in after.items()):
            break
        assert set(after) == {f"cursor{v}" for v in range(n)}
        given |= after
    assert sorted(seen) == list(range(120))


def test_large_page_comes_in_batches_and_a_filtered_one_ends_early(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    feed.publish(*({"id": i, "text": "x" * 1_000} for i in range(6_000)))
    answer = feed.events(pagesizehint=5_000, sending={"accept": ARROW})
    offsets = table_of(answer).column("offset")
    assert offsets.to_pylist() == list(range(5_000))
    assert len(offsets.chunks) > 1
    assert feed.read_v2(answer.headers["penstock-cursor"]).ids == list(range(5_000, 6_000))

    seen: list[list[int]] = []
    cursor = "_first"
    while not seen or seen[-1]:
        answer = feed.events(cursor=cursor, pagesizehint=100_000, event_types=feed.name, sending={"accept": ARROW})
        seen.append(table_of(answer).column("offset").to_pylist())
        cursor = answer.headers["penstock-cursor"]
    assert [offset for page in seen for offset in page] == list(range(6_000))
    assert len(seen) > 2


def test_stored_metadata_is_the_same_in_rows_and_lines(either_http: httpx2.Client) -> None:
    feed = create(either_http, category="business")
    times = {"occurred_at": "2026-01-01T00:00:00Z"}
    feed.publish(*({"metadata": times | {"eid": EID.format(i)}, "n": i} for i in range(3)))
    assert [json.loads(row["data"]) for row in rows(feed.events(sending={"accept": ARROW}))] == feed.read_v2().events
