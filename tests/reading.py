"""Reads pages of a hub in this process, with everything that was committed before."""

from collections.abc import Sequence

from penstock.hub.hub import Hub
from penstock.hub.log.read import PageReading, UnsettledError, WantedPartition
from penstock.storage.log.events import KindFilter


def open_settled(
    hub: Hub,
    name: str,
    n: int | None,
    wanted: Sequence[WantedPartition],
    page_size: int,
    *,
    kinds: KindFilter | None = None,
) -> PageReading:
    """Open a page as the hub's routes do: if it reaches the head, the outbox is moved first."""
    try:
        return hub.log.reader.open(name, n, wanted, page_size, kinds, settled=False)
    except UnsettledError:
        hub.log.settle(name)
        return hub.log.reader.open(name, n, wanted, page_size, kinds)
