"""Where a partition ends for now. A server that knows cursors alone cannot say it: a page that brings nothing tells."""

from collections import Counter
from typing import Final

from penstock.spark.zeroeventhub.options import RemoteOptions
from penstock.wire.log.reader.pages import Page

EMPTY_PAGES_MAX: Final = 3
"""So many pages without events in a row are the end also where the cursor moves on: some move with the time."""


class Ends:
    """Looks at the pages of one traversal.

    A page without events that leaves the cursor where it is ends a partition. Where kinds of events are filtered,
    nothing else does: any number of pages may hold none of those.
    """

    def __init__(self, options: RemoteOptions) -> None:
        self._empty_max = None if options.event_types else EMPTY_PAGES_MAX
        self._empty: Counter[int] = Counter()

    def is_end(self, partition: int, page: Page) -> bool:
        """Tell whether *partition* ends with *page*."""
        if page.events:
            self._empty[partition] = 0
            return False
        self._empty[partition] += 1
        stays = page.cursors[partition] == page.since[partition]
        return stays or self._empty[partition] == self._empty_max
