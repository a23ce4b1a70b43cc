"""Events that a consumer cannot process: their keys are parked, or they go to Nakadi's dead-letter queue.

Events of a parked key wait in their order, while those of other keys flow. Nakadi's retries, one event at a time, are
in test_subscription_clock.py.
"""

from typing import Any

import pytest

from tests.conformance.nakadi.hubs import ON_SQLITE
from tests.nakadi import EventType, Nakadi, business, json_schema, offset, problem
from tests.scenes import scene
from tests.served import until
from tests.subscribing import Batch, Consumer, Subscription, definition, event_type_of, numbered, put, subscribe, told

pytestmark = ON_SQLITE
PARK = "penstock/park-after-attempts"
COUNT = "nakadi.zalando.org/subscription-max-event-send-count"
POLICY = "nakadi.zalando.org/subscription-unprocessable-event-policy"
QUEUE = "nakadi.dead.letter.queue"
OVER = "Commit timeout reached"
LIMITS = {"batch_limit": 2, "max_uncommitted_events": 20, "batch_flush_timeout": 1}


def publish(subscription: Subscription, keys: str, start: int = 0) -> None:
    """Publish events of these keys, numbered from *start*; `-` has none."""
    event_type_of(subscription).publish(
        *(
            business(n=number, **({} if key == "-" else {"k": key}), meta={"partition": "0"})
            for number, key in enumerate(keys, start)
        )
    )


def keyed(nakadi: Nakadi, keys: str, attempts: str = "2", **members: Any) -> Subscription:
    """Create a subscription that parks keys, and publish events of these keys, one letter each."""
    traits = {"partition_strategy": "hash", "partition_key_fields": ["k"], "compatibility_mode": "forward"}
    created = nakadi.create(category="business", schema=json_schema("{}"), **traits)
    subscription = subscribe(created, annotations={PARK: attempts}, **members)
    publish(subscription, keys)
    return subscription


def fail(subscription: Subscription, times: int = 1) -> list[list[int]]:
    """Read *times* streams and commit nothing; return the batches of all."""
    found = []
    for _ in range(times):
        lines = subscription.read(**LIMITS | {"commit_timeout": 1, "max_uncommitted_events": 2})
        assert lines[-1].debug == OVER
        found += [each.numbers for each in lines if each.events]
    return found


def parked(subscription: Subscription) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = subscription.get("/parked")["items"]
    return found


def act(subscription: Subscription, path: str, **body: Any) -> None:
    answer = subscription.http.post(f"{subscription.path}/parked{path}", json=body or None)
    assert (answer.status_code, answer.content) == (204, b""), answer.text


def consume(consumer: Consumer, count: int) -> list[Batch]:
    """Read and commit batches until *count* events have come."""
    found: list[Batch] = []
    while sum(len(each.numbers) for each in found) < count:
        found.append(consumer.batch())
        assert found[-1].offsets == found[-1].numbers, "whichever were left out"
        consumer.done(found[-1])
    return found


def poisoned(nakadi: Nakadi, keys: str) -> Subscription:
    """Create a subscription whose next stream parks the key of the first event."""
    subscription = keyed(nakadi, keys)
    assert fail(subscription, 4) == [[0, 1], [0, 1], [0], [0]]
    return subscription


@scene
def test_parked_key_waits_while_other_keys_flow(nakadi: Nakadi) -> None:
    subscription = poisoned(nakadi, "ababab")
    assert parked(subscription) == []
    with subscription.stream(**LIMITS) as consumer:
        assert [number for each in consume(consumer, 3) for number in each.numbers] == [1, 3, 5]
        [found] = parked(subscription)
        parked_id, parked_at = found.pop("id"), found.pop("parked_at")
        assert parked_id.isdigit()
        assert parked_at.endswith("Z")
        assert found == {
            "event_type": subscription.event_types[0],
            "partition": "0",
            "key": "a",
            "attempts": 2,
            "state": "parked",
            "events": 3,
            "first_offset": "0",
            "last_offset": "4",
        }
        publish(subscription, "ab", start=6)
        assert consumer.batch().numbers == [7]
        until(lambda: parked(subscription)[0]["events"] == 4)
        shown = subscription.get(f"/parked/{parked_id}", limit=3)
        assert [(each["offset"], each["event"]["n"]) for each in shown["items"]] == [("0", 0), ("2", 2), ("4", 4)]
    log = event_type_of(subscription).events(8)
    assert [each["n"] for each in log] == list(range(8)), "they stay in the log"


@scene
def test_retried_key_is_sent_in_order_and_then_flows(nakadi: Nakadi) -> None:
    subscription = poisoned(nakadi, "ababa")
    with subscription.stream(**LIMITS) as consumer:
        consume(consumer, 2)
        before = subscription.committed()
        act(subscription, f"/{parked(subscription)[0]['id']}/retry")
        first = consumer.batch()
        assert told([first])[0].endswith("[0, 2] Parked events")
        assert first.cursor["cursor_token"].startswith("parked-")
        assert first.offsets == [0, 2]
        assert parked(subscription)[0]["state"] == "retrying"
        consumer.done(first)
        second = consumer.batch()
        assert (second.numbers, second.debug) == ([4], "Parked events")
        consumer.done(second)
        assert parked(subscription) == []
        until(lambda: subscription.committed() >= before)
        publish(subscription, "ab", start=5)
        assert [number for each in consume(consumer, 2) for number in each.numbers] == [5, 6]


