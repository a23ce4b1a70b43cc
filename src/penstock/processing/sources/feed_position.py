"""A place in a partition of a feed, and what partitions are called, as checkpoints keep them."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.errors import BadParameter, EventsLost


class FeedPosition(NamedTuple):
    """The offset wanted next, in one life of the feed."""

    epoch: int
    offset: int

    def encode(self) -> str:
        """Return the text that is kept: `1:17`.

        >>> FeedPosition(1, 17).encode()
        '1:17'
        """
        return f"{self.epoch}:{self.offset}"

    @classmethod
    def decode(cls, text: str) -> "FeedPosition":
        """Read what was kept.

        Raises:
            BadParameter: it is not one of ours.

        >>> FeedPosition.decode("1:17")
        FeedPosition(epoch=1, offset=17)
        """
        epoch, _, offset = text.partition(":")
        if not (epoch.isdecimal() and offset.isdecimal()):
            raise BadParameter(parameter="position", value=text, allowed="EPOCH:OFFSET of a feed, such as 1:17")
        return cls(int(epoch), int(offset))


def encode_tranche(event_type: str, partition: int) -> str:
    """Return what a partition is called: `order.placed/3`.

    >>> encode_tranche("order.placed", 3)
    'order.placed/3'
    """
    return f"{event_type}/{partition}"


def numbering_of(tranche: str, epoch: int) -> str:
    """Return what numbers the events of a partition: its offsets begin anew in each epoch.

    >>> numbering_of("order.placed/3", 1)
    'order.placed/3@1'
    """
    return f"{tranche}@{epoch}"


def check_place(tranche: str, place: FeedPosition, epoch: int, heads: Sequence[int]) -> None:
    """Raise unless a partition of a feed that is in *epoch*, and whose partitions end at *heads*, has come to *place*.

    Raises:
        EventsLost: it is another feed.
        BadParameter: the partition ends before that place.
    """
    check_epoch(tranche, place, epoch)
    _, partition = decode_tranche(tranche)
    if place.offset > heads[partition]:
        end = FeedPosition(epoch, heads[partition]).encode()
        allowed = f"up to {end}, where {tranche} ends; `penstock groups reset` moves a processor there"
        raise BadParameter(parameter="position", value=place.encode(), allowed=allowed)


def check_epoch(tranche: str, place: FeedPosition, epoch: int) -> None:
    """Raise EventsLost unless a place is one in *epoch*.

    Indices begin anew in another: whatever is kept by index means other events.
    """
    if place.epoch != epoch:
        event_type, partition = decode_tranche(tranche)
        reason = f"it was created again, or a backup was put back: it is in epoch {epoch}, not {place.epoch}"
        raise EventsLost.of("feed-created-again", event_type=event_type, partition=partition, lost=None, reason=reason)


def decode_tranche(tranche: str) -> tuple[str, int]:
    """Return the event type and the partition that a tranche is.

    Raises:
        BadParameter: it is no partition of a feed.

    >>> decode_tranche("order.placed/3")
    ('order.placed', 3)
    """
    event_type, slash, partition = tranche.rpartition("/")
    if not (slash and partition.isdecimal()):
        raise BadParameter(parameter="tranche", value=tranche, allowed="EVENT_TYPE/PARTITION, such as order.placed/3")
    return event_type, int(partition)
