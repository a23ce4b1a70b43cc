"""What consumers make of events: handlers, called stream by stream, and what guards against repeats and disorder.

A processor reads a source, calls a handler, and keeps how far it is:

    runners       Local runs it in this process, Inline step by step for tests
    sources       FeedSource: a hub's feeds; SubscriptionSource: its subscriptions; FileSource: files of JSON lines;
                  PeriodicSource: what is gone through again and again; IterableSource: what is iterated over once;
                  MemorySource: what a test appends; Filtered: what is wanted of any of them
    checkpoints   HubCheckpoints, SubscriptionCheckpoints, DatabaseCheckpoints, MemoryCheckpoints
    engine        the rules, pure: Rules, and the outcomes that handlers return
    targets       HubTarget, MessagedbTarget: what sync copies streams to

What handlers bring about goes through a Batcher, where many write to one target; react publishes it.

What consumers need that keep their own place in a feed:

    duplicates    drops repeats, by `eid`, within a window kept beside the consumer's state
    changes       which data changes take effect, in whatever order they come; latest keeps what it has to know
    history       puts the events of an entity or a process in order; held_back does so while they come

What is kept lies in the consumer's own database, written in its own transactions, or with the hub.
"""

from typing import TYPE_CHECKING

from penstock.lazy_exports import export_lazily

if TYPE_CHECKING:
    from penstock.processing.batcher import AsyncBatcher, AsyncKeyedBatcher, Batcher, KeyedBatcher
    from penstock.processing.changes import Change, Changes, Known
    from penstock.processing.checkpoints.checkpoint import Advance, Checkpoints, Move
    from penstock.processing.checkpoints.database import DatabaseCheckpoints
    from penstock.processing.checkpoints.hub import HubCheckpoints, SubscriptionCheckpoints
    from penstock.processing.checkpoints.leases import DatabaseLeases
    from penstock.processing.checkpoints.memory import MemoryCheckpoints
    from penstock.processing.connecting import connector
    from penstock.processing.duplicates import AsyncDuplicates, Duplicates
    from penstock.processing.effects import Effect, effect_id
    from penstock.processing.engine.item import Batch, Item, Position
    from penstock.processing.engine.outcome import Outcome, done, done_to, retry, skip_to
    from penstock.processing.engine.parking import Parked
    from penstock.processing.engine.rules import Backoff, Health, Rules
    from penstock.processing.engine.stats import Stats
    from penstock.processing.event_handler import EventHandler, handles
    from penstock.processing.handling import Classify, Handler, by_kind
    from penstock.processing.history import HeldBack, History, by_parents, grouped, in_order
    from penstock.processing.latest import AsyncLatest, Latest
    from penstock.processing.projections.projection import Projection
    from penstock.processing.projections.table import CurrentRow, current_row
    from penstock.processing.reacting import Effects, Publisher, react
    from penstock.processing.runners.inline import Inline
    from penstock.processing.runners.local import Local
    from penstock.processing.snapshot import Snapshot
    from penstock.processing.sources.feed import FeedSource
    from penstock.processing.sources.file import FileSource
    from penstock.processing.sources.filtered import Filtered
    from penstock.processing.sources.iterable import IterableSource
    from penstock.processing.sources.memory import MemorySource
    from penstock.processing.sources.periodic import PeriodicSource
    from penstock.processing.sources.source import Source, Want
    from penstock.processing.sources.subscription import SubscriptionSource
    from penstock.processing.stream_event import StreamEvent
    from penstock.processing.syncing import sync
    from penstock.processing.targets.hub import HubTarget
    from penstock.processing.targets.messagedb import MessagedbTarget
    from penstock.processing.targets.target import Attained, Duplicate, Partial, PrefixMissing, SyncTarget, Written
    from penstock.processing.together import Span, Together, Transactional
