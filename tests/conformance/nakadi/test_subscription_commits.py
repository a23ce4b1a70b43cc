"""Cursors of subscriptions: committed and shown; and statistics, which count uncommitted events."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.conformance.nakadi.hubs import refuses
from tests.nakadi import BEFORE_FIRST, Nakadi, business, json_schema, offset, problem
from tests.producing import together
from tests.served import until
from tests.subscribing import (
    STREAM_ID,
    Batch,
    Consumer,
    Subscription,
    event_type_of,
    filled,
    numbered,
    put,
    subscribe,
)


def results(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    items = answer.json()["items"]
    assert all(set(each) == {"cursor", "result"} for each in items)
    return [each["result"] for each in items]


# Outcomes


def test_commit_covers_earlier_events_and_only_moves_forward(nakadi: Nakadi) -> None:
    """CursorsServiceAT.whenCommitCursorsThenTrue, whenCommitOldCursorsThenFalse, whenGetSubscriptionCursorsThenOk.

    And whenFirstCursorIsNotCommittedThenNextCursorsAreNotSkipped.
    """
    subscription = filled(nakadi, 5)
    with subscription.stream() as consumer:
        found = consumer.batches(5)
        consumer.done(found[2])
        assert subscription.committed() == [offset(2)]
        for each in found[:3]:
            answer = consumer.commit(each)
            assert results(answer) == ["outdated"]
            assert answer.json()["items"][0]["cursor"] == each.cursor
        assert results(consumer.commit(found[0], found[3])) == ["outdated", "committed"]
        assert subscription.committed() == [offset(3)]
        consumer.done(found[4])
    put(event_type_of(subscription), 5)
    with subscription.joined() as consumer:
        assert consumer.batch().numbers == [5]


@contextmanager
def handed_over(subscription: Subscription, one: Consumer) -> Iterator[tuple[Consumer, Batch]]:
    """Have a stream commit all that it was sent; yield another one, and a batch of the partition that this one gets."""
    found = one.batches(2)
    with subscription.stream() as other:
        one.done(*found)
        until(lambda: subscription.owners().keys() == {one.id, other.id})
        [theirs] = subscription.owners()[other.id]
        yield other, next(each for each in found if each.partition == theirs)


def test_repeated_commit_is_outdated_after_its_partition_was_reassigned(nakadi: Nakadi) -> None:
    """The answer to the first one may have been lost."""
    subscription = filled(nakadi, 1, partitions=2)
    with subscription.stream() as one, handed_over(subscription, one) as (other, batch):
        assert results(one.commit(batch)) == ["outdated"]
        put(event_type_of(subscription), 1, partition=int(batch.partition))
        fresh = other.batch()
        problem(one.commit(fresh), 422)
        other.done(fresh)
        assert results(one.commit(batch, fresh)) == ["outdated"] * 2
        assert sorted(subscription.committed()) == [offset(0), offset(1)]


def test_repeated_commit_is_refused_by_a_strict_hub_after_its_partition_was_reassigned(strict: Nakadi) -> None:
    """CursorsServiceAT.whenPartitionIsStreamedToDifferentClientThenFalse."""
    subscription = filled(strict, 1, partitions=2)
    with subscription.stream() as one, handed_over(subscription, one) as (_, batch):
        problem(one.commit(batch), 422)
        assert subscription.committed() == [offset(0)] * 2


def test_cursors_of_a_commit_are_applied_in_their_order(strict: Nakadi) -> None:
    """CursorsServiceAT.whenMultipleCursorsForSamePartitionThenResultsAreCorrect: ten cursors of two partitions."""
    created = numbered(strict, 2)
    put(created, *range(101))
    put(created, *range(801), partition=1)
    start = [
        {"event_type": created.name, "partition": "0", "offset": offset(100)},
        {"event_type": created.name, "partition": "1", "offset": offset(800)},
    ]
    subscription = subscribe(created, read_from="cursors", initial_cursors=start)
    given = [(0, 105), (0, 106), (0, 102), (0, 96), (0, 130), (1, 800), (1, 820), (0, 120), (0, 121), (1, 825)]
    with subscription.stream() as consumer:
        cursors = [subscription.cursor(number, partition) for partition, number in given]
        answer = consumer.commit(*cursors)
    moved = [True, True, False, False, True, False, True, False, False, True]
    assert results(answer) == ["committed" if each else "outdated" for each in moved]
    assert [each["cursor"] for each in answer.json()["items"]] == cursors
    assert subscription.committed() == [offset(130), offset(825)]


def test_beginning_is_outdated_and_the_first_event_is_committed_by_a_plain_number(nakadi: Nakadi) -> None:
    """HilaAT.whenNoEventsThenBeginOffsetIsUsed, whenCommitVeryFirstEventThenOk."""
    subscription = filled(nakadi, 0)
    with subscription.stream() as consumer:
        for text in ("BEGIN", "begin", "-1", BEFORE_FIRST):
            assert results(consumer.commit(subscription.cursor(text))) == ["outdated"]
        assert subscription.committed() == [BEFORE_FIRST]
        put(event_type_of(subscription), 0)
        consumer.batch()
        assert consumer.commit(subscription.cursor("0")).status_code == 204
    assert subscription.committed() == [offset(0)]


def test_strict_hub_commits_unsent_offsets_and_streams_go_on_after_them(strict: Nakadi) -> None:
    """SubscriptionAT.testOffsetsCommit: 25 in an empty partition is 204."""
    empty, subscription = filled(strict, 0), filled(strict, 20)
    with empty.stream() as consumer:
        assert consumer.commit(empty.cursor("25")).status_code == 204
    assert empty.committed() == [offset(25)]
    with subscription.stream(max_uncommitted_events=2) as consumer:
        assert [each.numbers for each in consumer.batches(2)] == [[0], [1]]
        assert consumer.commit(subscription.cursor(14)).status_code == 204
        assert [each.numbers for each in consumer.batches(2)] == [[15], [16]]


def test_unsent_offset_is_refused_with_all_cursors_of_the_commit(nakadi: Nakadi) -> None:
    """A token proves its own cursor alone; a cursor that this stream was sent needs none."""
    subscription = filled(nakadi, 5)
    with subscription.stream(max_uncommitted_events=1) as consumer:
        batch = consumer.batch()
        for unsent in (subscription.cursor(1), subscription.cursor(25), batch.cursor | {"offset": offset(3)}):
            found = problem(consumer.commit(batch, unsent), 422)
            assert found["type"] == "urn:penstock:problem:commit-refused"
        assert subscription.committed() == [BEFORE_FIRST]
        assert consumer.commit(batch.cursor | {"cursor_token": "nonsense"}).status_code == 204
    assert subscription.committed() == [offset(0)]


def test_concurrent_commits_move_each_position_once(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 1, partitions=8)
    with subscription.stream() as consumer:
        found = consumer.batches(8)
        answers = together([lambda each=each: consumer.commit(each) for each in found * 2])
    assert sorted(each.status_code for each in answers) == [200] * 8 + [204] * 8
    assert subscription.committed() == [offset(0)] * 8


def test_cursors_are_shown_with_a_token_each_once_the_subscription_has_begun(nakadi: Nakadi) -> None:
    """SubscriptionAT.testGetSubscriptionCursors, testGetSubscriptionCursorsEmpty."""
    subscription = filled(nakadi, 1, partitions=2)
    assert subscription.get("/cursors") == {"items": []}
    with subscription.stream() as consumer:
        consumer.done(next(each for each in consumer.batches(2) if each.partition == "1"))
        items = subscription.get("/cursors")["items"]
    assert len({str(uuid.UUID(each.pop("cursor_token"))) for each in items}) == 2
    assert items == [subscription.cursor(BEFORE_FIRST), subscription.cursor(0, partition=1)]


# Refusals


def test_commit_for_another_partition_or_subscription_is_refused(nakadi: Nakadi) -> None:
    """The partition of another stream, of no stream, and of no event type of the subscription; and another stream."""
    subscription, other = filled(nakadi, 1, partitions=3), filled(nakadi, 1)
    with subscription.stream(partitions=[0]) as one, subscription.stream(partitions=[1]) as two, other.stream():
        theirs = two.batch()
        problem(one.commit(one.batch(), theirs), 422)
        problem(one.commit(one.seen[0], subscription.cursor(0, partition=2)), 422)
        problem(one.commit(one.seen[0], subscription.cursor(0, event_type=other.event_types[0])), 422)
        problem(other.commit(one.id, other.cursor(0)), 422)
        assert (subscription.committed(), other.committed()) == ([BEFORE_FIRST] * 3, [BEFORE_FIRST])
        two.done(theirs)
        one.done(one.seen[0])


def test_commit_of_an_unknown_stream_is_refused_in_nakadis_words(strict: Nakadi) -> None:
    """CursorsServiceAT.whenStreamIdInvalidThenException."""
    subscription, stream = filled(strict, 1), str(uuid.uuid4())
    answer = subscription.commit(stream, subscription.cursor(0))
    refuses(answer, 422, f"Session with stream id {stream} not found")


def test_first_refusal_of_a_commit_is_of_the_header_then_cursors_subscription_and_stream(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 1)
    nowhere = Subscription(nakadi.http, {"id": str(uuid.uuid4()), "event_types": subscription.event_types})
    fine, wrong = subscription.cursor(0), subscription.cursor("x")
    problem(nowhere.commit(None, wrong), 400)
    problem(nowhere.commit("x", wrong), 422)
    problem(nowhere.commit("x"), 422)
    problem(nowhere.commit("x", fine), 404)
    problem(subscription.commit("x", fine), 422)
    with subscription.stream() as consumer:
        for items in ([], None):
            sent = {STREAM_ID: consumer.id}
            problem(nakadi.http.post(f"{subscription.path}/cursors", json={"items": items}, headers=sent), 422)


# Statistics


def text_of(subscription: Subscription, partition: str) -> tuple[str, str]:
    """Return the statistics as text, which clients compare, and the text that is right for one partition."""
    text = subscription.http.get(f"{subscription.path}/stats").text
    return text, f'{{"items":[{{"event_type":"{subscription.event_types[0]}","partitions":[{partition}]}}]}}'


def test_statistics_have_no_counts_before_the_subscription_has_begun(nakadi: Nakadi) -> None:
    """SubscriptionAT.whenStatsOnNotInitializedSubscriptionThenCorrectResponse."""
    shown, wanted = text_of(filled(nakadi, 2), '{"partition":"0","state":"unassigned","stream_id":""}')
    assert shown == wanted


def test_statistics_count_uncommitted_events(nakadi: Nakadi) -> None:
    """HilaAT.testGetSubscriptionStat: 15, and after offset 9 5."""
    subscription = filled(nakadi, 15)
    with subscription.stream(max_uncommitted_events=20) as consumer:
        found = consumer.batches(15)
        for count in (15, 5):
            partition = f'{{"partition":"0","state":"assigned","unconsumed_events":{count},'
            shown, wanted = text_of(subscription, f'{partition}"stream_id":"{consumer.id}","assignment_type":"auto"}}')
            assert shown == wanted
            consumer.commit(found[9])


def test_statistics_tell_direct_and_free_partitions(nakadi: Nakadi) -> None:
    """HilaAT.testGetSubscriptionStatWhenDirectAssignment."""
    subscription = filled(nakadi, 15, partitions=2)
    with subscription.stream(partitions=[1]) as consumer:
        free = {"partition": "0", "state": "unassigned", "unconsumed_events": 15, "stream_id": ""}
        direct = free | {"partition": "1", "state": "assigned", "stream_id": consumer.id}
        assert subscription.partitions() == [free, direct | {"assignment_type": "direct"}]


def test_statistics_have_an_item_for_each_event_type_sorted_by_name(nakadi: Nakadi) -> None:
    """HilaAT.testSubscriptionStatsMultiET: 1 and 2; partitions are sorted by their text."""
    one, two = sorted((numbered(nakadi, 11) for _ in range(2)), key=lambda each: each.name)
    subscription = subscribe(two, one)
    partitions = sorted(map(str, range(11)))
    assert [[each["partition"] for each in item["partitions"]] for item in subscription.stats()] == [partitions] * 2
    with subscription.stream():
        put(one, 0)
        put(two, 0, 1)
        found = subscription.stats()
    assert [each["event_type"] for each in found] == [one.name, two.name]
    assert [[each["partition"] for each in item["partitions"]] for item in found] == [partitions] * 2
    assert [sum(each["unconsumed_events"] for each in item["partitions"]) for item in found] == [1, 2]


def test_statistics_show_the_lag_in_seconds_on_request(nakadi: Nakadi) -> None:
    """The age of the next event; 0 where there is none. Ages are in test_subscription_clock.py."""
    subscription = filled(nakadi, 1, partitions=2)
    with subscription.stream() as consumer:
        consumer.done(next(each for each in consumer.batches(2) if each.partition == "0"))
        [item] = subscription.get("/stats/", show_time_lag="true")["items"]
        names = ["partition", "state", "unconsumed_events", "consumer_lag_seconds", "stream_id", "assignment_type"]
        assert [list(each) for each in item["partitions"]] == [names] * 2
        assert item["partitions"][0]["consumer_lag_seconds"] == 0 <= item["partitions"][1]["consumer_lag_seconds"]
        [item] = subscription.stats(show_time_lag="false")
        assert all("consumer_lag_seconds" not in each for each in item["partitions"])
    problem(nakadi.http.get(f"{subscription.path}/stats", params={"show_time_lag": "maybe"}), 400)


def test_partition_on_its_way_to_another_stream_is_reassigning(nakadi: Nakadi) -> None:
    """Its owner keeps it until all is committed."""
    subscription = filled(nakadi, 1, partitions=2)
    with subscription.stream() as one:
        found = one.batches(2)
        with subscription.stream() as other:
            moving = next(each for each in subscription.partitions() if each["state"] != "assigned")
            assert (moving["state"], moving["stream_id"]) == ("reassigning", one.id)
            one.done(*found)
            until(lambda: subscription.owners().keys() == {one.id, other.id})


def test_status_in_a_list_has_partitions_and_owners_without_counts(nakadi: Nakadi) -> None:
    """SubscriptionAT.whenLightStatsOnActiveSubscriptionThenCorrectResponse.

    And whenLightStatsOnNotInitializedSubscriptionThenCorrectResponse.
    """
    one, two = sorted((numbered(nakadi, count) for count in (1, 3)), key=lambda each: each.name)
    subscription = subscribe(one, two, owning_application=one.name)

    def status() -> Any:
        asked = {"owning_application": one.name, "show_status": "true"}
        [item] = nakadi.http.get("/subscriptions", params=asked).json()["items"]
        return item["status"]

    def wanted(**members: str) -> list[dict[str, Any]]:
        return [
            {
                "event_type": each.name,
                "partitions": [{"partition": at} | members for at in map(str, range(len(each.partitions())))],
            }
            for each in (one, two)
        ]

    assert status() == wanted(state="unassigned", stream_id="")
    with subscription.stream() as consumer:
        assert status() == wanted(state="assigned", stream_id=consumer.id, assignment_type="auto")


def test_journey_of_a_user_of_subscriptions(nakadi: Nakadi) -> None:
    """UserJourneyAT.userJourneyHila."""
    created = nakadi.create(category="business", schema=json_schema('{"properties":{"foo":{"type":"string"}}}'))
    for number in range(4):
        created.publish(business(foo=f"bar{number}"))
    subscription = subscribe(created)
    with subscription.stream(batch_flush_timeout=30) as consumer:
        found = consumer.batches(4)
        assert [each.debug for each in found] == ["Stream started", None, None, None]
        assert [each.offset for each in found] == [offset(number) for number in range(4)]
        assert [[event["foo"] for event in each.events or []] for each in found] == [[f"bar{n}"] for n in range(4)]
        for committed, count in ((BEFORE_FIRST, 4), (offset(3), 0)):
            [partition] = subscription.stats(show_time_lag="true")[0]["partitions"]
            assert (partition["unconsumed_events"], partition["consumer_lag_seconds"] >= 0) == (count, True)
            assert subscription.committed() == [committed]
            consumer.commit(found[3])
        subscription.drop()
