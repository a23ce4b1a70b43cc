"""Handlers of both clients are called with the batches of a subscription in order; handled batches are committed."""

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

import pytest

from penstock.client import AsyncClient, Client, RetryPolicy
from penstock.errors import SubscriptionNotFound
from penstock.testing.live_hub import LiveHub
from tests.client.consuming import (
    EVENTS,
    Running,
    Seen,
    create_filled,
    definition,
    subscribe,
    unconsumed,
    until,
)
from tests.exhaustive import exhaustive
from tests.unit.client.kinds import SYNC, Kind, opened, result

SOON = RetryPolicy(max_delay_seconds=0.2)
ON_ONE_DATABASE = pytest.mark.parametrize("hub", ["sqlite", exhaustive("postgres")], indirect=True)


def states(client: Client, wanted: str) -> list[str]:
    return sorted(each.state for each in client.subscriptions.stats(wanted))


def test_every_event_is_handled_in_order_of_its_partition_and_committed(client: Client, kind: Kind) -> None:
    wanted = subscribe(client, create_filled(client))
    seen, progress = Seen(), []

    def handle(batch: Any) -> None:
        seen(batch)
        if len(seen.numbers) == EVENTS:
            consumer.stop()

    consumer = Running(kind, client, wanted, handle, by_event=True, batch_limit=10, progress=progress.append)
    consumed = consumer.run()

    assert sorted(seen.numbers) == list(range(EVENTS))
    assert seen.is_in_order
    assert unconsumed(client, wanted) == 0
    assert (consumed.events, consumed.failures, consumed.too_late, consumed.reason) == (EVENTS, 0, 0, "cancelled")
    assert progress[-1].events == EVENTS
    assert len(progress) <= consumed.batches, "batches handled meanwhile are committed with one request"


def test_workers_handle_several_partitions_at_a_time_but_one_batch_of_each(client: Client, kind: Kind) -> None:
    guard, busy, together = threading.Lock(), Counter[int](), threading.Barrier(4)
    seen, overlaps = Seen(), []

    def handle(batch: Any) -> None:
        with guard:
            overlaps.append(busy[batch.partition])
            busy[batch.partition] += 1
        together.wait(300)  # All four are there.
        with guard:
            busy[batch.partition] -= 1
        seen(batch)
        if len(set(seen.numbers)) == EVENTS:
            consumer.stop()

    wanted = definition(create_filled(client))
    consumer = Running(kind, client, wanted, handle, by_event=True, workers=4, batch_limit=100)

    assert consumer.run().failures == 0
    assert set(overlaps) == {0}
    assert seen.is_in_order


def test_handler_slower_than_the_commit_timeout_loses_nothing(client: Client, kind: Kind) -> None:
    wanted = subscribe(client, create_filled(client, partitions=2))
    seen, streams = Seen(), set()

    def handle(batch: Any) -> None:
        streams.add(batch.stream_id)
        if batch.partition == 0 and 0 not in seen.by_partition:
            time.sleep(2.5)  # It is about a handler that takes longer than the commit timeout.
        seen(batch)

    with Running(kind, client, wanted, handle, batch_limit=50, commit_timeout=2, workers=2) as running:
        seen.wait_for(EVENTS)
    assert (len(streams), seen.is_in_order) == (1, True)
    assert (running.consumed.events, running.consumed.too_late) == (EVENTS, 0)


