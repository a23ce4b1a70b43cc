"""Interface for storing a processor's positions, by tranche, and its parked streams."""

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, get_args, runtime_checkable

from penstock.core.group_parking import Request
from penstock.errors import BadParameter
from penstock.processing.engine.parking import Parked, Place
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_kind, check_members, shown

_OF_FEED: Final = re.compile(r"[0-9]+:[0-9]+")


def check_moves(positions: Mapping[str, Position], before: Mapping[str, Position], *, adds: bool) -> None:
    """Raise BadParameter unless a processor can be moved from *before* to *positions*.

    Each must be a valid position of the same form as before, and of a known tranche, unless the move *adds* tranches.
    """
    check_kind("positions", positions, Mapping, "positions by tranche, such as {'order.placed/0': '1:17'}")
    for tranche, position in positions.items():
        _check_position(tranche, position)
        if tranche not in before and not adds:
            raise BadParameter(parameter="tranche", value=tranche, allowed=f"one that has a position: {sorted(before)}")
        if tranche in before and _form(position) != _form(before[tranche]):
            allowed = f"{_form(before[tranche])}, as {before[tranche]!r} is, which stands at {tranche}"
            raise BadParameter(parameter="position", value=position, allowed=allowed)


def _check_position(tranche: str, position: Any) -> None:
    # Positions are stored as texts: another type would become a text that no source can read.
    is_number = type(position) is int and position >= 0
    if not is_number and not (isinstance(position, str) and position):
        allowed = f"a whole number from 0, or a text of at least one character, for {tranche}"
        raise BadParameter(parameter="position", value=position, allowed=allowed)


def _form(position: Position) -> str:
    if isinstance(position, int) or position.isdecimal():
        return "a whole number"
    return "EPOCH:OFFSET" if _OF_FEED.fullmatch(position) else "a text of the source's own"


_ALLOWED: Final = (
    "DatabaseCheckpoints(database, 'a name'), HubCheckpoints(url, 'a name'), SubscriptionCheckpoints(source) or "
    "MemoryCheckpoints()"
)


class PositionMove(NamedTuple):
    """A change of a tranche's position."""

    before: Position | None
    """The position that was read or committed last; None: there was none."""
    after: Position


class Advance(NamedTuple):
    """Progress that is committed together."""

    moves: Mapping[str, PositionMove]
    """Position changes by tranche."""
    parked: Mapping[Place, Parked | None] = MappingProxyType({})
    """Changed parked spans; None: no longer parked."""
    ahead: Mapping[Place, int | None] = MappingProxyType({})
    """The next index of streams that are ahead of their tranche's position; None: no longer ahead."""
    anew: frozenset[Place] = frozenset()
    """Spans that were handled or skipped, and are parked again: earlier requests for them are removed."""
    tried: frozenset[Place] = frozenset()
    """Spans parked behind a failed retry: requests for them are removed."""
    owner: str | None = None
    """The owner that must still have the tranches, see `take_over`; None: only the positions are compared."""

    def __bool__(self) -> bool:
        return bool(self.moves or self.parked or self.ahead)


class Checkpoints(Protocol):
    """Stores the progress of one processor under its name; a second processor of that name cannot overwrite it."""

    @property
    def keeps_parked(self) -> bool:
        """True if parked streams are stored."""
        ...

    def positions(self) -> Mapping[str, Position]:
        """Return the processor's positions, by tranche."""
        ...

    def parked(self) -> Sequence[Parked]:
        """Return the parked spans, the oldest first."""
        ...

    def requests(self) -> Mapping[Place, Request]:
        """Return the requests for parked streams, by stream and tranche, until these are unparked or parked again.

        If a stream is parked in several tranches, the request for the span that was parked first applies.
        """
        ...

    def commit(self, advance: Advance) -> None:
        """Store *advance* atomically.

        Raises:
            CheckpointMoved: a stored position differs from the expected one, or has another owner: another processor
                has the same name, or an operator has moved it.
        """
        ...


@runtime_checkable
class ExactCheckpoints(Checkpoints, Protocol):
    """Checkpoints that a starting processor can take over, and that store the streams ahead of their positions."""

    def take_over(self, tranches: Collection[str], owner: str) -> Mapping[str, Mapping[str, int]]:
        """Make *owner* the owner of these tranches: commits of their previous owner are refused.

        Returns the next index of their streams that are ahead of the position, by tranche and stream.
        """
        ...


@runtime_checkable
class HandingCheckpoints(Checkpoints, Protocol):
    """Checkpoints that pass parked streams to the source, which stores them and sends their events again."""

    def handed_over(self) -> None:
        """Record that the processor has forgotten the streams that the last commit parked."""
        ...


@runtime_checkable
class RecordedCheckpoints(Protocol):
    """Checkpoints that record an operator's interventions."""

    def record(self, tranche: str, reason: str) -> None:
        """Record an intervention that moves no position."""
        ...


def check_checkpoints(value: Any) -> None:
    """Raise BadParameter unless *value* has the members of `Checkpoints`."""
    check_members("checkpoints", value, Checkpoints, _ALLOWED)


def check_request(stream: Any, request: Any) -> None:
    """Raise BadParameter unless *stream* is a name and *request* is `retry` or `skip`."""
    check_kind("stream", stream, str, "the name of a parked stream")
    if request not in get_args(Request):
        raise BadParameter(parameter="request", value=shown(request), allowed="'retry' or 'skip'")
