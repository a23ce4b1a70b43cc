import json
from typing import Any

import pytest

from penstock.client.producer_options import RetryPolicy
from penstock.client.stream_options import StreamWish
from penstock.client.streaming import GIVEN_BACK, StreamBegan, StreamEnded, Streaming
from penstock.client.subscription_batch import SubscriptionBatch
from penstock.errors import (
    CommitRefused,
    ConnectionLost,
    MalformedAnswer,
    NoFreeSlots,
    PenstockError,
    StreamNotFound,
    SubscriptionNotFound,
    Unreachable,
)
from penstock.wire.exchange import MORE, Head
from tests.unit.client.batches import batch, text
from tests.unit.wire.script import Reply, Script, problem

AWAY = Unreachable(url="u", reason="refused")
LOST = ConnectionLost(url="u", reason="reset")
DEFINITION = {"owning_application": "shop", "event_types": ["a.b"]}
NO_SLOTS = problem(409, "no-free-slots", subscription="x", slots=1)


def stream(id: str, *lines: bytes, **others: Any) -> Reply:
    return Reply(200, b"".join(lines), {"x-nakadi-streamid": id}, **others)


def end(reason: str) -> bytes:
    return text(count=0, debug=reason)


def play(
    *replies: Reply | PenstockError,
    pages: int | None = None,
    subscription: Any = "x",
    wish: StreamWish | None = None,
    reconnect: bool = True,
    **others: Any,
) -> Script:
    script = Script(*replies)
    streaming = streaming_of(script, subscription, wish, **others)
    script.play(streaming.run(reconnect=reconnect), pages=pages)
    return script


def streaming_of(script: Script, subscription: Any = "x", wish: StreamWish | None = None, **others: Any) -> Streaming:
    options: dict[str, Any] = {"retry": RetryPolicy(), "patience": 0.0, "clock": script.clock} | others
    return Streaming("http://s", subscription, wish or StreamWish(), **options)


def told(script: Script) -> list[Any]:
    """What was handed on: the numbers of events, and streams as they are."""
    return [
        [event.data["n"] for event in each.events] if isinstance(each, SubscriptionBatch) else each
        for each in script.pages
    ]


def test_batches_come_between_a_stream_s_beginning_and_its_end() -> None:
    script = play(
        stream(
            "s1", text(last=1, count=2, debug="Stream started"), text(1, count=0), text(1, last=0), end("Time over")
        ),
        reconnect=False,
    )

    assert told(script) == [StreamBegan("s1"), [0, 1], [0], StreamEnded("s1", "Time over")]
    [request] = script.requests
    assert (request.method, request.url) == ("POST", "http://s/subscriptions/x/events")
    assert json.loads(request.body or b"") == StreamWish().members()
    assert request.wait == 120.0
    assert [each.stream_id for each in script.pages[1:3]] == ["s1", "s1"]


def test_the_next_stream_begins_at_once_where_one_has_brought_something() -> None:
    script = play(
        stream("s1", text(), end("Stream timeout reached")), stream("s2", text(last=1), end("Stream timeout reached")),
        pages=6,
    )  # fmt: skip

    assert told(script)[3:] == [StreamBegan("s2"), [1], StreamEnded("s2", "Stream timeout reached")]
    assert script.pauses == []


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (stream("s1", lost=LOST), "The connection was lost: reset"),
        (stream("s1", b'{"curs'), "The connection was lost: it broke off in the middle of a line"),
        (stream("s1"), "The hub did not say why"),
        (stream("s1", text(count=0, debug="Stream started")), "The hub did not say why"),
        (stream("s1", end("No partition was free")), "No partition was free"),
    ],
    ids=["lost", "cut in a line", "silent", "a sign of life", "told"],
)
def test_whichever_way_a_stream_ends_the_next_one_begins_after_a_pause(reply: Reply, reason: str) -> None:
    script = play(reply, stream("s2", text()), pages=4)

    assert told(script)[2:] == [StreamBegan("s2"), [0]]
    assert script.pages[1].reason == reason
    [pause] = script.pauses
    assert 0.05 <= pause.seconds <= 0.1


@pytest.mark.parametrize(
    "refusal",
    [AWAY, LOST, NO_SLOTS, problem(409, "partitions-taken"), problem(409, "reset-under-way"), Reply(503), Reply(502)],
    ids=["away", "lost", "no slots", "taken", "reset", "503", "502"],
)
def test_a_stream_that_cannot_be_had_now_is_asked_for_again(refusal: Reply | PenstockError) -> None:
    script = play(refusal, refusal, stream("s1", text()), pages=2)

    assert told(script) == [StreamBegan("s1"), [0]]
    first, second = script.seconds
    assert 0.05 <= first <= 0.1 <= second <= 0.2


def test_it_is_asked_for_no_more_often_than_it_is_said() -> None:
    with pytest.raises(NoFreeSlots):
        play(*[NO_SLOTS] * 3, retry=RetryPolicy(max_attempts=3))


def test_streams_that_end_in_good_order_are_no_failures_however_quiet_they_were() -> None:
    quiet = [stream(f"s{number}", end("Stream timeout reached")) for number in range(5)]
    script = play(*quiet, stream("s5", text()), retry=RetryPolicy(max_attempts=2), pages=12)

    assert told(script)[-2:] == [StreamBegan("s5"), [0]]
    assert [each.because for each in script.pauses] == [None] * 5, "nothing is logged"


