"""Records the requests of callers as events of the hub's own event types. A background thread writes them.

`nakadi.batch.published` and `nakadi.data.streamed` have the number and size of published and sent events, added up by
event type and caller. `nakadi.access.log` has each request.

Invariants:
    Memory is bounded: records beyond the bounds are counted as dropped.
    Each event is written once, or not at all if the process is killed or the outcome of a commit is unknown.
    Reads of the hub's own event types are not recorded: these event types would grow by being read.
"""

import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, TypeVar
from urllib.parse import unquote_plus

import structlog

from penstock.core.access import Caller
from penstock.core.group_names import is_group_name
from penstock.core.subscriptions.delivery import JoinedEvents
from penstock.core.times import format_time
from penstock.errors import Unavailable
from penstock.hub.background import Background, Clock
from penstock.hub.log.publish import OWN_EVENT_TYPES
from penstock.hub.own_events import (
    ACCESS_LOG,
    ACCESS_LOG_FEATURE,
    BATCH_PUBLISHED,
    DATA_STREAMED,
    KPI_FEATURE,
    METADATA,
    Event,
    OwnEventType,
    append_own,
    find_feature,
    find_features,
    hash_name,
    lock_own,
)
from penstock.storage.groups import GroupFilter
from penstock.storage.store import Store

COUNT_INTERVAL: Final = 60.0
"""Seconds over which publishes and streams are added up."""
WRITE_INTERVAL: Final = 1.0
"""Seconds between two writes of requests."""
REQUESTS_MAX: Final = 10_000
"""Maximum number of requests that wait to be written."""
COUNTS_MAX: Final = 10_000
"""Maximum number of sums of publishes, and of streams."""
APPENDED_MAX: Final = 500
"""Maximum number of events of one transaction, for which publishes have to wait."""
_HIDDEN: Final = "***"
_SECRET_PARAMETER: Final = re.compile(r"token|secret|password|authorization|credential|api_?key|signature")
_SECRET_TEXT: Final = re.compile(r"pst_[\w-]{8,}|eyJ[\w-]{8,}(?:\.[\w-]*)*", re.ASCII)
"""A token of the hub, or a JSON Web Token, possibly cut off."""
_log: Final = structlog.get_logger("penstock.activity")
_Key = TypeVar("_Key", bound=tuple[object, ...])


class ConsumerName(NamedTuple):
    """A subscription or a consumer group that the path of a request names."""

    is_subscription: bool
    name: str


class RequestEntry(NamedTuple):
    """Entry of the access log: a request that has ended."""

    ended_at: int
    """In microseconds since 1970, UTC."""
    method: str
    path: str
    query: str
    """With its question mark; empty if there is none."""
    user_agent: str
    app: str
    status: int
    """0 if the client disconnected before it was sent."""
    response_ms: int
    accept_encoding: str
    content_encoding: str
    request_bytes: int
    response_bytes: int
    flow_id: str
    event_type: str
    """The event type in the path; `-` if there is none."""
    consumer: ConsumerName | None


class _StreamKey(NamedTuple):
    api: str
    subscription: str | None
    event_type: str
    caller: Caller


class _Sum:
    """Sums of events, bytes, batches and milliseconds."""

    __slots__ = ("batches", "bytes", "events", "ms")

    def __init__(self) -> None:
        self.events = self.bytes = self.batches = 0
        self.ms = 0.0

    def add(self, events: int, size: int, batches: int, ms: float = 0.0) -> None:
        self.events += events
        self.bytes += size
        self.batches += batches
        self.ms += ms


