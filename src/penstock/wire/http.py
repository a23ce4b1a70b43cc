"""Exchanges: protocol code that does no I/O, and its HTTP requests, responses, errors and retries.

An exchange is a generator. It yields effects, one at a time, and is sent the result of each:

    HttpRequest   send it; the result is the ResponseHead, as soon as it arrives
    ReadMore      read on; the result is the next bytes of the body, b"" at its end
    Pause         wait
    TakeEvents    the result is a list of the next events to publish, empty after the last
    ReaderItem    pass it to the reader: a Page of a feed, a batch of a subscription

A failed request is thrown into the generator: Unreachable if nothing was sent, ConnectionLost otherwise.

In the client, `http/adapter.py` steps through an exchange, and `transport.py` and `async_transport.py` do its I/O,
for Spark too.
"""

import random
import re
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from penstock.errors import (
    BadParameter,
    ConnectionLost,
    PenstockError,
    ServerError,
    Unavailable,
    WrongAddress,
)
from penstock.wire.problem import MEDIA_TYPE, make_foreign_error, to_error

ERROR_BYTES_MAX: Final = 65_536
"""Maximum size of an error's body that is read, in bytes."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """An HTTP request."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    wait_seconds: float = 0.0
    """Seconds that the server is asked to wait: the response may take as much longer."""
    timeout: float | None = None
    """Seconds without a sign of the server after which the request fails; None uses the HTTP client's timeout."""


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """Status and headers of a response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReadMore:
    """Effect: read the next bytes of the body."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Effect: wait."""

    seconds: float
    because: PenstockError | None = None
    """The error that is retried afterwards, if any."""


@dataclass(frozen=True, slots=True)
class TakeEvents:
    """Effect: take the next events to publish, at most *count*: one if they are made while they are taken."""

    count: int


