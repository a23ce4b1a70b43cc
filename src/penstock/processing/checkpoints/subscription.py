"""Positions of a subscription: the hub keeps its cursors, as it does for all who consume one."""

from collections.abc import Mapping, Sequence

from penstock.processing.checkpoints.checkpoint import Advance, Request
from penstock.processing.engine.item import Position
from penstock.processing.engine.parking import Parked, Place
from penstock.processing.parameters import check_kind
from penstock.processing.sources.subscription import SubscriptionSource


class SubscriptionCheckpoints:
    """Commits the cursors of what a processor has handled of a `SubscriptionSource`.

    Two processors of one subscription do not overwrite each other: each commits the partitions that it was sent.

    Args:
        source: What the processor reads.

    Raises:
        BadParameter: it is no such source.
    """

    keeps_parked = False

    def __init__(self, source: SubscriptionSource) -> None:
        check_kind("source", source, SubscriptionSource, "the SubscriptionSource that the processor reads")
        self.source = source

    def positions(self) -> Mapping[str, Position]:
        """Return up to where each partition is committed.

        Raises:
            SubscriptionNotFound: there is none of that id.
        """
        return self.source.committed()

    def parked(self) -> Sequence[Parked]:
        """Return nothing: streams are not parked here."""
        return ()

    def requests(self) -> Mapping[Place, Request]:
        """Return nothing, likewise."""
        return {}

    def commit(self, advance: Advance) -> None:
        """Commit what *advance* says. What the hub takes no more is sent again, to this or to another processor.

        Raises:
            PenstockError: it is not known whether it is committed: try again later.
        """
        self.source.commit({tranche: move.after for tranche, move in advance.moves.items()})
