"""Events were removed one by one: every protocol reads the others, each once, and misses none."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import pyarrow as pa
import pytest

from penstock.client import Client
from penstock.processing.runners.inline import InlineProcessor
from penstock.processing.sources.feed import FeedSource
from penstock.storage import open_store
from penstock.testing.live_hub import LiveHub
from tests.processing.orders import Seen
from tests.served import ARROW, CLOUD_EVENTS, Served, client_of, create

EVENTS, REMOVED = 300, frozenset([0, 1, 2, 7, 50, *range(120, 260), 298, 299])
LEFT = [n for n in range(EVENTS) if n not in REMOVED]


@pytest.fixture(params=["sqlite", "postgres"])
def hub(request: pytest.FixtureRequest) -> LiveHub:
    """A hub that others share."""
    hub: LiveHub = request.getfixturevalue(f"{request.param}_hub")
    return hub


@pytest.fixture
def http(hub: LiveHub) -> Iterator[httpx2.Client]:
    with client_of(hub) as http:
        yield http


@pytest.fixture
def feed(hub: LiveHub, http: httpx2.Client) -> Served:
    """Two partitions; the events of the first were removed in part."""
    feed = create(http, 2)
    lines = [{"data": {"n": n}, "partition": p, "key": f"k{n % 9}"} for n in range(EVENTS) for p in (0, 1)]
    feed.publish_lines(lines)
    with closing(open_store(hub.database)) as store, store.write() as tx:
        partition_id = tx.registry.get(feed.name).partition_ids[0]
        tx.log.find_heads([partition_id], lock=True)
        tx.removal.remove(partition_id, sorted(REMOVED))
    return feed


def numbers(lines: list[dict[str, Any]], partition: int = 0) -> list[int]:
    return [each["data"]["n"] for each in lines if "data" in each and each.get("partition", 0) == partition]


@pytest.mark.parametrize("size", [7, 100, 1_000])
@pytest.mark.parametrize("asked", [{}, {"headers": "_all"}])
def test_lines_of_all_pages_are_the_events_that_are_left(feed: Served, size: int, asked: dict[str, str]) -> None:
    found: list[int] = []
    cursor, page = "_first", [{}]
    while page:
        answer = feed.get(n=2, cursor0=cursor, pagesizehint=size, **asked)
        lines = [json.loads(line) for line in answer.text.splitlines()]
        cursor, page = lines[-1]["cursor"], [line for line in lines if "data" in line]
        found += numbers(page)

    assert found == LEFT


@pytest.mark.parametrize(("n", "parts"), [(1, [0]), (2, [0, 1]), (4, [0, 1, 2, 3])])
def test_merged_and_split_reads_have_each_event_once(feed: Served, n: int, parts: list[int]) -> None:
    answer = feed.get(n=n, **{f"cursor{part}": "_first" for part in parts}, pagesizehint=9_999)

    found = sorted(json.loads(line)["data"]["n"] for line in answer.text.splitlines() if '"data"' in line)
    assert found == sorted([*LEFT, *range(EVENTS)])


def test_arrow_pages_tell_how_many_offsets_have_no_event(feed: Served) -> None:
    given = {"n": 2, "cursor0": "_first", "cursor1": "_first", "pagesizehint": 9_999}

    answer = feed.get(sending={"accept": ARROW}, **given)

    with pa.ipc.open_stream(answer.content) as stream:
        rows = stream.read_all().to_pylist()
    assert [row["offset"] for row in rows if row["partition"] == 0] == LEFT
    assert [json.loads(row["data"])["n"] for row in rows if row["partition"] == 0] == LEFT
    assert answer.headers["penstock-left-out"] == f"partition0={len(REMOVED)}&partition1=0"


@pytest.mark.parametrize("asked", [{}, {"headers": "_all"}])
def test_small_arrow_pages_pass_over_ranges_whose_events_were_all_removed(feed: Served, asked: dict[str, str]) -> None:
    found: list[int] = []
    cursor, before = "_first", ""
    while cursor != before:
        answer = feed.get(sending={"accept": ARROW}, n=2, cursor0=cursor, pagesizehint=7, **asked)
        assert answer.status_code == 200
        with pa.ipc.open_stream(answer.content) as stream:
            found += stream.read_all()["offset"].to_pylist()
        before, cursor = cursor, dict(parse_qsl(answer.headers["penstock-cursor"]))["cursor0"]

    assert found == LEFT


def test_cloud_events_of_small_pages_are_the_events_that_are_left(feed: Served) -> None:
    found: list[str] = []
    cursor, before = "_first", ""
    while cursor != before:
        answer = feed.get(sending={"accept": CLOUD_EVENTS}, n=2, cursor0=cursor, pagesizehint=70)
        found += [each["id"] for each in answer.json()]
        before, cursor = cursor, dict(parse_qsl(answer.headers["penstock-cursor"]))["cursor0"]

    assert found == [f"1-0-{n}" for n in LEFT]


def test_subscription_is_sent_the_events_that_are_left_and_ends_where_the_partition_does(
    hub: LiveHub, feed: Served
) -> None:
    wanted = {"owning_application": "shop", "event_types": [feed.name], "read_from": "begin"}
    found: dict[str, list[int]] = {"0": [], "1": []}
    with Client(hub.url) as client, client.subscription(wanted, batch_limit=50) as stream:
        for batch in stream:
            found[batch.cursor["partition"]] += [each.data["n"] for each in batch.events]
            batch.commit()
            if [len(each) for each in found.values()] == [len(LEFT), EVENTS]:
                break
    assert found == {"0": LEFT, "1": [*range(EVENTS)]}


def test_processor_handles_the_events_that_are_left(hub: LiveHub, feed: Served) -> None:
    seen = Seen()

    with FeedSource(hub.url, feed.name, start="earliest") as source:
        InlineProcessor(seen, source).drain()

    found: dict[str, list[int]] = {}
    for number, places in seen.places.items():
        for tranche, _ in places:
            found.setdefault(tranche, []).append(number)
    assert sorted(map(sorted, found.values())) == sorted([LEFT, [*range(EVENTS)]])
