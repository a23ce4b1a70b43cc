import threading
from functools import partial
from typing import Any

import pytest

from penstock.errors import Conflict, ConnectionLost, MalformedAnswer, NotFound, Unavailable
from penstock.spark.nakadi.open_stream import UNSAID, Ended, OpenStream
from penstock.spark.nakadi.server import NakadiServer
from penstock.wire.subscriptions import BatchLine
from tests.unit.spark.nakadi.serving import Serving, line, offset

SOON = 300.0
"""Seconds after which a test that waits for a line has failed."""


def open_stream(nakadi: Serving) -> OpenStream:
    return OpenStream(partial(NakadiServer(nakadi.options()).stream, "s"))


def test_stream_delivers_lines_in_order_and_then_the_reason_of_its_end(nakadi: Serving) -> None:
    nakadi.streams = [[line(1, 2), line(1), line(1, debug="Commit timeout reached")], []]
    stream = open_stream(nakadi)
    found = [stream.take(SOON) for _ in range(4)]

    assert stream.id == "stream-1"
    assert [each.cursor.offset for each in found[:3] if isinstance(each, BatchLine)] == [offset(1)] * 3
    assert found[3] == Ended("Commit timeout reached", None)


def test_stream_that_ends_without_a_reason_says_that_none_was_given(nakadi: Serving) -> None:
    nakadi.streams = [[line(1, debug="Stream started")], []]
    stream = open_stream(nakadi)

    assert isinstance(stream.take(SOON), BatchLine)
    assert stream.take(SOON) == Ended(UNSAID, None)


def test_quiet_stream_delivers_nothing_and_stays_open(nakadi: Serving) -> None:
    stream = open_stream(nakadi)

    assert stream.take(0.01) is None
    stream.close()


def test_closed_stream_ends_its_thread(nakadi: Serving) -> None:
    stream = open_stream(nakadi)
    [thread] = [each for each in threading.enumerate() if each.name == "penstock-nakadi-stream"]

    stream.close()

    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("text", "kind"), [(b'{"cursor":{"parti', ConnectionLost), (b"soon\n", MalformedAnswer), (b"{}\n", MalformedAnswer)]
)
def test_malformed_line_ends_the_stream(nakadi: Serving, text: bytes, kind: type[Exception]) -> None:
    nakadi.streams = [[text], []]
    ended = open_stream(nakadi).take(SOON)

    assert isinstance(ended, Ended)
    assert isinstance(ended.error, kind)


def test_unexpected_error_while_opening_a_stream_is_raised() -> None:
    def broken() -> Any:
        raise RuntimeError("a defect")

    with pytest.raises(RuntimeError, match="a defect"):
        OpenStream(broken)


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (409, Unavailable), (503, Unavailable)])
def test_stream_that_cannot_be_opened_raises_the_refusal(nakadi: Serving, status: int, kind: type[Exception]) -> None:
    nakadi.answers = {("GET", "/events"): [(status, "No free slots for streaming available")]}

    with pytest.raises(Exception, match="No free slots") as failed:
        open_stream(nakadi)

    assert isinstance(failed.value, kind) or status == 503
    assert not isinstance(failed.value, Conflict)
