import pytest

from penstock.processing.stream_event import StreamEvent
from penstock.processing.targets.target import make_origin, parse_origin, remove_origin

EVENT = StreamEvent("order-1", 12, "placed", b"{}")
NUMBERED = StreamEvent("order-1", 12, "placed", b"{}", numbering="order/3@2")


@pytest.mark.parametrize("left_out", ["penstock-stream", "penstock-index", "penstock-group"])
def test_events_written_by_others_have_no_origin(left_out: str) -> None:
    headers = {name: value for name, value in make_origin("order-1", EVENT, "copier").items() if name != left_out}
    assert parse_origin(headers, "copier") is None
    assert parse_origin({**make_origin("order-1", EVENT, "copier"), "penstock-index": "-1"}, "copier") is None


def test_earlier_origin_is_removed() -> None:
    assert remove_origin({"a": "b", **make_origin("order-1", NUMBERED, "copier")}) == {"a": "b"}
