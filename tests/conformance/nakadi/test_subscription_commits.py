"""Cursors of subscriptions: committed, and shown (5.3 and 5.4)."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.nakadi import BEFORE_FIRST, Nakadi, offset, problem
from tests.served import as_new, until
from tests.subscribing import (
    STREAM_ID,
    Batch,
    Consumer,
    Subscription,
    at_once,
    event_type_of,
    filled,
    numbered,
    put,
    subscribe,
)


@pytest.fixture
def restored(nakadi: Nakadi) -> Iterator[None]:
    yield
    as_new(nakadi.http)


def results(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    items = answer.json()["items"]
    assert all(set(each) == {"cursor", "result"} for each in items)
    return [each["result"] for each in items]


# What becomes of it


def test_a_later_cursor_commits_all_before_it(nakadi: Nakadi) -> None:
    """5.4; CursorsServiceAT.whenCommitCursorsThenTrue, whenGetSubscriptionCursorsThenOk."""
    subscription = filled(nakadi, 5)
    with subscription.stream() as consumer:
        found = consumer.batches(5)
        consumer.done(found[3])
        assert subscription.committed() == [offset(3)]
        assert results(consumer.commit(found[2])) == ["outdated"]
        consumer.done(found[4])
    assert subscription.committed() == [offset(4)]


def test_what_is_not_later_is_outdated(nakadi: Nakadi) -> None:
    """5.4; CursorsServiceAT.whenCommitOldCursorsThenFalse: the same one, too."""
    subscription = filled(nakadi, 3)
    with subscription.stream() as consumer:
        found = consumer.batches(3)
        consumer.done(found[1])
        for each in (found[0], found[1]):
            answer = consumer.commit(each)
            assert results(answer) == ["outdated"]
            assert answer.json()["items"][0]["cursor"] == each.cursor
    assert subscription.committed() == [offset(1)]


@contextmanager
def handed_over(subscription: Subscription, one: Consumer) -> Iterator[tuple[Consumer, Batch]]:
    """Have a stream commit all that it was sent; yield another, and a batch of the partition that this has by now."""
    found = one.batches(2)
    with subscription.stream() as other:
        one.done(*found)
        until(lambda: subscription.owners().keys() == {one.id, other.id})
        [theirs] = subscription.owners()[other.id]
        yield other, next(each for each in found if each.partition == theirs)


def test_one_that_is_made_again_is_outdated_though_another_stream_has_its_partition_by_now(nakadi: Nakadi) -> None:
    """5.4: a decision; the answer to the first one may have been lost."""
    subscription = filled(nakadi, 1, partitions=2)
    with subscription.stream() as one, handed_over(subscription, one) as (other, batch):
        assert results(one.commit(batch)) == ["outdated"]
        put(event_type_of(subscription), 1, partition=int(batch.partition))
        fresh = other.batch()
        problem(one.commit(fresh), 422)
        other.done(fresh)
        assert results(one.commit(batch, fresh)) == ["outdated"] * 2
        assert sorted(subscription.committed()) == [offset(0), offset(1)]


def test_one_that_is_made_again_is_refused_by_a_strict_hub(strict: Nakadi) -> None:
    """5.4; CursorsServiceAT.whenPartitionIsStreamedToDifferentClientThenFalse."""
    subscription = filled(strict, 1, partitions=2)
    with subscription.stream() as one, handed_over(subscription, one) as (_, batch):
        problem(one.commit(batch), 422)
        assert subscription.committed() == [offset(0)] * 2


def test_one_that_is_outdated_does_not_stop_later_ones(nakadi: Nakadi) -> None:
    """5.4; CursorsServiceAT.whenFirstCursorIsNotCommittedThenNextCursorsAreNotSkipped."""
    subscription = filled(nakadi, 3)
    with subscription.stream() as consumer:
        found = consumer.batches(3)
        consumer.done(found[1])
        assert results(consumer.commit(found[0], found[2])) == ["outdated", "committed"]
    assert subscription.committed() == [offset(2)]


def test_cursors_are_applied_in_their_order(strict: Nakadi) -> None:
    """5.4; CursorsServiceAT.whenMultipleCursorsForSamePartitionThenResultsAreCorrect: ten cursors of two partitions."""
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


def test_the_first_event_is_committed_by_a_plain_number(nakadi: Nakadi) -> None:
    """4.1, 5.4; HilaAT.whenCommitVeryFirstEventThenOk."""
    subscription = filled(nakadi, 1)
    with subscription.stream() as consumer:
        consumer.batch()
        answer = consumer.commit(subscription.cursor("0"))
        assert (answer.status_code, answer.content) == (204, b"")
    assert subscription.committed() == [offset(0)]


def test_the_beginning_is_outdated_where_nothing_is_committed(nakadi: Nakadi) -> None:
    """5.3, 5.4; HilaAT.whenNoEventsThenBeginOffsetIsUsed: cursors are at -1; BEGIN is 200."""
    subscription = filled(nakadi, 0)
    with subscription.stream() as consumer:
        assert subscription.committed() == [BEFORE_FIRST]
        for text in ("BEGIN", "begin", "-1", BEFORE_FIRST):
            assert results(consumer.commit(subscription.cursor(text))) == ["outdated"]
    assert subscription.committed() == [BEFORE_FIRST]


def test_an_offset_far_beyond_is_taken_by_a_strict_hub(strict: Nakadi) -> None:
    """5.4; SubscriptionAT.testOffsetsCommit: -1 is 200, 25 in an empty partition is 204."""
    subscription = filled(strict, 0)
    with subscription.stream() as consumer:
        assert results(consumer.commit(subscription.cursor("-1"))) == ["outdated"]
        assert consumer.commit(subscription.cursor("25")).status_code == 204
    assert subscription.committed() == [offset(25)]


def test_a_stream_goes_on_behind_what_was_committed_beyond_it(strict: Nakadi) -> None:
    """5.4: a strict hub jumps."""
    subscription = filled(strict, 20)
    with subscription.stream(max_uncommitted_events=2) as consumer:
        assert [each.numbers for each in consumer.batches(2)] == [[0], [1]]
        assert consumer.commit(subscription.cursor(14)).status_code == 204
        assert [each.numbers for each in consumer.batches(2)] == [[15], [16]]


@pytest.mark.parametrize("number", [1, 25])
def test_an_offset_that_was_not_sent_is_refused_by_others(nakadi: Nakadi, number: int) -> None:
    """11, no. 12; a decision: whether it is there already or not."""
    subscription = filled(nakadi, 5)
    with subscription.stream(max_uncommitted_events=1) as consumer:
        batch = consumer.batch()
        found = problem(consumer.commit(batch, subscription.cursor(number)), 422)
        assert found["type"] == "urn:penstock:problem:commit-refused"
        assert subscription.committed() == [BEFORE_FIRST], "all of a request, or none of it"
        consumer.done(batch)


def test_a_token_proves_its_own_cursor_alone(nakadi: Nakadi) -> None:
    """A decision: it is not taken for another one."""
    subscription = filled(nakadi, 5)
    with subscription.stream(max_uncommitted_events=1) as consumer:
        batch = consumer.batch()
        problem(consumer.commit(batch.cursor | {"offset": offset(3)}), 422)
        assert consumer.commit(batch.cursor | {"cursor_token": "nonsense"}).status_code == 204, "it was sent here"
    assert subscription.committed() == [offset(0)]


def test_a_commit_is_seen_by_whoever_comes_next(nakadi: Nakadi) -> None:
    """5.7; HilaAT.whenOffsetIsCommittedNextSessionStartsFromNextEventAfterCommitted: from after it on."""
    subscription = filled(nakadi, 4)
    with subscription.stream() as consumer:
        consumer.done(consumer.batches(2)[1])
        consumer.done(consumer.batches(2)[0])
        consumer.done(consumer.seen[3])
    put(event_type_of(subscription), 4)
    with subscription.joined() as consumer:
        assert consumer.batch().numbers == [4]


def test_many_commits_at_once_are_all_told_what_became_of_them(nakadi: Nakadi) -> None:
    """5.4: each position moves forward alone, whoever is first."""
    subscription = filled(nakadi, 1, partitions=8)
    with subscription.stream() as consumer:
        found = consumer.batches(8)
        answers = at_once([lambda each=each: consumer.commit(each) for each in found * 2])
    assert sorted(each.status_code for each in answers) == [200] * 8 + [204] * 8
    assert subscription.committed() == [offset(0)] * 8


# Cursors that are shown


def test_cursors_are_shown_as_they_were_committed(nakadi: Nakadi) -> None:
    """5.3; SubscriptionAT.testGetSubscriptionCursors: of all partitions, with a token each."""
    subscription = filled(nakadi, 1, partitions=2)
    with subscription.stream() as consumer:
        batch = next(each for each in consumer.batches(2) if each.partition == "1")
        consumer.done(batch)
        items = subscription.get("/cursors")["items"]
    name = subscription.event_types[0]
    tokens = [each.pop("cursor_token") for each in items]
    assert items == [
        {"partition": "0", "offset": BEFORE_FIRST, "event_type": name},
        {"partition": "1", "offset": offset(0), "event_type": name},
    ]
    assert len({str(uuid.UUID(token)) for token in tokens}) == 2


def test_there_are_no_cursors_before_it_has_begun(nakadi: Nakadi) -> None:
    """5.3; SubscriptionAT.testGetSubscriptionCursorsEmpty."""
    assert filled(nakadi, 1).get("/cursors") == {"items": []}


# What is refused


def test_the_stream_has_to_be_named(nakadi: Nakadi) -> None:
    """5.4: 400."""
    subscription = filled(nakadi, 1)
    problem(subscription.commit(None, subscription.cursor(0)), 400)


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b'{"items":{}}', b'{"items":["0"]}', b'{"items":[{"offset":{}}]}'])
def test_a_body_that_cannot_be_read_is_answered_400(nakadi: Nakadi, body: bytes) -> None:
    """5.4."""
    subscription = filled(nakadi, 1)
    headers = {STREAM_ID: str(uuid.uuid4()), "Content-Type": "application/json"}
    problem(nakadi.http.post(f"{subscription.path}/cursors", content=body, headers=headers), 400)


def test_a_stream_that_is_not_there_cannot_commit(strict: Nakadi) -> None:
    """5.4; CursorsServiceAT.whenStreamIdInvalidThenException: Nakadi's text."""
    subscription = filled(strict, 1)
    stream = str(uuid.uuid4())
    answer = subscription.commit(stream, subscription.cursor(0))
    detail = f"Session with stream id {stream} not found"
    assert (answer.status_code, answer.json()) == (
        422,
        {"title": "Unprocessable Entity", "status": 422, "detail": detail},
    )


