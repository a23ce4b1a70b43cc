from collections.abc import Generator
from typing import Any

import httpx2
import pytest

from penstock.client.transport import Talk, Transport
from penstock.errors import ConnectionLost, Unreachable
from penstock.wire.exchange import END, MORE, TAKE, Pause, Request, fetch
from penstock.wire.reader.page import Page
from tests.unit.client.handler import Body, Handlers, streamed

GET = Request(method="GET", url="http://s/feed", headers={"accept": "x/y"})


def test_a_request_goes_out_as_it_was_asked_for() -> None:
    handlers = Handlers(lambda _: httpx2.Response(201, content=b"body", headers={"X-Y": "z"}))

    answer = Transport(handlers.client()).carry_out(fetch(Request(method="POST", url="http://s/a", body=b"{}")))

    assert (answer.status, answer.headers["x-y"], answer.body) == (201, "z", b"body")
    assert (handlers.requests[0].method, handlers.requests[0].content) == ("POST", b"{}")


def test_empty_chunks_do_not_end_a_body() -> None:
    handlers = Handlers(streamed(Body(b"a", b"", b"b")))

    assert Transport(handlers.client()).carry_out(fetch(GET)).body == b"ab"


def test_what_fails_on_the_way_is_told_to_the_exchange() -> None:
    refused = Handlers(httpx2.ConnectError("refused"))
    broken = Handlers(streamed(Body(b"a", httpx2.ReadError("reset"))))

    with pytest.raises(Unreachable, match="http://s/feed cannot be reached"):
        Transport(refused.client()).carry_out(fetch(GET))
    with pytest.raises(ConnectionLost, match="reset"):
        Transport(broken.client()).carry_out(fetch(GET))


def test_an_answer_that_is_not_read_to_its_end_is_closed() -> None:
    first, second = Body(b"a", b"b"), Body(b"c", b"d")
    handlers = Handlers(streamed(first), streamed(second))

    def exchange() -> Generator[Any, Any, None]:
        yield GET
        yield MORE
        yield GET
        assert first.closed
        yield MORE

    Transport(handlers.client()).carry_out(exchange())

    assert second.closed


def test_events_and_pauses_come_from_outside() -> None:
    slept: list[float] = []

    def exchange() -> Generator[Any, Any, list[Any]]:
        yield Pause(1.5)
        return [(yield TAKE), (yield TAKE), (yield TAKE) is END]

    talk = Talk(None, exchange(), iter("ab"), sleep=slept.append)

    assert talk.advance() is None
    assert talk.outcome == ["a", "b", True]
    assert slept == [1.5]


def test_a_failing_source_of_events_is_no_failure_of_the_connection() -> None:
    def source() -> Any:
        yield 1
        raise httpx2.ConnectError("another server")

    def exchange() -> Generator[Any, Any, None]:
        yield TAKE
        yield TAKE

    with pytest.raises(httpx2.ConnectError):
        Transport(Handlers().client()).carry_out(exchange(), source())


def test_a_talk_that_is_over_takes_no_further_step() -> None:
    over = iter([False, True])

    def exchange() -> Generator[Any, Any, None]:
        yield Pause(0)
        raise AssertionError

    talk = Talk(None, exchange(), sleep=lambda _: None, is_over=lambda: next(over))

    assert talk.advance() is None


def test_an_interrupted_reader_can_come_back() -> None:
    body = Body(b"a", KeyboardInterrupt())
    handlers = Handlers(streamed(body))

    def exchange() -> Generator[Any, Any, None]:
        yield GET
        yield MORE
        with pytest.raises(ConnectionLost):
            yield MORE
        yield Page()

    talk = Talk(handlers.client(), exchange())

    with pytest.raises(KeyboardInterrupt):
        talk.advance()
    assert body.closed
    assert talk.advance() == Page()


def test_a_client_that_was_handed_in_stays_open() -> None:
    mine = Handlers().client()
    own = Transport()

    Transport(mine).close()
    own.close()

    assert not mine.is_closed
    assert own.http.is_closed
