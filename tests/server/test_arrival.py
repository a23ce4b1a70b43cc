"""Rules of every request: its flow id, slashes in its path, and the methods that take an encoded body."""

import re
import socket

import httpx2
import pytest

from penstock.testing.live_hub import LiveHub
from tests.served import PROBLEM, Served, problem_of

FLOW_ID = "GKY7oDhpSiKY_gAAAABZ_A"
ANSWERS = [
    ("GET", "/", 200),
    ("GET", "/health", 200),
    ("HEAD", "/health/live", 200),
    ("GET", "/metrics", 200),
    ("GET", "/docs", 200),
    ("GET", "/feeds/{}?n=1&cursor0=_first", 200),
    ("GET", "/feeds/{}?n=1&cursor0=_last&wait=0.01", 200),
    ("GET", "/feeds/{}/events?token=1-1&partition=0&cursor=_first", 200),
    ("POST", "/feeds/{}", 200),
    ("GET", "/event-types/nobody", 404),
    ("GET", "/nowhere", 404),
    ("PUT", "/health", 405),
    ("POST", "/event-types", 400),
    ("GET", "/feeds//x", 400),
    ("POST", "/storages", 422),
]


@pytest.mark.parametrize(("method", "path", "status"), ANSWERS)
def test_answer_has_the_flow_id_of_the_request_or_a_new_one(feed: Served, method: str, path: str, status: int) -> None:
    given = (
        {"X-Flow-Id": FLOW_ID},
        {},
        {},
        {"X-Flow-Id": "x" * 129},
        {"X-Flow-Id": "a\tb"},
        {"X-Flow-Id": "ä".encode()},
    )
    answers = [feed.http.request(method, path.format(feed.name), headers=headers) for headers in given]  # type: ignore[arg-type]

    assert [answer.status_code for answer in answers] == [status] * len(given)
    assert answers[0].headers.get_list("x-flow-id") == [FLOW_ID]
    made = [answer.headers["x-flow-id"] for answer in answers[1:]]
    assert all(re.fullmatch("[0-9A-Za-z]{24}", each) for each in made)
    assert len(set(made)) == len(made)


def test_trailing_slash_of_a_path_is_ignored(feed4: Served) -> None:
    feed4.publish_ids(range(3), partition=1)
    http, asked = feed4.http, {"n": 4, "cursor1": "_first"}
    assert http.get(f"{feed4.path}/", params=asked).text == http.get(feed4.path, params=asked).text
    assert http.post(f"{feed4.path}/", content=b'{"data":{},"partition":0}').status_code == 200
    event_type = f"/event-types/{feed4.name}"
    for path in ("/event-types", event_type, "/health/live", "/settings/features", "/storages/default"):
        slashed = http.get(path + "/")
        assert (slashed.status_code, slashed.content) == (200, http.get(path).content)
    assert (http.get("/nowhere/").status_code, http.put("/health/").status_code) == (404, 405)


@pytest.mark.parametrize("path", ["//", "//event-types", "/event-types//x", "/feeds/x//", "/event-types/%2F%2Fx"])
def test_empty_segment_of_a_path_is_400(sqlite_hub: LiveHub, path: str) -> None:
    with socket.create_connection(("127.0.0.1", sqlite_hub.port), timeout=300) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head, _, body = b"".join(iter(lambda: connection.recv(65_536), b"")).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 ")
    assert PROBLEM.encode() in head.lower()
    assert b"x-flow-id: " in head
    assert b"without //" in body


@pytest.mark.parametrize(("method", "encoding"), [("PUT", "gzip"), ("DELETE", "zstd")])
def test_encoded_body_is_refused_for_methods_but_post(http: httpx2.Client, method: str, encoding: str) -> None:
    answer = http.request(method, "/settings/blacklist/PRODUCER_ET/x", headers={"Content-Encoding": encoding})
    problem = problem_of(answer, 406, "encoding-refused")
    assert problem["detail"] == f"{method} method doesn't support {encoding} content encoding"
    assert http.get("/settings/blacklist").json()["producers"]["event_types"] == []
