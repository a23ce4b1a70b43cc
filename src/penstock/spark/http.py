"""HTTP of Spark's driver and tasks: the client's HTTP, with a query's headers and checks of the answers."""

import io
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, BinaryIO, Final, NamedTuple

import httpx2
import pyarrow as pa

from penstock.client.http.adapter import SETTINGS
from penstock.client.http.proxy_transport import ProxyTransport
from penstock.client.http.transport import ExchangeRun
from penstock.errors import ConnectionLost, MalformedAnswer, PenstockError
from penstock.wire.http import (
    ERROR_BYTES_MAX,
    MORE,
    Exchange,
    HttpRequest,
    HttpResponse,
    ReaderItem,
    ResponseHead,
    T,
    read_body,
    retry_after,
)
from penstock.wire.problem import make_foreign_error, to_error

JSON: Final = "application/json"
HTML: Final = "text/html"
HUB: Final = "Penstock hub"
AGENT: Final = "penstock-spark"
CHUNK_BYTES: Final = 1 << 16


@cache
def shared_client() -> httpx2.Client:
    """Return the HTTP client of this process, which keeps its proxies and TLS settings.

    Each request has a connection of its own: tasks make few and large ones, and Spark forks processes and lets them
    idle between tasks. No cookie is kept, since queries with different tokens share the client.
    """
    transport = ProxyTransport(httpx2.Limits(max_keepalive_connections=0))
    return httpx2.Client(**SETTINGS, transport=transport, cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())))


@dataclass(frozen=True)
class QueryHttp:
    """The HTTP client of a query, for exchanges: it sends *headers* with each request.

    A token among them goes to the server that a request names, but to no other one that this one sends on to.
    """

    headers: Mapping[str, str] = field(repr=False)

    def build_request(self, method: str, url: str, *, headers: Mapping[str, str], **more: Any) -> httpx2.Request:
        """Return a request of the library."""
        return shared_client().build_request(
            method, url, headers={"user-agent": AGENT, **headers, **self.headers}, **more
        )

    def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        """Send a request."""
        return shared_client().send(request, **how)


def carry_out(
    exchange: Exchange[T],
    *,
    headers: Mapping[str, str] | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """Return the result of *exchange*. See `QueryHttp` for *headers*.

    Raises:
        PenstockError: The exchange has failed.
    """
    run = ExchangeRun(QueryHttp(headers or {}), exchange, sleep=sleep)
    try:
        while run.advance() is not None:
            pass
        return run.outcome
    finally:
        run.close()


def send_request(
    address: str,
    body: Any = None,
    *,
    method: str | None = None,
    media_type: str = JSON,
    headers: Mapping[str, str] | None = None,
    wanted: str = HUB,
    read: Callable[[Any], Any] = lambda said: said,
) -> Any:
    """Send a request; return the server's answer, decoded from JSON, or None if it is empty.

    Args:
        address: The URL.
        body: The body; bytes are sent unchanged, other values as JSON.
        method: By default POST with a body, GET without.
        media_type: The media type of the body.
        headers: See `QueryHttp`.
        wanted: The kind of server that is expected there, for errors.
        read: Converts the decoded answer into the result.

    Raises:
        PenstockError: The server's answer is an error or malformed, or the connection failed.
    """
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    told = {"accept": JSON} | ({} if sent is None else {"content-type": media_type})
    request = HttpRequest(method=method or ("GET" if sent is None else "POST"), url=address, headers=told, body=sent)
    said = carry_out(_read_answer(request, wanted), headers=headers)
    try:
        found = json.loads(said) if said else None
    except ValueError as error:
        raise MalformedAnswer(url=address, reason=f"no JSON: {said[:200]!r}") from error
    try:
        return read(found)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MalformedAnswer(url=address, reason=f"not what was asked for: {str(found)[:200]}") from error


class OpenAnswer(NamedTuple):
    """An answer that is being read."""

    headers: Mapping[str, str]
    """By their names in lower case."""
    body: BinaryIO


@contextmanager
def open_answer(
    address: str, media_type: str, *, headers: Mapping[str, str] | None = None, wanted: str = HUB
) -> Iterator[OpenAnswer]:
    """Open *address* to read its answer as it comes. See `send_request`; the block may raise ConnectionLost, too."""
    request = HttpRequest(method="GET", url=address, headers={"accept": media_type})
    run = ExchangeRun(QueryHttp(headers or {}), _read_chunks(request, wanted))
    try:
        head = run.advance()
        yield OpenAnswer(head.headers, io.BufferedReader(_Body(run), CHUNK_BYTES))
    except (OSError, pa.ArrowException) as error:
        raise ConnectionLost(url=address, reason=str(error)) from error
    finally:
        run.close()


def check_head(request: HttpRequest, head: ResponseHead, wanted: str = HUB) -> Exchange[None]:
    """Check that *head* has the status and the type of an answer to *request*.

    Raises:
        PenstockError: The server has refused it, or is none that is *wanted*.
    """
    given = head.headers.get("content-type", "").partition(";")[0].strip().lower()
    accepted = request.headers["accept"]
    is_empty = head.headers.get("content-length") == "0" or head.status == 204
    if head.status < 300 and (is_empty or given == accepted):
        return
    answer = HttpResponse(request.url, head.status, head.headers, (yield from read_body(ERROR_BYTES_MAX)))
    if head.status >= 300:
        raise _make_refusal(answer, wanted)
    if given == HTML:
        raise make_foreign_error(head.status, answer.body, request.url, wanted)
    raise MalformedAnswer(url=request.url, reason=f"{given or 'no type'} instead of {accepted}")


def _make_refusal(answer: HttpResponse, wanted: str) -> PenstockError:
    error = to_error(answer.status, answer.body, answer.url, wanted)
    error.retry_after = retry_after(answer.headers, datetime.now(UTC))
    return error


def _read_answer(request: HttpRequest, wanted: str) -> Exchange[bytes]:
    head: ResponseHead = yield request
    yield from check_head(request, head, wanted)
    return (yield from read_body())


@dataclass(frozen=True, slots=True)
class _Head(ReaderItem):
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Chunk(ReaderItem):
    data: bytes


def _read_chunks(request: HttpRequest, wanted: str) -> Exchange[None]:
    head: ResponseHead = yield request
    yield from check_head(request, head, wanted)
    yield _Head(head.headers)
    while chunk := (yield MORE):
        yield _Chunk(chunk)


class _Body(io.RawIOBase):
    """The body of an answer as a file."""

    def __init__(self, run: ExchangeRun[None]) -> None:
        self._run = run
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            chunk = self._run.advance()
            self._rest = memoryview(b"" if chunk is None else chunk.data)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
