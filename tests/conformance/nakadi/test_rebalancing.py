"""Who gets which partition of a subscription (5.8): slots, even shares, partitions that were asked for.

Of two who race for one place exactly one gets it: a decision, where Nakadi may refuse both (11, no. 28).
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2
import pytest

from penstock.testing.live_hub import LiveHub, live_hub
from tests.nakadi import Nakadi, offset
from tests.scenes import scene
from tests.served import client_of, until
from tests.subscribing import Batch, Consumer, Subscription, at_once, event_type_of, filled, put, told

ALL = {str(number) for number in range(8)}
WIDE = {"max_uncommitted_events": 100, "batch_flush_timeout": 30}


def publish(subscription: Subscription, *numbers: int, partitions: int = 8) -> None:
    """Publish events of these numbers to each partition."""
    for number in range(partitions):
        put(event_type_of(subscription), *numbers, partition=number)


def shared(subscription: Subscription, *consumers: Consumer) -> list[set[str]]:
    """The partitions of each stream, once everybody has what is to be theirs."""
    owners: dict[str, set[str]] = {}

    def is_shared() -> bool:
        owners.clear()
        owners.update(subscription.owners())
        return owners.keys() == {each.id for each in consumers}

    until(is_shared)
    return [owners[each.id] for each in consumers]


def numbers_of(batches: list[Batch]) -> dict[str, list[int]]:
    """The numbers of events by partition, which must be in order."""
    found: dict[str, list[int]] = {}
    for each in batches:
        found.setdefault(each.partition, []).extend(each.numbers)
    return found


# Even shares


def test_partitions_are_shared_evenly_and_go_on_where_they_were_committed(nakadi: Nakadi) -> None:
    """HilaRebalanceAT.whenRebalanceThenPartitionsAreEquallyDistributedAndCommittedOffsetsAreConsidered: 8, 4/4, 8."""
    subscription = filled(nakadi, 5, partitions=8)
    with subscription.stream(**WIDE) as one:
        found = one.batches(40)
        assert numbers_of(found) == {each: [0, 1, 2, 3, 4] for each in ALL}
        one.done(*(each for each in found if each.numbers == [4]))
        with subscription.stream(stream_limit=20, **WIDE) as other:
            first, second = shared(subscription, one, other)
            assert (len(first), len(second), first | second) == (4, 4, ALL)
            publish(subscription, *range(5, 10))
            for consumer, own in ((one, first), (other, second)):
                found = consumer.batches(20)
                assert numbers_of(found) == {each: [5, 6, 7, 8, 9] for each in own}
                consumer.done(*(each for each in found if each.numbers == [9]))
            assert other.reason() == "Stream limit in events reached: 20"
        assert shared(subscription, one) == [ALL]
        publish(subscription, 10)
        assert numbers_of(one.batches(8)) == {each: [10] for each in ALL}
    assert set(subscription.committed()) == {offset(9)}


def test_what_does_not_divide_goes_to_the_first(nakadi: Nakadi) -> None:
    """5.8: floor of n/k each, the rest one each."""
    subscription = filled(nakadi, 0, partitions=8)
    with ExitStack() as stack:
        consumers = [stack.enter_context(subscription.stream(**WIDE)) for _ in range(3)]
        assert sorted(map(len, shared(subscription, *consumers))) == [2, 3, 3]


def test_as_little_moves_as_can(nakadi: Nakadi) -> None:
    """5.8: who has no more than a share keeps what it has."""
    subscription = filled(nakadi, 0, partitions=8)
    with subscription.stream(**WIDE) as one, subscription.stream(**WIDE) as other:
        first, second = shared(subscription, one, other)
        with subscription.stream(**WIDE) as third:
            left, right, new = shared(subscription, one, other, third)
            assert left < first
            assert right < second
            assert new == (first - left) | (second - right)


@scene
def test_what_was_not_committed_is_sent_again_to_the_newcomer(nakadi: Nakadi) -> None:
    """HilaRebalanceAT.whenNotCommittedThenEventsAreReplayedAfterRebalance: when the time to commit is over."""
    subscription = filled(nakadi, 3, partitions=2)
    with subscription.stream(commit_timeout=2, **WIDE) as one:
        assert set(numbers_of(one.batches(6))) == {"0", "1"}
        with subscription.stream(commit_timeout=5, **WIDE) as other:
            assert one.reason() in {
                "Commit timeout reached",
                "A partition was reassigned and not committed in time",
            }
            assert numbers_of(other.batches(6)) == {"0": [0, 1, 2], "1": [0, 1, 2]}


@scene
def test_one_that_does_not_let_go_in_time_ends_though_it_commits_others(nakadi: Nakadi) -> None:
    """5.8: the whole stream; no. 27: and is told why."""
    subscription = filled(nakadi, 1, partitions=2)
    with subscription.stream(commit_timeout=3, max_uncommitted_events=100, batch_flush_timeout=1) as one:
        found = {each.partition: each for each in one.batches(2)}
        with subscription.stream(commit_timeout=2, **WIDE) as other:
            [moving] = [each["partition"] for each in subscription.partitions() if each["state"] == "reassigning"]
            [staying] = {"0", "1"} - {moving}
            one.done(found[staying])
            put(event_type_of(subscription), 1, partition=int(staying))
            one.done(one.batch())
            assert one.reason() in {
                "A partition was reassigned and not committed in time",
                "Commit timeout reached",
            }
            batches = numbers_of([other.batch()])
            assert batches == {moving: [0]}, "what was committed of the other one is not sent again"


# Partitions that are asked for


def test_partitions_that_are_asked_for_are_given(nakadi: Nakadi) -> None:
    """HilaRebalanceAT.whenDirectlyRequestPartitionsTheyAssignedCorrectly."""
    subscription = filled(nakadi, 2, partitions=8)
    with subscription.stream(partitions=[5], **WIDE) as one, subscription.stream(partitions=[6], **WIDE) as other:
        assert numbers_of(one.batches(2)) == {"5": [0, 1]}
        assert numbers_of(other.batches(2)) == {"6": [0, 1]}
        states = {each["partition"]: each.get("assignment_type") for each in subscription.partitions()}
    assert states == dict.fromkeys(ALL) | {"5": "direct", "6": "direct"}


def test_the_rest_is_shared_by_those_who_ask_for_none(nakadi: Nakadi) -> None:
    """HilaRebalanceAT.whenMixedStreamsThenPartitionsAssignedCorrectly: 6 and 7 are asked for; 3 and 3 are left."""
    subscription = filled(nakadi, 0, partitions=8)
    with ExitStack() as stack:
        autos = [stack.enter_context(subscription.stream(**WIDE)) for _ in range(2)]
        directs = [stack.enter_context(subscription.stream(partitions=[each], **WIDE)) for each in (6, 7)]
        owned = shared(subscription, *autos, *directs)
        assert owned[2:] == [{"6"}, {"7"}]
        assert [len(each) for each in owned[:2]] == [3, 3]
        publish(subscription, 0, 1)
        for consumer, own, count in zip([*autos, *directs], owned, (6, 6, 2, 2), strict=True):
            assert numbers_of(consumer.batches(count)) == {each: [0, 1] for each in own}


def test_a_partition_that_is_asked_for_is_taken_and_given_back(nakadi: Nakadi) -> None:
    """HilaRebalanceAT.checkDirectAssignmentCorrectlyCapturesAndReleasesPartition."""
    subscription = filled(nakadi, 0, partitions=2)
    with subscription.stream(**WIDE) as auto:
        assert shared(subscription, auto) == [{"0", "1"}]
        with subscription.stream(partitions=[1], stream_limit=1, **WIDE) as direct:
            assert shared(subscription, auto, direct) == [{"0"}, {"1"}]
            publish(subscription, 0, partitions=2)
            assert numbers_of([auto.batch()]) == {"0": [0]}
            batch = direct.batch()
            assert numbers_of([batch]) == {"1": [0]}
            direct.done(batch)
            direct.rest()
        assert shared(subscription, auto) == [{"0", "1"}]
        publish(subscription, 1, partitions=2)
        assert numbers_of(auto.batches(2)) == {"0": [1], "1": [1]}


def test_what_was_sent_of_a_partition_that_was_asked_for_is_committed(nakadi: Nakadi) -> None:
    """HilaRebalanceAT.testCommitWhenDirectAssignment."""
    subscription = filled(nakadi, 1)
    with subscription.stream(partitions=[0]) as consumer:
        consumer.done(consumer.batch())
    assert subscription.committed() == [offset(0)]


def test_a_partition_is_asked_for_once(nakadi: Nakadi) -> None:
    """HilaRebalanceAT.whenTwoStreamsDirectlyRequestOnePartitionThenConflict: 409, and it is named."""
    subscription = filled(nakadi, 0, partitions=8)
    with subscription.stream(partitions=[5, 6]):
        detail = subscription.refuse(409, partitions=[4, 5])
    assert detail.endswith(f"has asked for partition 5 of '{event_type_of(subscription).name}'")


# Slots


def test_there_is_no_room_for_more_streams_than_partitions(strict: Nakadi) -> None:
    """5.8, 6; HilaAT.whenThereAreNoEmptySlotsThenConflict: Nakadi's text."""
    subscription = filled(strict, 0)
    with subscription.stream(), subscription.asked() as answer:
        answer.read()
    detail = f"No free slots for streaming available for subscription {subscription.id}. Total slots: 1"
    assert (answer.status_code, answer.json()) == (409, {"title": "Conflict", "status": 409, "detail": detail})


