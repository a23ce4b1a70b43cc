"""How a request says who publishes it: headers and envelopes, and those of them that are none."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.factories import a_new_event
from tests.producing import Producer, hub_here, result, result_of, told
from tests.served import NDJSON, create, problem_of, until

ENVELOPE = "application/vnd.penstock.producer+json"
GROUPS = "1 to 128 characters of A-Z, a-z, 0-9 and . _ : ~ -, but neither . nor .. alone"
NUMBERS = "a whole number from 0 to 9007199254740991 in decimal digits"
TIMES = "a whole number from 0 to 3600000 in decimal digits"
HINT = "Producer-Group, Producer-Epoch and Producer-Sequence go together, or none of them is there."

Headers = list[tuple[str, str]]
WHOLE: Headers = [("Producer-Group", "mine"), ("Producer-Epoch", "0"), ("Producer-Sequence", "0")]


def but(name: str, *values: str) -> Headers:
    """Return headers that are good but for those of that name."""
    return [*(each for each in WHOLE if each[0] != name), *((name, value) for value in values)]


MALFORMED: dict[str, tuple[Headers, str, str | None, str]] = {
    "no group": (but("Producer-Group"), "Producer-Group", None, GROUPS),
    "no epoch": (but("Producer-Epoch"), "Producer-Epoch", None, NUMBERS),
    "no sequence": (but("Producer-Sequence"), "Producer-Sequence", None, NUMBERS),
    "a group alone": (WHOLE[:1], "Producer-Epoch", None, NUMBERS),
    "an epoch alone": (WHOLE[1:2], "Producer-Group", None, GROUPS),
    "a sequence alone": (WHOLE[2:], "Producer-Group", None, GROUPS),
    "an empty group": (but("Producer-Group", ""), "Producer-Group", "", GROUPS),
    "a group of 129 characters": (but("Producer-Group", "x" * 129), "Producer-Group", "x" * 80, GROUPS),
    "a group that a path would lose": (but("Producer-Group", "."), "Producer-Group", ".", GROUPS),
    "a group with a space": (but("Producer-Group", "a b"), "Producer-Group", "a b", GROUPS),
    "a group with a slash": (but("Producer-Group", "a/b"), "Producer-Group", "a/b", GROUPS),
    "a group with a percent sign": (but("Producer-Group", "a%3Ab"), "Producer-Group", "a%3Ab", GROUPS),
    "a group beyond ASCII": (but("Producer-Group", "Ã¥"), "Producer-Group", "Ã¥", GROUPS),
    "two groups": (but("Producer-Group", "mine", "yours"), "Producer-Group", "yours", "one value"),
    "the same group twice": (but("Producer-Group", "mine", "mine"), "Producer-Group", "mine", "one value"),
    "two epochs": (but("Producer-Epoch", "0", "1"), "Producer-Epoch", "1", "one value"),
    "an empty epoch": (but("Producer-Epoch", ""), "Producer-Epoch", "", NUMBERS),
    "an epoch below zero": (but("Producer-Epoch", "-1"), "Producer-Epoch", "-1", NUMBERS),
    "minus zero": (but("Producer-Epoch", "-0"), "Producer-Epoch", "-0", NUMBERS),
    "plus zero": (but("Producer-Epoch", "+0"), "Producer-Epoch", "+0", NUMBERS),
    "an epoch with an exponent": (but("Producer-Epoch", "1e3"), "Producer-Epoch", "1e3", NUMBERS),
    "an epoch with letters behind it": (but("Producer-Epoch", "1abc"), "Producer-Epoch", "1abc", NUMBERS),
    "a fraction": (but("Producer-Epoch", "1.0"), "Producer-Epoch", "1.0", NUMBERS),
    "a leading zero": (but("Producer-Epoch", "01"), "Producer-Epoch", "01", NUMBERS),
    "a number in hexadecimal": (but("Producer-Sequence", "0x1"), "Producer-Sequence", "0x1", NUMBERS),
    "a number with an underscore": (but("Producer-Sequence", "1_0"), "Producer-Sequence", "1_0", NUMBERS),
    "a number below zero": (but("Producer-Sequence", "-1"), "Producer-Sequence", "-1", NUMBERS),
    "an epoch of 2^53": (but("Producer-Epoch", str(2**53)), "Producer-Epoch", str(2**53), NUMBERS),
    "a sequence of 2^53": (but("Producer-Sequence", str(2**53)), "Producer-Sequence", str(2**53), NUMBERS),
    "a sequence of 100 digits": (but("Producer-Sequence", "1" * 100), "Producer-Sequence", "1" * 80, NUMBERS),
    "next": (but("Producer-Epoch", "next"), "Producer-Epoch", "next", NUMBERS),
    "another word for overlaps": (but("Producer-Overlap", "drop"), "Producer-Overlap", "drop", "reject or trim"),
    "overlaps in capitals": (but("Producer-Overlap", "Trim"), "Producer-Overlap", "Trim", "reject or trim"),
    "no word for overlaps": (but("Producer-Overlap", ""), "Producer-Overlap", "", "reject or trim"),
    "two words for overlaps": (but("Producer-Overlap", "trim", "reject"), "Producer-Overlap", "reject", "one value"),
    "overlaps alone": (
        [("Producer-Overlap", "trim")],
        "Producer-Group",
        None,
        "it, where there is Producer-Overlap",
    ),
    "a deadline alone": (
        [("Producer-Deadline-Ms", "1")],
        "Producer-Group",
        None,
        "it, where there is Producer-Deadline-Ms",
    ),
    "a deadline below zero": (but("Producer-Deadline-Ms", "-1"), "Producer-Deadline-Ms", "-1", TIMES),
    "a deadline in seconds": (but("Producer-Deadline-Ms", "1.5"), "Producer-Deadline-Ms", "1.5", TIMES),
    "a deadline after an hour": (but("Producer-Deadline-Ms", "3600001"), "Producer-Deadline-Ms", "3600001", TIMES),
    "two deadlines": (but("Producer-Deadline-Ms", "1", "2"), "Producer-Deadline-Ms", "2", "one value"),
}  # fmt: skip


@pytest.mark.parametrize(("headers", "parameter", "value", "allowed"), MALFORMED.values(), ids=MALFORMED)
def test_f44_malformed_headers(
    mine: Producer, headers: Headers, parameter: str, value: str | None, allowed: str
) -> None:
    mine.appends(0, [1])
    raw = [(name, each.encode("latin-1")) for name, each in headers]

    answer = mine.http.post(mine.events_path, content=b'[{"id":2}]', headers=raw)

    problem = told(answer, 400, "bad-producer-headers", parameter=parameter, value=value, allowed=allowed)
    said = "is missing" if value is None else f"is {value!r}"
    assert problem["detail"] == f"header {parameter} {said}; allowed: {allowed}"
    assert problem["hint"] == HINT
    assert mine.log() == [1]
    assert len(mine.http.get(mine.all_path).json()["items"]) == 1


def test_f44_headers_are_looked_at_before_the_body(mine: Producer) -> None:
    answer = mine.http.post(mine.events_path, content=b"[", headers={"Producer-Group": "mine"})
    problem_of(answer, 400, "bad-producer-headers")


@pytest.mark.parametrize("number", [0, 2**53 - 1], ids=["smallest", "largest"])
def test_f44_the_smallest_and_the_largest_numbers_are_numbers(mine: Producer, number: int) -> None:
    assert mine.claims(owner_level=number, starting_sequence=number)["next_sequence"] == number
    found = mine.stores(number, [1], epoch=number)
    assert found == result("appended", (number, number, (number + 1) % 2**53), (0, 0), epoch=number)


@pytest.mark.parametrize(
    "group",
    ["a:b", "~", "spark.query~7", "...", "-", "_", "x" * 128, "01JD", "a..b", "A", "a"],
    ids=lambda text: text[:9],
)
def test_f45_group_names(mine: Producer, group: str) -> None:
    theirs = mine.other(group)
    assert theirs.appends(0, [1]) == 0
    assert theirs.stores(0, [1])["outcome"] == "duplicate"

    assert theirs.shown()["producer_group"] == group
    assert theirs.claims()["owner_level"] == 1
    assert theirs.found(0, epoch=0)["stored"] is True
    assert [each["producer_group"] for each in mine.http.get(mine.all_path).json()["items"]] == [group]


def test_f45_a_group_in_a_path_may_be_escaped(mine: Producer) -> None:
    theirs = mine.other("a:b~c")
    theirs.appends(0, [1])

    for escaped in ("a:b~c", "a%3Ab~c", "a%3ab%7Ec", quote("a:b~c", safe="")):
        shown = mine.http.get(f"{mine.all_path}/{escaped}").json()
        assert (shown["producer_group"], shown["next_sequence"]) == ("a:b~c", 1)


@pytest.mark.parametrize("group", ["a%20b", "%C3%A5", "x" * 129, "a%2Cb", "a@b", "%FF", "a%00", "%2E", "%2E%2E"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_f45_a_path_that_names_no_group(mine: Producer, method: str, group: str) -> None:
    problem = problem_of(mine.http.request(method, f"{mine.all_path}/{group}"), 400, "bad-parameter")
    assert (problem["parameter"], problem["allowed"]) == ("group", GROUPS)


@pytest.mark.parametrize("partition", ["1", "9", "00", "-1", "x", "1e0", "999999999999", "%D9%A1"])
@pytest.mark.parametrize("body", [b"[", b'[{"id":1}]'], ids=["cut off", "good"])
def test_a_partition_that_there_is_not(mine: Producer, partition: str, body: bytes) -> None:
    """Whether the body can be read does not matter where the partition's name cannot be one."""
    base = f"/event-types/{mine.feed.name}/partitions/{partition}"
    answers = [mine.http.get(f"{base}/producers"), mine.http.put(f"{base}/producers/mine")]
    if body != b"[" or partition not in ("1", "9"):
        answers += [
            mine.http.post(f"{base}/events", content=body, headers=headers) for headers in ({}, mine.headers(0))
        ]
    for answer in answers:
        assert problem_of(answer, 404, "partition-not-found")["partition_count"] == 1


