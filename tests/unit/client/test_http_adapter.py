"""Errors, timeouts and log lines of the HTTP library, httpx2 or httpx."""

import logging
from typing import Any

import httpx
import httpx2
import pytest

from penstock.client.http.adapter import build_request, failure_of, log_pause
from penstock.client.http.proxies import MAY_SPEAK_TLS, REFUSES_BY_TLS, SPEAKS_NO_TLS, connection_failure
from penstock.errors import ConnectionLost, PenstockError, Unavailable, Unreachable
from penstock.wire.http import HttpRequest, Pause


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
        (httpx2.UnsupportedProtocol("ftp"), None),
        (httpx2.LocalProtocolError("bad header"), None),
        (ValueError("x"), None),
    ],
    ids=lambda value: f"{type(value).__module__}.{type(value).__name__}" if isinstance(value, Exception) else "",
)
def test_exception_means_that_nothing_or_perhaps_something_was_sent(
    error: Exception, meaning: type[PenstockError] | None
) -> None:
    found = failure_of(error, "http://s")

    if meaning is None:
        assert found is None, "a mistake of the caller is no failure of the connection"
    else:
        assert (type(found), found.__cause__) == (meaning, error)
        assert type(error).__name__ in str(found)


@pytest.mark.parametrize(
    ("error", "url", "hint"),
    [
        (httpx2.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong version"), "https://s", SPEAKS_NO_TLS),
        (httpx2.ConnectError("refused"), "https://s", Unreachable.hint),
        (httpx2.ReadError("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca"), "https://s", REFUSES_BY_TLS),
        (httpx2.RemoteProtocolError("Server disconnected without sending a response."), "https://s", "Read again"),
        (httpx2.ReadTimeout("slow"), "http://s", "Read again"),
    ],
)
def test_hint_names_the_other_scheme_or_the_certificate_if_that_may_be_wrong(
    error: Exception, url: str, hint: str
) -> None:
    found = failure_of(error, url)

    assert found is not None
    assert (found.hint or "").startswith(hint)


@pytest.mark.parametrize(
    "reason",
    ["Server disconnected without sending a response.", "Remote end closed connection without response"],
    ids=["httpx", "standard library"],
)
def test_server_that_answers_nothing_may_speak_tls_and_every_attempt_says_so(
    reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    lost = connection_failure("http://s", reason, None, is_unsent=False)
    other = connection_failure("https://s", reason, None, is_unsent=False)

    with caplog.at_level(logging.INFO, "penstock.client"):
        log_pause(Pause(1.25, lost))

    assert f"({MAY_SPEAK_TLS})" in str(lost)
    assert f"({MAY_SPEAK_TLS}); trying again in 1.2 s" in caplog.records[0].getMessage()
    assert MAY_SPEAK_TLS not in str(other)


@pytest.mark.parametrize(
    ("timeout", "wait", "read"), [(5, 0, 5), (5, 60, 75), (None, 60, None)], ids=["plain", "waiting", "no timeout"]
)
def test_read_timeout_is_extended_by_the_wait_of_the_request(timeout: Any, wait: int, read: Any) -> None:
    with httpx2.Client(timeout=httpx2.Timeout(timeout, connect=1)) as client:
        timeouts = build_request(client, HttpRequest(method="GET", url="http://s", wait_seconds=wait)).extensions[
            "timeout"
        ]

    assert (timeouts["read"], timeouts["connect"]) == (read, 1)


def test_log_names_the_failure_that_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "penstock.client"):
        log_pause(Pause(1.25))
        log_pause(Pause(1.25, Unavailable(reason="busy")))
        log_pause(Pause(1.25, Unreachable(url="http://s", reason="refused")))

    assert [record.getMessage() for record in caplog.records] == [
        "not available now: busy; trying again in 1.2 s",
        "http://s cannot be reached: refused; trying again in 1.2 s",
    ]
