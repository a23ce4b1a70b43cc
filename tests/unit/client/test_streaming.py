"""Streams of a subscription without I/O: batches, reconnecting, commits, leases, and leaving."""

import json
from typing import Any

import pytest

from penstock.client.http.exchanges import RetryPolicy
from penstock.client.subscriptions.stream_protocol import (
    GIVEN_BACK,
    StreamBegan,
    StreamEnded,
    StreamParameters,
    StreamProtocol,
    SubscriptionBatch,
)
from penstock.errors import (
    ConnectionLost,
    MalformedAnswer,
    PenstockError,
    SubscriptionBusy,
    SubscriptionNotFound,
    Unreachable,
)
from penstock.wire.http import MORE, ResponseHead
from tests.failing import has_code
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
    wish: StreamParameters | None = None,
    reconnect: bool = True,
    **others: Any,
) -> Script:
    script = Script(*replies)
    streaming = streaming_of(script, subscription, wish, **others)
    script.play(streaming.run(reconnect=reconnect), pages=pages)
    return script


def streaming_of(
    script: Script, subscription: Any = "x", wish: StreamParameters | None = None, **others: Any
) -> StreamProtocol:
    options: dict[str, Any] = {"retry": RetryPolicy(), "retry_timeout": 0.0, "clock": script.clock} | others
    return StreamProtocol("http://s", subscription, wish or StreamParameters(), **options)


def handed_on(script: Script) -> list[Any]:
    """Return the numbers of the events, and beginnings and ends of streams as they are."""
    return [
        [event.data["n"] for event in each.events] if isinstance(each, SubscriptionBatch) else each
        for each in script.pages
    ]


def test_stream_hands_on_its_beginning_its_batches_and_its_end() -> None:
    script = play(
        stream(
            "s1", text(last=1, count=2, debug="Stream started"), text(1, count=0), text(1, last=0), end("Time over")
        ),
        reconnect=False,
    )

    assert handed_on(script) == [StreamBegan("s1"), [0, 1], [0], StreamEnded("s1", "Time over")]
    [request] = script.requests
    assert (request.method, request.url) == ("POST", "http://s/subscriptions/x/events?details=1")
    assert json.loads(request.body or b"") == StreamParameters().members()
    assert request.wait_seconds == 120.0
    assert [each.stream_id for each in script.pages[1:3]] == ["s1", "s1"]


def test_next_stream_begins_at_once_after_one_with_events() -> None:
    script = play(
        stream("s1", text(), end("Stream timeout reached")), stream("s2", text(last=1), end("Stream timeout reached")),
        pages=6,
    )  # fmt: skip

    assert handed_on(script)[3:] == [StreamBegan("s2"), [1], StreamEnded("s2", "Stream timeout reached")]
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
def test_next_stream_begins_after_a_pause_however_an_empty_one_ended(reply: Reply, reason: str) -> None:
    script = play(reply, stream("s2", text()), pages=4)

    assert handed_on(script)[2:] == [StreamBegan("s2"), [0]]
    assert script.pages[1].reason == reason
    [pause] = script.pauses
    assert 0.05 <= pause.seconds <= 0.1


@pytest.mark.parametrize(
    "refusal",
    [AWAY, LOST, NO_SLOTS, problem(409, "partitions-taken"), problem(409, "reset-under-way"), Reply(503), Reply(502)],
    ids=["away", "lost", "no slots", "taken", "reset", "503", "502"],
)
def test_refused_stream_is_requested_again_with_growing_pauses(refusal: Reply | PenstockError) -> None:
    script = play(refusal, refusal, stream("s1", text()), pages=2)

    assert handed_on(script) == [StreamBegan("s1"), [0]]
    first, second = script.seconds
    assert 0.05 <= first <= 0.1 <= second <= 0.2


@pytest.mark.parametrize(
    ("refusals", "options"), [(3, {"retry": RetryPolicy(max_attempts=3)}), (1, {"reconnect": False})], ids=str
)
def test_no_free_slots_is_raised_after_the_last_attempt(refusals: int, options: Any) -> None:
    with pytest.raises(SubscriptionBusy, check=has_code("no-free-slots")):
        play(*[NO_SLOTS] * refusals, **options)


def test_empty_stream_that_ends_in_good_order_is_no_failure() -> None:
    quiet = [stream(f"s{number}", end("Stream timeout reached")) for number in range(5)]
    script = play(*quiet, stream("s5", text()), retry=RetryPolicy(max_attempts=2), pages=12)

    assert handed_on(script)[-2:] == [StreamBegan("s5"), [0]]
    assert [each.because for each in script.pauses] == [None] * 5, "nothing is logged"


