"""Where a processor begins, what it reads and what it commits: its engine between its source and its checkpoints."""

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.errors import BadParameter, CheckpointMoved, PenstockError
from penstock.processing.checkpoints.checkpoint import Advance, Checkpoints, Move, Request
from penstock.processing.engine.call import Call
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.item import Position
from penstock.processing.engine.outcome import Failure, Outcome
from penstock.processing.engine.parked import Replay
from penstock.processing.sources.source import Source, Want

REPLAY_EVENTS: Final = 10_000
"""How many events are read at once for a stream that is tried again; those of other streams are among them."""


class Progress:
    """The checkpoints of a processor, held against what its engine has come to.

    Raises:
        BadParameter: streams are to be parked, and nobody could come back to them.
    """

    def __init__(self, engine: Engine, source: Source, checkpoints: Checkpoints) -> None:
        if engine.rules.exhausted == "park":
            if not checkpoints.keeps_parked:
                raise BadParameter(parameter="exhausted", value="park", allowed="stop: its checkpoints keep none")
            if not source.is_replayable:
                raise BadParameter(parameter="exhausted", value="park", allowed="stop: the source gives nothing twice")
        self._engine = engine
        self._source = source
        self._checkpoints = checkpoints
        self._kept: dict[str, Position] = dict(checkpoints.positions())
        self._open: set[str] = set()
        self._doubtful: dict[str, set[Position]] = {}
        """Where tranches may be, since answers were lost: of all commits in a row that have failed."""
        if checkpoints.keeps_parked:
            engine.parking.load(checkpoints.parked())

    def survey(self) -> dict[str, Position]:
        """Ask the source for tranches that are new; return where each is begun with: where it was left, if it was."""
        source, kept = self._source, self._kept
        new = (tranche for tranche in source.tranches() if tranche not in self._open)
        return {tranche: source.beginning(tranche) if tranche not in kept else kept[tranche] for tranche in new}

    def open(self, found: Mapping[str, Position]) -> None:
        """Begin with tranches."""
        for tranche, position in found.items():
            if tranche not in self._open:
                self._open.add(tranche)
                self._engine.open(tranche, position)

    def wants(self) -> dict[str, Want]:
        """Return what is to be read now, of those tranches that there is room for."""
        engine = self._engine
        return {
            tranche: Want(engine.tranche(tranche).read, room)
            for tranche in self._open
            if (room := engine.room(tranche))
        }

    @property
    def has_begun(self) -> bool:
        """Whether there is any tranche."""
        return bool(self._open)

    @property
    def has_parked(self) -> bool:
        """Whether any stream is parked."""
        return bool(self._engine.parking.streams)

    def behind(self) -> Mapping[str, int | None]:
        """Return how many events each tranche has behind what is committed. May be asked by any thread."""
        return self._source.behind({**self._kept})

    def heed(self, requests: Mapping[str, Request]) -> bool:
        """Take up what is wanted of parked streams; tell whether that was anything new."""
        parking = self._engine.parking
        new = {
            stream
            for stream, request in requests.items()
            if stream in parking.streams and (request == "drop" or stream not in parking.retried)
        }
        for stream in new:
            if requests[stream] == "drop":
                self._engine.drop(stream)
            else:
                self._engine.retry(stream)
        return bool(new)

    def replays(self) -> list[tuple[Replay, Want]]:
        """Return what is to be read again now, for streams that are tried again."""
        engine = self._engine
        if not engine.parking.retried:
            return []
        found = [replay for replay in engine.replays() if replay.parked.tranche in self._open]
        return [(replay, Want(replay.parked.since, REPLAY_EVENTS)) for replay in found]

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
        return self._to(self._engine.positions())

    def advance_if(self, results: Iterable[tuple[Call, Outcome | Failure]]) -> Advance:
        """Return what is to be committed together with these *results* of calls.

        Positions that do not move are among it: that they are where they were shows that nobody else has the name.
        """
        advance = self._to(self._engine.positions_if(results))
        return advance._replace(moves={name: Move(at, at) for name, at in self._kept.items()} | dict(advance.moves))

    def _to(self, positions: Mapping[str, Position]) -> Advance:
        kept = self._kept
        moves = {
            name: Move(kept.get(name), position) for name, position in positions.items() if position != kept.get(name)
        }
        return Advance(moves, self._engine.parking.changes())

    def write(self, advance: Advance) -> Mapping[str, Request]:
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

    def committed(self, advance: Advance, requests: Mapping[str, Request]) -> bool:
        """Take note that *advance* is kept, and heed what is wanted of parked streams; tell whether anything new is."""
        self._kept |= {tranche: move.after for tranche, move in advance.moves.items()}
        self._engine.parking.kept(advance.parked)
        return self.heed(requests)

    def _without_doubt(self, advance: Advance) -> Advance:
        """Return *advance* from where the checkpoints are, since nobody knows what came of earlier ones."""
        found = self._checkpoints.positions()
        moves = {}
        for tranche, move in advance.moves.items():
            was_kept = found.get(tranche) in self._doubtful.get(tranche, ())
            moves[tranche] = Move(found.get(tranche), move.after) if was_kept else move
        return Advance({name: move for name, move in moves.items() if move.before != move.after}, advance.parked)