class ReaderItem:
    """Base class of effects that are passed to the reader."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete response."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


MORE: Final = ReadMore()

Exchange: TypeAlias = Generator[Any, Any, T]
"""An exchange with a result of type T."""


def fetch(request: HttpRequest) -> Exchange[HttpResponse]:
    """Send *request* and read the whole response, whatever its status."""
    head: ResponseHead = yield request
    body = yield from read_body(ERROR_BYTES_MAX if head.status >= 400 else None)
    return HttpResponse(request.url, head.status, head.headers, body)


def read_body(limit: int | None = None) -> Exchange[bytes]:
    """Read the body after a head, up to about *limit* bytes."""
    chunks: list[bytes] = []
    size = 0
    while limit is None or size < limit:
        chunk: bytes = yield MORE
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


def join_url(base: str, *path: str, query: Iterable[tuple[str, object]] = ()) -> str:
    """Return *base* with *path* and *query* added; the query of *base* is kept.

    Raises:
        BadParameter: A step of the path is not a string.

    >>> join_url("http://hub/feeds?tenant=7", "order placed", query=[("n", 4)])
    'http://hub/feeds/order%20placed?tenant=7&n=4'
    """
    check_path(path)
    parts = urlsplit(base)
    steps = [quote(step, safe="") for step in path]
    whole = "/".join([parts.path.rstrip("/"), *steps]) if steps else parts.path
    added = urlencode([(name, str(value)) for name, value in query])
    return urlunsplit(parts._replace(path=whole, query="&".join(filter(None, [parts.query, added])), fragment=""))


def check_path(path: Iterable[Any]) -> None:
    """Raise BadParameter unless each step of *path* is a string: they include names and ids from the user."""
    for step in path:
        if not isinstance(step, str):
            raise BadParameter(parameter="name", value=step, allowed="a string, as names and ids are")


EXAMPLE: Final = "http://localhost:8080"
CHARS_MAX: Final = 200
"""Maximum length of a text for which a similar address is suggested."""
LABEL_CHARS_MAX: Final = 63
"""RFC 1035, 2.3.4."""
_NEVER: Final = re.compile(r"[\s\x00-\x1f\x7f]")


def is_address(text: str) -> bool:
    """Return whether *text* is an HTTP address.

    >>> is_address("https://shop.example/hub"), is_address("localhost:8080"), is_address("http://localhost:port")
    (True, False, False)
    """
    try:
        parts = urlsplit(text)
        _ = parts.port  # Raises ValueError if it is not a number.
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and _is_host(parts.hostname or "") and not _NEVER.search(text)


def _is_host(name: str) -> bool:
    """Return whether resolvers accept *name*: labels of 1 to 63 characters."""
    try:
        name = name if name.isascii() else name.encode("idna").decode()
    except UnicodeError:
        return False
    return all(1 <= len(label) <= LABEL_CHARS_MAX for label in name.removesuffix(".").split("."))


def suggest_address(text: str) -> str:
    """Return the address that *text* was probably meant to be, or an example.

    >>> suggest_address("localhost:1"), suggest_address("ftp://localhost")
    ('http://localhost:1', 'http://localhost:8080')
    """
    if len(text) > CHARS_MAX:
        return EXAMPLE
    completed = f"http://{text.strip().lstrip('/')}"
    return completed if "://" not in text and is_address(completed) else EXAMPLE


def check_address(url: object, *, relative: bool = False) -> str:
    """Return *url* without surrounding white space; *relative* allows an incomplete address.

    Raises:
        BadParameter: *url* is not an address. The error suggests one.
    """
    url = url.strip() if isinstance(url, str) else url
    if isinstance(url, str) and (is_address(url) or (relative and url[:1] in ("", "/"))):
        return url
    text = url if isinstance(url, str) else ""
    allowed = f"an address that begins with http:// or https://, such as {suggest_address(text)}"
    raise BadParameter(parameter="url", value="(not shown)" if "@" in text else url, allowed=allowed)


FIRST_DELAY_SECONDS: Final = 0.1


def is_transient(error: PenstockError) -> bool:
    """Return whether a request that failed with *error* may succeed later, unchanged."""
    if isinstance(error, ServerError):
        status = int(error.status)
        return not isinstance(error, WrongAddress) and (status in {408, 425, 429} or status >= 500)
    return error.retryable


class RetryBackoff:
    """Delays that double from 0.1 seconds to a maximum, with jitter of up to a half, so that clients spread.

    A delay is never shorter than the server's Retry-After.
    """

    def __init__(self, longest_seconds: float, chance: Callable[[], float] = random.random) -> None:
        self._longest_seconds = longest_seconds
        self._chance = chance
        self._failures = 0

    def reset(self) -> None:
        """Start again with the shortest delay, after a success."""
        self._failures = 0

    def delay(self, error: PenstockError) -> float:
        """Return the seconds to wait after *error*."""
        longest = min(self._longest_seconds, FIRST_DELAY_SECONDS * 2.0 ** min(self._failures, 30))
        self._failures += 1
        own = float(longest * (1 - self._chance() / 2))
        asked: object = error.retry_after  # Another server may send any value.
        return own if not isinstance(asked, int | float) else float(asked) + min(own, 1.0)


DELAY_SECONDS_MAX: Final = 30.0


def retry_until(
    attempt: Callable[[], Exchange[T]],
    repeatable: Callable[[PenstockError], bool],
    seconds: float,
    clock: Callable[[], float],
    *,
    delay_seconds_max: float = DELAY_SECONDS_MAX,
    attempts_max: int | None = None,
) -> Exchange[T]:
    """Run *attempt*, and again while it fails with a *repeatable* error, for up to *seconds* or *attempts_max* times.

    Raises:
        PenstockError: The error of the last attempt.
    """
    backoff = RetryBackoff(delay_seconds_max)
    deadline = clock() + seconds
    attempts = 0
    while True:
        attempts += 1
        try:
            return (yield from attempt())
        except PenstockError as error:
            delay = backoff.delay(error)
            if not repeatable(error) or attempts == attempts_max or clock() + delay > deadline:
                raise
            pause = Pause(delay, error)
        yield pause


HUB: Final = "Penstock hub"
FEED: Final = "feed"


def error_of(answer: HttpResponse, wanted: str = HUB) -> PenstockError:
    """Return the error of a refusing response: Penstock's own by its code, otherwise ServerError with status and body.

    WrongAddress is returned if the response cannot come from a *wanted*. Field `retry_after` has the seconds of the
    Retry-After header, if any.
    """
    after = retry_after(answer.headers, datetime.now(UTC))
    if answer.headers.get("content-type", "").startswith(MEDIA_TYPE):
        error = to_error(answer.status, answer.body, answer.url, wanted)
    else:
        error = make_foreign_error(answer.status, answer.body or _describe_redirect(answer), answer.url, wanted)
    if after is not None:
        error.retry_after = after
    return error


def is_page(answer: HttpResponse) -> bool:
    """Return whether *answer* is an HTML page."""
    return answer.body.lstrip()[:1] == b"<"


def _describe_redirect(answer: HttpResponse) -> bytes:
    location = answer.headers.get("location")
    return b"" if location is None else f"go to {location}".encode()


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds of a Retry-After header; None if it is missing or malformed.

    >>> from datetime import UTC, datetime
    >>> retry_after({"retry-after": "7"}, datetime(2024, 1, 1, tzinfo=UTC))
    7.0
    >>> retry_after({"retry-after": "Mon, 01 Jan 2024 00:00:09 GMT"}, datetime(2024, 1, 1, tzinfo=UTC))
    9.0
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - now).total_seconds())
    except (ValueError, TypeError):
        return None


def is_not_applied(error: PenstockError) -> bool:
    """Return whether *error* guarantees that nothing was done, so that the request can be repeated.

    Only the hub itself can say so: a proxy may respond 503 to a request that the hub has carried out.
    """
    return isinstance(error, Unavailable) and not isinstance(error, ConnectionLost)
