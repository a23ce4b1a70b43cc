"""HTTP/1.1 on one connection: the protocol class that uvicorn runs for `penstock serve`.

httptools parses; this module frames. uvicorn's own class for httptools loses the body of a request that offers an
upgrade (the body can then be read as another request), sends chunks to HTTP/1.0 clients, adds trailers to the headers,
and waits for slow senders without limit. `docs/decisions/http-server.md` names other servers.

The rules are those of RFC 9112 (HTTP/1.1) and RFC 9110 (HTTP semantics). After a refusal the connection is closed, so
that bytes behind a request whose end is uncertain are never read as another request.
"""

import asyncio
import math
import re
from collections import deque
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import unquote

import httptools
import msgspec
import structlog
from starlette.types import Message, Scope
from uvicorn.config import Config
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState

from penstock.errors import MalformedRequest, PenstockError, RequestTooLarge
from penstock.server.http.known_head import KnownHead
from penstock.server.http.problems import status_of
from penstock.server.http.responses import CUT
from penstock.server.http.tls import CLIENT_CERTIFICATE, client_certificate_of, has_all
from penstock.server.limits import Limiter
from penstock.server.telemetry import WHOLE_ANSWER
from penstock.wire.problem import MEDIA_TYPE, to_problem

TARGET_BYTES_MAX: Final = 512 << 10
"""The longest request target: the largest `n` of a feed with a cursor for each partition fits."""
PATH_BYTES_MAX: Final = 64 << 10
"""The longest path; it is looked at for each route."""
HEADERS_BYTES_MAX: Final = 64 << 10
HEADER_TIMEOUT: Final = 30.0
BODY_TIMEOUT: Final = 30.0
BODY_BYTES_PER_SECOND_MIN: Final = 1024
"""A body gets its timeout, and a second more for each so many bytes that have arrived."""
REFUSED_MAX: Final = 100
"""So many connections that are refused have an answer at a time; others are closed at once."""
LINGER_TIMEOUT: Final = 2.0
"""The time in which bytes of a refused client are discarded: a reset could destroy the answer on its way."""
BUFFERED_BYTES_MAX: Final = 64 << 10
"""Reading pauses while the application has more of a body before it."""
FLUSH_INTERVAL: Final = 0.05
"""Seconds between two looks whether a TLS client has received its last answer."""
SLICE_BYTES: Final = 32 << 10
"""So much is parsed at once; what takes longer than `TURN_SECONDS` waits for the next turn of the event loop."""
TURN_SECONDS: Final = 0.005
JOINED_BYTES_MAX: Final = 64 << 10
"""Chunks up to this size are copied into one piece with their frame; larger ones are written as they are."""

