"""Idempotent publishing without I/O: the requests, their order, and the results of their answers."""

from typing import Any

import pytest

from penstock.client.http.exchanges import RetryPolicy
from penstock.client.log.publishing import Event
from penstock.client.producers.options import PartitionPublishingOptions, PublishResult
from penstock.core.producers import OffsetRange
from penstock.errors import (
    BadParameter,
    Forbidden,
    InvalidEvent,
    OutOfSequence,
    PenstockError,
    ProducerFenced,
    RetriesExhausted,
    ServerError,
    Unavailable,
)
from penstock.wire import producers as wire
from tests.unit.client.play import AWAY, CATEGORY, LOST, Play, producer_reply, stored_reply, unsafe
from tests.unit.wire.script import Reply, problem


def test_producer_claims_its_partition_once_and_publishes() -> None:
    play = Play(producer_reply(), CATEGORY, stored_reply(4, 5), stored_reply(6, 6))

    assert play.send({"n": 1}, {"n": 2}) == PublishResult(3, 0, 0, 2, (OffsetRange(4, 5),), duplicate=False, attempts=1)
    assert play.send({"n": 3}).first_sequence == 2

    assert play.asked == ["PUT /partitions/3/producers/g", "GET ", *["POST /partitions/3/events"] * 2]
    batch = play.script.requests[2]
    assert batch.body == b'{"data":{"n":1}}\n{"data":{"n":2}}\n'
    assert {name: batch.headers[name] for name in (wire.GROUP, wire.EPOCH, wire.SEQUENCE)} == {
        "Producer-Group": "g",
        "Producer-Epoch": "0",
        "Producer-Sequence": "0",
    }
    assert batch.headers["content-type"] == "application/x-ndjson"
    assert (batch.timeout, play.state.next, play.state.last_offset) == (5.0, 3, 6)


@pytest.mark.parametrize(
    ("traits", "claim"),
    [
        ({}, {}),
        ({"pinned": True}, {"pinned": True}),
        ({"options": PartitionPublishingOptions(epoch=0)}, {"epoch": 0}),
        (
            {"options": PartitionPublishingOptions(epoch=2, starting_sequence=9)},
            {"epoch": 2, "starting_sequence": 9},
        ),
    ],
    ids=["default", "pinned", "epoch", "epoch and number"],
)
def test_claim_has_the_producers_options(traits: dict[str, Any], claim: dict[str, Any]) -> None:
    play = Play(producer_reply(epoch=2, next_sequence=9), CATEGORY, stored_reply(0, 0), **traits)

    assert play.send({}).first_sequence == 9

    asked = play.bodies[0]
    assert asked.pop("claim_id")
    assert asked == claim


def test_producer_without_a_group_is_given_one() -> None:
    play = Play(producer_reply(producer_group="new"), CATEGORY, stored_reply(0, 0), group=None)

    play.send({})

    assert (play.asked[0], play.protocol.group) == ("POST /partitions/3/producers", "new")
    assert play.script.requests[2].headers[wire.GROUP] == "new"


def test_repeated_request_has_the_same_bytes() -> None:
    busy = Reply(503, b"", {"retry-after": "2"})
    play = Play(AWAY, producer_reply(), CATEGORY, LOST, busy, stored_reply(0, 0, outcome="duplicate"))

    result = play.send({"n": 1})

    assert (result.duplicate, result.attempts) == (True, 3)
    claims, batches = play.script.requests[:2], play.script.requests[3:]
    assert len({each.body for each in claims}) == 1
    assert len({(each.body, tuple(each.headers.items())) for each in batches}) == 1
    assert 2.0 <= play.script.seconds[2] <= 3.0


