"""Which stream of a subscription gets which partition: slots, even shares, and direct assignment.

Of two that race for one place exactly one gets it, where Nakadi may refuse both.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2
import pytest

from penstock.testing.live_hub import LiveHub, live_hub
from tests.conformance.nakadi.hubs import refuses
from tests.nakadi import Nakadi, offset
from tests.producing import together
from tests.scenes import scene
from tests.served import client_of, until
from tests.subscribing import Batch, Consumer, Subscription, event_type_of, filled, put

ALL = {str(number) for number in range(8)}
WIDE = {"max_uncommitted_events": 100, "batch_flush_timeout": 30}


def publish(subscription: Subscription, *numbers: int, partitions: int = 8) -> None:
    """Publish events of these numbers to each partition."""
    for number in range(partitions):
        put(event_type_of(subscription), *numbers, partition=number)


def shares(subscription: Subscription, *consumers: Consumer) -> list[set[str]]:
    """Return the partitions of each stream, once each has its own."""
    owners: dict[str, set[str]] = {}

    def is_shared() -> bool:
        owners.clear()
        owners.update(subscription.owners())
        return owners.keys() == {each.id for each in consumers}

    until(is_shared)
    return [owners[each.id] for each in consumers]


def numbers_of(batches: list[Batch]) -> dict[str, list[int]]:
    """Return the numbers of events by partition, in the order in which they came."""
    found: dict[str, list[int]] = {}
    for each in batches:
        found.setdefault(each.partition, []).extend(each.numbers)
    return found


# Even shares


def test_partitions_are_shared_evenly_and_go_on_after_committed_offsets(nakadi: Nakadi) -> None:
    """HilaRebalanceAT.whenRebalanceThenPartitionsAreEquallyDistributedAndCommittedOffsetsAreConsidered: 8, 4/4, 8."""
    subscription = filled(nakadi, 5, partitions=8)
    with subscription.stream(**WIDE) as one:
        found = one.batches(40)
        assert numbers_of(found) == {each: [0, 1, 2, 3, 4] for each in ALL}
        one.done(*(each for each in found if each.numbers == [4]))
        with subscription.stream(stream_limit=20, **WIDE) as other:
            first, second = shares(subscription, one, other)
            assert (len(first), len(second), first | second) == (4, 4, ALL)
            publish(subscription, *range(5, 10))
            for consumer, own in ((one, first), (other, second)):
                found = consumer.batches(20)
                assert numbers_of(found) == {each: [5, 6, 7, 8, 9] for each in own}
                consumer.done(*(each for each in found if each.numbers == [9]))
            assert other.reason() == "Stream limit in events reached: 20"
        assert shares(subscription, one) == [ALL]
        publish(subscription, 10)
        assert numbers_of(one.batches(8)) == {each: [10] for each in ALL}
    assert set(subscription.committed()) == {offset(9)}


def test_third_stream_takes_as_few_partitions_as_an_even_share_needs(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 0, partitions=8)
    with subscription.stream(**WIDE) as one, subscription.stream(**WIDE) as other:
        first, second = shares(subscription, one, other)
        with subscription.stream(**WIDE) as third:
            left, right, new = shares(subscription, one, other, third)
            assert sorted(map(len, (left, right, new))) == [2, 3, 3]
            assert left < first
            assert right < second
            assert new == (first - left) | (second - right)


@scene
def test_uncommitted_events_come_again_to_the_new_owner_after_the_commit_timeout(nakadi: Nakadi) -> None:
    """HilaRebalanceAT.whenNotCommittedThenEventsAreReplayedAfterRebalance."""
    subscription = filled(nakadi, 3, partitions=2)
    with subscription.stream(commit_timeout=2, **WIDE) as one:
        assert set(numbers_of(one.batches(6))) == {"0", "1"}
        with subscription.stream(**WIDE) as other:
            assert one.reason() in {"Commit timeout reached", "A partition was reassigned and not committed in time"}
            assert numbers_of(other.batches(6)) == {"0": [0, 1, 2], "1": [0, 1, 2]}


# Direct assignment


def test_direct_streams_get_their_partitions_and_the_others_share_the_rest(nakadi: Nakadi) -> None:
    """HilaRebalanceAT.whenMixedStreamsThenPartitionsAssignedCorrectly: 6 and 7 are direct; 3 and 3 are left.

    And whenDirectlyRequestPartitionsTheyAssignedCorrectly, testCommitWhenDirectAssignment.
    """
    subscription = filled(nakadi, 0, partitions=8)
    with ExitStack() as stack:
        autos = [stack.enter_context(subscription.stream(**WIDE)) for _ in range(2)]
        directs = [stack.enter_context(subscription.stream(partitions=[each], **WIDE)) for each in (6, 7)]
        owned = shares(subscription, *autos, *directs)
        assert owned[2:] == [{"6"}, {"7"}]
        assert [len(each) for each in owned[:2]] == [3, 3]
        types = {each["partition"]: each["assignment_type"] for each in subscription.partitions()}
        assert types == dict.fromkeys(ALL, "auto") | {"6": "direct", "7": "direct"}
        publish(subscription, 0, 1)
        for consumer, own, count in zip([*autos, *directs], owned, (6, 6, 2, 2), strict=True):
            found = consumer.batches(count)
            assert numbers_of(found) == {each: [0, 1] for each in own}
            consumer.done(*found)
    assert subscription.committed() == [offset(1)] * 8


def test_direct_stream_takes_a_partition_and_gives_it_back_at_its_end(nakadi: Nakadi) -> None:
    """HilaRebalanceAT.checkDirectAssignmentCorrectlyCapturesAndReleasesPartition."""
    subscription = filled(nakadi, 0, partitions=2)
    with subscription.stream(**WIDE) as auto:
        assert shares(subscription, auto) == [{"0", "1"}]
        with subscription.stream(partitions=[1], stream_limit=1, **WIDE) as direct:
            assert shares(subscription, auto, direct) == [{"0"}, {"1"}]
            publish(subscription, 0, partitions=2)
            assert numbers_of([auto.batch()]) == {"0": [0]}
            batch = direct.batch()
            assert numbers_of([batch]) == {"1": [0]}
            direct.done(batch)
            direct.rest()
        assert shares(subscription, auto) == [{"0", "1"}]
        publish(subscription, 1, partitions=2)
        assert numbers_of(auto.batches(2)) == {"0": [1], "1": [1]}


def test_stream_whose_partition_was_taken_waits_and_gets_it_back(nakadi: Nakadi) -> None:
    """A stream that gets none ends after twice its commit timeout: see test_subscription_clock.py."""
    subscription = filled(nakadi, 0)
    with subscription.stream(**WIDE) as auto:
        with subscription.stream(partitions=[0], **WIDE) as direct:
            assert shares(subscription, direct) == [{"0"}]
        assert shares(subscription, auto) == [{"0"}]
        put(event_type_of(subscription), 0)
        assert auto.batch().numbers == [0]


# Slots


def test_request_beyond_the_slots_is_answered_409_in_nakadis_words(strict: Nakadi) -> None:
    """HilaAT.whenThereAreNoEmptySlotsThenConflict."""
    subscription = filled(strict, 0)
    with subscription.stream(), subscription.asked() as answer:
        answer.read()
    refuses(answer, 409, f"No free slots for streaming available for subscription {subscription.id}. Total slots: 1")


def test_direct_partitions_are_taken_once_and_leave_fewer_slots(nakadi: Nakadi) -> None:
    """HilaRebalanceAT.whenNoFreeSlotsForAutoClientThenConflict.

    And whenTwoStreamsDirectlyRequestOnePartitionThenConflict.
    """
    subscription = filled(nakadi, 0, partitions=8)
    with subscription.stream(partitions=list(range(7))), subscription.stream() as auto:
        assert subscription.refuse(409).endswith("Total slots: 8")
        detail = subscription.refuse(409, partitions=[5, 7])
        assert detail.endswith(f"has asked for partition 5 of '{event_type_of(subscription).name}'")
        assert subscription.owners()[auto.id] == {"7"}


# Several hubs on one database


@pytest.fixture(scope="module")
def other_hub(nakadi_hub: LiveHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A client of another hub on the same database."""
    log = tmp_path_factory.mktemp("other") / "hub.log"
    with live_hub(nakadi_hub.database, log=log) as hub, client_of(hub) as client:
        yield client


