"""POST /feeds/{event_type}: a body of lines is published whole or not at all."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.served import Served, create, problem_of, until

EID = "6f1b2f60-0000-4000-8000-000000000001"
METADATA = {"eid": EID, "occurred_at": "2026-01-02T03:04:05+01:00"}
MIB = 1 << 20


def refuse(
    feed: Served, body: bytes, status: int = 422, code: str = "invalid-event", **arguments: Any
) -> dict[str, Any]:
    """Return the problem of publishing *body*, of which nothing may be stored."""
    before = feed.read(pagesizehint=100_000).events
    problem = problem_of(feed.post(body, **arguments), status, code)
    assert feed.read(pagesizehint=100_000).events == before
    return problem


def test_receipt_has_the_count_and_the_cursors_after_the_events(feed4: Served) -> None:
    feed4.publish_ids([1], partition=3)
    answer = feed4.publish_lines({"data": {"id": i}, "partition": p} for i, p in enumerate([0, 2, 2]))
    assert answer["count"] == 3
    assert set(answer["cursors"]) == {"0", "2"}
    feed4.publish_ids([9], partition=2)
    assert feed4.read(cursors={2: answer["cursors"]["2"]}).ids == [9]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n", b"\r\n \r\n", b" \n\t\n"], ids=range(5))
@pytest.mark.parametrize("last", [b"", b"\n"], ids=["cut", "ended"])
def test_line_ends_of_every_kind_are_taken_and_empty_lines_skipped(feed: Served, end: bytes, last: bytes) -> None:
    body = end.join(b'{"data":{"id":%d}}' % number for number in range(4)) + last
    assert feed.post(body).json()["count"] == 4
    assert feed.read().ids == [0, 1, 2, 3]


@pytest.mark.parametrize("body", [b"", b"\n", b" \r\n\n", b'{"partition":0,"cursor":"x"}\n'], ids=range(4))
def test_body_without_events_publishes_none(feed: Served, body: bytes) -> None:
    assert feed.post(body).json() == {"count": 0, "cursors": {}}


def test_cursor_lines_are_skipped_and_counted(feed: Served) -> None:
    cursor = b'{"partition":0,"cursor":"1-2-3"}\n'
    assert feed.post(cursor + b'{"data":{"id":1}}\n' + cursor + b'{"cursor":"x"}\n').json()["count"] == 1
    assert refuse(feed, cursor + b"\n" + b'{"data":{"id":1}}\n' + cursor + b"{]\n")["line"] == 5


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b"{",
        b'{"data":{"a":1}',
        b'{"data":{"a":1}}}',
        b'{"data":{"a":1}} {"data":{"a":2}}',
        b'{"data":{"a":1}}{"data":{"a":2}}',
        b'[{"data":{}}]',
        b'"text"',
        b"null",
        b"{}",
        b'{"key":"k"}',
        b'{"data":{"a":NaN}}',
        b'{"data":{"a":1e999}}',
        b'{"data":{"a":01}}',
        b"{'data':{}}",
        b'{"data":{"a":"\xff"}}',
        b'{"data":{"a":"\xed\xa0\x80"}}',
        b'{"data":{"a":"\\ud800"}}',
        b'{"data":{"a":"\\udc00\\ud800"}}',
        b'{"data":{"a":1,"a":2}}',
        b'{"data":{"a":{"b":1,"\\u0062":2}}}',
        b'{"data":' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"data":{"a":' + b"[" * 300 + b"]" * 300 + b"}}",
        b'{"data":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b'{"data":{"a":' + b"9" * 5_000 + b"}}",
        b'{"data":{"a":9223372036854775808}}',
        b'{"data":{"a":[{"b":-9223372036854775809}]}}',
        b'{"data":"text"}',
        b'{"data":[1]}',
        b'{"data":1}',
        b'{"data":null}',
        b'{"data":true}',
        b'{"data":{"a":1},"data":{"a":1}}',
        b'{"data":{},"key":"a","key":"b"}',
        b'{"data":{},"key":1}',
        b'{"data":{},"key":"a\\nb"}',
        b'{"data":{},"key":"' + b"k" * 1_025 + b'"}',
        b'{"data":{},"key":"\\ud800"}',
        b'{"data":{},"headers":[]}',
        b'{"data":{},"headers":{"a":1}}',
        b'{"data":{},"headers":{"a":null}}',
        b'{"data":{},"headers":{"":"x"}}',
        b'{"data":{},"headers":{"a\\n":"x"}}',
        b'{"data":{},"headers":{"ce_type":"a\\u0000b"}}',
        b'{"data":{},"headers":{"ce_type":""}}',
        b'{"data":{},"headers":{"ce_type":"' + b"x" * 1_025 + b'"}}',
        b'{"data":{},"headers":{"a":"' + b"x" * 70_000 + b'"}}',
        b'{"data":{},"partition":"x"}',
        b'{"data":{},"partition":1.5}',
        b"\xef\xbb\xbf" + b'{"data":{}}',
        b"\x00",
        b"\x1f\x8b\x08",
    ],
    ids=lambda line: f"{line[:50]!r}, {len(line)}",
)
def test_invalid_line_is_named_and_nothing_is_published(feed: Served, line: bytes) -> None:
    good = b'{"data":{"id":1}}\n'
    problem = refuse(feed, good * 2 + line + b"\n" + good * 3)
    assert problem["line"] == 3
    assert problem["detail"].startswith("line 3: ")


def test_invalid_line_in_a_large_body_is_named_and_the_rest_may_be_published_later(feed: Served) -> None:
    good = b'{"data":{"text":"' + b"x" * 400 + b'"}}\n'
    assert refuse(feed, good * 3_000 + b'{"data":{"a":1,"a":2}}\n' + good)["line"] == 3_001
    assert feed.publish_ids([1, 2])["count"] == 2


def test_numbers_and_escapes_are_read_as_they_were_published(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    events = [
        '{"n":9223372036854775807,"m":-9223372036854775808,"d":1.10,"e":1E5,"z":-0,"f":0.1e1}',
        '{"d":123456789012345678901234567890.0,"text":"123456789012345678901234567890"}',
        '{"text":"\\u0000\\u001f\\ud83e\\udd91\\/\\"\\\\"}',
        '{"key with space":{},"":[],"nested":[[[[]]]]}',
        '{"a":' + "[" * 255 + "]" * 255 + "}",
        "{}",
    ]
    assert feed.post("".join(f'{{"data":{event}}}\n' for event in events).encode()).json()["count"] == 6
    found = feed.events().text.splitlines()[:-1]
    assert found == [f'{{"data":{event}}}' for event in events]
    assert len(feed.read(headers="_all").events) == 6


def test_hash_takes_the_key_from_the_fields_or_the_line(either_http: httpx2.Client) -> None:
    feed = create(either_http, 8, partition_strategy="hash", partition_key_fields=["order.id"])
    feed.publish({"id": 1, "order": {"id": "order-1"}})
    feed.publish({"id": 2}, key="order-1")
    feed.publish({"id": 3}, headers={"ce_partitionkey": "order-1"})
    feed.publish({"id": 4, "order": {"id": "other"}}, key="order-1", partition=0)
    page = feed.read(headers="ce_partitionkey")
    assert page.of(6) == [1, 2, 3, 4]
    assert all(line["headers"] == {"ce_partitionkey": "order-1"} for line in page.lines if "data" in line)


@pytest.mark.parametrize("event", [{}, {"order": 1}, {"order": {}}, {"order": {"ID": 1}}])
def test_hash_without_its_field_is_refused_by_name(http: httpx2.Client, event: dict[str, Any]) -> None:
    feed = create(http, 2, partition_strategy="hash", partition_key_fields=["order.id"])
    body = b'{"data":{"order":{"id":1}}}\n' + json.dumps({"data": event}).encode()
    problem = refuse(feed, body, code="partition-refused")
    assert problem["line"] == 2
    assert "order.id" in problem["reason"]


def test_random_keeps_the_key_but_spreads_the_events(either_http: httpx2.Client) -> None:
    feed = create(either_http, 4, partition_strategy="random")
    feed.publish_lines({"data": {"id": i}, "key": "same", "partition": 0} for i in range(200))
    page = feed.read(headers="ce_partitionkey")
    assert all(line["headers"] == {"ce_partitionkey": "same"} for line in page.lines if "data" in line)
    assert min(len(page.of(p)) for p in range(4)) > 10


@pytest.mark.parametrize(
    "members", [{}, {"partition": 4}, {"partition": -1}, {"partition": None}, {"partition": 10**18}]
)
def test_user_defined_without_a_known_partition_is_refused(feed4: Served, members: dict[str, Any]) -> None:
    problem = refuse(feed4, json.dumps({"data": {}, **members}).encode(), code="partition-refused")
    assert "partitions 0 to 3" in problem["reason"]


def test_user_defined_takes_the_partition_of_the_line_or_the_metadata(feed4: Served) -> None:
    feed4.publish({"id": 1, "metadata": {"partition": "2"}})
    feed4.publish({"id": 2, "metadata": {"partition": "2"}}, partition=1)
    page = feed4.read()
    assert (page.of(2), page.of(1)) == ([1], [2])


def test_metadata_of_the_hub_replaces_claimed_values(either_http: httpx2.Client) -> None:
    feed = create(either_http, category="business")
    claimed = {"received_at": "1999", "version": "9.9.9", "published_by": "me", "partition": "77"}
    claimed |= {"event_type": "other"}
    feed.publish({"n": 1, "metadata": METADATA | claimed | {"flow_id": "F", "parent_eids": [EID]}})
    (event,) = feed.read().events
    metadata = event["metadata"]
    assert event["n"] == 1
    assert metadata["eid"] == EID
    assert metadata["occurred_at"] == METADATA["occurred_at"]
    assert (metadata["flow_id"], metadata["parent_eids"]) == ("F", [EID])
    assert (metadata["event_type"], metadata["partition"]) == (feed.name, "0")
    assert metadata["received_at"].startswith("20")
    assert metadata["published_by"] == "unauthenticated"
    assert metadata["version"] == "1.0.0"


def test_metadata_of_an_undefined_event_is_kept(feed: Served) -> None:
    event = {"metadata": {"received_at": "1999", "event_type": "other"}, "id": 1}
    feed.publish(event)
    assert feed.read().events == [event]


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {},
        "text",
        {"occurred_at": "2026-01-01T00:00:00Z"},
        METADATA | {"eid": "not a uuid"},
        METADATA | {"occurred_at": "2026-02-30T00:00:00Z"},
    ],
    ids=str,
)
@pytest.mark.parametrize("category", ["business", "data"])
def test_business_or_data_event_without_valid_metadata_is_refused(
    http: httpx2.Client, category: str, metadata: Any
) -> None:
    feed = create(http, category=category)
    event = {"metadata": metadata, "data_type": "t", "data_op": "C", "data": {}}
    assert "metadata" in refuse(feed, json.dumps({"data": event}).encode())["reason"]


@pytest.mark.parametrize(
    ("member", "value"),
    [("data_type", v) for v in (None, 5, "")]
    + [("data_op", v) for v in ("X", None)]
    + [("data", v) for v in (None, [])],
)
def test_data_change_without_type_operation_or_data_is_refused(http: httpx2.Client, member: str, value: Any) -> None:
    feed = create(http, category="data")
    event = {"metadata": METADATA, "data_type": "t", "data_op": "C", "data": {}} | {member: value}
    refuse(feed, json.dumps({"data": event}).encode())


def test_event_beyond_the_limit_is_refused_by_line(feed: Served) -> None:
    def event(size: int) -> bytes:
        return b'{"x":"' + b"y" * (size - 8) + b'"}'

    assert feed.post(b'{"data":' + event(999_000) + b"}\n").json()["count"] == 1
    problem = refuse(feed, b'{"data":{}}\n{"data":' + event(999_001) + b"}\n", 413, "event-too-large")
    assert (problem["line"], problem["size"], problem["limit"]) == (2, 999_001, 999_000)


def test_body_beyond_the_limit_is_refused_with_and_without_a_length(feed: Served) -> None:
    declared = feed.http.post(feed.path, content=b"\n" * (50 * MIB + 1))
    assert problem_of(declared, 413, "body-too-large")["limit"] == 50 * MIB

    def pieces() -> Any:
        for _ in range(51):
            yield b" " * (MIB - 1) + b"\n"

    assert problem_of(feed.http.post(feed.path, content=pieces()), 413, "body-too-large")["limit"] == 50 * MIB
    assert feed.read().events == []


def test_body_just_below_the_limit_is_taken(feed: Served) -> None:
    line = b'{"data":{"text":"' + b"x" * 400_000 + b'"}}\n'
    count = 50 * MIB // len(line)
    assert feed.post(line * count).json()["count"] == count


def test_chunks_before_an_invalid_line_are_stored_and_counted(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    good = b"".join(b'{"data":{"id":%d}}\n' % i for i in range(25))
    assert feed.post(good, chunk=10).json()["count"] == 25
    problem = problem_of(feed.post(good + b'{"data":{"a":1,"a":2}}\n' + good, chunk=10), 422, "invalid-event")
    assert (problem["line"], problem["stored"]) == (26, 20)
    assert len(feed.read().events) == 45


def test_receipt_of_chunks_has_the_last_cursors_of_all_their_partitions(feed4: Served) -> None:
    body = b"".join(b'{"data":{"id":1},"partition":%d}\n' % partition for partition in (2, 2, 0))

    cursors = feed4.post(body, chunk=2).json()["cursors"]

    assert sorted(cursors) == ["0", "2"]
    assert cursors == {number: feed4.read().cursors[int(number)] for number in cursors}


def test_line_that_is_no_json_is_found_before_the_first_chunk(feed: Served) -> None:
    body = b'{"data":{"id":1}}\n' * 25 + b"{]\n"
    problem = refuse(feed, body, chunk=10)
    assert (problem["line"], problem["stored"]) == (26, 0)


@pytest.mark.parametrize("chunk", ["-1", "x", "", "100001", "1.5"])
def test_chunk_size_that_is_no_number_is_refused(feed: Served, chunk: str) -> None:
    assert refuse(feed, b'{"data":{}}\n', 400, "bad-parameter", chunk=chunk)["parameter"] == "chunk"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"data":{}}\n', 404, "event-type-not-found"),
        (b"", 404, "event-type-not-found"),
        (b"{]", 422, "invalid-event"),
    ],
)
def test_publishing_to_an_unknown_event_type_is_404_unless_it_is_no_json(
    either_http: httpx2.Client, body: bytes, status: int, code: str
) -> None:
    problem_of(either_http.post("/feeds/nowhere", content=body), status, code)


@pytest.mark.parametrize(
    "path", ["{}?n=1&cursor0=_first&wait=60", "{}/events?token=1-1&partition=0&cursor=_first&wait=60"]
)
def test_wait_for_a_feed_that_is_dropped_ends_with_404(either_http: httpx2.Client, path: str) -> None:
    feed = create(either_http)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(either_http.get, path.format(feed.path))
        until(lambda: feed.waiters() == 1)
        feed.drop()
        problem_of(answer.result(timeout=300), 404, "event-type-not-found")


def test_feed_that_was_created_again_takes_events_at_once(either_http: httpx2.Client) -> None:
    feed = create(either_http, 2)
    feed.publish_ids([1], partition=1)
    feed.drop()
    problem_of(feed.post(b'{"data":{},"partition":0}'), 404, "event-type-not-found")
    again = create(either_http, 4, feed.name)
    again.publish_ids([2], partition=3)
    assert again.get().json()["token"] == "2-4"
    until(lambda: again.get().status_code == 200)


def test_content_type_of_a_body_of_lines_is_ignored(feed: Served) -> None:
    for given in ("application/x-ndjson", "application/json", "application/x-www-form-urlencoded", "text/plain"):
        assert feed.post(b'{"data":{"id":1}}\n', {"content-type": given}).json()["count"] == 1
