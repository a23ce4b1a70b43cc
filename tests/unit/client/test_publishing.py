"""Plain publishing without I/O: the lines of events, batches, repetitions, and the errors of a call."""

import json
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID

import msgspec
import pytest

from penstock.client.log.publishing import BatchLimits, Published, PublishProtocol, each_event, encode_line
from penstock.client.registry import EventTypeProtocol
from penstock.core.events.event import NewEvent
from penstock.errors import (
    BadParameter,
    ConnectionLost,
    EventTooLarge,
    EventTypeNotFound,
    InvalidEvent,
    OutcomeUnknown,
    PenstockError,
    Unavailable,
    Unreachable,
)
from penstock.testing.factories import a_feed_event
from tests.unit.wire.script import Reply, Script, problem

AWAY = Unreachable(url="u", reason="refused")


def category(name: str = "undefined") -> Reply:
    return Reply(200, json.dumps({"name": "order.placed", "category": name}).encode())


def receipt(event_count: int, **cursors: str) -> Reply:
    return Reply(200, json.dumps({"count": event_count, "cursors": {p[1:]: c for p, c in cursors.items()}}).encode())


def publisher(script: Script, retry_timeout: float = 30.0) -> PublishProtocol:
    numbers = count(1)
    return PublishProtocol(
        "http://s",
        EventTypeProtocol("http://s", retry_timeout=retry_timeout, clock=script.clock),
        retry_timeout=retry_timeout,
        clock=script.clock,
        now=lambda: datetime.fromtimestamp(script.now, UTC),
        new_id=lambda: UUID(int=next(numbers)),
    )


def publish(script: Script, events: Any, **options: Any) -> Published:
    key, progress = options.pop("key", None), options.pop("progress", None)
    publishing = options.pop("publishing", None) or publisher(script)
    exchange = publishing.publish("order.placed", key, BatchLimits(**options), progress)
    result: Published = script.play(exchange, each_event(events))
    return result


def batches_of(script: Script) -> list[list[Any]]:
    """Return the lines of each batch."""
    bodies = [request.body for request in script.requests if request.body is not None]
    return [[json.loads(line) for line in body.splitlines()] for body in bodies]


def test_event_is_sent_as_one_line() -> None:
    script = Script(category(), receipt(1, p0="c1"))

    done = publish(script, {"order_id": 1})

    assert done == Published(1, len(b'{"data":{"order_id":1}}\n'), {0: "c1"})
    assert [(request.method, request.url) for request in script.requests] == [
        ("GET", "http://s/event-types/order.placed"),
        ("POST", "http://s/feeds/order.placed"),
    ]
    assert script.requests[1].body == b'{"data":{"order_id":1}}\n'
    assert script.requests[1].headers["content-type"] == "application/x-ndjson"


def test_events_are_taken_as_mappings_bytes_text_or_new_events() -> None:
    script = Script(category(), receipt(4))
    pretty = b'{\n  "a": 1.50\r\n}'
    headers = {"ce_type": "x"}

    publish(script, [{"a": 1}, pretty, bytearray(b"{}"), NewEvent.of(b"{}", key="k", headers=headers, partition=3)])
    texts = Script(category(), receipt(2))
    publish(texts, [pretty.decode(), {"b": msgspec.Raw(b"[\n1]")}])

    assert script.requests[1].body == (
        b'{"data":{"a":1}}\n{"data":{  "a": 1.50}}\n{"data":{}}\n'
        b'{"data":{},"key":"k","headers":{"ce_type":"x"},"partition":3}\n'
    )
    assert texts.requests[1].body == b'{"data":{  "a": 1.50}}\n{"data":{"b":[1]}}\n'


def test_key_is_one_for_all_events_or_a_function_of_each() -> None:
    script = Script(category(), receipt(2), receipt(2))
    publishing = publisher(script)

    publish(script, [{"a": 1}, NewEvent.of(b"{}", key="own")], key="all", publishing=publishing)
    publish(script, [{"a": "x"}, {"a": "y"}], key=lambda event: event["a"], publishing=publishing)

    assert [[line["key"] for line in batch] for batch in batches_of(script)] == [["all", "own"], ["x", "y"]]


