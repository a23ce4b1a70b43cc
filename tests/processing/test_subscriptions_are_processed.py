"""A hub's subscription as a source: what is committed was handled, whatever happens to hubs and processors."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client
from penstock.errors import BadParameter, StreamExhausted, SubscriptionNotFound, Unavailable
from penstock.processing.checkpoints.subscription import SubscriptionCheckpoints
from penstock.processing.engine.rules import Rules
from penstock.processing.runners.local import Local
from penstock.processing.sources.filtered import Filtered
from penstock.processing.sources.subscription import SubscriptionSource
from penstock.testing.live_hub import LiveHub


class Seen:
    """Keeps what it is given: by stream, the numbers in the events; and the places where each was."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[int]] = defaultdict(list)
        self.places: dict[int, set[tuple[str, int]]] = defaultdict(set)
        self.broken: set[str] = set()
        self.tried = threading.Event()

    def __call__(self, stream: str, events: Sequence[Any]) -> None:
        if stream in self.broken:
            self.tried.set()
            raise ValueError("broken")
        self.numbers[stream] += [event.data["n"] for event in events]
        for event in events:
            self.places[event.data["n"]].add((event.tranche, event.index))


@pytest.fixture
def client(hub: LiveHub) -> Iterator[Client]:
    with Client(hub.url) as client:
        client.create_event_type(
            "order.placed", partition_count=4, partition_strategy="hash", partition_key_fields=["customer"]
        )
        yield client


@pytest.fixture
def subscription(client: Client) -> str:
    return client.subscriptions.create("shop", ["order.placed"], read_from="begin")[0].id


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


def publish(client: Client, numbers: range, customers: int = 10) -> None:
    client.publish("order.placed", [{"customer": f"{number % customers}", "n": number} for number in numbers])


def wanted(numbers: range, customers: int = 10) -> dict[str, list[int]]:
    return {f"order.placed-{key}": [n for n in numbers if n % customers == key] for key in range(customers)}


def local(handler: Any, source: SubscriptionSource, **options: Any) -> Local:
    return Local(handler, source, checkpoints=SubscriptionCheckpoints(source), **{"commit_s": 0.1, **options})