def test_the_id_of_a_stream_is_a_uuid(nakadi: Nakadi) -> None:
    """5.4; CursorsServiceAT.shouldThrowInvalidStreamIdWhenStreamIdIsNotUUID."""
    subscription = filled(nakadi, 1)
    for stream in ("x", "/", "not-a-uuid-at-all"):
        problem(subscription.commit(stream, subscription.cursor(0)), 422)


def test_a_stream_of_another_subscription_is_none(nakadi: Nakadi) -> None:
    """5.4."""
    one = filled(nakadi, 1)
    other = subscribe(event_type_of(one))
    with one.stream() as consumer, other.stream():
        batch = consumer.batch()
        problem(other.commit(consumer.id, batch), 422)
        assert other.committed() == [BEFORE_FIRST]


def test_a_partition_of_another_stream_cannot_be_committed(nakadi: Nakadi) -> None:
    """5.4; CursorsServiceAT.whenPartitionIsStreamedToDifferentClientThenFalse: 422, and the offset stays."""
    subscription = filled(nakadi, 1, partitions=2)
    with subscription.stream(partitions=[0]) as one, subscription.stream(partitions=[1]) as other:
        batch = other.batch()
        problem(one.commit(one.batch(), batch), 422)
        assert subscription.committed() == [BEFORE_FIRST] * 2
        other.done(batch)
        one.done(one.seen[0])


