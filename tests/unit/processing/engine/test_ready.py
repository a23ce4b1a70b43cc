from penstock.processing.engine.ready import Ready
from penstock.processing.engine.stream import Stream
from penstock.processing.engine.tranche import Tranche


def made(name: str) -> Stream:
    return Stream(name, Tranche("t", 0, batches_max=1, events_max=1))


def test_a_stream_stands_there_once() -> None:
    ready, stream = Ready(), made("S1")
    ready.add(stream)
    ready.add(stream)

    assert len(ready) == 1
    assert ready.next(0, 1) is stream
    assert ready.next(0, 1) is None
    ready.add(stream)
    assert ready.next(0, 1) is stream


def test_those_that_are_held_come_in_the_order_of_their_times() -> None:
    ready, streams = Ready(), [made(f"S{number}") for number in range(3)]
    for stream, until in zip(streams, (3.0, 1.0, 2.0), strict=True):
        ready.hold(stream, until)
    assert (len(ready), ready.due) == (0, 1.0)

    ready.wake(2.5)

    assert [ready.next(0, 1), ready.next(0, 1), ready.next(0, 1)] == [streams[1], streams[2], None]
    assert ready.due == 3.0
