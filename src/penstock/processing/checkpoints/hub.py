"""Positions in a hub's consumer groups: whoever asks the hub who is behind, sees the processor among all others."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.client.client import Client
from penstock.client.credentials import make_auth
from penstock.client.http import adapter
from penstock.core.groups import PATH_NAME_ALLOWED, is_path_name
from penstock.errors import BadParameter, CheckpointMoved, GroupKindDiffers, GroupNotFound, PositionMoved
from penstock.processing.checkpoints.checkpoint import Advance, Request
from penstock.processing.engine.item import Position
from penstock.processing.engine.parking import Parked, Place
from penstock.processing.parameters import check_kind, check_name
from penstock.processing.sources.feed_position import FeedPosition, decode_tranche, encode_tranche
from penstock.processing.sources.subscription import SubscriptionSource
from penstock.wire.groups import NewPosition
from penstock.wire.http import check_address

PROCESSOR: Final = "processor"


class HubCheckpoints:
    """What a processor of feeds keeps, as a consumer group of the hub: `penstock groups` shows and resets it.

    Args:
        url: The hub's address.
        group: The name of the group.
        http: An `httpx2.Client` of your own; it stays yours to close.
        auth: Instead of *http*, the credential that is sent: see `Client`.

    Raises:
        BadParameter: the address or the name is none.
    """

    keeps_parked = False

    def __init__(self, url: str, group: str, *, http: Any = None, auth: Any = None) -> None:
        check_name("group", group)
        if not is_path_name(group):
            raise BadParameter(parameter="group", value=group, allowed=PATH_NAME_ALLOWED)
        self._url = check_address(url, relative=http is not None)
        self.name = group
        self._group = group
        adapter.check_auth(http, auth)
        self._http = http
        self._auth = make_auth(auth)

    def positions(self) -> Mapping[str, Position]:
        """Return where the processor has come to, by partition.

        Raises:
            GroupKindDiffers: the group is of another kind.
        """
        try:
            with self._client() as client:
                found = client.consumer_group(self._group)
        except GroupNotFound:
            return {}
        if found.kind != PROCESSOR:
            raise GroupKindDiffers(group=self._group, kind=found.kind, reason="no processor can have its name")
        return {
            encode_tranche(each.event_type, each.partition): FeedPosition(each.epoch, each.offset).encode()
            for each in found.positions
        }

    def parked(self) -> Sequence[Parked]:
        """Return nothing: streams are not parked here."""
        return ()

    def requests(self) -> Mapping[Place, Request]:
        """Return nothing, likewise."""
        return {}

    def commit(self, advance: Advance) -> None:
        """Keep *advance*: all of it, or nothing.

        Raises:
            CheckpointMoved: a position is not where it was thought to be.
            OutcomeUnknown, ConnectionLost: it is not known whether it is kept.
        """
        items = []
        for tranche, move in advance.moves.items():
            event_type, partition = decode_tranche(tranche)
            after = FeedPosition.decode(str(move.after))
            before = None if move.before is None else FeedPosition.decode(str(move.before)).offset
            items.append(NewPosition(event_type, partition, after.offset, epoch=after.epoch, expected=before))
        try:
            with self._client() as client:
                client.commit_positions(self._group, items, kind=PROCESSOR)
        except PositionMoved as error:
            tranche = encode_tranche(error.fields["event_type"], error.partition)
            raise CheckpointMoved(
                group=self._group, tranche=tranche, expected=error.expected, found=error.offset
            ) from error

    def _client(self) -> Client:
        # One for each call: calls are seconds apart, and nobody has to close anything.
        return Client(self._url, http=self._http, auth=self._auth, retry_timeout=0)


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