@contextmanager
def racing(calls: list[Callable[[ExitStack], int]]) -> Iterator[list[int]]:
    """Ask for streams at the same moment; yield the statuses while those that were admitted are open."""
    with ExitStack() as stack:
        yield together([lambda call=call: call(stack) for call in calls])


def ask(subscription: Subscription, **parameters: Any) -> Callable[[ExitStack], int]:
    return lambda stack: stack.enter_context(subscription.asked(**parameters)).status_code


RACES: dict[str, tuple[int, list[dict[str, Any]], list[int]]] = {
    "the only slot": (1, [{}] * 6, [200] + [409] * 5),
    "three slots": (3, [{}] * 6, [200] * 3 + [409] * 3),
    "one partition": (2, [{"partitions": [1]}] * 6, [200] + [409] * 5),
    "overlapping partitions": (3, [{"partitions": [0, 1]}, {"partitions": [1, 2]}] * 2, [200] + [409] * 3),
    "one slot that the others leave": (2, [{"partitions": [0]}, {}, {}, {"partitions": [0]}], [200, 200, 409, 409]),
}


@pytest.mark.parametrize("race", RACES)
def test_racing_streams_of_two_hubs_get_exactly_the_slots(nakadi: Nakadi, other_hub: httpx2.Client, race: str) -> None:
    """HilaRebalanceAT.testAtLeastOneClientGets409OnTheSamePartitionRequest: all but exactly one."""
    partitions, asked, wanted = RACES[race]
    for _ in range(3):
        here = filled(nakadi, 0, partitions=partitions)
        there = Subscription(other_hub, here.get())
        with racing([ask((here, there)[at % 2], **each) for at, each in enumerate(asked)]) as statuses:
            found = sorted(statuses)
            if race == "one slot that the others leave" and found == [200, 200, 200, 409]:
                continue  # Both that ask for none came first: their slots are taken from them, as they may be.
            assert found == wanted


