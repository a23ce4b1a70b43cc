"""Positions as a hub's consumer groups of the kind processor."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from penstock.cli.checkpoint.keeper import ProcessorEntry, ProcessorIntervention, TrancheProgress
from penstock.cli.checkpoint.places import check_epoch
from penstock.cli.failures import CommandFailure
from penstock.client import Client, ConsumerGroupDetails, NewPosition, PositionReset
from penstock.core.group_parking import Request
from penstock.core.groups import PROCESSOR
from penstock.errors import GroupNotFound
from penstock.processing.checkpoints.database import ParkedAt
from penstock.processing.sources.feed_position import FeedPosition, decode_tranche, encode_tranche


class HubKeeper:
    """Asks a hub. Groups of other kinds are left alone."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def processors(self) -> Sequence[ProcessorEntry]:
        """Return those whose positions are kept, by name."""
        return [
            ProcessorEntry(each.name, each.event_types, None, each.gap, each.lag_seconds, None, None)
            for each in self._client.consumer_groups(kind=PROCESSOR)
        ]

    def standings(self, processor: str) -> Sequence[TrancheProgress]:
        """Return how far a processor is."""
        return [
            TrancheProgress(
                encode_tranche(each.event_type, each.partition),
                FeedPosition(each.epoch, each.offset).encode(),
                each.gap,
                each.lag_seconds,
                None,
                each.updated_at,
            )
            for each in self._group(processor).positions
        ]

    def further(
        self,
        processor: str,  # noqa: ARG002 - It keeps none.
        positions: Mapping[str, int | str],  # noqa: ARG002
    ) -> Mapping[str, int]:
        """Say that no stream has done more than positions say, as far as the hub knows."""
        return {}

    def move(self, processor: str, positions: Mapping[str, int | str], reason: str | None) -> None:
        """Move positions, all or none; it is remembered. A processor that is new is begun with them.

        Raises:
            CommandFailure: the group has other partitions, or a feed is in another epoch than a position says.
        """
        places = {decode_tranche(each): FeedPosition.decode(str(to)) for each, to in positions.items()}
        try:
            self._group(processor)
        except GroupNotFound:
            begun = [NewPosition(*place, to.offset, epoch=to.epoch, expected=None) for place, to in places.items()]
            self._client.commit_positions(processor, begun, kind=PROCESSOR)
            return
        items = [PositionReset(*place, offset=to.offset) for place, to in places.items()]
        tried = self._client.reset_positions(processor, items, reason=reason, dry_run=True)
        for each in tried:
            check_epoch(each.event_type, places[each.event_type, each.partition].epoch, each.epoch)
        self._client.reset_positions(processor, items, reason=reason)

    def history(self, processor: str, limit: int) -> Sequence[ProcessorIntervention]:
        """Return what was done to a processor over its head, the newest first."""
        self._group(processor)
        return [
            ProcessorIntervention(
                each.at,
                encode_tranche(each.event_type, each.partition),
                None if each.came_from is None else FeedPosition(each.epoch, each.came_from).encode(),
                FeedPosition(each.epoch, each.went_to).encode(),
                each.reason,
            )
            for each in self._client.group_history(processor, limit=limit)
        ]

    def parked(self, processor: str) -> Sequence[ParkedAt]:
        """Say that there are none here.

        Raises:
            CommandFailure: always.
        """
        self._none_are_parked(processor)

    def ask(
        self,
        processor: str,
        stream: str,  # noqa: ARG002 - There is nobody to ask.
        request: Request,  # noqa: ARG002
        reason: str | None = None,  # noqa: ARG002
    ) -> None:
        """Say that there are none here.

        Raises:
            CommandFailure: always.
        """
        self._none_are_parked(processor)

    def forget(self, processor: str) -> None:
        """Forget all that is kept of a processor."""
        self._group(processor)
        self._client.forget_group(processor)

    def _group(self, processor: str) -> ConsumerGroupDetails:
        try:
            found = self._client.consumer_group(processor)
        except GroupNotFound:
            raise GroupNotFound.of("checkpoint-not-found", processor=processor) from None
        if found.kind != PROCESSOR:
            raise CommandFailure(
                f"{processor} is a {found.kind}, not a processor", "`penstock groups` shows and moves it."
            )
        return found

    def _none_are_parked(self, processor: str) -> NoReturn:
        self._group(processor)
        detail = f"the hub keeps the positions of {processor}, and no streams that are parked"
        raise CommandFailure(detail, "They are kept in a database, with the positions: name it with --database.")
