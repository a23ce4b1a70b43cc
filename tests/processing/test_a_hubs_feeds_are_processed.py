"""A hub's feeds as a source: every event once in its stream's order, whatever happens to the hub and to the feed."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client
from penstock.core.event import NewEvent
from penstock.errors import BadParameter, EventsLost, EventTypeNotFound, FeedCreatedAgain, Unavailable, Unreachable
from penstock.processing.checkpoints.checkpoint import Advance, Move
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.checkpoints.hub import HubCheckpoints
from penstock.processing.checkpoints.memory import MemoryCheckpoints
from penstock.processing.engine.backoff import Backoff
from penstock.processing.engine.item import Batch
from penstock.processing.engine.rules import Rules
from penstock.processing.runners.inline import Inline
from penstock.processing.runners.local import Local
from penstock.processing.sources import feed
from penstock.processing.sources.feed import FeedSource
from penstock.processing.sources.source import Want
from penstock.testing.live_hub import LiveHub
from penstock.testing.store_contract import database_at
from tests.processing.office import until


class Seen:
    """Keeps what it is given: by stream, the numbers in the events."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[int]] = defaultdict(list)
        self.broken: set[str] = set()

    def __call__(self, stream: str, events: Sequence[Any]) -> None:
        if stream in self.broken:
            raise ValueError("broken")
        self.numbers[stream] += [event.data["n"] for event in events]


@pytest.fixture
def client(hub: LiveHub) -> Iterator[Client]:
    with Client(hub.url) as client:
        create(client)
        yield client


def create(client: Client) -> None:
    client.create_event_type(
        "order.placed", partition_count=4, partition_strategy="hash", partition_key_fields=["customer"]
    )


def publish(client: Client, numbers: range, customers: int = 10, event_type: str = "order.placed") -> None:
    client.publish(event_type, [{"customer": f"{number % customers}", "n": number} for number in numbers])


def wanted(numbers: range, customers: int = 10) -> dict[str, list[int]]:
    return {f"order.placed-{key}": [n for n in numbers if n % customers == key] for key in range(customers)}


def drain(handler: Any, source: FeedSource, **options: Any) -> None:
    with source:
        Inline(handler, source, **options).drain()


def at(positions: dict[str, str]) -> MemoryCheckpoints:
    checkpoints = MemoryCheckpoints()
    checkpoints.commit(Advance({tranche: Move(None, position) for tranche, position in positions.items()}))
    return checkpoints


def test_every_key_is_a_stream_in_order_and_the_group_is_shown_with_gap_zero(hub: LiveHub, client: Client) -> None:
    publish(client, range(500))
    seen = Seen()
    with Local(seen, FeedSource(hub.url, "order.placed"), checkpoints=HubCheckpoints(hub.url, "mailer")) as running:
        running.wait_until_caught_up(300)
        publish(client, range(500, 900))
        running.wait_until_caught_up(300)
    assert seen.numbers == wanted(range(900))
    [group] = client.consumer_groups(kind="processor")
    assert (group.name, group.gap) == ("mailer", 0)

    publish(client, range(900, 1000))
    seen.numbers.clear()
    with Local(seen, FeedSource(hub.url, "order.placed"), checkpoints=HubCheckpoints(hub.url, "mailer")) as running:
        running.wait_until_caught_up(300)
    assert seen.numbers == wanted(range(900, 1000)), "it goes on where it was"


def test_an_event_is_all_that_the_feed_says_of_it(hub: LiveHub, client: Client) -> None:
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


def test_several_event_types_are_read_beside_each_other_and_new_events_come_at_once(
    hub: LiveHub, client: Client
) -> None:
    client.create_event_type("order.paid")
    seen, came = Seen(), threading.Event()

    def handle(stream: str, events: Sequence[Any]) -> None:
        seen(stream, events)
        if 77 in seen.numbers["order.paid-0_"]:
            came.set()

    publish(client, range(100))
    with Local(handle, FeedSource(hub.url, "order.placed", "order.paid")) as running:
        running.wait_until_caught_up(300)
        client.publish("order.paid", [{"n": 77}])
        assert came.wait(300)
    assert {stream: numbers for stream, numbers in seen.numbers.items() if "placed" in stream} == wanted(range(100))


