"""What streams of subscriptions are made with.

Whether a stream may go on, and may still be sent what was read for it; asked from any thread.

Invariants:
    Once the hub's lease was over, others may have had the stream's partitions: nothing is certain until the database
    has said, after whoever shared them out meanwhile, that the stream is still there. It is not if it has lost any.

How far the partitions of a stream go by now, and its being woken when they go further.

The parked keys of the partitions that a stream has: their events are set aside, and sent again when asked for.

Sends a subscription's events to one consumer: reads what there is, and says what is to be sent when.

A stream has no thread and no connection of its own: whoever sends it calls `step` when it is woken or when it is time,
never twice at once.

Invariants:
    Nothing is read for it of a partition that the database does not say is its own, nor once the hub's lease is over;
    what was read before that is sent only if the partitions were its own all the time: whoever sends it asks `certain`.
    What it was sent and has not committed is known to whoever has the partition next, and may be committed for a while.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from typing import Final, NamedTuple

from penstock.core.registry.event_type import StoredFeed
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.delivery import (
    COMMIT_TIMEOUT,
    DeliveryBatch,
    DeliveryRules,
    EventChunk,
    JoinedEvents,
    SubscriptionDelivery,
)
from penstock.core.subscriptions.tokens import ParkedSpan
from penstock.errors import Blocked, CursorExpired, DatabaseUnavailable, HubStopped, PenstockError, SubscriptionNotFound
from penstock.hub.log.read import Reader, Reading, Reads, Rows, next_events, take_events
from penstock.hub.log.watch import Waiter, Watch
from penstock.hub.subscriptions.commits import Commit, Commits
from penstock.hub.subscriptions.live import Live
from penstock.hub.subscriptions.sessions import (
    BLOCKED,
    DELETED,
    GIVEN_BACK,
    RESETTING,
    STOPPING,
    TIME_OVER,
    Ended,
    Look,
    Opened,
    Sessions,
)
from penstock.storage.log.events import PartitionHead
from penstock.storage.store import Store
from penstock.storage.subscriptions import StoredParkedKey, StoredSlot


class Parts(NamedTuple):
    """What the streams of one process share."""

    store: Store
    reader: Reader
    watch: Watch
    live: Live
    sessions: Sessions
    commits: Commits


class Tenure:
    """One stream's right to its partitions."""

    def __init__(
        self, parts: Parts, opened: Opened, lapses: int, allowed: Callable[[], None], extended: Callable[[], None]
    ) -> None:
        """Begin with what was *opened*.

        *lapses* are those of the lease that were known before that: of later ones it has to hear. *allowed* raises once
        the consumer may no longer read; *extended* is called when `interrupted` finds that its lease was extended.
        """
        self._parts = parts
        self._allowed = allowed
        self._extended = extended
        self._subscription_id = opened.subscription.id
        self._session_id = opened.session.id
        self._lapses = lapses
        self._extensions = opened.session.extensions
        self._places = frozenset(slot.place for slot in opened.slots)
        """All partitions of the subscription."""

    @property
    def certain(self) -> bool:
        """Whether what was read may be sent: the lease holds, and has since it was known what is the stream's own."""
        return self._parts.live.holds and self._parts.live.lapses == self._lapses

    def stopping(self) -> bool:
        """Tell whether the hub is stopping.

        Raises:
            Blocked: the consumer may no longer read.
        """
        self._allowed()
        return self._parts.watch.draining

    def look(self) -> tuple[Look, str | None]:
        """Look what the stream has, and why it ends, if it does; it is certain for as long as this lease holds.

        Raises:
            SubscriptionNotFound: there is none any more.
            DatabaseUnavailable: it could not be asked.
        """
        look, lapses = self._looked()
        self._hear(look)
        reason = self._ends(look, lapses)
        self._lapses = lapses
        return look, reason

    def _looked(self) -> tuple[Look, int]:
        lapses = self._parts.live.lapses
        settled = lapses != self._lapses
        return self._parts.sessions.look(self._subscription_id, settled=settled), lapses

    def interrupted(self, *, stale: bool) -> str | None:
        """Tell why a stream is to end in the midst of a step; None: it goes on, and is certain once the lease holds.

        *stale*: something has changed since it has looked.
        """
        try:
            if self.stopping():
                return STOPPING
            if not stale and self._parts.live.lapses == self._lapses:
                return None
            look, lapses = self._looked()
            if self._hear(look):
                self._extended()
            reason = self._ends(look, lapses)
            if reason is None:
                self._lapses = lapses
            return reason
        except Blocked:
            return BLOCKED
        except SubscriptionNotFound:
            return DELETED
        except DatabaseUnavailable:
            return None

    def _ends(self, look: Look, lapses: int) -> str | None:
        reason = look.ends(self._session_id, self._places)
        return TIME_OVER if reason == GIVEN_BACK and lapses != self._lapses else reason

    def _hear(self, look: Look) -> bool:
        session = look.session(self._session_id)
        before = self._extensions
        self._extensions = before if session is None else session.extensions
        return self._extensions != before


