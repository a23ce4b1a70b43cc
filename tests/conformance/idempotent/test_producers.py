"""Producers as they are shown: one, all of a partition, and the outcome of a batch; and the allocation of groups."""

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from penstock.core.times import format_time
from penstock.hub.producers import sequencing
from penstock.testing.clock import VirtualClock
from tests.producing import Producer, but_times, hub_here, result, shown_of, told
from tests.served import create, problem_of

ON_SQLITE = pytest.mark.parametrize("either_http", ["sqlite"], indirect=True)
"""For rules in which the database has no part."""
WEEK_SECONDS = 604_800
NEW: dict[str, Any] = {
    "last_published_sequence": None, "next_sequence": 0, "last_offset": None, "previous": None, "window": None,
    "pinned": False, "expired": False, "expires_after_seconds": WEEK_SECONDS, "sequence_modulus": 2**53, "partition": 0,
}  # fmt: skip
"""A producer that has published nothing, without its group, its epoch and its times."""


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def here(migrated_url: str, clock: VirtualClock) -> Iterator[httpx2.Client]:
    """A client of a hub with a virtual clock."""
    with hub_here(migrated_url, clock=clock) as http:
        yield http


# One


def test_producer_is_shown_with_its_progress_which_refusals_do_not_change(
    here: httpx2.Client, clock: VirtualClock
) -> None:
    mine = Producer(create(here))
    mine.appends(0, [1, 2])
    mine.appends(2, [3])
    clock.advance(seconds=60)
    mine.appends(0, [4], epoch=2)
    now = clock.advance(seconds=60)
    mine.appends(1, [5, 6], epoch=2)
    shown = mine.shown()
    assert shown == {
        "producer_group": "mine",
        "partition": 0,
        "epoch": 2,
        "last_published_sequence": 2,
        "next_sequence": 3,
        "last_offset": 5,
        "previous": {"epoch": 0, "next_sequence": 3, "last_offset": 2},
        "window": {"batches": 2, "oldest_sequence": 0},
        "pinned": False,
        "expired": False,
        "updated_at": format_time(now),
        "expires_at": format_time(now + WEEK_SECONDS * 1_000_000),
        "expires_after_seconds": WEEK_SECONDS,
        "sequence_modulus": 2**53,
    }
    clock.advance(seconds=60)
    for sequence, ids in ((1, [5, 6]), (2, [6, 7]), (0, [9]), (7, [8])):
        mine.send(sequence, ids, epoch=2)
    assert mine.claim(epoch=0).status_code == 412
    assert mine.shown() == shown
    theirs = mine.other("theirs")
    granted = theirs.claims()
    assert granted == NEW | {
        "producer_group": "theirs", "epoch": 0, "updated_at": format_time(clock()),
        "expires_at": format_time(clock() + WEEK_SECONDS * 1_000_000),
    }  # fmt: skip
    assert theirs.shown() == granted | {"window": {"batches": 0, "oldest_sequence": None}}
    listed = here.get(mine.all_path).json()
    assert listed == {"items": [mine.shown() | {"window": None}, granted], "_links": {}}


def test_etag_has_the_epoch_and_the_next_number(mine: Producer) -> None:
    mine.appends(0, [1])
    tags = [mine.http.get(mine.path).headers["etag"]]
    mine.appends(1, [2])
    head = mine.http.head(mine.path)
    assert (head.status_code, head.content) == (200, b"")
    tags.append(head.headers["etag"])
    mine.claims()
    tags.append(mine.http.get(mine.path).headers["etag"])
    assert tags == ['"0:1"', '"0:2"', '"1:0"']


