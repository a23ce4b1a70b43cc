"""The responses to a refused batch name its events, and build nothing else of them."""

import tracemalloc

import pytest

from penstock.core.events.event import DECODED_BYTES_MAX, NewEvent
from penstock.wire.log.nakadi import make_batch_responses


def find_eid(event: bytes) -> str:
    [response] = make_batch_responses([NewEvent(event)], 0, "validating", "wrong")
    eid: str = response["eid"]
    return eid


@pytest.mark.parametrize(
    ("event", "eid"),
    [
        (b'{"metadata":{"eid":"a"},"data":[{}]}', "a"),
        (b'{"metadata":{"eid":"\\u00e4","x":[1]}}', "\u00e4"),
        (b'{"metadata":{"eid":7}}', ""),
        (b'{"metadata":{"eid":null}}', ""),
        (b'{"metadata":{}}', ""),
        (b'{"metadata":[]}', ""),
        (b"{}", ""),
        (b"7", ""),
        (b'{"metadata":{"eid":"a"}', ""),
    ],
)
def test_response_has_the_id_of_its_event_if_that_is_a_text(event: bytes, eid: str) -> None:
    assert find_eid(event) == eid


@pytest.mark.parametrize("size", [DECODED_BYTES_MAX, DECODED_BYTES_MAX + 1], ids=["whole", "cut off"])
def test_lists_of_a_large_event_are_not_built(size: int) -> None:
    """Each thread would wait for them, the event loop too: nobody else has the interpreter meanwhile."""
    event = b'{"metadata":{"eid":"a"},"data":[' + b"[]," * (size // 3)
    event = event[: size - 4] + b"0]}" if size <= DECODED_BYTES_MAX else event[:size]
    find_eid(b"{}")
    tracemalloc.start()
    find_eid(event)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 100_000
