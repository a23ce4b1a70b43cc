"""`consume` of both clients calls handlers with the events of a subscription, key by key in order, and commits."""

import asyncio
import random
import threading
import time
from collections import Counter
from typing import Any

import pytest

from penstock.client import AsyncClient, Client
from penstock.errors import BadParameter, HandlerFailed, SubscriptionNotFound
from penstock.processing.engine import Backoff, Rules
from penstock.processing.together import Together
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
from tests.processing.programs import running
from tests.unit.client.kinds import SYNC, Kind

SOON = Rules(backoff=Backoff(first_seconds=0.05, max_seconds=0.2))
ON_ONE_DATABASE = pytest.mark.parametrize("hub", ["sqlite", exhaustive("postgres")], indirect=True)
PARKING = {"penstock/park-after-attempts": "2"}


def states(client: Client, wanted: str) -> list[str]:
    return sorted(each.state for each in client.subscription(wanted).stats())


def test_every_event_is_handled_in_order_of_its_key_and_committed(client: Client, hub: LiveHub, kind: Kind) -> None:
    wanted, seen = subscribe(client, create_filled(client)), Seen()

    with Running(kind, hub.url, wanted, seen, batch_limit=10):
        seen.wait_for(EVENTS)

    assert sorted(seen.numbers) == list(range(EVENTS))
    assert seen.is_in_order
    assert unconsumed(client, wanted) == 0
    assert set(states(client, wanted)) == {"unassigned"}


def test_missing_subscription_is_created_and_spans_are_handled(client: Client, hub: LiveHub, kind: Kind) -> None:
    spans, seen = [], Seen()

    def handle(stream: str, events: Any) -> None:
        spans.append((stream, len(events)))
        for event in events:
            seen(event)

    async def awaited(stream: str, events: Any) -> None:
        handle(stream, events)

    name = create_filled(client)
    running = Running(kind, hub.url, definition(name), handle)
    with Client(hub.url) as consuming:
        cancel = threading.Event()
        thread = threading.Thread(target=lambda: consuming.consume(definition(name), awaited, cancel=cancel))
        thread.start()
        seen.wait_for(EVENTS)
        cancel.set()
        thread.join(300)

    assert running.error is None
    assert {stream for stream, _ in spans} == {f"{name}-key-{number}" for number in range(20)}
    assert len(spans) < EVENTS, "a span has several events"


def test_keys_are_handled_at_one_time_and_events_of_each_one_by_one(client: Client, hub: LiveHub, kind: Kind) -> None:
    guard, busy, together = threading.Lock(), Counter[str](), threading.Barrier(4)
    seen, overlaps = Seen(), []

    def handle(event: Any) -> None:
        with guard:
            overlaps.append(busy[event.stream])
            busy[event.stream] += 1
        if event.data["n"] < 20:
            together.wait(300)  # Four of the twenty keys are there.
        with guard:
            busy[event.stream] -= 1
        seen(event)

    wanted = definition(create_filled(client))
    with Running(kind, hub.url, wanted, handle, rules=Rules(concurrency=4)):
        seen.wait_for(EVENTS)

    assert set(overlaps) == {0}
    assert seen.is_in_order


@pytest.mark.exhaustive
def test_handler_slower_than_the_commit_timeout_loses_nothing(client: Client, hub: LiveHub, kind: Kind) -> None:
    wanted = subscribe(client, create_filled(client, partitions=2))
    seen = Seen()

    def handle(event: Any) -> None:
        if event.data["n"] == 0:
            time.sleep(2.5)  # It is about a handler that takes longer than the commit timeout.
        seen(event)

    with Running(kind, hub.url, wanted, handle, commit_timeout=2):
        seen.wait_for(EVENTS)
    assert seen.is_in_order
    assert unconsumed(client, wanted) == 0


def test_poison_key_is_parked_while_others_are_handled_and_handled_when_it_is_retried(
    client: Client, hub: LiveHub, kind: Kind
) -> None:
    wanted = subscribe(client, create_filled(client), annotations=PARKING)
    seen, attempts = Seen(), Counter[int]()
    is_mended = threading.Event()

    def handle(event: Any) -> None:
        if event.data["n"] == 47 and not is_mended.is_set():
            attempts[47] += 1
            raise ValueError("poison")
        seen(event)

    waiting = range(47, EVENTS, 20)
    with Running(kind, hub.url, wanted, handle, batch_limit=20):
        seen.wait_for(EVENTS - len(waiting))
        until(lambda: [each.key for each in client.subscription(wanted).parked()] == ["key-7"])
        until(lambda: unconsumed(client, wanted) == 0)
        [parked] = client.subscription(wanted).parked()
        assert (parked.attempts, parked.events) == (2, len(waiting)), "what is before it was handled"
        assert sorted(seen.numbers) == sorted(set(range(EVENTS)) - set(waiting)), "each once"

        is_mended.set()
        client.subscription(wanted).retry_parked()
        seen.wait_for(EVENTS)
        until(lambda: client.subscription(wanted).parked() == [])

    assert seen.is_in_order
    assert attempts[47] in (2, 3), "where it is not the first of its span, it comes again as the first"
    assert unconsumed(client, wanted) == 0


