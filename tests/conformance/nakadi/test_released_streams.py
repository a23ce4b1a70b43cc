"""Released streams: their uncommitted events are sent to other streams at once."""

from contextlib import closing

import pytest

from penstock.core.registry.definition import PENSTOCK
from penstock.hub.background import system_clock
from penstock.hub.subscriptions.poison_events import PoisonEvents
from penstock.hub.subscriptions.sessions import SessionEnd, Sessions
from penstock.storage import open_store
from penstock.testing.live_hub import LiveHub
from tests.nakadi import Nakadi, problem
from tests.subscribing import Subscription, filled, told

ONE_EACH = {"batch_limit": 5, "max_uncommitted_events": 10}


def release(subscription: Subscription, stream: str, body: object = None) -> int:
    return subscription.http.post(f"{subscription.path}/streams/{stream}/release", json=body or {}).status_code


@pytest.mark.parametrize("has_left", [True, False], ids=["its client has left", "its client has not left"])
def test_released_partitions_are_free_when_the_answer_comes(nakadi: Nakadi, has_left: bool) -> None:
    subscription = filled(nakadi, 5, partitions=2)
    with subscription.stream(**ONE_EACH) as first:
        first.batches(2)
        if has_left:
            first.leave()

        assert release(subscription, first.id) == 204

        assert {each["state"] for each in subscription.partitions()} == {"unassigned"}
        if not has_left:
            assert first.reason() == "The consumer has given its partitions back"
    with subscription.stream(**ONE_EACH) as second:
        assert sorted(each.numbers for each in second.batches(2)) == [[0, 1, 2, 3, 4]] * 2
        assert subscription.commit(first.id, first.seen[0]).status_code == 422


def test_stream_with_all_committed_can_be_released(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 1)
    with subscription.stream() as consumer:
        consumer.done(consumer.batch())

        assert release(subscription, consumer.id) == 204

        assert consumer.reason() == "The consumer has given its partitions back"
        assert [each["state"] for each in subscription.partitions()] == ["unassigned"]


def test_release_is_answered_503_until_the_hub_of_the_stream_has_ended_it(nakadi: Nakadi, nakadi_hub: LiveHub) -> None:
    subscription = filled(nakadi, 1)
    with closing(open_store(nakadi_hub.database)) as store:
        busy = Sessions(store, PoisonEvents(system_clock, PENSTOCK), "a busy hub")
        stream = busy.open(subscription.id, frozenset(), batch_limit=1, commit_ms=60_000).session.id
        path = f"{subscription.path}/streams/{stream}/release"

        refused = problem(nakadi.http.post(path), 503)

        assert refused["detail"] == f"stream {stream} is to end, but its hub has not ended it yet: ask again"
        [left] = subscription.partitions()
        assert (left["state"], left["stream_id"]) == ("assigned", stream)
        busy.end(subscription.id, stream, SessionEnd({(subscription.event_types[0], 0): 1}, 60_000_000))
        [left] = subscription.partitions()
        assert (left["state"], left["stream_id"]) == ("assigned", stream), "it may still commit what it was sent"

    assert release(subscription, stream) == 204
    assert [each["state"] for each in subscription.partitions()] == ["unassigned"]


def test_partition_kept_at_a_release_can_be_committed(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 5, partitions=2)
    with subscription.stream(**ONE_EACH) as first:
        kept, other = first.batches(2)

        assert release(subscription, first.id, {"keep": [subscription.place(int(kept.partition))]}) == 204

        with subscription.stream(**ONE_EACH) as second:
            assert second.batch().place == other.place
            first.done(kept)
            second.done(second.seen[-1])
            assert [each["unconsumed_events"] for each in subscription.partitions()] == [0, 0]


def test_released_stream_is_not_found(nakadi: Nakadi) -> None:
    subscription = filled(nakadi, 1)
    with subscription.stream() as first:
        first.batch()
        assert release(subscription, first.id) == 204

        assert release(subscription, first.id) == 422


@pytest.mark.parametrize(
    ("failed", "sent"),
    [([], ["2[0, 1, 2]"] * 4), (None, ["2[0, 1, 2]", "2[0, 1, 2]", "0[0]", "0[0]"])],
    ids=["not counted", "counted"],
)
def test_release_counts_as_a_failure_unless_it_names_no_failed_partition(
    nakadi: Nakadi, failed: list[str] | None, sent: list[str]
) -> None:
    subscription = filled(nakadi, 3, annotations={"penstock/park-after-attempts": "2"})
    batches = []
    for _ in range(4):
        with subscription.stream(batch_limit=3) as stream:
            batches.append(stream.batch())
        assert release(subscription, stream.id, {} if failed is None else {"failed": failed}) == 204

    assert [each.removesuffix(" Stream started") for each in told(batches)] == sent


@pytest.mark.parametrize("member", ["keep", "failed"])
def test_release_with_an_unknown_partition_is_refused(nakadi: Nakadi, member: str) -> None:
    """A mistyped name would otherwise count nothing as failed."""
    subscription = filled(nakadi, 1)
    with subscription.stream() as consumer:
        path = f"{subscription.path}/streams/{consumer.id}/release"
        for place in (subscription.place(1), {"event_type": "no.such", "partition": "0"}):
            said = problem(subscription.http.post(path, json={member: [place]}), 422)
            assert place["event_type"] in said["detail"]
        said = problem(subscription.http.post(path, json={member: [{"event_type": "x"}]}), 422)
        assert said["detail"].startswith(f"{member}[0]")
        assert said["value"] is None
        consumer.done(consumer.batch())
