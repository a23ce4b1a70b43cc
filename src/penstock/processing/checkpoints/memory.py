"""Positions in memory: for tests, and for processors that start from the beginning each time."""

import threading
from collections.abc import Mapping, Sequence

from penstock.core.group_parking import Request
from penstock.errors import CheckpointMoved, ParkedNotFound
from penstock.processing.checkpoints.checkpoint import Advance, check_request
from penstock.processing.engine.parking import Parked, Place
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_name


class MemoryCheckpoints:
    """Stores the progress of one processor while this object lives. Processors that share the object share it.

    Args:
        group: The processor's name.

    Raises:
        BadParameter: the name is invalid.
    """

    keeps_parked = True

    def __init__(self, group: str = "memory") -> None:
        check_name("group", group)
        self.name = group
        self._group = group
        self._positions: dict[str, Position] = {}
        self._parked: dict[Place, Parked] = {}
        self._requests: dict[Place, Request] = {}
        self._turn = threading.Lock()

    def positions(self) -> Mapping[str, Position]:
        """Return the processor's positions, by tranche."""
        with self._turn:
            return dict(self._positions)

    def parked(self) -> Sequence[Parked]:
        """Return the parked spans, the oldest first."""
        with self._turn:
            return list(self._parked.values())

    def requests(self) -> Mapping[Place, Request]:
        """Return the requests for parked streams, by stream and tranche."""
        with self._turn:
            return dict(self._requests)

    def ask(self, stream: str, request: Request) -> None:
        """Request that a parked stream is retried or skipped.

        Raises:
            BadParameter: the request is neither `retry` nor `skip`.
            ParkedNotFound: no stream of that name is parked.
        """
        check_request(stream, request)
        with self._turn:
            places = [place for place in self._parked if place[0] == stream]
            if not places:
                raise ParkedNotFound.of("parked-stream-not-found", processor=self.name, stream=stream)
            self._requests |= dict.fromkeys(places, request)

    def commit(self, advance: Advance) -> None:
        """Store *advance* atomically.

        Raises:
            CheckpointMoved: a stored position differs from the expected one.
        """
        with self._turn:
            for tranche, move in advance.moves.items():
                found = self._positions.get(tranche)
                if found != move.before:
                    raise CheckpointMoved(group=self._group, tranche=tranche, expected=move.before, found=found)
            self._positions |= {tranche: move.after for tranche, move in advance.moves.items()}
            for place, parked in advance.parked.items():
                if place in advance.anew:
                    self._keep(place, None)
                self._keep(place, parked)
            for place in advance.tried:
                self._requests.pop(place, None)

    def _keep(self, place: Place, parked: Parked | None) -> None:
        before = self._parked.get(place)
        if parked is None:
            self._parked.pop(place, None)
        else:
            self._parked[place] = parked
        if parked is None or (before is not None and parked.attempts != before.attempts):
            self._requests.pop(place, None)  # It is no longer parked, or a retry has failed.