_NO_BODY: Final = frozenset({204, 304})
_STATUS_LINES: Final = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}
_HOST: Final = re.compile(rb"[\w.~!$&'()*+,;=%:\[\]-]*", re.ASCII)
"""The characters of a host and a port (RFC 3986, 3.2.2); empty where the target has none (RFC 9112, 3.2)."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_log: Final = structlog.get_logger("penstock.http")


Take: TypeAlias = Callable[[Scope, bytes, dict[str, Any], "HttpExchange"], bool]


def http1(
    header_timeout: float, body_timeout: float, limiter: Limiter | None = None, take: Take | None = None
) -> type[asyncio.Protocol]:
    """Return a protocol class for uvicorn's option `http` with these timeouts, in seconds.

    *header_timeout* is the time that the head of a request may take, *body_timeout* the time that its body may take,
    plus a second for each `BODY_BYTES_PER_SECOND_MIN` bytes received. A request that takes longer is answered 408.
    *limiter* is asked for each connection. *take* is called with a whole request whose head is that of the request
    before: with its scope, its body, a dictionary that such requests share, and the exchange that it may answer. If it
    returns False the application runs, as for all other requests.
    """
    members = {
        "header_timeout": header_timeout,
        "body_timeout": body_timeout,
        "limiter": limiter,
        "take": None if take is None else staticmethod(take),
    }
    return cast("type[asyncio.Protocol]", type("Http1Protocol", (Http1Protocol,), members))


class Http1Protocol(asyncio.Protocol):
    """Reads the requests of one connection and runs the application for each, in their order.

    Requests that are pipelined wait until the one before is answered.
    """

    header_timeout = HEADER_TIMEOUT
    body_timeout = BODY_TIMEOUT
    limiter: Limiter | None = None
    take: Take | None = None
    _default: tuple[list[tuple[bytes, bytes]], bytes] = ([], b"")
    """The headers of every answer, and their lines, until the headers change."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Take the arguments that uvicorn gives every protocol."""
        if not config.loaded:
            config.load()
        self.app: Callable[..., Any] = config.loaded_app
        self.loop = _loop or asyncio.get_event_loop()
        self.root_path = config.root_path
        self.app_state = app_state
        self.server_state = server_state
        self.keep_alive_timeout = config.timeout_keep_alive
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # Until the connection is made.
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        """None once no more requests are read from this connection."""
        self._exchanges: deque[HttpExchange] = deque()
        """The requests that are not answered yet; the first one is with the application."""
        self._reading: HttpExchange | None = None
        """The request whose body is being received; it may have been answered already."""
        self._refusal: PenstockError | None = None
        self._refusal_waits = False
        self._is_counted = False
        """Whether the connection counts among those of its address."""
        self._stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self._due_at = math.inf
        """When `_on_time` is to be called; infinity if nothing is timed."""
        self._on_time: Callable[[], None] = lambda: None
        self._timed: Literal["head", "body"] | None = None
        self._reads = True
        self._unread = b""
        """The bytes that have come and wait for another turn of the event loop."""
        self.writable = asyncio.Event()
        self._known: KnownHead | None = None
        """The head of the last request, if the next one may have the same."""
        self._in_head = True
        """True where the next byte belongs to a head, or comes before one."""
        self._head_bytes = 0
        self.on_message_begin()
        self._head_begun = False

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: the first request's head has to arrive in time."""
        self.transport = cast("asyncio.Transport", transport)
        self.server_state.connections.add(self)  # type: ignore[arg-type]  # It names the protocols that it ships.
        self._server = get_local_addr(self.transport)
        self._client = get_remote_addr(self.transport)
        self._address = self._client[0] if self._client else ""
        self._scheme = "https" if is_ssl(self.transport) else "http"
        certificate = client_certificate_of(transport.get_extra_info("ssl_object"))
        self._extensions: dict[str, Any] = {WHOLE_ANSWER: {}}
        if certificate is not None:
            self._extensions[CLIENT_CERTIFICATE] = certificate
        self.writable.set()
        if self.limiter is not None and not self._count_connection(self.limiter):
            return
        self._start_timer(self.header_timeout, self._on_slow_head, "head")

    def _count_connection(self, limiter: Limiter) -> bool:
        """Count the connection; return False if there are too many already, and it ends with an answer that says so."""
        self._refusal = limiter.open_connection(self._address)
        self._is_counted = self._refusal is None
        if self._refusal is not None:
            if len(self.server_state.connections) <= limiter.connections + REFUSED_MAX:
                self._refuse()
            else:
                self.transport.abort()
        return self._is_counted

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - So the transport calls it.
        """End, and tell the applications that still answer requests of this connection."""
        self.server_state.connections.discard(self)
        if self._is_counted and self.limiter is not None:
            self._is_counted = False
            self.limiter.close_connection(self._address)
        self._parser = None
        self._unread = b""
        self._stop_timer()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for exchange in self._exchanges:
            exchange.disconnect()
        self.writable.set()

    def eof_received(self) -> bool:
        """Answer the requests that are complete, then close; requests that wait take the client for disconnected."""
        if self._unread:
            unread, self._unread = self._unread, b""
            self._read(unread)
        self._parser = None
        self._stop_timer()
        if self._reading is not None and self._exchanges and self._exchanges[-1] is self._reading:
            self._exchanges.pop().disconnect()
        self._reading = None
        for exchange in self._exchanges:
            exchange.end_input()
        return bool(self._exchanges) and self.transport.can_write_eof()

    def pause_writing(self) -> None:
        """Make answers wait: the client reads less than it is sent."""
        self.writable.clear()

    def resume_writing(self) -> None:
        """Let answers go on."""
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        """Read as many requests as *data* has.

        Tiny chunks and requests that are pipelined take long: other connections have a turn meanwhile.
        """
        if self._unread:
            self._unread += data
        elif len(data) <= SLICE_BYTES:
            self._read(data)
        else:
            self._unread = data
            self._read_on()

    def _read_on(self) -> None:
        """Read what is unread for up to `TURN_SECONDS`, and the rest in another turn of the event loop."""
        until = self.loop.time() + TURN_SECONDS
        unread, at = self._unread, 0
        while self._parser is not None and at < len(unread):
            if at and self.loop.time() > until:
                self._unread = unread[at:]
                self.pause_reading()
                self.loop.call_soon(self._read_on)
                return
            self._read(unread[at : at + SLICE_BYTES])
            at += SLICE_BYTES
        self._unread = b""
        if self._reading is None or not self._reading.has_much:
            self.resume_reading()

    def _read(self, data: bytes) -> None:
        if self._parser is None:
            return
        is_first = self._in_head and not self._head_begun
        if is_first and self._known is not None and not self._exchanges and self._take_whole(data, self._known):
            return
        if self._in_head:
            self._head_begun = True
            self._head_bytes += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserCallbackError:
            if self._refusal is None:
                raise
        except httptools.HttpParserError as error:
            if self._exchanges and not self._exchanges[-1].keep_alive and self._reading is None:
                self._parser = None  # The client announced its last request; further bytes are not read.
            else:
                self._refusal = MalformedRequest(reason=str(error) or type(error).__name__)
        if self._refusal is not None:
            self._refuse()
        elif self._in_head and self._head_bytes > TARGET_BYTES_MAX + HEADERS_BYTES_MAX:
            self._refusal = (
                RequestTooLarge.of("headers-too-large", limit=HEADERS_BYTES_MAX)
                if self._headers
                else RequestTooLarge.of("target-too-long", limit=TARGET_BYTES_MAX)
            )
            self._refuse()
        else:
            if is_first and len(self._exchanges) == 1 and not self._head_begun:
                self._known = self._exchanges[0].learn_head(data)
            self._watch_sender()

    def _take_whole(self, data: bytes, known: KnownHead) -> bool:
        """Answer a whole request with the *known* head; return False if the data are anything else."""
        if (found := known.match(data)) is None:
            self._known = None
            return False
        scope, body = found
        scope["state"] = self.app_state.copy()
        exchange = HttpExchange(self, scope, expects_continue=False)
        exchange.take(body)
        exchange.end_body()
        self._exchanges.append(exchange)
        if self.take is None or not self.take(scope, body, known.memo, exchange):
            self.run(exchange)
        self._watch_sender()
        return True

    def _parse(self, data: bytes) -> None:
        while self._parser is not None:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                if self._upgrade_head is None:
                    raise
                # The parser skips the body of a request that offers an upgrade. None is made here (RFC 9110, 7.8), so
                # a new parser is given the same head without the offer, and what follows it.
                data = self._upgrade_head + data[upgrade.args[0] :]
                self._parser = httptools.HttpRequestParser(self)
            else:
                return

    # Called by the parser.

    def on_message_begin(self) -> None:
        """Begin the head of a request."""
        self._head_begun = True
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._trailer_bytes = 0
        self._hosts = 0
        self._expects_continue = False
        self._upgrade_head: bytes | None = None

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a trailer is counted and thrown away (RFC 9110, 6.5.1)."""
        if not self._in_head:
            self._trailer_bytes += len(name) + len(value)
            if self._trailer_bytes > HEADERS_BYTES_MAX:
                self._stop(RequestTooLarge.of("headers-too-large", limit=HEADERS_BYTES_MAX))
            return
        name, value = name.lower(), value.rstrip(b" \t")
        if name == b"upgrade":
            return
        if name == b"host":
            self._hosts += 1
            if not _HOST.fullmatch(value):
                self._stop(MalformedRequest(reason=f"the header Host is {value[:80]!r}, which names no host"))
        elif name == b"expect":
            self._expects_continue = value.lower() == b"100-continue"
        elif name == b"transfer-encoding" and value.lower() != b"chunked":
            self._stop(MalformedRequest(reason=f"Transfer-Encoding {value[:80]!r} is not spoken here: use chunked"))
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Queue the request behind those that came before it."""
        parser = self._parser
        assert parser is not None
        method, version = parser.get_method().decode("ascii"), parser.get_http_version()
        if method == "CONNECT":
            self._stop(MalformedRequest(reason="CONNECT is for proxies, and this is none"))
        if parser.should_upgrade():
            self._upgrade_head = self._drop_upgrade(method, version)
            return
        self._check_head(version)
        expects_continue = self._expects_continue and version == "1.1"  # HTTP/1.0 has no 100 (RFC 9110, 10.1.1).
        exchange = HttpExchange(self, self._scope(method, version), expects_continue=expects_continue)
        exchange.keep_alive = version == "1.1" and parser.should_keep_alive()
        self._in_head = False
        self._reading = exchange
        self._exchanges.append(exchange)
        if len(self._exchanges) == 1:
            self.run(exchange)
        else:
            self.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body; that of a request that is answered already is thrown away."""
        if self._reading is not None:
            self._reading.take(body)

    def on_message_complete(self) -> None:
        """Tell the application that the request is whole."""
        if self._upgrade_head is not None:
            return
        exchange, self._reading = self._reading, None
        if exchange is not None:
            exchange.end_body()
        self._in_head, self._head_begun, self._head_bytes = True, False, 0

    def _stop(self, refusal: PenstockError) -> None:
        self._refusal = refusal
        raise _Refused

    def _check_head(self, version: str) -> None:
        if version not in ("1.0", "1.1"):
            self._stop(MalformedRequest(reason=f"the version {version} is not spoken here: use HTTP/1.1"))
        if len(self._target) > TARGET_BYTES_MAX:
            self._stop(RequestTooLarge.of("target-too-long", limit=TARGET_BYTES_MAX))
        if sum(len(name) + len(value) + 4 for name, value in self._headers) > HEADERS_BYTES_MAX:
            self._stop(RequestTooLarge.of("headers-too-large", limit=HEADERS_BYTES_MAX))
        if self._hosts != 1 and (version == "1.1" or self._hosts):
            self._stop(MalformedRequest(reason=f"it has {self._hosts} headers Host instead of one"))
        if version == "1.0" and any(name == b"transfer-encoding" for name, _ in self._headers):
            self._stop(MalformedRequest(reason="HTTP/1.0 has no Transfer-Encoding"))

    def _drop_upgrade(self, method: str, version: str) -> bytes:
        lines = [b"%s %s HTTP/%s" % (method.encode(), self._target, version.encode())]
        for name, value in self._headers:
            if name == b"connection":
                options = [option.strip() for option in value.split(b",")]
                value = b", ".join(option for option in options if option.lower() != b"upgrade")  # noqa: PLW2901
            lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    def _scope(self, method: str, version: str) -> Scope:
        raw_path, query = self._path_and_query()
        path = raw_path.decode("ascii")
        if "%" in path:
            path = unquote(path)
        root = self.root_path
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "server": self._server,
            "client": self._client,
            "scheme": self._scheme,
            "method": method,
            "root_path": root,
            "path": root + path,
            "raw_path": root.encode("ascii") + raw_path,
            "query_string": query,
            "headers": self._headers,
            "extensions": self._extensions,
            "state": self.app_state.copy(),
        }

    def _path_and_query(self) -> tuple[bytes, bytes]:
        target = self._target.partition(b"#")[0]
        if not target.isascii():
            self._stop(MalformedRequest(reason="the target has bytes that are not ASCII: percent-encode them"))
        if not target.startswith(b"/") and b"://" in target:  # The absolute form, which proxies are sent.
            target = target.partition(b"://")[2]
            ends = [at for at in (target.find(b"/"), target.find(b"?")) if at >= 0]
            target = target[min(ends) :] if ends else b"/"
        path, _, query = target.partition(b"?")
        if len(path) > PATH_BYTES_MAX:
            limit = PATH_BYTES_MAX
            self._stop(RequestTooLarge.of("target-too-long", f"the path is longer than {limit} bytes", limit=limit))
        return path or b"/", query

    # Exchanges.

    def run(self, exchange: "HttpExchange") -> None:
        """Run the application for *exchange*, in a task of its own."""
        task = self.loop.create_task(exchange.serve(self.app))
        self.server_state.tasks.add(task)
        exchange.task = task

    def on_answered(self, exchange: "HttpExchange") -> None:
        """Go on behind an answer: with the next request that waits, or by waiting for one."""
        self.server_state.total_requests += 1
        if not self._exchanges or self._exchanges[0] is not exchange:
            return  # The connection was refused while it was answered.
        self._exchanges.popleft()
        if self.transport.is_closing():
            return
        if self._stopping or not exchange.keep_alive:
            self.close()
        elif self._exchanges:
            self.run(self._exchanges[0])
        elif self._refusal_waits:
            self._send_refusal()
        elif self._parser is None:
            self.transport.close()
        else:
            self._watch_sender()
        self.resume_reading()

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of every answer: its date."""
        return self.server_state.default_headers

    @property
    def default_lines(self) -> bytes:
        """The lines of these headers."""
        headers, lines = self._default
        if headers is not self.server_state.default_headers:
            headers = self.server_state.default_headers
            lines = b"".join(b"%b: %b\r\n" % each for each in headers)
            type(self)._default = headers, lines
        return lines

    @property
    def stopping(self) -> bool:
        """True where the connection is closed after the current answer."""
        return self._stopping

    def shutdown(self) -> None:
        """Close once the request that is with the application is answered (uvicorn asks for it when it stops)."""
        self._stopping = True
        if self._exchanges:
            return
        self._end()

    def close(self) -> None:
        """Close the connection once what was written is sent; bytes that still come are not read as requests."""
        self._parser = None
        self._linger() if self._reading is not None else self._end()

    def _end(self) -> None:
        """Close the connection once the client has all that was written."""
        self.transport.close()
        if self._stopping and self._scheme == "https":
            self._end_tls()

    def _end_tls(self, *, had_all: bool = False) -> None:
        """End a connection that is being closed: TLS waits for the client's answer, and one that is idle gives none.

        The client has to have all at two looks: between them the transport writes what it may still hold.
        """
        if self not in self.server_state.connections:
            return
        has_now = has_all(self.transport)
        if has_now and had_all:
            self.transport.abort()
        else:
            self.loop.call_later(FLUSH_INTERVAL, lambda: self._end_tls(had_all=has_now))

    def pause_reading(self) -> None:
        """Take no more from the client for now."""
        if self._reads:
            self._reads = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Take more from the client, unless a request of it waits already."""
        if not self._reads and not self._unread and len(self._exchanges) <= 1 and not self.transport.is_closing():
            self._reads = True
            self.transport.resume_reading()

    # Refusals.

    def _refuse(self) -> None:
        """Refuse the request that is being read, after the answers to those before it."""
        self._parser = None
        self._stop_timer()
        broken, self._reading = self._reading, None
        if broken is not None and broken in self._exchanges:
            self._exchanges.remove(broken)
            broken.disconnect()
            if broken.started:
                self.transport.close()
                return
        elif broken is not None:  # It is answered already.
            self.transport.close()
            return
        if self._exchanges:
            self._refusal_waits = True
        else:
            self._send_refusal()

    def _send_refusal(self) -> None:
        refusal = self._refusal
        assert refusal is not None
        status = status_of(refusal)
        _log.info("refused", client=self._client and self._client[0], status=status, **refusal.fields)
        body = msgspec.json.encode(to_problem(refusal, status, HTTPStatus(status).phrase))
        headers = [
            *self.default_headers,
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
            (b"connection", b"close"),
        ]
        if refusal.retry_after is not None:
            headers.append((b"retry-after", b"%d" % refusal.retry_after))
        lines = (b"%s: %s\r\n" % header for header in headers)
        self.transport.write(b"".join((_STATUS_LINES[status], *lines, b"\r\n", body)))
        self._linger()

    def _linger(self) -> None:
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self.resume_reading()
        self._start_timer(LINGER_TIMEOUT, self.transport.close)

    # Timers: one at a time.

    def _watch_sender(self) -> None:
        """Time the sender of a head or a body that is not whole, or the pause between two requests."""
        if self._reading is not None:
            if self._timed != "body":
                self._start_timer(self.body_timeout, self._on_slow_body, "body")
        elif self._head_begun:
            if self._timed != "head":
                self._start_timer(self.header_timeout, self._on_slow_head, "head")
        elif self._exchanges:
            self._stop_timer()
        else:
            self._start_timer(self.keep_alive_timeout, self.transport.close)

    def _start_timer(
        self, timeout: float, on_time: Callable[[], None], timed: Literal["head", "body"] | None = None
    ) -> None:
        """Call *on_time* after *timeout* seconds, instead of the callback set before.

        A timer of the loop that runs already is kept if it ends before that: several are started for each request.
        """
        self._timed, self._on_time = timed, on_time
        self._due_at = self.loop.time() + timeout
        if self._timer is not None and self._timer.when() > self._due_at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self.loop.call_at(self._due_at, self._on_timer)

    def _stop_timer(self) -> None:
        """Cancel the callback. The loop's timer is kept for the next one."""
        self._timed, self._due_at = None, math.inf

    def _on_timer(self) -> None:
        self._timer = None
        if self.loop.time() >= self._due_at:
            self._due_at = math.inf
            self._on_time()
        elif self._due_at < math.inf:
            self._timer = self.loop.call_at(self._due_at, self._on_timer)

    def _on_slow_head(self) -> None:
        if not self._head_begun:
            self.transport.close()  # Nothing was asked.
            return
        self._refusal = MalformedRequest.of("request-too-slow", part="headers", timeout_seconds=self.header_timeout)
        self._refuse()

    def _on_slow_body(self) -> None:
        exchange = self._reading
        assert exchange is not None
        seconds = exchange.body_seconds_left(self.body_timeout)
        if not self._reads or exchange.expects_continue:
            seconds = self.body_timeout  # It waits for us.
        if seconds > 0:
            self._start_timer(seconds, self._on_slow_body, "body")
            return
        self._refusal = MalformedRequest.of("request-too-slow", part="body", timeout_seconds=self.body_timeout)
        self._refuse()


