"""Both clients read the server of ZeroEventHub's reference implementation."""

import pytest

from penstock.client import ALL_HEADERS, Feed, Page
from tests.client.conftest import Reference
from tests.unit.client.kinds import Kind, first, opened, result


def numbers(pages: list[Page]) -> list[tuple[int, int]]:
    return [(event.partition, event.data["n"]) for page in pages for event in page.events]


def test_events_come_once_and_in_order(reference: Reference) -> None:
    for partition in (0, 1):
        reference.reader.add(partition, *({"n": n} for n in range(50)))

    pages = []
    with Feed(reference.url, partition_count=2) as feed:
        cursors = feed.cursors()
        while pages == [] or pages[-1].events:
            pages.append(feed.read(cursors, page_size_hint=20))
            cursors = dict(pages[-1].cursors)

    assert sorted(numbers(pages)) == sorted((p, n) for p in (0, 1) for n in range(50))
    for partition in (0, 1):
        assert [n for p, n in numbers(pages) if p == partition] == list(range(50))


def test_headers_come_on_request(reference: Reference) -> None:
    reference.reader.add(0, {"id": 7})

    with Feed(reference.url, partition_count=2) as feed:
        assert feed.read({0: "_first"}).events[0].headers == {}
        assert feed.read({0: "_first"}, headers=["ce_id"]).events[0].headers == {"ce_id": "7"}
        assert feed.read({0: "_first"}, headers=ALL_HEADERS).events[0].headers == {"ce_id": "7"}


@pytest.mark.anyio
async def test_feed_is_followed_as_it_grows(reference: Reference, kind: Kind) -> None:
    found: list[tuple[int, int]] = []
    async with (
        opened(kind.feed(reference.url, partition_count=2)) as feed,
        opened(feed.follow(poll_interval=0.01, page_size_hint=4)) as pages,
    ):
        assert (await result(feed.discover())).version == 1
        reference.reader.add(0, *({"n": n} for n in range(10)))
        while len(found) < 10:
            found.extend(numbers([await first(pages)]))
        reference.reader.add(1, {"n": 10})
        while len(found) < 11:
            found.extend(numbers([await first(pages)]))

    assert found == [*((0, n) for n in range(10)), (1, 10)]
