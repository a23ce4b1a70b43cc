"""Positions in a partition of a feed, and names of partitions, as checkpoints store them."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.errors import BadParameter, EventsLost


class FeedPosition(NamedTuple):
    """The next offset, in one epoch of the feed."""

    epoch: int
    offset: int

    def encode(self) -> str:
        """Return the text that checkpoints store: `1:17`.

        >>> FeedPosition(1, 17).encode()
        '1:17'
        """
        return f"{self.epoch}:{self.offset}"

    @classmethod
    def decode(cls, text: str) -> "FeedPosition":
        """Read a stored text.

        Raises:
            BadParameter: it is no position of a feed.

        >>> FeedPosition.decode("1:17")
        FeedPosition(epoch=1, offset=17)
        """
        epoch, _, offset = text.partition(":")
        if not (epoch.isdecimal() and offset.isdecimal()):
            raise BadParameter(parameter="position", value=text, allowed="EPOCH:OFFSET of a feed, such as 1:17")
        return cls(int(epoch), int(offset))


def encode_tranche(event_type: str, partition: int) -> str:
    """Return the tranche name of a partition: `order.placed/3`.

    >>> encode_tranche("order.placed", 3)
    'order.placed/3'
    """
    return f"{event_type}/{partition}"


def numbering_of(tranche: str, epoch: int) -> str:
    """Return the numbering of a partition's events: offsets restart in each epoch.

    >>> numbering_of("order.placed/3", 1)
    'order.placed/3@1'
    """
    return f"{tranche}@{epoch}"


def check_place(tranche: str, place: FeedPosition, epoch: int, heads: Sequence[int]) -> None:
    """Raise unless *place* is in the feed with this *epoch*, and not beyond the end of its partition in *heads*.

    Raises:
        EventsLost: the feed was created again.
        BadParameter: the partition ends before that place.
    """
    check_epoch(tranche, place, epoch)
    _, partition = decode_tranche(tranche)
    if place.offset > heads[partition]:
        end = FeedPosition(epoch, heads[partition]).encode()
        allowed = f"up to {end}, where {tranche} ends; `penstock groups reset` moves a processor there"
        raise BadParameter(parameter="position", value=place.encode(), allowed=allowed)


def check_epoch(tranche: str, place: FeedPosition, epoch: int) -> None:
    """Raise EventsLost unless *place* is in *epoch*.

    Indices restart in each epoch: state stored by index would refer to other events.
    """
    if place.epoch != epoch:
        event_type, partition = decode_tranche(tranche)
        reason = f"it was created again, or a backup was put back: it is in epoch {epoch}, not {place.epoch}"
        raise EventsLost.of("feed-created-again", event_type=event_type, partition=partition, lost=None, reason=reason)


def decode_tranche(tranche: str) -> tuple[str, int]:
    """Return the event type and the partition of a tranche.

    Raises:
        BadParameter: it is no partition of a feed.

    >>> decode_tranche("order.placed/3")
    ('order.placed', 3)
    """
    event_type, slash, partition = tranche.rpartition("/")
    if not (slash and partition.isdecimal()):
        raise BadParameter(parameter="tranche", value=tranche, allowed="EVENT_TYPE/PARTITION, such as order.placed/3")
    return event_type, int(partition)
