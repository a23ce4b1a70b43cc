"""What is shown of producers: how far each has come, all of a partition, and what became of a batch."""

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from penstock.hub import sequencing
from penstock.hub.clock import rfc3339
from penstock.testing.clock import VirtualClock
from tests.producing import Producer, but_times, hub_here, result, shown_of, told
from tests.served import create, problem_of

WEEK_S = 604_800
NOBODY: dict[str, Any] = {
    "last_published_sequence": None, "next_sequence": 0, "last_offset": None, "previous": None, "window": None,
    "pinned": False, "expired": False, "expires_after_s": WEEK_S, "sequence_modulus": 2**53, "partition": 0,
}  # fmt: skip


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def here(migrated_url: str, clock: VirtualClock) -> Iterator[httpx2.Client]:
    """A hub whose time stands still."""
    with hub_here(migrated_url, clock=clock) as http:
        yield http


def test_a_producer_is_shown_with_where_it_stands(here: httpx2.Client, clock: VirtualClock) -> None:
    mine = Producer(create(here))
    mine.appends(0, [1, 2])
    mine.appends(2, [3])
    clock.advance(seconds=60)
    mine.appends(0, [4], epoch=2)
    now = clock.advance(seconds=60)
    mine.appends(1, [5, 6], epoch=2)

    assert mine.shown() == {
        "producer_group": "mine",
        "partition": 0,
        "owner_level": 2,
        "last_published_sequence": 2,
        "next_sequence": 3,
        "last_offset": 5,
        "previous": {"epoch": 0, "next_sequence": 3, "last_offset": 2},
        "window": {"batches": 2, "oldest_sequence": 0},
        "pinned": False,
        "expired": False,
        "updated_at": rfc3339(now),
        "expires_at": rfc3339(now + WEEK_S * 1_000_000),
        "expires_after_s": WEEK_S,
        "sequence_modulus": 2**53,
    }


def test_repeats_and_refusals_change_nothing_that_is_shown(here: httpx2.Client, clock: VirtualClock) -> None:
    mine = Producer(create(here))
    mine.appends(0, [1, 2])
    before = mine.shown()
    clock.advance(seconds=60)

    for sequence, ids in ((0, [1, 2]), (1, [2, 3]), (0, [9]), (7, [8])):
        mine.send(sequence, ids)
    assert mine.claim(owner_level=0).status_code == 412

    assert mine.shown() == before


def test_a_claim_answers_with_what_is_shown_then(here: httpx2.Client, clock: VirtualClock) -> None:
    mine = Producer(create(here))
    clock.advance(seconds=60)
    granted = mine.claims()

    assert granted == NOBODY | {
        "producer_group": "mine", "owner_level": 0, "updated_at": rfc3339(clock()),
        "expires_at": rfc3339(clock() + WEEK_S * 1_000_000),
    }  # fmt: skip
    assert mine.shown() == granted | {"window": {"batches": 0, "oldest_sequence": None}}


def test_the_tag_says_whether_anything_was_published(mine: Producer) -> None:
    mine.appends(0, [1])
    tags = [mine.http.get(mine.path).headers["etag"]]
    mine.appends(1, [2])
    tags.append(mine.http.get(mine.path).headers["etag"])
    mine.claims()
    tags.append(mine.http.get(mine.path).headers["etag"])
    assert tags == ['"0:1"', '"0:2"', '"1:0"']


def test_head_answers_as_get_without_the_body(mine: Producer) -> None:
    mine.appends(0, [1])
    answer = mine.http.head(mine.path)
    assert (answer.status_code, answer.content, answer.headers["etag"]) == (200, b"", '"0:1"')


def test_one_of_whom_nobody_has_heard_is_not_found(mine: Producer) -> None:
    mine.other("theirs").appends(0, [1])
    answers = [mine.http.get(mine.path), mine.http.delete(mine.path), mine.http.get(f"{mine.path}/sequences/0")]
    for answer in answers:
        told(answer, 404, "producer-not-found", event_type=mine.feed.name, partition=0, producer_group="mine")


def test_producers_of_an_event_type_that_there_is_not(mine: Producer) -> None:
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


def test_producers_are_listed_by_partition_in_the_order_of_their_groups(mine4: Producer) -> None:
    groups = ["b", "B", "a", "10", "9", "a.b", "~", "_"]
    for group in groups:
        mine4.other(group).appends(0, [1])
    mine4.other("elsewhere", partition=1).appends(0, [1])

    assert listed(mine4) == (["10", "9", "B", "_", "a", "a.b", "b", "~"], {})
    assert listed(mine4.other(partition=1)) == (["elsewhere"], {})
    assert listed(mine4.other(partition=2)) == ([], {})


