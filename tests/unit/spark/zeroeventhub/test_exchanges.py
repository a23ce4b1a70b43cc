from http.server import BaseHTTPRequestHandler

import pytest

from penstock.errors import ConnectionLost, MalformedAnswer, Unreachable
from penstock.spark.zeroeventhub.exchanges import carry_out
from penstock.wire.http import Exchange, HttpRequest, HttpResponse, Pause, fetch
from tests.answering import answering


class Handler(BaseHTTPRequestHandler):
    """Answers with what it was asked for; /cut promises more than it sends."""

    def do_GET(self) -> None:
        self.send_response({"/busy": 429, "/moved": 307}.get(self.path, 200))
        self.send_header("Location", "/secrets")
        self.send_header("Retry-After", "7")
        body = f"{self.path} {self.headers['Accept']} {self.headers['User-Agent']}".encode()
        if self.path.startswith("/secret"):
            body = f"{self.path} {self.headers['Authorization']}".encode()
        self.send_header("Content-Length", str(len(body) + 10 * (self.path == "/cut")))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def asking(url: str) -> Exchange[HttpResponse]:
    return fetch(HttpRequest(method="GET", url=url, headers={"accept": "text/plain"}))


def test_answer_is_returned_for_any_status() -> None:
    with answering(Handler) as url:
        for path, status in (("/page", 200), ("/busy", 429)):
            answer = carry_out(asking(url + path))

            assert (answer.status, answer.headers["retry-after"]) == (status, "7")
            assert answer.body == f"{path} text/plain penstock-spark".encode()


def test_a_token_goes_to_the_server_that_is_named_alone() -> None:
    token = {"Authorization": "Bearer a"}
    with answering(Handler) as url:
        assert carry_out(asking(f"{url}/secret"), headers=token).body == b"/secret Bearer a"
        assert carry_out(asking(f"{url}/moved"), headers=token).body == b"/secrets None"


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


def test_error_raised_by_the_exchange_is_raised() -> None:
    def failing() -> Exchange[None]:
        yield Pause(0)
        raise MalformedAnswer(url="http://x", reason="no")

    with pytest.raises(MalformedAnswer):
        carry_out(failing())
