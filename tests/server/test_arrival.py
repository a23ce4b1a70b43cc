"""What holds for every request: its flow id, slashes in its path, and with what method a body may be encoded."""

import gzip
import re
import socket
from contextlib import closing

import httpx2
import pytest

from penstock.testing.live_hub import LiveHub
from tests.served import PROBLEM, Served, problem_of

FLOW = {"X-Flow-Id": "GKY7oDhpSiKY_gAAAABZ_A"}
ANSWERS = [
    ("GET", "/", 200),
    ("GET", "/health", 200),
    ("HEAD", "/health/live", 200),
    ("GET", "/metrics", 200),
    ("GET", "/docs", 200),
    ("GET", "/event-types/nobody", 404),
    ("GET", "/nowhere", 404),
    ("PUT", "/health", 405),
    ("POST", "/event-types", 400),
    ("GET", "/feeds//x", 400),
    ("POST", "/storages", 422),
]


def exchange(hub: LiveHub, request: bytes) -> bytes:
    """Send a request as it is, and return the whole answer."""
    with closing(socket.create_connection(("127.0.0.1", hub.port), timeout=30)) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize(("method", "path", "status"), ANSWERS)
def test_every_answer_tells_the_flow_id_that_was_brought(
    http: httpx2.Client, method: str, path: str, status: int
) -> None:
    answer = http.request(method, path, headers=FLOW)
    assert answer.status_code == status
    assert answer.headers.get_list("x-flow-id") == ["GKY7oDhpSiKY_gAAAABZ_A"]


@pytest.mark.parametrize(("method", "path", "status"), ANSWERS)
def test_an_answer_without_one_tells_one_of_its_own(http: httpx2.Client, method: str, path: str, status: int) -> None:
    answers = [http.request(method, path) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [status, status]
    made = [answer.headers["x-flow-id"] for answer in answers]
    assert all(re.fullmatch("[0-9A-Za-z]{24}", each) for each in made)
    assert made[0] != made[1]


def test_pages_and_publishes_tell_it_too(feed4: Served) -> None:
    for answer in (
        feed4.post(b'{"data":{},"partition":0}', FLOW),
        feed4.get(n=1, cursor0="_first", sending=FLOW),
        feed4.events(sending=FLOW),
        feed4.get(n=1, cursor0="_last", wait=0.01, sending=FLOW),
    ):
        assert answer.status_code == 200
        assert answer.headers["x-flow-id"] == "GKY7oDhpSiKY_gAAAABZ_A"


def test_one_that_cannot_be_shown_is_replaced(http: httpx2.Client) -> None:
    for given in ("x" * 129, "a\tb", "ä".encode()):
        made = http.get("/version", headers={"X-Flow-Id": given}).headers["x-flow-id"]  # type: ignore[dict-item]
        assert re.fullmatch("[0-9A-Za-z]{24}", made)


def test_a_slash_at_the_end_of_a_path_changes_nothing(feed4: Served) -> None:
    feed4.publish_ids(range(3), partition=1)
    http = feed4.http
    given = {"n": 4, "cursor1": "_first"}
    assert http.get(f"{feed4.path}/", params=given).text == http.get(feed4.path, params=given).text
    assert http.post(f"{feed4.path}/", content=b'{"data":{},"partition":0}').status_code == 200
    for path in (
        "/event-types",
        f"/event-types/{feed4.name}",
        "/health/live",
        "/settings/features",
        "/storages/default",
    ):
        slashed = http.get(path + "/")
        assert (slashed.status_code, slashed.content) == (200, http.get(path).content)
    assert http.get("/nowhere/").status_code == 404
    assert http.put("/health/").status_code == 405


@pytest.mark.parametrize("path", ["//", "//event-types", "/event-types//x", "/feeds/x//", "/event-types/%2F%2Fx"])
def test_an_empty_part_of_a_path_is_400(sqlite_hub: LiveHub, path: str) -> None:
    said = exchange(sqlite_hub, f"GET {path} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n".encode())
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert PROBLEM.encode() in head.lower()
    assert b"x-flow-id: " in head
    assert b"without //" in body


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_an_encoded_body_is_for_post_alone(http: httpx2.Client, method: str, encoding: str) -> None:
    answer = http.request(method, "/settings/blacklist/PRODUCER_ET/x", headers={"Content-Encoding": encoding})
    problem = problem_of(answer, 406, "encoding-refused")
    assert problem["detail"] == f"{method} method doesn't support {encoding} content encoding"
    assert http.get("/settings/blacklist").json()["producers"]["event_types"] == []


def test_an_encoded_body_of_post_is_read(feed: Served) -> None:
    answer = feed.post(gzip.compress(b'{"data":{"id":7}}'), {"Content-Encoding": "gzip"})
    assert answer.status_code == 200
    assert feed.read().ids == [7]
