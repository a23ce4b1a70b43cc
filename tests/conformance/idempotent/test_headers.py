"""How a request names its producer: headers, envelopes, lines and deadlines.

Here is an example of each kind of mistake; the unit tests of the wire formats have each malformed value.
"""

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

ON_SQLITE = pytest.mark.parametrize("either_http", ["sqlite"], indirect=True)
"""For rules in which the database has no part."""
ENVELOPE = "application/vnd.penstock.producer+json"
GROUPS = "1 to 128 characters of A-Z, a-z, 0-9 and . _ : ~ -, but neither . nor .. alone"
NUMBERS = "a whole number from 0 to 9007199254740991 in decimal digits"
TIMES = "a whole number from 0 to 3600000 in decimal digits"
HINT = "Send Producer-Group, Producer-Epoch and Producer-Sequence together, or none of them."
GROUP, EPOCH, SEQUENCE = "Producer-Group", "Producer-Epoch", "Producer-Sequence"
OVERLAP, DEADLINE = "Producer-Overlap", "Producer-Deadline-Ms"

Headers = list[tuple[str, str]]
WHOLE: Headers = [(GROUP, "mine"), (EPOCH, "0"), (SEQUENCE, "0")]


def but(name: str, *values: str) -> Headers:
    """Return good headers with these *values* for one of them."""
    return [*(each for each in WHOLE if each[0] != name), *((name, value) for value in values)]


MALFORMED: list[tuple[Headers, str, str | None, str]] = [
    (but(GROUP), GROUP, None, GROUPS),
    (WHOLE[:1], EPOCH, None, NUMBERS),
    (WHOLE[:2], SEQUENCE, None, NUMBERS),
    (but(GROUP, ""), GROUP, "", GROUPS),
    (but(GROUP, "x" * 129), GROUP, "x" * 80, GROUPS),
    (but(GROUP, "."), GROUP, ".", GROUPS),
    (but(GROUP, "a/b"), GROUP, "a/b", GROUPS),
    (but(GROUP, "Ã¥"), GROUP, "Ã¥", GROUPS),
    (but(GROUP, "mine", "mine"), GROUP, "mine", "one value"),
    (but(EPOCH, "0", "1"), EPOCH, "1", "one value"),
    (but(EPOCH, "-1"), EPOCH, "-1", NUMBERS),
    (but(EPOCH, "1e3"), EPOCH, "1e3", NUMBERS),
    (but(EPOCH, str(2**53)), EPOCH, str(2**53), NUMBERS),
    (but(SEQUENCE, "1" * 100), SEQUENCE, "1" * 80, NUMBERS),
    (but(OVERLAP, "Trim"), OVERLAP, "Trim", "reject or trim"),
    ([(OVERLAP, "trim")], GROUP, None, "it, where there is Producer-Overlap"),
    ([(DEADLINE, "1")], GROUP, None, "it, where there is Producer-Deadline-Ms"),
    (but(DEADLINE, "3600001"), DEADLINE, "3600001", TIMES),
]


@ON_SQLITE
def test_malformed_headers_are_named_before_the_body_is_read(mine: Producer) -> None:
    for headers, parameter, value, allowed in MALFORMED:
        raw = [(name, each.encode("latin-1")) for name, each in headers]
        answer = mine.http.post(mine.events_path, content=b"[", headers=raw)
        problem = told(answer, 400, "bad-producer-headers", parameter=parameter, value=value, allowed=allowed)
        state = "is missing" if value is None else f"is {value!r}"
        assert problem["detail"] == f"header {parameter} {state}; allowed: {allowed}"
        assert problem["hint"] == HINT
    assert mine.log() == mine.http.get(mine.all_path).json()["items"] == []


@pytest.mark.parametrize("number", [0, 2**53 - 1], ids=["smallest", "largest"])
def test_smallest_and_largest_epoch_and_sequence_are_stored(mine: Producer, number: int) -> None:
    assert mine.claims(epoch=number, starting_sequence=number)["next_sequence"] == number
    found = mine.stores(number, [1], epoch=number)
    assert found == result("appended", (number, number, (number + 1) % 2**53), (0, 0), epoch=number)


