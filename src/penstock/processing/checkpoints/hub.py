"""Positions in a hub's consumer groups: the hub shows the processor's lag among that of all other consumers."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from penstock.client.client import Client
from penstock.client.credentials import make_auth
from penstock.client.http import adapter
from penstock.core.group_names import PATH_NAME_ALLOWED, is_path_name
from penstock.core.groups.groups import PROCESSOR
from penstock.core.groups.parking import DETAIL_CHARS_MAX, Request
from penstock.errors import (
    AccessDenied,
    BadParameter,
    CheckpointMoved,
    GroupKindDiffers,
    GroupNotFound,
    ParkedNotFound,
    PositionMoved,
)
from penstock.processing.checkpoints.checkpoint import Advance, check_request, decode_name, encode_name
from penstock.processing.engine.parking import Parked, Place
from penstock.processing.engine.tranche import Position
from penstock.processing.parameters import check_kind, check_name
from penstock.processing.sources.feed_position import FeedPosition, decode_tranche, encode_tranche
from penstock.processing.sources.subscription import SubscriptionSource
from penstock.wire.groups import GroupParkedStream, NewParkedStream, NewPosition, ParkedStreamPlace
from penstock.wire.http import check_address

DETAILS_CHARS: Final = 2_000_000
"""Maximum characters of all parked streams' details in one commit: the size of a request is limited."""


