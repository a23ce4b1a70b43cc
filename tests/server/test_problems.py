"""Whatever goes wrong, the answer is a problem that a program can read."""

import httpx2
import pytest

from tests.served import PROBLEM, Served, create, problem_of

PATHS = {
    "/": {"GET", "HEAD"},
    "/event-types": {"GET", "HEAD", "POST"},
    "/event-types/some.type": {"DELETE", "GET", "HEAD", "PUT"},
    "/event-types/some.type/partitions": {"GET", "HEAD"},
    "/feeds/some.type": {"GET", "HEAD", "POST"},
    "/feeds/some.type/events": {"GET", "HEAD"},
    "/health": {"GET", "HEAD"},
    "/openapi.json": {"GET", "HEAD"},
}


@pytest.mark.parametrize("path", ["/feeds", "/nowhere", "/feeds/a/b", "/event-types/a/b", "/feeds/a/b/", "/%00"])
def test_a_path_that_does_not_exist_is_a_problem(http: httpx2.Client, path: str) -> None:
    answer = http.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == PROBLEM
    problem = answer.json()
    assert (problem["type"], problem["status"]) == ("about:blank", 404)
    assert problem["detail"].startswith("there is nothing at /")
    assert problem["hint"] == "GET /docs shows what there is."


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "POST", "TRACE"])
def test_a_method_that_a_path_does_not_take_is_answered_with_all_that_it_takes(
    http: httpx2.Client, path: str, method: str
) -> None:
    if method in PATHS[path]:
        return
    answer = http.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["content-type"] == PROBLEM
    assert set(answer.headers["allow"].split(", ")) == PATHS[path]


def test_no_cache_keeps_a_problem(http: httpx2.Client) -> None:
    for path in ("/feeds/nowhere", "/nowhere"):
        assert http.get(path).headers["cache-control"] == "no-store"


def test_a_problem_says_what_to_do_where_that_can_be_said(http: httpx2.Client) -> None:
    problem = problem_of(http.get("/feeds/nowhere"), 404, "event-type-not-found")
    assert problem["event_type"] == "nowhere"
    assert "event-type create" in problem["hint"]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("n=0", "n=0 does not work"),
        ("n=3&cursor0=_first", "n=3 does not work"),
        ("n=99999&cursor0=_first", "n=99999 does not work"),
    ],
)
def test_an_n_that_does_not_work_is_answered_with_those_that_do(http: httpx2.Client, query: str, says: str) -> None:
    feed = create(http, 4)
    problem = problem_of(http.get(f"{feed.path}?{query}"), 400, "bad-partition-count")
    assert problem["detail"] == f"{says}: the feed has 4 partitions; n can be 1, 2, 4 or a multiple of 4, up to 4096"
    assert (problem["partition_count"], problem["divisors"]) == (4, [1, 2, 4])
    assert problem["hint"]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("cursor0=_first", "n is missing"),
        ("n=&cursor0=_first", "n is missing"),
        ("n=-1&cursor0=_first", "n=-1 does not work"),
        ("n=abc&cursor0=_first", "n=abc does not work"),
    ],
)
def test_an_n_that_is_no_number_is_answered_likewise(http: httpx2.Client, query: str, says: str) -> None:
    feed = create(http, 4)
    problem = problem_of(http.get(f"{feed.path}?{query}"), 400, "bad-parameter")
    assert problem["detail"] == f"{says}: the feed has 4 partitions; n can be 1, 2, 4 or a multiple of 4, up to 4096"
    assert (problem["parameter"], problem["partition_count"], problem["divisors"]) == ("n", 4, [1, 2, 4])
    assert problem["allowed"] == "a whole number: 1, 2, 4 or a multiple of 4"


@pytest.mark.parametrize(
    ("query", "parameter", "says"),
    [
        ("n=2&n=4&cursor0=_first", "n", "parameter n is '4'; allowed: one value"),
        ("n=2&cursor2=_first", "cursor2", "parameter cursor2 is '_first'; allowed: cursor0 to cursor1, as n=2"),
        ("n=3&cursor3=_first", "cursor3", "parameter cursor3 is '_first'; allowed: cursor0 to cursor2, as n=3"),
        ("n=2&cursorset=me&resume=0,2", "resume", "parameter resume is '0,2'; allowed: partitions from 0 to 1"),
    ],
)
def test_what_does_not_fit_n_is_answered_with_those_that_work(
    http: httpx2.Client, query: str, parameter: str, says: str
) -> None:
    feed = create(http, 4)
    problem = problem_of(http.get(f"{feed.path}?{query}"), 400, "bad-parameter")
    assert problem["detail"].startswith(says)
    assert problem["detail"].endswith("; the feed has 4 partitions; n can be 1, 2, 4 or a multiple of 4, up to 4096")
    assert (problem["parameter"], problem["partition_count"], problem["divisors"]) == (parameter, 4, [1, 2, 4])


def test_a_parameter_that_has_nothing_to_do_with_n_is_named_alone(feed: Served) -> None:
    for query in ("n=1", "n=1&cursor0=_first&pagesizehint=x", "n=1&cursor0=_first&cursorset="):
        problem = problem_of(feed.http.get(f"{feed.path}?{query}"), 400, "bad-parameter")
        assert "partition_count" not in problem