@pytest.mark.parametrize("group", ["spark.query~7:-_", "...", "~", "x" * 128, "A", "a"], ids=lambda text: text[:9])
def test_group_of_any_legal_name_publishes_and_is_shown(mine: Producer, group: str) -> None:
    theirs = mine.other(group)
    assert theirs.appends(0, [1]) == 0
    assert theirs.stores(0, [1])["outcome"] == "duplicate"
    for escaped in (group, quote(group, safe=""), group.replace(":", "%3a")):
        shown = mine.http.get(f"{mine.all_path}/{escaped}").json()
        assert (shown["producer_group"], shown["next_sequence"]) == (group, 1)
    assert theirs.claims()["epoch"] == 1
    assert theirs.found(0, epoch=0)["stored"] is True
    assert [each["producer_group"] for each in mine.http.get(mine.all_path).json()["items"]] == [group]


@ON_SQLITE
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_path_without_a_legal_group_is_answered_400(mine: Producer, method: str) -> None:
    for group in ("a%20b", "%C3%A5", "x" * 129, "a%2Cb", "a@b", "%FF", "a%00", "%2E", "%2E%2E"):
        problem = problem_of(mine.http.request(method, f"{mine.all_path}/{group}"), 400, "bad-parameter")
        assert (problem["parameter"], problem["allowed"]) == ("group", GROUPS)


@ON_SQLITE
@pytest.mark.parametrize("partition", ["1", "00", "-1", "x", "999999999999", "%D9%A1"])
def test_unknown_partition_is_answered_404(mine: Producer, partition: str) -> None:
    """An unreadable body does not matter if the name cannot be that of a partition."""
    base = f"/event-types/{mine.feed.name}/partitions/{partition}"
    answers = [mine.http.get(f"{base}/producers"), mine.http.put(f"{base}/producers/mine")]
    for body in (b'[{"id":1}]', b"[")[: 1 if partition == "1" else 2]:
        answers += [mine.http.post(f"{base}/events", content=body, headers=each) for each in ({}, mine.headers(0))]
    for answer in answers:
        assert problem_of(answer, 404, "partition-not-found")["partition_count"] == 1


@ON_SQLITE
@pytest.mark.parametrize("path", ["/feeds/{}", "/event-types/{}/events", "/event-types/{}/deleted-events"])
def test_producer_headers_without_a_partition_in_the_path_are_refused(mine: Producer, path: str) -> None:
    for name in (GROUP, EPOCH, SEQUENCE):
        answer = mine.http.post(path.format(mine.feed.name), content=b'{"data":{"id":1}}', headers={name: "0"})
        problem = told(answer, 400, "partition-required", event_type=mine.feed.name)
        wanted = f"POST /event-types/{mine.feed.name}/partitions/.../events"
        assert problem["detail"] == f"an idempotent producer must name the partition: {wanted}"
    assert mine.log() == []


# Envelopes


def envelope(mine: Producer, body: Any, **headers: str) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return mine.http.post(mine.events_path, content=content, headers={"Content-Type": ENVELOPE} | headers)


def by(sequence: Any, *ids: int, **members: Any) -> dict[str, Any]:
    """Return an envelope with events of these *ids*, and *members* of its producer."""
    producer = {"group": "mine", "epoch": 0, "sequence": sequence} | members
    return {"producer": producer, "events": [{"id": number} for number in ids]}


def test_envelope_says_all_that_headers_say(mine: Producer) -> None:
    assert result_of(envelope(mine, by(0, 1))) == result("appended", (0, 0, 1), (0, 0))
    mine.refused(envelope(mine, by(5, 1)), 409, "sequence-gap", received=5, expected=1, next_sequence=1)
    problem_of(envelope(mine, by(0, 1, 2)), 409, "sequence-overlap")
    trimmed = result_of(envelope(mine, by(0, 1, 2, overlap="trim", deadline_ms=60_000)))
    assert trimmed == result("trimmed", (0, 1, 2), (0, 0), (1, 1))
    problem_of(envelope(mine, by(2, 3, deadline_ms=0)), 503, "deadline-passed")
    assert mine.log() == [1, 2]


