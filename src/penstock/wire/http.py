"""What protocol code asks of whoever does its I/O: the client, or a query of Spark's.

Protocol code does no I/O. It is written as generators that yield one effect at a time and are sent what came of it:

    Request    send it; send back the answer's Head, as soon as there is one
    More       read on; send back the next bytes of the body, b"" after the last
    Pause      let time pass
    Take       send back the next event that is to be published, END after the last
    Handed     hand it to the reader: a Page of a feed, a batch of a subscription

What goes wrong on the way is thrown into the generator: Unreachable when nothing was sent, ConnectionLost otherwise.
In the client, `http/adapter.py` steps through an exchange; `transport.py` and `async_transport.py` do its I/O, and
nothing else. On Spark's side `spark/zeroeventhub/exchanges.py` does both.

Addresses of hubs and feeds, checked before anything is sent.

What failures of a request can pass, and how long to wait before the same is asked again.

How long and how often something that failed is tried again.

Turns a server's refusal back into the error that it stands for.
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
    MalformedAnswer,
    PenstockError,
    ServerError,
    Unavailable,
    WrongAddress,
)
from penstock.wire.problem import MEDIA_TYPE, strange_error, to_error

ERROR_BYTES_MAX: Final = 65_536
"""An error's body is read this far."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    wait_seconds: float = 0.0
    """Seconds that the server was asked to wait: the answer may take as much longer."""
    timeout: float | None = None
    """Seconds without a sign of the server after which it is given up; None: as the HTTP client has it."""


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of an answer; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class More:
    """The next bytes of the body."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Time to let pass."""

    seconds: float
    because: PenstockError | None = None
    """What went wrong and is tried again afterwards; None where nothing did."""


@dataclass(frozen=True, slots=True)
class Take:
    """The next event that is to be published."""


