"""POST /feeds/{event_type}: a body of lines is published whole or not at all."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.served import Served, create, problem_of, until

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


def test_lines_end_in_any_way_and_those_without_an_event_are_skipped_and_counted(feed: Served) -> None:
    ends = (b"\n", b"\r\n", b"\n\n", b"\r\n \r\n", b" \n\t\n", b'\n{"partition":0,"cursor":"1-2-3"}\n', b"")
    assert feed.post(b"".join(b'{"data":{"id":%d}}' % n + end for n, end in enumerate(ends))).json()["count"] == 7
    assert feed.read().ids == [*range(7)]
    for body in (b"", b"\n", b" \r\n\n", b'{"partition":0,"cursor":"x"}\n'):
        assert feed.post(body).json() == {"count": 0, "cursors": {}}
    assert refuse(feed, b'{"cursor":"x"}\n\n{"data":{"id":1}}\n{"cursor":"x"}\n{]\n')["line"] == 5


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b'{"data":{"a":1}}{"data":{"a":2}}',
        b"null",
        b'{"key":"k"}',
        b'{"data":{"a":NaN}}',
        b"{'data':{}}",
        b'{"data":{"a":"\xed\xa0\x80"}}',
        b'{"data":{"a":"\\udc00\\ud800"}}',
        b'{"data":{"a":{"b":1,"\\u0062":2}}}',
        b'{"data":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b'{"data":{"a":[{"b":-9223372036854775809}]}}',
        b'{"data":"text"}',
        b'{"data":null}',
        b'{"data":{"a":1},"data":{"a":1}}',
        b'{"data":{},"key":"a\\nb"}',
        b'{"data":{},"headers":[]}',
        b'{"data":{},"headers":{"a":null}}',
        b'{"data":{},"headers":{"ce_type":""}}',
        b'{"data":{},"partition":"x"}',
        b"\xef\xbb\xbf" + b'{"data":{}}',
        b"\x1f\x8b\x08",
    ],
    ids=lambda line: f"{line[:50]!r}, {len(line)}",
)
def test_invalid_line_is_named_and_nothing_is_published(feed: Served, line: bytes) -> None:
    """Here is an example of each kind; the unit tests of lines and events have the others."""
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


def test_chunk_size_that_is_no_number_is_refused(feed: Served) -> None:
    for chunk in ("-1", "x", "", "100001", "1.5"):
        assert refuse(feed, b'{"data":{}}\n', 400, "bad-parameter", chunk=chunk)["parameter"] == "chunk"


def test_publishing_to_an_unknown_event_type_is_404_unless_it_is_no_json(http: httpx2.Client) -> None:
    for body in (b'{"data":{}}\n', b""):
        problem_of(http.post("/feeds/nowhere", content=body), 404, "event-type-not-found")
    problem_of(http.post("/feeds/nowhere", content=b"{]"), 422, "invalid-event")


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


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/feeds/{}", 200),
        ("GET", "/feeds/{}?n=1&cursor0=_first", 200),
        ("GET", "/feeds/{}?n=1&cursor0=_last&wait=0.01", 200),
        ("GET", "/feeds/{}/events?token=1-1&partition=0&cursor=_first", 200),
        ("POST", "/feeds/{}", 200),
        ("GET", "/feeds//{}", 400),
    ],
)
def test_answer_of_a_feed_has_the_flow_id_of_its_request_or_a_new_one(
    feed: Served, method: str, path: str, status: int
) -> None:
    given = ("GKY7oDhpSiKY_gAAAABZ_A", "x" * 129, "a\tb", "ä".encode())
    answers = [feed.http.request(method, path.format(feed.name), headers={"X-Flow-Id": each}) for each in given]  # type: ignore[dict-item]

    assert {answer.status_code for answer in answers} == {status}
    first, *made = [answer.headers["x-flow-id"] for answer in answers]
    assert first == given[0]
    assert all(re.fullmatch("[0-9A-Za-z]{24}", each) for each in made)


def test_trailing_slash_of_the_path_of_a_feed_is_ignored(feed4: Served) -> None:
    feed4.publish_ids(range(3), partition=1)
    asked = {"n": 4, "cursor1": "_first"}
    assert feed4.get("/", **asked).text == feed4.get(**asked).text
    assert feed4.http.post(f"{feed4.path}/", content=b'{"data":{},"partition":0}').status_code == 200


def test_content_type_of_a_body_of_lines_is_ignored(feed: Served) -> None:
    for given in ("application/x-ndjson", "application/json", "application/x-www-form-urlencoded", "text/plain"):
        assert feed.post(b'{"data":{"id":1}}\n', {"content-type": given}).json()["count"] == 1
