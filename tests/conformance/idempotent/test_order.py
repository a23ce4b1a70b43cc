"""Batches that come too early or cannot be stored: none of their events is, and none of their numbers is used up."""

import gzip
import json
from typing import Any

import httpx2
import pytest

from penstock.core.events.event import EVENT_BYTES_MAX, EVENTS_MAX
from penstock.core.events.partitioning import hash_partition
from penstock.server.http.requests import BODY_BYTES_MAX
from tests.producing import Producer, told
from tests.served import NDJSON, create, problem_of

STRICT = {"type": "json_schema", "schema": json.dumps({"required": ["name"]})}
NO_NAME = "#: required key [name] not found"
ANY = {"type": "json_schema", "schema": "{}"}


def post(mine: Producer, body: bytes, sequence: int = 0, **headers: str) -> httpx2.Response:
    return mine.http.post(mine.events_path, content=body, headers=mine.headers(sequence) | headers)


# Gaps


def test_batch_after_a_gap_is_refused_until_the_gap_is_filled(mine: Producer) -> None:
    mine.appends(0, [1])
    for sequence in (2, 3, 1000, 2**52, 2**53 - 1):
        problem = mine.refused(
            mine.send(sequence, [4]), 409, "sequence-gap", received=sequence, expected=1, next_sequence=1
        )
        assert problem["detail"] == (f"partition 0 expects sequence number 1 of producer group 'mine', not {sequence}")
    mine.refused(mine.send(2, [2], Overlap="trim"), 409, "sequence-gap", received=2, expected=1, next_sequence=1)
    assert mine.shown()["next_sequence"] == 1
    mine.appends(1, [2, 3])
    mine.appends(3, [4])
    assert mine.log() == [1, 2, 3, 4]


def test_first_batch_of_a_producer_has_the_number_0(mine: Producer) -> None:
    mine.refused(
        mine.send(5, [1]), 409, "sequence-gap", received=5, expected=0, current_epoch=None, next_sequence=None,
        committed=None,
    )  # fmt: skip
    assert problem_of(mine.http.get(mine.path), 404, "producer-not-found")["producer_group"] == "mine"
    assert mine.log() == []
    assert mine.appends(0, [1]) == 0


# Invalid batches


def test_invalid_event_uses_up_no_numbers(either_http: httpx2.Client) -> None:
    mine = Producer(create(either_http, schema=STRICT, compatibility_mode="none"))
    for _ in range(2):
        problem = told(post(mine, b'[{"id":1,"name":""},{"id":2}]'), 422, "invalid-event", line=2, reason=NO_NAME)
        assert problem["detail"] == f"line 2: {NO_NAME}"
        assert mine.http.get(mine.path).status_code == 404, "the producer is still unknown"
    assert post(mine, b'[{"id":1,"name":""}]').json()["outcome"] == "appended"
    told(post(mine, b'[{"id":2}]', 1), 422, "invalid-event", line=1, reason=NO_NAME)
    mine.refused(post(mine, b'[{"id":9}]', 7), 409, "sequence-gap", received=7, expected=1, next_sequence=1)
    mine.refused(post(mine, b'[{"id":9}]'), 422, "payload-mismatch", received=0, differs_at=0, next_sequence=1)
    answer = post(mine, b'[{"id":1,"name":""},{"id":2}]', **{"Producer-Overlap": "trim"})
    told(answer, 422, "invalid-event", line=2, reason=NO_NAME)
    assert post(mine, b'[{"id":3,"name":""}]', 1).json()["sequence"] == {"first": 1, "last": 1, "next": 2}
    assert mine.log() == [1, 3]


def test_repeat_is_a_duplicate_after_the_schema_was_tightened(either_http: httpx2.Client) -> None:
    mine = Producer(create(either_http, schema=ANY, compatibility_mode="none"))
    assert mine.appends(0, [1, 2]) == 0
    shown = mine.http.get(f"/event-types/{mine.feed.name}").json()
    assert mine.http.put(f"/event-types/{mine.feed.name}", json=shown | {"schema": STRICT}).status_code == 200
    for _ in range(2):
        again = mine.stores(0, [1, 2])
        assert (again["outcome"], again["offsets"]) == ("duplicate", {"first": 0, "last": 1})
    told(mine.send(2, [3]), 422, "invalid-event", line=1, reason=NO_NAME)
    told(mine.send(1, [2, 3], Overlap="trim"), 422, "invalid-event", line=1, reason=NO_NAME)
    mine.claims()
    mine.refused(
        mine.send(0, [1, 2]), 412, "producer-fenced", received=0, current_epoch=1, next_sequence=0, committed=True,
        ranges=[{"first": 0, "last": 1}],
    )  # fmt: skip
    assert mine.log() == [1, 2]


def test_repeat_of_a_blocked_publisher_is_refused(mine: Producer) -> None:
    mine.appends(0, [1])
    blocked = f"/settings/blacklist/PRODUCER_ET/{mine.feed.name}"
    assert mine.http.put(blocked).status_code == 204
    answers = [mine.send(0, [1]), mine.send(1, [2]), mine.claim(), mine.http.post(mine.all_path)]
    assert mine.http.delete(blocked).status_code == 204
    for answer in answers:
        told(answer, 403, "blocked", event_type=mine.feed.name, application="unauthenticated")
    assert mine.stores(0, [1])["outcome"] == "duplicate"
    assert mine.shown()["next_sequence"] == 1