@pytest.mark.parametrize("path", ["/feeds/{}", "/event-types/{}/events", "/event-types/{}/deleted-events"])
@pytest.mark.parametrize("name", ["Producer-Group", "Producer-Epoch", "Producer-Sequence"])
def test_h3_producer_headers_where_no_partition_is_named(mine: Producer, path: str, name: str) -> None:
    answer = mine.http.post(path.format(mine.feed.name), content=b'{"data":{"id":1}}', headers={name: "0"})

    problem = told(answer, 400, "partition-required", event_type=mine.feed.name)
    wanted = f"POST /event-types/{mine.feed.name}/partitions/.../events"
    assert problem["detail"] == f"who publishes idempotently names the partition: {wanted}"
    assert mine.log() == []


# Envelopes


def envelope(mine: Producer, body: Any, **headers: str) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return mine.http.post(mine.events_path, content=content, headers={"Content-Type": ENVELOPE} | headers)


def by(sequence: int, **members: Any) -> dict[str, Any]:
    return {"group": "mine", "epoch": 0, "sequence": sequence} | members


def test_an_envelope_says_what_headers_say(mine: Producer) -> None:
    assert result_of(envelope(mine, {"producer": by(0), "events": [{"id": 1}]})) == result(
        "appended", (0, 0, 1), (0, 0)
    )
    gap = envelope(mine, {"producer": by(5), "events": [{"id": 1}]})
    mine.refused(gap, 409, "sequence-gap", received=5, expected=1, next_sequence=1)
    overlap = {"events": [{"id": 1}, {"id": 2}]}
    problem_of(envelope(mine, overlap | {"producer": by(0)}), 409, "sequence-overlap")
    trimmed = result_of(envelope(mine, overlap | {"producer": by(0, overlap="trim", deadline_ms=60_000)}))
    assert trimmed == result("trimmed", (0, 1, 2), (0, 0), (1, 1))
    late = envelope(mine, {"producer": by(2, deadline_ms=0), "events": [{"id": 3}]})
    problem_of(late, 503, "deadline-passed")
    assert mine.log() == [1, 2]