class Arrivals:
    """What one stream knows of its partitions' ends."""

    def __init__(self, store: Store, watch: Watch, woken: Callable[[], None]) -> None:
        """Begin without any; *woken* is called, from any thread, when a partition has gone further."""
        self._store = store
        self._watch = watch
        self._tell = woken
        self._feeds: dict[str, StoredFeed] = {}
        self._partitions: dict[int, FeedPartition] = {}
        self._ends: dict[FeedPartition, int] = {}
        self._ticket = Waiter({}, self._woken)
        self._noted: dict[int, int] = {}

    def load(self, places: Sequence[FeedPartition]) -> dict[FeedPartition, PartitionHead]:
        """Look where the partitions of their event types begin and end, and remember the feeds."""
        found = {}
        if places:
            with self._store.read() as tx:
                for name in {name for name, _ in places}:
                    feed = self._feeds[name] = tx.registry.get(name)
                    heads = tx.log.find_heads(feed.partition_ids)
                    for number, partition_id in enumerate(feed.partition_ids):
                        self._partitions[partition_id] = (name, number)
                        found[name, number] = heads[partition_id]
        return found

    def feed(self, event_type: str) -> StoredFeed:
        """Return the feed of an event type that was loaded."""
        return self._feeds[event_type]

    def begin(self, place: FeedPartition, end: int) -> None:
        """Have a partition that was loaded, and that goes as far as *end*."""
        self._ends[place] = end

    def remove(self, place: FeedPartition) -> None:
        """Have it no longer."""
        self._ends.pop(place, None)

    def end(self, place: FeedPartition) -> int:
        """Return the offset behind the last event that is known; 0: the stream does not have that partition."""
        return self._ends.get(place, 0)

    def note(self) -> None:
        """Take note of how far the partitions go by now, as far as it was told."""
        if self._ticket.found == self._noted:
            return
        self._noted = dict(self._ticket.found)
        for partition_id, end in self._noted.items():
            place = self._partitions[partition_id]
            self._ends[place] = max(end, self._ends.get(place, 0))

    def wait(self) -> None:
        """Be woken for the partitions that the stream has now."""
        ends = {self._feeds[name].partition_ids[number]: end for (name, number), end in self._ends.items()}
        self.cancel()
        self._ticket = self._watch.wait(ends, self._woken)

    def cancel(self) -> None:
        """Be woken no more; harmless when repeated."""
        self._watch.cancel(self._ticket)

    def _woken(self) -> None:
        ticket = self._ticket
        ticket.offsets.update(dict(ticket.found))  # What was told once is not told again.
        self._tell()


RESENT_MAX: Final = 100
"""So many parked events are sent again at once."""


