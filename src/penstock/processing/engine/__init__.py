"""The engine of processors: schedules calls and tracks progress. It does no I/O; every step receives the time.

    item      protocol of the items that the engine schedules
    rules     a processor's rules: reading ahead, calls, backoff, health
    tranche   the unfinished batches of a tranche, and the position that is safe to resume from
    stream    a stream: its waiting events, its call, and the queue of ready streams
    parking   parked streams and their replay
    busy      active calls, failing and stalled streams, and their times
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