def test_an_envelope_is_known_by_its_media_type(mine: Producer) -> None:
    body = json.dumps({"producer": by(0), "events": [{"id": 1}]}).encode()
    kinds = ["application/json", ENVELOPE + "; charset=utf-8", ENVELOPE.upper()]
    answers = [mine.http.post(mine.events_path, content=body, headers={"Content-Type": kind}) for kind in kinds]

    problem_of(answers[0], 400, "malformed-batch")
    assert [each.json()["outcome"] for each in answers[1:]] == ["appended", "duplicate"]


def test_an_envelope_has_no_headers_beside_it(mine: Producer) -> None:
    answer = envelope(mine, {"producer": by(0), "events": [{"id": 1}]}, **mine.headers(0))

    allowed = "headers or an envelope, not both"
    told(answer, 400, "bad-producer-headers", parameter="Producer-Group", value="mine", allowed=allowed)
    assert mine.log() == []


BAD_ENVELOPES: dict[str, tuple[Any, str]] = {
    "nothing": (b"", "malformed-batch"),
    "an array": ([{"id": 1}], "malformed-batch"),
    "no producer": ({"events": [{"id": 1}]}, "malformed-batch"),
    "no events": ({"producer": by(0)}, "malformed-batch"),
    "an empty array of events": ({"producer": by(0), "events": []}, "malformed-batch"),
    "events that are no array": ({"producer": by(0), "events": {"id": 1}}, "malformed-batch"),
    "an unknown member": ({"producer": by(0), "events": [{"id": 1}], "x": 1}, "malformed-batch"),
    "an unknown member of the producer": ({"producer": by(0, x=1), "events": [{"id": 1}]}, "malformed-batch"),
    "no sequence": ({"producer": {"group": "mine", "epoch": 0}, "events": [{"id": 1}]}, "malformed-batch"),
    "a number as text": ({"producer": by("0"), "events": [{"id": 1}]}, "malformed-batch"),
    "a fraction": ({"producer": by(0.5), "events": [{"id": 1}]}, "malformed-batch"),
    "another word for overlaps": ({"producer": by(0, overlap="x"), "events": [{"id": 1}]}, "malformed-batch"),
    "events twice": (
        b'{"producer":{"group":"mine","epoch":0,"sequence":0},"events":[{"id":1}],"events":[]}',
        "malformed-batch",
    ),
    "a group with a space": ({"producer": by(0, group="a b"), "events": [{"id": 1}]}, "bad-producer-headers"),
    "a number below zero": ({"producer": by(-1), "events": [{"id": 1}]}, "bad-producer-headers"),
    "an epoch of 2^53": ({"producer": by(0, epoch=2**53), "events": [{"id": 1}]}, "bad-producer-headers"),
    "a deadline after an hour": (
        {"producer": by(0, deadline_ms=3_600_001), "events": [{"id": 1}]},
        "bad-producer-headers",
    ),
}