def test_streams_of_two_hubs_share_partitions_and_commit_at_either(nakadi: Nakadi, other_hub: httpx2.Client) -> None:
    here = filled(nakadi, 1, partitions=2)
    there = Subscription(other_hub, here.get())
    with here.stream(**WIDE) as one:
        found = one.batches(2)
        with there.stream(**WIDE) as other:
            answer = there.commit(one.id, *found)
            assert (answer.status_code, answer.content) == (204, b""), "the tokens prove that they were sent"
            first, second = shares(here, one, other)
            assert first | second == {"0", "1"}
            publish(here, 1, partitions=2)
            assert numbers_of([one.batch()]) == {each: [1] for each in first}
            assert numbers_of([other.batch()]) == {each: [1] for each in second}


# Added partitions


def test_added_partitions_end_streams_and_are_read_from_their_beginning(nakadi: Nakadi) -> None:
    """HilaRepartitionAT.whenEventTypeRepartitionedSubscriptionStartsStreamNewPartitions.

    And shouldRepartitionTimelinedEventType, without a second timeline.
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


def test_added_partitions_leave_the_cursors_of_others_as_they_are(nakadi: Nakadi) -> None:
    """HilaRepartitionAT.testSubscriptionRepartitioningWithMultipleEventTypes, …WithSingleEventType.

    The latter is testSubscriptionRepartitioningWithSingleEventType: cursors rather than nodes of ZooKeeper.
    """
    names = filled(nakadi, 2).event_types + filled(nakadi, 2).event_types
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
