from functools import partial
from typing import Any

import pytest

from penstock.errors import Conflict, ConnectionLost, MalformedAnswer, NotFound, Unavailable
from penstock.spark.nakadi.open_stream import OpenStream, StreamEnd
from penstock.spark.nakadi.server import NakadiServer
from tests.unit.spark.nakadi.serving import Serving


def open_stream(nakadi: Serving) -> OpenStream:
    return OpenStream(partial(NakadiServer(nakadi.options()).stream, "s"))


@pytest.mark.parametrize(
    ("text", "kind"), [(b'{"cursor":{"parti', ConnectionLost), (b"soon\n", MalformedAnswer), (b"{}\n", MalformedAnswer)]
)
def test_malformed_line_ends_the_stream(nakadi: Serving, text: bytes, kind: type[Exception]) -> None:
    nakadi.streams = [[text], []]
    ended = open_stream(nakadi).take(300)

    assert isinstance(ended, StreamEnd)
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