class Activity:
    """Records the activity of callers in one process. Safe to use from many threads.

    The `add_*` methods only store in memory; a background thread writes. A hub that was not started writes when it
    stops.

    Attributes:
        is_on: whether anything is recorded. Callers check it first, so that recording costs nothing while it is off.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        count_interval: float = COUNT_INTERVAL,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a recorder that is off until `apply_features` turns it on."""
        self.is_on = False
        self._store = store
        self._clock = clock
        self._count_interval = count_interval
        self._monotonic = monotonic
        self._features: frozenset[str] = frozenset()
        self._guard = threading.Lock()
        self._published: dict[tuple[str, Caller], _Sum] = {}
        self._streamed: dict[_StreamKey, _Sum] = {}
        self._requests: deque[RequestEntry] = deque()
        self._dropped = dict.fromkeys((each.name for each in (ACCESS_LOG, BATCH_PUBLISHED, DATA_STREAMED)), 0)
        self._counted_at = monotonic()
        self._readers: dict[ConsumerName, bool] = {}
        """Cache: whether each consumer reads the hub's own event types. It is cleared when sums are written."""
        self._is_away = False
        self._is_started = False
        self._stopping = False
        self._wake = threading.Event()
        self._thread = Background("penstock-activity", self._run)

    def apply_features(self, features: Collection[str]) -> None:
        """Turn recording on or off by *features*, the names of the feature settings that are on."""
        self._features = frozenset(features) & {KPI_FEATURE, ACCESS_LOG_FEATURE}
        self.is_on = bool(self._features) and not self._stopping
        if self.is_on and self._is_started:
            self._thread.start()
            self._wake.set()

    def start(self) -> None:
        """Start the background thread; harmless when repeated."""
        self._is_started = True
        self.apply_features(self._features)

    def stop(self, timeout: float | None = None) -> bool:
        """Stop recording and write the rest; return whether that took less than *timeout* seconds."""
        self.is_on, self._stopping = False, True
        self._wake.set()
        if self._thread.started:
            return self._thread.wait_for_end(timeout)
        self.write()
        return True

    @property
    def dropped(self) -> Mapping[str, int]:
        """Number of records dropped since the process started, by event type."""
        with self._guard:
            return dict(self._dropped)

    @property
    def logs_requests(self) -> bool:
        """Return whether requests are recorded."""
        return ACCESS_LOG_FEATURE in self._features

    def add_publish(self, event_type: str, caller: Caller, *, events: int, size: int, ms: float) -> None:
        """Record a publish: the number of *events*, the *size* of the body in bytes, the duration in *ms*."""
        if KPI_FEATURE not in self._features or self._stopping:
            return
        with self._guard:
            found = self._find_sum(self._published, (event_type, caller), BATCH_PUBLISHED)
            if found is not None:
                found.add(events, size, 1, ms)

    def add_streamed(
        self,
        api: str,
        event_type: str,
        caller: Caller,
        *,
        events: int,
        size: int,
        batches: int,
        subscription: str | None = None,
    ) -> None:
        """Record events that were sent to *caller*: their number, *size* in bytes, and number of *batches*."""
        if KPI_FEATURE not in self._features or self._stopping or event_type in OWN_EVENT_TYPES:
            return
        key = _StreamKey(api, subscription, event_type, caller)
        with self._guard:
            found = self._find_sum(self._streamed, key, DATA_STREAMED)
            if found is not None:
                found.add(events, size, batches)

    def add_request(self, entry: RequestEntry) -> None:
        """Record a request that has ended."""
        if ACCESS_LOG_FEATURE not in self._features or self._stopping:
            return
        if entry.event_type in OWN_EVENT_TYPES and entry.status < 400:
            return
        with self._guard:
            if len(self._requests) < REQUESTS_MAX:
                self._requests.append(entry)
            else:
                self._dropped[ACCESS_LOG.name] += 1

    def write_due(self) -> None:
        """Write the requests, and the sums if their interval is over; keep them if the database is unavailable."""
        self._write_requests()
        if self._monotonic() - self._counted_at >= self._count_interval:
            self._write_sums()

    def write(self) -> None:
        """Write all requests and sums; keep them if the database is unavailable."""
        self._write_requests()
        self._write_sums()

    def _run(self) -> None:
        while not self._stopping:
            waits = self.is_on or self._requests or self._published or self._streamed
            self._wake.wait(WRITE_INTERVAL if waits else None)
            self._wake.clear()
            if not self._stopping:
                self._try(self.write_due)
        self._try(self.write)

    @staticmethod
    def _try(write: Callable[[], None]) -> None:
        try:
            write()
        except Exception as error:  # noqa: BLE001 - if this thread ended, nothing would be written
            _log.warning("activity could not be written", error=str(error))

    def _find_sum(self, sums: dict[_Key, _Sum], key: _Key, which: OwnEventType) -> _Sum | None:
        """Return the sum of *key*; count it as dropped and return None if there are too many. Needs the guard."""
        found = sums.get(key)
        if found is None:
            if len(sums) >= COUNTS_MAX:
                self._dropped[which.name] += 1
                return None
            found = sums[key] = _Sum()
        return found

    def _drop(self, which: OwnEventType, count: int) -> None:
        with self._guard:
            self._dropped[which.name] += count

    def _write_requests(self) -> None:
        while self._requests:
            with self._guard:
                taken = list(islice(self._requests, APPENDED_MAX))
            try:
                wanted = [each for each in taken if not self._reads_own(each)]
            except Unavailable as error:
                self._note_away(error)
                return
            if wanted and not self._append(ACCESS_LOG, [_make_request_event(each) for each in wanted]):
                return
            for _ in taken:  # Nobody else takes any.
                self._requests.popleft()

    def _write_sums(self) -> None:
        self._counted_at = self._monotonic()
        self._readers.clear()
        with self._guard:
            published, self._published = self._published, {}
            streamed, self._streamed = self._streamed, {}
        self._write_each(BATCH_PUBLISHED, published, self._published, _make_publish_event)
        self._write_each(DATA_STREAMED, streamed, self._streamed, _make_stream_event)

    def _write_each(
        self,
        which: OwnEventType,
        sums: dict[_Key, _Sum],
        later: dict[_Key, _Sum],
        make: Callable[[_Key, _Sum], Event],
    ) -> None:
        """Write *sums*; if the database is unavailable, add the rest to *later*."""
        keys = list(sums)
        for at in range(0, len(keys), APPENDED_MAX):
            some = keys[at : at + APPENDED_MAX]
            if not self._append(which, [make(key, sums[key]) for key in some]):
                with self._guard:
                    for key in keys[at:]:
                        left = sums[key]
                        found = self._find_sum(later, key, which)
                        if found is not None:
                            found.add(left.events, left.bytes, left.batches, left.ms)
                return

    def _append(self, which: OwnEventType, events: Sequence[Event]) -> bool:
        """Append *events* unless their feature is off; return False if the database is unavailable."""
        now = self._clock()
        try:
            with self._store.write() as tx:
                if find_feature(which.name) in find_features(tx.settings.list()):
                    feed, is_new = lock_own(tx, which, now)
                    if is_new:
                        tx.settings.note_access_change()
                    append_own(tx, feed, events, now, flow_id=secrets.token_hex(12))
        except Unavailable as error:
            self._note_away(error)
            return False
        except Exception as error:  # noqa: BLE001 - they may be written, or never can be
            self._drop(which, len(events))
            _log.warning("events were dropped", event_type=which.name, events=len(events), error=str(error))
        self._is_away = False
        return True

    def _note_away(self, error: Unavailable) -> None:
        if not self._is_away:
            _log.warning("events wait for the database", error=str(error))
        self._is_away = True

    def _reads_own(self, entry: RequestEntry) -> bool:
        """Return whether a request succeeded and came from a consumer of the hub's own event types."""
        consumer = entry.consumer
        if consumer is None or entry.status >= 400:
            return False
        if consumer not in self._readers:
            self._readers[consumer] = not OWN_EVENT_TYPES.isdisjoint(self._list_sources(consumer))
        return self._readers[consumer]

    def _list_sources(self, consumer: ConsumerName) -> Sequence[str]:
        """Return the event types that a consumer reads; none if there is no such consumer."""
        with self._store.read() as tx:
            if consumer.is_subscription:
                subscription = tx.subscriptions.find(consumer.name)
                names: Sequence[str] = subscription.definition["event_types"] if subscription is not None else ()
                return names
            groups = tx.groups.list(GroupFilter(name=consumer.name), 1) if is_group_name(consumer.name) else ()
            return groups[0].sources if groups else ()


