from http.server import BaseHTTPRequestHandler

import pytest

from penstock.errors import ConnectionLost, Unreachable
from penstock.spark.zeroeventhub.exchanges import carry_out
from penstock.wire.http import Exchange, HttpRequest, HttpResponse, Pause, fetch
from tests.answering import answering


class Handler(BaseHTTPRequestHandler):
    """Answers with what it was asked for; /cut promises more than it sends."""

    def do_GET(self) -> None:
        self.send_response(307 if self.path == "/moved" else 200)
        self.send_header("Location", "/there")
        body = f"{self.path} {self.headers['User-Agent']} {self.headers['Authorization']}".encode()
        self.send_header("Content-Length", str(len(body) + 10 * (self.path == "/cut")))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def asking(url: str) -> Exchange[HttpResponse]:
    return fetch(HttpRequest(method="GET", url=url))


def test_a_token_goes_to_the_server_that_is_named_alone() -> None:
    token = {"Authorization": "Bearer a"}
    with answering(Handler) as url:
        assert carry_out(asking(f"{url}/page"), headers=token).body == b"/page penstock-spark Bearer a"
        assert carry_out(asking(f"{url}/moved"), headers=token).body == b"/there penstock-spark None"


def test_an_answer_that_breaks_off_is_no_answer() -> None:
    with answering(Handler) as url, pytest.raises(ConnectionLost, match="it broke off 10 bytes before its end"):
        carry_out(asking(f"{url}/cut"))


def test_unreachable_server_is_passed_to_the_exchange() -> None:
    with answering(Handler) as url:
        pass
    paused = []

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
