import pytest

from penstock.errors import BadParameter
from penstock.processing.sources.batch_position import BatchPosition
from penstock.processing.sources.feed_position import FeedPosition


def test_what_the_engine_hands_back_is_read_again() -> None:
    position = BatchPosition(FeedPosition(1, 17), 3)
    assert BatchPosition.decode(position.encode()) == position
    for text in ("1:17", "1:17#x", "x#3"):
        with pytest.raises(BadParameter, match="position is "):
            BatchPosition.decode(text)
