import pytest

from penstock.processing.stream_event import StreamEvent
from penstock.processing.targets.origin import origin, place_of, without_origin

EVENT = StreamEvent("order-1", 12, "placed", b"{}")
NUMBERED = StreamEvent("order-1", 12, "placed", b"{}", numbering="order/3@2")


def test_what_was_written_is_read_back_by_its_group() -> None:
    headers = origin("order-1", EVENT, "copier")
    assert place_of({**headers, "a": "b"}, "copier") == (("order-1", ""), 12)
    assert place_of(headers, "another") is None


def test_what_numbers_the_events_is_read_back_with_them() -> None:
    headers = origin("order-1", NUMBERED, "copier")
    assert headers["penstock-numbering"] == "order/3@2"
    assert place_of(headers, "copier") == (("order-1", "order/3@2"), 12)


@pytest.mark.parametrize("left_out", ["penstock-stream", "penstock-index", "penstock-group"])
def test_what_somebody_else_has_written_has_no_origin(left_out: str) -> None:
    headers = {name: value for name, value in origin("order-1", EVENT, "copier").items() if name != left_out}
    assert place_of(headers, "copier") is None
    assert place_of({**origin("order-1", EVENT, "copier"), "penstock-index": "-1"}, "copier") is None


def test_an_origin_of_before_is_taken_off() -> None:
    assert without_origin({"a": "b", **origin("order-1", NUMBERED, "copier")}) == {"a": "b"}