def test_a_feed_of_one_partition_says_so(feed: Served) -> None:
    problem = problem_of(feed.get(cursor0="_first"), 400, "bad-parameter")
    assert problem["detail"] == "n is missing: the feed has 1 partition; n can be any whole number, up to 4096"


def test_a_wrong_n_of_a_feed_that_is_not_there_is_not_found(http: httpx2.Client) -> None:
    problem_of(http.get("/feeds/nowhere?n=abc"), 404, "event-type-not-found")


MISSING = {
    "/feeds/{}?n=1": "parameter cursor0 is missing; allowed: a cursor",
    "/feeds/{}/events": "parameter token is missing; allowed: the token that discovery gives",
    "/feeds/{}/events?token=1-1": "parameter cursor is missing",
    "/feeds/{}/events?token=1-1&cursor=_first": "parameter partition is missing; allowed: a whole number from 0",
}
BODIES = {
    "{": "the body is not JSON: it ends in the middle",
    r'{"name":"\ud800"}': "the body is not JSON: an escape in it (\\uD800 to \\uDFFF) is half a surrogate pair",
    '{"name":"a","schema":{"type":"a","type":"b"}}': "the body: the key 'type' stands twice in one object",
    '{"name":NaN}': "the body is not JSON: JSON is malformed: invalid character (byte 8)",
    '\ufeff{"name":"a"}': "the body is not JSON: it begins with a UTF-8 byte order mark",
    '{"name":"a"}': 'Field "category" may not be null; it is one of undefined, business, data',
    '{"name":"a","category":true}': "must be one of undefined, business, data, not true",
    '{"name":"a","category":"undefined","partition_strategy":{"a":null}}': 'user_defined, not {"a":null}',
    '{"name":"a","category":"undefined","partition_count":0}': "must be a whole number from 1 to 256, not 0",
    '{"name":"a","category":"undefined","default_statistic":{"read_parallelism":"4"}}': 'to 2147483647, not "4"',
    '{"name":"a","category":"undefined","default_statistic":{"read_parallelism":null}}': "read_parallelism",
}
EVENTS = {
    '{"metadata":{}}': "#/metadata: required key [eid] not found",
    '{"metadata":{"eid":7}}': "#/metadata/eid: expected type: String, found: Integer",
    '{"metadata":{"eid":"6f1b2f60-0000-4000-8000-000000000000"}}': "#/metadata: required key [occurred_at] not found",
}


@pytest.mark.parametrize(("path", "says"), MISSING.items())
def test_a_parameter_that_is_missing_is_called_so(feed: Served, path: str, says: str) -> None:
    problem = problem_of(feed.http.get(path.format(feed.name)), 400, "bad-parameter")
    assert problem["detail"].startswith(says)


@pytest.mark.parametrize(("body", "says"), BODIES.items())
def test_a_wrong_definition_is_told_in_the_words_of_json(http: httpx2.Client, body: str, says: str) -> None:
    problem = http.post("/event-types", content=body).json()
    assert says in problem["detail"]
    assert "None" not in problem["detail"]


@pytest.mark.parametrize(("event", "says"), EVENTS.items())
def test_a_wrong_event_is_told_in_the_words_of_json(http: httpx2.Client, event: str, says: str) -> None:
    answer = create(http, category="business").post(b'{"data":%b}' % event.encode())
    assert says in problem_of(answer, 422, "invalid-event")["detail"]


def test_a_missing_partition_is_called_so(http: httpx2.Client) -> None:
    problem = problem_of(create(http, 2).post(b'{"data":{}}'), 422, "partition-refused")
    assert "its partition is missing" in problem["detail"]


def test_a_cursor_that_does_not_work_says_what_to_do(http: httpx2.Client) -> None:
    first = create(http)
    problem = problem_of(first.get(n=1, cursor0="42"), 400, "bad-cursor")
    assert "_first" in problem["hint"]
    cursor = first.publish({"id": 1})["cursors"]["0"]
    first.drop()
    again = create(http, name=first.name)
    assert "first_available" in problem_of(again.get(n=1, cursor0=cursor), 410, "cursor-expired")["hint"]
    assert "without arguments" in problem_of(again.events(token="1-1"), 409, "stale-token")["hint"]


def test_the_head_of_a_problem_has_no_body(http: httpx2.Client) -> None:
    answer = http.head("/feeds/nowhere")
    assert (answer.status_code, answer.content) == (404, b"")
    assert answer.headers["content-type"] == PROBLEM


def test_a_request_that_is_no_http_does_not_end_the_hub(feed: Served) -> None:
    import socket

    with socket.create_connection((feed.http.base_url.host, feed.http.base_url.port or 80)) as connection:
        connection.sendall(b"\x16\x03\x01\x00\xa5 nonsense\r\n\r\n")
        assert b" 400 " in connection.recv(4_096)
    assert feed.read().events == []


@pytest.mark.parametrize("size", [10_000, 60_000])
def test_a_long_query_is_answered(feed: Served, size: int) -> None:
    problem_of(feed.get(n=1, cursor0="x" * size), 400, "bad-cursor")


def test_thousands_of_parameters_are_answered(feed: Served) -> None:
    query = "&".join(f"p{i}={i}" for i in range(5_000))
    assert feed.http.get(f"{feed.path}?n=1&cursor0=_first&{query}").status_code == 200
