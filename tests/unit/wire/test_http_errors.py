"""Errors over HTTP: addresses before a request, problems and other answers after it, and when to try again."""

import json
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.errors import (
    BadParameter,
    Conflict,
    ConnectionLost,
    CursorExpired,
    DatabaseUnavailable,
    EventTypeExists,
    EventTypeNotFound,
    Forbidden,
    Invalid,
    InvalidEvent,
    InvalidEventType,
    InvalidSetting,
    InvalidSubscription,
    NotFound,
    NotOffered,
    OutcomeUnknown,
    PartitionNotFound,
    PenstockError,
    RequestTooLarge,
    ServerError,
    StaleToken,
    TooLarge,
    Unavailable,
    Unreachable,
    WrongAddress,
)
from penstock.wire.http import (
    ERROR_BYTES_MAX,
    EXAMPLE,
    FEED,
    HttpRequest,
    HttpResponse,
    RetryBackoff,
    check_address,
    error_of,
    fetch,
    is_not_applied,
    is_transient,
    join_url,
    retry_after,
    retry_until,
    suggest_address,
)
from penstock.wire.problem import nakadi_problem, to_error, to_problem
from tests.unit.wire.script import Reply, Script

BUSY = Unavailable(reason="busy")

# Addresses.


def test_address_is_accepted_as_it_is() -> None:
    for url in (
        "http://localhost:8080",
        "https://shop.example/hub",
        "HTTP://h/",
        "http://[::1]:80/",
        "http://h/?tenant=7",
    ):
        assert check_address(url) == url
    assert check_address("http://localhost:8080\r\n") == "http://localhost:8080", "read from a file"
    assert check_address("", relative=True) == ""
    assert check_address("/hub", relative=True) == "/hub"


@pytest.mark.parametrize(
    ("url", "instead"),
    [
        ("localhost:1", "http://localhost:1"),
        ("localhost", "http://localhost"),
        ("shop.example/hub", "http://shop.example/hub"),
        ("//shop.example", "http://shop.example"),
        (" localhost:8080", "http://localhost:8080"),
        ("", EXAMPLE),
        ("/hub", "http://hub"),
        ("ftp://localhost", EXAMPLE),
        ("http://", EXAMPLE),
        ("http://localhost:port", EXAMPLE),
        ("http://localhost:99999", EXAMPLE),
        ("http://local host", EXAMPLE),
        ("http://[::1", EXAMPLE),
        ("http://shop..example", EXAMPLE),
        (f"http://{'a' * 64}.example", EXAMPLE),
        ("http://\udcff.example", EXAMPLE),
        ("localhost:1\n", "http://localhost:1"),
        (None, EXAMPLE),
        (8080, EXAMPLE),
        (b"http://localhost", EXAMPLE),
    ],
)
def test_wrong_address_is_refused_with_the_one_that_was_meant(url: Any, instead: str) -> None:
    with pytest.raises(BadParameter) as refused:
        check_address(url)
    assert refused.value.detail.endswith(f"begins with http:// or https://, such as {instead}")
    assert refused.value.parameter == "url"


def test_wrong_address_is_refused_without_its_password() -> None:
    with pytest.raises(BadParameter) as refused:
        check_address("http://ada:secret@localhost:port")
    assert "secret" not in str(refused.value)
    with pytest.raises(BadParameter):
        check_address("localhost:1", relative=True)
    assert suggest_address("a b") == EXAMPLE


@pytest.mark.parametrize(
    ("base", "path", "query", "url"),
    [
        ("http://s", ("event-types", "a b/ø"), [], "http://s/event-types/a%20b%2F%C3%B8"),
        ("http://s/hub/", ("feeds",), [], "http://s/hub/feeds"),
        ("http://s/feed/?tenant=7", (), [("n", 4)], "http://s/feed/?tenant=7&n=4"),
        ("http://s/feed?tenant=7#top", ("events",), [("cursor0", "a&b=c+d é")],
         "http://s/feed/events?tenant=7&cursor0=a%26b%3Dc%2Bd+%C3%A9"),
        ("feed", ("events",), [], "feed/events"),
        ("", ("events",), [], "/events"),
    ],
)  # fmt: skip
def test_path_and_query_are_added_to_an_address_and_escaped(
    base: str, path: tuple[str, ...], query: list[tuple[str, object]], url: str
) -> None:
    assert join_url(base, *path, query=query) == url


