"""A batch that comes again, whole, in other pieces, late or several times at once: each event is stored once."""

import gzip
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx2
import pytest

from penstock.testing.live_hub import LiveHub, live_hub
from tests.producing import Producer, result, result_of, together
from tests.served import NDJSON, Served, client_of, create

THREADS = 4
ENVELOPE = "application/vnd.penstock.producer+json"


def test_f2_a_batch_again(mine: Producer) -> None:
    assert mine.stores(0, [1, 2, 3]) == result("appended", (0, 2, 3), (0, 2))
    assert mine.stores(0, [1, 2, 3]) == result("duplicate", (0, 2, 3), (0, 2))
    assert mine.stores(3, [4]) == result("appended", (3, 3, 4), (3, 3))
    assert mine.log() == [1, 2, 3, 4]


def test_f11a_a_stuck_copy_within_its_epoch(mine: Producer) -> None:
    mine.appends(0, [1, 2])
    mine.appends(2, [3])
    mine.appends(3, [4, 5])

    assert mine.stores(0, [1, 2]) == result("duplicate", (0, 1, 5), (0, 1))
    assert mine.stores(2, [3]) == result("duplicate", (2, 2, 5), (2, 2))
    assert mine.log() == [1, 2, 3, 4, 5]


def test_f11b_a_stuck_copy_after_its_producer_has_asked_what_became_of_it(mine: Producer) -> None:
    """The claim is the last word: what had not come by then never will."""
    mine.appends(0, [1, 2])
    granted = mine.claims(owner_level="next", if_epoch=0, claim_id="b")
    assert (granted["owner_level"], granted["previous"]["next_sequence"]) == (1, 2), "the batch 2 had not come"
    mine.appends(0, [3], epoch=1)

    late = mine.send(2, [3])

    mine.refused(late, 412, "producer-fenced", current_epoch=1, next_sequence=1, received=2)
    assert mine.log() == [1, 2, 3]


def test_f14_same_numbers_other_payload(mine: Producer) -> None:
    mine.appends(0, [1, 2, 3])

    differs = mine.send(0, [1, 2, 4])
    shorter = mine.send(1, [5])

    mine.refused(differs, 422, "payload-mismatch", received=0, differs_at=2, next_sequence=3)
    mine.refused(shorter, 422, "payload-mismatch", received=1, differs_at=1, next_sequence=3)
    assert mine.log() == [1, 2, 3]
    assert mine.appends(3, [4]) == 3, "the producer can go on"


def test_f14_the_rest_of_an_overlap_is_not_stored_where_its_beginning_differs(mine: Producer) -> None:
    mine.appends(0, [1, 2])

    answers = [mine.send(1, [9, 3], Overlap=overlap) for overlap in ("trim", "reject")]

    for answer in answers:
        mine.refused(answer, 422, "payload-mismatch", received=1, differs_at=1, next_sequence=2)
    assert mine.log() == [1, 2]


@pytest.mark.parametrize("body", ['[{"id": 1}]', '[{"id":1.0}]', '[{"id":1,"a":2}]'], ids=["space", "number", "member"])
def test_f14_an_event_is_its_bytes(mine: Producer, body: str) -> None:
    """What an event is compared by are the bytes that were handed in: retries send the very same."""
    mine.appends(0, [1])
    answer = mine.http.post(mine.events_path, content=body.encode(), headers=mine.headers(0))
    mine.refused(answer, 422, "payload-mismatch", received=0, differs_at=0, next_sequence=1)


def test_f14_key_and_headers_belong_to_an_event(mine: Producer) -> None:
    def sent(**members: object) -> httpx2.Response:
        line = json.dumps({"data": {"id": 1}} | members).encode()
        return mine.http.post(mine.events_path, content=line, headers=mine.headers(0) | {"Content-Type": NDJSON})

    assert result_of(sent(key="k", headers={"a": "1", "b": "2"}))["outcome"] == "appended"
    assert result_of(sent(headers={"b": "2", "a": "1"}, key="k"))["outcome"] == "duplicate"
    for other in ({}, {"key": "k"}, {"key": "x", "headers": {"a": "1", "b": "2"}}, {"headers": {"a": "1", "b": "2"}}):
        mine.refused(sent(**other), 422, "payload-mismatch", received=0, differs_at=0, next_sequence=1)
    assert mine.log() == [1]


def array(mine: Producer) -> httpx2.Response:
    body = b'[ {"id":1} ,\n{"id":2}]'
    return mine.http.post(mine.events_path, content=body, headers=mine.headers(0))


def lines(mine: Producer) -> httpx2.Response:
    body = b'{"data":{"id":1}}\n\n{"data":{"id":2},"partition":0}\n{"cursor":"x"}\n'
    return mine.http.post(mine.events_path, content=body, headers=mine.headers(0) | {"Content-Type": NDJSON})


def envelope(mine: Producer) -> httpx2.Response:
    body = b'{"events":[{"id":1},{"id":2}],"producer":{"group":"mine","epoch":0,"sequence":0}}'
    return mine.http.post(mine.events_path, content=body, headers={"Content-Type": ENVELOPE})


def packed(mine: Producer) -> httpx2.Response:
    body = gzip.compress(b'[{"id":1},{"id":2}]')
    return mine.http.post(mine.events_path, content=body, headers=mine.headers(0) | {"Content-Encoding": "gzip"})


@pytest.mark.parametrize("again", [array, lines, envelope, packed])
@pytest.mark.parametrize("first", [array, lines, envelope, packed])
def test_f14_the_same_events_in_another_form_are_the_same(
    mine: Producer, first: Callable[[Producer], httpx2.Response], again: Callable[[Producer], httpx2.Response]
) -> None:
    assert result_of(first(mine)) == result("appended", (0, 1, 2), (0, 1))
    assert result_of(again(mine)) == result("duplicate", (0, 1, 2), (0, 1))
    assert mine.log() == [1, 2]


