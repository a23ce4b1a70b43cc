# Generated from async_feed.py by scripts/generate_sync_clients.py: do not edit.
"""A feed from afar: `Feed` reads pages of it, `Follow` follows it for ever."""

import time
from collections.abc import Collection, Mapping
from types import UnionType
from typing import Any, Generic, Self, Unpack

from penstock.client.concurrency import Closing
from penstock.client.http.reading import Reading
from penstock.client.http.transport import Transport
from penstock.client.log.following import FOLLOW_WAIT_SECONDS, POLL_INTERVAL, RETRY_TIMEOUT, Following
from penstock.core.log.cursor import FIRST
from penstock.wire.http import check_address
from penstock.wire.log.reader.pages import Data, Page
from penstock.wire.log.reader.partitions import Discovery
from penstock.wire.log.reader.protocol import FeedProtocol, Options, wish


class Feed(Closing, Generic[Data]):
    """A feed of any ZeroEventHub (version 1) or FeedAPI (version 2) server.

    Which of them it speaks is found out as FeedAPI says, when the feed is used for the first time. Methods may be
    called from several threads.

    Args:
        url: The feed's address.
        partition_count: The number of partitions that a ZeroEventHub publisher documents. It is not used where the
            server speaks FeedAPI, which tells its partitions itself.
        version: 1 or 2, to do without finding out.
        merged: The server speaks both at this address, as a Penstock hub does: several partitions are then read with
            one request.
        http: An `httpx2.Client` of your own, with its authentication, proxies and timeouts; it stays yours to close.
        retry_timeout: Seconds for which a call is tried again where the failure can pass. `follow` tries for ever.
        type: What `data` of each event is to be: a msgspec Struct, a dataclass or a pydantic model that describes the
            whole event, a union of some, or `DataChange[Order]` for changes of data. Members that it does not know are
            ignored. None: what JSON makes of them.

    Raises:
        BadParameter: *url* is no address, or *version* no version.
        TypeError: events cannot be read into *type*.

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
        self._transport = Transport(http)

    @property
    def url(self) -> str:
        """The feed's address."""
        return self._protocol.url

    def discover(self) -> Discovery:
        """Ask which protocol the feed speaks and which partitions it has.

        Raises:
            BadParameter: it speaks ZeroEventHub, and partition_count was not given.
            ServerError: the server refused.
        """
        return self._transport.carry_out(self._protocol.discover_patiently(afresh=True))

    def cursors(self, start: str = FIRST, *, partitions: Collection[int] | None = None) -> dict[int, str]:
        """Return cursors to begin with: *start* (FIRST or LAST) for all partitions, or for those given."""
        if partitions is None:
            discovery = self._transport.carry_out(self._protocol.discover_patiently())
            partitions = discovery.ids
        return dict.fromkeys(partitions, start)

    def read(self, cursors: Mapping[int, str], **options: Unpack[Options]) -> Page[Data]:
        """Read one page of the partitions that *cursors* names.

        Store what you make of its events together with its cursors, and hand those back for the next page. Where
        partitions are split or replaced, they lead on to the new ones by themselves.

        Args:
            cursors: Partition to cursor.
            options: The fields of `Wish`: page_size_hint, wait_seconds, headers, event_types, skip_event_types,
                cursor_set, and until (of a Penstock hub): a cursor to stop at for each partition.

        Raises:
            CursorExpired: the events after a cursor are gone.
            BadCursor: a cursor is not one of this feed.
            Unavailable: the server could not be reached, or did not answer, for `retry_timeout`.
            ServerError: the server refused with an error that is none of Penstock's.
            MalformedAnswer: the answer breaks the protocol.
        """
        return self._transport.carry_out(self._protocol.read(cursors, wish(options)))

    def resume(
        self, cursor_set: str, /, *, partitions: Collection[int] | None = None, **options: Unpack[Options]
    ) -> Page[Data]:
        """Read one page from the cursors that the server keeps under the name *cursor_set*.

        Those are the cursors of the last read with that name, not the ones that it brought: its page comes again.

        Raises:
            CursorSetNotFound: nothing is kept under that name (ServerError 404 from other servers).
        """
        options["cursor_set"] = cursor_set
        numbers = None if partitions is None else sorted(partitions)
        return self._transport.carry_out(self._protocol.resume(wish(options), numbers))

    def store(self, cursor_set: str, cursors: Mapping[int, str]) -> None:
        """Have the server keep *cursors* under the name *cursor_set*: all before them has been dealt with."""
        self._transport.carry_out(self._protocol.store(cursor_set, cursors))

    def follow(
        self,
        cursors: Mapping[int, str] | None = None,
        *,
        partitions: Collection[int] | None = None,
        start: str = FIRST,
        poll_interval: float = POLL_INTERVAL,
        **options: Unpack[Options],
    ) -> "Follow[Data]":
        """Follow the feed for ever: iterate over what this returns, page by page.

        A page comes whenever there are events or another cursor. Connections that fail are made again, with growing
        delays and as the server's Retry-After says; only what cannot pass is raised, as `read` raises it.

        Args:
            cursors: Where to go on, partition to cursor; cursors of partitions that are not followed do no harm. With
                none the feed is followed from *start*.
            partitions: The partitions to follow, with those that will replace them: see `share`. None: all of them,
                those too that will be added.
            start: FIRST or LAST.
            poll_interval: Seconds between two fruitless reads from a server that does not know how to wait.
            options: As for `read`; the default of `wait_seconds` is 10. With `cursor_set` and no cursors, the
                server's are used.
        """
        options.setdefault("wait_seconds", FOLLOW_WAIT_SECONDS)
        following = Following(
            self._protocol,
            cursors or {},
            chosen=partitions,
            start=start,
            wish=wish(options),
            poll_interval=poll_interval,
        )
        return Follow(self._transport, following)

    def close(self) -> None:
        """Close the connections, unless they are of a client that was handed in."""
        self._transport.close()


class Follow(Closing, Generic[Data]):
    """The pages of a feed that is followed: an iterator, and a context manager that closes it.

    An interruption such as Ctrl-C loses nothing: the iterator can go on afterwards.
    """

    def __init__(self, transport: Transport, following: Following) -> None:
        self._reading = Reading(transport.http, following.run())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Page[Data]:
        page: Page[Data] | None = self._reading.advance()
        if page is None:
            raise StopIteration
        return page

    def close(self) -> None:
        """End the iteration. From another thread or a signal handler too: a request under way is waited for.

        A request lasts at most as long as `wait`, where the server keeps to it.
        """
        self._reading.end()
        self._reading.close()
