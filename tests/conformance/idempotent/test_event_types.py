"""What becomes of producers when their event type changes, goes, or comes again."""

import httpx2
import pytest

from penstock.core.partitioning import hash_partition
from tests.producing import Producer, result, told
from tests.served import create, problem_of


def test_f38_the_event_type_is_deleted(mine: Producer) -> None:
    mine.appends(0, [1])
    mine.feed.drop()

    answers = [mine.send(1, [2]), mine.send(0, [1]), mine.claim(), mine.http.get(mine.path)]

    for answer in answers:
        told(answer, 404, "event-type-not-found", event_type=mine.feed.name)


def test_f38_the_event_type_is_deleted_and_created_again(mine: Producer) -> None:
    mine.appends(0, [1, 2], epoch=5)
    mine.feed.drop()
    create(mine.http, name=mine.feed.name)

    assert mine.http.get(mine.all_path).json()["items"] == []
    mine.told(
        mine.send(2, [3], epoch=5), 409, "sequence-gap", received=2, expected=0, current_epoch=None,
        next_sequence=None, committed=None, ranges=[],
    )  # fmt: skip
    assert mine.log() == []
    assert mine.stores(0, [1, 2]) == result("appended", (0, 1, 2), (0, 1)), "even of an earlier epoch"
    assert mine.claims()["owner_level"] == 1
    assert mine.log() == [1, 2]


def test_f38_there_is_no_such_partition(mine: Producer) -> None:
    theirs = mine.other(partition=1)
    for answer in (
        theirs.send(0, [1]),
        theirs.claim(),
        theirs.http.get(theirs.path),
        theirs.http.post(theirs.all_path),
    ):
        told(answer, 404, "partition-not-found", event_type=mine.feed.name, partition=1, partition_count=1)


def test_f39_partitions_are_added(mine: Producer) -> None:
    mine.appends(0, [1])
    theirs = mine.other(partition=2)
    assert problem_of(theirs.send(0, [9]), 404, "partition-not-found")

    grown = mine.http.put(f"/event-types/{mine.feed.name}/partition-count", json={"partition_count": 3})

    assert grown.status_code == 204, grown.text
    mine.feed.partitions = 3
    assert mine.stores(0, [1])["outcome"] == "duplicate"
    assert mine.appends(1, [2]) == 1
    assert theirs.http.get(theirs.path).status_code == 404, "a producer is one of its partition"
    assert theirs.appends(0, [9]) == 0
    assert (mine.log(), theirs.log()) == ([1, 2], [9])


def test_f39_a_repeat_is_one_even_where_its_keys_belong_elsewhere_by_now(either_http: httpx2.Client) -> None:
    """What is stored is stored where it was sent to, whatever the partitions are later."""
    ids = [number for number in range(50) if partition_of(number, 2) == 0 != partition_of(number, 3)][:2]
    mine = Producer(create(either_http, 2, partition_strategy="hash", partition_key_fields=["id"]))
    mine.appends(0, ids)
    grown = mine.http.put(f"/event-types/{mine.feed.name}/partition-count", json={"partition_count": 3})
    assert grown.status_code == 204, grown.text
    mine.feed.partitions = 3

    assert mine.stores(0, ids)["outcome"] == "duplicate"
    reason = problem_of(mine.send(2, ids), 422, "partition-refused")["reason"]
    assert f"belongs to partition {partition_of(ids[0], 3)}, not to 0" in reason
    assert mine.log() == ids


def partition_of(number: int, count: int) -> int:
    return hash_partition((str(number),), count)


@pytest.mark.parametrize("change", [{"labels": {"stage": "test"}}, {"options": {"publishing": "exactly-once"}}])
def test_other_changes_do_not_matter(mine: Producer, change: dict[str, object]) -> None:
    mine.appends(0, [1])
    shown = mine.http.get(f"/event-types/{mine.feed.name}").json()
    assert mine.http.put(f"/event-types/{mine.feed.name}", json=shown | change).status_code == 200
    assert mine.stores(0, [1])["outcome"] == "duplicate"
    assert mine.appends(1, [2]) == 1