class HubCheckpoints:
    """Stores the progress of a processor of feeds in a consumer group of the hub: `penstock groups` shows and moves it.

    Args:
        url: The hub's address.
        group: The name of the group.
        http: An `httpx2.Client` of your own, which you close yourself.
        auth: Instead of *http*, the credential to send: see `Client`.

    Raises:
        BadParameter: the address or the name is invalid.
    """

    keeps_parked = True

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
        self._parked: set[Place] | None = None
        """The parked places that this object has read or stored; None: not read yet."""

    def positions(self) -> Mapping[str, Position]:
        """Return the processor's positions, by partition.

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
        """Return the parked spans, the oldest first.

        Raises:
            AccessDenied: the caller may not read the event type of a parked stream.
        """
        found = [self._read(each) for each in self._list_parked()]
        self._parked = {each.place for each in found}
        return found

    def requests(self) -> Mapping[Place, Request]:
        """Return the requests for parked streams, by stream and tranche."""
        if self._parked is not None and not self._parked:
            return {}  # No stream is parked: this saves a call of the hub for each commit.
        wanted = self._list_parked(requested=True)
        return {self._read(each).place: cast("Request", each.request) for each in wanted}

    def ask(self, stream: str, request: Request, *, reason: str | None = None) -> None:
        """Request that a parked stream is retried or skipped. The processor does so while it runs, or when it starts.

        The group's history records a skip, with the *reason*.

        Raises:
            BadParameter: the request is neither `retry` nor `skip`.
            ParkedNotFound: no stream of that name is parked.
        """
        check_request(stream, request)
        parked = next((each for each in self._list_parked() if each.stream == encode_name(stream)), None)
        if parked is None:
            raise ParkedNotFound.of("parked-stream-not-found", processor=self.name, stream=stream)
        with self._client() as client:
            if request == "retry":
                client.retry_parked_stream(self._group, parked.id)
            else:
                client.skip_parked_stream(self._group, parked.id, reason or "no reason was given")

    def commit(self, advance: Advance) -> None:
        """Store *advance* atomically.

        Raises:
            CheckpointMoved: a stored position differs from the expected one.
            OutcomeUnknown, ConnectionLost: *advance* may be stored, or not.
        """
        items = []
        for tranche, move in advance.moves.items():
            event_type, partition = decode_tranche(tranche)
            after = FeedPosition.decode(str(move.after))
            before = None if move.before is None else FeedPosition.decode(str(move.before)).offset
            items.append(NewPosition(event_type, partition, after.offset, epoch=after.epoch, expected=before))
        parked = [each for each in advance.parked.values() if each is not None]
        over = {place for place, each in advance.parked.items() if each is None} | advance.anew
        chars = min(DETAIL_CHARS_MAX, DETAILS_CHARS // max(1, len(parked)))
        try:
            with self._client() as client:
                client.commit_positions(
                    self._group,
                    items,
                    kind=PROCESSOR,
                    parked=[_to_parked(each, chars) for each in parked],
                    unparked=[_to_place(each) for each in sorted(over)],
                    tried=[_to_place(each) for each in sorted(advance.tried)],
                )
        except PositionMoved as error:
            tranche = encode_tranche(error.fields["event_type"], error.partition)
            raise CheckpointMoved(
                group=self._group, tranche=tranche, expected=error.expected, found=error.offset
            ) from error
        if self._parked is not None:
            self._parked -= over
            self._parked |= {each.place for each in parked}

    def _list_parked(self, *, requested: bool = False) -> Sequence[GroupParkedStream]:
        try:
            with self._client() as client:
                return client.parked_streams(self._group, requested=requested)
        except GroupNotFound:
            return ()

    def _read(self, found: GroupParkedStream) -> Parked:
        if found.stream is None or found.detail is None:
            raise AccessDenied(operation="READ", resource=f"event-type:{found.event_type}")
        return Parked(
            decode_name(found.stream),
            encode_tranche(found.event_type, found.partition),
            found.index,
            found.next,
            found.events,
            found.attempts,
            found.tag,
            found.detail,
            found.since,
        )

    def _client(self) -> Client:
        # One for each call: calls are seconds apart, and users have nothing to close.
        return Client(self._url, http=self._http, auth=self._auth, retry_timeout=0)


def _to_place(place: Place) -> ParkedStreamPlace:
    stream, tranche = place
    event_type, partition = decode_tranche(tranche)
    return ParkedStreamPlace(event_type, partition, encode_name(stream))


def _to_parked(parked: Parked, detail_chars: int) -> NewParkedStream:
    event_type, partition = decode_tranche(parked.tranche)
    return NewParkedStream(
        event_type=event_type,
        partition=partition,
        stream=encode_name(parked.stream),
        index=parked.index,
        next=parked.next,
        events=parked.events,
        attempts=parked.attempts,
        tag=parked.tag,
        detail=parked.detail[:detail_chars],
        since=str(parked.since),
    )


class SubscriptionCheckpoints:
    """Commits the cursors of a `SubscriptionSource` for a processor.

    Two processors of one subscription do not overwrite each other: each commits its own partitions. The hub stores
    parked streams: `penstock groups parked` shows them, and has their events sent again.

    Args:
        source: The processor's source.

    Raises:
        BadParameter: *source* is not a `SubscriptionSource`.
    """

    def __init__(self, source: SubscriptionSource) -> None:
        check_kind("source", source, SubscriptionSource, "the SubscriptionSource that the processor reads")
        self.source = source

    @property
    def keeps_parked(self) -> bool:
        """True if streams are the event type's keys: the hub parks keys."""
        return self.source.has_keys_as_streams

    def positions(self) -> Mapping[str, Position]:
        """Return the committed position of each partition.

        Raises:
            SubscriptionNotFound: no subscription has that id.
        """
        return self.source.list_committed()

    def parked(self) -> Sequence[Parked]:
        """Return nothing: the hub stores parked streams, and sends their events again for a retry."""
        return ()

    def requests(self) -> Mapping[Place, Request]:
        """Return nothing: the hub serves requests for parked streams."""
        return {}

    def commit(self, advance: Advance) -> None:
        """Commit the positions of *advance*, and park its parked streams at the hub.

        The hub parks a key before the cursor of its partition passes it, and sends that partition again from its
        cursor, so a later call commits it. Events whose commits the hub refuses are sent again, to any processor.

        Raises:
            PenstockError: the positions may or may not be committed: try again later.
        """
        parked = [each for each in advance.parked.values() if each is not None]
        held = {each.tranche for each in parked}
        self.source.commit({tranche: move.after for tranche, move in advance.moves.items() if tranche not in held})
        if parked:
            self.source.park(parked)

    def confirm_hand_over(self) -> None:
        """Resume the source: the hub now stores the streams that the last commit parked, not the processor."""
        self.source.resume()
