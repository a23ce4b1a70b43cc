"""Registers the streams that this hub process sends, and notifies them of commits and of other changes.

The process notifies its streams of its own commits directly. The poller of `Watch` detects changes by other hubs with
one query, however many streams there are: every change raises the subscription's revision.
"""

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Protocol

from penstock.core.subscriptions.assignment import FeedPartition
from penstock.hub.subscriptions.commits import CommitNotice
from penstock.storage.store import Tx


class StreamListener(Protocol):
    """A stream as the registry sees it. All methods may be called from any thread."""

    session_id: str
    subscription_id: str

    def note_committed(self, offsets: Mapping[FeedPartition, int]) -> None:
        """Take note that everything below these offsets is committed."""

    def note_changed(self) -> None:
        """Take note that something else has changed: the stream reads a new snapshot in its next step."""

    def has_sent(self, place: FeedPartition, position: int) -> bool:
        """Return whether the stream has sent everything of a partition below *position*."""


class LocalStreams:
    """The streams of one process. Safe to use from many threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._streams: dict[str, StreamListener] = {}
        self._by_subscription: dict[str, set[StreamListener]] = defaultdict(set)
        self._revisions: dict[str, int] = {}
        """The revision of each streamed subscription that its streams have been notified of."""

    def __len__(self) -> int:
        return len(self._streams)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._streams

    @property
    def subscription_ids(self) -> Collection[str]:
        """The subscriptions that this process streams."""
        with self._guard:
            return list(self._by_subscription)

    def add(self, stream: StreamListener, revision: int) -> None:
        """Notify a stream of all changes after that *revision* of its subscription."""
        with self._guard:
            self._streams[stream.session_id] = stream
            self._by_subscription[stream.subscription_id].add(stream)
            known = self._revisions.setdefault(stream.subscription_id, revision)
            self._revisions[stream.subscription_id] = min(known, revision)

    def remove(self, stream: StreamListener) -> None:
        """Stop notifying a stream; harmless when repeated."""
        with self._guard:
            self._streams.pop(stream.session_id, None)
            streams = self._by_subscription.get(stream.subscription_id)
            if streams is not None:
                streams.discard(stream)
                if not streams:
                    del self._by_subscription[stream.subscription_id]
                    self._revisions.pop(stream.subscription_id, None)

    def has_sent(self, session_id: str, place: FeedPartition, position: int) -> bool | None:
        """Return whether a stream has sent everything of a partition below *position*.

        None: this process does not send the stream.
        """
        stream = self._streams.get(session_id)
        return None if stream is None else stream.has_sent(place, position)

    def notify_committed(self, notice: CommitNotice) -> None:
        """Notify the streams of a subscription of a commit by this process."""
        with self._guard:
            streams = list(self._by_subscription.get(notice.subscription, ()))
            known = self._revisions.get(notice.subscription)
            if known is not None and known + 1 == notice.revision and not notice.is_reassigned:
                self._revisions[notice.subscription] = notice.revision  # No other hub has changed anything in between.
        for stream in streams:
            stream.note_committed(notice.offsets)
            if notice.is_reassigned:
                stream.note_changed()

    def notify_changed(self, subscription_id: str) -> None:
        """Notify the streams of a subscription that this process has changed something about it."""
        with self._guard:
            streams = list(self._by_subscription.get(subscription_id, ()))
        for stream in streams:
            stream.note_changed()

    def notify_all(self) -> None:
        """Notify all streams that anything may have changed."""
        with self._guard:
            streams = list(self._streams.values())
        for stream in streams:
            stream.note_changed()

    def poll(self, tx: Tx) -> bool:
        """Notify the streams whose subscriptions other hubs have changed; return whether there are any."""
        with self._guard:
            known = dict(self._revisions)
        if not known:
            return False
        stored = tx.subscriptions.find_revisions(known)
        changed: list[StreamListener] = []
        with self._guard:
            for each, revision in known.items():
                now = stored.get(each, -1)
                if now != revision and self._revisions.get(each) == revision:
                    self._revisions[each] = now
                    changed += self._by_subscription.get(each, ())
        for stream in changed:
            stream.note_changed()
        return bool(changed)
