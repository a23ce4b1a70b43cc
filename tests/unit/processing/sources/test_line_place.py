import pytest

from penstock.errors import BadParameter
from penstock.processing.sources.line_place import LinePlace


def test_what_is_kept_is_read_again() -> None:
    for place in (LinePlace(1024, 17), LinePlace(1024, 17).behind(b"a line")):
        assert LinePlace.decode(place.encode()) == place
    assert LinePlace.decode("1024:17") == LinePlace(1024, 17)
    for wrong in ("1:x", "1:2#x", "1", ""):
        with pytest.raises(BadParameter, match=f"position is '{wrong}'; allowed: OFFSET:LINES#MARK"):
            LinePlace.decode(wrong)