@pytest.mark.parametrize("name", ["business", "data"])
def test_metadata_is_completed_with_an_id_and_a_time(name: str) -> None:
    script = Script(category(name), receipt(3))
    own = {"eid": "e", "occurred_at": "t", "flow_id": "f"}

    publish(script, [{"n": 1}, {"metadata": {"flow_id": "f"}}, {"metadata": own}])

    [[first, second, third]] = [[line["data"] for line in batch] for batch in batches_of(script)]
    assert first == {"n": 1, "metadata": {"eid": str(UUID(int=1)), "occurred_at": "1970-01-01T00:16:40.000Z"}}
    assert second["metadata"] == {"flow_id": "f", "eid": str(UUID(int=2)), "occurred_at": "1970-01-01T00:16:40.000Z"}
    assert third["metadata"] == own


def test_category_is_asked_for_once_until_a_call_fails() -> None:
    script = Script(category(), receipt(1), receipt(1))
    publishing = publisher(script)

    publish(script, {}, publishing=publishing)
    publish(script, {}, publishing=publishing)
    assert [request.method for request in script.requests] == ["GET", "POST", "POST"]

    script.replies = [problem(422, "invalid-event", line=1), category("business"), receipt(1)]
    with pytest.raises(InvalidEvent):
        publish(script, {}, publishing=publishing)
    publish(script, {}, publishing=publishing)
    assert "metadata" in batches_of(script)[-1][0]["data"]


def test_repeated_batch_has_the_same_bytes() -> None:
    busy = problem(503, "unavailable")
    script = Script(category("business"), AWAY, busy, problem(503, "database-unavailable"), receipt(1))

    publish(script, {"n": 1})

    bodies = [request.body for request in script.requests[1:]]
    assert len(bodies) == 4
    assert len(set(bodies)) == 1


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionLost(url="u", reason="reset"),
        Reply(200, b'{"cou', lost=ConnectionLost(url="u", reason="reset")),
        Reply(502, b"Bad Gateway"),
        Reply(503, b"upstream reset"),
        Reply(503, b"fetch failed", {"retry-after": "2"}),
        Reply(500, b"Internal Server Error"),
        problem(500, "outcome-unknown"),
    ],
)
def test_batch_that_may_be_stored_is_not_repeated(failure: Reply | PenstockError) -> None:
    script = Script(category(), receipt(2), failure)

    with pytest.raises(OutcomeUnknown) as caught:
        publish(script, [{}, {}, {}], event_count=2)

    assert caught.value.published == 2
    assert caught.value.doubtful == 1
    assert len(script.requests) == 3
    assert script.pauses == []


def test_publishing_gives_up_when_patience_ends_or_a_pause_would_outlast_it() -> None:
    script = Script(category(), *[AWAY] * 1000)

    with pytest.raises(Unreachable):
        publish(script, {}, publishing=publisher(script, retry_timeout=5))
    assert sum(script.seconds) <= 5

    script = Script(category(), problem(503, "unavailable", retry_after=3600))

    with pytest.raises(Unavailable):
        publish(script, {})
    assert script.pauses == []


@pytest.mark.parametrize(
    ("last", "replies", "reason"),
    [
        ({}, [problem(422, "invalid-event", line=2, reason="no")], "after 2 events of this call that were published"),
        (b"nope", [], "line 4"),
    ],
    ids=["refused by the hub", "never sent"],
)
def test_refused_event_is_named_by_its_line_in_the_whole_call(last: Any, replies: list[Reply], reason: str) -> None:
    script = Script(category(), receipt(2), *replies)

    with pytest.raises(InvalidEvent, match=reason) as caught:
        publish(script, [{}, {}, {}, last], event_count=2)

    assert (caught.value.line, caught.value.published) == (4, 2)


