from collections.abc import AsyncIterator, Generator
from typing import Any

import anyio
import httpx2
import pytest

from penstock.client.async_transport import AsyncTalk, AsyncTransport
from penstock.errors import ConnectionLost, Unreachable
from penstock.wire.exchange import END, MORE, TAKE, Pause, Request, fetch
from penstock.wire.reader.page import Page
from tests.unit.client.handler import Body, Handlers, streamed

GET = Request(method="GET", url="http://s/feed", headers={"accept": "x/y"})


pytestmark = pytest.mark.anyio


async def test_a_request_goes_out_as_it_was_asked_for() -> None:
    handlers = Handlers(lambda _: httpx2.Response(201, content=b"body", headers={"X-Y": "z"}))
    request = Request(method="POST", url="http://s/a", body=b"{}")

    answer = await AsyncTransport(handlers.async_client()).carry_out(fetch(request))

    assert (answer.status, answer.headers["x-y"], answer.body) == (201, "z", b"body")
    assert (handlers.requests[0].method, handlers.requests[0].content) == ("POST", b"{}")


async def test_empty_chunks_do_not_end_a_body() -> None:
    handlers = Handlers(streamed(Body(b"a", b"", b"b")))

    assert (await AsyncTransport(handlers.async_client()).carry_out(fetch(GET))).body == b"ab"


async def test_what_fails_on_the_way_is_told_to_the_exchange() -> None:
    refused = Handlers(httpx2.ConnectError("refused"))
    broken = Handlers(streamed(Body(b"a", httpx2.ReadError("reset"))))

    with pytest.raises(Unreachable, match="http://s/feed cannot be reached"):
        await AsyncTransport(refused.async_client()).carry_out(fetch(GET))
    with pytest.raises(ConnectionLost, match="reset"):
        await AsyncTransport(broken.async_client()).carry_out(fetch(GET))


async def test_an_answer_that_is_not_read_to_its_end_is_closed() -> None:
    first, second = Body(b"a", b"b"), Body(b"c", b"d")
    handlers = Handlers(streamed(first), streamed(second))

    def exchange() -> Generator[Any, Any, None]:
        yield GET
        yield MORE
        yield GET
        assert first.closed
        yield MORE

    await AsyncTransport(handlers.async_client()).carry_out(exchange())

    assert second.closed


def take_three() -> Generator[Any, Any, list[Any]]:
    yield Pause(0.0)
    return [(yield TAKE), (yield TAKE), (yield TAKE) is END]


async def test_events_come_from_plain_and_from_async_iterables() -> None:
    async def events() -> AsyncIterator[str]:
        for event in "ab":
            yield event

    transport = AsyncTransport(Handlers().async_client())

    assert await transport.carry_out(take_three(), "ab") == ["a", "b", True]
    assert await transport.carry_out(take_three(), events()) == ["a", "b", True]


async def test_a_failing_source_of_events_is_no_failure_of_the_connection() -> None:
    def source() -> Any:
        yield 1
        raise httpx2.ConnectError("another server")

    with pytest.raises(httpx2.ConnectError):
        await AsyncTransport(Handlers().async_client()).carry_out(take_three(), source())


async def test_a_cancelled_reader_gives_its_connection_back_and_can_come_back() -> None:
    class Endless(Body):
        async def __aiter__(self) -> Any:
            yield b"a"
            reading.set()
            await anyio.sleep_forever()

    reading = anyio.Event()
    body = Endless()
    handlers = Handlers(streamed(body))

    def exchange() -> Generator[Any, Any, None]:
        yield GET
        yield MORE
        with pytest.raises(ConnectionLost):
            yield MORE
        yield Page()

    talk = AsyncTalk(handlers.async_client(), exchange())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(talk.advance)
        await reading.wait()
        tasks.cancel_scope.cancel()
    assert body.closed
    assert await talk.advance() == Page()


async def test_a_client_that_was_handed_in_stays_open() -> None:
    mine = Handlers().async_client()
    own = AsyncTransport()

    await AsyncTransport(mine).aclose()
    await own.aclose()

    assert not mine.is_closed
    assert own.http.is_closed