def test_answer_is_read_whole_and_that_of_an_error_in_part() -> None:
    get = HttpRequest(method="GET", url="http://s/feed")
    answer = Script(Reply(200, b"x" * 100_000, {"a": "b"}, chunk_size=999)).play(fetch(get))
    found = (answer.url, answer.status, answer.headers, answer.body)
    assert found == ("http://s/feed", 200, {"a": "b"}, b"x" * 100_000)

    answer = Script(Reply(500, b"x" * 1_000_000, chunk_size=4096)).play(fetch(get))
    assert ERROR_BYTES_MAX <= len(answer.body) <= ERROR_BYTES_MAX + 4096


# Problems.


def test_answer_without_a_problem_of_penstock_is_a_server_error() -> None:
    rows: list[bytes] = [b"", b"not json", b"[]", b'"x"', b"null", b"\xff", b'{"type":5}', b'{"type":"about:blank"}',
     b'{"type":"urn:other:stale-token"}', b'{"type":"urn:penstock:problem:unheard-of"}']  # fmt: skip
    for body in rows:
        error = to_error(502, body, "http://x")
        assert type(error) is ServerError
        assert (error.status, error.url) == (502, "http://x")


def test_problem_begins_with_the_members_of_the_standard() -> None:
    problem = to_problem(StaleToken(given="a", current="b", title="mine"), 409, "Conflict")
    assert list(problem) == ["type", "title", "status", "detail", "hint", "given", "current"]
    assert problem["title"] == "Conflict"
    assert type(to_error(409, b'{"type":"urn:penstock:problem:stale-token"}')) is StaleToken


NOT_ITS_OWN = "Wrong partitions specified - some partitions don't belong to subscription: "


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (EventTypeNotFound(event_type="a.b"), 'EventType "a.b" does not exist.'),
        (EventTypeNotFound("said otherwise", event_type="a.b"), "said otherwise"),
        (StaleToken("as it is", given="a", current="b"), "as it is"),
        (InvalidSubscription("in our words", partitions=[{"event_type": "a", "partition": "7"}]),
         NOT_ITS_OWN + "EventTypePartition{eventType='a', partition='7'}"),
        (InvalidSubscription("of something else", field="event_types"), "of something else"),
    ],
    ids=["event type", "at another place", "another", "partitions", "no partitions"],
)  # fmt: skip
def test_problem_that_clients_of_nakadi_compare_has_its_words(error: PenstockError, detail: str) -> None:
    problem = nakadi_problem(to_problem(error, 404, "Not Found"))
    assert problem == {"title": "Not Found", "status": 404, "detail": detail}


def through_nakadi(error: PenstockError, status: int) -> PenstockError:
    """Return the error that a client makes of *error* as a strict hub answers it."""
    return to_error(status, json.dumps(nakadi_problem(to_problem(error, status, "Told"))).encode(), "http://x")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (EventTypeNotFound(event_type="a.b"), 404, EventTypeNotFound),
        (PartitionNotFound("partition not found", event_type="a", partition=1, partition_count=1), 404, NotFound),
        (EventTypeExists(event_type="a"), 409, Conflict),
        (InvalidSetting.of("storage-in-use", storage="default"), 403, Forbidden),
        (NotOffered(feature="f"), 501, NotOffered),
        (InvalidEvent(line=1, reason="no"), 422, Invalid),
        (InvalidEventType(field="a", reason="no"), 400, Invalid),
        (RequestTooLarge.of("body-too-large", limit=1), 413, TooLarge),
        (CursorExpired("gone"), 410, CursorExpired),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, PenstockError) else None,
)
def test_problem_without_a_code_is_recognized_by_its_words_and_status(
    error: PenstockError, status: int, kind: type[PenstockError]
) -> None:
    found = through_nakadi(error, status)

    assert type(found) is kind
    assert found.detail == error.detail


