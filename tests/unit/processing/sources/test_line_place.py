import pytest

from penstock.errors import BadParameter
from penstock.processing.sources.line_place import LinePlace


def test_what_is_kept_is_read_again() -> None:
    assert LinePlace.decode(LinePlace(1024, 17).encode()) == LinePlace(1024, 17)
    with pytest.raises(BadParameter, match="position is '1:x'; allowed: OFFSET:LINES"):
        LinePlace.decode("1:x")
