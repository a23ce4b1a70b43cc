"""A hub's feeds as a source: each event once, in its stream's order, whatever happens to the hub and to the feed."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client, Start
from penstock.core.events.event import NewEvent
from penstock.errors import BadParameter, EventsLost, EventTypeNotFound, Unavailable, Unreachable
from penstock.processing import handles
from penstock.processing.checkpoints.checkpoint import Advance, MemoryCheckpoints, PositionMove
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.checkpoints.hub import HubCheckpoints, SubscriptionCheckpoints
from penstock.processing.engine.rules import Rules
from penstock.processing.engine.tranche import Batch
from penstock.processing.runners.inline import InlineProcessor
from penstock.processing.runners.local import LocalProcessor
from penstock.processing.sources import feed
from penstock.processing.sources.feed import FeedSource
from penstock.processing.sources.source import ReadRequest
from penstock.processing.sources.subscription import SubscriptionSource
from penstock.testing.live_hub import LiveHub
from tests.failing import has_code
from tests.processing.office import until
from tests.processing.orders import ORDERS, Seen, create_orders, numbers_of, publish
from tests.store_contract import database_at

OWN = pytest.mark.usefixtures("own_hub")
"""A test has a hub of its own, whose event types have their first epoch."""


@pytest.fixture
def hub(request: pytest.FixtureRequest) -> LiveHub:
    """A hub of its own for tests that need one, else that of the file."""
    found: LiveHub = request.getfixturevalue("own_hub" if "own_hub" in request.fixturenames else "emptied_hub")
    return found


@pytest.fixture
def client(hub: LiveHub) -> Iterator[Client]:
    with Client(hub.url) as client:
        create_orders(client)
        yield client


def drain(handler: Any, source: FeedSource, **options: Any) -> None:
    with source:
        InlineProcessor(handler, source, **options).drain()


def at(positions: dict[str, str]) -> MemoryCheckpoints:
    checkpoints = MemoryCheckpoints()
    checkpoints.commit(Advance({tranche: PositionMove(None, position) for tranche, position in positions.items()}))
    return checkpoints


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_decorated_handler_runs_until_a_signal_and_goes_on_where_it_was(
    hub: LiveHub, client: Client, number: signal.Signals
) -> None:
    publish(client, range(200))
    seen: list[int] = []
    lock = threading.Lock()

    @handles("order.placed", group=f"handler-{number}")
    def collect(event: Any) -> None:
        with lock:
            seen.append(event.data["n"])
            if len(seen) in (200, 300):
                os.kill(os.getpid(), number)
                if number == signal.SIGTERM:  # Supervisors may send it to a process and to its group.
                    time.sleep(0.2)
                    os.kill(os.getpid(), number)

    collect.run(hub.url)
    publish(client, range(200, 300))
    collect.run(hub.url)

    assert sorted(seen) == list(range(300))
    assert client.consumer_group(collect.group).gap == 0


def test_each_key_is_a_stream_and_the_hub_shows_the_gap_of_the_processor(hub: LiveHub, client: Client) -> None:
    publish(client, range(500))
    seen = Seen()
    with LocalProcessor(
        seen, FeedSource(hub.url, "order.placed"), checkpoints=HubCheckpoints(hub.url, "mailer")
    ) as running:
        running.wait_until_caught_up(300)
        publish(client, range(500, 900))
        running.wait_until_caught_up(300)
    assert seen.numbers == numbers_of(range(900))
    [group] = client.consumer_groups(kind="processor")
    assert (group.name, group.gap) == ("mailer", 0)

    publish(client, range(900, 1000))
    [group] = client.consumer_groups("order.placed", kind="processor")
    assert (group.name, group.kind, group.event_types, group.gap) == ("mailer", "processor", ["order.placed"], 100)
    assert (group.lag_seconds or 0) > 0
    seen.numbers.clear()
    with LocalProcessor(
        seen, FeedSource(hub.url, "order.placed"), checkpoints=HubCheckpoints(hub.url, "mailer")
    ) as running:
        running.wait_until_caught_up(300)
    assert seen.numbers == numbers_of(range(900, 1000)), "it goes on where it was"


def test_event_has_all_fields_of_the_feed(hub: LiveHub, client: Client) -> None:
    client.create_event_type("order.paid")
    client.publish("order.paid", [{"n": 1}])
    client.publish(
        "order.paid", NewEvent.of(b'{"n":2}', key="7", headers={"ce_type": "order.paid.late", "tenant": "x"})
    )
    found: list[Any] = []
    before = datetime.now(UTC)
    drain(lambda _, events: found.extend(events), FeedSource(hub.url, "order.paid"))

    first, second = sorted(found, key=lambda event: event.data["n"])
    assert (first.stream, first.index, first.kind, first.key, first.tranche) == (
        "order.paid-0_", 0, "order.paid", None, "order.paid/0",
    )  # fmt: skip
    assert (first.raw, first.data, first.headers) == (b'{"n":1}', {"n": 1}, {})
    assert (second.stream, second.kind, second.headers["tenant"]) == ("order.paid-0_7", "order.paid.late", "x")
    assert abs((first.received_at - before).total_seconds()) < 60


def test_event_types_are_read_side_by_side_and_new_events_at_once(hub: LiveHub, client: Client) -> None:
    client.create_event_type("order.paid")
    seen, came = Seen(), threading.Event()

    def handle(stream: str, events: Sequence[Any]) -> None:
        seen(stream, events)
        if 77 in seen.numbers["order.paid-0_"]:
            came.set()

    publish(client, range(100))
    with LocalProcessor(handle, FeedSource(hub.url, "order.placed", "order.paid")) as running:
        running.wait_until_caught_up(300)
        client.publish("order.paid", [{"n": 77}])
        assert came.wait(300)
    assert {stream: numbers for stream, numbers in seen.numbers.items() if "placed" in stream} == numbers_of(range(100))


@pytest.fixture(params=["feed", "subscription"])
def begin(request: pytest.FixtureRequest, hub: LiveHub, client: Client) -> Callable[..., LocalProcessor]:
    """Makes processors of the orders in the feed, or in a subscription."""
    subscription = client.create_subscription("shop", [ORDERS], start="earliest")[0].id

    def of_feed(handler: Any, **options: Any) -> LocalProcessor:
        return LocalProcessor(
            handler, FeedSource(hub.url, ORDERS), checkpoints=HubCheckpoints(hub.url, "mailer"), **options
        )

    def of_subscription(handler: Any, **options: Any) -> LocalProcessor:
        source = SubscriptionSource(hub.url, subscription, batch_limit=20)
        return LocalProcessor(handler, source, checkpoints=SubscriptionCheckpoints(source), **options)

    return of_feed if request.param == "feed" else of_subscription


def test_partitions_that_are_added_to_a_running_processor_are_read(
    begin: Callable[..., LocalProcessor], client: Client
) -> None:
    seen = Seen()
    publish(client, range(200))
    with begin(seen) as running:
        for turn, partitions in ((1, 8), (2, 9)):
            running.wait_until_caught_up(300)
            client.grow_partitions(ORDERS, partitions)
            publish(client, range(200 * turn, 200 * (turn + 1)))
            until(lambda: seen.count == 200 * (turn + 1), running)  # noqa: B023 - It is called at once.
        running.wait_until_caught_up(300)
        assert len(running.engine.positions()) == 9
    # Across the moment in which keys move there is no order, but no event is lost, and none comes twice.
    assert seen.sorted == numbers_of(range(600))


@pytest.mark.usefixtures("short_lease", "own_hub")
def test_processor_waits_for_a_hub_that_is_killed_and_repeats_nothing(
    begin: Callable[..., LocalProcessor], hub: LiveHub, client: Client
) -> None:
    seen = Seen()
    publish(client, range(300))
    with begin(seen, commit_interval=5.0) as running:
        for turn in range(1, 3):
            until(lambda: seen.count >= 100 * turn)  # noqa: B023 - It is called at once.
            hub.kill()
            time.sleep(0.2)
            hub.start()
            publish(client, range(300 * turn, 300 * (turn + 1)))
        running.wait_until_caught_up(300)
    assert seen.numbers == numbers_of(range(900))


@pytest.mark.usefixtures("short_lease", "own_hub")
def test_wait_until_caught_up_names_the_hub_that_cannot_be_reached(
    begin: Callable[..., LocalProcessor], hub: LiveHub, client: Client
) -> None:
    publish(client, range(10))
    with begin(Seen()) as running:
        running.wait_until_caught_up(300)
        hub.kill()
        told = rf"within 0\.5 s: .*{hub.url}.* cannot be reached: ConnectError"
        until(lambda: re.search(told, error_of(running.wait_until_caught_up, 0.5)))
        with pytest.raises(Unreachable, match=hub.url):
            running.behind()
        hub.start()
        publish(client, range(10, 20))
        running.wait_until_caught_up(300)


def test_new_processor_begins_at_its_start_option(hub: LiveHub, client: Client) -> None:
    publish(client, range(100))
    time.sleep(0.01)
    between = datetime.now(UTC)
    time.sleep(0.01)
    publish(client, range(100, 200))
    cases: list[tuple[Start, range]] = [
        ("earliest", range(200)),
        (timedelta(days=1), range(200)),
        ("latest", range(200, 300)),
        (between, range(100, 300)),
    ]
    for start, expected in cases:
        seen = Seen()
        source = FeedSource(hub.url, "order.placed", start=start)
        running = InlineProcessor(seen, source)
        running.drain()
        if start == "latest":
            assert seen.numbers == {}
            publish(client, range(200, 300))
            running.drain()
        source.close()
        assert seen.numbers == numbers_of(expected)


def test_partitions_that_are_added_while_a_processor_is_away_are_read_from_their_beginning(
    hub: LiveHub, client: Client
) -> None:
    """And an event type that it has not read before is begun with at its end, as it says."""
    seen = Seen()
    kept = HubCheckpoints(hub.url, "late")
    publish(client, range(20))
    drain(seen, FeedSource(hub.url, "order.placed", start="latest"), checkpoints=kept)
    client.grow_partitions("order.placed", 8)
    publish(client, range(20, 100))
    client.create_event_type("order.paid", partition_strategy="hash", partition_key_fields=["customer"])
    publish(client, range(5), name="order.paid")

    drain(seen, FeedSource(hub.url, "order.placed", "order.paid", start="latest"), checkpoints=kept)

    assert seen.sorted == numbers_of(range(20, 100))


@OWN
def test_feed_that_was_created_again_ends_the_processor(hub: LiveHub, client: Client) -> None:
    publish(client, range(100))
    client.delete_event_type("order.placed")
    create_orders(client)
    publish(client, range(10))

    kept = {f"order.placed/{partition}": "1:20" for partition in range(4)}
    for fails in (True, False):  # What is kept by index would mean other events.
        with pytest.raises(
            EventsLost,
            check=has_code("feed-created-again"),
            match="is another feed than this processor has read: it was created again",
        ):
            drain(Seen(), FeedSource(hub.url, "order.placed", fail_on_loss=fails), checkpoints=at(kept))
    seen = Seen()
    drain(seen, FeedSource(hub.url, "order.placed"), checkpoints=at({}))
    assert seen.numbers == numbers_of(range(10))


def test_feed_that_is_created_again_ends_a_processor_that_waits_for_events(
    hub: LiveHub, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "LOOK_INTERVAL", 1e9)
    client.create_event_type("order.paid")
    client.publish("order.paid", [{"n": 1}])
    source = FeedSource(hub.url, "order.paid")
    processor = LocalProcessor(Seen(), source).start()
    processor.wait_until_caught_up(300)
    until(lambda: not all(poll.answer.done() for poll in source._polls.copy().values()), processor)
    client.delete_event_type("order.paid")
    client.create_event_type("order.paid")
    monkeypatch.setattr(feed, "LOOK_INTERVAL", 0.0)  # The next look is due.
    assert processor.wait(feed.WAIT_SECONDS / 2)
    with pytest.raises((EventsLost, EventTypeNotFound)):  # The request may be told before it is created.
        processor.stop()


@OWN
def test_position_behind_the_end_of_the_feed_or_an_unknown_feed_is_refused(hub: LiveHub, client: Client) -> None:
    client.create_event_type("order.paid")
    told = "position is '1:7'; allowed: up to 1:0, where order.paid/0 ends; `penstock groups reset` moves a processor"
    with pytest.raises(BadParameter, match=told):
        drain(Seen(), FeedSource(hub.url, "order.paid"), checkpoints=at({"order.paid/0": "1:7"}))
    with pytest.raises(EventTypeNotFound):
        drain(Seen(), FeedSource(hub.url, "order.unknown"))


@OWN
def test_retention_that_has_overtaken_the_processor_ends_it_or_is_skipped_on_demand(
    hub: LiveHub, client: Client
) -> None:
    client.create_event_type("order.paid")
    client.publish("order.paid", [{"n": number} for number in range(10)])
    database = database_at(hub.database)
    database.run("UPDATE penstock_partition SET floor = 7")
    database.run('DELETE FROM penstock_event WHERE "offset" < 7')

    kept = {"order.paid/0": "1:3"}
    with pytest.raises(EventsLost, match="retention has overtaken the processor") as raised:
        drain(Seen(), FeedSource(hub.url, "order.paid"), checkpoints=at(kept))
    assert raised.value.lost == 4
    seen = Seen()
    drain(seen, FeedSource(hub.url, "order.paid", fail_on_loss=False), checkpoints=at(kept))
    assert seen.numbers == {"order.paid-0_": [7, 8, 9]}


def test_unreachable_hub_is_logged_once_for_each_pause(
    hub: LiveHub, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.create_event_type("order.paid")
    source = FeedSource(hub.url, "order.placed", "order.paid")
    with LocalProcessor(Seen(), source) as running:
        running.wait_until_caught_up(300)
        hub.kill()
        asking = threading.Thread(target=lambda: error_of(running.wait_until_caught_up, 60))
        asking.start()

        def said() -> list[tuple[float, float]]:
            found = [(each.created, each.getMessage()) for each in caplog.records if each.name == "penstock.client"]
            return [(at, float(text.rpartition("trying again in ")[2].split()[0])) for at, text in found]

        until(lambda: len(said()) >= 5)
        pauses = said()
        hub.start()
        asking.join()
    for (at, pause), (then, _) in pairwise(pauses):
        assert then >= at + pause - 0.06, "nothing is said before the pause is over; it is told to a tenth of a second"


def error_of(wait: Callable[[float], None], seconds: float) -> str:
    """Return the error of waiting for a processor that does not catch up; empty if it does."""
    try:
        wait(seconds)
    except Unavailable as error:
        return str(error)
    return ""


@OWN
def test_page_for_an_outdated_position_is_discarded(hub: LiveHub, client: Client) -> None:
    client.create_event_type("order.paid")
    client.publish("order.paid", [{"n": n} for n in range(10)])
    tranche = "order.paid/0"
    with FeedSource(hub.url, "order.paid") as source:
        assert source.read({tranche: ReadRequest("1:10", 100)}, 0.05) == [], "a request waits at the hub from here on"
        client.publish("order.paid", [{"n": 10}])
        found: list[Batch] = []
        deadline = time.monotonic() + 300
        while not found and time.monotonic() < deadline:
            found += source.read(
                {tranche: ReadRequest("1:3", 100)}, 0.5
            )  # The tranche was another's, and has come back.
    assert [(item.index, batch.end) for batch in found for item in batch.items][:1] == [(3, "1:11")]


def test_parked_events_are_found_behind_pages_without_them(
    hub: LiveHub, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.processing.progress.REPLAY_EVENTS", 10)
    client.create_event_type("order.paid", partition_strategy="hash", partition_key_fields=["customer"])
    events = [{"customer": "a" if n in (0, 150) else "b", "n": n} for n in range(200)]
    client.publish("order.paid", events)
    checkpoints = DatabaseCheckpoints(f"sqlite:///{tmp_path}/consumer.db", "mailer")
    seen = Seen("order.paid-a")
    rules = Rules(attempts_max=1, exhausted="park")
    with FeedSource(hub.url, "order.paid") as source:
        running = InlineProcessor(seen, source, checkpoints=checkpoints, rules=rules)
        running.drain()
        seen.broken = set()
        checkpoints.ask("order.paid-a", "retry")
        running.drain()
    assert seen.numbers["order.paid-a"] == [0, 150]
    assert list(checkpoints.parked()) == []


@OWN
def test_processor_that_restarts_within_a_page_resumes_near_its_last_call(hub: LiveHub, client: Client) -> None:
    publish(client, range(2_000), customers=1)
    [tranche] = {f"order.placed/{each.partition}" for each in client.partitions("order.placed") if each.head}
    seen, checkpoints, rules = Seen(), HubCheckpoints(hub.url, "orders"), Rules(events_per_call=100)
    for begins in (0, 500, 1_000):
        seen.numbers.clear()
        with FeedSource(hub.url, "order.placed") as source:
            running = InlineProcessor(seen, source, checkpoints=checkpoints, rules=rules)
            while len(seen.numbers["order.placed-0"]) < 600:
                running.step()
            assert running.snapshot.tranches[int(tranche[-1])].read == "1:2000", "it was read at once"
        assert seen.numbers["order.placed-0"] == [*range(begins, begins + 600)]
        assert checkpoints.positions()[tranche] == f"1:{begins + 500}"


@pytest.mark.parametrize("runner", ["step by step", "beside each other"])
def test_events_that_arrive_during_a_retry_are_handled_behind_the_parked_ones(
    hub: LiveHub, client: Client, tmp_path: Path, runner: str
) -> None:
    publish(client, range(300), customers=3)
    seen = Seen("order.placed-0", "order.placed-1", "order.placed-2")
    rules = Rules(attempts_max=1, exhausted="park", events_ahead=20, events_per_call=7)
    checkpoints = DatabaseCheckpoints(f"sqlite:///{tmp_path}/checkpoints.db", "orders")
    with FeedSource(hub.url, "order.placed") as source:
        first = InlineProcessor(seen, source, checkpoints=checkpoints, rules=rules)
        while len(checkpoints.parked()) < 3:
            first.step()
    assert all(each.events < 100 for each in checkpoints.parked()), "more comes while they are tried again"
    seen.broken = set()
    for each in checkpoints.parked():
        checkpoints.ask(each.stream, "retry")
    source = FeedSource(hub.url, "order.placed")
    if runner == "step by step":
        drain(seen, source, checkpoints=checkpoints, rules=rules)
    else:
        with LocalProcessor(seen, source, checkpoints=checkpoints, rules=rules, commit_interval=0.01) as running:
            running.wait_until_caught_up(300)
    assert seen.numbers == numbers_of(range(300), 3)
    assert checkpoints.parked() == []
