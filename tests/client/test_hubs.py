"""The client publishes to a hub and reads from it, on both databases."""

import threading
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest

from penstock.client import ALL_HEADERS, LAST, AsyncClient, Client, Feed, NewPosition, Page, PositionReset
from penstock.core.event import NewEvent
from penstock.errors import (
    BadCursor,
    BadPartitionCount,
    CursorExpired,
    CursorSetNotFound,
    EventTypeExists,
    EventTypeNotFound,
    GroupNotFound,
    InvalidEvent,
    PositionMoved,
)
from penstock.testing.live_hub import LiveHub


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


def test_event_type_is_created_shown_and_deleted(client: Client) -> None:
    client.create_event_type("order.placed", partition_count=3, more={"labels": {"team": "shop"}})

    assert client.event_type("order.placed")["labels"] == {"team": "shop"}
    assert [each["name"] for each in client.event_types()] == ["order.placed"]
    assert [(each.partition, each.oldest, each.newest, each.head) for each in client.partitions("order.placed")] == [
        (partition, 0, -1, 0) for partition in range(3)
    ]
    with pytest.raises(EventTypeExists):
        client.create_event_type("order.placed")

    client.delete_event_type("order.placed")

    assert client.event_types() == []
    for missing in (client.event_type, client.partitions, client.delete_event_type):
        with pytest.raises(EventTypeNotFound):
            missing("order.placed")


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


def test_cursors_of_a_publish_lead_to_the_next_event(client: Client) -> None:
    client.create_event_type("a")
    done = client.publish("a", [{"n": 1}, {"n": 2}])

    client.publish("a", {"n": 3})

    assert numbers([client.feed("a").read(done.cursors)]) == [3]


def test_business_events_are_given_ids(client: Client) -> None:
    client.create_event_type("a", category="business")

    client.publish("a", [{"n": 1}, b'{"n":2,"metadata":{"flow_id":"f"}}'], key="k", progress=lambda _: None)
    page = client.feed("a").read({0: "_first"}, headers=ALL_HEADERS)

    metadata = [event.data["metadata"] for event in page.events]
    assert len({each["eid"] for each in metadata}) == 2
    assert metadata[1]["flow_id"] == "f"
    assert [event.headers["ce_id"] for event in page.events] == [each["eid"] for each in metadata]
    assert {event.headers["ce_partitionkey"] for event in page.events} == {"k"}


def test_event_is_stored_in_the_partition_of_its_producer(client: Client) -> None:
    client.create_event_type("a", partition_count=3, partition_strategy="user_defined")

    client.publish("a", [NewEvent.of(b'{"n": 1}', partition=2, headers={"ce_type": "x"})])
    page = client.feed("a").read({2: "_first"}, headers=["ce_type"])

    assert [(event.partition, event.raw, event.headers) for event in page.events] == [
        (2, b'{"n": 1}', {"ce_type": "x"})
    ]


def test_feed_is_filtered_by_the_kinds_of_events(client: Client) -> None:
    client.create_event_type("a", partition_count=2)
    client.publish("a", (NewEvent.of(b'{"n":%d}' % n, headers={"ce_type": f"kind{n % 3}"}) for n in range(30)))

    feed = client.feed("a")

    assert sorted(numbers(read_all(feed, event_types=["kind0", "KIND1"]))) == [n for n in range(30) if n % 3 != 2]
    assert sorted(numbers(read_all(feed, skip_event_types=["kind0"]))) == [n for n in range(30) if n % 3]


def test_refused_event_is_named_and_its_batch_is_not_stored(client: Client) -> None:
    client.create_event_type("a", category="data")
    change = {"data_type": "t", "data_op": "C", "data": {}}

    with pytest.raises(InvalidEvent, match="data_op") as caught:
        client.publish("a", [change, change, change, {**change, "data_op": "X"}, change], batch_events=2)

    assert (caught.value.fields["line"], caught.value.fields["published"]) == (4, 2)
    assert client.partitions("a")[0].head == 2


