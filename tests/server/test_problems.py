"""Every refusal is a problem that a program can read, and says to a person what to do."""

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
        ("n=3&cursor0=_first", None, "n=3 does not work: "),
        ("n=&cursor0=_first", "n", "n is missing: "),
        ("n=abc&cursor0=_first", "n", "n=abc does not work: "),
        ("n=2&n=4&cursor0=_first", "n", "parameter n is '4'; allowed: one value"),
        ("n=2&cursor2=_first", "cursor2", "parameter cursor2 is '_first'; allowed: cursor0 to cursor1, as n=2"),
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


DEFINITIONS = {
    r'{"name":"\ud800"}': "the body is not JSON: an escape in it (\\uD800 to \\uDFFF) is half a surrogate pair",
    '{"name":"a","schema":{"type":"a","type":"b"}}': "the body: the key 'type' stands twice in one object",
    '{"name":"a"}': 'Field "category" may not be null; it is one of undefined, business, data',
    '{"name":"a","category":true}': "must be one of undefined, business, data, not true",
    '{"name":"a","category":"undefined","partition_strategy":{"a":null}}': 'user_defined, not {"a":null}',
    '{"name":"a","category":"undefined","partition_count":0}': "must be a whole number from 1 to 256, not 0",
    '{"name":"a","category":"undefined","default_statistic":{"read_parallelism":"4"}}': 'to 2147483647, not "4"',
}


@pytest.mark.parametrize(("body", "detail"), DEFINITIONS.items())
def test_wrong_definition_is_described_in_words_of_json(http: httpx2.Client, body: str, detail: str) -> None:
    found = http.post("/event-types", content=body).json()["detail"]
    assert detail in found
    assert "None" not in found


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


def test_long_query_with_thousands_of_parameters_is_answered(feed: Served) -> None:
    problem_of(feed.get(n=1, cursor0="x" * 60_000), 400, "bad-cursor")
    query = "&".join(f"p{i}={i}" for i in range(5_000))
    assert feed.http.get(f"{feed.path}?n=1&cursor0=_first&{query}").status_code == 200
