"""Where a processor begins, what it reads and what it commits: its engine between its source and its checkpoints."""

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import uuid4

from penstock.core.group_parking import Request
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
from penstock.processing.engine.item import Batch, Position
from penstock.processing.engine.parking import Parked, Parking, Place
from penstock.processing.engine.stream import Call
from penstock.processing.outcomes import Failure, Outcome
from penstock.processing.sources.source import ReadRequest, Source

REPLAY_EVENTS: Final = 10_000
"""How many events are read at once; those of streams that are not tried again are among them."""


class PageReplay(NamedTuple):
    """A page that is to be read again."""

    parked: Sequence[Parked]
    """For whom: all of them are read on from there."""
    want: ReadRequest

    @property
    def tranche(self) -> str:
        """Which tranche it is a page of."""
        return self.parked[0].tranche


def replays_of(engine: Engine, tranches: Collection[str]) -> list[PageReplay]:
    """Return what is to be read again now, of these *tranches*.

    Of each that is one page, for the stream that has waited longest and all others that are read on from there. Of what
    was read again as many events are held as may be read ahead, beside those that are.
    """
    asked: defaultdict[str, list[Parked]] = defaultdict(list)
    for parked in engine.replays() if engine.parking.retried else ():
        if parked.tranche in tranches:
            asked[parked.tranche].append(parked)
    found = [_replay(waiting, engine) for waiting in asked.values()]
    return [replay for replay in found if replay is not None]


def news_of(
    requests: Mapping[Place, Request], parking: Parking, begun: Collection[str], there: Collection[str]
) -> dict[str, Request]:
    """Return of which parked streams something is wanted that is to be done now, and what.

    Of one that is parked in several tranches it counts what is wanted of the first: of others it may be left over.

    Args:
        requests: What is wanted.
        parking: What is parked.
        begun: The tranches that are begun with. To begin with one is to forget what was heeded of it.
        there: Those that the source has.
    """
    known = {place: parking.streams.get(place[0], {}) for place in requests} if there else {}
    first = {place: spans for place, spans in known.items() if place[1] == next(iter(spans), None)}
    ready = (place for place, spans in first.items() if all(each in begun or each not in there for each in spans))
    return {
        stream: requests[stream, tranche]
        for stream, tranche in ready
        if requests[stream, tranche] == "skip" or not _was_tried(stream, parking)
    }


def _was_tried(stream: str, parking: Parking) -> bool:
    # What was asked before a stream was parked anew has been done.
    return stream in parking.retried or parking.is_fresh(stream)


def _replay(waiting: Sequence[Parked], engine: Engine) -> PageReplay | None:
    """Return the page that is to be read for those who are *waiting* in one tranche; None: there is no room for it."""
    place, most = waiting[0], engine.rules.events_ahead
    left = most - engine.replaying(place.tranche)
    if left < most - most // 2:  # Else pages would be small, and many.
        if not engine.parking.is_searched(place.stream):
            return None
        left = most  # What is held may wait for what is in the next page.
    together = [each for each in waiting if each.since == place.since]
    return PageReplay(together, ReadRequest(place.since, min(REPLAY_EVENTS, left)))


_log: Final = logging.getLogger("penstock.processing")
UNSETTLED: Final = -1.0
"""Less than any number of looks: parked streams are tried again, or what has come of them is not committed."""
CONCEDED_MAX: Final = 5
"""So often in a row a tranche is begun with anew that others move, before that ends the processor."""


class Beginning(NamedTuple):
    """Where a tranche is begun with."""

    position: Position
    kept: Position | None
    """What is committed of it."""
    parked: Sequence[Parked]
    ahead: Mapping[str, int] | None
    """Up to which index streams are handled beyond it; None: that is not kept."""


class NotToBeKept(Exception):
    """What calls have come to is not this processor's to keep any more."""


