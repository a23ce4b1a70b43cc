"""The batches of a subscription, as a hub streams them to one of its consumers, for asyncio."""

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Generic, Self

from penstock.client.concurrency import AsyncClosing, async_shielded
from penstock.client.http.async_transport import AsyncTransport
from penstock.client.http.exchanges import RetryPolicy
from penstock.client.http.reading import AsyncReading
from penstock.client.subscriptions.stream_protocol import (
    StreamBegan,
    StreamEnded,
    Streaming,
    StreamWish,
    SubscriptionBatch,
)
from penstock.core.events.decoding import EventDecoder
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
        """Tell the hub that everything of the partition has been dealt with, up to this batch; harmless when repeated.

        Raises:
            StreamNotFound: its stream's time to commit is over; its events are sent again.
            CommitRefused: another stream has the partition by now, and is sent its events.
        """
        await self._stream.commit([self])


class AsyncSubscriptionStream(AsyncClosing, Generic[Data]):
    """The batches of a subscription: an async iterator, and a context manager that closes it.

    `AsyncClient.subscription` makes one. What a batch tells by its `debug` is the hub's; signs of life are not shown.
    Its other methods may be called from other tasks than the one that iterates.
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
        retry_timeout: float,
        reconnect: bool,
        kind: Any,
    ) -> None:
        self.protocol = Streaming(
            url, subscription, wish, retry=retry, retry_timeout=retry_timeout, clock=time.monotonic, kind=kind,
            make=partial(AsyncUncommittedBatch, self),
        )  # fmt: skip
        self._transport = transport
        self._is_given_back = False
        self.reason: str | None = None
        """Why the last stream has ended, as the hub says it; None: none has ended yet."""
        self.reading = AsyncReading(transport.http, self.protocol.run(reconnect=reconnect))

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
        news: AsyncUncommittedBatch[Data] | StreamBegan | StreamEnded | None = await self.reading.advance()
        if isinstance(news, StreamEnded):
            self.reason = news.reason
        return news

    async def commit(self, batches: Iterable[SubscriptionBatch[Any]]) -> None:
        """Commit several batches, with one request; of each partition everything up to the last of them.

        Raises:
            StreamNotFound, CommitRefused: as `AsyncUncommittedBatch.commit`; nothing of the request was committed.
        """
        await self._transport.carry_out(self.protocol.commit(list(batches)))

    async def extend_lease(self) -> None:
        """Begin anew the time in which the stream has to commit what it was sent.

        Raises:
            StreamNotFound: it is over.
        """
        if self.stream_id is not None:
            await self._transport.carry_out(self.protocol.extend(self.stream_id))

    def end(self, stream_id: str) -> None:
        """Read no more of a stream; from another task. The next one begins where it does not end for good."""
        self.protocol.unwant(stream_id)
        if self.stream_id == stream_id:
            self.reading.interrupt()

    def stop(self) -> None:
        """End the iteration, from another task too; what it has can still be committed."""
        self.reading.stop()

    async def aclose(self) -> None:
        """End the iteration, and give the stream back: others have at once what is not committed.

        What it has brought and was not committed counts as a failure, as it does when a consumer dies; what was sent
        beyond that does not.
        """
        self.stop()
        with async_shielded(self.protocol.retry_timeout):
            await self.reading.aclose()
            if self.stream_id is not None and not self._is_given_back:
                self._is_given_back = True
                await self._transport.carry_out(self.protocol.leave(self.stream_id))