@scene
def test_retried_key_is_sent_to_the_next_stream(nakadi: Nakadi) -> None:
    subscription = poisoned(nakadi, "ab")
    with subscription.stream(**LIMITS) as consumer:
        consumer.done(consumer.batch())
    answer = nakadi.http.post(f"{subscription.path}/parked/retry")
    assert answer.json() == {"retried": 1}
    with subscription.joined(**LIMITS) as consumer:
        batch = consumer.batch()
        assert (batch.numbers, batch.debug) == ([0], "Stream started")
        consumer.done(batch)
    assert parked(subscription) == []


@scene
def test_skipped_key_needs_a_reason_and_flows_again(nakadi: Nakadi) -> None:
    subscription = poisoned(nakadi, "aba")
    with subscription.stream(**LIMITS) as consumer:
        consumer.done(consumer.batch())
        until(lambda: parked(subscription)[0]["events"] == 2)
        parked_id = parked(subscription)[0]["id"]
        for body in (None, {}, {"reason": ""}, {"reason": " "}, {"reason": 1}):
            told = problem(nakadi.http.post(f"{subscription.path}/parked/{parked_id}/skip", json=body), 400)["detail"]
            assert told.startswith(
                'say in the body why these events are not wanted, such as {"reason": "a test order"}'
            )
        act(subscription, f"/{parked_id}/skip", reason="it was a test")
        assert parked(subscription) == []
        problem(nakadi.http.get(f"{subscription.path}/parked/{parked_id}"), 404)
        publish(subscription, "a", start=3)
        assert consumer.batch().numbers == [3]


@pytest.mark.parametrize("path", ["/1", "/x", "/9999999999999999999"])
def test_key_that_is_not_parked_is_answered_404(nakadi: Nakadi, path: str) -> None:
    subscription = keyed(nakadi, "")
    assert parked(subscription) == []
    for base in (subscription.path, "/subscriptions/none"):
        problem(nakadi.http.get(f"{base}/parked{path}"), 404)
        problem(nakadi.http.post(f"{base}/parked{path}/retry"), 404)
        problem(nakadi.http.post(f"{base}/parked{path}/skip", json={"reason": "x"}), 404)
    problem(nakadi.http.get("/subscriptions/none/parked"), 404)
    problem(nakadi.http.post("/subscriptions/none/parked/retry"), 404)


# Nakadi's dead-letter queue


@scene
def test_poison_event_goes_to_the_dead_letter_queue(nakadi: Nakadi) -> None:
    """HilaAT.shouldSkipPoisonPillAndDeadLetterFoundInTheQueueLater: of one of four partitions; the others flow."""
    created = numbered(nakadi, 4)
    for number in range(4):
        put(created, number * 10, number * 10 + 1, partition=number)
    subscription = subscribe(created, annotations={COUNT: "2", POLICY: "DEAD_LETTER_QUEUE"})
    limits = {"commit_timeout": 3, "batch_flush_timeout": 1, "batch_limit": 2, "max_uncommitted_events": 100}
    for _ in range(4):
        with subscription.stream(**limits) as consumer:
            while (batch := consumer.next()).debug != OVER:
                if batch.events and 20 not in batch.numbers:
                    consumer.done(batch)
    with subscription.stream(**limits) as consumer:
        batch = consumer.batch()
        assert (batch.partition, batch.numbers) == ("2", [21])
        consumer.done(batch)
    assert subscription.committed() == [offset(1)] * 4
    letters = subscribe(EventType(nakadi.http, QUEUE))
    mine: list[dict[str, Any]] = []
    with letters.stream(batch_limit=1, max_uncommitted_events=1_000, batch_flush_timeout=1) as reader:
        while not mine:  # Other subscriptions have theirs in it, too.
            mine = [each for each in reader.batch().events or [] if each["subscription_id"] == subscription.id]
    [letter] = mine
    original = letter.pop("event")
    assert (original["n"], original["metadata"]["event_type"]) == (20, created.name)
    assert letter.pop("metadata")["event_type"] == QUEUE
    assert set(letter.pop("error")) == {"message"}
    assert letter == {
        "subscription_id": subscription.id,
        "event_type": created.name,
        "partition": "2",
        "offset": offset(0),
    }


@scene
def test_failures_of_an_event_type_do_not_count_for_another_with_the_same_partition_number(nakadi: Nakadi) -> None:
    one, two = numbered(nakadi), numbered(nakadi)
    put(one, 0, 1)
    subscription = subscribe(one, two, annotations={COUNT: "2", POLICY: "SKIP_EVENT"})
    assert fail(subscription, 2) == [[0, 1]] * 2
    put(two, 7, 8)
    with subscription.stream(batch_limit=2, max_uncommitted_events=100) as consumer:
        found = {each.event_type: each.numbers for each in consumer.batches(2)}
    assert found == {one.name: [0], two.name: [7, 8]}


def test_policy_needs_a_count_from_2_to_10_and_one_way(nakadi: Nakadi) -> None:
    created = nakadi.create()
    for policy in ("SKIP_EVENT", "DEAD_LETTER_QUEUE"):
        annotations = {COUNT: "10", POLICY: policy}
        assert subscribe(created, annotations=annotations).get()["annotations"] == annotations
    subscription = subscribe(created)
    for wrong in (
        {COUNT: "3"},
        {POLICY: "SKIP_EVENT"},
        *({COUNT: count, POLICY: "SKIP_EVENT"} for count in ("1", "11", "x", "3.0", "")),
        *({COUNT: "3", POLICY: policy} for policy in ("skip_event", "PARK_KEY", "")),
        *({PARK: count} for count in ("1", "11", "x", "")),
        {PARK: "3", COUNT: "3", POLICY: "SKIP_EVENT"},
    ):
        problem(nakadi.http.post("/subscriptions", json=definition(created, annotations=wrong)), 422)
        problem(subscription.put(annotations=wrong), 422)
