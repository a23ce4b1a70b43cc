"""What a transaction is opened for, where that is known beforehand: all of it can be asked for at once then."""

from collections.abc import Sequence
from typing import NamedTuple


class Opening(NamedTuple):
    """To append to partitions, if nothing waits in the outbox of their event types."""

    names: Sequence[str]
    """The event types whose outbox is looked into."""
    partition_ids: Sequence[int]
    """Sorted."""
