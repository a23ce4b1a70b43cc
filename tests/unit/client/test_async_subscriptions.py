import pytest

from penstock.client.async_client import AsyncClient
from penstock.client.async_subscriptions import AsyncSubscriptions
from penstock.client.subscriptions import Subscriptions
from tests.unit.client.handler import Handlers, json
from tests.unit.client.test_subscriptions import CALLS, IDS, Call, asked_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("call", CALLS, ids=IDS)
async def test_each_call_asks_what_the_synchronous_one_asks(call: Call) -> None:
    handlers = Handlers(*(json(value, status) for value, status in call.answers))

    async with AsyncClient("http://s", http=handlers.async_client()) as hub:
        found = await getattr(hub.subscriptions, call.name)(*call.given, **call.options)

    assert asked_of(handlers) == call.asked
    assert call.comes_to in repr(found)


async def test_there_are_the_same_calls() -> None:
    assert [name for name in vars(AsyncSubscriptions) if name[0] != "_"] == [
        name for name in vars(Subscriptions) if name[0] != "_"
    ]