def test_poison_key_is_parked_while_others_are_handled_and_handled_when_it_is_retried(
    client: Client, kind: Kind
) -> None:
    wanted = subscribe(client, create_filled(client), annotations={"penstock/park-after-attempts": "2"})
    seen, errors, parked = Seen(), [], []
    is_mended = threading.Event()

    def handle(batch: Any) -> None:
        if not is_mended.is_set() and any(event.data["n"] == 7 for event in batch.events):
            raise ValueError("poison")
        if batch.is_parked:
            parked.extend(event.data["n"] for event in batch.events)
            assert [event.offset for event in batch.events] == list(batch.offsets)
            assert {event.key for event in batch.events} == {"key-7"}
        seen(batch)

    def on_error(batch: Any, error: Exception) -> None:
        errors.append((batch, str(error)))

    others = [number for number in range(EVENTS) if number % 20 != 7]
    with Running(kind, client, wanted, handle, batch_limit=20, retry=SOON, workers=2, on_error=on_error) as running:
        seen.wait_for(len(others))
        until(lambda: [each.key for each in client.subscriptions.parked(wanted)] == ["key-7"])
        assert {event.data["n"] % 20 == 7 for batch, _ in errors for event in batch.events} == {True, False}
        assert [error for _, error in errors] == ["poison"] * 4, "twice with its batch, and twice alone"
        assert sorted(seen.numbers) == others

        is_mended.set()
        client.subscriptions.retry_parked(wanted)
        seen.wait_for(EVENTS)
        until(lambda: client.subscriptions.parked(wanted) == [])

    assert parked == list(range(7, EVENTS, 20))
    assert Counter(seen.numbers) == Counter(range(EVENTS))
    assert (running.consumed.failures, running.consumed.too_late) == (4, 0)
    assert unconsumed(client, wanted) == 0


def test_handler_that_recovers_continues_where_it_failed(client: Client, kind: Kind) -> None:
    wanted = subscribe(client, create_filled(client, partitions=2))
    seen, left = Seen(), [3]

    def handle(batch: Any) -> None:
        if batch.partition == 1 and left[0]:
            left[0] -= 1
            raise ValueError("not yet")
        seen(batch)

    with Running(kind, client, wanted, handle, batch_limit=10, retry=SOON) as running:
        seen.wait_for(EVENTS)

    assert seen.is_in_order
    assert (running.consumed.failures, running.consumed.too_late) == (3, 0)


def test_consumer_that_stops_commits_handled_batches_and_leaves_the_rest_at_once(client: Client, kind: Kind) -> None:
    wanted = subscribe(client, create_filled(client))
    seen, remaining, stopped = Seen(), Seen(), threading.Event()

    def handle(batch: Any) -> None:
        seen(batch)
        if len(seen.numbers) > 10:
            stopped.wait(300)

    def stop(_: object) -> None:
        consumer.stop()
        stopped.set()

    consumer = Running(kind, client, wanted, handle, batch_limit=10, progress=stop)
    consumed = consumer.run()

    assert consumed.reason == "stopped"
    assert consumed.events == len(seen.numbers) < EVENTS
    assert unconsumed(client, wanted) == EVENTS - len(seen.numbers)
    assert set(states(client, wanted)) == {"unassigned"}
    with Running(kind, client, wanted, remaining, batch_limit=10):
        remaining.wait_for(EVENTS - len(seen.numbers))
    assert sorted(seen.numbers + remaining.numbers) == list(range(EVENTS))


def test_error_of_on_error_ends_the_consumer(client: Client, kind: Kind) -> None:
    wanted = subscribe(client, create_filled(client))

    def handle(_: Any) -> None:
        raise ValueError("broken")

    def on_error(_: Any, error: Exception) -> None:
        raise RuntimeError("enough") from error

    with pytest.raises(RuntimeError, match="enough"):
        Running(kind, client, wanted, handle, on_error=on_error).run()
    assert set(states(client, wanted)) == {"unassigned"}


def test_unknown_or_deleted_subscription_ends_the_consumer(client: Client, kind: Kind) -> None:
    wanted = subscribe(client, create_filled(client))
    for subscription in ("0f6b7a2c-7f0e-4c1e-9a37-0b1c2d3e4f50", wanted):
        with pytest.raises(SubscriptionNotFound):
            Running(kind, client, subscription, lambda _: client.subscriptions.delete(wanted), retry=SOON).run()


async def handle_async(_: Any) -> None:
    raise AssertionError("nobody awaits it")


@pytest.mark.anyio
async def test_handler_of_the_other_kind_is_refused(client: Client, hub: LiveHub, kind: Kind) -> None:
    wanted, seen = subscribe(client, create_filled(client, partitions=1)), Seen()
    handle = handle_async if kind.client is Client else seen

    async with opened(kind.client(hub.url)) as consuming:
        with pytest.raises(TypeError, match=r"the handler is (not )?async"):
            await result(consuming.consume(wanted, handle, batch_limit=10))
    assert unconsumed(client, wanted) == EVENTS - len(seen.numbers)


