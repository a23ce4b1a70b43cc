"""Async handlers are called with what a subscription brings; what they have handled is committed."""

import asyncio
from typing import Any

import anyio
import pytest

from penstock.client import AsyncClient, Client, RetryPolicy
from penstock.errors import SubscriptionNotFound
from penstock.testing.live_hub import LiveHub
from tests.client.consuming import EVENTS, Seen, filled, subscribe, unconsumed

SOON = RetryPolicy(max_delay=0.2)
pytestmark = pytest.mark.anyio


@pytest.fixture
def async_client(hub: LiveHub) -> AsyncClient:
    return AsyncClient(hub.url)


@pytest.mark.parametrize("workers", [1, 3])
async def test_every_event_is_handled_in_the_order_of_its_partition_and_committed(
    client: Client, async_client: AsyncClient, workers: int
) -> None:
    wanted = subscribe(client, filled(client))
    seen, cancel, told = Seen(), asyncio.Event(), []

    async def handle(batch: Any) -> None:
        await asyncio.sleep(0)
        seen(batch)
        if len(seen.numbers) == EVENTS:
            cancel.set()

    async def progress(consumed: Any) -> None:
        told.append(consumed.events)

    async with async_client:
        consumed = await async_client.consume(
            wanted, handle, workers=workers, batch_limit=10, cancel=cancel, progress=progress
        )

    assert sorted(seen.numbers) == list(range(EVENTS))
    assert seen.is_in_order
    assert (consumed.events, consumed.failures, consumed.too_late, consumed.reason) == (EVENTS, 0, 0, "cancelled")
    assert told[-1] == EVENTS
    assert unconsumed(client, wanted) == 0


async def test_a_handler_that_is_slower_than_the_commit_timeout_loses_nothing(
    client: Client, async_client: AsyncClient
) -> None:
    wanted = subscribe(client, filled(client, partitions=1))
    seen = Seen()

    async def handle(batch: Any) -> None:
        if not seen.numbers:
            await asyncio.sleep(2.5)  # It is about a handler that takes longer than the commit timeout.
        seen(batch)
        if len(seen.numbers) == EVENTS:
            consumer.stop()

    async with async_client:
        consumer = async_client.consumer(wanted, handle, batch_limit=50, commit_timeout=1)
        consumed = await consumer.run()

    assert seen.is_in_order
    assert (consumed.events, consumed.too_late, consumed.reason) == (EVENTS, 0, "stopped")


async def test_a_poison_key_is_parked_while_others_flow(client: Client, async_client: AsyncClient) -> None:
    wanted = subscribe(client, filled(client), annotations={"penstock/park-after-attempts": "2"})
    seen, errors = Seen(), []

    async def handle(batch: Any) -> None:
        if any(event.data["n"] == 7 for event in batch.events):
            raise ValueError("poison")
        seen(batch)
        if len(seen.numbers) == EVENTS - EVENTS // 20:
            consumer.stop()

    async def on_error(_: Any, error: Exception) -> None:
        errors.append(str(error))

    async with async_client:
        consumer = async_client.consumer(wanted, handle, workers=2, batch_limit=20, retry=SOON, on_error=on_error)
        consumed = await consumer.run()

    assert errors == ["poison"] * 4
    assert sorted(seen.numbers) == [number for number in range(EVENTS) if number % 20 != 7]
    assert (consumed.failures, consumed.too_late) == (4, 0)
    assert [each.key for each in client.subscriptions.parked(wanted)] == ["key-7"]


async def test_where_something_is_cancelled_that_a_handler_waits_for_its_batch_comes_again(
    client: Client, async_client: AsyncClient
) -> None:
    wanted = subscribe(client, filled(client))
    seen, errors = Seen(), []

    async def handle(batch: Any) -> None:
        if len(seen.numbers) == 30 and not errors:
            waited_for = asyncio.ensure_future(asyncio.sleep(60))
            waited_for.cancel()
            await waited_for
        seen(batch)
        if len(seen.numbers) == EVENTS:
            consumer.stop()

    async def on_error(_: Any, error: Exception) -> None:
        errors.append(f"{error}")

    async with async_client:
        consumer = async_client.consumer(wanted, handle, batch_limit=10, retry=SOON, on_error=on_error)
        consumed = await consumer.run()

    assert errors == ["something that the handler has waited for was cancelled"]
    assert sorted(seen.numbers) == list(range(EVENTS))
    assert (consumed.events, consumed.failures, consumed.reason) == (EVENTS, 1, "stopped")


async def test_cancelled_it_commits_what_was_handled_and_leaves_the_rest_at_once(
    client: Client, async_client: AsyncClient
) -> None:
    wanted = subscribe(client, filled(client, partitions=2))
    seen, was_cut_off = Seen(), anyio.Event()

    async def handle(batch: Any) -> None:
        if len(seen.numbers) == 30:
            task.cancel()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                was_cut_off.set()
                raise
        seen(batch)

    async with async_client:
        task = asyncio.ensure_future(async_client.consume(wanted, handle, batch_limit=10))
        with pytest.raises(asyncio.CancelledError):
            await task

    assert was_cut_off.is_set()
    assert unconsumed(client, wanted) == EVENTS - 30
    assert {each.state for each in client.subscriptions.stats(wanted)} == {"unassigned"}


async def test_an_error_that_on_error_raises_ends_it(client: Client, async_client: AsyncClient) -> None:
    wanted = subscribe(client, filled(client))

    async def handle(_: Any) -> None:
        raise ValueError("broken")

    async def on_error(_: Any, error: Exception) -> None:
        raise RuntimeError("enough") from error

    async with async_client:
        with pytest.raises(RuntimeError, match="enough"):
            await async_client.consume(wanted, handle, on_error=on_error)
    assert {each.state for each in client.subscriptions.stats(wanted)} == {"unassigned"}


async def test_a_subscription_that_is_not_there_cannot_be_consumed(async_client: AsyncClient) -> None:
    async def handle(_: Any) -> None:
        raise AssertionError("nothing comes")

    async with async_client:
        with pytest.raises(SubscriptionNotFound):
            await async_client.consume("0f6b7a2c-7f0e-4c1e-9a37-0b1c2d3e4f50", handle)


async def test_a_handler_that_is_not_async_is_refused(client: Client, async_client: AsyncClient) -> None:
    wanted = subscribe(client, filled(client, partitions=1))
    handle: Any = Seen()

    async with async_client:
        with pytest.raises(TypeError, match="the handler is not async"):
            await async_client.consume(wanted, handle, batch_limit=10)
    assert unconsumed(client, wanted) == EVENTS - len(handle.numbers)
