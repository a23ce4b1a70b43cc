"""The cases that Durable Streams' conformance tests name, as far as they are about producers (digest, 3).

There a number counts requests and here it counts events, so that each batch here has the number after the last one's
events. A repeat is 200 with the offsets of what is stored, not 204; a stale epoch is 412, not 403; and what is sent
again is compared with what is stored, which there it is not.
"""

import json
from functools import partial

import httpx2
import pytest

from tests.producing import Producer, result, result_of, together
from tests.served import create, problem_of

MAX = 2**53 - 1


def test_first_append_accepted(mine: Producer) -> None:
    assert mine.stores(0, [1]) == result("appended", (0, 0, 1), (0, 0))
    assert mine.log() == [1]


def test_sequential_sequences(mine: Producer) -> None:
    for number in range(10):
        assert mine.stores(number, [number]) == result("appended", (number, number, number + 1), (number, number))
    assert mine.log() == list(range(10))


def test_sequence_gap_rejected(mine: Producer) -> None:
    mine.appends(0, [1])
    mine.refused(mine.send(2, [3]), 409, "sequence-gap", received=2, expected=1, next_sequence=1)


def test_new_producer_seq_not_zero(mine: Producer) -> None:
    answer = mine.send(1, [1])
    mine.refused(
        answer, 409, "sequence-gap", received=1, expected=0, current_epoch=None, next_sequence=None, committed=None
    )
    assert mine.appends(0, [1]) == 0


def test_duplicate_returns_204(mine: Producer) -> None:
    mine.appends(0, [1])
    assert mine.stores(0, [1]) == result("duplicate", (0, 0, 1), (0, 0))


def test_duplicate_seq_zero_preserves_state(mine: Producer) -> None:
    mine.appends(0, [1])
    mine.appends(1, [2])
    assert mine.stores(0, [1])["sequence"]["next"] == 2
    assert mine.appends(2, [3]) == 2


def test_duplicate_old_sequence(mine: Producer) -> None:
    for number in range(6):
        mine.appends(number, [number])
    assert mine.stores(2, [2]) == result("duplicate", (2, 2, 6), (2, 2))


def test_ordering_preserved(mine: Producer) -> None:
    mine.appends(0, [1, 2])
    mine.send(4, [5])
    mine.send(0, [1, 2])
    mine.appends(2, [3])
    mine.send(2, [3])
    mine.appends(3, [4])
    assert mine.log() == [1, 2, 3, 4]


def test_epoch_upgrade_accepted(mine: Producer) -> None:
    mine.appends(0, [1])
    assert mine.stores(0, [2], epoch=1) == result("appended", (0, 0, 1), (1, 1), epoch=1)


def test_stale_epoch_rejected(mine: Producer) -> None:
    mine.appends(0, [1], epoch=1)
    answer = mine.send(0, [2], epoch=0)
    mine.refused(answer, 412, "producer-fenced", received=0, current_epoch=1, next_sequence=1, committed=None)


def test_epoch_rollback_rejected(mine: Producer) -> None:
    mine.appends(0, [1], epoch=2)
    mine.appends(0, [2], epoch=3)
    answer = mine.send(1, [3], epoch=2)
    mine.refused(answer, 412, "producer-fenced", received=1, current_epoch=3, next_sequence=1)
    assert mine.log() == [1, 2]


def test_epoch_increase_requires_seq_zero(mine: Producer) -> None:
    mine.appends(0, [1])
    answer = mine.send(1, [2], epoch=1)
    mine.refused(answer, 409, "sequence-gap", received=1, expected=0, next_sequence=1)
    assert mine.appends(1, [2]) == 1, "the earlier epoch goes on"


def test_epoch_gap_allowed(mine: Producer) -> None:
    mine.appends(0, [1])
    assert mine.stores(0, [2], epoch=100)["epoch"] == 100


def test_epoch_zero_after_higher_epoch(mine: Producer) -> None:
    mine.appends(0, [1], epoch=5)
    problem_of(mine.send(0, [1], epoch=0), 412, "producer-fenced")
    assert mine.log() == [1]