class SetAside:
    """What one stream knows of parked keys."""

    def __init__(self, sessions: Sessions, subscription_id: str, session_id: str, batch_limit: int) -> None:
        self._sessions = sessions
        self._subscription_id = subscription_id
        self._session_id = session_id
        self._limit = min(RESENT_MAX, batch_limit)
        self._ids: dict[FeedPartition, dict[bytes, int]] = {}
        self._asked: list[StoredParkedKey] = []
        """Keys whose events are to be sent again."""

    def update(
        self,
        parked: Sequence[StoredParkedKey],
        own: Collection[FeedPartition],
        delivery: SubscriptionDelivery,
        now: float,
    ) -> None:
        """Take note of what a look has found; what was sent again may be committed by now."""
        self._ids = {}
        known = {each.id: each for each in parked}
        for each in parked:
            if each.place in own and each.key is not None:
                self._ids.setdefault(each.place, {})[each.key.encode()] = each.id
        for parked_id, span in delivery.resent.items():
            if parked_id not in known or known[parked_id].first > span.last:
                delivery.acknowledge(parked_id, now)
        resent = delivery.resent
        self._asked = [each for each in parked if each.is_retried and each.place in own and each.id not in resent]

    @property
    def asked(self) -> bool:
        """Whether events are to be sent again."""
        return bool(self._asked)

    def next(self, delivery: SubscriptionDelivery) -> StoredParkedKey | None:
        """Return a key whose events can be sent again now: those that the partition's position has passed.

        What lies before it, committed or not, would be read again by whoever has the partition next.
        """
        if not self._asked:
            return None
        return next((each for each in self._asked if each.first < delivery.position(each.place)), None)

    def waits_in(self, place: FeedPartition) -> bool:
        """Tell whether any key of a partition waits: its events have to be looked at one by one."""
        return place in self._ids

    def sifted(
        self, reads: Reads, place: FeedPartition, reading: Reading, *, timed: bool
    ) -> tuple[EventChunk | None, bool]:
        """Read the next chunk, each event of which is looked at, without those whose keys wait; None at the end.

        Told besides whether a key waits no longer: see `kept`.

        Raises:
            CursorExpired: retention has removed what would be read.
            DatabaseUnavailable: it could not be read, or it could not be recorded what waits.
        """
        track = reading.tracks[0]
        chunk = reads.next_columns(reading, track)
        if chunk is None:
            return None, False
        rows = Rows(chunk)
        kept, knows_better = self.kept(place, chunk.range.start, rows, rows.kept(reading, track))
        return take_events(chunk, rows, track, kept, timed=timed), knows_better

    def kept(self, place: FeedPartition, start: int, rows: Rows, kept: Sequence[bool]) -> tuple[Sequence[bool], bool]:
        """Return which of the events *kept* so far are to be sent, having let those wait whose keys do.

        Told besides whether a key waits no longer, so that it is time for another look.

        Raises:
            DatabaseUnavailable: it could not be recorded.
        """
        waiting = self._ids.get(place, {})
        found: dict[int, list[int]] = {}
        ids = []
        for offset, (key, keep) in enumerate(zip(rows.keys, kept, strict=True), start):
            parked_id = waiting.get(key) if keep and key is not None else None
            ids.append(parked_id)
            if parked_id is not None:
                found.setdefault(parked_id, []).append(offset)
        if not found:
            return kept, False
        still = self._sessions.set_aside(self._subscription_id, self._session_id, found)
        return [keep and each not in still for keep, each in zip(kept, ids, strict=True)], len(still) < len(found)

    def resends(self, delivery: SubscriptionDelivery, clock: Callable[[], float]) -> Iterator[DeliveryBatch]:
        """Yield the batches in which events of parked keys are sent again.

        Raises:
            DatabaseUnavailable: they could not be read; they are sent later.
        """
        while parked := self.next(delivery):
            below = delivery.position(parked.place)
            offsets, events = self._sessions.parked_events(self._subscription_id, parked, below, self._limit)
            self._asked.remove(parked)
            if events and not delivery.is_withdrawn(parked.place):
                yield delivery.resend(parked.place, ParkedSpan(parked.id, offsets[-1]), events, offsets, clock())


ROWS_MAX: Final = 4_096
"""So many events of a partition are read at once …"""
LIGHT_ROWS: Final = 64
"""… and so few are little work."""
WHOLE_ROWS: Final = 500
"""Batches from this size on are read each by itself, so that nobody need look at the events of one."""
ROUNDS: Final = 8
"""So often a step reads what there is of each partition: it goes on while what came before is being sent."""
PAUSE_SECONDS: Final = 0.25
"""How often a stream looks whether the hub's lease holds again."""
PASS_INTERVAL: Final = 5.0
"""How often it is committed what was left out."""
_unshared: Final = count()


