"""Each event of a stream has its effects and copies, though partitions, feeds or epochs number it anew."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.client import Client
from penstock.processing import FeedSource, InlineProcessor, LocalProcessor, StreamEvent, react
from penstock.processing.checkpoints import MemoryCheckpoints
from penstock.processing.effects import Effect
from penstock.processing.handlers import Handler
from penstock.processing.reactions import Publisher
from penstock.processing.targets import HubTarget, copy_streams
from penstock.testing.live_hub import LiveHub

GIVEN, MADE = "order.placed", "order.seen"
MakeHandler = Callable[[Client], Handler]


def reaction(client: Client, group: str | None = "reader") -> Handler:
    return react(Publisher(client, group), lambda event: Effect(MADE, {"key": event.data["key"], "n": event.data["n"]}))


def copy(client: Client) -> Handler:
    return copy_streams(HubTarget(client, MADE, "copier"), dense=False)


@pytest.fixture
def client(hub: LiveHub) -> Iterator[Client]:
    with Client(hub.url) as client:
        for name in (GIVEN, MADE):
            create(client, name)
        yield client


def create(client: Client, name: str, partitions: int = 1) -> None:
    client.create_event_type(name, partition_count=partitions, partition_strategy="hash", partition_key_fields=["key"])


def publish(client: Client, numbers: range, event_type: str = GIVEN) -> None:
    client.publish(event_type, [{"key": f"k{number % 10}", "n": number} for number in numbers])


def read_made(client: Client, *headers: str) -> list[Any]:
    with client.feed(MADE) as feed:
        return feed.read(feed.cursors(), headers=headers).events


def read_numbers(client: Client) -> list[int]:
    return sorted(event.data["n"] for event in read_made(client))


@pytest.mark.parametrize("handler", [reaction, copy])
def test_stream_that_moves_to_another_partition_is_continued(
    client: Client, hub: LiveHub, handler: MakeHandler
) -> None:
    def run(checkpoints: MemoryCheckpoints) -> None:
        with LocalProcessor(handler(client), FeedSource(hub.url, GIVEN), checkpoints=checkpoints) as processor:
            processor.wait_until_caught_up(300)

    publish(client, range(100))
    run(kept := MemoryCheckpoints())
    client.grow_partitions(GIVEN, 4)
    publish(client, range(100, 150))
    run(kept)
    assert read_numbers(client) == list(range(150))
    run(MemoryCheckpoints())
    assert read_numbers(client) == list(range(150)), "and a repeat is recognised in each of them"


@pytest.mark.parametrize("handler", [reaction, copy])
def test_recreated_feed_has_other_events(client: Client, hub: LiveHub, handler: MakeHandler) -> None:
    def run() -> None:
        with FeedSource(hub.url, GIVEN) as source:
            InlineProcessor(handler(client), source).drain()

    publish(client, range(50))
    run()
    client.delete_event_type(GIVEN)
    create(client, GIVEN)
    publish(client, range(50, 90))
    run()
    assert read_numbers(client) == list(range(90))


@pytest.mark.parametrize("handler", [reaction, copy])
def test_streams_of_one_name_in_two_feeds_are_different(client: Client, hub: LiveHub, handler: MakeHandler) -> None:
    create(client, f"{GIVEN}-b")
    client.publish(GIVEN, [{"key": "b-1", "n": number} for number in range(20)])
    client.publish(f"{GIVEN}-b", [{"key": "1", "n": number} for number in range(20, 30)])
    with FeedSource(hub.url, GIVEN, f"{GIVEN}-b") as source:
        InlineProcessor(handler(client), source).drain()
    assert read_numbers(client) == list(range(30))
    assert {event.headers["penstock-stream"] for event in read_made(client, "penstock-stream")} == {f"{GIVEN}-b-1"}


def test_effects_of_different_events_have_different_ids(client: Client, hub: LiveHub) -> None:
    publish(client, range(50))
    client.grow_partitions(GIVEN, 4)
    publish(client, range(50, 100))
    for _ in range(2):
        with FeedSource(hub.url, GIVEN) as source:
            InlineProcessor(reaction(client, group=None), source).drain()
    ids = Counter(event.headers["ce_id"] for event in read_made(client, "ce_id"))
    assert (len(ids), {*ids.values()}) == (100, {2})


def test_origin_headers_name_the_numbering_and_replace_earlier_ones(client: Client, hub: LiveHub) -> None:
    publish(client, range(1))
    create(client, "order.further")
    for target, event_type in ((HubTarget(client, MADE, "a"), GIVEN), (HubTarget(client, "order.further", "b"), MADE)):
        with FeedSource(hub.url, event_type) as source:
            InlineProcessor(copy_streams(target, dense=False), source).drain()
    target.append(
        "order-7", 0, [StreamEvent("order-7", 0, "placed", b'{"key":"7"}', _headers='{"penstock-numbering":"x"}')]
    )
    with client.feed("order.further") as feed:
        further = feed.read(feed.cursors(), headers=["penstock-numbering", "penstock-group"]).events
    assert [event.headers for event in further] == [
        {"penstock-numbering": f"{MADE}/0@1", "penstock-group": "b"},
        {"penstock-group": "b"},
    ]