@ON_SQLITE
def test_envelope_is_known_by_its_media_type_and_has_no_headers_beside_it(mine: Producer) -> None:
    body = json.dumps(by(0, 1)).encode()
    kinds = ["application/json", ENVELOPE + "; charset=utf-8", ENVELOPE.upper()]
    answers = [mine.http.post(mine.events_path, content=body, headers={"Content-Type": kind}) for kind in kinds]
    problem_of(answers[0], 400, "malformed-batch")
    assert [each.json()["outcome"] for each in answers[1:]] == ["appended", "duplicate"]
    both = envelope(mine, by(1, 2), **mine.headers(1))
    allowed = "headers or an envelope, not both"
    told(both, 400, "bad-producer-headers", parameter="Producer-Group", value="mine", allowed=allowed)
    assert mine.log() == [1]


@ON_SQLITE
def test_malformed_envelope_is_refused_with_its_cause(mine: Producer) -> None:
    """A malformed number is an error of the headers."""
    twice = b'{"producer":{"group":"mine","epoch":0,"sequence":0},"events":[{"id":1}],"events":[]}'
    for body in (b"", [{"id": 1}], {"events": [{"id": 1}]}, by(0), by(0, 1, x=1), by("0", 1), by(0.5, 1), twice):
        problem_of(envelope(mine, body), 400, "malformed-batch")
    for wrong in ({"group": "a b"}, {"sequence": -1}, {"epoch": 2**53}, {"deadline_ms": 3_600_001}):
        body = by(0, 1)
        problem_of(envelope(mine, body | {"producer": body["producer"] | wrong}), 400, "bad-producer-headers")
    body = b'{"producer":{"group":"mine","epoch":0,"sequence":0},"events":[{"id":1},{"id":2,"id":3}]}'
    told(envelope(mine, body), 422, "invalid-event", line=2, reason="the key 'id' stands twice in one object")
    assert mine.log() == []


# Lines


def test_lines_may_have_keys_and_headers_and_are_named_by_number(mine: Producer) -> None:
    def send(sequence: int, lines: bytes) -> httpx2.Response:
        headers = mine.headers(sequence) | {"Content-Type": NDJSON}
        return mine.http.post(mine.events_path, content=lines, headers=headers)

    answer = send(0, b'{"data":{"id":1},"key":"k","headers":{"ce_type":"placed"}}\n\n{"data":{"id":2}}\n')
    assert result_of(answer) == result("appended", (0, 1, 2), (0, 1))
    found = [line["headers"] for line in mine.feed.read(headers="_all").lines if "data" in line]
    assert [each.get("ce_partitionkey") for each in found] == ["k", None]
    assert [each["ce_type"] for each in found] == ["placed", mine.feed.name]
    wrong = send(2, b'{"data":{"id":1}}\n\n{"id":2}\n')
    assert problem_of(wrong, 422, "invalid-event")["line"] == 3
    assert problem_of(send(2, b'\n{"cursor":"x"}\n'), 400, "malformed-batch")["reason"] == "it has no events"


# Deadlines


def test_batch_is_stored_if_it_is_begun_before_its_deadline(mine: Producer) -> None:
    answer = mine.send(0, [1], Deadline_Ms=0)
    told(answer, 503, "deadline-passed", retry_after=1)
    assert answer.headers["retry-after"] == "1"
    assert mine.log() == []
    assert mine.appends(0, [1], Deadline_Ms=3_600_000) == 0, "its number was not used up"
    assert mine.stores(0, [1], Deadline_Ms=3_600_000)["outcome"] == "duplicate"


def test_batch_whose_deadline_passes_in_the_queue_is_not_stored(migrated_url: str) -> None:
    with hub_here(migrated_url) as http, closing(open_store(migrated_url)) as store, ThreadPoolExecutor(1) as thread:
        mine = Producer(create(http))
        hub: Hub = http.app.hub  # type: ignore[attr-defined]
        with store.write() as tx:
            tx.log.find_heads(hub.registry.load(mine.feed.name).partition_ids, lock=True)
            first = hub.log.submit(mine.feed.name, [a_new_event({"id": 1})])
            until(first.running)
            second = thread.submit(mine.send, 0, [2], Deadline_Ms=20)
            until(lambda: hub.committer._queue)
            time.sleep(0.02)
        told(second.result(300), 503, "deadline-passed", retry_after=1)
        assert first.result(300) is not None
        assert mine.log() == [1]