def test_violations_are_read_from_the_lines_of_a_problem() -> None:
    wrong = InvalidEventType('Field "name" may not be null\nField "a.b" must be 1')

    found = through_nakadi(wrong, 422)

    assert type(found) is InvalidEventType
    assert found.detail == wrong.detail
    assert found.violations == [
        {"field": "name", "reason": "may not be null"},
        {"field": "a.b", "reason": "must be 1"},
    ]


STRANGE: list[tuple[dict[str, Any], type[PenstockError]]] = [
    ({"detail": "gone"}, WrongAddress),
    ({"title": "Not Found", "status": 400, "detail": "gone"}, WrongAddress),
    ({"title": "Not Found", "status": 404, "detail": "gone", "instance": "/x"}, WrongAddress),
    ({"title": "Not Found", "status": 404, "detail": "gone", "type": "about:blank"}, WrongAddress),
    ({"title": "Busy", "status": 503, "detail": "later"}, ServerError),
]


def test_problem_of_another_form_is_no_error_of_penstock() -> None:
    for problem, kind in STRANGE:
        status = 503 if problem.get("status") == 503 else 404
        assert type(to_error(status, json.dumps(problem).encode(), "http://x")) is kind


# Other answers.

PROBLEM = "application/problem+json; charset=utf-8"
NOW = datetime(2024, 1, 1, tzinfo=UTC)


def answer(status: int, body: bytes, **headers: str) -> HttpResponse:
    return HttpResponse(
        "http://s/feed", status, {name.replace("_", "-"): value for name, value in headers.items()}, body
    )


def test_problem_of_penstock_becomes_its_error() -> None:
    body = b'{"type":"urn:penstock:problem:cursor-expired","status":410,"detail":"gone","lost":7,"partition":0}'

    error = error_of(answer(410, body, content_type=PROBLEM))

    assert isinstance(error, CursorExpired)
    assert error.fields == {"lost": 7, "partition": 0}
    other = error_of(answer(404, b'{"type":"not-found"}', content_type="application/json"))
    assert isinstance(other, ServerError)


def test_other_answer_and_that_of_a_proxy_show_their_status_address_and_beginning() -> None:
    error = error_of(answer(502, b"Bad Gateway" + b"!" * 9999))

    assert isinstance(error, ServerError)
    assert str(error).startswith("http://s/feed answered 502: Bad Gateway!")
    assert len(str(error)) < 600

    for status in [400, 401, 403, 407, 413, 429, 500, 502, 503]:
        assert type(error_of(answer(status, b"<html>"))) is ServerError


def test_answer_that_no_hub_gives_names_a_wrong_address_or_the_target_of_a_redirect() -> None:
    for status in [200, 204, 301, 404, 405, 501]:
        error = error_of(answer(status, b"<html>welcome</html>", content_type="text/html"))

        assert type(error) is WrongAddress
        assert error.detail == (
            f"no Penstock hub answers at http://s/feed, but another server with status {status}: <html>welcome</html>"
        )
        assert "scheme, host, port and path" in str(error)

    assert error_of(answer(404, b""), FEED).detail.startswith("no feed answers at http://s/feed")
    assert "go to https://hub" in str(error_of(answer(307, b"", location="https://hub")))


# Trying again.


def test_retry_after_is_a_field_of_the_error_in_either_form() -> None:
    assert error_of(answer(503, b"", retry_after="120")).fields["retry_after"] == 120
    assert "retry_after" not in error_of(answer(503, b"")).fields
    found = {
        text: retry_after({"retry-after": text}, NOW)
        for text in ("5", "Mon, 01 Jan 2024 00:01:00 GMT", "Sun, 31 Dec 2023 00:00:00 GMT")
    }
    assert [*found.values()] == [5.0, 60.0, 0.0]
    for text in ("", "soon", "-5", "1.5", "²", "Mon, 32 Jan 2024 00:00:00 GMT"):
        assert retry_after({"retry-after": text}, NOW) is None