def test_a_success_begins_the_count_anew() -> None:
    script = play(
        AWAY, stream("s1", text(), lost=LOST), AWAY, stream("s2", text()), retry=RetryPolicy(max_attempts=3), pages=5
    )  # fmt: skip

    assert told(script)[-2:] == [StreamBegan("s2"), [0]]


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (problem(404, "subscription-not-found", subscription="x"), SubscriptionNotFound),
        (Reply(200, text()), MalformedAnswer),
        (stream("s1", b"<html>\n"), MalformedAnswer),
    ],
    ids=["not there", "no id", "no lines"],
)
def test_what_cannot_pass_is_raised(reply: Reply, error: type[PenstockError]) -> None:
    with pytest.raises(error):
        play(reply)


def test_without_reconnecting_no_room_is_an_error() -> None:
    with pytest.raises(NoFreeSlots):
        play(NO_SLOTS, reconnect=False)


def test_what_is_described_is_created_once() -> None:
    script = play(
        Reply(201, b'{"id":"made","event_types":["a.b"]}'), stream("s1", text(), end("x")), stream("s2", text()),
        subscription=DEFINITION, pages=5,
    )  # fmt: skip

    assert [(each.method, each.url.removeprefix("http://s")) for each in script.requests] == [
        ("POST", "/subscriptions"),
        ("POST", "/subscriptions/made/events"),
        ("POST", "/subscriptions/made/events"),
    ]
    assert json.loads(script.requests[0].body or b"") == DEFINITION


@pytest.mark.parametrize("lost", [None, LOST], ids=["it was told in time", "its connection was broken off"])
def test_nothing_more_of_a_stream_that_is_not_wanted_is_handed_on(lost: PenstockError | None) -> None:
    streaming = streaming_of(Script())
    exchange = streaming.run(reconnect=True)
    assert next(exchange).method == "POST"
    assert exchange.send(Head(200, {"x-nakadi-streamid": "s1"})) == StreamBegan("s1")
    assert next(exchange) is MORE
    assert exchange.send(text()).partition == 0
    if lost is None:
        streaming.unwant("s1")
        found = next(exchange)
    else:
        assert next(exchange) is MORE
        streaming.unwant("s1")
        found = exchange.throw(lost)

    assert found == StreamEnded("s1", GIVEN_BACK)
    assert next(exchange).method == "POST", "without a pause"


def test_batches_are_committed_with_their_streams() -> None:
    script = Script(Reply(204), Reply(200, b'{"items":[]}'))

    script.play(streaming_of(script).commit([batch(last=1), batch(last=2), batch("s2", 1)]))

    assert script.urls == ["/subscriptions/x/cursors"] * 2
    assert [each.headers["X-Nakadi-StreamId"] for each in script.requests] == ["s1", "s2"]
    assert [[item["offset"][-1] for item in json.loads(each.body or b"")["items"]] for each in script.requests] == [
        ["2"],
        ["0"],
    ]


def test_a_commit_is_tried_again_as_long_as_patience_lasts() -> None:
    script = Script(LOST, Reply(503), Reply(204))
    script.play(streaming_of(script, patience=5.0).commit([batch()]))
    assert len(script.requests) == 3

    script = Script(LOST)
    with pytest.raises(ConnectionLost):
        script.play(streaming_of(script, patience=5.0).commit([batch()], patiently=False))


@pytest.mark.parametrize(
    ("code", "error"),
    [("stream-not-found", StreamNotFound), ("commit-refused", CommitRefused)],
    ids=["too late", "of another"],
)
def test_a_commit_that_is_refused_says_so(code: str, error: type[PenstockError]) -> None:
    script = Script(problem(422, code, stream="s1"))

    with pytest.raises(error):
        script.play(streaming_of(script, patience=5.0).commit([batch()]))


def test_a_lease_is_extended() -> None:
    script = Script(Reply(204))

    script.play(streaming_of(script).extend("s1"))

    assert script.urls == ["/subscriptions/x/streams/s1/lease"]


@pytest.mark.parametrize(
    ("failed", "body"),
    [
        (None, {"keep": [{"event_type": "a.b", "partition": "1"}]}),
        ([], {"keep": [{"event_type": "a.b", "partition": "1"}], "failed": []}),
    ],
    ids=["all failed", "none failed"],
)
def test_a_stream_is_given_back_but_for_what_is_kept(failed: Any, body: Any) -> None:
    script = Script(Reply(204))

    script.play(streaming_of(script).give_back("s1", [("a.b", 1)], failed))

    assert script.urls == ["/subscriptions/x/streams/s1/release"]
    assert json.loads(script.requests[0].body or b"") == body


def test_what_was_handed_on_and_is_not_committed_has_failed_when_its_stream_is_left() -> None:
    """What was sent beyond that, nobody has seen."""
    lines = [text(0, 1), text(1, 1), text(2, 1), text(3, 1, token="parked-x"), text(0, 2), text(1, 2), text(4, 1)]
    script = Script(stream("s0", text(5)), stream("s1", *lines), *[Reply(204)] * 3)
    streaming = streaming_of(script)
    run = streaming.run(reconnect=True)

    script.play(run, pages=len(["begun", 5, "ended", "begun", 0, 1, 2, 3, 0, 1]))
    handed = [each for each in script.pages if isinstance(each, SubscriptionBatch)]
    script.play(streaming.commit([*handed[1:5], batch("s0", 1, last=2), batch("s1", 1, last=9, token="parked-y")]))
    script.play(streaming.leave("s1"))

    assert [each.partition for each in handed] == [5, 0, 1, 2, 3, 0, 1]
    failed = json.loads(script.requests[-1].body or b"")["failed"]
    assert failed == [{"event_type": "a.b", "partition": each} for each in "01"]


@pytest.mark.parametrize("reply", [LOST, Reply(404), problem(422, "stream-not-found")], ids=["lost", "404", "gone"])
def test_leaving_does_not_fail(reply: Reply | PenstockError) -> None:
    script = Script(reply)

    script.play(streaming_of(script).leave("s1"))
