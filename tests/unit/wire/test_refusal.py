from datetime import UTC, datetime

import pytest

from penstock.errors import (
    ConnectionLost,
    CursorExpired,
    DatabaseUnavailable,
    InvalidEvent,
    OutcomeUnknown,
    PenstockError,
    ServerError,
    Unreachable,
    WrongAddress,
)
from penstock.wire.exchange import Answer
from penstock.wire.refusal import FEED, is_undone, refusal, retry_after

PROBLEM = "application/problem+json; charset=utf-8"
NOW = datetime(2024, 1, 1, tzinfo=UTC)


def answer(status: int, body: bytes, **headers: str) -> Answer:
    return Answer("http://s/feed", status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def test_a_problem_of_ours_becomes_the_error_that_it_was() -> None:
    body = b'{"type":"urn:penstock:problem:cursor-expired","status":410,"detail":"gone","lost":7,"partition":0}'

    error = refusal(answer(410, body, content_type=PROBLEM))

    assert isinstance(error, CursorExpired)
    assert error.fields == {"lost": 7, "partition": 0}


def test_anything_else_shows_its_status_its_address_and_how_its_body_begins() -> None:
    error = refusal(answer(502, b"Bad Gateway" + b"!" * 9999))

    assert isinstance(error, ServerError)
    assert str(error).startswith("http://s/feed answered 502: Bad Gateway!")
    assert len(str(error)) < 600


def test_a_body_that_only_looks_like_a_problem_of_ours_is_none() -> None:
    assert isinstance(refusal(answer(404, b'{"type":"not-found"}', content_type="application/json")), ServerError)


def test_what_retry_after_asks_for_is_a_field_of_the_error() -> None:
    assert refusal(answer(503, b"", retry_after="120")).fields["retry_after"] == 120
    assert "retry_after" not in refusal(answer(503, b"")).fields


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 5.0), ("Mon, 01 Jan 2024 00:01:00 GMT", 60.0), ("Sun, 31 Dec 2023 00:00:00 GMT", 0.0)]
)
def test_retry_after_is_understood_in_both_its_forms(text: str, seconds: float) -> None:
    assert retry_after({"retry-after": text}, NOW) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5", "1.5", "²", "Mon, 32 Jan 2024 00:00:00 GMT"])
def test_a_retry_after_that_says_nothing_is_passed_over(text: str) -> None:
    assert retry_after({"retry-after": text}, NOW) is None


@pytest.mark.parametrize(
    ("error", "undone"),
    [
        (Unreachable(url="u", reason="r"), True),
        (ConnectionLost(url="u", reason="r"), False),
        (DatabaseUnavailable(reason="r"), True),
        (OutcomeUnknown(reason="r"), False),
        (InvalidEvent(line=1, reason="r"), False),
        (ServerError(status=500, url="u", body=""), False),
        (ServerError(status=503, url="u", body=""), False),
        (ServerError(status=503, url="u", body="", retry_after=1.0), False),
        (ServerError(status=502, url="u", body="", retry_after=1.0), False),
        (ServerError(status=429, url="u", body=""), False),
    ],
)
def test_writes_are_repeated_only_when_nothing_was_done(error: PenstockError, undone: bool) -> None:
    assert is_undone(error) is undone


@pytest.mark.parametrize("status", [200, 204, 301, 404, 405, 501])
def test_an_answer_that_no_hub_gives_says_where_it_came_from_and_what_to_check(status: int) -> None:
    error = refusal(answer(status, b"<html>welcome</html>", content_type="text/html"))

    assert type(error) is WrongAddress
    assert error.detail == (
        f"no Penstock hub answers at http://s/feed, but something that says {status}: <html>welcome</html>"
    )
    assert "scheme, host, port and path" in str(error)


def test_the_answer_of_no_feed_is_called_so() -> None:
    assert refusal(answer(404, b""), FEED).detail.startswith("no feed answers at http://s/feed")


def test_a_redirect_that_is_not_followed_says_where_it_leads() -> None:
    assert "go to https://hub" in str(refusal(answer(307, b"", location="https://hub")))


@pytest.mark.parametrize("status", [400, 401, 403, 407, 413, 429, 500, 502, 503])
def test_what_a_proxy_says_is_no_wrong_address(status: int) -> None:
    assert type(refusal(answer(status, b"<html>"))) is ServerError