@pytest.mark.parametrize(
    "event",
    [
        b"[1]",
        b"1",
        b"nope",
        b'{"a":1}\n{"b":2}',
        b'{"a":1},"key":"k"',
        '{"a":1},"key":"text"',
        '{"a":1}}\n{"data":{"b":2}',
        {"a": msgspec.Raw(b'1}}\n{"data":{"b":2')},
        b'{"a":1,"a":2}',
        b'{"a":"\xff"}',
        7,
        {"a": float("nan")},
        {"a": "\ud800"},
        {"metadata": 3},
    ],
)
def test_invalid_event_is_refused_before_it_is_sent(event: Any) -> None:
    script = Script(category("data"), receipt(1))

    with pytest.raises(InvalidEvent) as caught:
        publish(script, [{}, event, {}])

    assert caught.value.line == 2
    assert len(script.requests) == 1


def test_event_of_a_feed_and_one_that_is_too_large_are_refused_before_they_are_sent() -> None:
    for events in (a_feed_event(), [{}, a_feed_event()]):
        with pytest.raises(TypeError, match="FeedEvent has no form in JSON: publish its `raw`"):
            publish(Script(category()), events)

    for event in ({"a": "x" * 999_000}, b'{"a":"%b"}' % (b"x" * 999_000)):
        with pytest.raises(EventTooLarge, match="line 2"):
            publish(Script(category()), [{}, event])


def test_batches_are_limited_by_count_and_bytes() -> None:
    line = len(encode_line(b'{"n":1}'))
    script = Script(category(), receipt(3), receipt(2), receipt(2))
    publishing = publisher(script)

    publish(script, [{"n": 1}] * 5, event_count=3, publishing=publishing)
    assert [len(batch) for batch in batches_of(script)] == [3, 2]

    publish(script, [{"n": 1}] * 2, byte_count=2 * line, publishing=publishing)
    assert [len(batch) for batch in batches_of(script)][2:] == [2]

    script.replies = [receipt(1), receipt(1)]
    publish(script, [{"n": 1}] * 2, byte_count=2 * line - 1, publishing=publishing)
    assert [len(batch) for batch in batches_of(script)][3:] == [1, 1]


def test_full_batch_is_sent_before_the_next_event_is_taken() -> None:
    script = Script(category(), receipt(2), receipt(2))

    def events() -> Any:
        yield from ({}, {})
        assert len(batches_of(script)) == 1
        yield from ({}, {})
        assert len(batches_of(script)) == 2

    assert publish(script, events(), event_count=2).count == 4


def test_event_that_its_source_changes_afterwards_is_sent_as_it_was() -> None:
    script = Script(category(), receipt(3))

    def events() -> Any:
        event = {}
        for number in range(3):
            event["n"] = number
            yield event

    publish(script, events())

    assert [line["data"] for line in batches_of(script)[0]] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_progress_is_called_after_each_batch() -> None:
    script = Script(category(), receipt(2, p0="a", p1="b"), receipt(1, p0="c"))
    calls: list[Published] = []

    done = publish(script, [{}] * 3, event_count=2, progress=calls.append)

    assert [(each.count, each.cursors) for each in calls] == [(2, {0: "a", 1: "b"}), (3, {0: "c", 1: "b"})]
    assert calls[-1] == done


def test_publishing_no_events_sends_no_batch_and_an_unknown_event_type_is_raised() -> None:
    script = Script(category())

    assert publish(script, []) == Published()
    assert len(script.requests) == 1

    with pytest.raises(EventTypeNotFound):
        publish(Script(problem(404, "event-type-not-found", event_type="order.placed")), {})


def test_malformed_receipt_leaves_the_outcome_unknown() -> None:
    with pytest.raises(OutcomeUnknown, match="thank you"):
        publish(Script(category(), Reply(200, b"thank you")), {})


@pytest.mark.parametrize("options", [{"event_count": 0}, {"byte_count": 0}])
def test_empty_batch_limit_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(BadParameter):
        BatchLimits(**options)