def test_partitions_that_are_asked_for_leave_fewer_slots(nakadi: Nakadi) -> None:
    """HilaRebalanceAT.whenNoFreeSlotsForAutoClientThenConflict: 0 to 6 asked for, one has 7, and there is no more."""
    subscription = filled(nakadi, 0, partitions=8)
    with subscription.stream(partitions=list(range(7))), subscription.stream() as auto:
        assert subscription.refuse(409).endswith("Total slots: 8")
        assert subscription.owners()[auto.id] == {"7"}


@scene
def test_those_for_whom_nothing_is_left_wait_and_are_told_so(nakadi: Nakadi) -> None:
    """11, no. 23: they have no partitions, and end after twice their time to commit."""
    subscription = filled(nakadi, 0, partitions=2)
    with ExitStack() as stack:
        autos = [stack.enter_context(subscription.stream(commit_timeout=1, **WIDE)) for _ in range(2)]
        shared(subscription, *autos)
        publish(subscription, 0, partitions=2)
        for consumer in autos:
            consumer.done(consumer.batch())
        direct = stack.enter_context(subscription.stream(partitions=[0, 1], **WIDE))
        assert shared(subscription, direct) == [{"0", "1"}]
        for consumer in autos:
            assert told(consumer.rest()) == ["0[] No partition was free for this stream"]


