"""A log that has batches of an idempotent producer."""

import pytest

from penstock.core.registry.event_type import StoredFeed
from penstock.storage import Store
from tests.unit.hub.feeds import create_feed
from tests.unit.hub.numbering import fill_log


@pytest.fixture
def feed(store: Store) -> StoredFeed:
    """An event type of two partitions; the first has a log, see `fill_log`: epochs 2 and 3."""
    feed = create_feed(store, partition_count=2)
    fill_log(store, feed)
    return feed