def interrupt(*words: str) -> list[str]:
    """Return the lines that a consumer in a process of its own prints."""
    command = [sys.executable, "-m", "tests.client.interrupted", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@ON_ONE_DATABASE
def test_ctrl_c_lets_a_running_handler_end(client: Client, hub: LiveHub) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1))

    assert interrupt("running", hub.url, wanted) == ["interrupted 1 10"]
    assert unconsumed(client, wanted) == EVENTS - 10


@ON_ONE_DATABASE
@pytest.mark.parametrize("times", [8, exhaustive(30)])
def test_ctrl_c_at_any_moment_stops_the_consumer_without_loss(client: Client, hub: LiveHub, times: int) -> None:
    wanted = subscribe(client, create_filled(client, events=100 * times))
    seed = str(random.randrange(2**32))
    print("seed", seed)  # noqa: T201 - shown when the test fails

    assert set(interrupt("anywhere", hub.url, wanted, seed, str(times))) == {"interrupted 0 True"}
    assert unconsumed(client, wanted) < 100 * times, "a fast one consumes them all between two interruptions"
    # A stream that was interrupted before its id was known could not be given back: it has its time to commit.
    with Running(SYNC, client, wanted, Seen(), batch_limit=100):
        until(lambda: unconsumed(client, wanted) == 0)


@ON_ONE_DATABASE
def test_handler_that_outlasts_the_grace_keeps_its_partition(client: Client, hub: LiveHub) -> None:
    wanted = subscribe(client, create_filled(client, partitions=2))
    begun, ends = threading.Event(), threading.Event()

    def handle(_: Any) -> None:
        begun.set()
        ends.wait(300)

    thread = threading.Thread(target=lambda: counts.append(consumer.run()))
    counts: list[Any] = []
    consumer = client.consumer(wanted, handle, batch_limit=10, grace_seconds=0.2)
    thread.start()
    assert begun.wait(300)
    consumer.stop()
    thread.join(300)
    try:
        assert [each.events for each in counts] == [0]
        assert states(client, wanted) == ["assigned", "unassigned"]
    finally:
        ends.set()


@pytest.mark.anyio
async def test_async_handler_whose_awaited_task_is_cancelled_is_given_its_batch_again(
    client: Client, hub: LiveHub
) -> None:
    wanted = subscribe(client, create_filled(client))
    seen, errors = Seen(), []

    async def handle(batch: Any) -> None:
        if len(seen.numbers) == 30 and not errors:
            waited_for = asyncio.ensure_future(asyncio.Event().wait())
            waited_for.cancel()
            await waited_for
        seen(batch)
        if len(seen.numbers) == EVENTS:
            consumer.stop()

    async with AsyncClient(hub.url) as consuming:
        consumer = consuming.consumer(
            wanted, handle, batch_limit=10, retry=SOON, on_error=lambda _, error: errors.append(f"{error}")
        )
        consumed = await consumer.run()

    assert errors == ["something that the handler has waited for was cancelled"]
    assert sorted(seen.numbers) == list(range(EVENTS))
    assert (consumed.events, consumed.failures, consumed.reason) == (EVENTS, 1, "stopped")


@pytest.mark.anyio
async def test_cancelled_async_consumer_commits_handled_batches_and_leaves_the_rest_at_once(
    client: Client, hub: LiveHub
) -> None:
    wanted = subscribe(client, create_filled(client, partitions=2))
    seen, was_cut_off = Seen(), asyncio.Event()

    async def handle(batch: Any) -> None:
        if len(seen.numbers) == 30:
            task.cancel()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                was_cut_off.set()
                raise
        seen(batch)

    async with AsyncClient(hub.url) as consuming:
        task = asyncio.ensure_future(consuming.consume(wanted, handle, batch_limit=10))
        with pytest.raises(asyncio.CancelledError):
            await task

    assert was_cut_off.is_set()
    assert unconsumed(client, wanted) == EVENTS - 30
    assert set(states(client, wanted)) == {"unassigned"}