@scene
def test_one_who_waits_gets_what_becomes_free(nakadi: Nakadi) -> None:
    """11, no. 23."""
    subscription = filled(nakadi, 0)
    with subscription.stream(**WIDE) as auto:
        with subscription.stream(partitions=[0], **WIDE) as direct:
            assert shared(subscription, direct) == [{"0"}]
        assert shared(subscription, auto) == [{"0"}]
        put(event_type_of(subscription), 0)
        assert auto.batch().numbers == [0]


# Races, also between hubs on one database


@pytest.fixture(scope="module")
def other_hub(nakadi_hub: LiveHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A client of another hub on the same database."""
    log = tmp_path_factory.mktemp("other") / "hub.log"
    with live_hub(nakadi_hub.database, log=log) as hub, client_of(hub) as client:
        yield client


@contextmanager
def racing(calls: list[Callable[[ExitStack], int]]) -> Iterator[list[int]]:
    """Ask for streams at the same moment; the statuses, while those that were admitted are open."""
    with ExitStack() as stack:
        yield at_once([lambda call=call: call(stack) for call in calls])


def asking(subscription: Subscription, **parameters: Any) -> Callable[[ExitStack], int]:
    return lambda stack: stack.enter_context(subscription.asked(**parameters)).status_code


RACES: dict[str, tuple[int, list[dict[str, Any]], list[int]]] = {
    "the only slot": (1, [{}] * 6, [200] + [409] * 5),
    "three slots": (3, [{}] * 6, [200] * 3 + [409] * 3),
    "one partition": (2, [{"partitions": [1]}] * 6, [200] + [409] * 5),
    "overlapping partitions": (3, [{"partitions": [0, 1]}, {"partitions": [1, 2]}] * 2, [200] + [409] * 3),
    "one slot that the others leave": (2, [{"partitions": [0]}, {}, {}, {"partitions": [0]}], [200, 200, 409, 409]),
}


@pytest.mark.parametrize("race", RACES)
def test_as_many_get_a_slot_as_there_are(nakadi: Nakadi, other_hub: httpx2.Client, race: str) -> None:
    """11, no. 28; HilaRebalanceAT.testAtLeastOneClientGets409OnTheSamePartitionRequest: all but exactly one."""
    partitions, asked, wanted = RACES[race]
    for _ in range(3):
        here = filled(nakadi, 0, partitions=partitions)
        there = Subscription(other_hub, here.get())
        with racing([asking((here, there)[at % 2], **each) for at, each in enumerate(asked)]) as statuses:
            found = sorted(statuses)
            if race == "one slot that the others leave" and found == [200, 200, 200, 409]:
                continue  # Both that ask for none came first: their slots are taken from them, as they may be.
            assert found == wanted


def test_streams_of_several_hubs_share(nakadi: Nakadi, other_hub: httpx2.Client) -> None:
    """5.8: sessions are in the database; a commit at either hub counts."""
    here = filled(nakadi, 1, partitions=2)
    there = Subscription(other_hub, here.get())
    with here.stream(**WIDE) as one:
        found = one.batches(2)
        with there.stream(**WIDE) as other:
            answer = there.commit(one.id, *found)
            assert (answer.status_code, answer.content) == (204, b""), "its tokens prove that they were sent"
            first, second = shared(here, one, other)
            assert first | second == {"0", "1"}
            publish(here, 1, partitions=2)
            assert numbers_of([one.batch()]) == {each: [1] for each in first}
            assert numbers_of([other.batch()]) == {each: [1] for each in second}


# More partitions


def test_streams_end_when_partitions_are_added_and_the_next_one_has_them(nakadi: Nakadi) -> None:
    """HilaRepartitionAT.whenEventTypeRepartitionedSubscriptionStartsStreamNewPartitions.

    11, no. 17: from their beginning. Also shouldRepartitionTimelinedEventType, whose second timeline is none here.
    """
    subscription = filled(nakadi, 1, read_from="end")
    with subscription.stream(**WIDE) as consumer:
        put(event_type_of(subscription), 1)
        consumer.done(consumer.batch())
        path = f"{event_type_of(subscription).path}/partition-count"
        assert nakadi.http.put(path, json={"partition_count": 2}).status_code == 204
        assert consumer.reason() == "The subscription has other partitions by now: begin another stream"
    put(event_type_of(subscription), 2, partition=1)
    with subscription.stream(**WIDE) as consumer:
        assert numbers_of([consumer.batch()]) == {"1": [2]}


def test_partitions_of_other_event_types_stay_as_they_are(nakadi: Nakadi) -> None:
    """HilaRepartitionAT.testSubscriptionRepartitioningWithMultipleEventTypes; its offsets, rather than its nodes.

    With one event type alone: testSubscriptionRepartitioningWithSingleEventType.
    """
    subscription = filled(nakadi, 2)
    other = filled(nakadi, 2)
    names = subscription.event_types + other.event_types
    body = {"owning_application": "acceptance", "event_types": names, "read_from": "begin"}
    both = Subscription(nakadi.http, nakadi.http.post("/subscriptions", json=body).json())
    both.reset(both.cursor(0, event_type=names[0]), both.cursor(1, event_type=names[1]))
    answer = nakadi.http.put(f"/event-types/{names[0]}/partition-count", json={"partition_count": 3})
    assert answer.status_code == 204
    assert both.cursors() == {
        (names[0], "0"): offset(0),
        (names[0], "1"): offset(-1),
        (names[0], "2"): offset(-1),
        (names[1], "0"): offset(1),
    }