def test_partitions_that_are_added_while_it_runs_are_read(hub: LiveHub, client: Client) -> None:
    seen = Seen()
    publish(client, range(200))
    with Local(seen, FeedSource(hub.url, "order.placed"), checkpoints=HubCheckpoints(hub.url, "mailer")) as running:
        running.wait_until_caught_up(300)
        client.grow_partitions("order.placed", 8)
        publish(client, range(200, 400))
        running.wait_until_caught_up(300)
        client.grow_partitions("order.placed", 9)
        publish(client, range(400, 600))
        running.wait_until_caught_up(300)
        assert len(running.engine.positions()) == 9
    # Across the moment in which keys move there is no order, but nothing is lost and nothing comes twice.
    assert {stream: sorted(numbers) for stream, numbers in seen.numbers.items()} == wanted(range(600))


def test_a_hub_that_is_killed_and_started_again_is_waited_for(hub: LiveHub, client: Client) -> None:
    seen = Seen()
    publish(client, range(300))
    with Local(
        seen, FeedSource(hub.url, "order.placed"), checkpoints=HubCheckpoints(hub.url, "mailer"), commit_s=0.1
    ) as running:
        for turn in range(1, 4):
            hub.kill()
            time.sleep(0.3)
            hub.start()
            publish(client, range(300 * turn, 300 * (turn + 1)))
        running.wait_until_caught_up(300)
    assert seen.numbers == wanted(range(1200))


def test_whoever_waits_beside_a_hub_that_is_away_is_told_which_and_why(hub: LiveHub, client: Client) -> None:
    publish(client, range(10))
    with Local(Seen(), FeedSource(hub.url, "order.placed")) as running:
        running.wait_until_caught_up(300)
        hub.kill()
        with pytest.raises(Unavailable, match=rf"within 3 s: .*{hub.url}.* cannot be reached: ConnectError"):
            running.wait_until_caught_up(3)
        with pytest.raises(Unreachable, match=hub.url):
            running.behind()
        hub.start()
        publish(client, range(10, 20))
        running.wait_until_caught_up(300)


def test_where_a_new_processor_begins(hub: LiveHub, client: Client) -> None:
    publish(client, range(100))
    time.sleep(0.01)
    between = datetime.now(UTC)
    time.sleep(0.01)
    publish(client, range(100, 200))
    for start, expected in (("earliest", range(200)), ("latest", range(200, 300)), (between, range(100, 300))):
        seen = Seen()
        source = FeedSource(hub.url, "order.placed", start=start)  # type: ignore[arg-type]
        running = Inline(seen, source)
        running.drain()
        if start == "latest":
            assert seen.numbers == {}
            publish(client, range(200, 300))
            running.drain()
        source.close()
        assert seen.numbers == wanted(expected)


def test_partitions_that_are_added_while_a_processor_is_away_are_read_whole(hub: LiveHub, client: Client) -> None:
    """And an event type that it has not read before is begun with at its end, as it says."""
    seen = Seen()
    kept = HubCheckpoints(hub.url, "late")
    publish(client, range(20))
    drain(seen, FeedSource(hub.url, "order.placed", start="latest"), checkpoints=kept)
    client.grow_partitions("order.placed", 8)
    publish(client, range(20, 100))
    client.create_event_type("order.paid", partition_strategy="hash", partition_key_fields=["customer"])
    publish(client, range(5), event_type="order.paid")

    drain(seen, FeedSource(hub.url, "order.placed", "order.paid", start="latest"), checkpoints=kept)

    assert {stream: sorted(numbers) for stream, numbers in seen.numbers.items()} == wanted(range(20, 100))


def test_a_feed_that_was_created_again_is_noticed(hub: LiveHub, client: Client) -> None:
    publish(client, range(100))
    client.delete_event_type("order.placed")
    client.create_event_type(
        "order.placed", partition_count=4, partition_strategy="hash", partition_key_fields=["customer"]
    )
    publish(client, range(10))

    kept = {f"order.placed/{partition}": "1:20" for partition in range(4)}
    for fails in (True, False):  # What is kept by index would mean other events.
        with pytest.raises(
            FeedCreatedAgain, match="is another feed than this processor has read: it was created again"
        ):
            drain(Seen(), FeedSource(hub.url, "order.placed", fail_on_loss=fails), checkpoints=at(kept))
    seen = Seen()
    drain(seen, FeedSource(hub.url, "order.placed"), checkpoints=at({}))
    assert seen.numbers == wanted(range(10))