def test_unknown_producer_and_event_type_are_answered_404(mine: Producer) -> None:
    mine.other("theirs").appends(0, [1])
    for answer in (mine.http.get(mine.path), mine.http.delete(mine.path), mine.http.get(f"{mine.path}/sequences/0")):
        told(answer, 404, "producer-not-found", event_type=mine.feed.name, partition=0, producer_group="mine")
    base = "/event-types/no.where/partitions/0"
    answers = [mine.http.request(method, f"{base}/producers/mine") for method in ("GET", "PUT", "DELETE")]
    answers += [mine.http.request(method, f"{base}/producers") for method in ("GET", "POST")]
    answers += [mine.http.get(f"{base}/producers/mine/sequences/0")]
    answers += [mine.http.post(f"{base}/events", json=[{}], headers=mine.headers(0))]
    for answer in answers:
        told(answer, 404, "event-type-not-found", event_type="no.where")


# Lists


def listed(mine: Producer, query: str = "") -> tuple[list[str], Any]:
    answer = mine.http.get(mine.all_path + query)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert all(each["window"] is None for each in found["items"])
    return [each["producer_group"] for each in found["items"]], found["_links"]


def test_producers_of_a_partition_are_listed_in_the_order_of_the_bytes_of_their_groups(mine4: Producer) -> None:
    for group in ("b", "B", "a", "10", "9", "a.b", "~", "_"):
        mine4.other(group).claims()
    mine4.other("elsewhere", partition=1).claims()
    assert listed(mine4) == (["10", "9", "B", "_", "a", "a.b", "b", "~"], {})
    assert listed(mine4.other(partition=1)) == (["elsewhere"], {})
    assert listed(mine4.other(partition=2)) == ([], {})


def test_list_comes_page_by_page_of_a_hundred_by_default(mine: Producer) -> None:
    groups = [f"g{number:03}" for number in range(101)]
    for group in groups:
        mine.other(group).claims()
    assert listed(mine) == (groups[:100], {"next": {"href": f"{mine.all_path}?after=g099&limit=100"}})
    found, pages, query = [], [], "?limit=50"
    while query:
        names, links = listed(mine, query)
        found += names
        pages.append(len(names))
        query = links["next"]["href"].removeprefix(mine.all_path) if links else ""
    assert (found, pages) == (groups, [50, 50, 1])
    assert listed(mine, "?limit=101") == (groups, {}), "there is no page after the last one"
    assert listed(mine, "?limit=101&after=g0") == (groups, {})


@ON_SQLITE
def test_malformed_parameter_of_a_list_or_batch_is_named(mine: Producer) -> None:
    mine.appends(0, [1])
    lists = [
        *(("after", f"?after={after}") for after in ("", "a%20b", "%C3%A5", "a%00", "%FF", "x" * 129)),
        *(("limit", f"?limit={limit}") for limit in ("0", "1001", "x", "-1", "", "1&limit=2")),
    ]
    batches = [
        *(("first", first) for first in ("x", "-1", "01", "1e3", "9007199254740992", "%20")),
        *(("epoch", f"0?epoch={epoch}") for epoch in ("", "x", "-1", "01", "1&epoch=2")),
        *(("count", f"0?count={count}") for count in ("0", "1000001", "x")),
    ]
    for parameter, path in [
        *((name, mine.all_path + query) for name, query in lists),
        *((name, f"{mine.path}/sequences/{rest}") for name, rest in batches),
    ]:
        assert problem_of(mine.http.get(path), 400, "bad-parameter")["parameter"] == parameter, path


# Batches


def lies(*ranges: tuple[int, int]) -> list[dict[str, int]]:
    return [{"first": first, "last": last} for first, last in ranges]


def test_batch_is_found_by_its_numbers(mine: Producer) -> None:
    mine.appends(0, [1, 2])
    mine.other("theirs").appends(0, [90])
    mine.appends(2, [3, 4])
    for first, arguments, stored, ranges in (
        (0, {}, True, lies((0, 0))),
        (0, {"count": 2}, True, lies((0, 1))),
        (0, {"count": 4}, True, lies((0, 1), (3, 4))),
        (1, {"count": 2, "epoch": 0}, True, lies((1, 1), (3, 3))),
        (3, {"count": 5}, False, lies((4, 4))),
        (4, {}, False, []),
        (2**53 - 1, {}, False, []),
    ):
        assert mine.found(first, **arguments) == {"epoch": 0, "stored": stored, "ranges": ranges}


