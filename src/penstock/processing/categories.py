"""How many events of each category a processor has read and completed, without a look at any of them.

A tranche that is a partition of an event type has that category alone. Of what other tranches have, nothing is told.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class Category(NamedTuple):
    """Of one event type."""

    ingested: int
    """How many events were read."""
    completed: int
    """How many of them were in pages that are done."""


def categories(ingested: Mapping[str, int], completed: Mapping[str, int]) -> dict[str, Category]:
    """Return the figures of each category, out of those of its tranches.

    >>> categories({"order.placed/0": 3, "order.placed/1": 2, "in/today.ndjson": 7}, {"order.placed/1": 2})
    {'order.placed': Category(ingested=5, completed=2)}
    """
    read, done = _sums(ingested), _sums(completed)
    return {name: Category(count, done[name]) for name, count in read.items()}


def _sums(counts: Mapping[str, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for tranche, count in counts.items():
        event_type, slash, partition = tranche.rpartition("/")
        if slash and partition.isdecimal():
            found[event_type] += count
    return found
