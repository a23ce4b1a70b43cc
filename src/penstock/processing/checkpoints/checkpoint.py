"""Checkpoints: the protocol of stores of a processor's positions and parked streams, and the store in memory."""

import re
import threading
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, get_args, runtime_checkable

from penstock.core.groups.parking import Request
from penstock.errors import BadParameter, CheckpointMoved, ParkedNotFound
from penstock.processing.engine.parking import Parked, Place
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_kind, check_members, check_name, redact

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

    def confirm_hand_over(self) -> None:
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
        raise BadParameter(parameter="request", value=redact(request), allowed="'retry' or 'skip'")


_ODD: Final = re.compile("[\\\\\0\ud800-\udfff]")
_ESCAPED: Final = re.compile(r"\\([0-9a-f]{4})")


def encode_name(name: str) -> str:
    r"""Return *name* in its stored form: the backslash and characters that cannot be stored become hex escapes.

    >>> print(encode_name("order-7"), encode_name("C:\\x"), encode_name("a\0"))
    order-7 C:\005cx a\0000
    """
    return _ODD.sub(lambda found: f"\\{ord(found[0]):04x}", name)


def decode_name(text: str) -> str:
    """Return the name whose stored form is *text*."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def digest(name: str) -> str:
    """Return the SHA-256 of *name*, as hex digits."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


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
                    self._store(place, None)
                self._store(place, parked)
            for place in advance.tried:
                self._requests.pop(place, None)

    def _store(self, place: Place, parked: Parked | None) -> None:
        before = self._parked.get(place)
        if parked is None:
            self._parked.pop(place, None)
        else:
            self._parked[place] = parked
        if parked is None or (before is not None and parked.attempts != before.attempts):
            self._requests.pop(place, None)  # It is no longer parked, or a retry has failed.
