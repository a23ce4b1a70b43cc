"""A hub's subscription as a source: committed events were handled, whatever happens to hubs and processors."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from penstock.client import Client
from penstock.core.events.event import NewEvent
from penstock.errors import BadParameter, HandlerFailed, SubscriptionNotFound, Unavailable
from penstock.processing.checkpoints.hub import SubscriptionCheckpoints
from penstock.processing.engine.rules import Backoff, Rules
from penstock.processing.outcomes import Outcome, retry
from penstock.processing.runners.local import LocalProcessor
from penstock.processing.sources.filtered import Filtered
from penstock.processing.sources.subscription import SubscriptionSource
from penstock.processing.stream_event import StreamEvent
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import examples
from tests.processing.office import until
from tests.processing.orders import ORDERS, Seen, create_orders, numbers_of, publish
from tests.processing.programs import running

PARKING = {"penstock/park-after-attempts": "2"}
SOON = Rules(backoff=Backoff(first_seconds=0.05, max_seconds=0.2))
EVENTS = examples(400, 1_000)


@pytest.fixture
def hub(emptied_hub: LiveHub) -> LiveHub:
    return emptied_hub


@pytest.fixture
def client(hub: LiveHub) -> Iterator[Client]:
    with Client(hub.url) as client:
        create_orders(client)
        yield client


@pytest.fixture
def subscription(client: Client) -> str:
    return client.create_subscription("shop", ["order.placed"], start="earliest")[0].id


@pytest.fixture
def read(hub: LiveHub, subscription: str) -> Iterator[Callable[..., SubscriptionSource]]:
    """Makes sources of the subscription, which are closed for good at the end."""
    made: list[SubscriptionSource] = []

    def source(**options: Any) -> SubscriptionSource:
        made.append(SubscriptionSource(hub.url, subscription, **{"batch_limit": 20, **options}))
        return made[-1]

    yield source
    for each in made:
        each.close()
        each.close()


def local(handler: Any, source: SubscriptionSource, **options: Any) -> LocalProcessor:
    return LocalProcessor(
        handler, source, checkpoints=SubscriptionCheckpoints(source), **{"commit_interval": 0.1, **options}
    )


def test_each_key_is_a_stream_and_a_restart_resumes_behind_the_commit(
    client: Client, subscription: str, read: Any
) -> None:
    publish(client, range(500))
    seen = Seen()
    with local(seen, read()) as running:
        running.wait_until_caught_up(300)
        publish(client, range(500, 900))
        running.wait_until_caught_up(300)
    assert seen.numbers == numbers_of(range(900))
    assert {each.unconsumed_events for each in client.subscription(subscription).stats()} == {0}
    assert sorted(place for places in seen.places.values() for place in places) == sorted(
        (f"order.placed/{partition}", offset)
        for partition, each in enumerate(client.subscription(subscription).cursors())
        for offset in range(each.offset)
    ), "indices are offsets"

    publish(client, range(900, 1000))
    seen.numbers.clear()
    with local(seen, read()) as running:
        running.wait_until_caught_up(300)
    assert seen.numbers == numbers_of(range(900, 1000))


def test_stopped_processor_leaves_unhandled_events_to_the_next(client: Client, subscription: str, read: Any) -> None:
    publish(client, range(300))
    seen = Seen("order.placed-3")
    source = read(commit_timeout=5)
    with source, local(seen, source) as running:
        assert seen.tried.wait(300)
        until(lambda: seen.count == 270)
        assert len(running.engine.busy.failing) == 1
    left = sum(each.unconsumed_events or 0 for each in client.subscription(subscription).stats())
    assert 30 <= left < 300, "other partitions are committed, the stream that fails holds its own"

    again = Seen()
    with local(again, read()) as running:
        running.wait_until_caught_up(300)
    both = {key: sorted({*seen.numbers[key], *again.numbers[key]}) for key in numbers_of(range(10))}
    assert both == numbers_of(range(300))
    assert again.numbers["order.placed-3"] == numbers_of(range(300))["order.placed-3"]


def test_expired_session_is_replaced_without_repeating_running_calls(
    hub: LiveHub, client: Client, subscription: str, read: Any
) -> None:
    seen, go_on, calls = Seen(), threading.Event(), []

    def slow(stream: str, events: Sequence[Any]) -> None:
        calls.append(stream)
        assert go_on.wait(300)
        seen(stream, events)

    publish(client, range(40))
    with local(slow, read(commit_timeout=1), rules=Rules(concurrency=16)) as running:
        until(lambda: len(calls) == 10)
        hub.pause()  # Nobody can extend the lease.
        time.sleep(2)
        hub.resume()
        until(lambda: client.subscription(subscription).stats()[0].state == "assigned")
        publish(client, range(40, 80))
        go_on.set()
        running.wait_until_caught_up(300)
    assert seen.numbers == numbers_of(range(80))


def test_slow_handler_keeps_its_session(client: Client, subscription: str, read: Any) -> None:
    seen, calls = Seen(), []

    def slow(stream: str, events: Sequence[Any]) -> None:
        calls.append(stream)
        time.sleep(3.5)
        seen(stream, events)

    publish(client, range(10), customers=1)
    with local(slow, read(commit_timeout=3)) as running:
        until(lambda: calls)
        first = client.subscription(subscription).stats()[0].stream_id
        running.wait_until_caught_up(300)
        assert client.subscription(subscription).stats()[0].stream_id == first
    assert calls == ["order.placed-0"]


def test_partitions_are_shared_among_processors_and_come_back(client: Client, subscription: str, read: Any) -> None:
    first, second = Seen(), Seen()
    publish(client, range(400))
    with local(first, read()) as one:
        one.wait_until_caught_up(300)
        with local(second, read()):
            owners = lambda: {each.stream_id for each in client.subscription(subscription).stats()}  # noqa: E731
            until(lambda: len(owners()) == 2)
            publish(client, range(400, 800))
            one.wait_until_caught_up(300)
        until(lambda: len(owners() - {None}) == 1)
        publish(client, range(800, 1200))
        one.wait_until_caught_up(300)
    found = {key: sorted(first.numbers[key] + second.numbers[key]) for key in numbers_of(range(10))}
    assert found == numbers_of(range(1200)), "each is handled once"
    assert any(second.numbers.values())
    assert all(numbers == sorted(numbers) for seen in (first, second) for numbers in seen.numbers.values())


def test_events_behind_a_reset_are_handled_again(client: Client, subscription: str, read: Any) -> None:
    seen = Seen()
    publish(client, range(200))
    with local(seen, read()) as running:
        running.wait_until_caught_up(300)
        client.subscription(subscription).reset(to="earliest", reason="mails were lost")
        running.wait_until_caught_up(300)
        publish(client, range(200, 250))
        running.wait_until_caught_up(300)
    assert seen.sorted == {
        key: sorted(numbers_of(range(200))[key] + numbers_of(range(250))[key]) for key in numbers_of(range(10))
    }


def test_processor_that_is_killed_loses_nothing_and_repeats_only_uncommitted_events(
    hub: LiveHub, client: Client, subscription: str
) -> None:
    handled: dict[str, list[int]] = defaultdict(list)
    published = 0

    def left() -> int:
        found = [each.unconsumed_events for each in client.subscription(subscription).stats()]
        return sum(published if count is None else count for count in found)

    def note(lines: Sequence[str], uncommitted: int) -> None:
        assert len(lines) <= uncommitted, "committed events do not come again"
        for line in lines:
            stream, _, number = line.partition(" ")
            handled[stream].append(int(number))

    for _ in range(examples(2, 5)):
        publish(client, range(published, published + EVENTS))
        published += EVENTS
        before = left()
        with running("-m", "tests.processing.subscriber", hub.url, subscription) as program:
            lines = [program.line() for _ in range(100)]
            until(lambda: left() < before)  # noqa: B023 - It is called at once.
            program.kill()
            note([*lines, *program.rest()], before)
    before = left()
    with (
        ThreadPoolExecutor(1) as reader,
        running("-m", "tests.processing.subscriber", hub.url, subscription) as program,
    ):
        lines_left = reader.submit(program.rest)  # It reads meanwhile: a full pipe would block the handler.
        until(lambda: not left())
        program.end()
        note(lines_left.result(), before)
    assert {key: sorted(set(numbers)) for key, numbers in handled.items()} == numbers_of(range(published))


def test_parked_events_are_handled_when_the_hub_sends_them_again(client: Client, hub: LiveHub) -> None:
    subscription, seen = parking_subscription(client), Seen("order.placed-3")

    def slow(stream: str, events: Sequence[Any]) -> None:
        time.sleep(0.005)  # So long calls are handed out one by one: all that was done is settled when one fails.
        seen(stream, events)

    publish(client, range(30))
    rules = Rules(concurrency=1, attempts_max=1, exhausted="stop")
    while not client.subscription(subscription).parked():
        source = SubscriptionSource(hub.url, subscription, batch_limit=20, commit_timeout=2)
        with source, suppress(HandlerFailed), local(slow, source, rules=rules, commit_interval=0.01) as running:
            running.wait_until_caught_up(300)

    seen.broken = set()
    source = SubscriptionSource(hub.url, subscription, batch_limit=20, commit_timeout=5)
    with source, local(seen, source) as running:
        running.wait_until_caught_up(300)
        client.subscription(subscription).retry_parked()
        running.wait_until_caught_up(300)
        assert not client.subscription(subscription).parked()
        publish(client, range(30, 50))
        running.wait_until_caught_up(300)
    assert {key: sorted(set(numbers)) for key, numbers in seen.numbers.items()} == numbers_of(range(50))
    assert seen.numbers["order.placed-3"] == numbers_of(range(50))["order.placed-3"]
    assert sorted(place for places in seen.places.values() for place in places) == sorted(
        (f"order.placed/{partition}", offset)
        for partition, each in enumerate(client.subscription(subscription).cursors())
        for offset in range(each.offset)
    ), "indices are offsets, whatever was left out, and however often it came"


@pytest.fixture
def keyed(client: Client) -> str:
    """An event type whose events have other keys than their fields: 0, 1 and 2, each in a partition of its own."""
    fields = {"partition_strategy": "hash", "partition_key_fields": ["customer"]}
    client.create_event_type("order.keyed", partition_count=4, **fields)
    client.publish("order.keyed", (NewEvent(b'{"customer":"Ada"}', key=f"{n % 3}") for n in range(60)))
    return client.create_subscription("shop", ["order.keyed"], start="earliest", annotations=PARKING)[0].id


def test_event_has_the_key_that_it_was_published_with(hub: LiveHub, keyed: str) -> None:
    found: Counter[tuple[str, str | None]] = Counter()
    source = SubscriptionSource(hub.url, keyed)
    with source, local(lambda stream, events: found.update((stream, each.key) for each in events), source) as running:
        running.wait_until_caught_up(60)
    assert found == {(f"order.keyed-{key}", key): 20 for key in "012"}


def test_key_that_moved_to_another_partition_is_parked_where_it_fails_and_handled_there(
    hub: LiveHub, client: Client
) -> None:
    fields = {"partition_strategy": "hash", "partition_key_fields": ["customer"]}
    client.create_event_type("order.moved", partition_count=1, **fields)
    wanted, _ = client.create_subscription("shop", ["order.moved"], start="earliest", annotations=PARKING)
    orders = [{"customer": f"{n}"} for n in range(12)]
    client.publish("order.moved", orders)
    client.grow_partitions("order.moved", 4)
    client.publish("order.moved", orders)
    handled: set[tuple[str, int]] = set()

    def handle(_: str, events: Sequence[StreamEvent]) -> None:
        for event in events:
            if event.tranche == "order.moved/0":
                raise ValueError("no")
            handled.add((event.tranche, event.index))

    elsewhere = sum(each.head for each in client.partitions("order.moved") if each.partition)
    source = SubscriptionSource(hub.url, wanted.id)
    with source, local(handle, source, rules=replace(SOON, attempts_max=2, exhausted="park")) as running:
        until(lambda: len(handled) == elsewhere and len(client.subscription(wanted.id).parked()) == 12)
        running.wait_until_caught_up(60)
    assert {each.partition for each in client.subscription(wanted.id).parked()} == {0}
    assert sum(each.events for each in client.subscription(wanted.id).parked()) == 24 - elsewhere < 24


def test_filtered_events_are_committed_and_a_missing_subscription_is_created(client: Client, hub: LiveHub) -> None:
    publish(client, range(200))
    wish = {"owning_application": "mails", "event_types": ["order.placed"], "read_from": "begin"}
    found: list[Any] = []
    source = SubscriptionSource(hub.url, wish, stream=lambda event: f"n-{event['n'] % 2}", kind=["customer"])
    filtered = Filtered(source, streams=["n-1"], except_kinds=["3"])
    checkpoints = SubscriptionCheckpoints(source)
    with filtered, LocalProcessor(lambda _, events: found.extend(events), filtered, checkpoints=checkpoints) as running:
        running.wait_until_caught_up(300)
    assert sorted(event.data["n"] for event in found) == [n for n in range(200) if n % 2 and n % 10 != 3]
    assert {(event.stream, event.kind) for event in found} == {("n-1", kind) for kind in "1579"}
    [shown] = client.subscriptions(owning_application="mails")
    assert {each.unconsumed_events for each in client.subscription(shown.id).stats()} == {0}


def test_failed_read_is_repeated(client: Client, read: Any, subscription: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([Unavailable(reason="a lookup has failed")] * 2)
    begin = SubscriptionSource._begin_stream

    def fails(source: SubscriptionSource) -> None:
        for failure in failures:
            raise failure
        begin(source)

    monkeypatch.setattr(SubscriptionSource, "_begin_stream", fails)
    publish(client, range(100))
    seen = Seen()
    with local(seen, read()) as running:
        running.wait_until_caught_up(300)
    assert seen.numbers == numbers_of(range(100))
    assert next(failures, None) is None


def test_subscription_source_refuses_bad_parameters(hub: LiveHub, read: Any) -> None:
    with pytest.raises(BadParameter, match="stream is 'id'; allowed: a list of paths"):
        read(stream="id")
    with pytest.raises(BadParameter, match="batch_limit is 0"):
        read(batch_limit=0)
    with pytest.raises(BadParameter, match="SubscriptionSource without `stream`"):
        local(Seen(), read(stream=["customer"]), rules=Rules(attempts_max=1, exhausted="park"))
    source = SubscriptionSource(hub.url, "none")
    with pytest.raises(SubscriptionNotFound), source:
        local(Seen(), source)


def parking_subscription(client: Client) -> str:
    """Return the id of a subscription that parks a stream after two attempts."""
    return client.create_subscription("parking", [ORDERS], start="earliest", annotations=PARKING)[0].id


def test_failed_processor_gives_its_session_back_at_once(hub: LiveHub, client: Client) -> None:
    subscription = parking_subscription(client)

    def fails(stream: str, events: Sequence[Any]) -> None:
        raise ValueError("broken")

    publish(client, range(400))
    rules = Rules(attempts_max=2)
    with (
        pytest.raises(HandlerFailed),
        LocalProcessor(fails, SubscriptionSource(hub.url, subscription), rules=rules) as first,
    ):
        assert first.wait(300)

    seen: dict[str, int] = {}
    with LocalProcessor(
        lambda stream, events: seen.update({stream: len(events)}), SubscriptionSource(hub.url, subscription)
    ) as second:
        second.wait_until_caught_up(300)
    assert len(seen) == 10


def test_stopped_processor_reports_failure_only_for_its_failing_stream(hub: LiveHub, client: Client) -> None:
    publish(client, range(400))
    subscription, broken = parking_subscription(client), "order.placed-3"
    begun: dict[str, str] = {}

    def handler(stream: str, events: Sequence[Any]) -> Outcome:
        begun[stream] = events[0].tranche
        if stream == broken:
            raise ValueError("broken")
        return retry(60)

    for _ in range(2):
        begun.clear()
        with LocalProcessor(handler, SubscriptionSource(hub.url, subscription, batch_limit=20)):
            until(lambda: len(begun) == 10)
    with client.subscription(subscription, batch_limit=20) as batches:
        found = islice(batches, len(set(begun.values())))
        sizes = {f"{batch.event_type}/{batch.partition}": len(batch.events) for batch in found}
    one_by_one = {tranche for tranche, size in sizes.items() if size == 1}
    assert (sizes.keys(), one_by_one) == (set(begun.values()), {begun[broken]})
