import asyncio

import httpx2
import pytest

from penstock.client import AsyncClient, AsyncIdempotentProducer


class Ended(BaseException):
    """What a signal's handler may raise, wherever that is."""


class Ending(httpx2.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:  # noqa: ARG002 - Nothing is asked.
        raise Ended


def test_whatever_ends_what_is_under_way_nobody_waits_for_it_any_longer() -> None:
    async def publish() -> None:
        client = AsyncClient("http://hub", http=httpx2.AsyncClient(transport=Ending()))
        producer = AsyncIdempotentProducer(client, "order.placed", producer_group="counter")
        await producer.send([{"n": 1}], partition=0)

    with pytest.raises(BaseExceptionGroup) as raised:
        asyncio.run(publish())
    assert raised.group_contains(Ended)