class SentEvents:
    """Counts the events that one reader is sent: `note` while a batch is written, `record` once it was sent."""

    def __init__(self, activity: Activity, api: str, caller: Caller, subscription: str | None = None) -> None:
        """Create a counter for a reader of *api*, the name of the HTTP interface."""
        self.activity = activity
        self._api = api
        self._caller = caller
        self._subscription = subscription
        self._guard = threading.Lock()
        self._noted: dict[str, _Sum] = {}

    def note(self, event_type: str, batch: Sequence[bytes]) -> None:
        """Count a batch that is being written; batches without events are keep-alives and do not count."""
        if not batch:
            return
        size = len(batch.data) if isinstance(batch, JoinedEvents) else sum(map(len, batch))
        with self._guard:
            self._noted.setdefault(event_type, _Sum()).add(len(batch), size, 1)

    def record(self) -> None:
        """Record the batches counted so far, including those prepared ahead of the one that was sent."""
        if not self._noted:
            return
        with self._guard:
            noted, self._noted = self._noted, {}
        for name, each in noted.items():
            self.activity.add_streamed(
                self._api,
                name,
                self._caller,
                events=each.events,
                size=each.bytes,
                batches=each.batches,
                subscription=self._subscription,
            )


_hash: Final = lru_cache(maxsize=1_024)(hash_name)