class HttpExchange:
    """One request and its answer: what an ASGI application receives and sends."""

    def __init__(self, protocol: Http1Protocol, scope: Scope, *, expects_continue: bool) -> None:
        """Begin with the head, which *scope* has; the body comes by `take`."""
        self._protocol = protocol
        self._scope = scope
        self._began_at = protocol.loop.time()
        self.expects_continue = expects_continue
        """True while the client waits for 100 (Continue) before it sends its body (RFC 9110, 10.1.1)."""
        self.keep_alive = True
        self.task: asyncio.Task[None] | None = None
        """Runs the application for the request."""
        self.started = False
        """True once the answer has begun."""
        self._body = bytearray()
        self._received = 0
        self._is_whole = False
        self._body_taken = False
        self._input_ended = False
        self._is_gone = False
        self._is_answered = False
        self._changed = asyncio.Event()
        self._framing: Literal["length", "chunks", "close", "none"] = "none"
        self._left = 0
        self._head = b""
        """The head of an answer, until it is sent together with the beginning of its body."""

    # The request.

    def take(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._received += len(body)
        self.expects_continue = False
        if self._is_answered or self._is_gone:
            return
        self._body += body
        if self.has_much:
            self._protocol.pause_reading()
        self._changed.set()

    def learn_head(self, request: bytes) -> KnownHead | None:
        """Return the head of this *request*, for others like it; None if others have to be parsed."""
        if not self.keep_alive or self.expects_continue or not self._is_whole:
            return None
        return KnownHead.learn(request, self._scope)

    @property
    def has_much(self) -> bool:
        """True if the application has so much unread body that no more should be read from the connection."""
        return not self._is_answered and len(self._body) > BUFFERED_BYTES_MAX

    def end_body(self) -> None:
        """Note that the request is whole."""
        self._is_whole = True
        self._changed.set()

    def end_input(self) -> None:
        """Note that the client sends no more; it may still read the answer."""
        self._input_ended = True
        self._changed.set()

    def disconnect(self) -> None:
        """Note that the client has disconnected, or is no longer read from."""
        self._is_gone = True
        self._changed.set()

    def body_seconds_left(self, timeout: float) -> float:
        """Return how many seconds the body may still take, after *timeout* and those that its bytes have earned."""
        return self._began_at + timeout + self._received / BODY_BYTES_PER_SECOND_MIN - self._protocol.loop.time()

    async def receive(self) -> Message:
        """Return the next piece of the body; behind the last one, `http.disconnect` once the client has left."""
        if self.expects_continue and not self.started and not self._is_gone:
            self.expects_continue = False
            self._protocol.transport.write(_CONTINUE)
        if not self._is_gone and not self._is_answered:
            self._protocol.resume_reading()
            await self._changed.wait()
            self._changed.clear()
        if self._is_gone or self._is_answered or (self._input_ended and self._body_taken):
            self._changed.set()
            return {"type": "http.disconnect"}
        self._body_taken = self._is_whole
        if self._input_ended:
            self._changed.set()
        body, self._body = bytes(self._body), bytearray()
        return {"type": "http.request", "body": body, "more_body": not self._is_whole}

    # The answer.

    def run(self) -> None:
        """Have the application answer, in a task of its own."""
        self._protocol.run(self)

    def abort(self) -> None:
        """Close the connection without an answer, or in the middle of one."""
        self._protocol.transport.close()

    def answer(self, status: int, lines: bytes, body: bytes) -> None:
        """Send the whole answer to a request with a body; nothing to a client that has disconnected.

        *lines* are header lines, each with its end. Those of the length, the date and the connection are added.
        """
        if self._is_gone:
            return
        protocol = self._protocol
        self.started = True
        self.keep_alive = self.keep_alive and not protocol.stopping
        end = b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
        head = _STATUS_LINES[status] + protocol.default_lines
        protocol.transport.write(b"%b%bcontent-length: %d\r\n%b%b" % (head, lines, len(body), end, body))
        self._end()

    async def serve(self, app: Callable[..., Any]) -> None:
        """Run *app*; close the connection if it leaves its answer unfinished."""
        try:
            await app(self._scope, self.receive, self.send)
            if self._is_answered or self._is_gone:
                return
            if self._input_ended:
                self._protocol.transport.close()
                return
            if (reason := self._scope.get(CUT)) is not None:
                _log.info("the answer was cut", path=self._scope["path"], reason=reason)
            else:
                _log.error("the application gave no whole answer", path=self._scope["path"])
        except Exception as error:  # noqa: BLE001 - The client gets an answer.
            _log.error("the application failed", path=self._scope["path"], exc_info=error)
        except BaseException:
            self._protocol.transport.close()
            raise
        finally:
            self._protocol.server_state.tasks.discard(self.task)
        if self.started:
            self._protocol.transport.close()
        else:
            headers = [(b"content-length", b"0"), (b"connection", b"close")]
            await self.send({"type": "http.response.start", "status": 500, "headers": headers})
            await self.send({"type": "http.response.body", "body": b""})

    async def send(self, message: Message) -> None:
        """Send the head, a piece, or the whole of the answer; nothing to a client that has disconnected."""
        protocol = self._protocol
        if not protocol.writable.is_set() and not self._is_gone:
            await protocol.writable.wait()
        if self._is_gone:
            return
        if not self.started:
            kind, headers = message["type"], message.get("headers", ())
            if kind not in ("http.response.start", WHOLE_ANSWER):
                raise RuntimeError(f"an answer begins with http.response.start, not with {kind}")
            self._begin(self._make_head(message["status"], headers))
            if kind == WHOLE_ANSWER:
                self._send_piece(message["body"], more=False)
                self._end()
            return
        if self._is_answered:
            raise RuntimeError(f"the answer is whole, and then comes {message['type']}")
        more = message.get("more_body", False)
        self._send_piece(message.get("body", b""), more=more)
        if not more:
            self._end()

    def _begin(self, head: bytes) -> None:
        if self._framing == "length" and self._left:
            self._head = head  # A body of known length follows at once: one packet, and one call of the system.
        else:
            self._protocol.transport.write(head)

    def _make_head(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        protocol = self._protocol
        self.started = True
        lines, has_length, closes = [_STATUS_LINES[status]], False, False
        for name, value in headers:
            if name == b"content-length":
                has_length, self._left = True, int(value)
            elif name == b"connection":
                closes = closes or value.lower() == b"close"
            lines.append(b"%b: %b\r\n" % (name, value))
        if closes or protocol.stopping or self.expects_continue:
            self.keep_alive = False  # A client that got no 100 may send the body or not: the next bytes are uncertain.
        self._framing = self._choose_framing(status, has_length=has_length)
        if self._framing == "chunks":
            lines.append(b"transfer-encoding: chunked\r\n")
        if not self.keep_alive and not closes:
            lines.append(b"connection: close\r\n")
        head = b"".join(lines)
        if not head.count(b"\r") == head.count(b"\n") == len(lines):
            raise RuntimeError(f"a header of the answer has a line break: {lines!r}")
        return b"%b%b\r\n" % (head, protocol.default_lines)

    def _choose_framing(self, status: int, *, has_length: bool) -> Literal["length", "chunks", "close", "none"]:
        if self._scope["method"] == "HEAD" or status in _NO_BODY:
            return "none"
        if has_length:
            return "length"
        if self._scope["http_version"] == "1.1":
            return "chunks"
        self.keep_alive = False  # HTTP/1.0 has no chunks: the end of the connection ends the body (RFC 9112, 6.3).
        return "close"

    def _send_piece(self, body: bytes, *, more: bool) -> None:
        transport = self._protocol.transport
        if self._framing == "chunks":
            pieces = [b"%x\r\n" % len(body), body, b"\r\n"] if body else []
            if not more:
                pieces.append(b"0\r\n\r\n")
            if len(body) <= JOINED_BYTES_MAX:
                transport.write(b"".join(pieces))
            else:
                transport.writelines(pieces)
        elif self._framing == "length":
            self._left -= len(body)
            if self._left < 0:
                raise RuntimeError("the answer is longer than its Content-Length")
            head, self._head = self._head, b""
            if len(body) <= JOINED_BYTES_MAX:
                transport.write(head + body)
            else:
                transport.writelines([head, body])
        elif self._framing == "close":
            transport.write(body)

    def _end(self) -> None:
        if self._framing == "length" and self._left:
            raise RuntimeError("the answer is shorter than its Content-Length")
        self._is_answered = True
        self._body.clear()
        self._changed.set()
        self._protocol.on_answered(self)


class _Refused(Exception):
    """Stops the parser; the answer is `_refusal`."""
