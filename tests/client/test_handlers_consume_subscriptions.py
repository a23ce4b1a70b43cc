"""Handlers are called with what a subscription brings, partition by partition; what they have handled is committed."""

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

import pytest

from penstock.client import Client, Consumer, RetryPolicy
from penstock.errors import SubscriptionNotFound
from penstock.testing.live_hub import LiveHub
from tests.client.consuming import EVENTS, Seen, definition, filled, put, subscribe, unconsumed

SOON = RetryPolicy(max_delay=0.2)


class Running:
    """A consumer that runs in a thread of its own until the block ends."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.consumed: Any = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        self.consumed = self.consumer.run()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self.consumer.stop()
        self._thread.join(300)
        assert not self._thread.is_alive()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("workers", [1, 3])
def test_every_event_is_handled_in_the_order_of_its_partition_and_committed(client: Client, workers: int) -> None:
    wanted = subscribe(client, filled(client))
    seen, cancel = Seen(), threading.Event()
    told = []

    def handle(batch: Any) -> None:
        seen(batch)
        if len(seen.numbers) == EVENTS:
            cancel.set()

    consumed = client.consume(wanted, handle, workers=workers, batch_limit=10, cancel=cancel, progress=told.append)

    assert sorted(seen.numbers) == list(range(EVENTS))
    assert seen.is_in_order
    assert unconsumed(client, wanted) == 0
    assert (consumed.events, consumed.failures, consumed.too_late, consumed.reason) == (EVENTS, 0, 0, "cancelled")
    assert told[-1].events == EVENTS
    assert len(told) <= consumed.batches, "what is handled meanwhile goes with one request"


def test_partitions_are_handled_at_a_time_and_batches_of_one_are_not(client: Client) -> None:
    wanted = definition(filled(client))
    guard, busy, together = threading.Lock(), Counter[int](), threading.Barrier(4)
    seen, cancel = Seen(), threading.Event()

    def handle(batch: Any) -> None:
        with guard:
            busy[batch.partition] += 1
            assert busy[batch.partition] == 1
        together.wait(10)  # All four are there.
        with guard:
            busy[batch.partition] -= 1
        seen(batch)
        if len(set(seen.numbers)) == EVENTS:
            cancel.set()

    consumed = client.consume(wanted, handle, workers=4, batch_limit=100, cancel=cancel)

    assert consumed.failures == 0
    assert seen.is_in_order


def test_consumers_share_the_partitions_and_one_takes_over_from_the_other(client: Client) -> None:
    name = filled(client)
    wanted = subscribe(client, name)
    first, second = Seen(), Seen()
    with Running(client.consumer(wanted, first, batch_limit=10)) as one:
        first.wait_for(EVENTS)
        with Running(client.consumer(wanted, second, batch_limit=10)) as other:
            until(lambda: len({each.stream_id for each in client.subscriptions.stats(wanted)}) == 2)
            put(client, name, range(EVENTS, 2 * EVENTS))
            until(lambda: len(first.numbers) + len(second.numbers) == 2 * EVENTS)
            assert second.numbers
            one.stop()
            put(client, name, range(2 * EVENTS, 3 * EVENTS))
            until(lambda: len(first.numbers) + len(second.numbers) == 3 * EVENTS)
            until(lambda: unconsumed(client, wanted) == 0)

    assert sorted(first.numbers + second.numbers) == list(range(3 * EVENTS))
    assert first.is_in_order
    assert second.is_in_order
    assert set(second.numbers) >= set(range(2 * EVENTS, 3 * EVENTS))
    assert (one.consumed.reason, other.consumed.too_late) == ("stopped", 0)


def test_a_handler_that_is_slower_than_the_commit_timeout_loses_nothing(client: Client) -> None:
    name = filled(client, partitions=2)
    wanted = subscribe(client, name)
    seen, streams = Seen(), set()

    def handle(batch: Any) -> None:
        streams.add(batch.stream_id)
        if batch.partition == 0 and 0 not in seen.by_partition:
            time.sleep(3.0)  # It is about a handler that takes three commit timeouts.
        seen(batch)

    with Running(client.consumer(wanted, handle, batch_limit=50, commit_timeout=1, workers=2)) as running:
        seen.wait_for(EVENTS)
    assert len(streams) == 1
    assert seen.is_in_order
    assert (running.consumed.events, running.consumed.too_late) == (EVENTS, 0)


def test_a_poison_key_is_parked_while_others_flow_and_handled_when_it_is_retried(client: Client) -> None:
    name = filled(client)
    wanted = subscribe(client, name, annotations={"penstock/park-after-attempts": "2"})
    seen, errors, parked = Seen(), [], []
    is_mended = threading.Event()

    def handle(batch: Any) -> None:
        if not is_mended.is_set() and any(event.data["n"] == 7 for event in batch.events):
            raise ValueError("poison")
        if batch.is_parked:
            parked.extend(event.data["n"] for event in batch.events)
        seen(batch)

    options: Any = {"batch_limit": 20, "retry": SOON, "workers": 2, "on_error": lambda *each: errors.append(each)}
    others = [number for number in range(EVENTS) if number % 20 != 7]
    with Running(client.consumer(wanted, handle, **options)) as running:
        seen.wait_for(len(others))
        until(lambda: len(client.subscriptions.parked(wanted)) == 1)
        assert {event.data["n"] % 20 == 7 for batch, _ in errors for event in batch.events} == {True, False}
        assert [str(error) for _, error in errors] == ["poison"] * 4, "twice with its batch, and twice alone"
        assert sorted(seen.numbers) == others

        is_mended.set()
        client.subscriptions.retry_parked(wanted)
        seen.wait_for(EVENTS)
        until(lambda: client.subscriptions.parked(wanted) == [])

    assert parked == list(range(7, EVENTS, 20))
    assert Counter(seen.numbers) == Counter(range(EVENTS))
    assert (running.consumed.failures, running.consumed.too_late) == (4, 0)
    assert unconsumed(client, wanted) == 0


def test_a_handler_that_recovers_goes_on_where_it_failed(client: Client) -> None:
    wanted = subscribe(client, filled(client, partitions=2))
    seen, left = Seen(), [3]

    def handle(batch: Any) -> None:
        if batch.partition == 1 and left[0]:
            left[0] -= 1
            raise ValueError("not yet")
        seen(batch)

    with Running(client.consumer(wanted, handle, batch_limit=10, retry=SOON)) as running:
        seen.wait_for(EVENTS)

    assert seen.is_in_order
    assert (running.consumed.failures, running.consumed.too_late) == (3, 0)


def test_stopped_it_commits_what_it_has_handled_and_leaves_the_rest_to_others_at_once(client: Client) -> None:
    wanted = subscribe(client, filled(client))
    seen, rest, stopped = Seen(), Seen(), threading.Event()

    def handle(batch: Any) -> None:
        seen(batch)
        if len(seen.numbers) > 10:
            stopped.wait(60)

    def stop(_: object) -> None:
        consumer.stop()
        stopped.set()

    consumer = client.consumer(wanted, handle, batch_limit=10, progress=stop)
    consumed = consumer.run()

    assert consumed.reason == "stopped"
    assert consumed.events == len(seen.numbers) < EVENTS
    assert unconsumed(client, wanted) == EVENTS - len(seen.numbers)
    assert {each.state for each in client.subscriptions.stats(wanted)} == {"unassigned"}
    with Running(client.consumer(wanted, rest, batch_limit=10)):
        rest.wait_for(EVENTS - len(seen.numbers))
    assert sorted(seen.numbers + rest.numbers) == list(range(EVENTS))


def interrupted(*words: str) -> list[str]:
    """Return what a consumer in a process of its own has said."""
    command = [sys.executable, "-m", "tests.client.interrupted", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_ctrl_c_lets_a_running_handler_end(client: Client, hub: LiveHub) -> None:
    wanted = subscribe(client, filled(client, partitions=1))

    assert interrupted("running", hub.url, wanted) == ["interrupted 1 10"]
    assert unconsumed(client, wanted) == EVENTS - 10


def test_ctrl_c_stops_it_well_wherever_it_is(client: Client, hub: LiveHub) -> None:
    wanted = subscribe(client, filled(client, events=3_000))
    seed = str(random.randrange(2**32))
    print("seed", seed)  # noqa: T201 - shown when the test fails

    assert set(interrupted("anywhere", hub.url, wanted, seed)) == {"interrupted 0 True"}
    assert unconsumed(client, wanted) < 3_000, "a fast one consumes them all between two interruptions"
    # A stream that was interrupted before its id was known could not be given back: it has its time to commit.
    with Running(client.consumer(wanted, Seen(), batch_limit=100)):
        until(lambda: unconsumed(client, wanted) == 0)


def test_a_handler_that_does_not_end_in_its_grace_is_left_alone(client: Client) -> None:
    wanted = subscribe(client, filled(client, partitions=2))
    begun, ends = threading.Event(), threading.Event()

    def handle(_: Any) -> None:
        begun.set()
        ends.wait(30)

    with Running(client.consumer(wanted, handle, batch_limit=10, grace=0.2)) as running:
        assert begun.wait(300)
    try:
        assert running.consumed.events == 0
        assert sorted(each.state for each in client.subscriptions.stats(wanted)) == ["assigned", "unassigned"]
    finally:
        ends.set()


def test_an_error_that_on_error_raises_ends_it(client: Client) -> None:
    wanted = subscribe(client, filled(client))

    def handle(_: Any) -> None:
        raise ValueError("broken")

    def on_error(_: Any, error: Exception) -> None:
        raise RuntimeError("enough") from error

    with pytest.raises(RuntimeError, match="enough"):
        client.consume(wanted, handle, on_error=on_error)
    assert {each.state for each in client.subscriptions.stats(wanted)} == {"unassigned"}


def test_a_subscription_that_is_not_there_cannot_be_consumed(client: Client) -> None:
    with pytest.raises(SubscriptionNotFound):
        client.consume("0f6b7a2c-7f0e-4c1e-9a37-0b1c2d3e4f50", lambda _: None)


def test_one_that_is_deleted_meanwhile_ends_it(client: Client) -> None:
    wanted = subscribe(client, filled(client))

    with pytest.raises(SubscriptionNotFound):
        client.consume(wanted, lambda _: client.subscriptions.delete(wanted), retry=SOON)


def test_a_handler_that_is_async_is_refused_and_nothing_committed(client: Client) -> None:
    wanted = subscribe(client, filled(client, partitions=1))

    async def handle(_: Any) -> None:
        raise AssertionError("nobody awaits it")

    with pytest.raises(TypeError, match="the handler is async"):
        client.consume(wanted, handle, batch_limit=10)
    assert unconsumed(client, wanted) == EVENTS
