"""Keys that are parked since one of their events could not be processed: decisions of ours beside 5.11.

Events of a parked key wait in their order; those of others flow.
"""

from typing import Any

import pytest

from tests.nakadi import Nakadi, business, json_schema, offset, problem
from tests.scenes import scene
from tests.served import until
from tests.subscribing import Batch, Consumer, Subscription, definition, event_type_of, subscribe, told

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
PARK = "penstock/park-after-attempts"
COUNT = "nakadi.zalando.org/subscription-max-event-send-count"
POLICY = "nakadi.zalando.org/subscription-unprocessable-event-policy"
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
    """A subscription that parks keys, and events of these keys, one letter each."""
    traits = {"partition_strategy": "hash", "partition_key_fields": ["k"], "compatibility_mode": "forward"}
    created = nakadi.create(category="business", schema=json_schema("{}"), **traits)
    subscription = subscribe(created, annotations={PARK: attempts}, **members)
    publish(subscription, keys)
    return subscription


def fail(subscription: Subscription, times: int = 1) -> list[list[int]]:
    """Read a stream and commit nothing, so often; return the batches of each."""
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


def through(consumer: Consumer, count: int) -> list[Batch]:
    """Read batches and commit each, until so many events have come."""
    found: list[Batch] = []
    while sum(len(each.numbers) for each in found) < count:
        found.append(consumer.batch())
        assert found[-1].offsets == found[-1].numbers, "whatever was left out"
        consumer.done(found[-1])
    return found


def poisoned(nakadi: Nakadi, keys: str) -> Subscription:
    """A subscription whose first event, and so its key, is given up by the next stream."""
    subscription = keyed(nakadi, keys)
    assert fail(subscription, 4) == [[0, 1], [0, 1], [0], [0]]
    return subscription


@scene
def test_the_key_of_an_event_waits_and_the_others_flow(nakadi: Nakadi) -> None:
    subscription = poisoned(nakadi, "ababab")
    assert parked(subscription) == []
    with subscription.stream(**LIMITS) as consumer:
        assert [number for each in through(consumer, 3) for number in each.numbers] == [1, 3, 5]
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
def test_a_key_is_sent_again_in_its_order_and_then_flows(nakadi: Nakadi) -> None:
    subscription = poisoned(nakadi, "ababa")
    with subscription.stream(**LIMITS) as consumer:
        through(consumer, 2)
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
        assert [number for each in through(consumer, 2) for number in each.numbers] == [5, 6]


@scene
def test_what_is_sent_again_moves_no_position(nakadi: Nakadi) -> None:
    subscription = poisoned(nakadi, "abcc")
    with subscription.stream(**LIMITS) as consumer:
        consumer.done(consumer.batch())
        assert subscription.committed() == [offset(1)]
        consumer.batch()
        act(subscription, f"/{parked(subscription)[0]['id']}/retry")
        again = consumer.batch()
        assert again.numbers == [0]
        consumer.done(again)
        assert subscription.committed() == [offset(1)]
        assert parked(subscription) == []


@scene
def test_what_is_sent_again_in_vain_is_parked_again(nakadi: Nakadi) -> None:
    subscription = poisoned(nakadi, "ab")
    with subscription.stream(**LIMITS | {"commit_timeout": 2}) as consumer:
        consumer.done(consumer.batch())
        answer = nakadi.http.post(f"{subscription.path}/parked/retry")
        assert (answer.status_code, answer.json()) == (200, {"retried": 1})
        assert consumer.batch().debug == "Parked events"
        assert consumer.reason() == OVER
    [found] = parked(subscription)
    assert (found["state"], found["attempts"]) == ("parked", 3)
    with subscription.stream(**LIMITS) as consumer:
        assert told([consumer.next()]) == ["1[] Stream started"], "nobody has asked for it once more"


@scene
def test_a_key_is_sent_again_to_the_stream_that_comes(nakadi: Nakadi) -> None:
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
def test_a_key_that_is_skipped_waits_no_longer(nakadi: Nakadi) -> None:
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


@scene
def test_what_lies_ahead_of_the_position_is_not_skipped_unseen(nakadi: Nakadi) -> None:
    subscription = poisoned(nakadi, "aba")
    with subscription.stream(**LIMITS) as consumer:
        batch = consumer.batch()
        assert batch.numbers == [1]
        until(lambda: parked(subscription)[0]["events"] == 2)
        act(subscription, f"/{parked(subscription)[0]['id']}/skip", reason="it was a test")
        [left] = parked(subscription)
        assert (left["first_offset"], left["last_offset"], left["state"]) == ("2", "2", "retrying")

        consumer.done(batch)
        again = consumer.batch()
        assert (again.numbers, again.cursor["cursor_token"][:7]) == ([2], "parked-")
        consumer.done(again)
        until(lambda: parked(subscription) == [])


@scene
def test_a_reset_forgets_what_is_parked(nakadi: Nakadi) -> None:
    """5.5: what could not be processed is forgotten, and comes again where it lies behind."""
    for to, comes in (("BEGIN", [0, 1]), (1, [2]), ("END", [3])):
        subscription = poisoned(nakadi, "aba")
        with subscription.stream(**LIMITS) as consumer:
            consumer.done(consumer.batch())
            until(lambda: parked(subscription)[0]["events"] == 2)  # noqa: B023 - at once
        subscription.reset(subscription.cursor(to))
        assert parked(subscription) == []
        if to == "END":
            publish(subscription, "a", start=3)
        with subscription.stream(**LIMITS) as consumer:
            assert consumer.batch().numbers == comes


def test_a_token_of_what_is_sent_again_cannot_be_made_up(nakadi: Nakadi) -> None:
    subscription = keyed(nakadi, "ab")
    with subscription.stream(**LIMITS) as consumer:
        batch = consumer.batch()
        for token in ("parked-1-1-x", "parked", "parked--", f"parked-1-1-{batch.cursor['cursor_token']}"):
            cursor = batch.cursor | {"cursor_token": token, "offset": offset(7)}
            problem(consumer.commit(cursor), 422)


@pytest.mark.parametrize("path", ["/1", "/x", "/999999999999999999", "/9999999999999999999"])
def test_a_key_that_is_not_parked_is_not_there(nakadi: Nakadi, path: str) -> None:
    subscription = keyed(nakadi, "")
    assert parked(subscription) == []
    problem(nakadi.http.get(f"{subscription.path}/parked{path}"), 404)
    problem(nakadi.http.post(f"{subscription.path}/parked{path}/retry"), 404)
    problem(nakadi.http.post(f"{subscription.path}/parked{path}/skip", json={"reason": "x"}), 404)


def test_a_subscription_that_is_not_there_has_none(nakadi: Nakadi) -> None:
    for path in ("", "/1"):
        problem(nakadi.http.get(f"/subscriptions/none/parked{path}"), 404)
    for path in ("/retry", "/1/retry"):
        problem(nakadi.http.post(f"/subscriptions/none/parked{path}"), 404)


def test_what_becomes_of_an_event_is_said_in_one_way(nakadi: Nakadi) -> None:
    both = {PARK: "3", COUNT: "3", POLICY: "SKIP_EVENT"}
    body = definition(nakadi.create(), annotations=both)
    problem(nakadi.http.post("/subscriptions", json=body), 422)


@pytest.mark.parametrize("value", ["1", "11", "x", ""])
def test_a_number_of_attempts_out_of_range_is_refused(nakadi: Nakadi, value: str) -> None:
    body = definition(nakadi.create(), annotations={PARK: value})
    problem(nakadi.http.post("/subscriptions", json=body), 422)
