"""A place in a partition of a feed, and what partitions are called, as checkpoints keep them."""

from typing import NamedTuple

from penstock.errors import BadParameter


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
