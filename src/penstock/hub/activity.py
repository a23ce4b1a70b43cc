"""Records what callers do, as events of the hub's own event types, in the background: no request waits for it.

`nakadi.batch.published` and `nakadi.data.streamed` have what callers have published and what they were sent, added up
by event type and caller. `nakadi.access.log` has each request.

Invariants:
    Memory is bounded. What exceeds the bounds is counted as dropped.
    Each event is written once or, if a process is killed or a commit's outcome is unknown, not at all.
    What concerns the hub's own event types is not recorded: else reading them would make them grow.
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
from penstock.core.groups import is_group_name
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
"""Requests are written so often."""
REQUESTS_MAX: Final = 10_000
"""So many requests wait to be written."""
COUNTS_MAX: Final = 10_000
"""So many sums are kept of publishes, and of streams."""
APPENDED_MAX: Final = 500
"""One transaction appends so many events: publishes wait for it."""
_HIDDEN: Final = "***"
_SECRET_PARAMETER: Final = re.compile(r"token|secret|password|authorization|credential|api_?key|signature")
_SECRET_TEXT: Final = re.compile(r"pst_[\w-]{8,}|eyJ[\w-]{8,}(?:\.[\w-]*)*", re.ASCII)
"""A token of the hub, and a JSON Web Token, also where it was cut."""
_log: Final = structlog.get_logger("penstock.activity")
_Key = TypeVar("_Key", bound=tuple[object, ...])


class ConsumerName(NamedTuple):
    """A subscription or a consumer group that the path of a request names."""

    is_subscription: bool
    name: str


class RequestEntry(NamedTuple):
    """A request that has ended, as the access log tells it."""

    ended_at: int
    """In microseconds since 1970, UTC."""
    method: str
    path: str
    query: str
    """With its question mark; empty if there is none."""
    user_agent: str
    app: str
    status: int
    """0: the client left before there was one."""
    response_ms: int
    accept_encoding: str
    content_encoding: str
    request_bytes: int
    response_bytes: int
    flow_id: str
    event_type: str
    """The event type that its path names; - if it names none."""
    consumer: ConsumerName | None


class _StreamKey(NamedTuple):
    api: str
    subscription: str | None
    event_type: str
    caller: Caller


class _Sum:
    """Events, bytes, batches and milliseconds that were added up."""

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
    """Records what the callers of one process do. Safe to use from many threads.

    Adding to it only remembers; a thread writes. A hub that was not started writes when it stops.

    Attributes:
        is_on: whether anything is recorded. Callers look at it first, so that nothing else is done while it is off.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        count_interval: float = COUNT_INTERVAL,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Record nothing until `apply_features` says so."""
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
        """Whether consumers read the hub's own event types, as far as it was looked up since the last sums."""
        self._is_away = False
        self._is_started = False
        self._stopping = False
        self._wake = threading.Event()
        self._thread = Background("penstock-activity", self._run)

    def apply_features(self, features: Collection[str]) -> None:
        """Record what *features*, those that are on, say from here on."""
        self._features = frozenset(features) & {KPI_FEATURE, ACCESS_LOG_FEATURE}
        self.is_on = bool(self._features) and not self._stopping
        if self.is_on and self._is_started:
            self._thread.start()
            self._wake.set()

    def start(self) -> None:
        """Write in the background from here on; harmless when repeated."""
        self._is_started = True
        self.apply_features(self._features)

    def stop(self, timeout: float | None = None) -> bool:
        """Write what waits, and record nothing more; return whether that was within *timeout*."""
        self.is_on, self._stopping = False, True
        self._wake.set()
        if self._thread.started:
            return self._thread.wait_for_end(timeout)
        self.write()
        return True

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many publishes, sends and requests were not recorded since the process began, by event type."""
        with self._guard:
            return dict(self._dropped)

    @property
    def logs_requests(self) -> bool:
        """Whether requests are recorded."""
        return ACCESS_LOG_FEATURE in self._features

    def add_publish(self, event_type: str, caller: Caller, *, events: int, size: int, ms: float) -> None:
        """Record that *caller* has published *events* by a request whose body has *size* bytes and that took *ms*."""
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
        """Record that *caller* was sent *events* of *event_type*, of so many bytes, in so many batches."""
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
        """Write the requests, and the sums if their interval is over; what the database refuses now waits."""
        self._write_requests()
        if self._monotonic() - self._counted_at >= self._count_interval:
            self._write_sums()

    def write(self) -> None:
        """Write all that waits; what the database refuses now waits on."""
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
        """Return the sum of *key*; None if there are too many, which counts it as dropped. The guard is held."""
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
        """Write *sums*; add those to *later* ones that cannot be written now."""
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
        """Write *events* unless they were switched off; return False if the database is away, and they have to wait."""
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
        """Return whether a request was one of a consumer of the hub's own event types, and was not refused."""
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
    """What one reader is sent: noted while it is written, and recorded once some of it was sent."""

    def __init__(self, activity: Activity, api: str, caller: Caller, subscription: str | None = None) -> None:
        """*api* is the interface by which it reads."""
        self.activity = activity
        self._api = api
        self._caller = caller
        self._subscription = subscription
        self._guard = threading.Lock()
        self._noted: dict[str, _Sum] = {}

    def note(self, event_type: str, batch: Sequence[bytes]) -> None:
        """Note a batch that is written; one without events is a keep-alive, and does not count."""
        if not batch:
            return
        size = len(batch.data) if isinstance(batch, JoinedEvents) else sum(map(len, batch))
        with self._guard:
            self._noted.setdefault(event_type, _Sum()).add(len(batch), size, 1)

    def record(self) -> None:
        """Record what was noted. Pieces that are made ahead of the one that was sent are in it."""
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
    """Return *text* without what looks like a token of a hub, or like a JSON Web Token.

    >>> hide_tokens("/event-types/pst_0123456789")
    '/event-types/***'
    """
    return _SECRET_TEXT.sub(_HIDDEN, text)


def hide_secrets(query: str) -> str:
    """Return a query without what may be a secret: values of parameters that are named so, and tokens.

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
