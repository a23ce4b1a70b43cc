"""Reading of feeds over either protocol: discovery, queries, pages that break off, and cursors that a server keeps."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.errors import (
    BadCursor,
    BadParameter,
    BadPartitionCount,
    ConnectionLost,
    EventTypeNotFound,
    MalformedAnswer,
    ServerError,
    StaleSplit,
    Unavailable,
    WrongAddress,
)
from penstock.wire.log.reader.pages import Page
from penstock.wire.log.reader.partitions import Discovery, Partition, discover, zeroeventhub_discovery
from penstock.wire.log.reader.protocol import FeedProtocol, ReadParameters, make_version_two_query
from tests.unit.wire.script import NDJSON, Reply, Script, problem


def protocol(script: Script, **options: Any) -> FeedProtocol:
    known: dict[str, Any] = {"partition_count": None, "version": None, "merged": False, "retry_timeout": 30.0}
    return FeedProtocol(**({"url": "http://s/feed"} | known | options), clock=script.clock)


def discovery(token: str, *partitions: dict[str, Any] | str) -> Reply:
    listed = [{"id": each} if isinstance(each, str) else each for each in partitions]
    return Reply(200, json.dumps({"token": token, "partitions": listed}).encode())


def page(*lines: dict[str, Any], seconds: float = 0) -> Reply:
    return Reply(200, b"".join(json.dumps(line).encode() + b"\n" for line in lines), NDJSON, seconds)


def data(result: Page) -> list[Any]:
    return [event.data for event in result.events]


V1 = {"version": 1, "partition_count": 4}


# Discovery.


def find(document: Any, partition_count: int | None = None) -> Discovery:
    reply = Reply(200, json.dumps(document).encode())
    result: Discovery = Script(reply).play(discover("http://s/feed", partition_count))
    return result


def test_discovery_is_a_get_without_parameters_and_zeroeventhub_needs_a_partition_count() -> None:
    script = Script(Reply(400, b"n is missing"))

    assert script.play(discover("http://s/feed", 4)) == zeroeventhub_discovery(4)
    assert [(request.method, request.url) for request in script.requests] == [("GET", "http://s/feed")]

    with pytest.raises(BadParameter, match="partition_count"):
        Script(Reply(400, b"n is missing")).play(discover("http://s/feed"))
    for count in (0, -1, 32769):
        with pytest.raises(BadParameter):
            zeroeventhub_discovery(count)


def test_partitions_of_feedapi_are_discovered_with_the_members_of_its_text_and_of_its_examples() -> None:
    partitions = [
        {"id": "0", "closed": True, "unknown": 1},
        {"id": "16000", "startsAfterPartition": "0"},
        {"id": 7, "cursorFromPartitions": ["5", "4"]},
    ]
    found = find({"token": "t", "partitions": partitions, "exactlyOnce": True})

    expected = (Partition(0, True), Partition(16000, starts_after=0), Partition(7, cursor_from=(5, 4)))
    assert found == Discovery(2, expected, "t", True)
    assert not found.is_static
    assert find({"token": "1-2", "partitions": [{"id": "0"}, {"id": "1"}]}).is_static

    partitions = [{"id": "1", "startsAfterParent": "0"}, {"id": "2", "splitFromAncestors": ["24001"]}]
    found = find({"token": "t", "partitions": partitions})

    assert found.partitions == (Partition(1, starts_after=0), Partition(2, cursor_from=(24001,)))
    assert not found.exactly_once


NO_DISCOVERIES = [
    [], {"partitions": []}, {"token": "t", "partitions": []},
    *({"token": "t", "partitions": partitions} for partitions in (
        [{"id": "x"}], [{"id": "40000"}], [{"id": "-1"}], [{"id": "1"}, {"id": "01"}],
        [{"id": "1", "startsAfterPartition": "y"}],
    )),
]  # fmt: skip


def test_malformed_discovery_is_refused() -> None:
    for document in NO_DISCOVERIES:
        with pytest.raises(MalformedAnswer):
            find(document)


@pytest.mark.parametrize(
    ("reply", "kind", "detail"),
    [
        (Reply(200, b"<html>welcome</html>"), WrongAddress, "no feed answers at http://s/feed, .* 200: <html>"),
        (Reply(404, b"Not Found"), WrongAddress, "no feed answers at http://s/feed, .* 404: Not Found"),
        (Reply(400, b"<html>plain HTTP was sent to an HTTPS port</html>"), WrongAddress, "400: <html>"),
        (Reply(403, b"no"), ServerError, "403"),
        (problem(404, "event-type-not-found", event_type="x"), EventTypeNotFound, "event-type-not-found"),
    ],
    ids=["a page", "nothing", "a refusal for a browser", "forbidden", "no event type"],
)
def test_answer_without_a_discovery_is_raised_as_its_error(reply: Reply, kind: type[Exception], detail: str) -> None:
    with pytest.raises(kind, match=detail):
        Script(reply).play(discover("http://s/feed", None if reply.status == 400 else 4))


# Queries.


def test_query_has_the_options_of_a_read() -> None:
    assert ("pagesizehint", 0) in make_version_two_query(ReadParameters(page_size_hint=0), "t", 0, "x", 0)
    assert make_version_two_query(ReadParameters(), "t", 0, "x", 0.25)[-1] == ("wait", "0.25")
    assert make_version_two_query(ReadParameters(headers="_all"), "t", 0, "x", 0)[-1] == ("headers", "_all")


# Reading.


def test_zeroeventhub_is_read_in_one_request_for_all_partitions() -> None:
    script = Script(page({"partition": 2, "data": {"n": 1}}, {"partition": 2, "cursor": "b"}))
    parameters = ReadParameters(
        page_size_hint=10, wait_seconds=2, headers=["ce_id", "ce_type"], event_types=["a", "b"], cursor_set="me"
    )

    result = script.play(protocol(script, **V1).read({2: "_first", 3: "x y"}, parameters))

    assert data(result) == [{"n": 1}]
    assert result.cursors == {2: "b", 3: "x y"}
    assert script.urls == [
        "/feed?n=4&cursor2=_first&cursor3=x+y&cursorset=me&pagesizehint=10&wait=2&headers=ce_id%2Cce_type&event-types=a%3Bb"
    ]
    assert script.requests[0].wait_seconds == 2


def test_feedapi_is_discovered_once_and_read_by_its_token() -> None:
    script = Script(discovery("t 1", "0"), page({"cursor": "a"}), page({"data": {"n": 2}}, {"cursor": "b"}))
    feed = protocol(script)

    first = script.play(feed.read({0: "_first"}, ReadParameters(skip_event_types=["x"])))
    second = script.play(feed.read(first.cursors, ReadParameters()))

    assert data(second) == [{"n": 2}]
    assert script.urls == [
        "/feed",
        "/feed/events?token=t+1&partition=0&cursor=_first&skip-event-types=x",
        "/feed/events?token=t+1&partition=0&cursor=a",
    ]


def test_server_of_either_protocol_is_read_with_a_partition_count() -> None:
    script = Script(Reply(400, b"n missing"), page({"partition": 0, "cursor": "a"}))

    script.play(protocol(script, partition_count=1).read({0: "_first"}, ReadParameters()))

    assert script.urls == ["/feed", "/feed?n=1&cursor0=_first"]


def test_partitions_of_feedapi_share_the_page_size() -> None:
    script = Script(
        discovery("t", "0", "1", "2"), page({"cursor": "a"}), page({"data": {"n": 1}}, {"cursor": "b"}), page()
    )

    result = script.play(
        protocol(script).read({0: "x", 1: "y", 2: "z"}, ReadParameters(page_size_hint=10, wait_seconds=5))
    )

    assert result.cursors == {0: "a", 1: "b", 2: "z"}
    assert result.since == {0: "x", 1: "y", 2: "z"}
    assert [url.rpartition("=")[2] for url in script.urls[1:]] == ["3", "3", "3"]


def test_partitions_of_feedapi_are_waited_for_in_turn() -> None:
    quiet = {0: page(seconds=1), 1: page()}
    script = Script(
        discovery("t", "0", "1"), page(), page(), quiet[0], quiet[1], page({"data": {}}, {"cursor": "b"}), page()
    )

    result = script.play(protocol(script).read({0: "x", 1: "y"}, ReadParameters(wait_seconds=5)))

    assert result.cursors == {0: "b", 1: "y"}
    assert [request.wait_seconds for request in script.requests[1:]] == [0, 0, 1, 0, 1, 0]
    assert [url[url.index("partition=") + 10] for url in script.urls[1:]] == ["0", "1", "1", "0", "0", "1"]


def test_server_that_does_not_wait_is_asked_at_intervals() -> None:
    script = Script(discovery("t", "0", "1"), *[page()] * 100)

    result = script.play(protocol(script).read({0: "x", 1: "y"}, ReadParameters(wait_seconds=5)))

    assert result.events == []
    assert len(script.requests) < 20
    assert script.now == pytest.approx(1005, abs=1)


def test_hub_is_read_by_feedapi_for_one_partition_and_merged_for_several() -> None:
    script = Script(discovery("1-4", *"0123"), page({"partition": 1, "cursor": "b"}), page({"cursor": "c"}))
    feed = protocol(script, merged=True)

    script.play(feed.read({0: "x", 1: "y"}, ReadParameters()))
    script.play(feed.read({1: "y"}, ReadParameters()))

    assert script.urls[1:] == [
        "/feed?n=4&cursor0=x&cursor1=y&details=1",
        "/feed/events?token=1-4&partition=1&cursor=y&details=1",
    ]


DETAILS = {"kind": "a", "ends": [2], "received_at": [1_500_000], "offset": 7, "keys": ["k", None]}


@pytest.mark.parametrize("is_hub", [True, False])
def test_details_are_asked_of_a_hub_and_ignored_at_another_server(is_hub: bool) -> None:
    event = {"partition": 0, "data": {"n": 1}, "offset": 9, "key": "x", "received_at": 1, "details": DETAILS}
    lines = [{"partition": 0, "details": DETAILS}, event, event, {"partition": 0, "cursor": "b"}, event]
    script = Script(page(*lines, {"partition": 0, "cursor": "c"}))

    feed = protocol(script, **V1, merged=is_hub)
    found: Page = script.play(feed.read({0: "a"}, ReadParameters()))

    told = [(each.offset, each.key, each.kind, each.received_at) for each in found.events]
    at = datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    nothing = (None, None, None, None)
    assert told == ([(7, "k", "a", at), (8, None, "a", at), nothing] if is_hub else [nothing] * 3)
    assert script.urls == ["/feed?n=4&cursor0=a" + ("&details=1" if is_hub else "")]


def test_malformed_details_are_an_error_when_they_are_used() -> None:
    lines = [{"details": [1]}, {"data": {"n": 1}}, {"cursor": "b"}]
    script = Script(discovery("1-1", "0"), page(*lines))

    [only] = script.play(protocol(script, merged=True).read({0: "a"}, ReadParameters())).events

    assert only.data == {"n": 1}
    with pytest.raises(MalformedAnswer, match="details"):
        only.offset  # noqa: B018 - it is decoded now


def sizes_asked(options: dict[str, Any], line: dict[str, Any], **parameters: Any) -> list[str]:
    """Return the page size that each of three reads asks for, of a feed of such lines."""
    pages = [page(*[line | {"partition": 0}] * 10, {"partition": 0, "cursor": "b"}) for _ in range(3)]
    script = Script(discovery("1-1", "0"), *pages)
    feed = protocol(script, **options)
    for _ in range(3):
        script.play(feed.read({0: "a"}, ReadParameters(**parameters)))
    return [url.removesuffix("&details=1").partition("pagesizehint=")[2] for url in script.urls[1:]]


def test_pages_of_a_hub_are_as_large_as_the_size_of_its_events_allows() -> None:
    small, medium, large = ({"data": "x" * size} for size in (300, 1000, 2500))

    assert sizes_asked({"merged": True}, small) == ["", "5000", "5000"]
    sizes = sizes_asked({"merged": True}, medium)
    assert sizes[0] == ""
    assert 1900 < int(sizes[1]) < 2100
    assert sizes_asked({"merged": True}, large) == ["", "", ""]


def test_page_size_is_left_to_other_servers_and_to_readers_who_choose_it() -> None:
    small = {"data": "x"}

    assert sizes_asked({}, small) == ["", "", ""]
    assert sizes_asked({"merged": True}, small, page_size_hint=7) == ["7", "7", "7"]
    assert sizes_asked({"merged": True}, small, cursor_set="me") == ["", "", ""]


def test_stale_token_leads_to_a_discovery_and_the_heirs_of_a_partition() -> None:
    heirs = [{"id": "1", "cursorFromPartitions": ["0"]}, {"id": "2", "cursorFromPartitions": ["0"]}]
    script = Script(
        discovery("old", "0"),
        Reply(409, b"discover again"),
        discovery("new", *heirs),
        page({"data": {"n": 1}}, {"cursor": "b"}),
        page({"cursor": "x"}),
    )

    result = script.play(protocol(script).read({0: "x"}, ReadParameters()))

    assert result.cursors == {1: "b", 2: "x"}
    assert result.since == {0: "x"}
    assert script.pauses == []


def test_partitions_that_change_all_the_time_are_given_up_after_the_retry_timeout() -> None:
    stale, again = Reply(409, b"no"), discovery("another", "0")
    script = Script(again, *[stale, again, stale, again, stale, again, stale] * 100)

    with pytest.raises(Unavailable, match="change all the time"):
        script.play(protocol(script, retry_timeout=5.0).read({0: "x"}, ReadParameters()))

    assert len(script.requests) < 100


def test_readers_of_one_feed_keep_to_the_partitions_that_each_has_met() -> None:
    script = Script(discovery("old", "0", "1"))
    feed = protocol(script)
    state = script.play(feed.read_state({0: "x"}, {0}, "_first"))
    script.replies = [discovery("new", "1")]
    script.play(feed.discovery(afresh=True))  # Another reader of the same feed has found it changed.

    script.replies = [page({"cursor": "y"})]
    script.play(feed.step(state, [0], ReadParameters(), 0))

    assert script.urls[-1] == "/feed/events?token=old&partition=0&cursor=x"


def test_conflict_other_than_a_stale_token_and_wrong_partition_count_of_the_caller_are_raised() -> None:
    script = Script(discovery("t", "0"), problem(409, "stale-split", n=4))

    with pytest.raises(StaleSplit):
        script.play(protocol(script).read({0: "x"}, ReadParameters()))

    script = Script(problem(400, "bad-partition-count", n=4))

    with pytest.raises(BadPartitionCount):
        script.play(protocol(script, **V1).read({0: "x"}, ReadParameters()))


def test_merged_read_after_a_change_of_the_partition_count_discovers_again() -> None:
    script = Script(
        discovery("1-2", "0", "1"),
        problem(400, "bad-partition-count", n=2),
        discovery("1-3", "0", "1", "2"),
        page({"partition": 0, "cursor": "b"}),
    )

    script.play(protocol(script, merged=True).read({0: "x", 1: "y"}, ReadParameters()))

    assert script.urls[-1] == "/feed?n=3&cursor0=x&cursor1=y&details=1"


A, B, C = ({"partition": 0, "data": {"n": number}} for number in range(3))
TO_A, TO_B, STILL = ({"partition": 0, "cursor": cursor} for cursor in ("a", "b", "_first"))


@pytest.mark.parametrize("ends", [None, b'{"partition": 0, "data": {"n"'], ids=["between lines", "in a line"])
@pytest.mark.parametrize(
    ("lines", "numbers", "cursor"),
    [([A, TO_A], [0], "a"), ([A, TO_A, B, TO_B, C], [0, 1], "b"), ([A, B, TO_B, C], [0, 1], "b"), ([TO_A], [], "a")],
)
def test_page_that_breaks_off_goes_up_to_its_last_cursor(
    lines: list[Any], numbers: list[int], cursor: str, ends: bytes | None
) -> None:
    """A server that breaks off each answer, as a proxy with a time limit does, still brings the reader further."""
    broken = page(*lines)
    broken.body += ends or b""
    broken.lost = None if ends else ConnectionLost(url="u", reason="reset")
    script = Script(broken)

    result = script.play(protocol(script, **V1).read({0: "_first"}, ReadParameters()))

    assert [each["n"] for each in data(result)] == numbers
    assert (result.cursors, script.pauses) == ({0: cursor}, [])


@pytest.mark.parametrize(
    "lines", [[], [A], [STILL], [A, STILL]], ids=["nothing", "no cursor", "old", "old, with event"]
)
def test_page_that_breaks_off_before_a_cursor_leads_on_is_read_again(lines: list[Any]) -> None:
    broken = page(*lines)
    broken.lost = lost = ConnectionLost(url="u", reason="reset")
    script = Script(broken, page(A, TO_A))

    result = script.play(protocol(script, **V1).read({0: "_first"}, ReadParameters()))

    assert [each["n"] for each in data(result)] == [0]
    assert result.cursors == {0: "a"}
    assert script.pauses[0].because is lost


def test_resumed_page_that_breaks_off_is_read_again_unless_each_partition_has_a_cursor() -> None:
    broken, other = page(A, TO_A), {"partition": 1, "cursor": "x"}
    broken.lost = ConnectionLost(url="u", reason="reset")
    whole = page(other, A, TO_A, B)
    whole.lost = broken.lost
    script = Script(broken, whole)

    result = script.play(protocol(script, version=1, partition_count=2).resume(ReadParameters(cursor_set="me"), None))

    assert [each["n"] for each in data(result)] == [0]
    assert result.cursors == {0: "a", 1: "x"}


def test_final_error_is_raised_at_once() -> None:
    script = Script(problem(400, "bad-cursor", parameter="cursor0"), Reply(401, b"who are you"))
    feed = protocol(script, **V1)

    with pytest.raises(BadCursor):
        script.play(feed.read({0: "x"}, ReadParameters()))
    with pytest.raises(ServerError, match="401: who are you"):
        script.play(feed.read({0: "x"}, ReadParameters()))
    assert script.pauses == []


def test_endless_answer_is_cut_at_a_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.wire.log.reader.protocol.PAGE_EVENTS_MAX", 3)
    lines = [line for n in range(100) for line in ({"partition": 0, "data": {}}, {"partition": 0, "cursor": str(n)})]
    script = Script(page(*lines))

    result = script.play(protocol(script, **V1).read({0: "_first"}, ReadParameters()))

    assert 3 < len(result.events) < 10
    assert result.cursors == {0: str(len(result.events) - 1)}


def test_server_keeps_the_cursors_of_a_cursor_set_which_are_of_all_partitions() -> None:
    script = Script(
        page({"partition": 0, "cursor": "a"}, {"partition": 1, "cursor": "b"}), page({"partition": 0, "cursor": "a"})
    )
    feed = protocol(script, version=1, partition_count=2)

    resumed = script.play(feed.resume(ReadParameters(cursor_set="me", wait_seconds=3), None))
    script.play(feed.store("me", {0: "a"}))

    assert resumed.cursors == {0: "a", 1: "b"}
    assert script.urls == [
        "/feed?n=2&cursorset=me&resume=0%2C1&wait=3",
        "/feed?n=2&cursor0=a&cursorset=me&pagesizehint=0&store_cursor=1",
    ]

    script = Script(page({"partition": 0, "cursor": "a"}))

    with pytest.raises(MalformedAnswer, match=r"\[1\]"):
        script.play(protocol(script, version=1, partition_count=2).resume(ReadParameters(cursor_set="me"), None))


def test_cursors_of_a_set_are_kept_by_zeroeventhub_and_by_hubs_alone() -> None:
    script = Script(discovery("t", "0"))
    feed = protocol(script)

    with pytest.raises(BadParameter, match="cursor"):
        script.play(feed.resume(ReadParameters(cursor_set="me"), None))
    with pytest.raises(BadParameter, match="cursor_set"):
        script.play(feed.read({0: "x"}, ReadParameters(cursor_set="me")))

    script = Script(discovery("1-2", "0", "1"), page({"partition": 1, "cursor": "b"}))

    script.play(protocol(script, merged=True).read({1: "a"}, ReadParameters(cursor_set="me")))

    assert script.urls[-1] == "/feed?n=2&cursor1=a&cursorset=me&details=1"


def test_version_without_a_partition_count_and_read_without_cursors_are_refused() -> None:
    with pytest.raises(BadParameter, match="needs partition_count"):
        protocol(Script(), version=1)
    with pytest.raises(BadParameter, match="cursors"):
        Script().play(protocol(Script()).read({}, ReadParameters()))