@pytest.mark.exhaustive
def test_key_that_fails_again_when_it_is_retried_is_parked_again(client: Client, hub: LiveHub, kind: Kind) -> None:
    wanted = subscribe(client, create_filled(client), annotations=PARKING)
    seen, attempts = Seen(), []

    def handle(event: Any) -> None:
        if event.data["key"] == "key-7":
            attempts.append(event.data["n"])
            raise ValueError("poison")
        seen(event)

    def is_parked() -> bool:
        return [each.state for each in client.subscription(wanted).parked()] == ["parked"]

    with Running(kind, hub.url, wanted, handle):
        until(is_parked)
        client.subscription(wanted).retry_parked()
        until(lambda: len(attempts) == 4 and is_parked())
        seen.wait_for(EVENTS - 10)

        [parked] = client.subscription(wanted).parked()
        client.subscription(wanted).skip_parked(parked.id, "it was a test")
        until(lambda: client.subscription(wanted).parked() == [])
    assert (attempts, seen.is_in_order) == ([7] * 4, True)
    assert unconsumed(client, wanted) == 0


@pytest.mark.exhaustive
def test_event_without_a_key_is_parked_alone(client: Client, hub: LiveHub, kind: Kind) -> None:
    client.create_event_type(name := f"log.{random.randrange(2**32)}", partition_count=2)
    client.publish(name, [{"key": "", "n": number} for number in range(EVENTS)])
    wanted = subscribe(client, name, annotations=PARKING)
    seen = Seen()

    def handle(event: Any) -> None:
        if event.data["n"] in (50, 51):
            raise ValueError("poison")
        seen(event)

    with Running(kind, hub.url, wanted, handle, batch_limit=20):
        seen.wait_for(EVENTS - 2)
        until(lambda: unconsumed(client, wanted) == 0)
    assert sorted(seen.numbers) == sorted(set(range(EVENTS)) - {50, 51})
    assert [(each.key, each.events) for each in client.subscription(wanted).parked()] == [(None, 1)] * 2


def test_handler_that_recovers_continues_where_it_failed(client: Client, hub: LiveHub, kind: Kind) -> None:
    wanted = subscribe(client, create_filled(client, partitions=2))
    seen, left = Seen(), [3]

    def handle(event: Any) -> None:
        if event.data["n"] == 27 and left[0]:
            left[0] -= 1
            raise ValueError("not yet")
        seen(event)

    with Running(kind, hub.url, wanted, handle, rules=SOON):
        seen.wait_for(EVENTS)

    assert seen.is_in_order


def test_stopped_consumer_commits_what_is_handled_and_leaves_the_rest_at_once(
    client: Client, hub: LiveHub, kind: Kind
) -> None:
    count = 1_500
    wanted = subscribe(client, create_filled(client, events=count))
    seen, remaining, stopped = Seen(), Seen(), threading.Event()

    def handle(event: Any) -> None:
        if len(seen.numbers) > 10:
            stopped.wait(300)
            time.sleep(0.02)  # Else all of them are handled before it stops.
        seen(event)

    with Running(kind, hub.url, wanted, handle, batch_limit=10) as running:
        until(lambda: len(seen.numbers) > 10)
        running.stop()
        stopped.set()

    assert len(seen.numbers) < count
    assert set(states(client, wanted)) == {"unassigned"}
    with Running(kind, hub.url, wanted, remaining):
        remaining.wait_for(count - len(seen.numbers))
    assert set(seen.numbers + remaining.numbers) == set(range(count))


def test_stream_that_fails_too_often_ends_consuming_where_rules_say_so(
    client: Client, hub: LiveHub, kind: Kind
) -> None:
    wanted = subscribe(client, create_filled(client), annotations=PARKING)

    def handle(_: Any) -> None:
        raise ValueError("broken")

    with pytest.raises(HandlerFailed, match="broken"):
        Running(kind, hub.url, wanted, handle, rules=Rules(attempts_max=1)).run()
    assert set(states(client, wanted)) == {"unassigned"}
    assert client.subscription(wanted).parked() == []


def test_unknown_or_deleted_subscription_ends_consuming(client: Client, hub: LiveHub, kind: Kind) -> None:
    wanted = subscribe(client, create_filled(client))
    for subscription in ("0f6b7a2c-7f0e-4c1e-9a37-0b1c2d3e4f50", wanted):
        with pytest.raises(SubscriptionNotFound):
            Running(kind, hub.url, subscription, lambda _: client.subscription(wanted).delete()).run()