@pytest.mark.parametrize(
    ("replies", "kind", "outcome"),
    [
        ([problem(422, "invalid-event", line=1, reason="r")], InvalidEvent, "not_stored"),
        ([LOST, problem(422, "invalid-event", line=1, reason="r")], InvalidEvent, "unknown"),
        ([AWAY, AWAY, AWAY], RetriesExhausted, "not_stored"),
        ([AWAY, LOST, AWAY], RetriesExhausted, "unknown"),
        ([Reply(401), Reply(401)], ServerError, "not_stored"),
        ([Reply(200, b"<html>"), Reply(401), problem(403, "forbidden")], Forbidden, "unknown"),
        ([Reply(500), Reply(500), Reply(500)], RetriesExhausted, "unknown"),
        ([unsafe(412, "producer-fenced", False, current_epoch=1)], ProducerFenced, "not_stored"),
        ([LOST, unsafe(412, "producer-fenced", None, current_epoch=9)], ProducerFenced, "unknown"),
        ([unsafe(409, "sequence-too-old", None)], OutOfSequence, "unknown"),
    ],
    ids=[
        "refused", "refused after a loss", "away", "away after a loss", "unauthorized twice", "another server", "500",
        "fenced", "fenced long ago", "too old",
    ],
)  # fmt: skip
def test_error_says_if_the_batch_may_be_stored(replies: list[Any], kind: type[PenstockError], outcome: str) -> None:
    play = Play(producer_reply(), CATEGORY, *replies)
    event = Event({"n": 1})

    with pytest.raises(kind) as failed:
        play.send(event)

    assert (failed.value.outcome, failed.value.fields["partition"]) == (outcome, 3)
    assert event.published_sequence is None
    assert (play.state.next, play.script.replies) == (0, [])


@pytest.mark.parametrize("replies", [(), (producer_reply(), CATEGORY)], ids=["a claim", "a batch"])
def test_attempts_are_limited_by_the_retry_policy(replies: tuple[Reply, ...]) -> None:
    play = Play(*replies, *[problem(503, "unavailable")] * 3, retry=RetryPolicy(max_attempts=3, max_delay_seconds=0.2))

    with pytest.raises(Unavailable):
        play.send({"n": 1})

    assert play.script.replies == []
    assert max(play.script.seconds) <= 0.2


def test_plain_value_in_doubt_is_known_again_after_an_unsent_attempt() -> None:
    value = {"n": 1}
    play = Play(producer_reply(), CATEGORY, AWAY, LOST, AWAY)
    with pytest.raises(RetriesExhausted):
        play.send(value)

    assert play.then(producer_reply(next_sequence=1), stored_reply(4, 4, outcome="duplicate")).send(value).offsets == (
        OffsetRange(4, 4),
    )
    assert play.asked == ["GET /partitions/3/producers/g", "POST /partitions/3/events"]


def test_fenced_producer_learns_that_its_batch_is_stored() -> None:
    play = Play(producer_reply(), CATEGORY, LOST, unsafe(412, "producer-fenced", True, (8, 8), current_epoch=1))
    event = Event({})

    assert play.send(event).offsets == (OffsetRange(8, 8),)

    assert (event.published_offset, play.state.status) == (8, "failed")
    with pytest.raises(ProducerFenced):
        play.send({})


def test_delivery_timeout_beyond_the_hubs_memory_is_refused_unless_pinned() -> None:
    play = Play(producer_reply(expires_after_seconds=599.0))

    with pytest.raises(BadParameter, match=r"at most 299\.5: half of the time"):
        play.send({}, limit=("delivery_timeout", 300.0))

    assert play.state.status == "new"
    pinned = Play(producer_reply(expires_after_seconds=599.0, expires_at=None), CATEGORY, stored_reply(0, 0))
    assert pinned.send({}, limit=("delivery_timeout", 300.0)).count == 1


def test_timeout_of_a_call_beyond_the_hubs_memory_is_refused() -> None:
    play = Play(producer_reply(expires_after_seconds=600.0), CATEGORY, stored_reply(0, 0))
    assert play.send({}, limit=("timeout", 300.0)).count == 1

    with pytest.raises(BadParameter) as refused:
        play.send({}, limit=("timeout", 300.1))

    assert (refused.value.parameter, refused.value.value) == ("timeout", 300.1)