class Progress:
    """The checkpoints of a processor, held against what its engine has come to.

    Args:
        engine: Of the processor.
        source: Where it reads.
        checkpoints: Where it keeps how far it is.
        keeps_ahead: Whether it is to be kept there, too, which streams are ahead; else only which had something parked
            that is no more, where that can be kept.

    Raises:
        BadParameter: streams are to be parked, and nobody could come back to them. Or (`survey`) all events are
            required, and it does not begin where the source does.
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
        """Where tranches are taken over, so that whoever had them commits nothing of them any more."""
        self._owner = None if self._taking_over is None else uuid4().hex
        self._kept: dict[str, Position] = dict(checkpoints.positions())
        self._there: frozenset[str] = frozenset()
        """What the source had when it was looked last."""
        self._open: set[str] = set()
        self._owned: frozenset[str] | None = None
        """The tranches that are this processor's; None: all."""
        self._is_told = False
        """Whether somebody has said which they are, and they are all here."""
        self.heeded = 0
        """How often it was looked what is wanted of parked streams."""
        self.unheeded = 0
        """After how many looks that is known of all that was parked when tranches were begun with."""
        self.settled = UNSETTLED
        """After how many looks no parked stream was tried again, and nothing of any was left to commit; infinite while
        no stream is parked, since nothing can be wanted then. May be read by any thread."""
        self.closing: set[str] = set()
        """Those that are to be let go of."""
        self._lost: set[str] = set()
        """Those of them that may be another's by now."""
        self._conceded: Counter[str] = Counter()
        """How often in a row tranches were given up since another had moved them."""
        self._doubtful: dict[str, set[Position]] = {}
        """Where tranches may be, since answers were lost: of all commits in a row that have failed."""
        if checkpoints.keeps_parked:
            engine.parking.load(checkpoints.parked())

    def survey(self) -> dict[str, Beginning]:
        """Ask the source for tranches that are new; return where each is begun with: where it was left, if it was."""
        there = self.source_tranches()
        new = [each for each in there if each not in self._open and self._is_owned(each)]
        if not new:
            return {}
        kept: Mapping[str, Position] = self._kept
        parked: Sequence[Parked] = ()
        ahead: Mapping[str, Mapping[str, int]] = {}
        if self._taking_over is not None and self._owner is not None:
            ahead = self._taking_over.take_over(new, self._owner)
        if self._is_shared:  # Others had them meanwhile, or until they were taken over.
            kept, parked = self._checkpoints.positions(), self._checkpoints.parked()
        return {each: self._beginning(each, kept, parked, ahead.get(each)) for each in new}

    def open(self, found: Mapping[str, Beginning]) -> None:
        """Begin with tranches."""
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
                    self.unheeded, self.settled = self.heeded + 1, UNSETTLED  # What was wanted of it is to be heeded.
                self._open.add(tranche)
                self._engine.open(tranche, beginning.position, beginning.ahead, is_exact=self._keeps_ahead)

    def own(self, tranches: frozenset[str], coming: frozenset[str] | None = None) -> None:
        """Have only these tranches from now on: others are handed out no more, and let go of when they are `closed`.

        Args:
            tranches: What it has.
            coming: What it is to have beside these; None: that is not known.
        """
        self._is_told = coming is not None and not coming
        if self._owned is None:
            self._share()
        self._owned = tranches
        for tranche in self._open - tranches:
            self._close(tranche)

    def _share(self) -> None:
        """Know of no tranche any more, since others may have it."""
        for tranche in self._kept.copy():
            self._engine.parking.unload(tranche)
        self._kept.clear()

    def _close(self, tranche: str) -> None:
        if tranche not in self.closing:
            self._engine.close(tranche)
            self.closing.add(tranche)

    def give_up(self) -> None:
        """Commit nothing more of what is to be let go of: others may have it already."""
        self._lost |= self.closing

    def concede(self, error: CheckpointMoved) -> None:
        """Give a tranche up that another has moved; if it is still this one's, it is begun with anew from there.

        Raises:
            CheckpointMoved: *error*, where tranches are not shared, or when that has come too often in a row.
        """
        tranche = error.tranche
        self._conceded[tranche] += 1
        if self._owned is None or self._conceded[tranche] > CONCEDED_MAX:
            raise error
        _log.warning("what is not committed of %s comes again, to whoever has it: %s", tranche, error.detail)
        if tranche in self._open:
            self._close(tranche)
            self._lost.add(tranche)

    def unopened(self, tranches: Collection[str]) -> frozenset[str]:
        """Return those of *tranches* that were not begun with, or are `closed`."""
        return frozenset(tranches) - self._open

    def closed(self) -> frozenset[str]:
        """Forget what nothing is under way of, and what is done is committed of; return what is to be let go of.

        That is all of it but what is this one's again by now: that is begun with anew.
        """
        engine, moves = self._engine, self.advance().moves
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

    def source_tranches(self) -> Collection[str]:
        """Return all that the source has, whoever has them."""
        there = self._source.tranches()
        self._there = frozenset(there)  # So that it is begun with what is new and is this one's.
        return there

    @property
    def _is_shared(self) -> bool:
        """Whether another may have committed since this processor was made, and not be ended by that."""
        return self._owned is not None or self._taking_over is not None

    def _is_owned(self, tranche: str) -> bool:
        return self._owned is None or tranche in self._owned

    def _beginning(
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

    def wants(self) -> dict[str, ReadRequest]:
        """Return what is to be read now, of those tranches that there is room for."""
        engine = self._engine
        return {
            tranche: ReadRequest(engine.tranche(tranche).read, room)
            for tranche in sorted(self._open - self.closing)
            if (room := engine.room(tranche))
        }

    @property
    def has_begun(self) -> bool:
        """Whether there is any tranche."""
        if self._owned is None:
            return bool(self._open)
        return self._is_told and self._owned & self._there <= self._open  # Others may know files that are gone by now.

    @property
    def has_parked(self) -> bool:
        """Whether any stream is parked, or was, and it was not looked yet what is wanted of it."""
        return bool(self._engine.parking.streams) or self.heeded < self.unheeded

    @property
    def retried(self) -> Sequence[str]:
        """The streams that are parked and tried again. May be asked by any thread."""
        return [*self._engine.parking.retried]

    @property
    def has_parked_changes(self) -> bool:
        """Whether what has come of parked streams is not committed yet. May be asked by any thread."""
        return self._engine.parking.has_changes

    @property
    def is_doubtful(self) -> bool:
        """Whether it is not known what came of a commit: `commit` finds out."""
        return bool(self._doubtful)

    def behind(self, positions: Mapping[str, Position] | None = None) -> Mapping[str, int | None]:
        """Return how many events each tranche has behind *positions*, by default the committed ones.

        May be asked by any thread.
        """
        found = self._source.behind({**self._kept} if positions is None else positions)
        return found if self._owned is None else {each: found[each] for each in found if each in self._owned}

    def heed(self, requests: Mapping[Place, Request]) -> bool:
        """Take up what is wanted of parked streams; tell whether that was anything new."""
        new = news_of(requests, self._engine.parking, self._open, self._there)
        for stream, request in new.items():
            if request == "skip":
                self._engine.drop(stream)
            else:
                self._engine.retry(stream)
        return bool(new)

    def record(self, tranche: str, reason: str) -> None:
        """Keep on record what was done, where that can be kept. May be asked by any thread."""
        if isinstance(self._checkpoints, RecordedCheckpoints):
            self._checkpoints.record(tranche, reason)

    def replays(self) -> list[PageReplay]:
        """Return what is to be read again now, for streams that are tried again; what cannot be is parked as before."""
        engine = self._engine
        for parked in engine.replays() if engine.parking.retried and self._there else ():
            if parked.tranche not in self._there and parked.tranche not in self._open:
                engine.parking.fail(parked, _gone([parked], f"its source has no {parked.tranche} any more"))
        return replays_of(engine, self._open - self.closing)

    def reread(self, replay: PageReplay) -> Batch | Failure:
        """Return what is read again for streams that are tried again; that it is gone is a failure of these."""
        try:
            return self._source.reread(replay.tranche, replay.want)
        except EventsLost as error:
            return _gone(replay.parked, error.detail)

    def commit(self) -> bool:
        """Commit what has changed since, and heed what is wanted of parked streams; tell whether there was anything.

        Raises:
            CheckpointMoved: another processor has the same name, or somebody has moved it.
        """
        advance = self.advance()
        has_news = (advance or self.has_parked) and self.committed(advance, self.write(advance))
        return bool(advance or has_news)

    def advance(self) -> Advance:
        """Return what is to be committed."""
        self._note_settled()  # Before others can read it in the checkpoints, and ask for something.
        engine = self._engine
        return self._advance(self._moves(engine.positions()), engine.parking.changes(), engine.ahead())

    def advance_if(self, results: Iterable[tuple[Call, Outcome | Failure]]) -> Advance:
        """Return what is to be committed together with these *results* of calls.

        Positions that do not move are among it: that they are where they were shows that nobody else has the name.

        Raises:
            NotToBeKept: some are of a tranche that may be another's by now, or of a stream that was given up meanwhile.
        """
        engine, foreseen = self._engine, self._engine.foresee(results)
        if foreseen.touched & self._lost or foreseen.gone:
            raise NotToBeKept
        moves = self._standing(self._kept) | self._moves(foreseen.positions)
        return self._advance(moves, {**engine.parking.changes(), **foreseen.parked}, foreseen.ahead)

    def _advance(
        self, moves: dict[str, PositionMove], parked: Mapping[Place, Parked | None], ahead: Mapping[Place, int | None]
    ) -> Advance:
        if self._lost:
            parked = {place: each for place, each in parked.items() if place[1] not in self._lost}
            ahead = {place: index for place, index in ahead.items() if place[1] not in self._lost}
        anew, tried = self._engine.parking.anew(parked), self._engine.parking.tried(parked, self._lost)
        # Of what another has taken over, or moved, nothing is to be kept, though no position moves here.
        beside = {tranche for _, tranche in (*parked, *ahead, *tried)}
        if any(move.before is None for move in moves.values()):  # Nor is anything begun by who has not the others.
            beside |= self._kept.keys()
        return Advance(self._standing(beside) | moves, parked, ahead, anew, tried, self._owner)

    def _moves(self, positions: Mapping[str, Position]) -> dict[str, PositionMove]:
        kept = self._kept
        return {
            name: PositionMove(kept.get(name), position)
            for name, position in positions.items()
            if position != kept.get(name) and name not in self._lost
        }

    def _standing(self, tranches: Iterable[str]) -> dict[str, PositionMove]:
        kept = self._kept
        return {name: PositionMove(kept[name], kept[name]) for name in tranches if name in kept and self._is_had(name)}

    def _is_had(self, tranche: str) -> bool:
        return tranche in self._open and tranche not in self._lost

    def write(self, advance: Advance) -> Mapping[Place, Request]:
        """Keep *advance*, and return what is wanted of parked streams. May be called by another thread, one at a time.

        Raises:
            CheckpointMoved: another processor has the same name, or somebody has moved it.
            PenstockError: it is not known whether it is kept: try again later.
        """
        checkpoints = self._checkpoints
        if self._doubtful:
            advance = self._without_doubt(advance)
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

    def committed(self, advance: Advance, requests: Mapping[Place, Request] | None) -> bool:
        """Take note that *advance* is kept, and heed what is wanted of parked streams; tell whether anything new is.

        None: nobody has looked what that is.
        """
        self._kept |= {tranche: move.after for tranche, move in advance.moves.items()}
        for tranche in advance.moves:
            self._conceded.pop(tranche, None)
        if advance.parked and isinstance(self._checkpoints, HandingCheckpoints):
            self._engine.parking.hand_over(advance.parked)
            self._checkpoints.handed_over()
        else:
            self._engine.parking.kept(advance.parked, advance.anew, advance.tried)
        self._engine.kept_ahead(advance.ahead)
        is_new = False
        if requests is not None:
            self.heeded += 1
            is_new = self.heed(requests)
        self._note_settled()
        return is_new

    def _note_settled(self) -> None:
        parking = self._engine.parking
        if parking.retried or parking.has_changes or self.heeded < self.unheeded:
            self.settled = UNSETTLED
        else:
            self.settled = self.heeded if parking.streams else float("inf")

    def _without_doubt(self, advance: Advance) -> Advance:
        """Return *advance* from where the checkpoints are, since nobody knows what came of earlier ones."""
        found = self._checkpoints.positions()
        moves = {}
        for tranche, move in advance.moves.items():
            was_kept = found.get(tranche) in self._doubtful.get(tranche, ())
            moves[tranche] = PositionMove(found.get(tranche), move.after) if was_kept else move
        compared = {tranche for _, tranche in (*advance.parked, *advance.ahead)}
        moves = {name: move for name, move in moves.items() if move.before != move.after or name in compared}
        return advance._replace(moves=moves)


def _gone(parked: Iterable[Parked], reason: str) -> Failure:
    streams = ", ".join(each.stream for each in parked)
    _log.warning("What was parked cannot be tried again of %s: %s", streams, reason)
    return Failure("gone", reason)
