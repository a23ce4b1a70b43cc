"""What consumers make of events: handlers, called stream by stream, and what guards against repeats and disorder.

A processor reads a source, calls a handler, and keeps how far it is:

    runners       Local runs it in this process, Inline step by step for tests
    sources       FeedSource: a hub's feeds; MemorySource: what a test appends
    checkpoints   HubCheckpoints, DatabaseCheckpoints, MemoryCheckpoints
    engine        the rules, pure: Rules, and the outcomes that handlers return

What consumers need that keep their own place in a feed:

    duplicates    drops repeats, by `eid`, within a window kept beside the consumer's state
    changes       which data changes take effect, in whatever order they come; latest keeps what it has to know
    history       puts the events of an entity or a process in order; held_back does so while they come

What is kept lies in the consumer's own database, written in its own transactions, or with the hub.
"""

from penstock.processing.changes import Change, Changes, Known
from penstock.processing.checkpoints.checkpoint import Advance, Checkpoints, Move
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.checkpoints.hub import HubCheckpoints
from penstock.processing.checkpoints.memory import MemoryCheckpoints
from penstock.processing.duplicates import AsyncDuplicates, Duplicates
from penstock.processing.engine.backoff import Backoff
from penstock.processing.engine.health import Health
from penstock.processing.engine.item import Batch, Item, Position
from penstock.processing.engine.outcome import Outcome, done, done_to, retry, skip_to
from penstock.processing.engine.parked import Parked
from penstock.processing.engine.rules import Rules
from penstock.processing.handling import Classify, Handler, by_kind
from penstock.processing.held_back import HeldBack
from penstock.processing.history import History, by_parents, grouped, in_order
from penstock.processing.latest import AsyncLatest, Latest
from penstock.processing.runners.inline import Inline
from penstock.processing.runners.local import Local
from penstock.processing.snapshot import Snapshot
from penstock.processing.sources.feed import FeedSource
from penstock.processing.sources.memory import MemorySource
from penstock.processing.sources.source import Source, Want
from penstock.processing.stream_event import StreamEvent

__all__ = [
    "Advance",
    "AsyncDuplicates",
    "AsyncLatest",
    "Backoff",
    "Batch",
    "Change",
    "Changes",
    "Checkpoints",
    "Classify",
    "DatabaseCheckpoints",
    "Duplicates",
    "FeedSource",
    "Handler",
    "Health",
    "HeldBack",
    "History",
    "HubCheckpoints",
    "Inline",
    "Item",
    "Known",
    "Latest",
    "Local",
    "MemoryCheckpoints",
    "MemorySource",
    "Move",
    "Outcome",
    "Parked",
    "Position",
    "Rules",
    "Snapshot",
    "Source",
    "StreamEvent",
    "Want",
    "by_kind",
    "by_parents",
    "done",
    "done_to",
    "grouped",
    "in_order",
    "retry",
    "skip_to",
]
