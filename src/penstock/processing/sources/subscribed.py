"""What a subscription has sent of one partition: what waits for the engine, and what it has and is not committed.

There is no I/O and no lock here.

Invariants:
    What the engine has, or has handled, is not handed to it again, whichever stream sends it once more; unless the
    subscription was set back, and then only once all that it has is handled.
    A batch may be committed when the position has passed it, and with it all that was handed in before.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from penstock.client.subscriptions.stream_protocol import SubscriptionBatch
from penstock.processing.engine.item import Batch, Item
from penstock.processing.sources.batch_position import BatchPosition
from penstock.processing.sources.feed_position import FeedPosition, encode_tranche, numbering_of
from penstock.processing.stream_event import APART
from penstock.wire.log.nakadi import parse_offset

Sent: TypeAlias = SubscriptionBatch[Any]
MakeEvents: TypeAlias = Callable[[Sent, int], Sequence[Item]]
"""Makes the events of a batch from the one of that number on."""


class DeliveredPartition:
    """One partition of a subscription, or the parked events of one, as this process is sent them.

    Args:
        tranche: What the engine calls it.
        committed: Up to where the hub says that it is committed.
        is_parked: Whether it is the parked events: these come one batch at a time, each once the one before is
            committed, since their offsets say nothing about which of them is before which.
    """

    def __init__(self, tranche: str, committed: FeedPosition, *, is_parked: bool = False) -> None:
        self.tranche = tranche
        self.committed = committed
        self._is_parked = is_parked
        self._waiting: deque[Sent] = deque()
        self._uncommitted: deque[tuple[int, Sent]] = deque()
        self._next: FeedPosition | None = None
        """Behind what the engine was given last; None: it has nothing that could come again."""
        self._number = 0
        self._passed = 0
        """The last batch that the position has passed."""
        self._is_set_back = False
        """Whether what waits is to wait until the engine has handled all that it has."""

    @property
    def uncommitted(self) -> int:
        """How many batches the engine has that are not committed."""
        return len(self._uncommitted)

    @property
    def is_ready(self) -> bool:
        """Whether there is anything for the engine."""
        is_barred = self._is_set_back or self._is_parked
        return bool(self._waiting) and not (is_barred and self._passed < self._number)

    def add(self, batch: Sent) -> None:
        """Take what a stream has sent."""
        self._waiting.append(batch)

    def restart(self, committed: FeedPosition) -> None:
        """Take note that another stream begins, which sends what is not committed: of the one before nothing waits."""
        self._waiting.clear()
        if committed.epoch != self.committed.epoch or committed.offset < self.committed.offset:
            self._is_set_back = True
        self.committed = committed

    def take(self, make: MakeEvents) -> Batch:
        """Return the next batch for the engine, without what it was given before."""
        batch = self._waiting[0]
        epoch, last = parse_offset(batch.offset) if not self._is_parked else (0, batch.offsets[-1])
        if self._is_set_back:
            self._is_set_back, self._next = False, None
        known = 0 if self._next is None or self._is_parked else self._next.offset
        events = make(batch, bisect_left(batch.offsets, known))
        self._waiting.popleft()
        self._next = FeedPosition(epoch, max(known, last + 1))
        self._number += 1
        self._uncommitted.append((self._number, batch))
        return Batch(self.tranche, BatchPosition(self._next, self._number).encode(), events)

    def passed(self, number: int) -> list[Sent]:
        """Take note that the position has passed a batch; return all that may be committed now."""
        self._passed = max(self._passed, number)
        return [batch for at, batch in self._uncommitted if at <= number]

    def forget(self, batches: Iterable[Sent], *, are_kept: bool) -> None:
        """Take note that *batches* are committed, or are not, since the hub takes them no more."""
        left = {id(batch) for batch in batches}
        kept = [batch for _, batch in self._uncommitted if id(batch) in left]
        self._uncommitted = deque(each for each in self._uncommitted if id(each[1]) not in left)
        if are_kept and not self._is_parked:
            ends = [FeedPosition(epoch, last + 1) for epoch, last in (parse_offset(batch.offset) for batch in kept)]
            self.committed = max([self.committed, *ends])


def numbering_in(batch: Sent) -> str:
    """Return what numbers the events of a batch."""
    return numbering_of(encode_tranche(*batch.place), parse_offset(batch.offset)[0])


def apart(batch: Sent) -> str:
    """Return what stands behind that where a stream has other keys too: the hub has sent later events of these before.

    It is empty but for parked events.
    """
    if not batch.is_parked:
        return ""
    _, parked_id, *_ = batch.cursor["cursor_token"].split("-", 2)
    return f"{APART}{parked_id}"