def eventually(what: Callable[[], object], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_every_key_is_a_stream_and_who_starts_again_goes_on_behind_what_was_committed(
    client: Client, subscription: str, read: Any
) -> None:
    publish(client, range(500))
    seen = Seen()
    with local(seen, read()) as running:
        running.wait_until_caught_up(300)
        publish(client, range(500, 900))
        running.wait_until_caught_up(300)
    assert seen.numbers == wanted(range(900))
    assert {each.unconsumed_events for each in client.subscriptions.stats(subscription)} == {0}
    assert sorted(place for places in seen.places.values() for place in places) == sorted(
        (f"order.placed/{partition}", offset)
        for partition, each in enumerate(client.subscriptions.cursors(subscription))
        for offset in range(each.offset)
    ), "indices are offsets"

    publish(client, range(900, 1000))
    seen.numbers.clear()
    with local(seen, read()) as running:
        running.wait_until_caught_up(300)
    assert seen.numbers == wanted(range(900, 1000))


def test_a_processor_that_stops_leaves_what_is_not_handled_to_the_next(
    client: Client, subscription: str, read: Any
) -> None:
    publish(client, range(300))
    seen = Seen()
    seen.broken = {"order.placed-3"}
    source = read(commit_timeout=5)
    with source, local(seen, source) as running:
        assert seen.tried.wait(300)
        eventually(lambda: sum(map(len, seen.numbers.values())) == 270)
        assert len(running.engine.busy.failing) == 1
    left = sum(each.unconsumed_events or 0 for each in client.subscriptions.stats(subscription))
    assert 30 <= left < 300, "other partitions are committed, the stream that fails holds its own"

    again = Seen()
    with local(again, read()) as running:
        running.wait_until_caught_up(300)
    both = {key: sorted({*seen.numbers[key], *again.numbers[key]}) for key in wanted(range(10))}
    assert both == wanted(range(300))
    assert again.numbers["order.placed-3"] == wanted(range(300))["order.placed-3"]


def test_a_hub_that_is_killed_and_started_again_is_waited_for_and_nothing_is_handled_twice(
    hub: LiveHub, client: Client, subscription: str, read: Any
) -> None:
    seen = Seen()
    publish(client, range(300))
    with local(seen, read(), commit_s=5.0) as running:
        for turn in range(1, 3):
            eventually(lambda: sum(map(len, seen.numbers.values())) >= 100 * turn)  # noqa: B023 - It is called at once.
            hub.kill()
            time.sleep(0.2)
            hub.start()
            publish(client, range(300 * turn, 300 * (turn + 1)))
        running.wait_until_caught_up(300)
    assert seen.numbers == wanted(range(900))


def test_whoever_waits_beside_a_hub_that_is_away_is_told_which_and_why(hub: LiveHub, client: Client, read: Any) -> None:
    publish(client, range(10))
    with local(Seen(), read()) as running:
        running.wait_until_caught_up(300)
        hub.kill()
        with pytest.raises(Unavailable, match=rf"within 0\.5 s: .*{hub.url}.* cannot be reached: ConnectError"):
            running.wait_until_caught_up(0.5)
        hub.start()
        running.wait_until_caught_up(300)


def test_a_stream_whose_time_is_over_is_followed_by_another_and_what_is_under_way_is_not_begun_anew(
    hub: LiveHub, client: Client, subscription: str, read: Any
) -> None:
    seen, go_on, calls = Seen(), threading.Event(), []

    def slow(stream: str, events: Sequence[Any]) -> None:
        calls.append(stream)
        go_on.wait(30)
        seen(stream, events)

    publish(client, range(40))
    with local(slow, read(commit_timeout=1), rules=Rules(concurrency=16)) as running:
        eventually(lambda: len(calls) == 10)
        hub.pause()  # Nobody can extend the lease.
        time.sleep(3)
        hub.resume()
        eventually(lambda: client.subscriptions.stats(subscription)[0].state == "assigned")
        publish(client, range(40, 80))
        go_on.set()
        running.wait_until_caught_up(300)
    assert seen.numbers == wanted(range(80))


def test_a_slow_handler_keeps_its_lease(client: Client, subscription: str, read: Any) -> None:
    seen, calls = Seen(), []

    def slow(stream: str, events: Sequence[Any]) -> None:
        calls.append(stream)
        time.sleep(3)
        seen(stream, events)

    publish(client, range(10), customers=1)
    with local(slow, read(commit_timeout=1)) as running:
        eventually(lambda: calls)
        first = client.subscriptions.stats(subscription)[0].stream_id
        running.wait_until_caught_up(300)
        assert client.subscriptions.stats(subscription)[0].stream_id == first
    assert calls == ["order.placed-0"]


def test_partitions_are_shared_out_among_processors_and_come_back(client: Client, subscription: str, read: Any) -> None:
    first, second = Seen(), Seen()
    publish(client, range(400))
    with local(first, read()) as one:
        one.wait_until_caught_up(300)
        with local(second, read()):
            owners = lambda: {each.stream_id for each in client.subscriptions.stats(subscription)}  # noqa: E731
            eventually(lambda: len(owners()) == 2)
            publish(client, range(400, 800))
            one.wait_until_caught_up(300)
        eventually(lambda: len(owners() - {None}) == 1)
        publish(client, range(800, 1200))
        one.wait_until_caught_up(300)
    found = {key: sorted(first.numbers[key] + second.numbers[key]) for key in wanted(range(10))}
    assert found == wanted(range(1200)), "each is handled once"
    assert any(second.numbers.values())
    assert all(numbers == sorted(numbers) for seen in (first, second) for numbers in seen.numbers.values())


def test_what_is_set_back_is_handled_again(client: Client, subscription: str, read: Any) -> None:
    seen = Seen()
    publish(client, range(200))
    with local(seen, read()) as running:
        running.wait_until_caught_up(300)
        client.subscriptions.reset(subscription, to="begin", reason="mails were lost")
        running.wait_until_caught_up(300)
        publish(client, range(200, 250))
        running.wait_until_caught_up(300)
    assert {key: sorted(numbers) for key, numbers in seen.numbers.items()} == {
        key: sorted(wanted(range(200))[key] + wanted(range(250))[key]) for key in wanted(range(10))
    }


def test_partitions_that_are_added_while_it_runs_are_read(client: Client, subscription: str, read: Any) -> None:
    seen = Seen()
    publish(client, range(200))
    with local(seen, read()) as running:
        running.wait_until_caught_up(300)
        client.grow_partitions("order.placed", 8)
        publish(client, range(200, 400))
        eventually(lambda: sum(map(len, seen.numbers.values())) == 400)
        running.wait_until_caught_up(300)
    assert {key: sorted(numbers) for key, numbers in seen.numbers.items()} == wanted(range(400))


PROGRAM = """
import os, sys, time
from penstock.processing import Local, SubscriptionCheckpoints, SubscriptionSource

def handle(stream, events):
    for event in events:
        time.sleep(0.002)
        os.write(1, f"{stream} {event.data['n']}\\n".encode())  # At once: other threads write, too.

source = SubscriptionSource(sys.argv[1], sys.argv[2], batch_limit=20, commit_timeout=2)
with Local(handle, source, checkpoints=SubscriptionCheckpoints(source), commit_s=0.05):
    sys.stdin.read()
"""


def test_a_processor_that_is_killed_again_and_again_loses_nothing(
    hub: LiveHub, client: Client, subscription: str, tmp_path: Path
) -> None:
    publish(client, range(2_000))
    handled: dict[str, list[int]] = defaultdict(list)
    output = tmp_path / "handled"

    def left() -> int:
        found = [each.unconsumed_events for each in client.subscriptions.stats(subscription)]
        return sum(2_000 if count is None else count for count in found)

    for turn in range(6):
        with output.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, hub.url, subscription], stdin=subprocess.PIPE, stdout=file
            )
            before = output.stat().st_size
            eventually(lambda: output.stat().st_size > before + 2_000 or not left())  # noqa: B023 - It is called at once.
            if turn < 5:
                os.kill(process.pid, signal.SIGKILL)
            else:
                eventually(lambda: not left(), 60)
            process.communicate(timeout=20)
    for line in output.read_text().splitlines():
        stream, _, number = line.partition(" ")
        handled[stream].append(int(number))
    assert {key: sorted(set(numbers)) for key, numbers in handled.items()} == wanted(range(2_000))
    assert sum(map(len, handled.values())) < 4_000, "what was committed does not come again"