class Handed:
    """What is handed to whoever reads."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


MORE: Final = More()
TAKE: Final = Take()
END: Final = object()

Exchange: TypeAlias = Generator[Any, Any, T]
"""Protocol code that comes to a T."""


def fetch(request: Request) -> Exchange[Answer]:
    """Send *request* and read the whole answer, whatever its status."""
    head: Head = yield request
    body = yield from rest(ERROR_BYTES_MAX if head.status >= 400 else None)
    return Answer(request.url, head.status, head.headers, body)


def rest(limit: int | None = None) -> Exchange[bytes]:
    """Read the body that follows a head, up to about *limit* bytes."""
    chunks: list[bytes] = []
    size = 0
    while limit is None or size < limit:
        chunk: bytes = yield MORE
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


def address(base: str, *path: str, query: Iterable[tuple[str, object]] = ()) -> str:
    """Return *base* with *path* and *query* added; a query that *base* has of its own stays.

    Raises:
        BadParameter: a step of the path is no text.

    >>> address("http://hub/feeds?tenant=7", "order placed", query=[("n", 4)])
    'http://hub/feeds/order%20placed?tenant=7&n=4'
    """
    check_steps(path)
    parts = urlsplit(base)
    steps = [quote(step, safe="") for step in path]
    whole = "/".join([parts.path.rstrip("/"), *steps]) if steps else parts.path
    added = urlencode([(name, str(value)) for name, value in query])
    return urlunsplit(parts._replace(path=whole, query="&".join(filter(None, [parts.query, added])), fragment=""))


def check_steps(path: Iterable[Any]) -> None:
    """Raise BadParameter unless each step of *path* is a text: names and ids that somebody has given are among them."""
    for step in path:
        if not isinstance(step, str):
            raise BadParameter(parameter="name", value=step, allowed="a text, as names and ids are")


def malformed(url: str, reason: str) -> MalformedAnswer:
    """Return the error that says in what way *url* broke its protocol."""
    return MalformedAnswer(url=url, reason=reason)


EXAMPLE: Final = "http://localhost:8080"
CHARS_MAX: Final = 200
"""What is longer was no address."""
LABEL_CHARS_MAX: Final = 63
"""RFC 1035, 2.3.4."""
_NEVER: Final = re.compile(r"[\s\x00-\x1f\x7f]")


def is_address(text: str) -> bool:
    """Tell whether *text* can be asked over HTTP.

    >>> is_address("https://shop.example/hub"), is_address("localhost:8080"), is_address("http://localhost:port")
    (True, False, False)
    """
    try:
        parts = urlsplit(text)
        _ = parts.port  # Raises when it is no number.
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and _is_host(parts.hostname or "") and not _NEVER.search(text)


def _is_host(name: str) -> bool:
    """Return whether resolvers take *name*: labels of 1 to 63 characters."""
    try:
        name = name if name.isascii() else name.encode("idna").decode()
    except UnicodeError:
        return False
    return all(1 <= len(label) <= LABEL_CHARS_MAX for label in name.removesuffix(".").split("."))


def meant(text: str) -> str:
    """Return the address that *text*, which is none, was probably meant to be; an example where that cannot be told.

    >>> meant("localhost:1"), meant("ftp://localhost")
    ('http://localhost:1', 'http://localhost:8080')
    """
    if len(text) > CHARS_MAX:
        return EXAMPLE
    completed = f"http://{text.strip().lstrip('/')}"
    return completed if "://" not in text and is_address(completed) else EXAMPLE


def check_address(url: object, *, relative: bool = False) -> str:
    """Return *url* if it is an address; *relative* allows for one that something else completes.

    White space around it is left out: files that hold an address mostly end in a line break.

    Raises:
        BadParameter: it is none; says what it was probably meant to be.
    """
    url = url.strip() if isinstance(url, str) else url
    if isinstance(url, str) and (is_address(url) or (relative and url[:1] in ("", "/"))):
        return url
    text = url if isinstance(url, str) else ""
    allowed = f"an address that begins with http:// or https://, such as {meant(text)}"
    raise BadParameter(parameter="url", value="(not shown)" if "@" in text else url, allowed=allowed)


FIRST_DELAY_SECONDS: Final = 0.1


def is_passing(error: PenstockError) -> bool:
    """Say whether a read that failed with *error* can succeed later, unchanged."""
    if isinstance(error, ServerError):
        status = int(error.status)
        return not isinstance(error, WrongAddress) and (status in {408, 425, 429} or status >= 500)
    return error.retryable


class Backoff:
    """Delays that double from 0.1 s to *longest_seconds*, each shortened by up to a half at random to spread clients.

    What a server asks for with Retry-After is kept to: it is never less than that.
    """

    def __init__(self, longest_seconds: float, chance: Callable[[], float] = random.random) -> None:
        self._longest_seconds = longest_seconds
        self._chance = chance
        self._failures = 0

    def reset(self) -> None:
        """Begin again with the shortest delay: something has succeeded."""
        self._failures = 0

    def delay(self, error: PenstockError) -> float:
        """Return the seconds to let pass after *error*."""
        longest = min(self._longest_seconds, FIRST_DELAY_SECONDS * 2.0 ** min(self._failures, 30))
        self._failures += 1
        own = float(longest * (1 - self._chance() / 2))
        asked: object = error.retry_after  # Another server may have sent anything.
        return own if not isinstance(asked, int | float) else float(asked) + min(own, 1.0)


DELAY_SECONDS_MAX: Final = 30.0


def patiently(
    attempt: Callable[[], Exchange[T]],
    repeatable: Callable[[PenstockError], bool],
    seconds: float,
    clock: Callable[[], float],
    *,
    delay_seconds_max: float = DELAY_SECONDS_MAX,
    attempts_max: int | None = None,
) -> Exchange[T]:
    """Make *attempt*, again and again while it fails with something *repeatable*, for up to *seconds* in all.

    Where *attempts_max* is given, no more often than that.

    Raises:
        PenstockError: the last attempt's error.
    """
    backoff = Backoff(delay_seconds_max)
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


def check_retry_timeout(value: Any) -> None:
    """Raise BadParameter unless *value* is a number of seconds, 0 or more; it may be without end."""
    if type(value) not in (int, float) or not value >= 0:
        raise BadParameter(parameter="retry_timeout", value=value, allowed="a number of seconds, 0 or more")


HUB: Final = "Penstock hub"
FEED: Final = "feed"


def refusal(answer: Answer, wanted: str = HUB) -> PenstockError:
    """Return the error that *answer* stands for: one of ours by its code, else ServerError with status and body.

    WrongAddress, where it is none that *wanted* would give. Its field `retry_after` holds the seconds after which the
    server wants to be asked again, where it said so.
    """
    after = retry_after(answer.headers, datetime.now(UTC))
    if answer.headers.get("content-type", "").startswith(MEDIA_TYPE):
        error = to_error(answer.status, answer.body, answer.url, wanted)
    else:
        error = strange_error(answer.status, answer.body or _led_to(answer), answer.url, wanted)
    if after is not None:
        error.retry_after = after
    return error


def is_page(answer: Answer) -> bool:
    """Say whether *answer* is a page for a browser, or anything else that JSON does not begin like."""
    return answer.body.lstrip()[:1] == b"<"


def _led_to(answer: Answer) -> bytes:
    location = answer.headers.get("location")
    return b"" if location is None else f"go to {location}".encode()


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for, None without a usable one.

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


def is_undone(error: PenstockError) -> bool:
    """Say whether *error* means that nothing was done, and that the same can be tried again: a hub's own word alone.

    Whoever stands between it and the hub may answer 503 to what the hub has carried out.
    """
    return isinstance(error, Unavailable) and not isinstance(error, ConnectionLost)