def _describe_caller(caller: Caller) -> Event:
    return {"app": caller.value, "app_hashed": _hash(caller.value), "token_realm": caller.data_type}


def _make_publish_event(key: tuple[str, Caller], found: _Sum) -> Event:
    event_type, caller = key
    return {
        "event_type": event_type,
        **_describe_caller(caller),
        "number_of_events": found.events,
        "ms_spent": round(found.ms),
        "batch_size": found.bytes,
        "batches": found.batches,
    }


def _make_stream_event(key: _StreamKey, found: _Sum) -> Event:
    subscription = {} if key.subscription is None else {"subscription": key.subscription}
    return {
        "api": key.api,
        **subscription,
        "event_type": key.event_type,
        **_describe_caller(key.caller),
        "number_of_events": found.events,
        "bytes_streamed": found.bytes,
        "batches_streamed": found.batches,
    }


def _make_request_event(entry: RequestEntry) -> Event:
    return {
        METADATA: {"occurred_at": format_time(entry.ended_at), "flow_id": entry.flow_id},
        "method": entry.method,
        "path": hide_tokens(entry.path),
        "query": hide_secrets(entry.query),
        "user_agent": hide_tokens(entry.user_agent),
        "app": entry.app,
        "app_hashed": _hash(entry.app),
        "status_code": entry.status,
        "response_time_ms": entry.response_ms,
        "accept_encoding": entry.accept_encoding,
        "content_encoding": entry.content_encoding,
        "request_length": entry.request_bytes,
        "response_length": entry.response_bytes,
    }


def hide_tokens(text: str) -> str:
    """Return *text* with tokens of a hub and JSON Web Tokens replaced by asterisks.

    >>> hide_tokens("/event-types/pst_0123456789")
    '/event-types/***'
    """
    return _SECRET_TEXT.sub(_HIDDEN, text)


def hide_secrets(query: str) -> str:
    """Return a query with secrets replaced by asterisks: tokens, and values of parameters with names like `token`.

    >>> hide_secrets("?n=1&access_token=abc")
    '?n=1&access_token=***'
    """
    if not query:
        return query
    parts = []
    for each in query[1:].split("&"):
        name, equals, value = each.partition("=")
        hides = value and _SECRET_PARAMETER.search(unquote_plus(name).lower())
        parts.append(f"{name}={_HIDDEN}" if hides else name + equals + value)
    return "?" + hide_tokens("&".join(parts))
