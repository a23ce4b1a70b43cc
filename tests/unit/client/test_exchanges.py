"""One request and one JSON answer: repetitions while patience lasts, and answers of another kind."""

import pytest

from penstock.client.http.exchanges import JsonExchange, decode_response
from penstock.errors import MalformedAnswer, PenstockError, WrongAddress
from penstock.wire.http import HttpRequest, HttpResponse, is_not_applied
from tests.failing import has_code
from tests.unit.wire.script import Reply, Script, problem

ASKED = HttpRequest(method="GET", url="http://s/a")
STOPPED = problem(503, "hub-stopped", retry_after=1)


def test_request_is_repeated_until_one_of_the_expected_statuses_answers() -> None:
    script = Script(STOPPED, Reply(201, b"[1]"))

    assert decode_response(
        script.play(JsonExchange(30.0, script.clock).send(ASKED, is_not_applied, 200, 201)), list[int]
    ) == [1]
    assert len(script.requests) == 2


@pytest.mark.parametrize(
    ("reply", "retry_timeout", "code"),
    [(STOPPED, 0, "hub-stopped"), (Reply(201, b"{}"), 30.0, "wrong-address")],
    ids=["without patience", "another status"],
)
def test_request_is_not_repeated(reply: Reply, retry_timeout: float, code: str) -> None:
    script = Script(reply)

    with pytest.raises(PenstockError, check=has_code(code)):
        script.play(JsonExchange(retry_timeout, script.clock).send(ASKED, is_not_applied, 200))


@pytest.mark.parametrize(
    ("body", "error"), [(b" <html>", WrongAddress), (b"{}", MalformedAnswer), (b"\xff", MalformedAnswer)], ids=repr
)
def test_body_of_another_kind_is_refused(body: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode_response(HttpResponse("http://s/a", 200, {}, body), list[int])
