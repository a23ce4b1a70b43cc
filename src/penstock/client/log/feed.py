# Generated from async_feed.py by scripts/generate_sync_clients.py: do not edit.
"""The synchronous reader of a feed: `Feed` reads pages, `Follow` iterates over them without end."""

import time
from collections.abc import Collection, Mapping, Sequence
from types import UnionType
from typing import Any, Generic, Self

from penstock.client.concurrency import Closing
from penstock.client.http.reading import ExchangeReader
from penstock.client.http.transport import Transport
from penstock.client.log.following import FOLLOW_WAIT_SECONDS, POLL_INTERVAL, RETRY_TIMEOUT, FollowProtocol
from penstock.client.log.starting import find_start_cursors, start_now
from penstock.core.log.start import Start, check_start
from penstock.wire.arguments import check_partitions
from penstock.wire.http import check_address
from penstock.wire.log.reader.pages import Data, Page
from penstock.wire.log.reader.partitions import Discovery
from penstock.wire.log.reader.protocol import FeedProtocol, ReadParameters


class Feed(Closing, Generic[Data]):
    """A synchronous reader of a feed of any ZeroEventHub (version 1) or FeedAPI (version 2) server.

    The protocol is negotiated at first use, as FeedAPI defines. Several threads may call its methods at one time.

    Args:
        url: The feed's address.
        partition_count: The number of partitions that a ZeroEventHub publisher documents. Ignored if the server speaks
            FeedAPI, which lists its partitions.
        version: 1 or 2 to skip the negotiation.
        merged: The server speaks both protocols at this address, as a Penstock hub does: one request then reads several
            partitions.
        http: An `httpx2.Client` with its own authentication, proxies and timeouts. It is not closed with this
            feed.
        auth: The credential that it sends: see `Client`.
        retry_timeout: Seconds for which a call retries temporary failures. `follow` retries without limit.
        type: Type of `data` of each event: a msgspec Struct, a dataclass or a pydantic model of the whole event, a
            union of these, or `DataChange[Order]` for data change events. Unknown members are ignored. None decodes
            JSON into dicts and lists.

    Raises:
        BadParameter: *url* is not an address, or *version* is neither 1 nor 2.
        TypeError: Events cannot be decoded into *type*.

    >>> Feed("http://shop/feed", partition_count=4, version=1).cursors()
    {0: '_first', 1: '_first', 2: '_first', 3: '_first'}
    """

    def __init__(
        self,
        url: str,
        *,
        partition_count: int | None = None,
        version: int | None = None,
        merged: bool = False,
        http: Any = None,
        auth: Any = None,
        retry_timeout: float = RETRY_TIMEOUT,
        type: type[Data] | UnionType | None = None,
    ) -> None:
        self._protocol = FeedProtocol(
            check_address(url, relative=http is not None),
            partition_count=partition_count,
            version=version,
            merged=merged,
            retry_timeout=retry_timeout,
            clock=time.monotonic,
            kind=type,
        )
        self._transport = Transport(http, auth=auth)

    @property
    def url(self) -> str:
        """The feed's address."""
        return self._protocol.url

    def discover(self) -> Discovery:
        """Return the protocol that the feed speaks, and its partitions.

        Raises:
            BadParameter: The feed speaks ZeroEventHub, and *partition_count* is missing.
            ServerError: The server refused the request.
        """
        return self._transport.carry_out(self._protocol.discover_with_retries(afresh=True))

    def cursors(self, start: Start = "earliest", *, partitions: Collection[int] | None = None) -> dict[int, str]:
        """Return the cursors to begin with, for each of *partitions*, or for all partitions.

        Args:
            start: `earliest`, `latest`, a time or a duration ago; see `follow`.
            partitions: The partitions; None means all.

        Raises:
            BadParameter: *start* is none of these, or a time or duration, and the feed is no Penstock hub's.
        """
        check_partitions(partitions)
        begins = start_now(check_start(start))
        return self._transport.carry_out(find_start_cursors(self._protocol, begins, partitions))

    def read(
        self,
        cursors: Mapping[int, str],
        *,
        page_size_hint: int | None = None,
        wait_seconds: float = 0.0,
        headers: str | Sequence[str] = (),
        event_types: Sequence[str] = (),
        skip_event_types: Sequence[str] = (),
        cursor_set: str | None = None,
        until: Mapping[int, str] | None = None,
    ) -> Page[Data]:
        """Read one page of the partitions in *cursors*.

        Store the effect of the page's events together with its cursors, and pass these cursors to read the next page.
        If partitions are split or replaced, the cursors continue in the new ones.

        Args:
            cursors: Cursor by partition.
            page_size_hint: Number of events; the server may return more or fewer. 0 returns cursors only. None is the
                server's default; of a Penstock hub it is larger if its events are small, unless there is a cursor set.
            wait_seconds: Seconds that the server waits for an event if there is none, if it supports that.
            headers: Names of headers to return with the events; ALL_HEADERS returns all.
            event_types: Kinds of events to return; empty returns all. Other servers may ignore it.
            skip_event_types: Kinds of events to omit; not together with *event_types*.
            cursor_set: The name under which the server stores *cursors*.
            until: Cursors to stop at, by partition. Only a Penstock hub supports it, and does not wait then.

        Raises:
            BadParameter: A parameter is invalid.
            CursorExpired: Events after a cursor have been removed.
            BadCursor: A cursor does not belong to this feed.
            Unavailable: The server could not be reached, or did not answer, until *retry_timeout* was over.
            ServerError: The server refused with an error that is not one of Penstock's.
            MalformedAnswer: The response violates the protocol.
        """
        parameters = ReadParameters(
            page_size_hint=page_size_hint,
            wait_seconds=wait_seconds,
            headers=headers,
            event_types=event_types,
            skip_event_types=skip_event_types,
            cursor_set=cursor_set,
            until=until,
        )
        return self._transport.carry_out(self._protocol.read(cursors, parameters))

    def resume(
        self,
        cursor_set: str,
        /,
        *,
        partitions: Collection[int] | None = None,
        page_size_hint: int | None = None,
        wait_seconds: float = 0.0,
        headers: str | Sequence[str] = (),
        event_types: Sequence[str] = (),
        skip_event_types: Sequence[str] = (),
    ) -> Page[Data]:
        """Read one page from the cursors that the server stores under the name *cursor_set*.

        The server stores the cursors passed with the last read of that name, not those it returned: the last page is
        read again.

        Args:
            cursor_set: The name.
            partitions: The partitions to read; None means all.
            page_size_hint: As for `read`.
            wait_seconds: As for `read`.
            headers: As for `read`.
            event_types: As for `read`.
            skip_event_types: As for `read`.

        Raises:
            GroupNotFound: No cursors are stored under that name. Other servers cause ServerError with status 404.
        """
        check_partitions(partitions)
        numbers = None if partitions is None else sorted(partitions)
        parameters = ReadParameters(
            page_size_hint=page_size_hint,
            wait_seconds=wait_seconds,
            headers=headers,
            event_types=event_types,
            skip_event_types=skip_event_types,
            cursor_set=cursor_set,
        )
        return self._transport.carry_out(self._protocol.resume(parameters, numbers))

    def store(self, cursor_set: str, cursors: Mapping[int, str]) -> None:
        """Store *cursors* at the server under the name *cursor_set*: all events before them are processed."""
        self._transport.carry_out(self._protocol.store(cursor_set, cursors))

    def follow(
        self,
        cursors: Mapping[int, str] | None = None,
        *,
        partitions: Collection[int] | None = None,
        start: Start = "earliest",
        poll_interval: float = POLL_INTERVAL,
        page_size_hint: int | None = None,
        wait_seconds: float = FOLLOW_WAIT_SECONDS,
        headers: str | Sequence[str] = (),
        event_types: Sequence[str] = (),
        skip_event_types: Sequence[str] = (),
        cursor_set: str | None = None,
    ) -> "Follow[Data]":
        """Follow the feed without end: return an iterator over its pages.

        A page is returned as soon as there are events or a new cursor. Lost connections are reopened with increasing
        delays that respect Retry-After. Only permanent errors are raised, as by `read`.

        Args:
            cursors: Cursor by partition to continue from; cursors of other partitions are ignored. Empty starts at
                *start*.
            partitions: The partitions to follow, and those that replace them: see `share`. None follows all partitions,
                including new ones.
            start: `earliest`, the first event that is there; `latest`, only events that come later; a time, a datetime
                with a zone: the first event received then or later; or a duration, a timedelta: the same, so long ago.
                A Penstock hub alone knows times and durations.
            poll_interval: Seconds between two empty reads from a server that does not support `wait`.
            page_size_hint: As for `read`.
            wait_seconds: As for `read`, 10 by default.
            headers: As for `read`.
            event_types: As for `read`.
            skip_event_types: As for `read`.
            cursor_set: As for `read`. With a name and without cursors, the server's cursors are used.
        """
        parameters = ReadParameters(
            page_size_hint=page_size_hint,
            wait_seconds=wait_seconds,
            headers=headers,
            event_types=event_types,
            skip_event_types=skip_event_types,
            cursor_set=cursor_set,
        )
        following = FollowProtocol(
            self._protocol,
            cursors or {},
            chosen=partitions,
            start=start,
            parameters=parameters,
            poll_interval=poll_interval,
        )
        return Follow(self._transport, following)

    def close(self) -> None:
        """Close the connections, unless they belong to a client that was passed as *http*."""
        self._transport.close()


class Follow(Closing, Generic[Data]):
    """The pages of a followed feed: an iterator, and a context manager that closes it.

    An interruption such as Ctrl-C loses no events: the iteration can be continued.
    """

    def __init__(self, transport: Transport, following: FollowProtocol) -> None:
        self._reading = ExchangeReader(transport.http, following.run())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Page[Data]:
        page: Page[Data] | None = self._reading.advance()
        if page is None:
            raise StopIteration
        return page

    def close(self) -> None:
        """End the iteration. May be called from another thread or a signal handler: a running request is completed.

        A request takes at most `wait` seconds if the server respects it.
        """
        self._reading.end()
        self._reading.close()
