"""Opens, extends and releases the streams of this hub process."""

from collections.abc import Callable, Collection

from penstock.core.subscriptions.assignment import FeedPartition, PoisonOffset
from penstock.core.subscriptions.delivery import DeliveryRules
from penstock.hub.subscriptions.consumer_stream import ConsumerStream, StreamServices


class Streams:
    """The streams of one store's subscriptions. Safe to use from many threads."""

    def __init__(self, services: StreamServices) -> None:
        self._services = services

    def open(
        self,
        id: str,
        wants: Collection[FeedPartition],
        rules: DeliveryRules,
        check_access: Callable[[], None] = lambda: None,
        uses_replicas: Callable[[], bool] = lambda: False,
    ) -> ConsumerStream:
        """Open a session and start its stream; the caller closes the stream. See `Sessions.open`."""
        services = self._services
        if not services.lease.outlasts_renewal:
            services.lease.renew()
        lapses = services.lease.lapses
        commit_ms = max(1, round(rules.commit_timeout * 1000))
        opened = services.sessions.open(id, wants, batch_limit=rules.batch_limit, commit_ms=commit_ms)
        stream = ConsumerStream(services, opened, rules, lapses, check_access=check_access, uses_replicas=uses_replicas)
        self._notify_changed(id)
        return stream

    def extend(self, id: str, stream_id: str) -> None:
        """Restart the commit timeout of a stream: see `Sessions.extend`."""
        self._services.sessions.extend(id, stream_id)
        self._notify_changed(id)

    def release(
        self,
        id: str,
        stream_id: str,
        keep: Collection[FeedPartition] = (),
        failed: Collection[FeedPartition] | None = None,
        parked: Collection[PoisonOffset] = (),
    ) -> bool:
        """End a stream, and release its uncommitted partitions: see `Sessions.release`."""
        try:
            return self._services.sessions.release(id, stream_id, keep, failed, parked)
        finally:
            self._notify_changed(id)

    def _notify_changed(self, id: str) -> None:
        self._services.local_streams.notify_changed(id)