def test_split_brain_fencing(mine: Producer) -> None:
    mine.appends(0, [1])
    mine.appends(0, [2], epoch=1)
    fenced = [mine.send(number, [9]) for number in (1, 2, 0)]
    mine.appends(1, [3], epoch=1)
    for answer in fenced:
        assert problem_of(answer, 412, "producer-fenced")["current_epoch"] == 1
    assert mine.log() == [1, 2, 3]


def test_large_epoch_numbers(mine: Producer) -> None:
    assert mine.stores(0, [1], epoch=MAX - 1)["epoch"] == MAX - 1
    assert mine.stores(0, [2], epoch=MAX)["epoch"] == MAX
    assert mine.stores(1, [3], epoch=MAX)["sequence"] == {"first": 1, "last": 1, "next": 2}


@pytest.mark.parametrize("missing", ["Producer-Group", "Producer-Epoch", "Producer-Sequence"])
def test_partial_headers_rejected(mine: Producer, missing: str) -> None:
    headers = mine.headers(0)
    del headers[missing]
    answer = mine.http.post(mine.events_path, json=[{"id": 1}], headers=headers)
    assert problem_of(answer, 400, "bad-producer-headers")["parameter"] == missing


@pytest.mark.parametrize("name", ["Producer-Epoch", "Producer-Sequence"])
@pytest.mark.parametrize("value", ["1abc", "1e3", "abc", "-1", "1.5", ""])
def test_invalid_integer_formats(mine: Producer, name: str, value: str) -> None:
    answer = mine.http.post(mine.events_path, json=[{"id": 1}], headers=mine.headers(0) | {name: value})
    problem = problem_of(answer, 400, "bad-producer-headers")
    assert (problem["parameter"], problem["value"]) == (name, value)


def test_empty_producer_id(mine: Producer) -> None:
    answer = mine.http.post(mine.events_path, json=[{"id": 1}], headers=mine.headers(0) | {"Producer-Group": ""})
    assert problem_of(answer, 400, "bad-producer-headers")["parameter"] == "Producer-Group"


def test_failed_append_does_not_advance_producer_state(mine: Producer) -> None:
    mine.appends(0, [1])
    answer = mine.http.post(mine.events_path, content=b'[{"id":2},{"id":3]', headers=mine.headers(1))
    problem_of(answer, 400, "malformed-batch")
    problem_of(mine.http.post(mine.events_path, content=b'[{"id":2},3]', headers=mine.headers(1)), 422, "invalid-event")
    assert mine.shown()["next_sequence"] == 1
    assert mine.appends(1, [2]) == 1


def test_gap_fill_resume(mine: Producer) -> None:
    mine.appends(0, [1])
    problem_of(mine.send(2, [3]), 409, "sequence-gap")
    mine.appends(1, [2])
    mine.appends(2, [3])
    assert mine.log() == [1, 2, 3]


def test_multiple_producers_independent(mine: Producer) -> None:
    theirs = mine.other("theirs")
    mine.appends(0, [1])
    assert theirs.stores(0, [1]) == result("appended", (0, 0, 1), (1, 1)), "the same event of another producer"
    theirs.appends(0, [2], epoch=9)
    assert mine.appends(1, [3]) == 3, "who takes over from one takes nothing from another"
    assert mine.log() == [1, 1, 2, 3]


def test_producer_scope_per_stream(either_http: httpx2.Client) -> None:
    """A producer is one of a partition, and so of an event type."""
    places = [Producer(create(either_http, 2), partition=partition) for partition in (0, 1)]
    places.append(places[0].other(partition=1))
    for place in places:
        assert place.appends(0, [1]) == 0
    places[0].claims()
    for place in places[1:]:
        assert place.appends(1, [2]) == 1
        assert place.shown()["owner_level"] == 0


def test_interleaved_producers(mine: Producer) -> None:
    producers = [mine.other(f"g{number}") for number in range(3)]
    for sequence in range(4):
        for number, producer in enumerate(producers):
            producer.appends(sequence, [10 * sequence + number])
    assert mine.log() == [10 * sequence + number for sequence in range(4) for number in range(3)]
    for number, producer in enumerate(producers):
        found = producer.stores(0, [10 * sequence + number for sequence in range(4)])
        assert [each["first"] for each in found["ranges"]] == [number, number + 3, number + 6, number + 9]