def test_parked_events_are_handled_when_they_are_sent_again(client: Client, hub: LiveHub) -> None:
    created, _ = client.subscriptions.create(
        "parking", ["order.placed"], read_from="begin", annotations={"penstock/park-after-attempts": "2"}
    )
    seen = Seen()
    seen.broken = {"order.placed-3"}

    def slow(stream: str, events: Sequence[Any]) -> None:
        time.sleep(0.005)  # So long calls are handed out one by one: all that was done is settled when one fails.
        seen(stream, events)

    publish(client, range(30))
    rules = Rules(concurrency=1, attempts_max=1, exhausted="stop")
    while not client.subscriptions.parked(created.id):
        source = SubscriptionSource(hub.url, created.id, batch_limit=20, commit_timeout=2)
        with source, suppress(StreamExhausted), local(slow, source, rules=rules, commit_s=0.01) as running:
            running.wait_until_caught_up(300)

    seen.broken = set()
    source = SubscriptionSource(hub.url, created.id, batch_limit=20, commit_timeout=5)
    with source, local(seen, source) as running:
        running.wait_until_caught_up(300)
        client.subscriptions.retry_parked(created.id)
        running.wait_until_caught_up(300)
        assert not client.subscriptions.parked(created.id)
        publish(client, range(30, 50))
        running.wait_until_caught_up(300)
    assert {key: sorted(set(numbers)) for key, numbers in seen.numbers.items()} == wanted(range(50))
    assert seen.numbers["order.placed-3"] == wanted(range(50))["order.placed-3"]
    assert sorted(place for places in seen.places.values() for place in places) == sorted(
        (f"order.placed/{partition}", offset)
        for partition, each in enumerate(client.subscriptions.cursors(created.id))
        for offset in range(each.offset)
    ), "indices are offsets, whatever was left out, and however often it came"


def test_what_is_left_out_is_committed_and_a_subscription_is_created_where_it_is_missing(
    client: Client, hub: LiveHub
) -> None:
    publish(client, range(200))
    wish = {"owning_application": "mails", "event_types": ["order.placed"], "read_from": "begin"}
    found: list[Any] = []
    source = SubscriptionSource(hub.url, wish, stream=lambda event: f"n-{event['n'] % 2}", kind=["customer"])
    filtered = Filtered(source, streams=["n-1"], except_kinds=["3"])
    checkpoints = SubscriptionCheckpoints(source)
    with filtered, Local(lambda _, events: found.extend(events), filtered, checkpoints=checkpoints) as running:
        running.wait_until_caught_up(300)
    assert sorted(event.data["n"] for event in found) == [n for n in range(200) if n % 2 and n % 10 != 3]
    assert {(event.stream, event.kind) for event in found} == {("n-1", kind) for kind in "1579"}
    [shown] = client.subscriptions.all(owning_application="mails")
    assert {each.unconsumed_events for each in client.subscriptions.stats(shown.id)} == {0}


def test_reading_that_has_failed_begins_anew(
    client: Client, read: Any, subscription: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([Unavailable(reason="a lookup has failed")] * 2)
    began = SubscriptionSource.began

    def fails(source: SubscriptionSource) -> None:
        for failure in failures:
            raise failure
        began(source)

    monkeypatch.setattr(SubscriptionSource, "began", fails)
    publish(client, range(100))
    seen = Seen()
    with local(seen, read()) as running:
        running.wait_until_caught_up(300)
    assert seen.numbers == wanted(range(100))
    assert next(failures, None) is None


def test_what_cannot_be_is_named(hub: LiveHub, read: Any) -> None:
    with pytest.raises(BadParameter, match="stream is 'id'; allowed: a list of paths"):
        read(stream="id")
    with pytest.raises(TypeError, match="did you mean 'batch_limit'"):
        read(batch_limits=3)
    source = SubscriptionSource(hub.url, "none")
    with pytest.raises(SubscriptionNotFound), source:
        local(Seen(), source)