def test_batch_is_found_in_the_current_epoch_unless_another_is_named(mine: Producer) -> None:
    mine.appends(0, [1])
    mine.appends(0, [2], epoch=2)
    mine.claims(epoch=4)
    mine.claims(epoch=6)
    found = {epoch: mine.found(0, epoch=epoch) for epoch in range(8)}
    assert {epoch: each["stored"] for epoch, each in found.items()} == {
        0: True, 1: None, 2: True, 3: None, 4: False, 5: False, 6: False, 7: False,
    }  # fmt: skip
    assert (found[0]["ranges"], found[2]["ranges"]) == (lies((0, 0)), lies((1, 1)))
    assert all(each["epoch"] == epoch for epoch, each in found.items())
    assert mine.found(0) == {"epoch": 6, "stored": False, "ranges": []}


# New groups


def test_allocated_group_is_a_new_ulid_with_the_first_epoch(mine: Producer) -> None:
    granted = shown_of(mine.http.post(mine.all_path), 201)
    group = granted["producer_group"]
    assert re.fullmatch("[0-7][0-9A-HJKMNP-TV-Z]{25}", group)
    assert but_times(granted) == NEW | {"producer_group": group, "epoch": 0}
    assert mine.other(group).appends(0, [1]) == 0
    groups = [mine.http.post(mine.all_path).json()["producer_group"] for _ in range(9)]
    assert len({group, *groups}) == 10
    assert groups == sorted(groups, key=lambda each: each[:10]), "they begin with the time"


def test_allocation_takes_what_a_claim_takes_and_can_be_repeated(mine: Producer) -> None:
    body = {"epoch": 5, "starting_sequence": 7, "pinned": True, "claim_id": "a"}
    first, second = (shown_of(mine.http.post(mine.all_path, json=body), 201) for _ in range(2))
    assert (first["epoch"], first["next_sequence"], first["pinned"]) == (5, 7, True)
    assert but_times(first) == but_times(second)
    assert but_times(mine.other(first["producer_group"]).claims(claim_id="a")) == but_times(first)
    other = mine.http.post(mine.all_path, json={"claim_id": "another"})
    assert other.json()["producer_group"] != first["producer_group"]
    refused = mine.http.post(mine.all_path, json={"if_epoch": 0})
    assert problem_of(refused, 412, "claim-refused")["current_epoch"] is None


# The largest number of producers


def test_partition_with_the_most_producers_admits_no_other_until_one_is_deleted(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequencing, "PRODUCERS_MAX", 3)
    with hub_here(migrated_url, starts=False) as http:
        mine = Producer(create(http, 2))
        a, b = mine.other("a"), mine.other("b")
        a.appends(0, [1])
        b.claims()
        assert http.post(mine.all_path, json={"pinned": True}).status_code == 201

        full = {"event_type": mine.feed.name, "partition": 0, "limit": 3}
        for answer in (mine.send(0, [2]), mine.claim(), http.post(mine.all_path)):
            problem = told(answer, 429, "too-many-producers", **full)
            assert problem["detail"] == f"partition 0 of {problem['event_type']!r} has 3 producer groups, the maximum"
        assert http.get(mine.path).status_code == 404

        assert a.appends(1, [2]) == 1
        assert a.stores(0, [1])["outcome"] == "duplicate"
        assert b.appends(0, [3]) == 2
        assert b.claims()["epoch"] == 1
        assert mine.other(partition=1).appends(0, [9]) == 0, "each partition has its own"
        mine.feed.publish_ids([4], partition=0)
        assert mine.log() == [1, 2, 3, 4]

        assert http.delete(b.path).status_code == 204
        assert mine.stores(0, [5]) == result("appended", (0, 0, 1), (4, 4))
        told(mine.other("c").claim(), 429, "too-many-producers", **full)