def test_a_feed_that_is_created_again_is_noticed_while_a_request_waits_for_its_events(
    hub: LiveHub, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "LOOK_S", 1e9)
    client.create_event_type("order.paid")
    client.publish("order.paid", [{"n": 1}])
    source = FeedSource(hub.url, "order.paid")
    processor = Local(Seen(), source).start()
    processor.wait_until_caught_up(300)
    until(lambda: not all(poll.answer.done() for poll in source._polls.copy().values()), processor)
    client.delete_event_type("order.paid")
    client.create_event_type("order.paid")
    monkeypatch.setattr(feed, "LOOK_S", 0.0)  # The next look is due.
    assert processor.wait(feed.WAIT_S / 2)
    with pytest.raises((FeedCreatedAgain, EventTypeNotFound)):  # The request may be told before it is created.
        processor.stop()


def test_a_position_behind_the_end_is_told(hub: LiveHub, client: Client) -> None:
    client.create_event_type("order.paid")
    told = "position is '1:7'; allowed: up to 1:0, where order.paid/0 ends; `penstock checkpoint set` moves a processor"
    with pytest.raises(BadParameter, match=told):
        drain(Seen(), FeedSource(hub.url, "order.paid"), checkpoints=at({"order.paid/0": "1:7"}))


def test_retention_that_has_overtaken_a_processor_is_noticed(hub: LiveHub, client: Client) -> None:
    client.create_event_type("order.paid")
    client.publish("order.paid", [{"n": number} for number in range(10)])
    database = database_at(hub.database)
    database.run("UPDATE penstock_partition SET floor = 7")
    database.run('DELETE FROM penstock_event WHERE "offset" < 7')

    kept = {"order.paid/0": "1:3"}
    with pytest.raises(EventsLost, match="retention has overtaken the processor") as raised:
        drain(Seen(), FeedSource(hub.url, "order.paid"), checkpoints=at(kept))
    assert raised.value.fields["lost"] == 4
    seen = Seen()
    drain(seen, FeedSource(hub.url, "order.paid", fail_on_loss=False), checkpoints=at(kept))
    assert seen.numbers == {"order.paid-0_": [7, 8, 9]}


def test_what_is_parked_of_a_feed_is_read_again_from_it(hub: LiveHub, client: Client, tmp_path: Path) -> None:
    checkpoints = DatabaseCheckpoints(f"sqlite:///{tmp_path}/consumer.db", "mailer")
    rules = Rules(attempts_max=2, exhausted="park", backoff=Backoff(first=0.001))
    seen = Seen()
    seen.broken = {"order.placed-3"}
    publish(client, range(200))
    with Local(seen, FeedSource(hub.url, "order.placed"), checkpoints=checkpoints, rules=rules) as running:
        running.wait_until_caught_up(300)
        publish(client, range(200, 250))
        running.wait_until_caught_up(300)
    [parked] = checkpoints.parked()
    assert (parked.stream, parked.events) == ("order.placed-3", 25)
    assert "order.placed-3" not in seen.numbers

    seen.broken = set()
    checkpoints.ask("order.placed-3", "retry")
    with Local(seen, FeedSource(hub.url, "order.placed"), checkpoints=checkpoints, rules=rules) as running:
        deadline = time.monotonic() + 300
        while checkpoints.parked() and time.monotonic() < deadline:
            time.sleep(0.05)
        publish(client, range(250, 300))
        running.wait_until_caught_up(300)
    assert seen.numbers == wanted(range(300))


def test_a_hub_that_is_away_is_said_once_for_each_pause_however_many_ask_it(
    hub: LiveHub, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.create_event_type("order.paid")
    source = FeedSource(hub.url, "order.placed", "order.paid")
    with Local(Seen(), source) as running:
        running.wait_until_caught_up(300)
        hub.kill()
        asking = threading.Thread(target=lambda: suppressed(running.wait_until_caught_up, 60))
        asking.start()

        def said() -> list[tuple[float, float]]:
            found = [(each.created, each.getMessage()) for each in caplog.records if each.name == "penstock.client"]
            return [(at, float(text.rpartition("trying again in ")[2].split()[0])) for at, text in found]

        deadline = time.monotonic() + 300
        while len(said()) < 7 and time.monotonic() < deadline:
            time.sleep(0.05)
        pauses = said()
        hub.start()
        asking.join()
    assert len(pauses) >= 7
    for (at, pause), (then, _) in pairwise(pauses):
        assert then >= at + pause - 0.06, "nothing is said before the pause is over; it is told to a tenth of a second"


def suppressed(wait: Callable[[float], None], seconds: float) -> None:
    with suppress(Unavailable):
        wait(seconds)


def test_bad_parameters_are_named(hub: LiveHub, client: Client) -> None:
    with pytest.raises(BadParameter, match="the name of one event type at least"):
        FeedSource(hub.url)
    with pytest.raises(BadParameter, match="start is 'newest'; allowed: earliest, latest, or a datetime"):
        FeedSource(hub.url, "order.placed", start="newest")  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match=r"or a datetime with a time zone, such as datetime\(.*, tzinfo=UTC\)"):
        FeedSource(hub.url, "order.placed", start=datetime(2026, 11, 20))  # noqa: DTZ001 - That is what is refused.
    with pytest.raises(EventTypeNotFound):
        drain(Seen(), FeedSource(hub.url, "order.unknown"))