def test_a_partition_that_nobody_has_cannot_be_committed(nakadi: Nakadi) -> None:
    """5.4."""
    subscription = filled(nakadi, 1, partitions=2)
    with subscription.stream(partitions=[0]) as consumer:
        problem(consumer.commit(subscription.cursor(0, partition=1)), 422)


Wrong = list[dict[str, Any]]


@pytest.mark.parametrize(
    "change",
    [
        {"event_type": "no.such"},
        {"event_type": None},
        {"partition": None},
        {"partition": "9"},
        {"partition": "x"},
        {"offset": None},
        {"offset": "x"},
        {"offset": ""},
        {"offset": "001-0002-000000000000000000"},
        {"offset": "002-0001-000000000000000000"},
    ],
    ids=str,
)
def test_a_cursor_that_is_none_is_answered_422(nakadi: Nakadi, strict: Nakadi, change: dict[str, Any]) -> None:
    """5.4: also an event type that there is not."""
    for hub in (nakadi, strict):
        subscription = filled(hub, 1)
        with subscription.stream() as consumer:
            wrong = {name: value for name, value in (consumer.batch().cursor | change).items() if value is not None}
            problem(consumer.commit(consumer.seen[0], wrong), 422)
            consumer.done(consumer.seen[0])


def test_an_event_type_of_another_subscription_is_answered_422(nakadi: Nakadi) -> None:
    """5.4."""
    one, other = filled(nakadi, 1), filled(nakadi, 1)
    with one.stream() as consumer:
        problem(consumer.commit(one.cursor(0, event_type=other.event_types[0])), 422)