def test_many_streams_are_handled_together(client: Client, hub: LiveHub) -> None:
    wanted, seen, calls = subscribe(client, create_filled(client)), Seen(), []

    def archive(spans: Any) -> None:
        calls.append(len(spans))
        for span in spans:
            for event in span.events:
                seen(event)

    with Client(hub.url) as consuming:
        cancel = threading.Event()
        together = Together(archive)
        thread = threading.Thread(target=lambda: consuming.consume(wanted, together, cancel=cancel))
        thread.start()
        seen.wait_for(EVENTS)
        cancel.set()
        thread.join(300)
    assert max(calls) > 1
    assert unconsumed(client, wanted) == 0


@pytest.mark.anyio
async def test_consuming_refuses_what_it_cannot_call_or_wait_for(client: Client, hub: LiveHub) -> None:
    with pytest.raises(BadParameter, match="a function of one event"):
        client.consume("x", lambda: None)
    with pytest.raises(BadParameter, match=r"a threading\.Event"):
        client.consume("x", print, cancel=asyncio.Event())  # type: ignore[arg-type]
    async with AsyncClient(hub.url) as consuming:
        with pytest.raises(BadParameter, match=r"an asyncio\.Event"):
            await consuming.consume("x", print, cancel=threading.Event())  # type: ignore[arg-type]


def interrupt(signal: str, hub: str, subscription: str, *seconds: str) -> list[int]:
    """Return how many events a consumer in a process of its own handles, and how many different ones."""
    with running("-m", "tests.client.interrupted", signal, hub, subscription, *seconds) as program:
        printed = program.end()
        said = program.errors()
    may_be_in_a_finalizer = seconds and said.startswith("Exception ignored in")  # Python says so, and it ends.
    assert may_be_in_a_finalizer or said == ""
    return list(map(int, printed.split()))


@ON_ONE_DATABASE
@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
def test_signal_lets_a_running_handler_end_and_commits(client: Client, hub: LiveHub, signal: str) -> None:
    wanted = subscribe(client, create_filled(client, partitions=1))

    handled, different = interrupt(signal, hub.url, wanted)

    assert 1 <= handled == different < EVENTS
    assert states(client, wanted) == ["unassigned"]


@ON_ONE_DATABASE
@pytest.mark.parametrize("times", [4, exhaustive(30)])
def test_ctrl_c_at_any_moment_loses_nothing(client: Client, hub: LiveHub, times: int) -> None:
    wanted = subscribe(client, create_filled(client, events=100 * times))
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201 - shown when the test fails
    chance, handled = random.Random(seed), 0
    for _ in range(times):
        handled += interrupt("SIGINT", hub.url, wanted, f"{chance.random():.3f}")[0]
    seen = Seen()
    with Running(SYNC, hub.url, wanted, seen):
        until(lambda: unconsumed(client, wanted) == 0)
    assert handled + len(seen.numbers) >= 100 * times


@pytest.mark.anyio
async def test_async_handlers_run_in_the_loop_of_the_caller(client: Client, hub: LiveHub) -> None:
    wanted, loop, cancel, numbers = subscribe(client, create_filled(client)), [], asyncio.Event(), set()

    async def handle(event: Any) -> None:
        loop.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        numbers.add(event.data["n"])
        if len(numbers) == EVENTS:
            cancel.set()

    async with AsyncClient(hub.url) as consuming:
        await consuming.consume(wanted, handle, cancel=cancel)

    assert set(loop) == {asyncio.get_running_loop()}
    assert unconsumed(client, wanted) == 0


@pytest.mark.anyio
async def test_async_handler_whose_awaited_task_is_cancelled_is_given_its_event_again(
    client: Client, hub: LiveHub
) -> None:
    wanted = subscribe(client, create_filled(client))
    seen, cancel, failed = Seen(), asyncio.Event(), []

    async def handle(event: Any) -> None:
        if event.data["n"] == 30 and not failed:
            failed.append(event)
            waited_for = asyncio.ensure_future(asyncio.Event().wait())
            waited_for.cancel()
            await waited_for
        seen(event)
        if len(seen.numbers) == EVENTS:
            cancel.set()

    async with AsyncClient(hub.url) as consuming:
        await consuming.consume(wanted, handle, cancel=cancel, rules=SOON)

    assert len(failed) == 1
    assert sorted(seen.numbers) == list(range(EVENTS))


@pytest.mark.anyio
async def test_cancelled_task_cancels_handlers_commits_and_leaves_the_rest_at_once(
    client: Client, hub: LiveHub
) -> None:
    wanted = subscribe(client, create_filled(client, partitions=2))
    seen, was_cut_off = Seen(), asyncio.Event()

    async def handle(event: Any) -> None:
        if len(seen.numbers) == 30:
            task.cancel()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                was_cut_off.set()
                raise
        seen(event)

    async with AsyncClient(hub.url) as consuming:
        task = asyncio.ensure_future(consuming.consume(wanted, handle, rules=Rules(concurrency=1)))
        with pytest.raises(asyncio.CancelledError):
            await task

    assert was_cut_off.is_set()
    assert len(seen.numbers) == 30
    assert set(states(client, wanted)) == {"unassigned"}