def test_attempts_are_counted_anew_after_a_success() -> None:
    script = play(
        AWAY, stream("s1", text(), lost=LOST), AWAY, stream("s2", text()), retry=RetryPolicy(max_attempts=3), pages=5
    )  # fmt: skip

    assert handed_on(script)[-2:] == [StreamBegan("s2"), [0]]


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (problem(404, "subscription-not-found", subscription="x"), SubscriptionNotFound),
        (Reply(200, text()), MalformedAnswer),
        (stream("s1", b"<html>\n"), MalformedAnswer),
    ],
    ids=["not there", "no id", "no lines"],
)
def test_permanent_error_is_raised(reply: Reply, error: type[PenstockError]) -> None:
    with pytest.raises(error):
        play(reply)


def test_subscription_given_by_its_definition_is_created_once() -> None:
    script = play(
        Reply(201, b'{"id":"made","event_types":["a.b"]}'), stream("s1", text(), end("x")), stream("s2", text()),
        subscription=DEFINITION, pages=5,
    )  # fmt: skip

    assert [(each.method, each.url.removeprefix("http://s")) for each in script.requests] == [
        ("POST", "/subscriptions"),
        ("POST", "/subscriptions/made/events?details=1"),
        ("POST", "/subscriptions/made/events?details=1"),
    ]
    assert json.loads(script.requests[0].body or b"") == DEFINITION


@pytest.mark.parametrize("lost", [None, LOST], ids=["it was told in time", "its connection was broken off"])
def test_unwanted_stream_hands_on_nothing_more(lost: PenstockError | None) -> None:
    streaming = streaming_of(Script())
    exchange = streaming.run(reconnect=True)
    assert next(exchange).method == "POST"
    assert exchange.send(ResponseHead(200, {"x-nakadi-streamid": "s1"})) == StreamBegan("s1")
    assert next(exchange) is MORE
    assert exchange.send(text()).partition == 0
    if lost is None:
        streaming.abandon("s1")
        found = next(exchange)
    else:
        assert next(exchange) is MORE
        streaming.abandon("s1")
        found = exchange.throw(lost)

    assert found == StreamEnded("s1", GIVEN_BACK)
    assert next(exchange).method == "POST", "without a pause"


def test_batches_are_committed_by_stream_and_again_while_patience_lasts() -> None:
    script = Script(Reply(204), Reply(200, b'{"items":[]}'))

    script.play(streaming_of(script).commit([batch(last=1), batch(last=2), batch("s2", 1)]))

    assert script.urls == ["/subscriptions/x/cursors"] * 2
    assert [each.headers["X-Nakadi-StreamId"] for each in script.requests] == ["s1", "s2"]
    assert [[item["offset"][-1] for item in json.loads(each.body or b"")["items"]] for each in script.requests] == [
        ["2"],
        ["0"],
    ]

    script = Script(LOST, Reply(503), Reply(204))
    script.play(streaming_of(script, retry_timeout=5.0).commit([batch()]))
    assert len(script.requests) == 3

    script = Script(LOST)
    with pytest.raises(ConnectionLost):
        script.play(streaming_of(script, retry_timeout=5.0).commit([batch()], retries=False))


@pytest.mark.parametrize(
    ("failed", "body"),
    [
        (None, {"keep": [{"event_type": "a.b", "partition": "1"}]}),
        ([], {"keep": [{"event_type": "a.b", "partition": "1"}], "failed": []}),
    ],
    ids=["all failed", "none failed"],
)
def test_stream_is_extended_and_given_back_but_for_the_kept_partitions(failed: Any, body: Any) -> None:
    script = Script(Reply(204), Reply(204))
    streaming = streaming_of(script)

    script.play(streaming.extend("s1"))
    script.play(streaming.release("s1", [("a.b", 1)], failed))

    assert script.urls == ["/subscriptions/x/streams/s1/lease", "/subscriptions/x/streams/s1/release"]
    assert json.loads(script.requests[1].body or b"") == body


def test_leaving_reports_batches_that_were_handed_on_and_not_committed_as_failed() -> None:
    lines = [text(0, 1), text(1, 1), text(2, 1), text(3, 1, token="parked-x"), text(0, 2), text(1, 2), text(4, 1)]
    script = Script(stream("s0", text(5)), stream("s1", *lines), *[Reply(204)] * 3)
    streaming = streaming_of(script)
    run = streaming.run(reconnect=True)

    script.play(run, pages=len(["begun", 5, "ended", "begun", 0, 1, 2, 3, 0, 1]))
    batches = [each for each in script.pages if isinstance(each, SubscriptionBatch)]
    script.play(streaming.commit([*batches[1:5], batch("s0", 1, last=2), batch("s1", 1, last=9, token="parked-y")]))
    script.play(streaming.release_quietly("s1"))

    assert [each.partition for each in batches] == [5, 0, 1, 2, 3, 0, 1]
    failed = json.loads(script.requests[-1].body or b"")["failed"]
    assert failed == [{"event_type": "a.b", "partition": each} for each in "01"]


@pytest.mark.parametrize("reply", [LOST, Reply(404), problem(422, "stream-not-found")], ids=["lost", "404", "gone"])
def test_leaving_a_lost_stream_raises_nothing(reply: Reply | PenstockError) -> None:
    script = Script(reply)

    script.play(streaming_of(script).release_quietly("s1"))
