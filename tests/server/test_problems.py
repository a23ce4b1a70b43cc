"""Whatever goes wrong, the answer is a problem that a program can read."""

import httpx2
import pytest

from tests.served import PROBLEM, Served, problem_of

PATHS = {
    "/event-types": {"GET", "HEAD", "POST"},
    "/event-types/some.type": {"DELETE", "GET", "HEAD"},
    "/event-types/some.type/partitions": {"GET", "HEAD"},
    "/feeds/some.type": {"GET", "HEAD", "POST"},
    "/feeds/some.type/events": {"GET", "HEAD"},
    "/health": {"GET", "HEAD"},
    "/openapi.json": {"GET", "HEAD"},
}


@pytest.mark.parametrize(
    "path", ["/", "/feeds", "/nowhere", "/feeds/a/b", "/event-types/a/b", "/feeds//events", "/%00"]
)
def test_a_path_that_does_not_exist_is_a_problem(http: httpx2.Client, path: str) -> None:
    answer = http.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == PROBLEM
    assert answer.json()["status"] == 404


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
