"""Batches that come too early, or cannot be stored: nothing of them is, and none of their numbers is used up."""

import gzip
import json
from typing import Any

import httpx2
import pytest

from penstock.core.event import EVENT_BYTES_MAX, EVENTS_MAX
from penstock.core.partitioning import hash_partition
from penstock.server.body import BODY_BYTES_MAX
from tests.producing import Producer, told
from tests.served import NDJSON, create, problem_of

STRICT = {"type": "json_schema", "schema": json.dumps({"required": ["name"]})}
NO_NAME = "#: required key [name] not found"
ANY = {"type": "json_schema", "schema": "{}"}


def post(mine: Producer, body: bytes, sequence: int = 0, **headers: str) -> httpx2.Response:
    return mine.http.post(mine.events_path, content=body, headers=mine.headers(sequence) | headers)


def test_f12_the_second_batch_before_the_first(mine: Producer) -> None:
    mine.appends(0, [1])

    early = mine.send(3, [4])

    mine.refused(early, 409, "sequence-gap", received=3, expected=1, next_sequence=1)
    assert mine.log() == [1]
    mine.appends(1, [2, 3])
    mine.appends(3, [4])
    assert mine.log() == [1, 2, 3, 4]


@pytest.mark.parametrize("sequence", [2, 3, 1000, 2**52, 2**53 - 1])
def test_f13_a_gap(mine: Producer, sequence: int) -> None:
    mine.appends(0, [1])

    answer = mine.send(sequence, [2])

    problem = mine.refused(answer, 409, "sequence-gap", received=sequence, expected=1, next_sequence=1)
    assert problem["detail"] == f"'mine' goes on with number 1 in partition 0, not with {sequence}"
    assert mine.log() == [1]
    assert mine.shown()["next_sequence"] == 1


def test_f13_a_gap_before_anything_was_heard(mine: Producer) -> None:
    answer = mine.send(5, [1])

    mine.refused(
        answer, 409, "sequence-gap", received=5, expected=0, current_epoch=None, next_sequence=None, committed=None
    )
    assert problem_of(mine.http.get(mine.path), 404, "producer-not-found")["producer_group"] == "mine"
    assert mine.log() == []


def test_f13_a_gap_is_not_trimmed(mine: Producer) -> None:
    mine.appends(0, [1])
    mine.refused(mine.send(2, [2], Overlap="trim"), 409, "sequence-gap", received=2, expected=1, next_sequence=1)


def test_f35_an_invalid_event_consumes_nothing(either_http: httpx2.Client) -> None:
    mine = Producer(create(either_http, schema=STRICT, compatibility_mode="none"))

    for _ in range(2):
        problem = told(post(mine, b'[{"id":1,"name":""},{"id":2}]'), 422, "invalid-event", line=2, reason=NO_NAME)
        assert problem["detail"] == f"line 2: {NO_NAME}"
        assert mine.http.get(mine.path).status_code == 404, "not even the producer is heard of"
    assert post(mine, b'[{"id":1,"name":""}]').json()["outcome"] == "appended"
    told(post(mine, b'[{"id":2}]', 1), 422, "invalid-event", line=1, reason=NO_NAME)
    assert mine.shown()["next_sequence"] == 1
    assert post(mine, b'[{"id":3,"name":""}]', 1).json()["sequence"] == {"first": 1, "last": 1, "next": 2}
    assert mine.log() == [1, 3]


def test_f35_whether_the_numbers_fit_is_asked_first(either_http: httpx2.Client) -> None:
    mine = Producer(create(either_http, schema=STRICT, compatibility_mode="none"))
    post(mine, b'[{"id":1,"name":""}]')

    mine.refused(post(mine, b'[{"id":9}]', 7), 409, "sequence-gap", received=7, expected=1, next_sequence=1)
    mine.refused(post(mine, b'[{"id":9}]'), 422, "payload-mismatch", received=0, differs_at=0, next_sequence=1)


def test_f35_a_trimmed_batch_is_valid_as_a_whole_or_not_at_all(either_http: httpx2.Client) -> None:
    mine = Producer(create(either_http, schema=STRICT, compatibility_mode="none"))
    post(mine, b'[{"id":1,"name":""}]')

    answer = post(mine, b'[{"id":1,"name":""},{"id":2}]', **{"Producer-Overlap": "trim"})

    told(answer, 422, "invalid-event", line=2, reason=NO_NAME)
    assert mine.log() == [1]


def tightened(mine: Producer) -> None:
    """Have the schema want what the events that there are have not."""
    shown = mine.http.get(f"/event-types/{mine.feed.name}").json()
    answer = mine.http.put(f"/event-types/{mine.feed.name}", json=shown | {"schema": STRICT})
    assert answer.status_code == 200, answer.text


def test_f46_a_repeat_after_the_schema_was_tightened(either_http: httpx2.Client) -> None:
    mine = Producer(create(either_http, schema=ANY, compatibility_mode="none"))
    assert mine.appends(0, [1, 2]) == 0
    tightened(mine)

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


def test_f46_a_repeat_after_the_permission_was_taken_away(mine: Producer) -> None:
    mine.appends(0, [1])
    blocked = f"/settings/blacklist/PRODUCER_ET/{mine.feed.name}"
    assert mine.http.put(blocked).status_code == 204

    answers = [mine.send(0, [1]), mine.send(1, [2]), mine.claim(), mine.http.post(mine.all_path)]

    assert mine.http.delete(blocked).status_code == 204
    for answer in answers:
        told(answer, 403, "blocked", event_type=mine.feed.name, application="unauthenticated")
    assert mine.stores(0, [1])["outcome"] == "duplicate"
    assert mine.shown()["next_sequence"] == 1


