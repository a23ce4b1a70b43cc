"""Requests of Spark's driver and tasks, against a server that answers as it is told."""

import gzip
from http.server import BaseHTTPRequestHandler
from typing import ClassVar

import pyarrow as pa
import pytest

from penstock.errors import (
    ConnectionLost,
    MalformedAnswer,
    NotFound,
    PenstockError,
    ServerError,
    Unreachable,
    WrongAddress,
)
from penstock.spark.http import carry_out, open_answer, send_request
from penstock.wire.http import Exchange, HttpRequest, HttpResponse, Pause, fetch
from tests.answering import answering

ARROW = "application/vnd.apache.arrow.stream"


def arrow_stream(batches: int) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pydict({"n": list(range(50_000))})
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        for _ in range(batches):
            stream.write_batch(batch)
    return bytes(sink.getvalue())


class Handler(BaseHTTPRequestHandler):
    """Answers with what its path says: status, type, and what is done to the body."""

    answers: ClassVar[dict[str, tuple[int, str, bytes]]] = {
        "/json": (200, "application/json; charset=utf-8", b'{"n": 1}'),
        "/gzip": (200, "application/json", gzip.compress(b'{"n": 2}')),
        "/nothing": (204, "", b""),
        "/empty": (200, "text/plain", b""),
        "/text": (200, "text/plain", b"n"),
        "/wrong": (200, "application/json", b"{"),
        "/page": (200, "text/html", b"<!doctype html>"),
        "/gone": (404, "application/problem+json", b'{"title": "Not Found", "status": 404, "detail": "gone"}'),
        "/busy": (503, "text/plain", b"later"),
        "/arrow": (200, ARROW, arrow_stream(3)),
        "/cut": (200, ARROW, arrow_stream(3)),
    }

    def do_GET(self) -> None:
        path = self.path.removesuffix("/moved")
        if path != self.path:
            self.send_response(307)
            port = self.headers["Host"].rpartition(":")[2]
            self.send_header("Location", f"http://localhost:{port}{path}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        status, kind, body = self.answers.get(path, (200, "application/json", b""))
        if path == "/sent":
            body = f'"{self.headers["User-Agent"]} {self.headers["Authorization"]} {self.headers["Cookie"]}"'.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "7")
        self.send_header("Set-Cookie", "session=geheim")
        if path == "/gzip":
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if path == "/cut" else body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answers["/posted"] = (200, "application/json", body)
        self.path = "/posted"
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


def asking(url: str) -> Exchange[HttpResponse]:
    return fetch(HttpRequest(method="GET", url=url))


@pytest.mark.parametrize(
    ("path", "said"), [("/json", {"n": 1}), ("/gzip", {"n": 2}), ("/nothing", None), ("/empty", None)]
)
def test_answer_in_json_is_read(path: str, said: object) -> None:
    with answering(Handler) as url:
        assert send_request(f"{url}{path}") == said


@pytest.mark.parametrize(("body", "said"), [({"n": [3]}, {"n": [3]}), (b"[4]", [4])])
def test_body_is_sent_as_bytes_or_json(body: object, said: object) -> None:
    with answering(Handler) as url:
        assert send_request(f"{url}/", body) == said


@pytest.mark.parametrize(
    ("path", "kind", "reason"),
    [
        ("/text", MalformedAnswer, "text/plain instead of application/json"),
        ("/wrong", MalformedAnswer, "no JSON"),
        ("/page", WrongAddress, "no Shop answers at"),
        ("/gone", NotFound, "gone"),
        ("/busy", ServerError, "later"),
    ],
)
def test_other_answer_raises_its_error(path: str, kind: type[PenstockError], reason: str) -> None:
    with answering(Handler) as url, pytest.raises(kind, match=reason) as failed:
        send_request(f"{url}{path}", wanted="Shop")

    assert failed.value.retry_after == (7.0 if kind in (NotFound, ServerError) else None)


@pytest.mark.parametrize(("path", "shown"), [("/sent", "Bearer geheim"), ("/sent/moved", "None")])
def test_token_goes_to_the_server_that_is_named_alone(path: str, shown: str) -> None:
    with answering(Handler) as url:
        assert (
            send_request(f"{url}{path}", headers={"Authorization": "Bearer geheim"}) == f"penstock-spark {shown} None"
        )


def test_cookie_of_one_query_is_not_sent_by_another() -> None:
    with answering(Handler) as url:
        for _ in range(2):
            assert send_request(f"{url}/sent") == "penstock-spark None None"


def test_open_answer_is_read_as_a_file() -> None:
    with answering(Handler) as url, open_answer(f"{url}/arrow", ARROW) as answer:
        assert answer.headers["content-type"] == ARROW
        with pa.ipc.open_stream(answer.body) as stream:
            assert [batch.num_rows for batch in stream] == [50_000] * 3


def test_open_answer_that_breaks_off_is_a_lost_connection_after_what_came() -> None:
    rows: list[int] = []

    def read(url: str) -> None:
        with open_answer(url, ARROW) as answer:
            for batch in pa.ipc.open_stream(answer.body):
                rows.append(batch.num_rows)  # noqa: PERF401 - What came before the error counts.

    said = "peer closed connection without sending complete message body"
    with answering(Handler) as url, pytest.raises(ConnectionLost, match=said):
        read(f"{url}/cut")

    assert rows == [50_000]


def test_open_answer_that_is_no_arrow_stream_is_a_lost_connection() -> None:
    with answering(Handler) as url, pytest.raises(ConnectionLost), open_answer(f"{url}/text", "text/plain") as answer:
        pa.ipc.open_stream(answer.body)


def test_unreachable_server_is_passed_to_the_exchange() -> None:
    with answering(Handler) as url:
        pass
    paused: list[float] = []

    def again() -> Exchange[str]:
        try:
            yield from asking(url)
        except Unreachable as error:
            yield Pause(0.5, error)
        return "went on"

    assert carry_out(again(), sleep=paused.append) == "went on"
    assert paused == [0.5]
    with pytest.raises(Unreachable, match="refused"):
        carry_out(asking(url))
