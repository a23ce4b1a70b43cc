import pytest

from penstock.processing.stream_event import StreamEvent
from penstock.processing.targets.target import origin, place_of, without_origin

EVENT = StreamEvent("order-1", 12, "placed", b"{}")
NUMBERED = StreamEvent("order-1", 12, "placed", b"{}", numbering="order/3@2")


@pytest.mark.parametrize("left_out", ["penstock-stream", "penstock-index", "penstock-group"])
def test_events_written_by_others_have_no_origin(left_out: str) -> None:
    headers = {name: value for name, value in origin("order-1", EVENT, "copier").items() if name != left_out}
    assert place_of(headers, "copier") is None
    assert place_of({**origin("order-1", EVENT, "copier"), "penstock-index": "-1"}, "copier") is None


def test_earlier_origin_is_removed() -> None:
    assert without_origin({"a": "b", **origin("order-1", NUMBERED, "copier")}) == {"a": "b"}
