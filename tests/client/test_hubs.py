"""The client publishes to a hub and reads from it, on both databases."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.client import Client, Feed, NewPosition, Page, PositionReset, Start
from penstock.core.events.event import NewEvent
from penstock.errors import (
    EventTypeExists,
    EventTypeNotFound,
    GroupNotFound,
    PositionMoved,
)
from penstock.testing.live_hub import LiveHub
from penstock.wire.log.nakadi import offset_text
from tests.unit.client.kinds import Kind, first, opened, result


@pytest.fixture(autouse=True)
def no_event_types(client: Client) -> None:
    for event_type in client.event_types():
        client.delete_event_type(event_type["name"])


def read_all(feed: Feed, **options: Any) -> list[Page]:
    cursors, pages = feed.cursors(), []
    while not pages or pages[-1].events:
        pages.append(feed.read(cursors, **options))
        cursors = dict(pages[-1].cursors)
    return pages


def numbers(pages: list[Page]) -> list[int]:
    return [event.data["n"] for page in pages for event in page.events]


@pytest.mark.anyio
async def test_client_publishes_follows_and_keeps_positions(hub: LiveHub, kind: Kind) -> None:
    async with opened(kind.client(hub.url)) as client:
        await result(client.create_event_type("a", partition_count=3, more={"labels": {"team": "shop"}}))
        assert (await result(client.event_type("a")))["labels"] == {"team": "shop"}
        with pytest.raises(EventTypeExists):
            await result(client.create_event_type("a"))
        assert (await result(client.publish("a", ({"n": n} for n in range(1_500))))).count == 1_500
        assert sum(each.head for each in await result(client.partitions("a"))) == 1_500

        got: list[int] = []
        async with opened(client.feed("a").follow(wait_seconds=60)) as pages:
            while len(got) < 1_500:
                got += numbers([await first(pages)])
        assert sorted(got) == list(range(1_500))

        assert await result(client.commit_positions("a ledger/1", [NewPosition("a", 0, 1)], kind="processor"))
        with pytest.raises(PositionMoved) as refused:
            await result(client.commit_positions("a ledger/1", [NewPosition("a", 0, 3, expected=2)]))
        assert (refused.value.offset, refused.value.expected) == (1, 2)
        [moved] = await result(
            client.reset_positions("a ledger/1", [PositionReset("a", 0, to="earliest")], reason="a bug")
        )
        assert (moved.came_from, moved.offset) == (1, 0)
        assert [each.name for each in await result(client.consumer_groups("a"))] == ["a ledger/1"]
        assert [each.reason for each in await result(client.group_history("a ledger/1"))] == ["a bug"]
        await result(client.forget_group("a ledger/1"))
        with pytest.raises(GroupNotFound):
            await result(client.consumer_group("a ledger/1"))

        await result(client.delete_event_type("a"))
        assert await result(client.event_types()) == []
        with pytest.raises(EventTypeNotFound):
            await result(client.partitions("a"))


def test_events_are_read_once_and_in_order_of_their_key_with_every_partition_count(client: Client) -> None:
    client.create_event_type("a", partition_count=4, partition_strategy="hash", partition_key_fields=["k"])

    done = client.publish("a", ({"n": n, "k": str(n % 17)} for n in range(2_500)))

    assert done.count == 2_500
    assert sum(each.head for each in client.partitions("a")) == 2_500
    for count in (None, 1, 2, 8):
        pages = read_all(client.feed("a", partition_count=count), page_size_hint=300)
        assert Counter(numbers(pages)) == Counter(range(2_500))
        for key in range(17):
            of_key = [n for n in numbers(pages) if n % 17 == key]
            assert of_key == sorted(of_key)


def test_cursor_set_keeps_the_cursors_of_a_consumer(client: Client) -> None:
    client.create_event_type("a", partition_count=2)
    client.publish("a", ({"n": n} for n in range(100)))
    feed = client.feed("a")

    with feed.follow(cursor_set="mailer", page_size_hint=20) as pages:
        taken = [next(pages) for _ in range(3)]
    with feed.follow(cursor_set="mailer", page_size_hint=20) as pages:
        again = next(pages)
        rest = []
        for page in pages:
            rest.append(page)
            if len(set(numbers([*taken, again, *rest]))) == 100:
                break
    feed.store("mailer", rest[-1].cursors)

    assert sorted(numbers([again])) == sorted(numbers(taken[-1:]))
    assert sorted(numbers([*taken, *rest])) == list(range(100))
    assert feed.resume("mailer").events == []


def test_event_wakes_a_waiting_reader(client: Client) -> None:
    client.create_event_type("a", partition_count=3, partition_strategy="user_defined")
    woken = []
    for partitions in (None, [1]):
        with (
            client.feed("a").follow(start="latest", partitions=partitions, wait_seconds=60) as pages,
            ThreadPoolExecutor() as threads,
        ):
            next(pages)  # _last has become a place.
            waiting = threads.submit(next, pages)
            client.publish("a", [NewEvent.of(b"{}", partition=partition) for partition in range(3)])
            woken.append(waiting.result(300).events)

    assert all(woken)


@pytest.mark.parametrize("partition_count", [None, 2, 8], ids=["whole", "merged", "split"])
def test_feed_is_read_from_a_time_and_from_a_duration_ago(client: Client, partition_count: int | None) -> None:
    client.create_event_type("a", partition_count=4)
    client.publish("a", ({"n": number} for number in range(20)))
    time.sleep(0.01)
    between = datetime.now(UTC)
    time.sleep(0.01)
    client.publish("a", ({"n": number} for number in range(20, 40)))
    feed = client.feed("a", partition_count=partition_count)
    starts: dict[Start, int] = {"earliest": 0, "latest": 40, between: 20, timedelta(hours=1): 0}

    found = {start: sorted(numbers([feed.read(feed.cursors(start))])) for start in starts}
    with feed.follow(start=between) as pages:
        followed: list[int] = []
        while len(followed) < 20:
            followed += numbers([next(pages)])

    assert found == {start: [*range(first_number, 40)] for start, first_number in starts.items()}
    assert sorted(followed) == [*range(20, 40)]


def test_subscription_is_created_and_reset_at_a_time(client: Client) -> None:
    client.create_event_type("a", partition_count=2)
    client.publish("a", ({"n": number} for number in range(10)))
    hour, later = timedelta(hours=1), datetime(2999, 1, 1, tzinfo=UTC)

    made, _ = client.create_subscription("shop", ["a"], start=hour)
    ended, _ = client.create_subscription("shop", ["a"], consumer_group="late", start=later)
    moved = client.subscription(made.id).reset(to=later)
    back = client.subscription(made.id).reset([PositionReset("a", 0, to=hour)])

    ends = client.partitions("a")
    assert [each["offset"] for each in made.initial_cursors] == [offset_text(each.epoch, -1) for each in ends]
    assert sum(each.offset for each in moved) == 10
    assert [each.offset for each in back] == [0]
    assert [each["offset"] for each in ended.initial_cursors] == [offset_text(each.epoch, each.newest) for each in ends]
    for each in (made, ended):
        client.subscription(each.id).delete()


def test_publishing_and_following_survive_a_killed_hub(hub: LiveHub, client: Client) -> None:
    client.create_event_type("a", partition_count=2)
    client.publish("a", {"n": 0})
    got: list[int] = []
    with client.feed("a").follow(wait_seconds=1) as pages:
        got += numbers([next(pages)])

        hub.kill()
        publishing = threading.Thread(target=client.publish, args=("a", [{"n": 1}]))
        publishing.start()
        hub.start()
        publishing.join(300)
        for page in pages:
            got += numbers([page])
            if len(got) == 2:
                break

    assert got == [0, 1]