class Stream:
    """One stream of a subscription."""

    def __init__(
        self,
        parts: Parts,
        opened: Opened,
        rules: DeliveryRules,
        lapses: int,
        *,
        allowed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin now. *allowed* is asked at every step, and raises once the consumer may no longer read.

        *lapses*: see `Tenure`. *clock* gives seconds, and does not go back.
        """
        self._parts = parts
        self._tenure = Tenure(parts, opened, lapses, allowed, self._extended)
        self._clock = clock
        self.session_id = opened.session.id
        self.subscription_id = opened.subscription.id
        self.secret = opened.session.secret
        self._delivery = SubscriptionDelivery(rules, clock())
        self._rules = rules
        self._arrivals = Arrivals(parts.store, parts.watch, self._woken)
        self._parked = SetAside(parts.sessions, self.subscription_id, self.session_id, rules.batch_limit)
        self._extensions = opened.session.extensions
        self._epochs = {slot.place[0]: slot.epoch for slot in opened.slots}
        self._delivery.set_final_position(opened.slots[0].place, opened.slots[0].offset)
        self.commits_until = float("-inf")
        """Until when there is time to commit what was sent, as far as it was heard of in the midst of a step."""
        self._inbox: deque[Mapping[FeedPartition, int]] = deque()
        self._at_hand: list[tuple[FeedPartition, EventChunk]] = []
        """What others have read that the next light step sends."""
        self._stale = True
        self._passed_at = self._heard_at = clock()
        self._wake: Callable[[], None] = lambda: None
        self._arrivals.wait()
        parts.live.join(self, opened.subscription.revision)

    # What it is told, from any thread

    def committed(self, offsets: Mapping[FeedPartition, int]) -> None:
        """See `Listener.committed`."""
        if not offsets.keys().isdisjoint(self._delivery.places):
            self._inbox.append(offsets)
            self._extended()
            self._wake()

    def changed(self) -> None:
        """See `Listener.changed`."""
        self._stale = True
        self._wake()

    def was_sent(self, place: FeedPartition, position: int) -> bool:
        """See `Listener.was_sent`."""
        return self._delivery.was_sent(place, position)

    def _extended(self) -> None:
        self.commits_until = self._clock() + self._rules.commit_timeout

    def _woken(self) -> None:
        self._wake()

    def on_wake(self, wake: Callable[[], None]) -> None:
        """Have *wake* called, from any thread, when there may be something to be sent."""
        self._wake = wake

    # What it is asked

    @property
    def over(self) -> bool:
        """Whether nothing follows what has been taken."""
        return self._delivery.reason is not None

    @property
    def reason(self) -> str | None:
        """Why nothing follows."""
        return self._delivery.reason

    @property
    def certain(self) -> bool:
        """See `Tenure.certain`."""
        return self._tenure.certain

    def interrupted(self) -> str | None:
        """See `Tenure.interrupted`."""
        return self._tenure.interrupted(stale=self._stale)

    @property
    def idle_seconds(self) -> float:
        """For how long nothing is to be sent, unless it is woken before."""
        if not self._parts.live.holds:
            return PAUSE_SECONDS
        due_at = self._delivery.due_at
        if self._delivery.filtered_positions:
            due_at = min(due_at, self._passed_at + self._pass_interval)
        return max(0.0, due_at - self._clock())

    @property
    def _pass_interval(self) -> float:
        """How often it is committed what was left out: parked events wait for it that are to be sent again."""
        return PAUSE_SECONDS if self._parked.asked else PASS_INTERVAL

    @property
    def ends_in(self) -> float:
        """After how many seconds it ends, unless something is committed before."""
        return max(0.0, self._delivery.ends_at - self._clock())

    @property
    def unread(self) -> bool:
        """Whether there is something to be read, as far as the hub's lease lets it."""
        if not self._parts.live.holds:
            return False
        self._arrivals.note()
        has_work = self._inbox or self._stale or self._parked.next(self._delivery) or self._delivery.released_partitions
        return bool(has_work) or any(True for _ in self._readable())

    def epoch(self, event_type: str) -> int:
        """Return the epoch of an event type of which something is to be sent."""
        return self._epochs[event_type]

    def needs(self) -> object | None:
        """Return what the next step has to read, equal for streams that read the same; None: a light one will do."""
        found, self._at_hand = [], []
        if self._stale or self._parked.next(self._delivery) or self._delivery.released_partitions:
            return next(_unshared)
        self._arrivals.note()
        for each in self._readable():
            if not self._is_light(*each):
                return next(_unshared)
            if (read := self._shared(*each)) is None:
                found.append(each)
            else:
                self._at_hand.append((each[0], read))
        return tuple(found) or None

    # What it does

    def step(self, *, light: bool = False) -> Iterator[Sequence[DeliveryBatch]]:
        """Do what is to be done now, and yield what is to be sent of it, piece by piece.

        *light*: nothing is read or asked, but what `needs` has just found; what takes time is left to the next step.

        Raises:
            DatabaseUnavailable: it could not be asked.
        """
        try:
            if self._tenure.stopping():
                yield self._delivery.end(STOPPING)
                return
            if not self._parts.live.holds:
                self._stale = True  # Once it holds again, the stream may still be there.
                self._hear_commits(self._clock())
                yield self._delivery.expire(self._clock())
                return
            if (reason := self._hear(light=light)) is not None:
                yield self._delivery.end(reason)
                return
            for batch in () if light else self._parked.resends(self._delivery, self._clock):
                yield [batch]
                if self._is_outdated:
                    return
            yield from self._batches(light=light)
            if self._clock() - self._passed_at >= self._pass_interval:
                self._pass_over()
            if not light:
                self._release()
        except Blocked:
            yield self._delivery.end(BLOCKED)
        except SubscriptionNotFound:
            yield self._delivery.end(DELETED)

    def _batches(self, *, light: bool) -> Iterator[Sequence[DeliveryBatch]]:
        at_hand, self._at_hand = self._at_hand, []
        for place, read in at_hand if light else self._reads():
            if self._is_outdated:
                return
            self._delivery.add(place, read)
            if not light:  # What is much is sent while the rest is read.
                yield self._delivery.take_one(place, self._clock())
        if not self._is_outdated:
            self._hear_commits(self._clock())  # Those that have come while it was being sent were in time.
            yield self._delivery.take(self._clock())

    def end(self, reason: str) -> Sequence[DeliveryBatch]:
        """End, and return the batch that says why."""
        return self._delivery.end(reason)

    def close(self) -> None:
        """Tell the database that it has ended, and what it has left out; to be called once, whatever has ended it.

        Raises:
            DatabaseUnavailable: it could not be told; the hub's lease tells it later.
        """
        self._parts.live.leave(self)
        self._arrivals.cancel()
        delivery = self._delivery
        holds = delivery.reason not in (RESETTING, DELETED)
        hold_seconds = delivery.committing_until - self._clock() if holds else 0.0
        if holds and delivery.reason != TIME_OVER and (committing := self._pass_over()):
            with suppress(PenstockError, TimeoutError):  # What was left out is left out again by whoever comes next.
                committing.result(PASS_INTERVAL)
        # Parked events that were sent again and have only lost their stream are sent again by the next one.
        has_failed = delivery.reason in (None, COMMIT_TIMEOUT, GIVEN_BACK)
        failed, resent = (list(delivery.resent), ()) if has_failed else ((), delivery.resent_places)
        overdue = delivery.overdue(self._clock())
        ended = Ended(delivery.uncommitted, int(hold_seconds * 1_000_000), failed, overdue, resent)
        self._parts.sessions.end(self.subscription_id, self.session_id, ended)
        self._parts.live.changed(self.subscription_id)

    # Who has what

    @property
    def _is_outdated(self) -> bool:
        """Whether it may send no more before it looks: it may have taken long to send what came before."""
        is_late = self._stale and self._clock() - self._heard_at > PAUSE_SECONDS
        return self.over or is_late or not self._tenure.certain

    def _hear(self, *, light: bool) -> str | None:
        """Take note of what was committed, and of what else has changed; return why the stream ends of that."""
        now = self._heard_at = self._clock()
        self._hear_commits(now)
        if self._stale and not light:
            self._stale = False
            try:
                look, reason = self._tenure.look()
                if reason is not None:
                    return reason
                self._have(look, now)
            except DatabaseUnavailable:
                self._stale = True
                raise
        self._arrivals.note()
        return None

    def _hear_commits(self, now: float) -> None:
        while self._inbox:
            for place, position in self._inbox.popleft().items():
                self._delivery.commit(place, position, now)

    def _have(self, look: Look, now: float) -> None:
        """Have the partitions that a *look* says are the stream's, and let go of the others."""
        session = look.session(self.session_id)
        if session is not None and session.extensions != self._extensions:
            self._extensions = session.extensions
            self._delivery.extend(now)
        own = {slot.place: slot for slot in look.slots if slot.owner == self.session_id}
        had = set(self._delivery.places)
        for place in had - own.keys():
            self._delivery.remove(place, now)
            self._arrivals.remove(place)
        self._begin([slot for place, slot in own.items() if place not in had], now)
        for slot in own.values():
            self._update(slot, now)
        self._parked.update(look.parked, own.keys(), self._delivery, now)
        if not own:
            self._delivery.set_final_position(look.slots[0].place, look.slots[0].offset)
        if own.keys() != had:
            self._arrivals.wait()

    def _begin(self, slots: Sequence[StoredSlot], now: float) -> None:
        heads = self._arrivals.load([slot.place for slot in slots])
        for slot in slots:
            head = heads[slot.place]
            self._delivery.assign(slot.place, slot.offset, now)
            self._arrivals.begin(slot.place, head.next_offset)
            if head.floor > slot.offset:
                self._delivery.skip(slot.place, head.floor)

    def _update(self, slot: StoredSlot, now: float) -> None:
        place, delivery = slot.place, self._delivery
        delivery.commit(place, slot.offset, now)
        if slot.single_until > slot.offset:
            delivery.single_out(place, slot.single_until)
        if slot.heir is None and delivery.is_withdrawn(place):
            delivery.keep(place)
        elif slot.heir is not None and not delivery.is_withdrawn(place):
            delivery.withdraw(place, now)

    def _release(self) -> None:
        """Let others have what they are to have."""
        released = self._delivery.released_partitions
        if released:
            self._parts.sessions.release(self.subscription_id, self.session_id, released)
            for place in released:
                self._delivery.remove(place, self._clock())
                self._arrivals.remove(place)
            self._arrivals.wait()
            self._parts.live.changed(self.subscription_id)

    def _pass_over(self) -> "Future[Sequence[bool]] | None":
        """Commit what was left out, where nothing else is waited for; None: there is nothing."""
        self._passed_at = self._clock()
        if commits := [Commit(place, position) for place, position in self._delivery.filtered_positions.items()]:
            with suppress(HubStopped):
                return self._parts.commits.submit(self.subscription_id, self.session_id, commits, trusted=True)
        return None

    # What is read

    def _reads(self) -> Iterator[tuple[FeedPartition, EventChunk]]:
        """Read what there is of each partition in turn, as long as it may be sent."""
        rounds = ROUNDS
        while rounds and (readable := list(self._readable())):
            rounds -= 1
            for each in readable:
                if self._is_outdated:
                    return
                if (read := self._read(*each)) is not None:
                    yield each[0], read

    def _readable(self) -> Iterator[tuple[FeedPartition, int, int]]:
        """Yield what there is to be read: a partition, from where, and up to where at once."""
        rules = self._rules
        rows = min(ROWS_MAX, rules.max_uncommitted)
        if WHOLE_ROWS <= rules.batch_limit <= ROWS_MAX:
            rows = min(rows, rules.batch_limit)
        for place, start in self._delivery.wanted_offsets.items():
            end = self._arrivals.end(place)
            if start < end:
                yield place, start, min(end, start + rows)

    def _is_light(self, place: FeedPartition, start: int, stop: int) -> bool:
        """Tell whether reading that is little work."""
        return stop - start <= LIGHT_ROWS and not self._is_sifted(place)

    def _is_sifted(self, place: FeedPartition) -> bool:
        """Tell whether events have to be looked at one by one."""
        return bool(self._rules.timespan_seconds) or self._parked.waits_in(place)

    def _shared(self, place: FeedPartition, start: int, stop: int) -> EventChunk | None:
        """Return what somebody else has just read, where that is little; None: it has to be read."""
        light = self._is_light(place, start, stop)
        chunk = self._parts.reader.shared(self._arrivals.feed(place[0]), place[1], start, stop) if light else None
        return EventChunk(JoinedEvents(chunk.body, chunk.kept), range(start, stop), stop) if chunk else None

    def _read(self, place: FeedPartition, start: int, stop: int) -> EventChunk | None:
        reading = self._parts.reader.onward(self._arrivals.feed(place[0]), place[1], start, stop, ROWS_MAX)
        try:
            if not self._is_sifted(place):
                return next_events(self._parts.reader, reading, reading.tracks[0])
            timed = bool(self._rules.timespan_seconds)
            read, knows_better = self._parked.sifted(self._parts.reader, place, reading, timed=timed)
        except CursorExpired:
            self._delivery.skip(place, self._arrivals.load([place])[place].floor)
            return None
        self._stale |= knows_better
        return read