@pytest.mark.parametrize(("body", "code"), BAD_ENVELOPES.values(), ids=BAD_ENVELOPES)
def test_an_envelope_that_is_none_is_refused(mine: Producer, body: Any, code: str) -> None:
    problem_of(envelope(mine, body), 400, code)
    assert mine.log() == []


def test_an_invalid_event_in_an_envelope_is_named(mine: Producer) -> None:
    body = b'{"producer":{"group":"mine","epoch":0,"sequence":0},"events":[{"id":1},{"id":2,"id":3}]}'
    told(envelope(mine, body), 422, "invalid-event", line=2, reason="the key 'id' stands twice in one object")


# Lines


def test_lines_may_have_keys_and_headers(mine: Producer) -> None:
    lines = b'{"data":{"id":1},"key":"k","headers":{"ce_type":"placed"}}\n\n{"data":{"id":2}}\n'
    answer = mine.http.post(mine.events_path, content=lines, headers=mine.headers(0) | {"Content-Type": NDJSON})

    assert result_of(answer) == result("appended", (0, 1, 2), (0, 1))
    read = mine.feed.read(headers="_all").lines
    told_headers = [line["headers"] for line in read if "data" in line]
    assert [each.get("ce_partitionkey") for each in told_headers] == ["k", None]
    assert [each["ce_type"] for each in told_headers] == ["placed", mine.feed.name]


def test_a_line_that_is_none_is_named_by_its_number(mine: Producer) -> None:
    headers = mine.headers(0) | {"Content-Type": NDJSON}
    answer = mine.http.post(mine.events_path, content=b'{"data":{"id":1}}\n\n{"id":2}\n', headers=headers)
    assert problem_of(answer, 422, "invalid-event")["line"] == 3
    empty = mine.http.post(mine.events_path, content=b'\n{"cursor":"x"}\n', headers=headers)
    assert problem_of(empty, 400, "malformed-batch")["reason"] == "it has no events"
    assert mine.log() == []


# Deadlines


def test_a_batch_that_is_begun_in_time_is_stored(mine: Producer) -> None:
    assert mine.appends(0, [1], Deadline_Ms=3_600_000) == 0
    assert mine.stores(0, [1], Deadline_Ms=60_000)["outcome"] == "duplicate"


def test_a_batch_whose_time_is_over_is_not_begun(mine: Producer) -> None:
    answer = mine.send(0, [1], Deadline_Ms=0)

    told(answer, 503, "deadline-passed", retry_after=1)
    assert answer.headers["retry-after"] == "1"
    assert mine.log() == []
    assert mine.appends(0, [1]) == 0, "its number is not used up"


def test_a_batch_whose_time_is_over_while_others_are_stored_is_not_begun(migrated_url: str) -> None:
    with hub_here(migrated_url) as http, closing(open_store(migrated_url)) as store, ThreadPoolExecutor(1) as thread:
        mine = Producer(create(http))
        hub: Hub = http.app.hub  # type: ignore[attr-defined]
        with store.write() as tx:
            tx.events.lock_heads(hub.event_type(mine.feed.name).partition_ids)
            first = hub.submit(mine.feed.name, [a_new_event({"id": 1})])
            until(first.running)
            second = thread.submit(mine.send, 0, [2], Deadline_Ms=20)
            until(lambda: hub._committer._queue)
            over = time.monotonic() + 0.02
            until(lambda: time.monotonic() > over)
        told(second.result(300), 503, "deadline-passed", retry_after=1)
        assert first.result(300) is not None
        assert mine.log() == [1]
