"""The rules by which streams are handed to handlers and progress is made: pure, with the time given to every step.

    item      what the engine needs to know of an event
    rules     what a processor keeps to: how far it reads ahead, how it calls, backoff, health
    tranche   the batches of a tranche that are under way, and the position that is safe to resume from
    stream    a stream that waits: its events, its call, and its place among those that are ready
    parking   streams that are set aside, and how they are read again
    busy      which calls are active, which streams fail or stall, and for how long
    engine    all of it together

Runners (`penstock.processing.runners`) read, call and commit; they differ in nothing else.
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
