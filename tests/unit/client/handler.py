"""A server inside an HTTP client: handlers that answer requests in turn, without a network."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx2

Handler = Callable[[httpx2.Request], httpx2.Response]


class Handlers:
    """Answers each request with the next handler, and all further ones with the last."""

    def __init__(self, *handlers: Handler | Exception) -> None:
        self._handlers = list(handlers)
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        handler = self._handlers[0]
        if len(self._handlers) > 1:
            self._handlers.pop(0)
        if isinstance(handler, Exception):
            raise handler
        return handler(request)

    def client(self) -> httpx2.Client:
        return httpx2.Client(transport=httpx2.MockTransport(self))

    def async_client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self))

    @property
    def urls(self) -> list[str]:
        return [str(request.url) for request in self.requests]


class Body(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body in chunks, which knows whether it was closed; an exception among the chunks is raised."""

    def __init__(self, *chunks: bytes | BaseException) -> None:
        self._chunks = chunks
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if isinstance(chunk, BaseException):
                raise chunk
            yield chunk

    async def __aiter__(self) -> Any:
        for chunk in self:
            yield chunk

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


def lines(*texts: str) -> Handler:
    """Return a handler that answers with lines."""
    return lambda _: httpx2.Response(200, content="".join(f"{text}\n" for text in texts).encode())


def json(value: Any, status: int = 200) -> Handler:
    """Return a handler that answers with JSON."""
    return lambda _: httpx2.Response(status, json=value)


def streamed(body: Body) -> Handler:
    """Return a handler that answers with *body*."""
    return lambda _: httpx2.Response(200, stream=body)
