"""ZeroEventHub v1, partitions: a reader chooses how many it sees."""

from zlib import crc32

import httpx2
import pytest

from tests.exhaustive import exhaustive
from tests.served import Served, create, problem_of

KEYS = [f"key-{number}" for number in range(60)]


@pytest.fixture
def keyed(either_http: httpx2.Client) -> Served:
    """Six partitions; 300 events, five of each of 60 keys, placed by their key."""
    feed = create(either_http, 6, partition_strategy="hash", partition_key_fields=["key"])
    feed.publish(*({"id": number, "key": KEYS[number % 60]} for number in range(300)))
    return feed


@pytest.mark.parametrize("n", [1, 2, 3, 6, 12, 18, 48])
def test_page_at_any_n_has_each_event_once_and_each_key_in_order_in_one_partition(keyed: Served, n: int) -> None:
    page = keyed.read(n, pagesizehint=10_000)
    assert sorted(page.ids) == list(range(300))
    assert set(page.cursors) == set(range(n))
    found: dict[str, list[tuple[int, int]]] = {}
    for line in page.lines:
        if "data" in line:
            found.setdefault(line["data"]["key"], []).append((line["partition"], line["data"]["id"]))
    assert all(places == sorted(places) and places[0][0] == places[-1][0] for places in found.values())


@pytest.mark.parametrize(
    ("n", "hint"), [exhaustive(1, 1), exhaustive(6, 1), (2, 7), (3, 100), (12, 24), (18, 7), (48, 100)]
)
def test_pages_at_any_n_have_every_event_once(keyed: Served, n: int, hint: int) -> None:
    seen: list[int] = []
    cursors = dict.fromkeys(range(n), "_first")
    before: dict[int, str] = {}
    while cursors != before:
        page = keyed.read(n, cursors, pagesizehint=hint)
        seen += page.ids
        before, cursors = cursors, page.cursors
    assert sorted(seen) == list(range(300))


@pytest.mark.parametrize("n", [6, 18])
def test_events_with_the_same_key_fields_or_the_same_given_key_are_in_one_partition(
    either_http: httpx2.Client, n: int
) -> None:
    feed = create(either_http, 6, partition_strategy="hash", partition_key_fields=["key", "kind"])
    feed.publish(*({"id": i, "key": KEYS[i % 20], "kind": i % 3} for i in range(120)))
    feed.publish_lines({"data": {"id": i}, "key": f"{KEYS[i % 20]},{i % 3}"} for i in range(120))
    by_fields: dict[tuple[str, int], set[int]] = {}
    by_given: dict[int, set[int]] = {}
    for line in feed.read(n, pagesizehint=10_000).lines:
        if "key" in line.get("data", {}):
            by_fields.setdefault((line["data"]["key"], line["data"]["kind"]), set()).add(line["partition"])
        elif "data" in line:
            by_given.setdefault(line["data"]["id"] % 60, set()).add(line["partition"])
    assert (len(by_fields), len(by_given)) == (60, 60)
    assert all(len(partitions) == 1 for partitions in (*by_fields.values(), *by_given.values()))
    # docs/reference/http/publishing.md warns of it: the text of a key does not tell where several fields place it.
    assert any(by_fields[KEYS[i % 20], i % 3] != by_given[i] for i in range(60))


def test_divisor_merges_partitions_by_their_remainder(feed4: Served) -> None:
    feed4.publish_lines({"data": {"id": p * 10 + i}, "partition": p} for p in range(4) for i in range(3))
    page = feed4.read(2)
    assert sorted(page.of(0)) == [0, 1, 2, 20, 21, 22]
    assert sorted(page.of(1)) == [10, 11, 12, 30, 31, 32]
    cursor = feed4.read(2, {0: "_first"}).cursors
    feed4.publish_ids([100], partition=0)
    feed4.publish_ids([200], partition=2)
    assert sorted(feed4.read(2, cursor).ids) == [100, 200], "a merged checkpoint is of all its partitions"


def test_multiple_slices_partitions_by_the_stored_key(either_http: httpx2.Client) -> None:
    feed = create(either_http, 2)
    feed.publish_lines({"data": {"id": i}, "key": KEYS[i], "partition": i % 2} for i in range(60))
    page = feed.read(6)
    for v in range(6):
        assert page.of(v) == [i for i in range(60) if i % 2 == v % 2 and crc32(KEYS[i].encode()) % 3 == v // 2]


def test_multiple_slices_events_without_a_key_by_their_offset(http: httpx2.Client) -> None:
    feed = create(http)
    feed.publish_ids(range(12))
    page = feed.read(4)
    assert [page.of(v) for v in range(4)] == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]


def test_other_n_is_refused_with_the_divisors_and_the_number_of_partitions(keyed: Served) -> None:
    for n in (4, 5, 7, 9, 0, 32_769, 10**17):
        problem = problem_of(keyed.get(n=n, cursor0="_first"), 400, "bad-partition-count")
        assert (problem["n"], problem["partition_count"], problem["divisors"]) == (n, 6, [1, 2, 3, 6])
        assert "6 partitions" in problem["detail"]
    for text in (None, "", "four", "-1", "4.0", "\uff11", " 4", "0x4", "9" * 30):
        given = {"cursor0": "_first"} | ({} if text is None else {"n": text})
        problem = problem_of(keyed.get(**given), 400, "bad-parameter")
        assert (problem["parameter"], problem["value"]) == ("n", text)
        assert "whole number" in problem["allowed"]


@pytest.mark.parametrize("taken", [1, 2, 4])
@pytest.mark.parametrize("used", [1, 2, 4, 8, 16])
def test_cursor_works_at_another_n_if_it_covers_the_partitions(feed4: Served, taken: int, used: int) -> None:
    feed4.publish_lines({"data": {"id": p * 10 + i}, "partition": p} for p in range(4) for i in range(3))
    cursors = feed4.read(taken, pagesizehint=10_000).cursors
    feed4.publish_lines({"data": {"id": 100 + p}, "partition": p, "key": "k"} for p in range(4))
    for v in range(used):
        needed = set(range(v, 4, used)) if used < 4 else {v % 4}
        source = cursors[v % taken]
        covered = set(range(v % taken, 4, taken))
        answer = feed4.get(n=used, **{f"cursor{v}": source})
        if needed <= covered:
            assert answer.status_code == 200
            assert not any(f'"id":{old}}}' in answer.text.replace(" ", "") for old in (0, 1, 2, 10, 11, 12))
        else:
            problem = problem_of(answer, 400, "bad-cursor")
            assert problem["n"] == taken
            assert f"n={taken}" in problem["detail"]


def test_change_to_another_n_loses_and_repeats_no_event(feed4: Served) -> None:
    feed4.publish_lines({"data": {"id": i}, "partition": i % 4, "key": str(i)} for i in range(40))
    first = feed4.read(1, pagesizehint=17)
    split = feed4.read(8, dict.fromkeys(range(8), first.cursor), pagesizehint=10_000)
    assert sorted(first.ids + split.ids) == list(range(40))


def test_cursor_of_a_slice_works_for_that_slice_alone(feed4: Served) -> None:
    cursors = feed4.read(8).cursors
    assert feed4.get(n=8, cursor3=cursors[3]).status_code == 200
    for n, v in ((8, 7), (16, 3), (4, 3), (1, 0)):
        problem = problem_of(feed4.get(n=n, **{f"cursor{v}": cursors[3]}), 400, "bad-cursor")
        assert problem["n"] == 8
        assert problem["partition"] == 3
