"""What consumers need who are given events twice, late, or out of order.

    duplicates  drops repeats, by `eid`, within a window kept beside the consumer's state
    changes     which data changes take effect, in whatever order they come; latest keeps what it has to know
    history     puts the events of an entity or a process in order; held_back does so while they come

What is kept lies in the consumer's own database, written in its own transactions.
"""

from penstock.processing.changes import Change, Changes, Known
from penstock.processing.duplicates import AsyncDuplicates, Duplicates
from penstock.processing.held_back import HeldBack
from penstock.processing.history import History, by_parents, grouped, in_order
from penstock.processing.latest import AsyncLatest, Latest

__all__ = [
    "AsyncDuplicates",
    "AsyncLatest",
    "Change",
    "Changes",
    "Duplicates",
    "HeldBack",
    "History",
    "Known",
    "Latest",
    "by_parents",
    "grouped",
    "in_order",
]
