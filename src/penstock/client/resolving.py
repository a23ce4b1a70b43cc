"""Finds out what has become of a batch of which nothing is known, so that it is final.

Invariants:
    Nothing is said of a batch before no copy of it can be stored any more.
    What is said of it is what the hub has compared with it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from penstock.client.asking import Asking
from penstock.client.lane import Lane, Numbered, Operation
from penstock.client.producer_options import OnUnknown, Resolution
from penstock.client.publish_outcome import lost, poisoned, ranges_in, ranges_told
from penstock.core.producers import Range
from penstock.errors import ClaimRefused, ProducerFenced, ProducerStateExpired, ProducerUnsafe, SequenceTooOld
from penstock.wire import producers as wire
from penstock.wire.exchange import Exchange


class Resolving:
    """What one producer does about what is in doubt.

    Args:
        asking: By which the hub is asked.
        claims: What each claim asks for besides.
        on_unknown: Whether it is found out, or only seen to that it is not stored from here on.
        on_resolution: Is told what was found out.
    """

    def __init__(
        self,
        asking: Asking,
        claims: Mapping[str, Any],
        on_unknown: OnUnknown,
        on_resolution: Callable[[Resolution], object] | None,
    ) -> None:
        self._asking = asking
        self._claims = claims
        self._on_unknown = on_unknown
        self._on_resolution = on_resolution

    def resolve(self, lane: Lane, operation: Operation) -> Exchange[Resolution | None]:
        """Find out, once and for all, whether what is doubtful is stored; None: nothing is doubtful.

        Where asking leaves it open, the next epoch is claimed, so that nothing which is still on its way can be stored
        any more: then what the epoch before has ended with says it.

        Raises:
            ProducerUnsafe: somebody else has taken over, or the hub has lost something.
        """
        numbered = lane.doubtful
        if numbered is None:
            return None
        lane.check()
        if self._on_unknown == "republish":
            yield from self._fence(lane, numbered, operation)
            with operation.holding():
                lane.plain.drop(numbered.events)
                lane.clear()
            return None
        is_open = True
        if lane.epoch == numbered.epoch:  # Else it is shut out already.
            shown = yield from self._asking.standing(lane, operation)
            if not _is_past(shown, numbered):
                _check_kept(lane, numbered, shown, operation)
                is_open = yield from self._fence(lane, numbered, operation)
        stored, ranges = (yield from self._fate(lane, numbered, operation)) if is_open else (False, ())
        with operation.holding():
            if stored and lane.epoch == numbered.epoch:
                lane.advance(len(numbered.events), ranges)
            resolution = _resolved(lane, numbered, stored, ranges)
            if stored is None:
                fields = {"producer_group": lane.group, "partition": lane.partition, "received": numbered.first}
                lane.poison(SequenceTooOld(**fields))
        self._tell(resolution)
        lane.check()
        return resolution

    def _fate(
        self, lane: Lane, numbered: Numbered, operation: Operation
    ) -> Exchange[tuple[bool | None, Sequence[Range]]]:
        """Find out whether a batch is stored, and where, once it is either past or shut out; None: nobody knows.

        Handed in once more it is not stored twice, and the hub compares it with what it has under its numbers: that may
        be another's, who has the same group and the same epoch.
        """
        try:
            found = yield from self._asking.repeat(lane, numbered, operation)
        except (ProducerFenced, ProducerStateExpired) as error:
            return error.fields["committed"], ranges_told(error)
        except ProducerUnsafe as error:
            with operation.holding():
                raise poisoned(lane, numbered, error, operation, is_open=True) from error.__cause__
        return True, ranges_in(found)

    def _fence(self, lane: Lane, numbered: Numbered, operation: Operation) -> Exchange[bool]:
        """Claim the epoch after ours, so that nothing of ours is stored any more; tell whether anything may be."""
        begun, is_behind = lane.begun, False
        try:
            try:
                shown = yield from self._claim(lane, operation, owner_level="next", if_epoch=lane.epoch)
            except ClaimRefused as error:
                is_behind = _is_behind(error, lane.epoch)
                if not is_behind:
                    raise
                shown = yield from self._claim(lane, operation, owner_level=lane.epoch + 1)
        except ClaimRefused as error:
            yield from self._taken_over(lane, numbered, operation, error)
        is_open = not is_behind or (shown.previous is not None and shown.previous.epoch == numbered.epoch)
        missing = (numbered.first - begun) % lane.modulus
        with operation.holding():
            lane.adopt(shown)
            if missing and not is_open:
                raise lane.poison(lost(lane, numbered, begun, missing))
            lane.doubt(numbered)  # What has become of it is still to be found out.
        return is_open

    def _claim(self, lane: Lane, operation: Operation, **wanted: Any) -> Exchange[wire.Shown]:
        return (yield from self._asking.claim(lane, lane.group, {**wanted, **self._claims}, operation))

    def _taken_over(
        self, lane: Lane, numbered: Numbered, operation: Operation, error: ClaimRefused
    ) -> Exchange[NoReturn]:
        """Find out what has become of a batch, since somebody else has shut it out; then publish nothing more."""
        current = error.fields.get("current_epoch")
        fields = {"producer_group": lane.group, "partition": lane.partition, "current_epoch": current}
        if self._on_unknown == "republish":
            with operation.holding():
                raise lane.poison(ProducerFenced(**fields)) from error
        stored, ranges = yield from self._fate(lane, numbered, operation)
        with operation.holding():
            resolution = _resolved(lane, numbered, stored, ranges)
            fenced = lane.poison(ProducerFenced(**fields, committed=stored))
        self._tell(resolution)
        raise fenced from error

    def _tell(self, resolution: Resolution) -> None:
        if self._on_resolution is not None:
            self._on_resolution(resolution)


def _is_past(shown: wire.Shown | None, numbered: Numbered) -> bool:
    """Tell whether a producer has come past a batch, in the epoch of that."""
    if shown is None or shown.next_sequence is None or shown.owner_level != numbered.epoch:
        return False
    ahead = (shown.next_sequence - numbered.first) % shown.sequence_modulus
    return len(numbered.events) <= ahead < shown.sequence_modulus / 2


def _check_kept(lane: Lane, numbered: Numbered, shown: wire.Shown | None, operation: Operation) -> None:
    """Raise ServerStateRegressed where the hub knows less than it has acknowledged."""
    if shown is not None and shown.owner_level > numbered.epoch:
        return
    if shown is not None and shown.expired:
        return
    is_ours = shown is not None and shown.owner_level == numbered.epoch
    expected = shown.next_sequence if shown is not None and is_ours and shown.next_sequence is not None else lane.begun
    missing = (numbered.first - expected) % lane.modulus
    if 0 < missing < lane.modulus / 2:
        with operation.holding():
            lane.clear()
            raise lane.poison(lost(lane, numbered, expected, missing))


def _is_behind(error: ClaimRefused, epoch: int) -> bool:
    """Tell whether the hub has never heard of *epoch*, or not any more."""
    current = error.fields.get("current_epoch")
    return current is None or current < epoch


def _resolved(lane: Lane, numbered: Numbered, stored: bool | None, ranges: Sequence[Range]) -> Resolution:
    """Take note of what was found out, unless that is nothing."""
    if stored:
        lane.settle(numbered, ranges)
    elif stored is not None:
        lane.plain.drop(numbered.events)
    if stored is not None:
        lane.clear()
    return Resolution(lane.partition, numbered.epoch, numbered.first, len(numbered.events), stored, tuple(ranges))
