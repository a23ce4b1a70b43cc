"""A producer group in a partition, as a simple model knows it: nothing expires by itself, and no number goes round."""

import itertools
from collections.abc import Sequence

Ids = Sequence[int | str]
"""Which events: numbers; a text is of one that is not valid."""


class Line:
    """The stored events of a producer group in one partition, by epoch and number."""

    def __init__(self) -> None:
        self.epoch = -1
        self.expired = False
        self.claim_id: str | None = None
        self.begins: dict[int, int] = {}
        self.stored: dict[int, dict[int, tuple[int, int]]] = {}
        """By epoch and number: which event it is, and its offset."""
        self.forgotten = -1
        """Of that epoch and those before it need not be known what is stored."""

    @property
    def next(self) -> int:
        return self.ending(self.epoch)

    def ending(self, epoch: int) -> int:
        """Return the number after the last one of an epoch."""
        return max(self.stored.get(epoch, ()), default=self.begins.get(epoch, 0) - 1) + 1

    def begin(self, epoch: int, number: int = 0, claim_id: str | None = None) -> None:
        self.epoch, self.expired, self.claim_id = epoch, False, claim_id
        self.begins[epoch], self.stored[epoch] = number, {}

    def verdict(self, epoch: int, number: int, ids: Ids, *, trims: bool) -> tuple[str, int]:
        """Return what becomes of a batch, and how many of its events are stored already."""
        if epoch > self.epoch:
            return ("appended" if number == 0 else "sequence-gap"), 0
        if self.expired:
            return "producer-state-expired", 0
        if epoch < self.epoch:
            return "producer-fenced", 0
        if number == self.next:
            return "appended", 0
        if not self.begins[epoch] <= number < self.next:
            return "sequence-gap", 0
        known = min(len(ids), self.next - number)
        if any(self.stored[epoch][number + at][0] != ids[at] for at in range(known)):
            return "payload-mismatch", 0
        if known == len(ids):
            return "duplicate", known
        return ("trimmed" if trims else "sequence-overlap"), known

    def found(self, epoch: int, number: int, ids: Ids | int) -> list[int]:
        """Return the offsets of the events that a batch begins with and that are stored; none where others are."""
        stored, count = self.stored.get(epoch, {}), ids if isinstance(ids, int) else len(ids)
        there = [stored[at] for at in itertools.takewhile(stored.__contains__, range(number, number + count))]
        if not isinstance(ids, int) and any(own != its for own, (its, _) in zip(ids, there, strict=False)):
            return []
        return [offset for _, offset in there]

    def is_known(self, epoch: int, number: int) -> bool:
        """Tell whether it is surely known what is stored from that number on."""
        lasts = epoch > self.forgotten and (epoch == self.epoch or bool(self.stored.get(epoch)))
        return lasts and number >= self.begins[epoch]
