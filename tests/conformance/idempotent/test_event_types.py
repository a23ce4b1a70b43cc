"""Producers of event types that change, are deleted, or are created again."""

import httpx2

from penstock.core.events.partitioning import hash_partition
from tests.producing import Producer, result, told
from tests.served import create, problem_of


def grow(mine: Producer, count: int) -> None:
    answer = mine.http.put(f"/event-types/{mine.feed.name}/partition-count", json={"partition_count": count})
    assert answer.status_code == 204, answer.text
    mine.feed.partitions = count


def test_producer_of_a_deleted_event_type_is_answered_404(mine: Producer) -> None:
    mine.appends(0, [1])
    mine.feed.drop()
    for answer in (mine.send(1, [2]), mine.send(0, [1]), mine.claim(), mine.http.get(mine.path)):
        told(answer, 404, "event-type-not-found", event_type=mine.feed.name)


def test_producer_of_a_recreated_event_type_begins_anew(mine: Producer) -> None:
    mine.appends(0, [1, 2], epoch=5)
    mine.feed.drop()
    create(mine.http, name=mine.feed.name)
    assert mine.http.get(mine.all_path).json()["items"] == []
    mine.told(
        mine.send(2, [3], epoch=5), 409, "sequence-gap", received=2, expected=0, current_epoch=None,
        next_sequence=None, committed=None, ranges=[],
    )  # fmt: skip
    assert mine.stores(0, [1, 2]) == result("appended", (0, 1, 2), (0, 1)), "even of an earlier epoch"
    assert mine.claims()["epoch"] == 1
    assert mine.log() == [1, 2]


def test_added_partitions_have_producers_of_their_own(mine: Producer) -> None:
    mine.appends(0, [1])
    theirs = mine.other(partition=2)
    for answer in (
        theirs.send(0, [9]),
        theirs.claim(),
        theirs.http.get(theirs.path),
        theirs.http.post(theirs.all_path),
    ):
        told(answer, 404, "partition-not-found", event_type=mine.feed.name, partition=2, partition_count=1)
    grow(mine, 3)
    assert mine.stores(0, [1])["outcome"] == "duplicate"
    assert mine.appends(1, [2]) == 1
    assert theirs.http.get(theirs.path).status_code == 404
    assert theirs.appends(0, [9]) == 0
    assert (mine.log(), theirs.log()) == ([1, 2], [9])


def test_repeat_is_a_duplicate_after_its_keys_have_moved_to_another_partition(either_http: httpx2.Client) -> None:
    def partition_of(number: int, count: int) -> int:
        return hash_partition((str(number),), count)

    ids = [number for number in range(50) if partition_of(number, 2) == 0 != partition_of(number, 3)][:2]
    mine = Producer(create(either_http, 2, partition_strategy="hash", partition_key_fields=["id"]))
    mine.appends(0, ids)
    grow(mine, 3)
    assert mine.stores(0, ids)["outcome"] == "duplicate"
    reason = problem_of(mine.send(2, ids), 422, "partition-refused")["reason"]
    assert f"belongs to partition {partition_of(ids[0], 3)}, not to 0" in reason
    assert mine.log() == ids


def test_replaced_event_type_keeps_its_producers(mine: Producer) -> None:
    mine.appends(0, [1])
    path = f"/event-types/{mine.feed.name}"
    for change in ({"labels": {"stage": "test"}}, {"options": {"publishing": "exactly-once"}}):
        assert mine.http.put(path, json=mine.http.get(path).json() | change).status_code == 200
        assert mine.stores(0, [1])["outcome"] == "duplicate"
    assert mine.appends(1, [2]) == 1
