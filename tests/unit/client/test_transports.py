"""The sync and the async transport carry out the effects of an exchange with an HTTP client."""

from collections.abc import AsyncIterator, Generator
from typing import Any

import anyio
import httpx2
import pytest

from penstock.client.http.async_transport import AsyncExchangeRun
from penstock.client.http.transport import ExchangeRun
from penstock.errors import ConnectionLost, Unreachable
from penstock.wire.http import MORE, HttpRequest, Pause, TakeEvents, fetch
from penstock.wire.log.reader.pages import Page
from tests.unit.client.handler import Body, Handlers, streamed
from tests.unit.client.kinds import ASYNC, Kind, result

pytestmark = pytest.mark.anyio

GET = HttpRequest(method="GET", url="http://s/feed", headers={"accept": "x/y"})
Steps = Generator[Any, Any, Any]


async def carry_out(kind: Kind, handlers: Handlers, exchange: Steps, *events: Any) -> Any:
    return await result(kind.transport(kind.http(handlers)).carry_out(exchange, *events))


async def test_request_is_sent_with_its_method_and_body_and_its_answer_is_read_beyond_empty_chunks(kind: Kind) -> None:
    handlers = Handlers(lambda _: httpx2.Response(201, content=b"body", headers={"X-Y": "z"}))

    answer = await carry_out(kind, handlers, fetch(HttpRequest(method="POST", url="http://s/a", body=b"{}")))

    assert (answer.status, answer.headers["x-y"], answer.body) == (201, "z", b"body")
    assert (handlers.requests[0].method, handlers.requests[0].content) == ("POST", b"{}")
    assert (await carry_out(kind, Handlers(streamed(Body(b"a", b"", b"b"))), fetch(GET))).body == b"ab"


@pytest.mark.parametrize(
    ("handler", "error", "reason"),
    [
        (httpx2.ConnectError("refused"), Unreachable, "http://s/feed cannot be reached"),
        (streamed(Body(b"a", httpx2.ReadError("reset"))), ConnectionLost, "reset"),
    ],
    ids=["refused", "broken off"],
)
async def test_failure_of_the_connection_is_raised_in_the_exchange(
    kind: Kind, handler: Any, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        await carry_out(kind, Handlers(handler), fetch(GET))


async def test_answer_that_is_not_read_to_its_end_is_closed(kind: Kind) -> None:
    bodies = Body(b"a", b"b"), Body(b"c", b"d")

    def exchange() -> Steps:
        yield GET
        yield MORE
        yield GET
        assert bodies[0].closed
        yield MORE

    await carry_out(kind, Handlers(*map(streamed, bodies)), exchange())

    assert bodies[1].closed


def take_three() -> Steps:
    yield Pause(0.0)
    return [(yield TakeEvents(1)), (yield TakeEvents(2)), (yield TakeEvents(3))]


async def async_events() -> AsyncIterator[str]:
    for event in "ab":
        yield event


async def test_exchange_takes_events_from_an_iterable(kind: Kind) -> None:
    for events in (["a", "b", "c"], ("a", "b", "c")):
        assert await carry_out(kind, Handlers(), take_three(), events) == [["a"], ["b", "c"], []]
    for events in (iter(f"{letter}" for letter in "ab"), *([async_events()] if kind is ASYNC else [])):
        assert await carry_out(kind, Handlers(), take_three(), events) == [["a"], ["b"], []]


async def test_error_of_the_events_source_is_no_failure_of_the_connection(kind: Kind) -> None:
    def source() -> Any:
        yield 1
        raise httpx2.ConnectError("another server")

    with pytest.raises(httpx2.ConnectError):
        await carry_out(kind, Handlers(), take_three(), source())


def lost_once() -> Steps:
    yield GET
    yield MORE
    with pytest.raises(ConnectionLost):
        yield MORE
    yield Page()


async def test_cancelled_talk_closes_its_answer_and_can_be_continued() -> None:
    class Endless(Body):
        async def __aiter__(self) -> Any:
            yield b"a"
            reading.set()
            await anyio.sleep_forever()

    reading, body = anyio.Event(), Endless()
    talk = AsyncExchangeRun(Handlers(streamed(body)).async_client(), lost_once())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(talk.advance)
        await reading.wait()
        tasks.cancel_scope.cancel()
    assert body.closed
    assert await talk.advance() == Page()


def test_talk_pauses_and_ends_before_its_next_step_once_it_is_over() -> None:
    paused: list[float] = []

    def exchange() -> Steps:
        yield Pause(1.5)
        raise AssertionError

    over = iter([False, True])
    talk = ExchangeRun(None, exchange(), sleep=paused.append, is_over=lambda: next(over))

    assert talk.advance() is None
    assert paused == [1.5]
