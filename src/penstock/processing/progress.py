"""Progress of a processor: it connects the engine with its source and its checkpoints."""

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import uuid4

from penstock.core.groups.parking import Request
from penstock.errors import BadParameter, CheckpointMoved, EventsLost, PenstockError
from penstock.processing.checkpoints.checkpoint import (
    Advance,
    Checkpoints,
    ExactCheckpoints,
    HandingCheckpoints,
    PositionMove,
    RecordedCheckpoints,
)
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.parking import Parked, Parking, Place
from penstock.processing.engine.stream import Call
from penstock.processing.engine.tranche import Batch, Position
from penstock.processing.outcomes import Failure, Outcome
from penstock.processing.sources.source import ReadRequest, Source

REPLAY_EVENTS: Final = 10_000
"""The number of events of one read, including those of streams that are not retried."""


class PageReplay(NamedTuple):
    """A page to read again."""

    parked: Sequence[Parked]
    """The parked streams that need the page, which are read on from there."""
    want: ReadRequest

    @property
    def tranche(self) -> str:
        """The tranche of the page."""
        return self.parked[0].tranche


def group_replays(engine: Engine, tranches: Collection[str]) -> list[PageReplay]:
    """Return the pages of these *tranches* to read again now.

    Each tranche gets one page, for the stream that has waited longest and all others that can be read on from there.
    The limit of events read ahead applies to replayed events separately.
    """
    asked: defaultdict[str, list[Parked]] = defaultdict(list)
    for parked in engine.list_replays() if engine.parking.retried else ():
        if parked.tranche in tranches:
            asked[parked.tranche].append(parked)
    found = [_plan_page(waiting, engine) for waiting in asked.values()]
    return [replay for replay in found if replay is not None]


def select_requests(
    requests: Mapping[Place, Request], parking: Parking, begun: Collection[str], there: Collection[str]
) -> dict[str, Request]:
    """Return the requests for parked streams to apply now, by stream.

    For a stream that is parked in several tranches the request of the first counts; others may be outdated.

    Args:
        requests: The operators' requests.
        parking: The parked streams.
        begun: The open tranches. Opening a tranche resets its applied requests.
        there: The tranches of the source.
    """
    known = {place: parking.streams.get(place[0], {}) for place in requests} if there else {}
    first = {place: spans for place, spans in known.items() if place[1] == next(iter(spans), None)}
    ready = (place for place, spans in first.items() if all(each in begun or each not in there for each in spans))
    return {
        stream: requests[stream, tranche]
        for stream, tranche in ready
        if requests[stream, tranche] == "skip" or not _is_tried(stream, parking)
    }


def _is_tried(stream: str, parking: Parking) -> bool:
    # A request from before a stream was parked again has been applied.
    return stream in parking.retried or parking.is_fresh(stream)


def _plan_page(waiting: Sequence[Parked], engine: Engine) -> PageReplay | None:
    """Return the page to read for the streams *waiting* in one tranche; None: there is no room for it."""
    place, most = waiting[0], engine.rules.events_ahead
    left = most - engine.count_replaying(place.tranche)
    if left < most - most // 2:  # Else pages would be small and numerous.
        if not engine.parking.is_searched(place.stream):
            return None
        left = most  # Held events may wait for events of the next page.
    together = [each for each in waiting if each.since == place.since]
    return PageReplay(together, ReadRequest(place.since, min(REPLAY_EVENTS, left)))


_log: Final = logging.getLogger("penstock.processing")
UNSETTLED: Final = -1.0
"""Less than any number of polls: parked streams are being retried, or their results are not committed."""
CONCEDED_MAX: Final = 5
"""The processor ends after this number of consecutive restarts of a tranche that others move."""


class Beginning(NamedTuple):
    """The state with which a tranche is opened."""

    position: Position
    kept: Position | None
    """Its committed position."""
    parked: Sequence[Parked]
    ahead: Mapping[str, int] | None
    """By stream, the index up to which it is handled beyond the position; None: it is not stored."""


class ResultsRejected(Exception):
    """The processor may not commit results of calls: another may own their tranche."""


