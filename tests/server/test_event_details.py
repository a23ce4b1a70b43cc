"""Events tell where they are in the log, and when the hub received them: hot and sealed, whole and in part."""

import gzip
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from penstock.client import AsyncClient, AsyncFeed, FeedEvent, Page
from penstock.hub.cold.sealing import SealingOptions
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.clock import START_AT, VirtualClock
from tests.promises.scene import create, event
from tests.sealing import seal
from tests.server.in_process import Here, serve

pytestmark = pytest.mark.anyio
NAME: Final = "order.placed"
COUNT: Final = 40
SEALED: Final = 21
REMOVED: Final = frozenset([3, 4, 20])
SPOOF: Final = {
    "offset": 99, "partition": 7, "key": "data", "kind": "data", "received_at": 0,
    "details": {"kind": "x", "ends": [9], "received_at": [0], "offset": 99},
    "text": '}\n{"partition":0,"details":{"kind":"x","ends":[9],"received_at":[0],"offset":99}}\n',
}  # fmt: skip


class Told(NamedTuple):
    """What an event tells."""

    n: int
    partition: int
    offset: int | None
    key: str | None
    kind: str | None
    received_at: datetime | None


def told(page: Page) -> list[Told]:
    return [tell(each) for each in page.events]


def tell(each: FeedEvent) -> Told:
    return Told(each.data["n"], each.partition, each.offset, each.key, each.kind, each.received_at)


def key_of(n: int) -> str | None:
    return ["", "grün\\ \"'", None][n % 3] if n % 5 else f"k{n}"


def kind_of(n: int) -> str:
    return NAME if n % 4 else "order.Odd"


def time_of(n: int) -> datetime:
    return datetime.fromtimestamp((START_AT + n // 3 * 1_500_000) / 1e6, UTC)


def expected(numbers: Sequence[int], partition: int = 0) -> list[Told]:
    return [Told(n, partition, n, key_of(n), kind_of(n), time_of(n)) for n in numbers]


def publish(hub: Hub, clock: VirtualClock, start: int, stop: int) -> None:
    """Publish events with these numbers to each of two partitions, three at a time to each, 1.5 s apart."""
    for first in range(start, stop, 3):
        numbers = range(first, min(stop, first + 3))
        headers = {n: None if n % 4 else {"ce_type": "order.Odd", "offset": "99"} for n in numbers}
        for partition in (0, 1):
            events = [event({"n": n, **SPOOF}, partition, key=key_of(n), headers=headers[n]) for n in numbers]
            hub.log.publish(NAME, events)
        clock.advance(seconds=1.5)


@pytest.fixture(params=["hot", "sealed"])
async def here(request: pytest.FixtureRequest, migrated_url: str, tmp_path: Path) -> AsyncIterator[Here]:
    """A hub whose events are in the database; or in part in files, so that pages cross the border."""
    clock = VirtualClock()
    is_sealed = request.param == "sealed"
    store = open_store(migrated_url, f"file://{tmp_path}/cold" if is_sealed else None)
    store.migrate()
    hub = Hub(store, clock=clock, sealing=SealingOptions(0.0) if is_sealed else None)
    create(hub, partitions=2)
    publish(hub, clock, 0, SEALED)
    if is_sealed:
        seal(hub)
        with store.read() as tx:
            assert len(tx.cold.list(state="sealed")) == 2
    publish(hub, clock, SEALED, COUNT)
    async with serve(hub) as here:
        yield here


@pytest.fixture
def client(here: Here) -> AsyncClient:
    return AsyncClient("http://hub", http=here.http)


async def read_all(feed: AsyncFeed[Any], cursors: dict[int, str], **options: Any) -> list[Told]:
    found: list[Told] = []
    while True:
        page = await feed.read(cursors, **options)
        found += told(page)
        if not page.events and page.cursors == cursors:
            return found
        cursors = dict(page.cursors)


ALL: Final = range(COUNT)
ODD: Final = [n for n in ALL if n % 4 == 0]


@pytest.mark.parametrize("size", [None, 7])
@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({}, ALL),
        ({"headers": "_all"}, ALL),
        ({"event_types": ["order.Odd"]}, ODD),
        ({"skip_event_types": ["order.Odd"]}, sorted({*ALL} - {*ODD})),
        ({"event_types": ["order.Odd"], "headers": ["ce_type"]}, ODD),
    ],
)
async def test_each_event_tells_its_offset_key_kind_and_time(
    client: AsyncClient, options: dict[str, Any], numbers: Sequence[int], size: int | None
) -> None:
    options = options | {"page_size_hint": size}
    feed = client.feed(NAME)

    assert await read_all(feed, {1: "_first"}, **options) == expected(numbers, 1)
    both = await read_all(feed, {0: "_first", 1: "_first"}, **options)
    assert [each for each in both if each.partition == 0] == expected(numbers)
    assert [each for each in both if each.partition == 1] == expected(numbers, 1)


