"""Events that a consumer cannot process (5.11): sent one by one, then left out, or laid in a queue of their own.

The other way, which is ours, is in test_parked_keys.py.
"""

from typing import Any

import pytest

from tests.nakadi import BEFORE_FIRST, EventType, Nakadi, offset, problem
from tests.scenes import scene
from tests.subscribing import Subscription, definition, event_type_of, filled, numbered, put, subscribe, told

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
COUNT = "nakadi.zalando.org/subscription-max-event-send-count"
POLICY = "nakadi.zalando.org/subscription-unprocessable-event-policy"
SKIPPING = {COUNT: "3", POLICY: "SKIP_EVENT"}
QUEUE = "nakadi.dead.letter.queue"
OVER = "Commit timeout reached"


def fail(subscription: Subscription, **parameters: Any) -> list[list[int]]:
    """Read a stream and commit nothing until it ends; return its batches."""
    found = subscription.read(**{"commit_timeout": 1, "batch_flush_timeout": 1} | parameters)
    assert found[-1].debug == OVER
    return [each.numbers for each in found if each.events]


@scene
def test_an_event_that_fails_by_itself_as_often_is_left_out(nakadi: Nakadi) -> None:
    """HilaAT.whenCommitFailsThreeTimesAndSingleBatchEventFailsThreeTimesThenEventSkipped: runs 1..3, 4..6, 7."""
    subscription = filled(nakadi, 5, annotations=SKIPPING)
    for _ in range(3):
        found = subscription.read(batch_limit=3, max_uncommitted_events=3, commit_timeout=1)
        assert told(found) == ["2[0, 1, 2] Stream started", f"2[] {OVER}"]
    for _ in range(3):
        found = subscription.read(batch_limit=3, max_uncommitted_events=3, commit_timeout=1)
        assert told(found) == ["0[0] Stream started", f"0[] {OVER}"]
    with subscription.stream(batch_limit=3) as consumer:
        assert told([consumer.next()]) == ["1[1] Stream started"]
        assert subscription.committed() == [offset(0)], "what is left out is committed"


@scene
def test_a_reset_of_cursors_forgets_what_has_failed(nakadi: Nakadi) -> None:
    """5.5, 5.11; HilaAT.whenCursorsAreResetTheDLQStateIsResetAsWell."""
    subscription = filled(nakadi, 5, annotations=SKIPPING)
    for _ in range(3):
        assert fail(subscription, batch_limit=3, max_uncommitted_events=3) == [[0, 1, 2]]
    assert fail(subscription, batch_limit=3) == [[0]]
    subscription.reset(subscription.cursor("BEGIN"))
    with subscription.stream(batch_limit=3) as consumer:
        assert consumer.next().numbers == [0, 1, 2]


@scene
def test_a_commit_does_not_end_the_search_within_a_batch(nakadi: Nakadi) -> None:
    """HilaAT.whenIsLookingForDeadLetterAndCommitComesThenContinueLooking: 0, then 1 three times, 2..9, 10, 2."""
    subscription = filled(nakadi, 22, annotations=SKIPPING)
    limits = {"batch_limit": 10, "max_uncommitted_events": 20, "batch_flush_timeout": 1}
    for _ in range(3):
        assert fail(subscription, **limits | {"max_uncommitted_events": 10}) == [list(range(10))]
    with subscription.stream(commit_timeout=2, **limits) as consumer:
        consumer.done(first := consumer.batch())
        assert [first.numbers, consumer.batch().numbers] == [[0], [1]]
        assert consumer.reason() == OVER
    for _ in range(2):
        assert fail(subscription, **limits) == [[1]]
    with subscription.stream(**limits) as consumer:
        for number in range(2, 10):
            consumer.done(batch := consumer.batch())
            assert batch.numbers == [number]
        consumer.done(batch := consumer.batch())
        assert batch.numbers == list(range(10, 20))
        assert consumer.batch().numbers == [20, 21]


@scene
def test_batches_are_whole_again_behind_one_whose_events_were_all_fine(nakadi: Nakadi) -> None:
    """HilaAT.whenIsLookingForDeadLetterAndSendAllEventsOneByOneThenBackToNormalBatchSize: 10 single ones, then 10."""
    subscription = filled(nakadi, 20, annotations=SKIPPING)
    limits = {"batch_limit": 10, "max_uncommitted_events": 10}
    for _ in range(3):
        assert fail(subscription, **limits) == [list(range(10))]
    with subscription.stream(**limits) as consumer:
        for number in range(10):
            consumer.done(batch := consumer.batch())
            assert batch.numbers == [number]
        assert consumer.batch().numbers == list(range(10, 20))


@scene
def test_one_event_alone_is_outstanding_while_it_is_searched(nakadi: Nakadi) -> None:
    """HilaAT.testDlqModeOnlySendsSingleEventAndNotMore: event, keep-alive, keep-alive, and why it ends."""
    subscription = filled(nakadi, 5, annotations=SKIPPING | {COUNT: "2"})
    for _ in range(2):
        assert fail(subscription, batch_limit=3, max_uncommitted_events=3) == [[0, 1, 2]]
    found = subscription.read(batch_limit=3, max_uncommitted_events=100, batch_flush_timeout=2, commit_timeout=5)
    assert told(found) == ["0[0] Stream started", "0[]", "0[]", f"0[] {OVER}"]


