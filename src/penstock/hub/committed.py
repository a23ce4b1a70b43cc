"""Finds out whether a numbered batch is stored, of whatever epoch it is."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.core.producers import (
    DIGEST_BYTES,
    Ending,
    Forgotten,
    Mismatch,
    Range,
    Stamp,
    State,
    compare,
    given,
    locate,
)
from penstock.storage.producers import Producer
from penstock.storage.store import Tx


class Committed(NamedTuple):
    """What is known of a batch."""

    whole: bool | None
    """Whether all of it is stored; None: that is not known any more."""
    ranges: Sequence[Range] = ()
    """The offsets of what of it is stored."""

    @property
    def fields(self) -> dict[str, Any]:
        """Return it as the fields of an error have it."""
        return {"committed": self.whole, "ranges": ranges_told(self.ranges)}


def ranges_told(ranges: Sequence[Range]) -> list[dict[str, int]]:
    """Return *ranges* as they are told."""
    return [each._asdict() for each in ranges]


def find_committed(tx: Tx, producer: Producer, stamp: Stamp, events: int | bytes, modulus: int) -> Committed:
    """Return what of a batch is stored: of so many *events*, or of those with these digests.

    Where digests are known, other events that are stored under its numbers are not it.
    """
    digests = events if isinstance(events, bytes) else None
    count = events if isinstance(events, int) else len(events) // DIGEST_BYTES
    ending = _ending(tx, producer, stamp.epoch)
    if ending is None:
        return Committed(None if _may_have_been(producer.state, stamp.epoch) else False)
    numbers = given(ending, stamp.sequence, count, modulus)
    if not numbers:
        return Committed(False)
    stored = tx.producers.batches(producer.id, stamp.epoch, numbers.start, numbers.stop)
    found: list[Range] | Mismatch | Forgotten
    if digests is None:
        found = locate(stored, numbers)
    else:
        found = compare(stored, numbers.start, digests[: len(numbers) * DIGEST_BYTES])
    if isinstance(found, Mismatch):
        return Committed(False)
    is_whole = len(numbers) == count
    if isinstance(found, Forgotten):
        return Committed(None if is_whole else False)
    return Committed(is_whole, found)


def _ending(tx: Tx, producer: Producer, epoch: int) -> Ending | None:
    state = producer.state
    if epoch == state.epoch and not state.is_expired:
        return state.ending
    if state.previous is not None and epoch == state.previous.epoch:
        return state.previous
    return tx.producers.ending(producer.id, epoch)


def _may_have_been(state: State, epoch: int) -> bool:
    """Tell whether there may have been that epoch, of which nothing is known any more."""
    if epoch > state.epoch or (epoch == state.epoch and not state.is_expired):
        return False
    return state.previous is None or epoch < state.previous.epoch