def test_f15_rechunked_repeat(mine: Producer) -> None:
    first = mine.appends(0, range(10))
    assert first == 0
    assert mine.stores(0, range(4)) == result("duplicate", (0, 3, 10), (0, 3))
    assert mine.stores(4, range(4, 10)) == result("duplicate", (4, 9, 10), (4, 9))
    assert mine.stores(3, [3]) == result("duplicate", (3, 3, 10), (3, 3))
    assert mine.log() == list(range(10))


def test_f15_several_batches_as_one_between_those_of_others(mine: Producer) -> None:
    theirs = mine.other("theirs")
    mine.appends(0, [1, 2])
    mine.appends(2, [3])
    theirs.appends(0, [90])
    mine.appends(3, [4])

    assert mine.stores(0, [1, 2, 3]) == result("duplicate", (0, 2, 4), (0, 2)), (
        "batches that lie together are one range"
    )
    assert mine.stores(1, [2, 3, 4]) == result("duplicate", (1, 3, 4), (1, 2), (4, 4))
    assert mine.log() == [1, 2, 3, 90, 4]


OVERLAPS = (
    "Close this producer and make another one, or have the rest appended: over HTTP, by the header "
    "Producer-Overlap: trim."
)


def test_f16_overlap_is_refused(mine: Producer) -> None:
    mine.appends(0, [1, 2, 3])

    for more in ({}, {"Overlap": "reject"}):
        answer = mine.send(1, [2, 3, 4, 5], **more)
        lies = [{"first": 1, "last": 2}]
        problem = mine.refused(answer, 409, "sequence-overlap", received=1, next_sequence=3, ranges=lies)
        assert problem["hint"] == OVERLAPS
    assert mine.log() == [1, 2, 3]
    assert mine.appends(3, [4, 5]) == 3


def test_f16_overlap_is_trimmed(mine: Producer) -> None:
    mine.appends(0, [1, 2, 3])
    mine.other("theirs").appends(0, [90])

    assert mine.stores(1, [2, 3, 4, 5], Overlap="trim") == result("trimmed", (1, 4, 5), (1, 2), (4, 5))
    assert mine.stores(1, [2, 3, 4, 5], Overlap="trim") == result("duplicate", (1, 4, 5), (1, 2), (4, 5))
    assert mine.stores(5, [6], Overlap="trim") == result("appended", (5, 5, 6), (6, 6))
    assert mine.log() == [1, 2, 3, 90, 4, 5, 6]


def test_f16_what_is_trimmed_is_told_apart_from_what_was_there(mine: Producer) -> None:
    """The last range is what was appended now, even where it follows the others."""
    mine.appends(0, [1])
    assert mine.stores(0, [1, 2], Overlap="trim") == result("trimmed", (0, 1, 2), (0, 0), (1, 1))
    assert mine.stores(0, [1, 2]) == result("duplicate", (0, 1, 2), (0, 1))


def test_f17_number_of_long_ago_while_the_events_are_kept(mine: Producer) -> None:
    for number in range(40):
        mine.appends(number, [number])

    assert mine.stores(0, [0]) == result("duplicate", (0, 0, 40), (0, 0))
    assert mine.stores(5, range(5, 30)) == result("duplicate", (5, 29, 40), (5, 29))
    assert mine.log() == list(range(40))


def test_f21_simultaneous_identical_requests(mine: Producer) -> None:
    for number in range(0, 60, 3):
        ids = [number, number + 1, number + 2]
        found = together([partial(mine.stores, number, ids)] * THREADS)

        assert sorted(each.pop("outcome") for each in found) == ["appended", *["duplicate"] * (THREADS - 1)]
        lies = result("appended", (number, number + 2, number + 3), (number, number + 2))
        assert [each | {"outcome": "appended"} for each in found] == [lies] * THREADS
    assert mine.log() == list(range(60))


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_f21_simultaneous_identical_requests_to_two_hubs(
    request: pytest.FixtureRequest, tmp_path: Path, database: str
) -> None:
    one: LiveHub = request.getfixturevalue(f"{database}_hub")
    with live_hub(one.database, log=tmp_path / "hub.log") as other, client_of(one) as here, client_of(other) as there:
        mine = Producer(create(here))
        elsewhere = Producer(Served(there, mine.feed.name, 1))
        for number in range(20):
            found = together([partial(each.stores, number, [number]) for each in (mine, elsewhere) * 2])
            assert sorted(each["outcome"] for each in found) == ["appended", *["duplicate"] * (THREADS - 1)]
            assert [each["offsets"] for each in found] == [{"first": number, "last": number}] * THREADS
        assert mine.log() == elsewhere.log() == list(range(20))


def test_f40_a_reader_meanwhile(mine: Producer) -> None:
    """It finds every event once, in the order of the numbers, and none that is taken back."""
    total = 200
    over = threading.Event()

    def follow() -> list[int]:
        found: list[int] = []
        cursor = "_first"
        while len(found) < total and not over.is_set():
            page = mine.feed.read(cursors={0: cursor}, pagesizehint=7)
            found += page.ids
            cursor = page.cursor
        return found

    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(follow)
        try:
            for number in range(0, total, 4):
                ids = range(number, number + 4)
                found = together([partial(mine.stores, number, ids)] * THREADS)
                assert {each["offsets"]["first"] for each in found} == {number}
                gap = mine.send(number + 5, ids)
                mine.refused(
                    gap, 409, "sequence-gap", received=number + 5, expected=number + 4, next_sequence=number + 4
                )
            assert reading.result(300) == list(range(total))
        finally:
            over.set()
