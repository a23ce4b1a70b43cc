"""Sources: processors read their events from them.

    FeedSource          a hub's feeds
    SubscriptionSource  a hub's subscription: the hub keeps the positions and shares out the partitions
    FileSource          files of JSON lines
    PeriodicSource      a traversal at every interval
    KafkaSource         topics of Kafka
    MessagedbSource     categories of a MessageDB
    IterableSource      an iterable, once
    MemorySource        the events that a test appends
    Filtered            selected events of another source

A source of your own implements `Source`: it returns a `Batch` of items for each `ReadRequest`.
"""

from typing import TYPE_CHECKING

from penstock.lazy_exports import export_lazily

if TYPE_CHECKING:
    from penstock.processing.engine.tranche import Batch, Position, SourceItem
    from penstock.processing.sources.feed import FeedSource
    from penstock.processing.sources.file import FileSource
    from penstock.processing.sources.filtered import Filtered
    from penstock.processing.sources.iterable import IterableSource
    from penstock.processing.sources.kafka import KafkaSource
    from penstock.processing.sources.memory import MemorySource
    from penstock.processing.sources.messagedb import MessagedbSource
    from penstock.processing.sources.periodic import PeriodicSource
    from penstock.processing.sources.source import ReadRequest, Source
    from penstock.processing.sources.subscription import SubscriptionSource
else:
    __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "processing.engine.tranche": ["Batch", "Position", "SourceItem"],
            "processing.sources.feed": ["FeedSource"],
            "processing.sources.file": ["FileSource"],
            "processing.sources.filtered": ["Filtered"],
            "processing.sources.iterable": ["IterableSource"],
            "processing.sources.kafka": ["KafkaSource"],
            "processing.sources.memory": ["MemorySource"],
            "processing.sources.messagedb": ["MessagedbSource"],
            "processing.sources.periodic": ["PeriodicSource"],
            "processing.sources.source": ["ReadRequest", "Source"],
            "processing.sources.subscription": ["SubscriptionSource"],
        },
    )

__all__ = [
    "Batch",
    "FeedSource",
    "FileSource",
    "Filtered",
    "IterableSource",
    "KafkaSource",
    "MemorySource",
    "MessagedbSource",
    "PeriodicSource",
    "Position",
    "ReadRequest",
    "Source",
    "SourceItem",
    "SubscriptionSource",
]
