"""Delivers a subscription's events to one stream: what may be sent now, what is committed, when it ends, and why.

There is no I/O and no clock here: whoever drives it hands in what was read and what was committed, and says what time
it is. Times are seconds of any clock that does not go back. (Digest of Nakadi's contract, 5.6 and 5.7; design 5.3.)

Invariants:
    Batches of a partition hold its events in their order, each once, from after what was committed on.
    What was sent and is not committed, and what is left out between, never exceeds the window.
    A stream ends once, and says why.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple

from penstock.core.assignment import Place
from penstock.core.proof import ParkedSpan
from penstock.core.stream_rules import Rules
from penstock.core.track import Read, Track

COMMIT_TIMEOUT: Final = "Commit timeout reached"
IDLE_TIMES: Final = 2
"""So many commit timeouts a stream waits without a partition."""


class Batch(NamedTuple):
    """What is to be sent of one partition."""

    place: Place
    position: int
    """The offset wanted next by whoever has this batch."""
    events: Sequence[bytes] = ()
    """None in a keep-alive."""
    debug: str | None = None
    parked: ParkedSpan | None = None
    """These are events of a parked key, sent again; a commit of theirs moves no position."""
    offsets: Sequence[int] = ()
    """Those of the events, where these do not follow each other up to right before *position*."""


class Delivery:
    """The batches of one stream. Not safe to use from two threads at once."""

    def __init__(self, rules: Rules, now: float) -> None:
        self._rules = rules
        self._tracks: dict[Place, Track] = {}
        self._resent: dict[int, tuple[Place, ParkedSpan]] = {}
        self._nowhere: tuple[Place, int] | None = None
        self._began = now
        self._alone_since: float | None = now
        self._waits_since = now
        """Since when a commit is waited for, if anything is uncommitted."""
        self._sent = 0
        self._ahead = 0
        """How far what is sent is ahead of what is committed, over all partitions."""
        self._debug: str | None = "Stream started"
        self._reason: str | None = None

    # What comes in

    def assign(self, place: Place, committed: int, now: float) -> None:
        """Have a partition, from the offset *committed* on: the one that is wanted next."""
        self._tracks[place] = Track(committed, now)
        self._alone_since = None

    def withdraw(self, place: Place, now: float) -> None:
        """Send no more of a partition: somebody else is to have it, as soon as what was sent is committed."""
        track = self._tracks[place]
        track.drop()
        track.withdrawn_at = now

    def keep(self, place: Place) -> None:
        """Go on sending a partition that was withdrawn: nobody else is to have it after all."""
        self._tracks[place].withdrawn_at = None

    def remove(self, place: Place, now: float) -> None:
        """Have a partition no longer."""
        self._ahead -= self._tracks.pop(place).ahead
        self._resent = {key: each for key, each in self._resent.items() if each[0] != place}
        if not self._tracks:
            self._alone_since = now

    def speak_for(self, place: Place, position: int) -> None:
        """Say why the stream ends as if of that partition, which others may have, should it end without any."""
        self._nowhere = (place, position)

    def resend(
        self, place: Place, span: ParkedSpan, events: Sequence[bytes], offsets: Sequence[int], now: float
    ) -> Batch:
        """Return the batch in which events of a parked key are sent again; they wait for a commit like others."""
        if not self._ahead and not self._resent:
            self._waits_since = now
        self._resent[span.parked_id] = place, span
        debug, self._debug = self._debug, None
        return Batch(place, self._tracks[place].sent, events, debug or "Parked events", span, offsets)

    def acknowledge(self, parked_id: int, now: float) -> None:
        """Take note that what was sent again of a parked key is committed."""
        if self._resent.pop(parked_id, None) is not None:
            self._waits_since = now

    def single_out(self, place: Place, until: int) -> None:
        """Send the events of a partition below the offset *until* one by one, each when all before are committed."""
        self._tracks[place].single_until = until

    def add(self, place: Place, read: Read) -> None:
        """Take what was read of a partition, behind what was taken before."""
        self._tracks[place].add(read)

    def skip(self, place: Place, position: int) -> None:
        """Go on at *position*: the events before it are gone; the next batch of the stream says how many."""
        track = self._tracks[place]
        if position > track.read:
            lost = f"skipped events due to retention time passed, count: {position - track.read}"
            self._debug = f"{self._debug}; {lost}" if self._debug else lost
            track.read = position

    def extend(self, now: float) -> None:
        """Begin the time anew in which what was sent has to be committed."""
        self._waits_since = now
        for track in self._tracks.values():
            if track.withdrawn_at is not None:
                track.withdrawn_at = now

    def commit(self, place: Place, position: int, now: float) -> None:
        """Take note that everything of a partition below *position* is committed: by this stream, or over its head."""
        track = self._tracks.get(place)
        if track is None or position <= track.known:
            return
        before = track.ahead
        track.commit(position)
        self._ahead += track.ahead - before
        self._waits_since = now

    # What is asked

    @property
    def reason(self) -> str | None:
        """Why nothing more is sent; None: the stream goes on."""
        return self._reason

    @property
    def places(self) -> Collection[Place]:
        """The partitions that it has."""
        return self._tracks.keys()

    @property
    def resent(self) -> Mapping[int, ParkedSpan]:
        """What was sent again of parked keys and is not committed, by the ids of the keys."""
        return {parked_id: span for parked_id, (_, span) in self._resent.items()}

    @property
    def resent_places(self) -> Collection[Place]:
        """The partitions of these keys."""
        return {place for place, _ in self._resent.values()}

    @property
    def uncommitted(self) -> Mapping[Place, int]:
        """Where what is sent is ahead of what is committed: up to which offset it is sent, by partition."""
        return {place: track.sent for place, track in self._tracks.items() if track.ahead}

    @property
    def committing_until(self) -> float:
        """When the time is over in which what was sent has to be committed."""
        return self._waits_since + self._rules.commit_s

    def was_sent(self, place: Place, position: int) -> bool:
        """Tell whether everything of a partition that it has was sent, up to *position*."""
        track = self._tracks.get(place)
        return track is not None and position <= track.sent

    def position(self, place: Place) -> int:
        """Return the offset below which everything of a partition that it has is known to be committed."""
        return self._tracks[place].known

    def is_withdrawn(self, place: Place) -> bool:
        """Tell whether a partition that it has is on its way to somebody else."""
        return self._tracks[place].withdrawn_at is not None

    @property
    def released(self) -> Collection[Place]:
        """The partitions that somebody else may have now."""
        idle = [place for place, track in self._tracks.items() if track.withdrawn_at is not None and not track.ahead]
        return [place for place in idle if all(place != busy for busy, _ in self._resent.values())]

    def overdue(self, now: float) -> Collection[Place]:
        """Return the partitions that somebody else is to have, and whose time to be committed is over."""
        return [
            place
            for place, track in self._tracks.items()
            if track.withdrawn_at is not None and track.ahead and now >= track.withdrawn_at + self._rules.commit_s
        ]

    @property
    def passed_over(self) -> Mapping[Place, int]:
        """What may be committed for the stream: partitions whose events up to there were all left out."""
        return {
            place: track.read
            for place, track in self._tracks.items()
            if track.withdrawn_at is None and not track.ahead and not track.waiting and track.read > track.known
        }

    @property
    def wanted(self) -> Mapping[Place, int]:
        """The offsets to read next, of those partitions for which there is room."""
        if self._size > self._rules.bytes_max or self._reason is not None:
            return {}
        enough = min(self._rules.max_uncommitted, self._rules.batch_limit)
        return {
            place: track.read
            for place, track in self._tracks.items()
            if track.withdrawn_at is None and track.waiting < enough
        }

    @property
    def due_at(self) -> float:
        """When `take` has something next, if nothing comes in before."""
        flushes = [track.sent_at + self._rules.flush_s for track in self._tracks.values() if track.withdrawn_at is None]
        return min([*flushes, *self._ends()])

    @property
    def ends_at(self) -> float:
        """When the stream ends at the latest, unless something is committed before."""
        return min(self._ends())

    # What goes out

    def take(self, now: float) -> Sequence[Batch]:
        """Return what is to be sent at *now*, in this order; it may end the stream."""
        if self._reason is not None:
            return ()
        found: list[Batch] = []
        self._cut(self._tracks, now, found)
        while self._size > self._rules.bytes_max and (heaviest := self._heaviest()) is not None:
            self._debug = self._debug or "Stream parameters are causing overflow"
            track = self._tracks[heaviest]
            self._send(heaviest, track, self._batch_size(track), now, found)
        reason = self._over(now)
        if reason is not None:
            if now >= self._began + self._rules.timeout_s:
                for place, track in self._tracks.items():
                    self._send(place, track, self._batch_size(track), now, found, says=False)
            found += self.end(reason)
        return found

    def take_one(self, place: Place, now: float) -> Sequence[Batch]:
        """Return a whole batch of a partition, if it has one that may be sent: the window is not for it alone.

        Where more waits than may, it is what `take` returns.
        """
        if self._size > self._rules.bytes_max:
            return self.take(now)
        found: list[Batch] = []
        if self._reason is None and (track := self._tracks[place]).withdrawn_at is None:
            self._send_whole(place, track, now, found)
        return found

    def expire(self, now: float) -> Sequence[Batch]:
        """End the stream if it is time to, and send nothing more before; return the batch that says why."""
        reason = self._over(now)
        return () if reason is None else self.end(reason)

    def end(self, reason: str) -> Sequence[Batch]:
        """End the stream, and return the batch that says why."""
        if self._reason is not None:
            return ()
        self._reason = reason
        for track in self._tracks.values():
            track.drop()
        first = min(self._tracks, default=None)
        place, position = (first, self._tracks[first].sent) if first else self._nowhere or (None, 0)
        return [] if place is None else [Batch(place, position, (), reason)]

    @property
    def _size(self) -> int:
        return sum(track.size for track in self._tracks.values())

    @property
    def _left(self) -> int:
        """How far more may be sent ahead of what is committed."""
        return self._rules.max_uncommitted - self._ahead

    def _cut(self, places: Iterable[Place], now: float, found: list[Batch]) -> None:
        """Send whole batches, and what a partition has that has been silent for too long.

        The next batch is that of the partition with the least that is not committed: one with many events, or a slow
        consumer, leaves room in the window for the others.
        """
        tracks = [(place, track) for place in places if (track := self._tracks[place]).withdrawn_at is None]
        turns = [(track.ahead, at) for at, (_, track) in enumerate(tracks) if track.waiting]
        heapify(turns)
        if len(turns) == 1:
            self._send_many(*tracks[turns[0][1]], now, found)
        while turns:
            place, track = tracks[turns[0][1]]
            if self._send_whole(place, track, now, found):
                heapreplace(turns, (track.ahead, turns[0][1]))
            else:
                heappop(turns)
        for place, track in tracks:
            if now >= track.sent_at + self._rules.flush_s:
                self._send(place, track, self._batch_size(track), now, found)

    def _send_many(self, place: Place, track: Track, now: float, found: list[Batch]) -> None:
        """Send what whole batches of a partition may be sent one after another, where nobody need look at each."""
        rules = self._rules
        if rules.stream_limit or rules.timespan_s or track.single_until > track.committed:
            return
        before = track.ahead
        batches = track.take_batches(rules.batch_limit, self._left)
        if not batches:
            return
        self._note_sent(track, before, rules.batch_limit * len(batches), now)
        found += [Batch(place, each.position, each.events, offsets=each.offsets) for each in batches]
        found[-len(batches)] = found[-len(batches)]._replace(debug=self._debug)
        self._debug = None

    def _send_whole(self, place: Place, track: Track, now: float, found: list[Batch]) -> bool:
        """Send a whole batch of a partition, if it has one that may be sent; tell whether."""
        size = self._batch_size(track)
        if not 0 < size <= track.waiting:
            return False
        before = track.sent
        self._send(place, track, size, now, found)
        return track.sent != before

    def _batch_size(self, track: Track) -> int:
        """Return how many events make the next batch; 0: none may be sent."""
        if track.is_suspected:
            return 0
        if track.single_until > track.sent and any(each.is_suspected for each in self._tracks.values()):
            return 0  # Were two sent at the same time, each alone in its partition, both would have failed for one.
        limit = 1 if track.single_until > track.sent else self._rules.batch_limit
        more = self._rules.stream_limit - self._sent if self._rules.stream_limit else limit
        spanned = track.spanned(self._rules.timespan_s)
        return max(0, min(limit, self._left, more, spanned))

    def _send(
        self, place: Place, track: Track, size: int, now: float, found: list[Batch], *, says: bool = True
    ) -> None:
        """Send up to *size* events of a partition, as far as the window goes; or, if it *says* so, that it has none."""
        more = self._rules.stream_limit - self._sent if self._rules.stream_limit else track.waiting
        before = track.ahead
        taken = track.take(min(size, more), self._left)
        if not taken.events and not says:
            return
        self._note_sent(track, before, len(taken.events), now)
        found.append(Batch(place, track.sent, taken.events, self._debug, offsets=taken.offsets))
        self._debug = None

    def _note_sent(self, track: Track, before: int, events: int, now: float) -> None:
        """Take note of what was sent of a partition that was *before* ahead; without events, that it has none."""
        if events and not self._ahead and not self._resent:
            self._waits_since = now
        self._ahead += track.ahead - before
        self._sent += events
        is_held_up = track.waiting > 0
        track.keep_alives = 0 if events or is_held_up else track.keep_alives + 1
        track.sent_at = now

    def _heaviest(self) -> Place | None:
        """Return the partition with the most that may be sent."""
        able = [place for place, track in self._tracks.items() if track.waiting and self._batch_size(track) > 0]
        return max(able, key=lambda place: self._tracks[place].size, default=None)

    def _ends(self) -> list[float]:
        """Return when the stream ends, for each of the reasons that a time can be."""
        rules = self._rules
        found = [self._began + rules.timeout_s]
        if self._ahead or self._resent:
            found.append(self._waits_since + rules.commit_s)
        if self._alone_since is not None:
            found.append(self._alone_since + IDLE_TIMES * rules.commit_s)
        found += [
            track.withdrawn_at + rules.commit_s
            for track in list(self._tracks.values())  # It is asked by who sends, while a step lets go of some.
            if track.withdrawn_at is not None and track.ahead
        ]
        return found

    def _over(self, now: float) -> str | None:
        rules = self._rules
        if now >= self._began + rules.timeout_s:
            return "Stream timeout reached"
        if (self._ahead or self._resent) and now >= self._waits_since + rules.commit_s:
            return COMMIT_TIMEOUT
        if rules.stream_limit and self._sent >= rules.stream_limit and not self._ahead:
            return f"Stream limit in events reached: {self._sent}"
        silent = min((track.keep_alives for track in self._tracks.values()), default=0)
        if 0 < rules.keep_alive_limit <= silent:
            return f"Keep-alive limit reached: {rules.keep_alive_limit}"
        if self._alone_since is not None and now >= self._alone_since + IDLE_TIMES * rules.commit_s:
            return "No partition was free for this stream"
        if self.overdue(now):
            return "A partition was reassigned and not committed in time"
        return None
