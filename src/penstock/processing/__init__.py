"""Processors: they read events, call a handler with the events of one stream at a time, and keep their positions.

Most programs need these names, which this package exports:

    handles             the shortest way: makes a function of an event a processor with a group in the hub
    LocalProcessor      runs a handler in this process; InlineProcessor does so step by step, for tests
    FeedSource          reads feeds; SubscriptionSource reads a subscription
    HubCheckpoints      keeps positions in the hub; DatabaseCheckpoints keeps them in a database of yours
    Rules               the number of calls at once, and the treatment of failures
    Transactional       a handler whose writes and positions are one transaction
    Projection          a table that is the fold of events
    react               a handler whose results are published exactly once

The others are exported by the module of their subject:

    sources      checkpoints    targets      projections        the parts of a processor, and parts for special cases
    outcomes     done, done_to, retry, skip_to: the results of a handler; stats: its statistics
    handlers     by_kind: a handler for each kind of event; together: Together, a handler of many streams at once
    engine       Backoff, Health
    batcher      gathers the writes of many handlers to one target
    duplicates   drops repeated events; changes and latest keep the newest change of each entity
    history      puts the events of an entity or a process in order
    view, metrics, snapshot   show how a processor is doing
"""

from typing import TYPE_CHECKING

from penstock.lazy_exports import export_lazily

if TYPE_CHECKING:
    from penstock.processing.checkpoints.database import DatabaseCheckpoints
    from penstock.processing.checkpoints.hub import HubCheckpoints
    from penstock.processing.engine.rules import Rules
    from penstock.processing.event_handler import handles
    from penstock.processing.projections.projection import Projection
    from penstock.processing.reactions import react
    from penstock.processing.runners.inline import InlineProcessor
    from penstock.processing.runners.local import LocalProcessor
    from penstock.processing.sources.feed import FeedSource
    from penstock.processing.sources.subscription import SubscriptionSource
    from penstock.processing.stream_event import StreamEvent
    from penstock.processing.together import Transactional
else:
    __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "processing.checkpoints.database": ["DatabaseCheckpoints"],
            "processing.checkpoints.hub": ["HubCheckpoints"],
            "processing.engine.rules": ["Rules"],
            "processing.event_handler": ["handles"],
            "processing.together": ["Transactional"],
            "processing.projections.projection": ["Projection"],
            "processing.reactions": ["react"],
            "processing.runners.inline": ["InlineProcessor"],
            "processing.runners.local": ["LocalProcessor"],
            "processing.sources.feed": ["FeedSource"],
            "processing.sources.subscription": ["SubscriptionSource"],
            "processing.stream_event": ["StreamEvent"],
        },
    )

__all__ = [
    "DatabaseCheckpoints",
    "FeedSource",
    "HubCheckpoints",
    "InlineProcessor",
    "LocalProcessor",
    "Projection",
    "Rules",
    "StreamEvent",
    "SubscriptionSource",
    "Transactional",
    "handles",
    "react",
]
