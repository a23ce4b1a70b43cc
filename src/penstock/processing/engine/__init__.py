"""The engine of processors: schedules calls and tracks progress. It does no I/O; every step receives the time.

    rules     a processor's rules: reading ahead, calls, backoff, health
    tranche   items, batches, and the position of each tranche that is safe to resume from
    stream    streams: their waiting events and calls, the queue of ready ones, and those in trouble
    parking   parked streams and their replay
    engine    combines all of these

Runners (`penstock.processing.runners`) read, call and commit; they differ only in that.
"""

from typing import TYPE_CHECKING

from penstock.lazy_exports import export_lazily

if TYPE_CHECKING:
    from penstock.processing.engine.rules import Backoff, Health, Rules
else:
    __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "processing.engine.rules": ["Backoff", "Health", "Rules"],
        },
    )

__all__ = [
    "Backoff",
    "Health",
    "Rules",
]
