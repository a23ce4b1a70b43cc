"""How far subscriptions have come: statistics (5.9), and the journey of a user of them (8.2)."""

import json
from typing import Any

from tests.nakadi import BEFORE_FIRST, Nakadi, business, json_schema, offset, problem
from tests.served import until
from tests.subscribing import Subscription, filled, numbered, put, subscribe


def text_of(subscription: Subscription) -> str:
    """The statistics as clients compare them: as text."""
    return str(subscription.http.get(f"{subscription.path}/stats").text)


def test_before_it_has_begun_there_are_no_counts(nakadi: Nakadi) -> None:
    """5.3; SubscriptionAT.whenStatsOnNotInitializedSubscriptionThenCorrectResponse."""
    subscription = filled(nakadi, 2)
    partition = '{"partition":"0","state":"unassigned","stream_id":""}'
    assert (
        text_of(subscription)
        == f'{{"items":[{{"event_type":"{subscription.event_types[0]}","partitions":[{partition}]}}]}}'
    )


def test_what_is_not_committed_is_counted(nakadi: Nakadi) -> None:
    """0.2, 5.9; HilaAT.testGetSubscriptionStat: 15, and after offset 9 5; compared as text."""
    subscription = filled(nakadi, 15)
    with subscription.stream(max_uncommitted_events=20) as consumer:
        found = consumer.batches(15)
        partition = (
            '{"partition":"0","state":"assigned","unconsumed_events":%d,'
            f'"stream_id":"{consumer.id}","assignment_type":"auto"}}'
        )
        wanted = f'{{"items":[{{"event_type":"{subscription.event_types[0]}","partitions":[{partition}]}}]}}'
        assert text_of(subscription) == wanted % 15
        consumer.done(found[9])
        assert text_of(subscription) == wanted % 5


def test_one_that_was_asked_for_is_direct(nakadi: Nakadi) -> None:
    """5.9; HilaAT.testGetSubscriptionStatWhenDirectAssignment."""
    subscription = filled(nakadi, 15, partitions=2)
    with subscription.stream(partitions=[1]) as consumer:
        assert subscription.partitions() == [
            {"partition": "0", "state": "unassigned", "unconsumed_events": 15, "stream_id": ""},
            {
                "partition": "1",
                "state": "assigned",
                "unconsumed_events": 15,
                "stream_id": consumer.id,
                "assignment_type": "direct",
            },
        ]


def test_each_event_type_has_an_item(nakadi: Nakadi) -> None:
    """5.9; HilaAT.testSubscriptionStatsMultiET: 1 and 2, sorted by name."""
    one, two = sorted((numbered(nakadi) for _ in range(2)), key=lambda each: each.name)
    subscription = subscribe(two, one)
    with subscription.stream():
        put(one, 0)
        put(two, 0, 1)
        found = subscription.stats()
    assert [each["event_type"] for each in found] == [one.name, two.name]
    assert [[each["unconsumed_events"] for each in item["partitions"]] for item in found] == [[1], [2]]


def test_partitions_are_sorted_by_their_text(nakadi: Nakadi) -> None:
    """5.9; before it has begun, and after."""
    subscription = filled(nakadi, 0, partitions=12)
    wanted = sorted(map(str, range(12)))
    assert [each["partition"] for each in subscription.partitions()] == wanted
    subscription.reset()
    assert [each["partition"] for each in subscription.partitions()] == wanted


def test_its_lag_is_the_age_of_what_comes_next(nakadi: Nakadi) -> None:
    """5.9: in seconds, where it is asked for; 0 where nothing comes."""
    subscription = filled(nakadi, 1, partitions=2)
    with subscription.stream() as consumer:
        consumer.done(next(each for each in consumer.batches(2) if each.partition == "0"))

        def lags() -> list[int]:
            [item] = subscription.stats(show_time_lag="true")
            return [each["consumer_lag_seconds"] for each in item["partitions"]]

        until(lambda: lags()[1] >= 1)
        assert lags()[0] == 0
        members = list(json.loads(nakadi.http.get(f"{subscription.path}/stats/?show_time_lag=true").text)["items"][0])
        assert members == ["event_type", "partitions"]
        [item] = subscription.stats(show_time_lag="true")
        names = ["partition", "state", "unconsumed_events", "consumer_lag_seconds", "stream_id", "assignment_type"]
        assert [list(each) for each in item["partitions"]] == [names] * 2
        [item] = subscription.stats(show_time_lag="false")
        assert all("consumer_lag_seconds" not in each for each in item["partitions"])
    problem(nakadi.http.get(f"{subscription.path}/stats", params={"show_time_lag": "maybe"}), 400)


def test_a_partition_on_its_way_to_another_stream_is_reassigning(nakadi: Nakadi) -> None:
    """5.8, 5.9: its owner keeps it until it has committed."""
    subscription = filled(nakadi, 1, partitions=2)
    with subscription.stream() as one:
        found = one.batches(2)
        with subscription.stream() as other:
            moving = next(each for each in subscription.partitions() if each["state"] != "assigned")
            assert (moving["state"], moving["stream_id"]) == ("reassigning", one.id)
            one.done(*found)
            until(lambda: subscription.owners().keys() == {one.id, other.id})


def light(subscription: Subscription) -> list[dict[str, Any]]:
    name = subscription.event_types[0]
    items = subscription.http.get("/subscriptions", params={"event_type": name, "show_status": "true"}).json()["items"]
    [found] = [each["status"] for each in items if each["id"] == subscription.id]
    status: list[dict[str, Any]] = found
    return status


def test_a_list_says_who_has_what_without_counts(nakadi: Nakadi) -> None:
    """5.9; SubscriptionAT.whenLightStatsOnActiveSubscriptionThenCorrectResponse."""
    subscription = filled(nakadi, 15)
    with subscription.stream() as consumer:
        partition = {"partition": "0", "state": "assigned", "stream_id": consumer.id, "assignment_type": "auto"}
        assert light(subscription) == [{"event_type": subscription.event_types[0], "partitions": [partition]}]


def test_a_list_says_of_each_event_type_its_own_partitions(nakadi: Nakadi) -> None:
    """11, no. 14."""
    one, two = numbered(nakadi, 1), numbered(nakadi, 3)
    subscription = subscribe(one, two)
    with subscription.stream():
        counts = {item["event_type"]: len(item["partitions"]) for item in light(subscription)}
    assert counts == {one.name: 1, two.name: 3}


def test_the_journey_of_a_user(nakadi: Nakadi) -> None:
    """8.2; UserJourneyAT.userJourneyHila."""
    created = nakadi.create(category="business", schema=json_schema('{"properties":{"foo":{"type":"string"}}}'))
    for number in range(4):
        created.publish(business(foo=f"bar{number}"))
    subscription = subscribe(created)
    with subscription.stream(batch_flush_timeout=30) as consumer:
        found = consumer.batches(4)
        assert [each.debug for each in found] == ["Stream started", None, None, None]
        assert [each.offset for each in found] == [offset(number) for number in range(4)]
        assert [[event["foo"] for event in each.events or []] for each in found] == [[f"bar{n}"] for n in range(4)]
        [partition] = subscription.stats(show_time_lag="true")[0]["partitions"]
        assert (partition["unconsumed_events"], partition["consumer_lag_seconds"] >= 0) == (4, True)
        assert subscription.committed() == [BEFORE_FIRST]
        consumer.done(found[3])
        [partition] = subscription.stats(show_time_lag="true")[0]["partitions"]
        assert (partition["unconsumed_events"], partition["consumer_lag_seconds"]) == (0, 0)
        assert subscription.committed() == [offset(3)]
        subscription.drop()