else:
    __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "processing.batcher": ["AsyncBatcher", "AsyncKeyedBatcher", "Batcher", "KeyedBatcher"],
            "processing.changes": ["Change", "Changes", "Known"],
            "processing.checkpoints.checkpoint": ["Advance", "Checkpoints", "Move"],
            "processing.checkpoints.database": ["DatabaseCheckpoints"],
            "processing.checkpoints.hub": ["HubCheckpoints", "SubscriptionCheckpoints"],
            "processing.checkpoints.leases": ["DatabaseLeases"],
            "processing.checkpoints.memory": ["MemoryCheckpoints"],
            "processing.connecting": ["connector"],
            "processing.duplicates": ["AsyncDuplicates", "Duplicates"],
            "processing.engine.item": ["Batch", "Item", "Position"],
            "processing.engine.outcome": ["Outcome", "done", "done_to", "retry", "skip_to"],
            "processing.engine.parking": ["Parked"],
            "processing.engine.rules": ["Backoff", "Health", "Rules"],
            "processing.engine.stats": ["Stats"],
            "processing.event_handler": ["EventHandler", "handles"],
            "processing.handling": ["Classify", "Handler", "by_kind"],
            "processing.history": ["HeldBack", "History", "by_parents", "grouped", "in_order"],
            "processing.latest": ["AsyncLatest", "Latest"],
            "processing.projections.table": ["CurrentRow", "current_row"],
            "processing.projections.projection": ["Projection"],
            "processing.effects": ["Effect", "effect_id"],
            "processing.reacting": ["Effects", "Publisher", "react"],
            "processing.runners.inline": ["Inline"],
            "processing.runners.local": ["Local"],
            "processing.snapshot": ["Snapshot"],
            "processing.sources.feed": ["FeedSource"],
            "processing.sources.file": ["FileSource"],
            "processing.sources.filtered": ["Filtered"],
            "processing.sources.iterable": ["IterableSource"],
            "processing.sources.memory": ["MemorySource"],
            "processing.sources.periodic": ["PeriodicSource"],
            "processing.sources.source": ["Source", "Want"],
            "processing.sources.subscription": ["SubscriptionSource"],
            "processing.stream_event": ["StreamEvent"],
            "processing.syncing": ["sync"],
            "processing.targets.hub": ["HubTarget"],
            "processing.targets.messagedb": ["MessagedbTarget"],
            "processing.targets.target": ["Attained", "Duplicate", "Partial", "PrefixMissing", "SyncTarget", "Written"],
            "processing.together": ["Span", "Together", "Transactional"],
        },
    )

__all__ = [
    "Advance",
    "AsyncBatcher",
    "AsyncDuplicates",
    "AsyncKeyedBatcher",
    "AsyncLatest",
    "Attained",
    "Backoff",
    "Batch",
    "Batcher",
    "Change",
    "Changes",
    "Checkpoints",
    "Classify",
    "CurrentRow",
    "DatabaseCheckpoints",
    "DatabaseLeases",
    "Duplicate",
    "Duplicates",
    "Effect",
    "Effects",
    "EventHandler",
    "FeedSource",
    "FileSource",
    "Filtered",
    "Handler",
    "Health",
    "HeldBack",
    "History",
    "HubCheckpoints",
    "HubTarget",
    "Inline",
    "Item",
    "IterableSource",
    "KeyedBatcher",
    "Known",
    "Latest",
    "Local",
    "MemoryCheckpoints",
    "MemorySource",
    "MessagedbTarget",
    "Move",
    "Outcome",
    "Parked",
    "Partial",
    "PeriodicSource",
    "Position",
    "PrefixMissing",
    "Projection",
    "Publisher",
    "Rules",
    "Snapshot",
    "Source",
    "Span",
    "Stats",
    "StreamEvent",
    "SubscriptionCheckpoints",
    "SubscriptionSource",
    "SyncTarget",
    "Together",
    "Transactional",
    "Want",
    "Written",
    "by_kind",
    "by_parents",
    "connector",
    "current_row",
    "done",
    "done_to",
    "effect_id",
    "grouped",
    "handles",
    "in_order",
    "react",
    "retry",
    "skip_to",
    "sync",
]