def test_what_comes_for_a_position_that_is_not_wanted_any_more_is_left_out(hub: LiveHub, client: Client) -> None:
    client.create_event_type("order.paid")
    client.publish("order.paid", [{"n": n} for n in range(10)])
    tranche = "order.paid/0"
    with FeedSource(hub.url, "order.paid") as source:
        assert source.read({tranche: Want("1:10", 100)}, 0.05) == [], "a request waits at the hub from here on"
        client.publish("order.paid", [{"n": 10}])
        found: list[Batch] = []
        deadline = time.monotonic() + 300
        while not found and time.monotonic() < deadline:
            found += source.read({tranche: Want("1:3", 100)}, 0.5)  # The tranche was another's, and has come back.
    assert [(item.index, batch.end) for batch in found for item in batch.items][:1] == [(3, "1:11")]


def test_parked_events_are_found_behind_pages_that_have_none_of_them(
    hub: LiveHub, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.processing.replaying.REPLAY_EVENTS", 10)
    client.create_event_type("order.paid", partition_strategy="hash", partition_key_fields=["customer"])
    events = [{"customer": "a" if n in (0, 150) else "b", "n": n} for n in range(200)]
    client.publish("order.paid", events)
    checkpoints = DatabaseCheckpoints(f"sqlite:///{tmp_path}/consumer.db", "mailer")
    seen = Seen()
    seen.broken = {"order.paid-a"}
    rules = Rules(attempts_max=1, exhausted="park")
    with FeedSource(hub.url, "order.paid") as source:
        running = Inline(seen, source, checkpoints=checkpoints, rules=rules)
        running.drain()
        seen.broken = set()
        checkpoints.ask("order.paid-a", "retry")
        running.drain()
    assert seen.numbers["order.paid-a"] == [0, 150]
    assert list(checkpoints.parked()) == []


def test_who_is_started_again_in_the_middle_of_a_page_goes_on_near_where_it_was(hub: LiveHub, client: Client) -> None:
    publish(client, range(2_000), customers=1)
    [tranche] = {f"order.placed/{each.partition}" for each in client.partitions("order.placed") if each.head}
    seen, checkpoints, rules = Seen(), HubCheckpoints(hub.url, "orders"), Rules(events_per_call=100)
    for begins in (0, 500, 1_000):
        seen.numbers.clear()
        with FeedSource(hub.url, "order.placed") as source:
            running = Inline(seen, source, checkpoints=checkpoints, rules=rules)
            while len(seen.numbers["order.placed-0"]) < 600:
                running.step()
            assert running.snapshot.tranches[int(tranche[-1])].read == "1:2000", "it was read at once"
        assert seen.numbers["order.placed-0"] == [*range(begins, begins + 600)]
        assert checkpoints.positions()[tranche] == f"1:{begins + 500}"


@pytest.mark.parametrize("runner", ["step by step", "beside each other"])
def test_what_comes_while_a_parked_stream_is_tried_again_is_handled_behind_it(
    hub: LiveHub, client: Client, tmp_path: Path, runner: str
) -> None:
    publish(client, range(300), customers=3)
    seen, rules = Seen(), Rules(attempts_max=1, exhausted="park", events_ahead=20, events_per_call=7)
    checkpoints = DatabaseCheckpoints(f"sqlite:///{tmp_path}/checkpoints.db", "orders")
    seen.broken = {"order.placed-0", "order.placed-1", "order.placed-2"}
    with FeedSource(hub.url, "order.placed") as source:
        first = Inline(seen, source, checkpoints=checkpoints, rules=rules)
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
        with Local(seen, source, checkpoints=checkpoints, rules=rules, commit_s=0.01) as running:
            running.wait_until_caught_up(300)
    assert seen.numbers == wanted(range(300), 3)
    assert checkpoints.parked() == []