def test_delete_recreate_resets_state(mine: Producer) -> None:
    mine.appends(0, [1])
    mine.appends(1, [2])
    mine.feed.drop()
    create(mine.http, name=mine.feed.name)
    assert mine.appends(0, [1]) == 0


def test_producer_id_long(mine: Producer) -> None:
    longest = mine.other("x" * 128)
    assert longest.appends(0, [1]) == 0
    assert longest.shown()["producer_group"] == "x" * 128
    problem_of(mine.other("x" * 129).send(0, [1]), 400, "bad-producer-headers")


@pytest.mark.parametrize("group", ["a.b-c_d", "spark:query:7", "host~1", "UPPER.lower"])
def test_special_chars(mine: Producer, group: str) -> None:
    theirs = mine.other(group)
    assert theirs.appends(0, [1]) == 0
    assert theirs.stores(0, [1])["outcome"] == "duplicate"


def test_json_arrays_as_producer_events(mine: Producer) -> None:
    body = json.dumps([{"id": 1, "nested": [[1, 2], []]}]).encode()
    answers = [mine.http.post(mine.events_path, content=body, headers=mine.headers(0)) for _ in range(2)]
    assert [result_of(each)["outcome"] for each in answers] == ["appended", "duplicate"]
    assert mine.feed.read().events == [{"id": 1, "nested": [[1, 2], []]}]


def test_batch_retry_deduplication(mine: Producer) -> None:
    assert mine.appends(0, range(10)) == 0
    for _ in range(3):
        assert mine.stores(0, range(10)) == result("duplicate", (0, 9, 10), (0, 9))
    assert mine.appends(10, [10]) == 10
    assert mine.log() == list(range(11))


def test_autoclaim_after_a_stale_epoch(mine: Producer) -> None:
    """Whoever is shut out is told the epoch above which it can take over again, if that is what it wants."""
    mine.appends(0, [1], epoch=5)
    problem = problem_of(mine.send(0, [2], epoch=0), 412, "producer-fenced")
    epoch = problem["current_epoch"] + 1
    assert mine.stores(0, [2], epoch=epoch) == result("appended", (0, 0, 1), (1, 1), epoch=6)


def test_autoclaim_of_two_at_the_same_time(mine: Producer) -> None:
    mine.appends(0, [1], epoch=5)
    answers = together([partial(mine.send, 0, [10 + who], epoch=6) for who in range(4)])
    assert sorted(each.status_code for each in answers) == [200, 422, 422, 422]
    [first] = [who for who, each in enumerate(answers) if each.status_code == 200]
    assert mine.log() == [1, 10 + first]


def test_concurrent_duplicates(mine: Producer) -> None:
    found = together([partial(mine.stores, 0, [1, 2])] * 8)
    assert sorted(each["outcome"] for each in found) == ["appended", *["duplicate"] * 7]
    assert mine.log() == [1, 2]


def test_concurrent_producers(mine: Producer) -> None:
    def publish(producer: Producer) -> list[int]:
        return [producer.appends(number, [number]) for number in range(20)]

    found = together([partial(publish, mine.other(f"g{number}")) for number in range(4)])

    assert sorted(offset for each in found for offset in each) == list(range(80))
    assert all(each == sorted(each) for each in found)
    assert sorted(mine.log()) == sorted(list(range(20)) * 4)


def test_concurrent_epochs(mine: Producer) -> None:
    """However they come, what is stored is of ever higher epochs, and all others are shut out."""
    epochs = [3, 1, 4, 2]
    answers = together([partial(mine.send, 0, [epoch], epoch=epoch) for epoch in epochs])
    stored = [epoch for epoch, each in zip(epochs, answers, strict=True) if each.status_code == 200]
    assert {each.status_code for each in answers} <= {200, 412}
    assert mine.log() == sorted(stored)
    assert mine.shown()["owner_level"] == 4