def server(status: int, **more: Any) -> ServerError:
    return ServerError(status=status, url="u", body="", **more)


@pytest.mark.parametrize(
    ("error", "can_pass", "is_not_done"),
    [
        (Unreachable(url="u", reason="r"), True, True),
        (ConnectionLost(url="u", reason="r"), True, False),
        (DatabaseUnavailable(reason="r"), True, True),
        (OutcomeUnknown(reason="r"), False, False),
        (InvalidEvent(line=1, reason="r"), False, False),
        *((server(status), True, False) for status in (500, 502, 503, 429)),
        (server(503, retry_after=1.0), True, False),
        (server(502, retry_after=1.0), True, False),
        *((server(status), False, False) for status in (401, 404)),
        (WrongAddress(status=404, url="u", body=""), False, False),
        (WrongAddress(status=501, url="u", body=""), False, False),
    ],
)
def test_request_is_repeated_if_it_can_pass_and_a_write_only_if_nothing_was_done(
    error: PenstockError, can_pass: bool, is_not_done: bool
) -> None:
    assert (is_transient(error), is_not_applied(error)) == (can_pass, is_not_done)


LONGEST_SECONDS = 30.0


def test_delays_double_up_to_a_maximum_and_are_at_least_what_a_server_asks_for() -> None:
    backoff = RetryBackoff(LONGEST_SECONDS, chance=lambda: 0.0)

    delays = [backoff.delay(BUSY) for _ in range(12)]

    assert delays[:4] == [0.1, 0.2, 0.4, 0.8]
    assert delays[-1] == LONGEST_SECONDS
    for _ in range(2000):
        assert backoff.delay(BUSY) == LONGEST_SECONDS
    backoff.reset()
    assert backoff.delay(BUSY) == 0.1
    assert RetryBackoff(LONGEST_SECONDS, chance=lambda: 1.0).delay(BUSY) == 0.05

    backoff = RetryBackoff(LONGEST_SECONDS, chance=lambda: 1.0)

    delays = [backoff.delay(Unavailable(reason="busy", retry_after=60)) for _ in range(10)]

    assert all(60 < delay <= 61 for delay in delays)


def attempt(script: Script, *errors: PenstockError, timeout: float = 30, **how: Any) -> Any:
    """Play attempts that raise *errors* first, with a retry timeout."""
    left = list(errors)

    def exchange() -> Generator[Any, Any, str]:
        yield from ()
        if left:
            raise left.pop(0)
        return "done"

    return script.play(retry_until(exchange, lambda error: error.retryable, timeout, script.clock, **how))


def test_exchange_is_repeated_until_it_passes_or_its_time_or_attempts_are_over() -> None:
    script = Script()

    assert attempt(script, BUSY, BUSY) == "done"
    assert len(script.pauses) == 2
    assert script.pauses[0].because is BUSY

    script, limited = Script(), Script()

    with pytest.raises(Unavailable):
        attempt(script, *[BUSY] * 1000)
    assert 10 < sum(script.seconds) <= 30
    with pytest.raises(Unavailable):
        attempt(limited, *[BUSY] * 9, delay_seconds_max=0.15, attempts_max=8)
    assert len(limited.pauses) == 7
    assert 0.05 <= min(limited.seconds) <= max(limited.seconds) <= 0.15


@pytest.mark.parametrize(("error", "timeout"), [(BUSY, 0), (InvalidEvent(reason="x"), 30)], ids=["no time", "final"])
def test_exchange_is_not_repeated_without_time_or_after_a_final_error(error: PenstockError, timeout: float) -> None:
    script = Script()

    with pytest.raises(type(error)):
        attempt(script, error, timeout=timeout)
    assert script.pauses == []
