"""A place in what a subscription sends of a partition, as the engine hands it back."""

from typing import NamedTuple

from penstock.errors import BadParameter
from penstock.processing.sources.feed_position import FeedPosition


class BatchPosition(NamedTuple):
    """Behind a batch."""

    place: FeedPosition
    """The offset that is wanted next."""
    number: int = 0
    """Of the batch, among those that this process was sent of the partition; 0: none."""

    def encode(self) -> str:
        """Return its text: `1:17#3`.

        >>> BatchPosition(FeedPosition(1, 17), 3).encode()
        '1:17#3'
        """
        return f"{self.place.encode()}#{self.number}"

    @classmethod
    def decode(cls, text: str) -> "BatchPosition":
        """Read such a text.

        Raises:
            BadParameter: it is not one of ours.

        >>> BatchPosition.decode("1:17#3")
        BatchPosition(place=FeedPosition(epoch=1, offset=17), number=3)
        """
        place, hash_, number = text.partition("#")
        if not (hash_ and number.isdecimal()):
            raise BadParameter(parameter="position", value=text, allowed="EPOCH:OFFSET#BATCH, such as 1:17#3")
        return cls(FeedPosition.decode(place), int(number))
