"""A batch that comes again, whole, in other pieces, late or several times at once: each event is stored once."""

import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx2
import pytest

from penstock.testing.live_hub import LiveHub, live_hub
from tests.exhaustive import examples
from tests.producing import Producer, result, result_of, together
from tests.served import NDJSON, Served, client_of, create

THREADS = 4
ENVELOPE = "application/vnd.penstock.producer+json"
OVERLAPS = (
    "Close this producer and create a new one, or append the rest: over HTTP, repeat the batch with the header "
    "Producer-Overlap: trim."
)


# Whole


def test_repeated_batch_is_a_duplicate_with_the_offsets_of_the_first(mine: Producer) -> None:
    assert mine.stores(0, [1, 2, 3]) == result("appended", (0, 2, 3), (0, 2))
    assert mine.stores(0, [1, 2, 3]) == result("duplicate", (0, 2, 3), (0, 2))
    assert mine.stores(3, [4]) == result("appended", (3, 3, 4), (3, 3))
    for number in range(4, 40):
        mine.appends(number, [number + 1])
    assert mine.stores(0, [1, 2, 3]) == result("duplicate", (0, 2, 40), (0, 2)), "long ago"
    assert mine.stores(5, range(6, 31)) == result("duplicate", (5, 29, 40), (5, 29))
    assert mine.log() == list(range(1, 41))


def test_late_copy_is_fenced_after_a_claim(mine: Producer) -> None:
    """A batch that had not come before the claim never comes."""
    mine.appends(0, [1, 2])
    granted = mine.claims(epoch="next", if_epoch=0, claim_id="b")
    assert (granted["epoch"], granted["previous"]["next_sequence"]) == (1, 2), "the batch 2 had not come"
    mine.appends(0, [3], epoch=1)
    late = mine.send(2, [3])
    mine.refused(late, 412, "producer-fenced", current_epoch=1, next_sequence=1, received=2)
    assert mine.log() == [1, 2, 3]


def test_other_events_with_the_same_numbers_are_refused(mine: Producer) -> None:
    mine.appends(0, [1, 2, 3])
    for sequence, ids, differs_at, overlap in (
        (0, [1, 2, 4], 2, "reject"),
        (1, [5], 1, "reject"),
        (2, [9, 4], 2, "reject"),
        (2, [9, 4], 2, "trim"),
    ):
        answer = mine.send(sequence, ids, Overlap=overlap)
        mine.refused(answer, 422, "payload-mismatch", received=sequence, differs_at=differs_at, next_sequence=3)
    assert mine.log() == [1, 2, 3]
    assert mine.appends(3, [4]) == 3


def test_event_is_compared_by_its_bytes_key_and_headers(mine: Producer) -> None:
    def send(line: bytes | str) -> httpx2.Response:
        sent = mine.headers(0) | {"Content-Type": NDJSON}
        return mine.http.post(mine.events_path, content=line, headers=sent)

    def line(**members: object) -> str:
        return json.dumps({"data": {"id": 1}} | members, separators=(",", ":"))

    assert result_of(send(line(key="k", headers={"a": "1", "b": "2"})))["outcome"] == "appended"
    assert result_of(send(line(headers={"b": "2", "a": "1"}, key="k")))["outcome"] == "duplicate"
    rest = ',"key":"k","headers":{"a":"1","b":"2"}}'
    others = [line(), line(key="k"), line(key="x", headers={"a": "1", "b": "2"}), line(headers={"a": "1", "b": "2"})]
    for other in [*others, '{"data":{"id": 1}' + rest, '{"data":{"id":1.0}' + rest, '{"data":{"id":1,"a":2}' + rest]:
        mine.refused(send(other), 422, "payload-mismatch", received=0, differs_at=0, next_sequence=1)
    assert mine.log() == [1]


FORMS: dict[str, tuple[bytes, dict[str, str]]] = {
    "array": (b'[ {"id":1} ,\n{"id":2}]', {}),
    "lines": (b'{"data":{"id":1}}\n\n{"data":{"id":2},"partition":0}\n{"cursor":"x"}\n', {"Content-Type": NDJSON}),
    "gzip": (gzip.compress(b'[{"id":1},{"id":2}]'), {"Content-Encoding": "gzip"}),
    "envelope": (
        b'{"events":[{"id":1},{"id":2}],"producer":{"group":"mine","epoch":0,"sequence":0}}',
        {"Content-Type": ENVELOPE},
    ),
}