def test_a_list_shows_what_is_shown_of_each(mine: Producer) -> None:
    mine.appends(0, [1])
    mine.claims(owner_level=3)
    mine.appends(0, [2, 3], epoch=3)
    assert mine.http.get(mine.all_path).json() == {"items": [mine.shown() | {"window": None}], "_links": {}}


def test_a_list_comes_page_by_page(mine: Producer) -> None:
    groups = [f"g{number}" for number in range(5)]
    for group in groups:
        mine.other(group).claims()

    found, pages, query = [], [], "?limit=2"
    while query:
        names, links = listed(mine, query)
        found += names
        pages.append(len(names))
        query = links["next"]["href"].removeprefix(mine.all_path) if links else ""

    assert (found, pages) == (groups, [2, 2, 1])
    assert listed(mine, "?limit=5") == (groups, {}), "there is no page behind the last one"
    assert listed(mine, "?limit=4&after=g0") == (groups[1:], {})
    assert listed(mine, "?after=g") == (groups, {})


def test_a_page_has_a_hundred_unless_told_otherwise(mine: Producer) -> None:
    for number in range(101):
        mine.other(f"g{number:03}").claims()

    names, links = listed(mine)

    assert (len(names), links) == (100, {"next": {"href": f"{mine.all_path}?after=g099&limit=100"}})


@pytest.mark.parametrize("after", ["", "a%20b", "%C3%A5", "a%00", "%FF", "x" * 129])
def test_a_page_begins_after_what_can_be_a_group(mine: Producer, after: str) -> None:
    assert problem_of(mine.http.get(f"{mine.all_path}?after={after}"), 400, "bad-parameter")["parameter"] == "after"


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit=-1", "limit=", "limit=1&limit=2"])
def test_a_page_has_one_to_a_thousand(mine: Producer, query: str) -> None:
    assert problem_of(mine.http.get(f"{mine.all_path}?{query}"), 400, "bad-parameter")["parameter"] == "limit"


# What became of a batch


def lies(*ranges: tuple[int, int]) -> list[dict[str, int]]:
    return [{"first": first, "last": last} for first, last in ranges]


def test_a_batch_is_found_by_its_numbers(mine: Producer) -> None:
    mine.appends(0, [1, 2])
    mine.other("theirs").appends(0, [90])
    mine.appends(2, [3, 4])

    assert mine.found(0) == {"epoch": 0, "stored": True, "ranges": lies((0, 0))}
    assert mine.found(0, count=2) == {"epoch": 0, "stored": True, "ranges": lies((0, 1))}
    assert mine.found(0, count=4) == {"epoch": 0, "stored": True, "ranges": lies((0, 1), (3, 4))}
    assert mine.found(1, count=2, epoch=0) == {"epoch": 0, "stored": True, "ranges": lies((1, 1), (3, 3))}
    assert mine.found(3, count=5) == {"epoch": 0, "stored": False, "ranges": lies((4, 4))}
    assert mine.found(4) == {"epoch": 0, "stored": False, "ranges": []}
    assert mine.found(2**53 - 1) == {"epoch": 0, "stored": False, "ranges": []}


def test_a_batch_of_another_epoch_is_found_by_that(mine: Producer) -> None:
    mine.appends(0, [1])
    mine.appends(0, [2], epoch=2)
    mine.claims(owner_level=4)
    mine.claims(owner_level=6)

    found = {epoch: mine.found(0, epoch=epoch) for epoch in (0, 1, 2, 3, 4, 5, 6, 7)}

    assert {epoch: each["stored"] for epoch, each in found.items()} == {
        0: True, 1: None, 2: True, 3: None, 4: False, 5: False, 6: False, 7: False,
    }  # fmt: skip
    assert (found[0]["ranges"], found[2]["ranges"]) == (lies((0, 0)), lies((1, 1)))
    assert all(each["epoch"] == epoch for epoch, each in found.items())
    assert mine.found(0) == {"epoch": 6, "stored": False, "ranges": []}, "the current one unless one is named"


@pytest.mark.parametrize("first", ["x", "-1", "01", "1e3", "9007199254740992", "%20"])
def test_a_number_that_is_none(mine: Producer, first: str) -> None:
    mine.appends(0, [1])
    problem = problem_of(mine.http.get(f"{mine.path}/sequences/{first}"), 400, "bad-parameter")
    assert problem["parameter"] == "first"


