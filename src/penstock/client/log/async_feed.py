"""The same feed for asyncio: `AsyncFeed` and `AsyncFollow`."""

import time
from collections.abc import Collection, Mapping
from types import UnionType
from typing import Any, Generic, Self, Unpack

import anyio

from penstock.client.http.async_transport import AsyncTalk, AsyncTransport
from penstock.client.http.library import AsyncClosing
from penstock.client.log.feed import FOLLOW_WAIT_S, PATIENCE_S, POLL_INTERVAL_S, Following
from penstock.core.log.cursor import FIRST
from penstock.wire.http import check_address
from penstock.wire.log.reader.pages import Data, Page
from penstock.wire.log.reader.partitions import Discovery
from penstock.wire.log.reader.reading import FeedProtocol, Options, wish


class AsyncFeed(AsyncClosing, Generic[Data]):
    """A feed of any ZeroEventHub (version 1) or FeedAPI (version 2) server, for async code; see `Feed`.

    Args:
        url, partition_count, version, merged, patience, type: As for `Feed`.
        http: An `httpx2.AsyncClient` of your own; it stays yours to close.
    """

    def __init__(
        self,
        url: str,
        *,
        partition_count: int | None = None,
        version: int | None = None,
        merged: bool = False,
        http: Any = None,
        patience: float = PATIENCE_S,
        type: type[Data] | UnionType | None = None,
    ) -> None:
        self._protocol = FeedProtocol(
            check_address(url, relative=http is not None),
            partition_count=partition_count,
            version=version,
            merged=merged,
            patience=patience,
            clock=time.monotonic,
            kind=type,
        )
        self._transport = AsyncTransport(http)

    @property
    def url(self) -> str:
        """The feed's address."""
        return self._protocol.url

    async def discover(self) -> Discovery:
        """Ask which protocol the feed speaks and which partitions it has; see `Feed.discover`."""
        return await self._transport.carry_out(self._protocol.discover_patiently(afresh=True))

    async def cursors(self, start: str = FIRST, *, partitions: Collection[int] | None = None) -> dict[int, str]:
        """Return cursors to begin with: *start* (FIRST or LAST) for all partitions, or for those given."""
        if partitions is None:
            partitions = (await self._transport.carry_out(self._protocol.discover_patiently())).ids
        return dict.fromkeys(partitions, start)

    async def read(self, cursors: Mapping[int, str], **options: Unpack[Options]) -> Page[Data]:
        """Read one page of the partitions that *cursors* names; see `Feed.read`."""
        return await self._transport.carry_out(self._protocol.read(cursors, wish(options)))

    async def resume(
        self, cursor_set: str, /, *, partitions: Collection[int] | None = None, **options: Unpack[Options]
    ) -> Page[Data]:
        """Read one page from the cursors that the server keeps under the name *cursor_set*; see `Feed.resume`."""
        options["cursor_set"] = cursor_set
        numbers = None if partitions is None else sorted(partitions)
        return await self._transport.carry_out(self._protocol.resume(wish(options), numbers))

    async def store(self, cursor_set: str, cursors: Mapping[int, str]) -> None:
        """Have the server keep *cursors* under the name *cursor_set*: all before them has been dealt with."""
        await self._transport.carry_out(self._protocol.store(cursor_set, cursors))

    def follow(
        self,
        cursors: Mapping[int, str] | None = None,
        *,
        partitions: Collection[int] | None = None,
        start: str = FIRST,
        poll_interval: float = POLL_INTERVAL_S,
        **options: Unpack[Options],
    ) -> "AsyncFollow[Data]":
        """Follow the feed for ever: iterate with `async for` over what this returns; see `Feed.follow`."""
        options.setdefault("wait", FOLLOW_WAIT_S)
        following = Following(
            self._protocol,
            cursors or {},
            chosen=partitions,
            start=start,
            wish=wish(options),
            poll_interval=poll_interval,
        )
        return AsyncFollow(self._transport, following)

    async def aclose(self) -> None:
        """Close the connections, unless they are of a client that was handed in."""
        await self._transport.aclose()


class AsyncFollow(AsyncClosing, Generic[Data]):
    """The pages of a feed that is followed: an async iterator, and a context manager that closes it.

    A cancellation (`asyncio.timeout`, a task group that ends) takes effect at once and loses nothing: the iterator can
    go on afterwards.
    """

    def __init__(self, transport: AsyncTransport, following: Following) -> None:
        self._talk = AsyncTalk(transport.http, following.run())
        self._under_way: anyio.CancelScope | None = None
        self._over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Page[Data]:
        page: Page[Data] | None = None
        if not self._over:
            try:
                with anyio.CancelScope() as self._under_way:
                    page = await self._talk.advance()
            finally:
                self._under_way = None
        if page is None:
            self._over = True
            await self._talk.aclose()
            raise StopAsyncIteration
        return page

    async def aclose(self) -> None:
        """End the iteration at once, from another task too."""
        self._over = True
        if self._under_way is not None:
            self._under_way.cancel()
        else:
            await self._talk.aclose()
