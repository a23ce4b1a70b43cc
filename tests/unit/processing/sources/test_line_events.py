import pytest

from penstock.errors import InvalidLine
from penstock.processing.sources.line_events import LineEvents
from penstock.processing.sources.line_file import Line
from penstock.processing.sources.line_place import LinePlace


def test_a_line_is_an_event_at_the_byte_where_it_begins() -> None:
    event = LineEvents(["id", "n"], ["type"]).event(Line(LinePlace(100, 3), b'{"id":"a","n":1,"type":"x"}'), "f")

    assert (event.stream, event.index, event.kind, event.tranche) == ("a-1", 100, "x", "f")
    assert (event.raw, event.data["n"]) == (b'{"id":"a","n":1,"type":"x"}', 1)


@pytest.mark.parametrize("raw", [b"{", b'"\xff"', b"[" * 100_000, b"1", b'{"id":true}'])
def test_what_is_no_event_is_named(raw: bytes) -> None:
    with pytest.raises(InvalidLine, match="f, line 4: "):
        LineEvents(["id"], None).event(Line(LinePlace(100, 3), raw), "f")