def test_error_of_a_read_is_raised_as_its_class(client: Client) -> None:
    client.create_event_type("a", partition_count=4)
    client.create_event_type("b")
    client.publish("b", {})
    foreign = client.feed("b").read({0: "_first"}).cursors

    with pytest.raises(BadPartitionCount, match="4 partitions"):
        client.feed("a", partition_count=3).read({0: "_first"})
    with pytest.raises(BadCursor):
        client.feed("a").read(foreign)
    with pytest.raises(CursorSetNotFound):
        client.feed("a").resume("nobody")
    with pytest.raises(EventTypeNotFound):
        client.feed("c").read({0: "_first"})


def test_cursor_of_a_recreated_feed_is_expired(client: Client) -> None:
    client.create_event_type("a")
    client.publish("a", [{"n": 1}] * 5)
    feed = client.feed("a")
    cursors = feed.read({0: "_first"}).cursors
    pages = feed.follow(cursors)

    client.delete_event_type("a")
    client.create_event_type("a")
    client.publish("a", {"n": 2})

    with pytest.raises(CursorExpired):
        feed.read(cursors)
    with pytest.raises(CursorExpired):
        next(pages)


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
            client.feed("a").follow(start=LAST, partitions=partitions, wait=60) as pages,
            ThreadPoolExecutor() as threads,
        ):
            next(pages)  # _last has become a place.
            waiting = threads.submit(next, pages)
            client.publish("a", [NewEvent.of(b"{}", partition=partition) for partition in range(3)])
            woken.append(waiting.result(300).events)

    assert all(woken)


def test_publishing_and_following_survive_a_killed_hub(hub: LiveHub, client: Client) -> None:
    client.create_event_type("a", partition_count=2)
    client.publish("a", {"n": 0})
    got: list[int] = []
    with client.feed("a").follow(wait=1) as pages:
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


@pytest.mark.anyio
async def test_async_client_publishes_and_follows(hub: LiveHub) -> None:
    async def events() -> AsyncIterator[dict[str, int]]:
        for n in range(1_500):
            yield {"n": n}

    got: list[int] = []
    async with AsyncClient(hub.url) as client:
        await client.create_event_type("a", partition_count=3)
        assert (await client.publish("a", events())).count == 1_500
        feed = client.feed("a")

        async def follow() -> None:
            async with feed.follow(wait=60) as pages:
                async for page in pages:
                    got.extend(numbers([page]))
                    if len(got) >= 1_500:
                        caught_up.set()

        caught_up = anyio.Event()
        with anyio.fail_after(300):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                await caught_up.wait()
                tasks.cancel_scope.cancel()

    assert sorted(got) == list(range(1_500))


def test_positions_are_committed_and_reset_at_the_hub(client: Client) -> None:
    client.create_event_type("order.placed", partition_count=2, partition_strategy="user_defined")
    client.publish("order.placed", [NewEvent.of(b"{}", partition=p) for p in (0, 0, 0, 1)])
    positions = [NewPosition("order.placed", 0, 1, expected=None), NewPosition("order.placed", 1, 1)]

    client.commit_positions("a ledger/1", positions, kind="processor")
    with pytest.raises(PositionMoved) as refused:
        client.commit_positions("a ledger/1", [NewPosition("order.placed", 0, 3, expected=2)])
    tried = client.reset_positions("a ledger/1", to="end", dry_run=True)
    moved = client.reset_positions(
        "a ledger/1", [PositionReset("order.placed", 0, to="begin")], reason="a bug in the ledger"
    )

    assert (refused.value.fields["offset"], refused.value.fields["expected"]) == (1, 2)
    assert [(each.came_from, each.offset) for each in tried] == [(1, 3), (1, 1)]
    assert [(each.partition, each.came_from, each.offset) for each in moved] == [(0, 1, 0)]
    group = client.consumer_group("a ledger/1")
    assert ([(each.offset, each.gap) for each in group.positions], group.gap) == ([(0, 3), (1, 0)], 3)
    assert [each.name for each in client.consumer_groups("order.placed", kind="processor")] == ["a ledger/1"]
    assert [each.reason for each in client.group_history("a ledger/1")] == ["a bug in the ledger"]
    client.forget_group("a ledger/1")
    with pytest.raises(GroupNotFound):
        client.consumer_group("a ledger/1")
