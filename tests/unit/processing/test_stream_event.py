import msgspec
import pytest

from penstock.processing.stream_event import StreamEvent


def test_an_event_is_decoded_once() -> None:
    event = StreamEvent("order-7", 3, "order.placed", b'{"n": 1}')

    assert event.data == {"n": 1}
    assert event.data is event.data
    assert event.next == 4


def test_what_is_no_json_is_told_when_it_is_asked_for() -> None:
    event = StreamEvent("order-7", 3, "order.placed", b"{")
    with pytest.raises(msgspec.DecodeError):
        _ = event.data
