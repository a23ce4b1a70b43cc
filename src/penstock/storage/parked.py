"""What the seam knows of events that were set aside since they could not be processed."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock.core.subscriptions.assignment import FeedPartition


class Parked(NamedTuple):
    """A key whose events wait."""

    id: int
    place: FeedPartition
    key: str | None
    """None: an event that has none, and waits alone."""
    attempts: int
    """How often its first event was sent, and never committed."""
    parked_at: int
    is_retried: bool
    """Whether it is to be sent again, or is being sent."""
    events: int
    first: int
    """The offset of the first that waits …"""
    last: int
    """… and of the last."""


class ParkedKeys(Protocol):
    """Keys whose events wait. Whoever changes anything has locked the subscription."""

    def list(self, subscription: str, *, counted: bool = True) -> Sequence[Parked]:
        """Return those of a subscription, in the order of their ids; their events are 0 unless they are *counted*."""

    def park(
        self, subscription: str, place: FeedPartition, key: str | None, offset: int, *, attempts: int, at: int
    ) -> None:
        """Let a key wait from that event on; add the event where the key waits already."""

    def add(self, offsets: Mapping[int, Sequence[int]]) -> None:
        """Let more events wait, by the ids of their keys; those that wait already are passed over."""

    def offsets(self, id: int, *, after: int, limit: int) -> Sequence[int]:
        """Return up to *limit* offsets of events of a key that wait, above *after*, in their order."""

    def retry(self, ids: Collection[int]) -> None:
        """Have keys sent again."""

    def failed(self, ids: Collection[int]) -> None:
        """Note that keys were sent again in vain."""

    def acknowledge(self, id: int, last: int) -> None:
        """Forget the events of a key up to that offset, and the key where none is left."""

    def clear(self, subscription: str, place: FeedPartition) -> None:
        """Forget the keys of a partition, with all of their events that wait."""
