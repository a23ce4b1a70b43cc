"""What keeps the positions of a processor, by tranche, and the streams that it has set aside."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, get_args, runtime_checkable

from penstock.errors import BadParameter
from penstock.processing.engine.item import Position
from penstock.processing.engine.parking import Parked, Place
from penstock.processing.parameters import check_kind, check_members, shown

Request: TypeAlias = Literal["retry", "drop"]
"""What somebody wants of a parked stream: that it is tried again, or that what waits of it is passed over."""
_ALLOWED: Final = (
    "DatabaseCheckpoints(database, 'a name'), HubCheckpoints(url, 'a name'), SubscriptionCheckpoints(source) or "
    "MemoryCheckpoints()"
)


class Move(NamedTuple):
    """A position that takes the place of another."""

    before: Position | None
    """Where it was when it was read, or committed last; None: there was none."""
    after: Position


class Advance(NamedTuple):
    """What is to be kept together."""

    moves: Mapping[str, Move]
    """By tranche."""
    parked: Mapping[Place, Parked | None] = MappingProxyType({})
    """What is parked now; None: it is so no more."""
    ahead: Mapping[Place, int | None] = MappingProxyType({})
    """Up to which index streams are handled that are ahead of their tranche's position; None: they are no more."""
    anew: frozenset[Place] = frozenset()
    """What was parked before, was handled or dropped, and is parked anew: nothing is wanted of it yet."""
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
        raise BadParameter(parameter="request", value=shown(request), allowed="'retry' or 'drop'")