@pytest.mark.parametrize(
    "query", ["epoch=", "epoch=x", "epoch=-1", "epoch=01", "epoch=1&epoch=2", "count=0", "count=1000001", "count=x"]
)
def test_a_parameter_that_is_none(mine: Producer, query: str) -> None:
    mine.appends(0, [1])
    problem = problem_of(mine.http.get(f"{mine.path}/sequences/0?{query}"), 400, "bad-parameter")
    assert problem["parameter"] == query.partition("=")[0]


# New groups


def test_a_group_is_allocated(mine: Producer) -> None:
    answer = mine.http.post(mine.all_path)

    granted = shown_of(answer, 201)
    group = granted["producer_group"]
    assert re.fullmatch("[0-7][0-9A-HJKMNP-TV-Z]{25}", group), "a ULID"
    assert but_times(granted) == NOBODY | {
        "producer_group": group, "owner_level": 0,
    }  # fmt: skip
    theirs = mine.other(group)
    assert theirs.appends(0, [1]) == 0
    assert theirs.shown()["producer_group"] == group


def test_each_group_that_is_allocated_is_another_one(mine: Producer) -> None:
    groups = [mine.http.post(mine.all_path).json()["producer_group"] for _ in range(20)]
    assert len(set(groups)) == 20
    assert groups == sorted(groups, key=lambda group: group[:10]), "they begin with the time"


def test_a_group_is_allocated_with_what_a_claim_asks_for(mine: Producer) -> None:
    body = {"owner_level": 5, "starting_sequence": 7, "pinned": True, "claim_id": "a"}
    granted = shown_of(mine.http.post(mine.all_path, json=body), 201)
    assert (granted["owner_level"], granted["next_sequence"], granted["pinned"]) == (5, 7, True)
    theirs = mine.other(granted["producer_group"])
    assert but_times(theirs.claims(claim_id="a")) == but_times(granted)
    assert (
        problem_of(mine.http.post(mine.all_path, json={"if_epoch": 0}), 412, "claim-refused")["current_epoch"] is None
    )


def test_f22_an_allocation_that_is_made_again_is_the_same(mine: Producer) -> None:
    body = {"claim_id": "a-boot-of-mine"}

    first, second = (mine.http.post(mine.all_path, json=body) for _ in range(2))

    assert (first.status_code, second.status_code) == (201, 201)
    assert but_times(first.json()) == but_times(second.json())
    assert (
        mine.http.post(mine.all_path, json={"claim_id": "another"}).json()["producer_group"]
        != first.json()["producer_group"]
    )


# How many there may be


@pytest.fixture
def crowded(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Producer]:
    """The producer `mine` in a partition with three others, which are as many as may be, and an empty one beside."""
    monkeypatch.setattr(sequencing, "PRODUCERS_MAX", 3)
    with hub_here(migrated_url, starts=False) as http:
        mine = Producer(create(http, 2))
        mine.other("a").appends(0, [1])
        mine.other("b").claims()
        assert http.post(mine.all_path, json={"pinned": True}).status_code == 201
        yield mine


def test_there_are_no_more_producers_than_may_be(crowded: Producer) -> None:
    answers = [crowded.send(0, [2]), crowded.claim(), crowded.http.post(crowded.all_path)]

    for answer in answers:
        problem = told(answer, 429, "too-many-producers", event_type=crowded.feed.name, partition=0, limit=3)
        assert problem["detail"] == "partition 0 has 3 producer groups already"
    assert crowded.http.get(crowded.path).status_code == 404
    assert crowded.log() == [1]


def test_those_that_there_are_go_on_where_no_other_has_room(crowded: Producer) -> None:
    a, b = crowded.other("a"), crowded.other("b")
    assert a.appends(1, [2]) == 1
    assert a.stores(0, [1])["outcome"] == "duplicate"
    assert b.appends(0, [3]) == 2
    assert b.claims()["owner_level"] == 1
    assert crowded.other(partition=1).appends(0, [9]) == 0, "each partition has its own"
    crowded.feed.publish_ids([4], partition=0)
    assert crowded.log() == [1, 2, 3, 4]


def test_a_producer_that_is_forgotten_makes_room(crowded: Producer) -> None:
    assert crowded.http.delete(f"{crowded.all_path}/b").status_code == 204
    assert crowded.stores(0, [2]) == result("appended", (0, 0, 1), (1, 1))
    told(crowded.other("c").claim(), 429, "too-many-producers", event_type=crowded.feed.name, partition=0, limit=3)