@pytest.mark.parametrize("items", [[], None], ids=["none", "null"])
def test_something_has_to_be_committed(nakadi: Nakadi, items: list[Any] | None) -> None:
    """5.4: 422."""
    subscription = filled(nakadi, 1)
    with subscription.stream() as consumer:
        path, headers = f"{subscription.path}/cursors", {STREAM_ID: consumer.id}
        problem(nakadi.http.post(path, json={"items": items}, headers=headers), 422)


def test_who_is_blocked_cannot_commit(nakadi: Nakadi, restored: None) -> None:
    """5.4, 7."""
    subscription = filled(nakadi, 1)
    path = f"/settings/blacklist/CONSUMER_ET/{subscription.event_types[0]}"
    with subscription.stream() as consumer:
        batch = consumer.batch()
        assert nakadi.http.put(path).status_code == 204
        problem(consumer.commit(batch), 403)


def test_what_is_wrong_is_told_in_this_order(nakadi: Nakadi) -> None:
    """5.4: header and JSON, cursors, whether there are any, the subscription, the stream."""
    subscription = filled(nakadi, 1)
    nowhere = Subscription(nakadi.http, {"id": str(uuid.uuid4()), "event_types": subscription.event_types})
    fine, wrong = subscription.cursor(0), subscription.cursor("x")
    problem(nowhere.commit(None, wrong), 400)
    problem(nowhere.commit("x", wrong), 422)
    problem(nowhere.commit("x"), 422)
    problem(nowhere.commit("x", fine), 404)
    problem(subscription.commit("x", fine), 422)


def test_a_lease_is_of_a_stream_that_is_there(nakadi: Nakadi) -> None:
    """A decision."""
    subscription = filled(nakadi, 1)
    for stream in (str(uuid.uuid4()), "x"):
        problem(nakadi.http.post(f"{subscription.path}/streams/{stream}/lease"), 422)
