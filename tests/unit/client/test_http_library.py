import logging

import httpx
import httpx2
import pytest

from penstock.client.http_library import build, failure, log
from penstock.errors import ConnectionLost, PenstockError, Unavailable, Unreachable
from penstock.wire.exchange import Pause, Request


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (httpx2.ConnectError("refused"), Unreachable),
        (httpx2.ConnectTimeout("slow"), Unreachable),
        (httpx2.PoolTimeout("busy"), Unreachable),
        (httpx.ConnectError("refused"), Unreachable),
        (httpx2.ReadTimeout(""), ConnectionLost),
        (httpx2.WriteError("reset"), ConnectionLost),
        (httpx2.RemoteProtocolError("closed"), ConnectionLost),
        (httpx2.DecodingError("not gzip"), ConnectionLost),
        (httpx.ReadError("reset"), ConnectionLost),
    ],
)
def test_an_exception_tells_whether_anything_was_sent(error: Exception, meaning: type[PenstockError]) -> None:
    found = failure(error, "http://s")

    assert type(found) is meaning
    assert found.__cause__ is error
    assert type(error).__name__ in str(found)


@pytest.mark.parametrize(
    "error", [httpx2.UnsupportedProtocol("ftp"), httpx2.LocalProtocolError("bad header"), ValueError("x")]
)
def test_a_mistake_of_the_callers_is_no_failure_of_the_connection(error: Exception) -> None:
    assert failure(error, "http://s") is None


def test_an_answer_may_take_as_long_as_the_server_was_asked_to_wait() -> None:
    with httpx2.Client(timeout=httpx2.Timeout(5, connect=1)) as client:
        waiting = build(client, Request(method="GET", url="http://s", wait=60))
        plain = build(client, Request(method="GET", url="http://s"))

    assert waiting.extensions["timeout"]["read"] == 75
    assert waiting.extensions["timeout"]["connect"] == 1
    assert plain.extensions["timeout"]["read"] == 5


def test_a_user_who_wants_no_timeout_gets_none() -> None:
    with httpx2.Client(timeout=None) as client:
        assert build(client, Request(method="GET", url="http://s", wait=60)).extensions["timeout"]["read"] is None


def test_the_log_tells_what_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "penstock.client"):
        log(Pause(1.25))
        log(Pause(1.25, Unavailable(reason="busy")))
        log(Pause(1.25, Unreachable(url="http://s", reason="refused")))

    assert [record.getMessage() for record in caplog.records] == [
        "not available now: busy; trying again in 1.2 s",
        "http://s cannot be reached: refused; trying again in 1.2 s",
    ]
