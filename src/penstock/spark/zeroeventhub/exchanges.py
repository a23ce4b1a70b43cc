"""Carries out the exchanges of `wire/reader` by the standard library alone: executors have no other HTTP library."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPResponse
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request as LibraryRequest

from penstock.errors import ConnectionLost, Unavailable
from penstock.spark.http import AGENT, ANSWER_SECONDS_MAX, open_request, telling
from penstock.wire.http import Exchange, HttpRequest, Pause, ReadMore, ResponseHead, T

CHUNK_BYTES: Final = 1 << 16


def carry_out(
    exchange: Exchange[T],
    *,
    headers: Mapping[str, str] | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """Return what *exchange* comes to.

    *headers* go with each request to the server that it names, but to none that this one sends on to: they may hold
    what others are not to see.

    Raises:
        PenstockError: what it fails with.
    """
    connection = _Connection(headers or {}, sleep)
    result: Any = None
    lost: Unavailable | None = None
    try:
        while True:
            effect = exchange.send(result) if lost is None else exchange.throw(lost)
            result = lost = None
            try:
                result = connection.perform(effect)
            except Unavailable as error:
                lost = error
    except StopIteration as stop:
        outcome: T = stop.value
        return outcome
    finally:
        connection.close()
        exchange.close()


class _Connection:
    """The answer that an exchange reads now, if there is one."""

    def __init__(self, headers: Mapping[str, str], sleep: Callable[[float], object]) -> None:
        self._headers = headers
        self._sleep = sleep
        self._address = ""
        self._answer: HTTPResponse | None = None
        self._error: HTTPError | None = None
        """The library's error that the answer is of, which closes it when it is forgotten."""

    def perform(self, effect: Any) -> Any:
        match effect:
            case HttpRequest():
                return self._open(effect)
            case ReadMore():
                return self._more()
            case Pause():
                return self._sleep(effect.seconds)
        raise AssertionError(f"no reading of a feed asks for {effect!r}")

    def close(self) -> None:
        if self._answer is not None:
            with suppress(OSError):
                self._answer.close()
            self._answer = self._error = None

    def _open(self, request: HttpRequest) -> ResponseHead:
        self.close()
        self._address = request.url
        headers = {"User-Agent": AGENT, **request.headers}
        given = LibraryRequest(request.url, request.body, headers, method=request.method)  # noqa: S310 - see options.py
        for name, value in self._headers.items():
            given.add_unredirected_header(name, value)
        with telling(request.url):
            try:
                answer = open_request(given, timeout=ANSWER_SECONDS_MAX + request.wait_seconds)
            except HTTPError as error:
                self._error, answer = error, error.fp
        self._answer = answer
        return ResponseHead(answer.status, {name.lower(): value for name, value in answer.headers.items()})

    def _more(self) -> bytes:
        answer = self._answer
        assert answer is not None
        with telling(self._address):
            chunk = answer.read(CHUNK_BYTES)
        if not chunk and answer.length:  # The library does not tell that there should have been more.
            raise ConnectionLost(url=self._address, reason=f"it broke off {answer.length} bytes before its end")
        return chunk