@scene
def test_an_event_that_is_given_up_is_found_in_the_queue(nakadi: Nakadi) -> None:
    """HilaAT.shouldSkipPoisonPillAndDeadLetterFoundInTheQueueLater: of one of four partitions; the others flow."""
    created = numbered(nakadi, 4)
    for number in range(4):
        put(created, number * 10, number * 10 + 1, partition=number)
    subscription = subscribe(created, annotations={COUNT: "2", POLICY: "DEAD_LETTER_QUEUE"})
    limits = {"commit_timeout": 2, "batch_flush_timeout": 1, "batch_limit": 2, "max_uncommitted_events": 100}

    def refuse_20() -> None:
        with subscription.stream(**limits) as consumer:
            while (batch := consumer.next()).debug != OVER:
                if batch.events and 20 not in batch.numbers:
                    consumer.done(batch)

    for _ in range(4):
        refuse_20()
    with subscription.stream(**limits) as consumer:
        batch = consumer.batch()
        assert (batch.partition, batch.numbers) == ("2", [21])
        consumer.done(batch)
    assert subscription.committed() == [offset(1)] * 4
    letters = subscribe(EventType(nakadi.http, QUEUE))
    with letters.stream(batch_limit=1, max_uncommitted_events=1_000, batch_flush_timeout=1) as reader:
        [letter] = next(reader_events(reader, subscription))
    original = letter.pop("event")
    assert original["n"] == 20
    assert original["metadata"]["event_type"] == created.name
    assert letter.pop("metadata")["event_type"] == QUEUE
    assert set(letter.pop("error")) == {"message"}
    assert letter == {
        "subscription_id": subscription.id,
        "event_type": created.name,
        "partition": "2",
        "offset": offset(0),
    }


def reader_events(reader: Any, subscription: Subscription) -> Any:
    """Batches of the queue that are of *subscription*: others have theirs in it, too."""
    while True:
        found = [each for each in reader.batch().events if each["subscription_id"] == subscription.id]
        if found:
            yield found


@scene
def test_partitions_of_the_same_number_are_told_apart(nakadi: Nakadi) -> None:
    """11, no. 15: what fails of one event type does not single out another's."""
    one, two = numbered(nakadi), numbered(nakadi)
    put(one, 0, 1)
    subscription = subscribe(one, two, annotations=SKIPPING | {COUNT: "2"})
    for _ in range(2):
        assert fail(subscription, batch_limit=2) == [[0, 1]]
    put(two, 7, 8)
    with subscription.stream(batch_limit=2, max_uncommitted_events=100) as consumer:
        found = {each.event_type: each.numbers for each in consumer.batches(2)}
    assert found == {one.name: [0], two.name: [7, 8]}


@scene
def test_the_policy_is_taken_up_by_the_next_stream(nakadi: Nakadi) -> None:
    """5.2; and whose annotations are taken away is sent whole batches again."""
    subscription = filled(nakadi, 3)
    for _ in range(3):
        assert fail(subscription, batch_limit=3) == [[0, 1, 2]]
    assert subscription.put(annotations=SKIPPING | {COUNT: "2"}).status_code == 204
    for _ in range(2):
        fail(subscription, batch_limit=3)
    assert fail(subscription, batch_limit=3) == [[0]]
    assert subscription.put(annotations={}).status_code == 204
    assert fail(subscription, batch_limit=3) == [[0, 1, 2]]


@scene
def test_without_a_policy_events_are_sent_again_and_again(nakadi: Nakadi) -> None:
    """5.7: at least once."""
    subscription = filled(nakadi, 2)
    for _ in range(5):
        assert fail(subscription, batch_limit=2) == [[0, 1]]
    assert subscription.committed() == [BEFORE_FIRST]


# The annotations


@pytest.mark.parametrize(
    "annotations",
    [
        {COUNT: "3"},
        {POLICY: "SKIP_EVENT"},
        {COUNT: "1", POLICY: "SKIP_EVENT"},
        {COUNT: "11", POLICY: "SKIP_EVENT"},
        {COUNT: "x", POLICY: "SKIP_EVENT"},
        {COUNT: "3.0", POLICY: "SKIP_EVENT"},
        {COUNT: "", POLICY: "SKIP_EVENT"},
        {COUNT: "3", POLICY: "skip_event"},
        {COUNT: "3", POLICY: "PARK_KEY"},
        {COUNT: "3", POLICY: ""},
    ],
    ids=lambda annotations: " ".join(f"{name.rpartition('-')[2]}={value}" for name, value in annotations.items()),
)
def test_a_policy_that_is_none_is_refused(nakadi: Nakadi, annotations: dict[str, str]) -> None:
    """5.11: both or none, from 2 to 10, in exact case."""
    created = nakadi.create()
    problem(nakadi.http.post("/subscriptions", json=definition(created, annotations=annotations)), 422)
    subscription = subscribe(created)
    problem(subscription.put(annotations=annotations), 422)


@pytest.mark.parametrize("count", ["2", "10"])
@pytest.mark.parametrize("policy", ["SKIP_EVENT", "DEAD_LETTER_QUEUE"])
def test_a_policy_is_kept(nakadi: Nakadi, count: str, policy: str) -> None:
    """5.11."""
    annotations = {COUNT: count, POLICY: policy}
    subscription = subscribe(nakadi.create(), annotations=annotations)
    assert subscription.get()["annotations"] == annotations
    assert event_type_of(subscription).name in subscription.event_types
