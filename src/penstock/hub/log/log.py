"""The log of one hub: publish to feeds, move the outbox into them, read them, and wait for events.

A read that would reach the end of a feed first moves what services have committed to the outbox, so that a consumer
sees everything that was committed before its request began (docs/decisions/outbox-snapshots.md).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, Unpack

from penstock.core.events.event import NewEvent
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import DatabaseUnavailable, HubUnavailable, OutcomeUnknown, Unavailable
from penstock.hub.background import Clock
from penstock.hub.log.publish import (
    AppendResult,
    NewEvents,
    Preparation,
    PublishOptions,
    PublishRequest,
    Unpublishable,
    find_refusal,
    prepare_or_refuse,
)
from penstock.hub.log.read import EventTypeCatalogue, Reader
from penstock.hub.log.watch import Watch
from penstock.storage.log.events import PartitionHead
from penstock.storage.store import Store

SETTLE_TIMEOUT: Final = 6.0
"""A read waits at most this long until the outbox has been moved."""


class Log:
    """The feeds of one store: publish, move the outbox, read.

    `reader` reads pages, and moves no outbox. `watch` wakes readers that wait for events.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        event_types: EventTypeCatalogue,
        submit: "Callable[[PublishRequest], Future[AppendResult | None]]",
        watch: Watch,
    ) -> None:
        """*submit* queues a request for the committer."""
        self._store = store
        self._clock = clock
        self._event_types = event_types
        self._enqueue = submit
        self.reader = Reader(store, event_types)
        self.watch = watch

    # Publishing

    def submit(
        self,
        name: str,
        events: Sequence[NewEvent],
        lines: Sequence[int] | None = None,
        *,
        rechecks: bool = True,
        **how: Unpack[PublishOptions],
    ) -> "Future[AppendResult | None]":
        """Queue *events* for the feed *name*; the future gets its result once all of them are on disk, or none.

        *lines* are the numbers by which errors name the events, counted from 1 by default. If the remembered event
        type refuses them, the database is asked for its current definition. With *rechecks* False it is not asked: the
        refusal may be out of date, and does not say why an event violates the schema.

        Raises:
            EventTypeNotFound, InvalidEvent, EventTooLarge, PublishingRestricted: nothing was queued.
            PublishingRestricted: the event type accepts only the outbox and idempotent producers.
            HubUnavailable: the hub is shutting down.
        """
        return self._submit(name, NewEvents(events, lines, **how), rechecks=rechecks)

    def publish(self, name: str, events: Sequence[NewEvent]) -> AppendResult:
        """Publish *events* to the feed *name*, all or none, and return once they are on disk: see `submit`.

        Raises:
            WrongTransaction: the caller's own open transaction locks the database; use the outbox instead.
        """
        published = self._submit(name, NewEvents(events), direct=True).result()
        assert published is not None
        return published

    def prepare(self, name: str, handed: NewEvents, *, exact: bool = False, rechecks: bool = True) -> Preparation:
        """Return events ready for the log, by the current definition of their event type, or why they are refused.

        *exact* and *rechecks*: see `prepare_or_refuse` and `submit`.

        Raises:
            EventTypeNotFound: there is no event type *name*.
            MalformedEvent: an event cannot be parsed.
        """
        remembered = self._event_types.remembered.get(name)
        feed = remembered or self._event_types.load(name)
        found = prepare_or_refuse(feed, handed, self._clock(), exact=exact, explains=rechecks)
        if isinstance(found, Unpublishable) and rechecks and remembered is not None:
            current = self._event_types.load(name)
            if current.revision != feed.revision or current.id != feed.id:  # Another hub has changed it.
                found = prepare_or_refuse(current, handed, self._clock(), exact=exact)
        return found

    def _submit(
        self, name: str, handed: NewEvents, *, direct: bool = False, rechecks: bool = True
    ) -> "Future[AppendResult | None]":
        found = self.prepare(name, handed, rechecks=rechecks)
        if error := find_refusal(found, exact=False):
            raise error
        return self._enqueue(PublishRequest(name, handed, found, direct=direct))

    # The outbox

    def find_waiting(self, names: Sequence[str]) -> Sequence[str]:
        """Return those of *names* with outbox rows that are not in the log yet, in one query.

        Ask before looking at the log: rows that another hub moves between the two calls are in the log by then.
        """
        with self._store.read() as tx:
            return tx.outbox.find_waiting(names)

    def has_waiting(self, name: str) -> bool:
        """Return whether the outbox has rows of the event type *name*: see `find_waiting`."""
        return bool(self.find_waiting([name]))

    def move(self, name: str) -> "Future[AppendResult | None]":
        """Queue moving the outbox rows of *name* into the log; the future gets its result once they are on disk.

        The future fails with HubUnavailable if more rows wait than can be moved in the time that a read may take.
        """
        return self._enqueue(PublishRequest(name))

    def settle(self, name: str) -> bool:
        """Move the outbox rows of *name* into the log and wait for it; return whether there were any.

        Raises:
            HubUnavailable, DatabaseUnavailable: they could not be moved now.
        """
        if not self.has_waiting(name):
            return False
        try:
            self.move(name).result(timeout=SETTLE_TIMEOUT)
        except (TimeoutError, OutcomeUnknown) as error:
            raise make_unsettled_error(name, error) from error
        return True

    # Reading

    def find_heads(self, name: str) -> tuple[StoredFeed, dict[int, PartitionHead]]:
        """Return a feed and its heads by partition id, with everything committed before: see `Reader.find_heads`."""
        self.settle(name)
        return self.reader.find_heads(name)

    def find_offsets_since(self, name: str, at: int) -> tuple[StoredFeed, list[int]]:
        """Return a feed and, by partition, the first offset received at *at* or later: see `Reader`."""
        self.settle(name)
        return self.reader.find_offsets_since(name, at)


def make_unsettled_error(name: str, error: TimeoutError | OutcomeUnknown) -> Unavailable:
    """Return the error of a read of *name* whose outbox could not be moved; repeating the read is always safe."""
    if isinstance(error, OutcomeUnknown):
        return DatabaseUnavailable(reason=error.reason, retry_after=1)
    return HubUnavailable.of("outbox-backlog", event_type=name, seconds=SETTLE_TIMEOUT, retry_after=1)
