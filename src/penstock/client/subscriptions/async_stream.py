"""The batches of a subscription for asyncio: `AsyncSubscriptionStream`."""

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Generic, Self

import anyio

from penstock.client.http.async_transport import AsyncTalk, AsyncTransport
from penstock.client.http.library import AsyncClosing
from penstock.client.retry import RetryPolicy
from penstock.client.subscriptions.streaming import StreamBegan, StreamEnded, Streaming, StreamWish, SubscriptionBatch
from penstock.core.events.decoding import EventDecoder
from penstock.errors import PenstockError
from penstock.wire.log.reader.pages import Data
from penstock.wire.subscriptions import BatchLine


class AsyncUncommittedBatch(SubscriptionBatch[Data]):
    """A batch that can be committed; see `SubscriptionBatch` for what it holds."""

    __slots__ = ("_stream",)

    def __init__(
        self, stream: "AsyncSubscriptionStream[Any]", stream_id: str, line: BatchLine, decoder: EventDecoder | None
    ) -> None:
        super().__init__(stream_id, line, decoder)
        self._stream = stream

    async def commit(self) -> None:
        """Tell the hub that everything has been dealt with, up to this batch; see `UncommittedBatch.commit`."""
        await self._stream.commit([self])


class AsyncSubscriptionStream(AsyncClosing, Generic[Data]):
    """The batches of a subscription: an async iterator, and a context manager; see `SubscriptionStream`.

    A cancellation takes effect at once and loses nothing: its events are sent again.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        url: str,
        subscription: str | Mapping[str, Any],
        wish: StreamWish,
        *,
        retry: RetryPolicy,
        patience: float,
        reconnect: bool,
        kind: Any,
    ) -> None:
        self.protocol = Streaming(
            url, subscription, wish, retry=retry, patience=patience, clock=time.monotonic, kind=kind,
            make=partial(AsyncUncommittedBatch, self),
        )  # fmt: skip
        self._transport = transport
        self._over = False
        self._is_given_back = False
        self._under_way: anyio.CancelScope | None = None
        self.reason: str | None = None
        """Why the last stream has ended, as the hub says it; None: none has ended yet."""
        self._talk = AsyncTalk(transport.http, self.protocol.run(reconnect=reconnect))

    @property
    def id(self) -> str | None:
        """The subscription's id; None: it is to be created, and has not been asked for yet."""
        return self.protocol.id

    @property
    def stream_id(self) -> str | None:
        """The id of the stream that was begun last."""
        return self.protocol.stream_id

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncUncommittedBatch[Data]:
        while (news := await self.advance()) is not None:
            if isinstance(news, AsyncUncommittedBatch):
                return news
        raise StopAsyncIteration

    async def advance(self) -> AsyncUncommittedBatch[Data] | StreamBegan | StreamEnded | None:
        """Go on to the next batch, or to where a stream begins or ends; None: nothing follows."""
        news: AsyncUncommittedBatch[Data] | StreamBegan | StreamEnded | None = None
        interrupted = True
        try:
            while interrupted and not self._over:
                with anyio.CancelScope() as self._under_way:
                    news = await self._talk.advance()
                interrupted = self._under_way.cancelled_caught
        except PenstockError:
            await self._talk.aclose()
            raise
        finally:
            self._under_way = None
        if isinstance(news, StreamEnded):
            self.reason = news.reason
        if news is None:
            await self._talk.aclose()
        return news

    async def commit(self, batches: Iterable[SubscriptionBatch[Any]]) -> None:
        """Commit several batches, with one request; see `SubscriptionStream.commit`."""
        await self._transport.carry_out(self.protocol.commit(list(batches)))

    async def extend_lease(self) -> None:
        """Begin anew the time in which the stream has to commit; see `SubscriptionStream.extend_lease`."""
        if self.stream_id is not None:
            await self._transport.carry_out(self.protocol.extend(self.stream_id))

    def end(self, stream_id: str) -> None:
        """Read no more of a stream; from another task. The next one begins where it does not end for good."""
        self.protocol.unwant(stream_id)
        if self.stream_id == stream_id:
            self._interrupt()

    def stop(self) -> None:
        """End the iteration, from another task too; what it has can still be committed."""
        self._over = True
        self._interrupt()

    async def hang_up(self) -> None:
        """Let go of the connection, once nobody iterates any more."""
        await self._talk.aclose()

    async def aclose(self) -> None:
        """End the iteration, and give the stream back; see `SubscriptionStream.close`."""
        busy = self._under_way is not None
        self.stop()
        with anyio.CancelScope(shield=True), anyio.move_on_after(self.protocol.patience):
            if not busy:
                await self._talk.aclose()
            if self.stream_id is not None and not self._is_given_back:
                self._is_given_back = True
                await self._transport.carry_out(self.protocol.leave(self.stream_id))

    def _interrupt(self) -> None:
        if self._under_way is not None:
            self._under_way.cancel()
