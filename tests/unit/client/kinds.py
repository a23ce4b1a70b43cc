"""Both kinds of client, sync and async, called in one way: a test is written once and runs with each."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any, NamedTuple

from penstock.client import AsyncClient, AsyncFeed, Client, Feed
from penstock.client.http.async_transport import AsyncExchangeRun, AsyncTransport
from penstock.client.http.transport import ExchangeRun, Transport
from tests.unit.client.handler import Handlers


class Kind(NamedTuple):
    """The classes of one kind, and the HTTP client that they take."""

    client: Any
    feed: Any
    transport: Any
    talk: Any
    http: Callable[[Handlers], Any]


SYNC = Kind(Client, Feed, Transport, ExchangeRun, Handlers.client)
ASYNC = Kind(AsyncClient, AsyncFeed, AsyncTransport, AsyncExchangeRun, Handlers.async_client)


async def result(call: Any) -> Any:
    """Return what *call* comes to: await it if it is of the async kind."""
    return await call if isawaitable(call) else call


async def first(pages: Any) -> Any:
    """Return the next page."""
    return await anext(pages) if hasattr(pages, "__anext__") else next(pages)


async def rest(pages: Any) -> list[Any]:
    """Return all further pages."""
    return [page async for page in pages] if hasattr(pages, "__aiter__") else list(pages)


async def close(closing: Any) -> None:
    await result(closing.aclose() if hasattr(closing, "aclose") else closing.close())


@asynccontextmanager
async def opened(closing: Any) -> AsyncIterator[Any]:
    """Enter the `with` block, or the `async with` block, of *closing*."""
    if hasattr(closing, "__aenter__"):
        async with closing as entered:
            yield entered
    else:
        with closing as entered:
            yield entered
