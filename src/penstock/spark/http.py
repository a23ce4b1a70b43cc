"""HTTP by the standard library alone, in our errors: executors have no other HTTP library."""

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import AbstractHTTPHandler, HTTPSHandler, ProxyHandler, Request, build_opener

import pyarrow as pa

from penstock.client.http.proxies import connection_failure, proxy_for
from penstock.client.http.trust import trust_environment
from penstock.errors import BadParameter, MalformedAnswer, PenstockError
from penstock.wire.problem import make_foreign_error, to_error

ANSWER_SECONDS_MAX: Final = 60.0
"""A hub that has been silent for so long is taken for lost."""
ERROR_BYTES_MAX: Final = 1 << 20
JSON: Final = "application/json"
AGENT: Final = "penstock-spark"
HUB: Final = "Penstock hub"


class _Proxies(ProxyHandler):
    """Sends each request directly or through the proxy that the environment names, as our other clients do.

    Raises:
        BadParameter: the proxy cannot be used.
    """

    def __init__(self) -> None:
        super().__init__({})

    def http_open(self, request: Request) -> Any:
        return self._open(request, "http")

    def https_open(self, request: Request) -> Any:
        return self._open(request, "https")

    def _open(self, request: Request, kind: str) -> Any:
        proxy = proxy_for(request.full_url)
        if proxy is None:
            return None  # The next handler opens it.
        if not proxy.url.lower().startswith(("http://", "https://")):
            host = urlsplit(request.full_url).hostname
            allowed = (
                f"the address of an HTTP proxy, since Spark's executors speak no other; or have {host} in NO_PROXY"
            )
            raise BadParameter(parameter=proxy.variable, value=proxy.without_password, allowed=allowed)
        return self.proxy_open(request, proxy.url, kind)


@cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS settings, shared by all requests of this process. To load them takes as long as some requests.

    Raises:
        BadParameter: see `trust_environment`.
    """
    return trust_environment() or ssl.create_default_context()


class _Https(HTTPSHandler):
    """Opens connections with the shared TLS settings, which it loads when the first is opened."""

    def __init__(self) -> None:
        AbstractHTTPHandler.__init__(self)  # That of HTTPSHandler loads settings of its own.

    def https_open(self, request: Request) -> Any:
        return self.do_open(http.client.HTTPSConnection, request, context=tls_context())


open_request: Final = build_opener(_Proxies(), _Https()).open
"""Opens a request as `urlopen` does, through the right proxy."""


def asked(
    address: str,
    body: Any = None,
    *,
    method: str | None = None,
    media_type: str = JSON,
    headers: Mapping[str, str] | None = None,
    wanted: str = HUB,
) -> Any:
    """Return what the hub answers in JSON, None where it says nothing.

    A *body* of bytes, or a view of some, is sent as it is, any other as JSON; by POST, unless a *method* is named.
    *headers* go to this address alone: they may hold what another is not to see. *wanted* is what should answer there.

    Raises:
        PenstockError: what the hub answers instead, or that the connection failed.
    """
    sent = body if body is None or isinstance(body, bytes | memoryview) else json.dumps(body).encode()
    request = _request(address, JSON, headers or {}, sent, method)
    if sent is not None:
        request.add_header("Content-Type", media_type)
    with _answered(request, JSON, wanted) as answer:
        said = answer.read()
    if not said:
        return None
    try:
        return json.loads(said)
    except ValueError as error:
        raise MalformedAnswer(url=address, reason=f"no JSON: {said[:200]!r}") from error


def opened(
    address: str, media_type: str, *, headers: Mapping[str, str] | None = None, wanted: str = HUB
) -> AbstractContextManager[http.client.HTTPResponse]:
    """Open *address*; whatever goes wrong until the block ends is told in our errors. See `asked`."""
    return _answered(_request(address, media_type, headers or {}), media_type, wanted)


@contextmanager
def telling(address: str) -> Iterator[None]:
    """Tell in our errors whatever goes wrong with the connection to *address* until the block ends."""
    try:
        yield
    except URLError as error:
        raise connection_failure(address, str(error.reason), proxy_for(address), is_unsent=True) from error
    except (OSError, http.client.HTTPException, pa.ArrowException) as error:
        reason = str(error) or type(error).__name__
        raise connection_failure(address, reason, proxy_for(address), is_unsent=False) from error


def _request(
    address: str,
    accept: str,
    headers: Mapping[str, str],
    body: bytes | memoryview | None = None,
    method: str | None = None,
) -> Request:
    told = {"User-Agent": AGENT, "Accept": accept}
    request = Request(address, body, told, method=method)  # noqa: S310 - see options.py
    for name, value in headers.items():
        request.add_unredirected_header(name, value)
    return request


@contextmanager
def _answered(request: Request, media_type: str, wanted: str) -> Iterator[http.client.HTTPResponse]:
    address = request.full_url
    with telling(address):
        try:
            with open_request(request, timeout=ANSWER_SECONDS_MAX) as answer:
                given = media_type if answer.length == 0 else answer.headers.get_content_type()
                if given == "text/html":
                    raise make_foreign_error(answer.status, answer.read(ERROR_BYTES_MAX), address, wanted)
                if given != media_type:
                    raise MalformedAnswer(url=address, reason=f"{given} instead of {media_type}")
                yield answer
        except HTTPError as error:
            with error:
                raise _refusal(address, error, wanted) from None


def _refusal(address: str, answer: HTTPError, wanted: str) -> PenstockError:
    try:
        body = answer.read(ERROR_BYTES_MAX)
    except (OSError, http.client.HTTPException):
        body = b""
    error = to_error(answer.code, body, address, wanted)
    seconds = answer.headers.get("Retry-After", "")
    if seconds.isascii() and seconds.isdigit():
        error.retry_after = float(seconds)
    return error
