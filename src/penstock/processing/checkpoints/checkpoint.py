"""What keeps the positions of a processor, by tranche, and the streams that it has set aside."""

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, get_args, runtime_checkable

from penstock.core.group_parking import Request
from penstock.errors import BadParameter
from penstock.processing.engine.item import Position
from penstock.processing.engine.parking import Parked, Place
from penstock.processing.parameters import check_kind, check_members, shown

_OF_FEED: Final = re.compile(r"[0-9]+:[0-9]+")


def check_moves(positions: Mapping[str, Position], before: Mapping[str, Position], *, adds: bool) -> None:
    """Raise BadParameter unless a processor that stands at *before* can be moved to *positions*.

    Each is a position, of a tranche that it has, or is given where that *adds*, and of the form of the one before.
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
    # They are kept as texts: whatever else is given would become one that no source can read.
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
    """A position that takes the place of another."""

    before: Position | None
    """Where it was when it was read, or committed last; None: there was none."""
    after: Position


class Advance(NamedTuple):
    """What is to be kept together."""

    moves: Mapping[str, PositionMove]
    """By tranche."""
    parked: Mapping[Place, Parked | None] = MappingProxyType({})
    """What is parked now; None: it is so no more."""
    ahead: Mapping[Place, int | None] = MappingProxyType({})
    """Up to which index streams are handled that are ahead of their tranche's position; None: they are no more."""
    anew: frozenset[Place] = frozenset()
    """What was parked before, was handled or skipped, and is parked anew: nothing is wanted of it yet."""
    tried: frozenset[Place] = frozenset()
    """What is parked behind what was tried in vain: nothing is wanted of it any more."""
    owner: str | None = None
    """Who has taken the tranches over, and still must have them; None: whoever knows where they are."""

    def __bool__(self) -> bool:
        return bool(self.moves or self.parked or self.ahead)


class Checkpoints(Protocol):
    """What one processor keeps under its name; another that has the same name is noticed, and overwrites nothing."""

    @property
    def keeps_parked(self) -> bool:
        """Whether parked streams are kept."""
        ...

    def positions(self) -> Mapping[str, Position]:
        """Return where the processor has come to, by tranche."""
        ...

    def parked(self) -> Sequence[Parked]:
        """Return what is parked, the oldest first."""
        ...

    def requests(self) -> Mapping[Place, Request]:
        """Return what is wanted of parked streams, by stream and tranche: until they are parked no more, or anew.

        Of a stream that is parked in several tranches, what is wanted of the one that was parked first is heeded.
        """
        ...

    def commit(self, advance: Advance) -> None:
        """Keep *advance*: all of them, or none.

        Raises:
            CheckpointMoved: a position is not where it was thought to be, or has another owner: another processor has
                the same name, or somebody has moved it.
        """
        ...


@runtime_checkable
class ExactCheckpoints(Checkpoints, Protocol):
    """Checkpoints that can be taken over, by whoever begins with them, and keep which streams are ahead of them."""

    def take_over(self, tranches: Collection[str], owner: str) -> Mapping[str, Mapping[str, int]]:
        """Let *owner* have these tranches from now on: whoever had them commits nothing more of them.

        Returns up to which index their streams are handled that are ahead of where they are.
        """
        ...


@runtime_checkable
class HandingCheckpoints(Checkpoints, Protocol):
    """Checkpoints that hand parked streams over to the source: it keeps them, and sends their events again."""

    def handed_over(self) -> None:
        """Take note that the processor has forgotten the streams that were parked by the last commit."""
        ...


@runtime_checkable
class RecordedCheckpoints(Protocol):
    """Checkpoints that keep on record what somebody has done to a processor."""

    def record(self, tranche: str, reason: str) -> None:
        """Keep on record what was done, where it moves no position."""
        ...


def check_checkpoints(value: Any) -> None:
    """Raise BadParameter unless *value* is what keeps positions, as far as that can be told."""
    check_members("checkpoints", value, Checkpoints, _ALLOWED)


def check_request(stream: Any, request: Any) -> None:
    """Raise BadParameter unless *request* is one that can be made of a *stream*."""
    check_kind("stream", stream, str, "the name of a parked stream")
    if request not in get_args(Request):
        raise BadParameter(parameter="request", value=shown(request), allowed="'retry' or 'skip'")