async def test_removed_events_leave_the_details_of_the_others_as_they_are(here: Here, client: AsyncClient) -> None:
    with here.hub.store.write() as tx:
        partition_id = tx.registry.get(NAME).partition_ids[0]
        tx.log.find_heads([partition_id], lock=True)
        tx.removal.remove(partition_id, sorted(REMOVED))
    left = [n for n in ALL if n not in REMOVED]

    assert await read_all(client.feed(NAME), {0: "_first"}) == expected(left)
    assert await read_all(client.feed(NAME), {0: "_first"}, page_size_hint=3) == expected(left)
    odd = [n for n in ODD if n not in REMOVED]
    assert await read_all(client.feed(NAME), {0: "_first"}, event_types=["order.Odd"]) == expected(odd)


async def test_feed_that_is_split_or_merged_tells_offsets_of_its_own_partitions(client: AsyncClient) -> None:
    halves = await read_all(client.feed(NAME, partition_count=4), {0: "_first", 2: "_first"})
    whole = await read_all(client.feed(NAME, partition_count=1), {0: "_first"})

    assert {each.partition for each in halves} == {0, 2}
    assert sorted((each._replace(partition=0) for each in halves), key=lambda each: each.n) == expected(ALL)
    assert whole == expected(ALL) * 2


async def test_events_of_a_type_of_a_cursor_set_and_of_a_followed_feed_tell_the_same(client: AsyncClient) -> None:
    feed, typed = client.feed(NAME), client.feed(NAME, type=dict[str, Any])

    assert told(await typed.read({0: "_first"})) == expected(ALL)
    await feed.store("mailer", {0: "_first"})
    assert told(await feed.resume("mailer", partitions=[0])) == expected(ALL)
    async with feed.follow({0: "_first"}, partitions=[0]) as pages:
        assert told(await anext(pages)) == expected(ALL)


async def test_lines_without_the_parameter_are_those_of_the_contract(here: Here) -> None:
    query = f"/feeds/{NAME}?n=2&cursor0=_first&pagesizehint=5"

    plain = (await here.http.get(query)).text.splitlines()
    detailed = (await here.http.get(f"{query}&details=1")).text.splitlines()
    v2 = f"/feeds/{NAME}/events?token=1-2&partition=0&cursor=_first&pagesizehint=5"
    detailed_v2 = (await here.http.get(f"{v2}&details=true")).text.splitlines()

    assert [line for line in detailed if '"details":{"kind"' not in line[:40]] == plain
    assert [line for line in detailed_v2 if not line.startswith('{"details"')] == (
        await here.http.get(v2)
    ).text.splitlines()
    assert {(*json.loads(line),) for line in plain} == {("partition", "data"), ("partition", "cursor")}
    [details] = [json.loads(line) for line in detailed if json.loads(line).keys() == {"partition", "details"}]
    at = [START_AT, START_AT + 1_500_000]
    keys = [key_of(n) for n in range(5)]
    assert details == {
        "partition": 0,
        "details": {
            "kind": NAME, "ends": [3, 5], "received_at": at, "offset": 0, "keys": keys,
            "kinds": ["order.Odd", None, None, None, "order.Odd"],
        },
    }  # fmt: skip
    refused = await here.http.get(f"{query}&details=yes")
    assert refused.status_code == 400
    assert refused.json()["parameter"] == "details"


async def test_details_are_in_compressed_pages_and_in_none_of_arrow(here: Here) -> None:
    query = f"/feeds/{NAME}?n=2&cursor0=_first&details=1"
    async with here.http.stream("GET", query, headers={"accept-encoding": "gzip"}) as answer:
        raw = b"".join([each async for each in answer.aiter_raw()])
        assert answer.headers["content-encoding"] == "gzip"
    arrow = await here.http.get(query, headers={"accept": "application/vnd.apache.arrow.stream"})

    assert gzip.decompress(raw) == (await here.http.get(query, headers={"accept-encoding": "identity"})).content
    assert b'"details":{"kind"' not in arrow.content


async def test_page_larger_than_a_chunk_has_details_of_all_its_events(here: Here, client: AsyncClient) -> None:
    large = [event({"n": n, "text": "x" * 500_000}, key=f"large{n}") for n in range(COUNT, COUNT + 12)]
    here.hub.log.publish(NAME, large)
    if here.hub.store.cold is not None:
        seal(here.hub)

    found = await read_all(client.feed(NAME), {0: "_first"})

    assert found[:COUNT] == expected(ALL)
    assert [(each.n, each.offset, each.key) for each in found[COUNT:]] == [
        (n, n, f"large{n}") for n in range(COUNT, COUNT + 12)
    ]


async def test_page_that_breaks_off_has_the_details_of_the_events_before_its_cursor(client: AsyncClient) -> None:
    page = await client.feed(NAME).read({0: "_first", 1: "_first"}, page_size_hint=10)

    assert told(page) == expected(range(5)) + expected(range(5), 1)
    assert repr(page.events[4]).startswith("FeedEvent(partition=0, offset=4, raw=")
