"""Positions in a hub's consumer groups: whoever asks the hub who is behind, sees the processor among all others."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from penstock.client.client import Client
from penstock.client.credentials import make_auth
from penstock.client.http import adapter
from penstock.core.group_parking import DETAIL_CHARS_MAX, Request
from penstock.core.groups import PATH_NAME_ALLOWED, PROCESSOR, is_path_name
from penstock.errors import (
    AccessDenied,
    BadParameter,
    CheckpointMoved,
    GroupKindDiffers,
    GroupNotFound,
    ParkedNotFound,
    PositionMoved,
)
from penstock.processing.checkpoints.checkpoint import Advance, check_request
from penstock.processing.checkpoints.names import kept, name_of
from penstock.processing.engine.item import Position
from penstock.processing.engine.parking import Parked, Place
from penstock.processing.parameters import check_kind, check_name
from penstock.processing.sources.feed_position import FeedPosition, decode_tranche, encode_tranche
from penstock.processing.sources.subscription import SubscriptionSource
from penstock.wire.groups import GroupParkedStream, NewParkedStream, NewPosition, ParkedStreamPlace
from penstock.wire.http import check_address

DETAILS_CHARS: Final = 2_000_000
"""One commit has so many characters of why streams are parked: a request has a limit."""


class HubCheckpoints:
    """What a processor of feeds keeps, as a consumer group of the hub: `penstock groups` shows and moves it.

    Args:
        url: The hub's address.
        group: The name of the group.
        http: An `httpx2.Client` of your own; it stays yours to close.
        auth: Instead of *http*, the credential that is sent: see `Client`.

    Raises:
        BadParameter: the address or the name is none.
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
        """What is parked, as far as this one has read or put it; None: nobody has looked."""

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
        """Return what is parked, the oldest first.

        Raises:
            AccessDenied: the caller may not read an event type of which a stream is parked.
        """
        found = [self._read(each) for each in self._list_parked()]
        self._parked = {each.place for each in found}
        return found

    def requests(self) -> Mapping[Place, Request]:
        """Return what is wanted of parked streams, by stream and tranche."""
        if self._parked is not None and not self._parked:
            return {}  # Nothing can be wanted: this spares a request for each commit.
        wanted = self._list_parked(requested=True)
        return {self._read(each).place: cast("Request", each.request) for each in wanted}

    def ask(self, stream: str, request: Request, *, reason: str | None = None) -> None:
        """Want a parked stream tried again, or passed over. The processor takes it up while it runs, or when it starts.

        Streams that are passed over are on record in the group's history, with the *reason*.

        Raises:
            BadParameter: the request is neither `retry` nor `skip`.
            ParkedNotFound: there is none of that name.
        """
        check_request(stream, request)
        parked = next((each for each in self._list_parked() if each.stream == kept(stream)), None)
        if parked is None:
            raise ParkedNotFound.of("parked-stream-not-found", processor=self.name, stream=stream)
        with self._client() as client:
            if request == "retry":
                client.retry_parked_stream(self._group, parked.id)
            else:
                client.skip_parked_stream(self._group, parked.id, reason or "no reason was given")

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
        parked = [each for each in advance.parked.values() if each is not None]
        over = {place for place, each in advance.parked.items() if each is None} | advance.anew
        chars = min(DETAIL_CHARS_MAX, DETAILS_CHARS // max(1, len(parked)))
        try:
            with self._client() as client:
                client.commit_positions(
                    self._group,
                    items,
                    kind=PROCESSOR,
                    parked=[_new_parked(each, chars) for each in parked],
                    unparked=[_stream_place(each) for each in sorted(over)],
                    tried=[_stream_place(each) for each in sorted(advance.tried)],
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
            name_of(found.stream),
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
        # One for each call: calls are seconds apart, and nobody has to close anything.
        return Client(self._url, http=self._http, auth=self._auth, retry_timeout=0)


def _stream_place(place: Place) -> ParkedStreamPlace:
    stream, tranche = place
    event_type, partition = decode_tranche(tranche)
    return ParkedStreamPlace(event_type, partition, kept(stream))


def _new_parked(parked: Parked, detail_chars: int) -> NewParkedStream:
    event_type, partition = decode_tranche(parked.tranche)
    return NewParkedStream(
        event_type=event_type,
        partition=partition,
        stream=kept(parked.stream),
        index=parked.index,
        next=parked.next,
        events=parked.events,
        attempts=parked.attempts,
        tag=parked.tag,
        detail=parked.detail[:detail_chars],
        since=str(parked.since),
    )


class SubscriptionCheckpoints:
    """Commits the cursors of what a processor has handled of a `SubscriptionSource`.

    Two processors of one subscription do not overwrite each other: each commits the partitions that it was sent. The
    hub keeps what is parked: `penstock groups parked` shows it, and has it sent again.

    Args:
        source: What the processor reads.

    Raises:
        BadParameter: it is no such source.
    """

    def __init__(self, source: SubscriptionSource) -> None:
        check_kind("source", source, SubscriptionSource, "the SubscriptionSource that the processor reads")
        self.source = source

    @property
    def keeps_parked(self) -> bool:
        """Whether parked streams are kept: where streams are the event type's keys, since the hub parks keys."""
        return self.source.has_keys_as_streams

    def positions(self) -> Mapping[str, Position]:
        """Return up to where each partition is committed.

        Raises:
            SubscriptionNotFound: there is none of that id.
        """
        return self.source.committed()

    def parked(self) -> Sequence[Parked]:
        """Return nothing: the hub keeps what is parked, and sends it again when it is to be tried again."""
        return ()

    def requests(self) -> Mapping[Place, Request]:
        """Return nothing, likewise."""
        return {}

    def commit(self, advance: Advance) -> None:
        """Commit what *advance* says, or where something is parked, have the hub park it.

        That is done before the cursors pass it, and has them sent again from where they are, so a later call commits
        them. What the hub takes no more is sent again, to this or to another processor.

        Raises:
            PenstockError: it is not known whether it is committed: try again later.
        """
        if parked := [each for each in advance.parked.values() if each is not None]:
            self.source.park(parked)
        else:
            self.source.commit({tranche: move.after for tranche, move in advance.moves.items()})

    def handed_over(self) -> None:
        """Have the source go on: the hub keeps what was parked by the last commit, and the processor does no more."""
        self.source.resume()