def test_f36_what_is_too_large(mine: Producer) -> None:
    mine.appends(0, [1])
    large = b'{"id":2,"text":"' + b"x" * EVENT_BYTES_MAX + b'"}'
    many = b"[" + b",".join([b"{}"] * (EVENTS_MAX + 1)) + b"]"
    body = gzip.compress(b"[" + b" " * BODY_BYTES_MAX + b"]")

    told(post(mine, b"[%b]" % large, 1), 413, "event-too-large", line=1, size=len(large), limit=EVENT_BYTES_MAX)
    told(post(mine, many, 1), 413, "too-many-events", limit=EVENTS_MAX)
    told(post(mine, body, 1, **{"Content-Encoding": "gzip"}), 413, "body-too-large", limit=BODY_BYTES_MAX)
    assert mine.appends(1, [2]) == 1, "the number is there for what fits"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "malformed-batch"),
        (b"[]", 400, "malformed-batch"),
        (b"{}", 400, "malformed-batch"),
        (b'[{"id":1}', 400, "malformed-batch"),
        (b'[{"id":1}] x', 400, "malformed-batch"),
        (b"[1]", 422, "invalid-event"),
        (b'[{"id":1,"id":2}]', 422, "invalid-event"),
        (b'[{"id":9223372036854775808}]', 422, "invalid-event"),
    ],
    ids=["nothing", "no events", "an object", "cut off", "more behind it", "a number", "a key twice", "a large number"],
)
def test_what_cannot_be_read_is_refused_whatever_its_numbers(
    mine: Producer, body: bytes, status: int, code: str
) -> None:
    for sequence in (0, 5):
        assert problem_of(post(mine, body, sequence), status, code)
    assert mine.http.get(mine.path).status_code == 404
    assert mine.log() == []


def test_avro_is_refused(mine: Producer) -> None:
    problem_of(post(mine, b"", **{"Content-Type": "application/avro-binary"}), 415, "unsupported-media-type")


# Where an event type's strategy has a say in it


def place(http: httpx2.Client, strategy: str, partition: int, **definition: Any) -> Producer:
    return Producer(create(http, 4, partition_strategy=strategy, **definition), partition=partition)


HASHED = {"partition_key_fields": ["id"]}


@pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "plain"])
def test_a_random_feed_takes_events_anywhere(either_http: httpx2.Client, numbered: bool) -> None:
    for partition in range(4):
        mine = place(either_http, "random", partition)
        headers = mine.headers(0) if numbered else {}
        assert mine.http.post(mine.events_path, json=[{"id": 1}, {"id": 2}], headers=headers).status_code == 200
        assert mine.log() == [1, 2]


@pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "plain"])
def test_a_hashed_feed_takes_events_where_their_keys_belong(either_http: httpx2.Client, numbered: bool) -> None:
    here = hash_partition(("1",), 4)
    there = (here + 1) % 4
    mine = place(either_http, "hash", here, **HASHED)
    headers = mine.headers(0) if numbered else {}

    elsewhere = mine.other(partition=there)
    wrong = mine.http.post(elsewhere.events_path, json=[{"id": 1}], headers=headers)
    right = mine.http.post(mine.events_path, json=[{"id": 1}], headers=headers)

    reason = f"its key '1' belongs to partition {here}, not to {there}: send it there, or to no partition in particular"
    told(wrong, 422, "partition-refused", line=1, reason=reason)
    assert right.status_code == 200, right.text
    assert (mine.log(), elsewhere.log()) == ([1], [])


def test_a_key_beside_an_event_decides_where_it_belongs(either_http: httpx2.Client) -> None:
    mine = place(either_http, "hash", hash_partition(("k",), 4), **HASHED)
    line = b'{"data":{"id":1},"key":"k"}'

    right = post(mine, line, **{"Content-Type": NDJSON})
    wrong = post(mine.other(partition=(mine.partition + 1) % 4), line, **{"Content-Type": NDJSON})

    assert right.status_code == 200, right.text
    assert f"belongs to partition {mine.partition}" in told_reason(wrong)


def told_reason(answer: httpx2.Response) -> str:
    return str(problem_of(answer, 422, "partition-refused")["reason"])


@pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "plain"])
def test_a_user_defined_feed_takes_events_that_ask_for_nothing_else(either_http: httpx2.Client, numbered: bool) -> None:
    mine = place(either_http, "user_defined", 2)
    headers = {"Content-Type": NDJSON} | (mine.headers(0) if numbered else {})

    def sent(line: bytes) -> httpx2.Response:
        return mine.http.post(mine.events_path, content=line, headers=headers)

    told(sent(b'{"data":{"id":1},"partition":3}'), 422, "partition-refused", line=1, reason=ASKS)
    told(sent(b'{"data":{"id":1},"partition":9}'), 422, "partition-refused", line=1, reason=NONE_SUCH % mine.feed.name)
    assert sent(b'{"data":{"id":1},"partition":2}\n{"data":{"id":2}}').status_code == 200
    assert mine.log() == [1, 2]


ASKS = "it asks for partition 3, and was sent to 2"
NONE_SUCH = "its partition must be one that there is, not 9; '%s' is user_defined and has partitions 0 to 3"


def test_a_feed_that_is_to_hold_nothing_twice_takes_numbered_batches_alone(either_http: httpx2.Client) -> None:
    mine = Producer(create(either_http, options={"publishing": "exactly-once"}))

    plain = mine.http.post(mine.events_path, json=[{"id": 1}])

    told(plain, 409, "publishing-restricted", event_type=mine.feed.name)
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