@pytest.mark.parametrize("first", FORMS)
def test_same_events_in_another_form_are_a_duplicate(mine: Producer, first: str) -> None:
    def send(form: str) -> httpx2.Response:
        body, headers = FORMS[form]
        sent = headers if form == "envelope" else mine.headers(0) | headers
        return mine.http.post(mine.events_path, content=body, headers=sent)

    assert result_of(send(first)) == result("appended", (0, 1, 2), (0, 1))
    for again in FORMS:
        assert result_of(send(again)) == result("duplicate", (0, 1, 2), (0, 1))
    assert mine.log() == [1, 2]


# In other pieces


def test_repeat_in_other_batches_is_a_duplicate_with_a_range_for_each_place(mine: Producer) -> None:
    theirs = mine.other("theirs")
    mine.appends(0, [1, 2])
    mine.appends(2, [3])
    theirs.appends(0, [90])
    mine.appends(3, [4, 5, 6])
    assert mine.stores(0, [1, 2, 3]) == result("duplicate", (0, 2, 6), (0, 2)), "batches that lie together"
    assert mine.stores(1, [2, 3, 4]) == result("duplicate", (1, 3, 6), (1, 2), (4, 4))
    assert mine.stores(4, [5]) == result("duplicate", (4, 4, 6), (5, 5))
    assert mine.log() == [1, 2, 3, 90, 4, 5, 6]


def test_overlap_is_refused_unless_it_is_to_be_trimmed(mine: Producer) -> None:
    """The last range is that of the events appended now, even where it follows the others."""
    mine.appends(0, [1, 2, 3])
    for more in ({}, {"Overlap": "reject"}):
        problem = mine.refused(
            mine.send(1, [2, 3, 4, 5], **more), 409, "sequence-overlap", received=1, next_sequence=3,
            ranges=[{"first": 1, "last": 2}],
        )  # fmt: skip
        assert problem["hint"] == OVERLAPS
    assert mine.log() == [1, 2, 3]
    assert mine.stores(1, [2, 3, 4], Overlap="trim") == result("trimmed", (1, 3, 4), (1, 2), (3, 3))
    mine.other("theirs").appends(0, [90])
    assert mine.stores(2, [3, 4, 5], Overlap="trim") == result("trimmed", (2, 4, 5), (2, 3), (5, 5))
    assert mine.stores(2, [3, 4, 5], Overlap="trim") == result("duplicate", (2, 4, 5), (2, 3), (5, 5))
    assert mine.stores(5, [6], Overlap="trim") == result("appended", (5, 5, 6), (6, 6))
    assert mine.log() == [1, 2, 3, 4, 90, 5, 6]


# At once


def test_concurrent_copies_are_stored_once(mine: Producer) -> None:
    rounds = examples(6, 20)
    for number in range(0, 3 * rounds, 3):
        ids = [number, number + 1, number + 2]
        found = together([partial(mine.stores, number, ids)] * THREADS)
        assert sorted(each.pop("outcome") for each in found) == ["appended", *["duplicate"] * (THREADS - 1)]
        lies = result("appended", (number, number + 2, number + 3), (number, number + 2))
        assert [each | {"outcome": "appended"} for each in found] == [lies] * THREADS
    assert mine.log() == list(range(3 * rounds))


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_concurrent_copies_to_two_hubs_are_stored_once(
    request: pytest.FixtureRequest, tmp_path: Path, database: str
) -> None:
    one: LiveHub = request.getfixturevalue(f"{database}_hub")
    rounds = examples(6, 20)
    with live_hub(one.database, log=tmp_path / "hub.log") as other, client_of(one) as here, client_of(other) as there:
        mine = Producer(create(here))
        elsewhere = Producer(Served(there, mine.feed.name, 1))
        for number in range(rounds):
            found = together([partial(each.stores, number, [number]) for each in (mine, elsewhere) * 2])
            assert sorted(each["outcome"] for each in found) == ["appended", *["duplicate"] * (THREADS - 1)]
            assert [each["offsets"] for each in found] == [{"first": number, "last": number}] * THREADS
        assert mine.log() == elsewhere.log() == list(range(rounds))


def test_reader_finds_each_event_once_while_copies_come(mine: Producer) -> None:
    """In the order of the numbers, and none that is taken back."""
    total = examples(60, 200)
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
                gap, following = mine.send(number + 5, ids), number + 4
                mine.refused(gap, 409, "sequence-gap", received=number + 5, expected=following, next_sequence=following)
            assert reading.result(300) == list(range(total))
        finally:
            over.set()
