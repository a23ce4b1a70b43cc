"""How far positions that a hub does not keep are behind in its feeds."""

import time
from collections.abc import Mapping
from typing import Final

from penstock.cli.groups.own import UNKNOWN, Behind
from penstock.cli.output import tell
from penstock.client import Client, PartitionOffsets
from penstock.errors import BadParameter, EventTypeNotFound, PenstockError
from penstock.processing.sources.feed import FeedPage, FeedPages, import_pyarrow
from penstock.processing.sources.feed_position import FeedPosition, decode_tranche, encode_tranche
from penstock.wire.http import is_transient

MICROSECONDS: Final = 1_000_000


class Gaps:
    """Asks a hub. Where it is away, or a feed is another one now, that is said once, and nothing is known.

    Args:
        client: Of the hub.
        url: Its address.
    """

    def __init__(self, client: Client, url: str) -> None:
        self._client = client
        self._url = url
        self._known: dict[str, Mapping[int, PartitionOffsets]] = {}
        self._is_away = False
        self._told: set[str] = set()

    def of(self, tranche: str, position: int | str) -> Behind:
        """Return the gap and lag of a position in a tranche; unknown if the tranche is no partition at this hub."""
        try:
            (event_type, partition), place = decode_tranche(tranche), FeedPosition.decode(str(position))
        except BadParameter:
            return UNKNOWN
        if self._is_away:
            return UNKNOWN
        try:
            return self._behind(event_type, partition, place)
        except PenstockError as error:
            if not is_transient(error):
                raise
            self._is_away = True
            tell(f"gap and lag are not known: {error.detail}", style="yellow")
            return UNKNOWN

    def _behind(self, event_type: str, partition: int, place: FeedPosition) -> Behind:
        found = self._partitions(event_type).get(partition)
        if found is None:
            return UNKNOWN
        if found.epoch != place.epoch:
            what = f"{event_type!r} was created again, it is in epoch {found.epoch}, not {place.epoch}"
            self._tell(event_type, f"{what}; `penstock groups delete` has a processor begin anew there")
            return UNKNOWN
        if place.offset > found.head:
            tranche = encode_tranche(event_type, partition)
            what = f"{tranche} ends at {found.epoch}:{found.head}, before {place.encode()}"
            self._tell(tranche, f"{what}; `penstock groups reset` moves a processor")
            return UNKNOWN
        offset = max(place.offset, found.oldest)
        gap = max(0, found.head - offset)
        if not gap:
            return Behind(0, 0.0)
        pages = FeedPages(self._url, event_type, time.monotonic, retry_timeout=0.0)
        page = pages.page(found.epoch, len(self._partitions(event_type)), {partition: offset}, 1, 0.0)
        return Behind(gap, _age(self._client.parts()[1].carry_out(page)))

    def _tell(self, place: str, why: str) -> None:
        """Say once of a feed, or of a partition, why a processor does not go on there."""
        if place not in self._told:
            self._told.add(place)
            tell(f"gap and lag are not known: {why}", style="yellow")

    def _partitions(self, event_type: str) -> Mapping[int, PartitionOffsets]:
        if event_type not in self._known:
            try:
                self._known[event_type] = {each.partition: each for each in self._client.partitions(event_type)}
            except EventTypeNotFound:
                self._known[event_type] = {}
        return self._known[event_type]


def _age(page: FeedPage | None) -> float | None:
    """Return how old the first event of a page is; None: it has none."""
    if page is None or not page.events.num_rows:
        return None
    received: int = page.events.column("received_at").cast(import_pyarrow().int64())[0].as_py()
    return max(0.0, round(time.time() - received / MICROSECONDS, 3))
