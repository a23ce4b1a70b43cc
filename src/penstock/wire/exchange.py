"""What protocol code asks of whoever does its I/O: the client, or a query of Spark's.

Protocol code does no I/O. It is written as generators that yield one effect at a time and are sent what came of it:

    Request    send it; send back the answer's Head, as soon as there is one
    More       read on; send back the next bytes of the body, b"" after the last
    Pause      let time pass
    Take       send back the next event that is to be published, END after the last
    Handed     hand it to the reader: a Page of a feed, a batch of a subscription

What goes wrong on the way is thrown into the generator: Unreachable when nothing was sent, ConnectionLost otherwise.
In the client, `steps.py` steps through an exchange; `transport.py` and `async_transport.py` do its I/O, and nothing
else. On Spark's side `spark/zeroeventhub/exchanges.py` does both.
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from penstock.errors import BadParameter, MalformedAnswer, PenstockError

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
    wait: float = 0.0
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
