"""Every refusal is a problem that a program can read, and says to a person what to do."""

import socket

import httpx2
import pytest

from tests.served import PROBLEM, Served, create, problem_of

METHODS = {
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
def test_unknown_path_is_404_with_a_hint(http: httpx2.Client, path: str) -> None:
    answer = http.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (404, PROBLEM)
    assert answer.headers["cache-control"] == "no-store"
    problem = answer.json()
    assert (problem["type"], problem["status"]) == ("about:blank", 404)
    assert problem["detail"].startswith("there is nothing at /")
    assert problem["hint"] == "GET /docs shows what there is."


@pytest.mark.parametrize("path", METHODS)
def test_unknown_method_of_a_path_is_405_with_the_allowed_ones(http: httpx2.Client, path: str) -> None:
    for method in {"PUT", "PATCH", "DELETE", "OPTIONS", "POST", "TRACE"} - METHODS[path]:
        answer = http.request(method, path)
        assert (answer.status_code, answer.headers["content-type"]) == (405, PROBLEM)
        assert set(answer.headers["allow"].split(", ")) == METHODS[path]


def test_problem_is_not_cached_and_has_a_hint_and_no_body_for_head(http: httpx2.Client) -> None:
    answer, head = http.get("/feeds/nowhere"), http.head("/feeds/nowhere")
    problem = problem_of(answer, 404, "event-type-not-found")
    assert problem["event_type"] == "nowhere"
    assert "event-type create" in problem["hint"]
    assert answer.headers["cache-control"] == "no-store"
    assert (head.status_code, head.content, head.headers["content-type"]) == (404, b"", PROBLEM)
    problem_of(http.get("/feeds/nowhere?n=abc"), 404, "event-type-not-found")


WORKS = "the feed has 4 partitions; n can be 1, 2, 4 or a multiple of 4, up to 4096"


@pytest.mark.parametrize(
    ("query", "parameter", "detail"),
    [
        *((f"n={n}&cursor0=_first", None, f"n={n} does not work: ") for n in (0, 3, 99999)),
        ("cursor0=_first", "n", "n is missing: "),
        ("n=&cursor0=_first", "n", "n is missing: "),
        *((f"n={n}&cursor0=_first", "n", f"n={n} does not work: ") for n in (-1, "abc")),
        ("n=2&n=4&cursor0=_first", "n", "parameter n is '4'; allowed: one value"),
        ("n=2&cursor2=_first", "cursor2", "parameter cursor2 is '_first'; allowed: cursor0 to cursor1, as n=2"),
        ("n=3&cursor3=_first", "cursor3", "parameter cursor3 is '_first'; allowed: cursor0 to cursor2, as n=3"),
        ("n=2&cursorset=me&resume=0,2", "resume", "parameter resume is '0,2'; allowed: partitions from 0 to 1"),
    ],
)
def test_unusable_n_is_refused_with_the_ones_that_work(
    http: httpx2.Client, query: str, parameter: str | None, detail: str
) -> None:
    code = "bad-parameter" if parameter else "bad-partition-count"
    problem = problem_of(http.get(f"{create(http, 4).path}?{query}"), 400, code)

    assert problem["detail"].startswith(detail)
    assert problem["detail"].endswith(WORKS)
    assert (problem.get("parameter"), problem["partition_count"], problem["divisors"]) == (parameter, 4, [1, 2, 4])
    assert parameter or problem["hint"]
    assert parameter != "n" or "n=4" in query or problem["allowed"] == "a whole number: 1, 2, 4 or a multiple of 4"


def test_problem_of_a_feed_with_one_partition_allows_every_n(feed: Served) -> None:
    problem = problem_of(feed.get(cursor0="_first"), 400, "bad-parameter")
    assert problem["detail"] == "n is missing: the feed has 1 partition; n can be any whole number, up to 4096"


PARAMETERS = {
    "?n=1": "parameter cursor0 is missing; allowed: a cursor",
    "?n=1&cursor0=_first&pagesizehint=x": "parameter pagesizehint is 'x'",
    "?n=1&cursor0=_first&cursorset=": "parameter cursorset is ''",
    "/events": "parameter token is missing; allowed: the token that discovery gives",
    "/events?token=1-1": "parameter cursor is missing",
    "/events?token=1-1&cursor=_first": "parameter partition is missing; allowed: a whole number from 0",
}
DEFINITIONS = {
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


@pytest.mark.parametrize(("path", "detail"), PARAMETERS.items())
def test_missing_or_malformed_parameter_is_named(feed: Served, path: str, detail: str) -> None:
    problem = problem_of(feed.http.get(feed.path + path), 400, "bad-parameter")
    assert problem["detail"].startswith(detail)
    assert "partition_count" not in problem


@pytest.mark.parametrize(("body", "detail"), DEFINITIONS.items())
def test_wrong_definition_is_described_in_words_of_json(http: httpx2.Client, body: str, detail: str) -> None:
    found = http.post("/event-types", content=body).json()["detail"]
    assert detail in found
    assert "None" not in found


@pytest.mark.parametrize(("event", "detail"), EVENTS.items())
def test_wrong_event_is_described_in_words_of_json(http: httpx2.Client, event: str, detail: str) -> None:
    answer = create(http, category="business").post(b'{"data":%b}' % event.encode())
    assert detail in problem_of(answer, 422, "invalid-event")["detail"]


def test_unusable_cursor_token_or_partition_is_refused_with_a_hint(http: httpx2.Client) -> None:
    first = create(http)
    assert "_first" in problem_of(first.get(n=1, cursor0="42"), 400, "bad-cursor")["hint"]
    cursor = first.publish({"id": 1})["cursors"]["0"]
    first.drop()
    again = create(http, name=first.name)
    assert "first_available" in problem_of(again.get(n=1, cursor0=cursor), 410, "cursor-expired")["hint"]
    assert "without parameters" in problem_of(again.events(token="1-1"), 409, "stale-token")["hint"]
    missing = problem_of(create(http, 2).post(b'{"data":{}}'), 422, "partition-refused")
    assert "its partition is missing" in missing["detail"]


def test_request_that_is_no_http_is_400_and_does_not_end_the_hub(feed: Served) -> None:
    with socket.create_connection((feed.http.base_url.host, feed.http.base_url.port or 80)) as connection:
        connection.sendall(b"\x16\x03\x01\x00\xa5 nonsense\r\n\r\n")
        assert b" 400 " in connection.recv(4_096)
    assert feed.read().events == []


def test_long_query_with_thousands_of_parameters_is_answered(feed: Served) -> None:
    problem_of(feed.get(n=1, cursor0="x" * 60_000), 400, "bad-cursor")
    query = "&".join(f"p{i}={i}" for i in range(5_000))
    assert feed.http.get(f"{feed.path}?n=1&cursor0=_first&{query}").status_code == 200
