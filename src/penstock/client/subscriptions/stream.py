# Generated from async_stream.py by scripts/generate_sync_clients.py: do not edit.
"""The synchronous stream of a subscription's batches."""

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Generic, Self

from penstock.client.concurrency import Closing, shield
from penstock.client.http.exchanges import RetryPolicy
from penstock.client.http.reading import ExchangeReader
from penstock.client.http.transport import Transport
from penstock.client.subscriptions.stream_protocol import (
    StreamBegan,
    StreamEnded,
    StreamParameters,
    StreamProtocol,
    SubscriptionBatch,
)
from penstock.core.events.decoding import EventDecoder
from penstock.wire.log.reader.pages import Data
from penstock.wire.subscriptions import BatchLine


class UncommittedBatch(SubscriptionBatch[Data]):
    """A batch that can be committed; see `SubscriptionBatch` for its contents."""

    __slots__ = ("_stream",)

    def __init__(
        self, stream: "SubscriptionStream[Any]", stream_id: str, line: BatchLine, decoder: EventDecoder | None
    ) -> None:
        super().__init__(stream_id, line, decoder)
        self._stream = stream

    def commit(self) -> None:
        """Commit all events of the partition up to this batch. Repeating it is harmless.

        Raises:
            StreamNotFound: The stream's time to commit is over; its events are sent again.
            CommitRefused: Another stream has the partition now, and is sent its events.
        """
        self._stream.commit([self])


class SubscriptionStream(Closing, Generic[Data]):
    """The batches of a subscription: an iterator, and a context manager that closes it.

    `Client.subscription` creates it. Keep-alive lines are not shown. All methods except iteration may be called
    from other threads.

    """

    def __init__(
        self,
        transport: Transport,
        url: str,
        subscription: str | Mapping[str, Any],
        parameters: StreamParameters,
        *,
        retry: RetryPolicy,
        retry_timeout: float,
        reconnect: bool,
        kind: Any,
    ) -> None:
        self.protocol = StreamProtocol(
            url, subscription, parameters, retry=retry, retry_timeout=retry_timeout, clock=time.monotonic, kind=kind,
            make=partial(UncommittedBatch, self),
        )  # fmt: skip
        self._transport = transport
        self._is_given_back = False
        self.reason: str | None = None
        """Why the last stream ended, in the hub's words; None if none has ended."""
        self.reading = ExchangeReader(transport.http, self.protocol.run(reconnect=reconnect))

    @property
    def id(self) -> str | None:
        """The subscription's id; None until a subscription to be created is requested."""
        return self.protocol.id

    @property
    def stream_id(self) -> str | None:
        """The id of the last stream."""
        return self.protocol.stream_id

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> UncommittedBatch[Data]:
        while (news := self.advance()) is not None:
            if isinstance(news, UncommittedBatch):
                return news
        raise StopIteration

    def advance(self) -> UncommittedBatch[Data] | StreamBegan | StreamEnded | None:
        """Return the next batch, or the beginning or end of a stream; None at the end of the iteration."""
        news: UncommittedBatch[Data] | StreamBegan | StreamEnded | None = self.reading.advance()
        if isinstance(news, StreamEnded):
            self.reason = news.reason
        return news

    def commit(self, batches: Iterable[SubscriptionBatch[Any]]) -> None:
        """Commit several batches in one request: in each partition all events up to the last batch.

        Raises:
            StreamNotFound, CommitRefused: As for `UncommittedBatch.commit`. Nothing was committed.
        """
        self._transport.carry_out(self.protocol.commit(list(batches)))

    def extend_lease(self) -> None:
        """Extend the stream's lease: restart the time in which it has to commit.

        Raises:
            StreamNotFound: The stream has ended.
        """
        if self.stream_id is not None:
            self._transport.carry_out(self.protocol.extend(self.stream_id))

    def end(self, stream_id: str) -> None:
        """Stop reading a stream, from another thread too. The next one begins, unless the iteration is to end."""
        self.protocol.abandon(stream_id)
        if self.stream_id == stream_id:
            self.reading.interrupt()

    def stop(self) -> None:
        """End the iteration, from another thread too. Received batches can still be committed."""
        self.reading.stop()

    def close(self) -> None:
        """End the iteration and release the stream; other consumers get its uncommitted events.

        Received batches that are not committed count as failures, as if the consumer had crashed; events that were sent
        but not received do not.
        """
        self.stop()
        with shield(self.protocol.retry_timeout):
            self.reading.close()
            if self.stream_id is not None and not self._is_given_back:
                self._is_given_back = True
                self._transport.carry_out(self.protocol.release_quietly(self.stream_id))