class Progress:
    """The progress of a processor: compares its engine with its checkpoints, and commits the difference.

    Args:
        engine: The processor's engine.
        source: The processor's source.
        checkpoints: The store of the processor's positions.
        keeps_ahead: True: store also the streams that are ahead. False: store of these only streams whose parked span
            has ended, if the checkpoints can.

    Raises:
        BadParameter: the rules park streams, and the checkpoints or the source cannot resume them. Or
            (`find_new_tranches`) the rules require all events, and the processor does not begin where the source does.
    """

    def __init__(self, engine: Engine, source: Source, checkpoints: Checkpoints, *, keeps_ahead: bool = False) -> None:
        if engine.rules.exhausted == "park":
            if not checkpoints.keeps_parked and isinstance(checkpoints, HandingCheckpoints):
                allowed = "'stop', or a SubscriptionSource without `stream`: the hub parks the keys of the event type"
                raise BadParameter(parameter="exhausted", value="park", allowed=allowed)
            if not checkpoints.keeps_parked:
                allowed = "'stop', since these checkpoints keep no parked streams; HubCheckpoints do"
                raise BadParameter(parameter="exhausted", value="park", allowed=allowed)
            if not (source.is_replayable or isinstance(checkpoints, HandingCheckpoints)):
                allowed = "'stop', since the source gives its events once: what is parked could not be read again"
                raise BadParameter(parameter="exhausted", value="park", allowed=allowed)
        self._engine = engine
        self._source = source
        self._checkpoints = checkpoints
        self._keeps_ahead = keeps_ahead
        self._taking_over = checkpoints if isinstance(checkpoints, ExactCheckpoints) else None
        """Checkpoints that take tranches over, so that their former owner can no longer commit."""
        self._owner = None if self._taking_over is None else uuid4().hex
        self._kept: dict[str, Position] = dict(checkpoints.positions())
        self._there: frozenset[str] = frozenset()
        """The source's tranches at the last survey."""
        self._open: set[str] = set()
        self._owned: frozenset[str] | None = None
        """The tranches that this processor owns; None: all."""
        self._is_assigned = False
        """True if the owned tranches were assigned, and none is still to come."""
        self.poll_count = 0
        """The number of polls for requests for parked streams."""
        self.polls_awaited = 0
        """The number of polls after which the requests of all streams parked when a tranche was opened are known."""
        self.settled_at_poll = UNSETTLED
        """The number of polls after which no parked stream was being retried or had results to commit; infinite while
        no stream is parked, since no request can exist then. Any thread may read it."""
        self.closing: set[str] = set()
        """The tranches to release."""
        self._lost: set[str] = set()
        """Those of them that another processor may own already."""
        self._conceded: Counter[str] = Counter()
        """The number of consecutive times that a tranche was given up since another had moved it."""
        self._doubtful: dict[str, set[Position]] = {}
        """Possible committed positions by tranche: those of all consecutive failed commits, whose answers were lost."""
        if checkpoints.keeps_parked:
            engine.parking.load(checkpoints.parked())

    def find_new_tranches(self) -> dict[str, Beginning]:
        """Return the beginnings of the source's new tranches: the stored positions, or the start."""
        there = self.list_source_tranches()
        new = [each for each in there if each not in self._open and self._is_owned(each)]
        if not new:
            return {}
        kept: Mapping[str, Position] = self._kept
        parked: Sequence[Parked] = ()
        ahead: Mapping[str, Mapping[str, int]] = {}
        if self._taking_over is not None and self._owner is not None:
            ahead = self._taking_over.take_over(new, self._owner)
        if self._is_shared:  # Others owned them meanwhile, or until the takeover.
            kept, parked = self._checkpoints.positions(), self._checkpoints.parked()
        return {each: self._find_beginning(each, kept, parked, ahead.get(each)) for each in new}

    def open(self, found: Mapping[str, Beginning]) -> None:
        """Open tranches at their beginnings."""
        for tranche, beginning in found.items():
            if tranche not in self._open and self._is_owned(tranche):
                parking = self._engine.parking
                if self._is_shared:
                    parking.unload(tranche)
                    parking.load(beginning.parked)
                    self._kept.pop(tranche, None)
                    if beginning.kept is not None:
                        self._kept[tranche] = beginning.kept
                if any(tranche in spans for spans in parking.streams.values()):
                    self.polls_awaited, self.settled_at_poll = (
                        self.poll_count + 1,
                        UNSETTLED,
                    )  # Its requests have to be applied.
                self._open.add(tranche)
                self._engine.open(tranche, beginning.position, beginning.ahead, is_exact=self._keeps_ahead)

    def own(self, tranches: frozenset[str], coming: frozenset[str] | None = None) -> None:
        """Own only these tranches from now on: others give no more calls, and are released once they are finished.

        Args:
            tranches: The owned tranches.
            coming: Further tranches that will be assigned; None: unknown.
        """
        self._is_assigned = coming is not None and not coming
        if self._owned is None:
            self._share()
        self._owned = tranches
        for tranche in self._open - tranches:
            self._close(tranche)

    def _share(self) -> None:
        """Forget all positions, since other processors may move them."""
        for tranche in self._kept.copy():
            self._engine.parking.unload(tranche)
        self._kept.clear()

    def _close(self, tranche: str) -> None:
        if tranche not in self.closing:
            self._engine.close(tranche)
            self.closing.add(tranche)

    def give_up(self) -> None:
        """Stop committing tranches that are to be released: others may own them already."""
        self._lost |= self.closing

    def concede(self, error: CheckpointMoved) -> None:
        """Give up a tranche that another processor has moved; if still owned, it is reopened at the new position.

        Raises:
            CheckpointMoved: *error*, if tranches are not shared, or too many moves follow each other.
        """
        tranche = error.tranche
        self._conceded[tranche] += 1
        if self._owned is None or self._conceded[tranche] > CONCEDED_MAX:
            raise error
        _log.warning("what is not committed of %s comes again, to whoever has it: %s", tranche, error.detail)
        if tranche in self._open:
            self._close(tranche)
            self._lost.add(tranche)

    def filter_unopened(self, tranches: Collection[str]) -> frozenset[str]:
        """Return those of *tranches* that are not open."""
        return frozenset(tranches) - self._open

    def forget_finished(self) -> frozenset[str]:
        """Close tranches that are idle and whose progress is committed; return those to release.

        Tranches that are owned again meanwhile are not returned: they are reopened.
        """
        engine, moves = self._engine, self.find_advance().moves
        done = {
            each for each in self.closing if not engine.is_active(each) and (each in self._lost or each not in moves)
        }
        for tranche in done:
            engine.forget(tranche)
            self._kept.pop(tranche, None)
            self._doubtful.pop(tranche, None)
        self._open -= done
        self.closing -= done
        self._lost -= done
        return frozenset(each for each in done if self._owned is None or each not in self._owned)

    def list_source_tranches(self) -> Collection[str]:
        """Return all tranches of the source, regardless of their owners."""
        there = self._source.tranches()
        self._there = frozenset(there)  # So that new tranches that are owned are opened.
        return there

    @property
    def _is_shared(self) -> bool:
        """True if another processor may have committed since this one was made, without ending this one."""
        return self._owned is not None or self._taking_over is not None

    def _is_owned(self, tranche: str) -> bool:
        return self._owned is None or tranche in self._owned

    def _find_beginning(
        self, tranche: str, all_kept: Mapping[str, Position], parked: Sequence[Parked], ahead: Mapping[str, int] | None
    ) -> Beginning:
        kept = all_kept.get(tranche)
        position = self._source.beginning(tranche, [*all_kept]) if kept is None else kept
        if self._engine.rules.require_all and kept is not None and kept != self._source.beginning(tranche):
            allowed = (
                f"False where it goes on at {kept} of {tranche}: what streams had before that is not known any more"
            )
            raise BadParameter(parameter="require_all", value=True, allowed=allowed)
        return Beginning(position, kept, [each for each in parked if each.tranche == tranche], ahead)

    def plan_reads(self) -> dict[str, ReadRequest]:
        """Return the reads to make now, of tranches for which there is room."""
        engine = self._engine
        return {
            tranche: ReadRequest(engine.tranche(tranche).read, room)
            for tranche in sorted(self._open - self.closing)
            if (room := engine.room(tranche))
        }

    @property
    def has_begun(self) -> bool:
        """True if tranches are open: any, or all that are owned and there."""
        if self._owned is None:
            return bool(self._open)
        return self._is_assigned and self._owned & self._there <= self._open  # Others may know files that are gone.

    @property
    def has_parked(self) -> bool:
        """True if a stream is parked, or was and its requests were not polled yet."""
        return bool(self._engine.parking.streams) or self.poll_count < self.polls_awaited

    @property
    def retried(self) -> Sequence[str]:
        """The parked streams that are being retried. Any thread may read them."""
        return [*self._engine.parking.retried]

    @property
    def has_parked_changes(self) -> bool:
        """True if results of parked streams are not committed yet. Any thread may read it."""
        return self._engine.parking.has_changes

    @property
    def is_doubtful(self) -> bool:
        """True if the result of a commit is unknown; `commit` resolves it."""
        return bool(self._doubtful)

    def behind(self, positions: Mapping[str, Position] | None = None) -> Mapping[str, int | None]:
        """Return how many events each tranche has behind *positions*, by default the committed ones.

        Any thread may call it.
        """
        found = self._source.behind({**self._kept} if positions is None else positions)
        return found if self._owned is None else {each: found[each] for each in found if each in self._owned}

    def apply_requests(self, requests: Mapping[Place, Request]) -> bool:
        """Apply requests for parked streams; return whether any was new."""
        new = select_requests(requests, self._engine.parking, self._open, self._there)
        for stream, request in new.items():
            if request == "skip":
                self._engine.drop(stream)
            else:
                self._engine.retry(stream)
        return bool(new)

    def record(self, tranche: str, reason: str) -> None:
        """Record an action, if the checkpoints keep records. Any thread may call it."""
        if isinstance(self._checkpoints, RecordedCheckpoints):
            self._checkpoints.record(tranche, reason)

    def plan_replays(self) -> list[PageReplay]:
        """Return the pages to read again now for retried streams; a stream that cannot be read again stays parked."""
        engine = self._engine
        for parked in engine.list_replays() if engine.parking.retried and self._there else ():
            if parked.tranche not in self._there and parked.tranche not in self._open:
                engine.parking.fail(parked, _to_gone_failure([parked], f"its source has no {parked.tranche} any more"))
        return group_replays(engine, self._open - self.closing)

    def reread(self, replay: PageReplay) -> Batch | Failure:
        """Return a page that is read again for retried streams; if its events are gone, return the failure."""
        try:
            return self._source.reread(replay.tranche, replay.want)
        except EventsLost as error:
            return _to_gone_failure(replay.parked, error.detail)

    def commit(self) -> bool:
        """Commit the changes since the last commit, and apply requests for parked streams; return whether any existed.

        Raises:
            CheckpointMoved: another processor has the same name, or an operator has moved the checkpoint.
        """
        advance = self.find_advance()
        has_news = (advance or self.has_parked) and self.confirm(advance, self.write(advance))
        return bool(advance or has_news)

    def find_advance(self) -> Advance:
        """Return the changes to commit."""
        self._note_settled()  # Before others can read it in the checkpoints, and make requests.
        engine = self._engine
        return self._make_advance(
            self._find_moves(engine.positions()), engine.parking.find_changes(), engine.find_ahead_changes()
        )

    def plan_advance(self, results: Iterable[tuple[Call, Outcome | Failure]]) -> Advance:
        """Return the changes to commit together with these *results* of calls.

        They include positions that do not move: an unchanged position shows that no other processor has the name.

        Raises:
            ResultsRejected: a result is of a tranche that another may own, or of a stream that was given up meanwhile.
        """
        engine, foreseen = self._engine, self._engine.predict(results)
        if foreseen.touched & self._lost or foreseen.gone:
            raise ResultsRejected
        moves = self._compare_positions(self._kept) | self._find_moves(foreseen.positions)
        return self._make_advance(moves, {**engine.parking.find_changes(), **foreseen.parked}, foreseen.ahead)

    def _make_advance(
        self, moves: dict[str, PositionMove], parked: Mapping[Place, Parked | None], ahead: Mapping[Place, int | None]
    ) -> Advance:
        if self._lost:
            parked = {place: each for place, each in parked.items() if place[1] not in self._lost}
            ahead = {place: index for place, index in ahead.items() if place[1] not in self._lost}
        anew, tried = self._engine.parking.list_parked_anew(parked), self._engine.parking.list_tried(parked, self._lost)
        # Nothing may be stored of tranches that others have taken over or moved, even without a move here.
        beside = {tranche for _, tranche in (*parked, *ahead, *tried)}
        if any(move.before is None for move in moves.values()):  # Opening a tranche requires the others.
            beside |= self._kept.keys()
        return Advance(self._compare_positions(beside) | moves, parked, ahead, anew, tried, self._owner)

    def _find_moves(self, positions: Mapping[str, Position]) -> dict[str, PositionMove]:
        kept = self._kept
        return {
            name: PositionMove(kept.get(name), position)
            for name, position in positions.items()
            if position != kept.get(name) and name not in self._lost
        }

    def _compare_positions(self, tranches: Iterable[str]) -> dict[str, PositionMove]:
        kept = self._kept
        return {name: PositionMove(kept[name], kept[name]) for name in tranches if name in kept and self._is_held(name)}

    def _is_held(self, tranche: str) -> bool:
        return tranche in self._open and tranche not in self._lost

    def write(self, advance: Advance) -> Mapping[Place, Request]:
        """Store *advance*, and return the requests for parked streams. Another thread may call it, one at a time.

        Raises:
            CheckpointMoved: another processor has the same name, or an operator has moved the checkpoint.
            PenstockError: *advance* may or may not be stored: try again later.
        """
        checkpoints = self._checkpoints
        if self._doubtful:
            advance = self._resolve_doubt(advance)
        try:
            if advance:
                checkpoints.commit(advance)
            requests = checkpoints.requests() if checkpoints.keeps_parked else {}
        except CheckpointMoved:
            raise
        except PenstockError:
            for tranche, move in advance.moves.items():
                self._doubtful.setdefault(tranche, set()).add(move.after)
            raise
        self._doubtful.clear()
        return requests

    def confirm(self, advance: Advance, requests: Mapping[Place, Request] | None) -> bool:
        """Record that *advance* is stored, and apply *requests* for parked streams; return whether any was new.

        *requests* None: they were not polled.
        """
        self._kept |= {tranche: move.after for tranche, move in advance.moves.items()}
        for tranche in advance.moves:
            self._conceded.pop(tranche, None)
        if advance.parked and isinstance(self._checkpoints, HandingCheckpoints):
            self._engine.parking.hand_over(advance.parked)
            self._checkpoints.confirm_hand_over()
        else:
            self._engine.parking.confirm(advance.parked, advance.anew, advance.tried)
        self._engine.confirm_ahead(advance.ahead)
        is_new = False
        if requests is not None:
            self.poll_count += 1
            is_new = self.apply_requests(requests)
        self._note_settled()
        return is_new

    def _note_settled(self) -> None:
        parking = self._engine.parking
        if parking.retried or parking.has_changes or self.poll_count < self.polls_awaited:
            self.settled_at_poll = UNSETTLED
        else:
            self.settled_at_poll = self.poll_count if parking.streams else float("inf")

    def _resolve_doubt(self, advance: Advance) -> Advance:
        """Return *advance* from the positions in the checkpoints, since the results of earlier commits are unknown."""
        found = self._checkpoints.positions()
        moves = {}
        for tranche, move in advance.moves.items():
            was_kept = found.get(tranche) in self._doubtful.get(tranche, ())
            moves[tranche] = PositionMove(found.get(tranche), move.after) if was_kept else move
        compared = {tranche for _, tranche in (*advance.parked, *advance.ahead)}
        moves = {name: move for name, move in moves.items() if move.before != move.after or name in compared}
        return advance._replace(moves=moves)


def _to_gone_failure(parked: Iterable[Parked], reason: str) -> Failure:
    streams = ", ".join(each.stream for each in parked)
    _log.warning("What was parked cannot be tried again of %s: %s", streams, reason)
    return Failure("gone", reason)