@pytest.mark.parametrize("either_http", ["sqlite"], indirect=True)
def test_batch_beyond_a_limit_is_answered_413(mine: Producer) -> None:
    mine.appends(0, [1])
    large = b'{"id":2,"text":"' + b"x" * EVENT_BYTES_MAX + b'"}'
    many = b"[" + b",".join([b"{}"] * (EVENTS_MAX + 1)) + b"]"
    body = gzip.compress(b"[" + b" " * BODY_BYTES_MAX + b"]")
    told(post(mine, b"[%b]" % large, 1), 413, "event-too-large", line=1, size=len(large), limit=EVENT_BYTES_MAX)
    told(post(mine, many, 1), 413, "too-many-events", limit=EVENTS_MAX)
    told(post(mine, body, 1, **{"Content-Encoding": "gzip"}), 413, "body-too-large", limit=BODY_BYTES_MAX)
    assert mine.appends(1, [2]) == 1


UNREADABLE = [
    (b"", 400, "malformed-batch"),
    (b"[]", 400, "malformed-batch"),
    (b"{}", 400, "malformed-batch"),
    (b'[{"id":1}', 400, "malformed-batch"),
    (b'[{"id":1}] x', 400, "malformed-batch"),
    (b"[1]", 422, "invalid-event"),
    (b'[{"id":1,"id":2}]', 422, "invalid-event"),
    (b'[{"id":9223372036854775808}]', 422, "invalid-event"),
]


@pytest.mark.parametrize("either_http", ["sqlite"], indirect=True)
def test_unreadable_batch_is_refused_before_its_numbers_are_checked(mine: Producer) -> None:
    for body, status, code in UNREADABLE:
        for sequence in (0, 5):
            problem_of(post(mine, body, sequence), status, code)
    problem_of(post(mine, b"", **{"Content-Type": "application/avro-binary"}), 415, "unsupported-media-type")
    assert mine.http.get(mine.path).status_code == 404
    assert mine.log() == []


# Partition strategies


def place(http: httpx2.Client, strategy: str, partition: int, **definition: Any) -> Producer:
    return Producer(create(http, 4, partition_strategy=strategy, **definition), partition=partition)


@pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "plain"])
def test_random_feed_takes_events_in_any_partition(either_http: httpx2.Client, numbered: bool) -> None:
    mine = place(either_http, "random", 0)
    for partition in range(4):
        theirs = mine.other(partition=partition)
        headers = theirs.headers(0) if numbered else {}
        assert mine.http.post(theirs.events_path, json=[{"id": 1}, {"id": 2}], headers=headers).status_code == 200
        assert theirs.log() == [1, 2]


@pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "plain"])
def test_hashed_feed_takes_events_in_the_partition_of_their_key(either_http: httpx2.Client, numbered: bool) -> None:
    """A key beside an event decides instead of its fields."""
    hashed = {"partition_key_fields": ["id"]}
    here, given = hash_partition(("1",), 4), hash_partition(("k",), 4)
    mine = place(either_http, "hash", here, **hashed)
    for body, kind, key, right in (
        (b'[{"id":1}]', "application/json", "1", here),
        (b'{"data":{"id":1},"key":"k"}', NDJSON, "k", given),
    ):
        wrong = (right + 1) % 4
        for partition in (wrong, right):
            theirs = mine.other(f"by-{key}", partition=partition)
            headers = {"Content-Type": kind} | (theirs.headers(0) if numbered else {})
            answer = mine.http.post(theirs.events_path, content=body, headers=headers)
            if partition == right:
                assert answer.status_code == 200, answer.text
            else:
                way_out = "send it there, or to no partition in particular"
                reason = f"its key '{key}' belongs to partition {right}, not to {wrong}: {way_out}"
                told(answer, 422, "partition-refused", line=1, reason=reason)
    assert sorted(event["id"] for event in mine.feed.read().events) == [1, 1]


@pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "plain"])
def test_user_defined_feed_takes_events_that_ask_for_no_other_partition(
    either_http: httpx2.Client, numbered: bool
) -> None:
    mine = place(either_http, "user_defined", 2)
    headers = {"Content-Type": NDJSON} | (mine.headers(0) if numbered else {})

    def send(line: bytes) -> httpx2.Response:
        return mine.http.post(mine.events_path, content=line, headers=headers)

    other = "it asks for partition 3, and was sent to 2"
    none = "its partition must be one that there is, not 9; '%s' is user_defined and has partitions 0 to 3"
    told(send(b'{"data":{"id":1},"partition":3}'), 422, "partition-refused", line=1, reason=other)
    told(send(b'{"data":{"id":1},"partition":9}'), 422, "partition-refused", line=1, reason=none % mine.feed.name)
    assert send(b'{"data":{"id":1},"partition":2}\n{"data":{"id":2}}').status_code == 200
    assert mine.log() == [1, 2]


def test_feed_that_is_published_exactly_once_takes_numbered_batches_alone(either_http: httpx2.Client) -> None:
    mine = Producer(create(either_http, options={"publishing": "exactly-once"}))
    told(mine.http.post(mine.events_path, json=[{"id": 1}]), 409, "publishing-restricted", event_type=mine.feed.name)
    assert mine.appends(0, [1]) == 0
    assert mine.log() == [1]


def test_plain_and_numbered_events_share_a_partition(mine: Producer) -> None:
    plain = mine.http.post(mine.events_path, json=[{"id": 1}])
    assert (plain.status_code, plain.json()["count"], list(plain.json()["cursors"])) == (200, 1, ["0"])
    assert "producer-epoch" not in plain.headers
    assert mine.appends(0, [2]) == 1
    mine.feed.publish_ids([3])
    assert mine.http.post(f"/event-types/{mine.feed.name}/events", json=[{"id": 4}]).status_code == 200
    assert mine.appends(1, [5]) == 4
    assert mine.stores(0, [2])["offsets"] == {"first": 1, "last": 1}
    assert mine.log() == [1, 2, 3, 4, 5]
    assert mine.feed.read(cursors={0: plain.json()["cursors"]["0"]}).ids == [2, 3, 4, 5]
