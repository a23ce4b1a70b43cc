import logging
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.client.subscriptions.stream_protocol import StreamEnded
from penstock.errors import (
    ConnectionLost,
    EventsLost,
    Forbidden,
    Invalid,
    MalformedAnswer,
    NotFound,
    ServerError,
    Unavailable,
    WrongAddress,
)
from penstock.spark.foreign import nakadi as module
from penstock.spark.foreign.nakadi import (
    NakadiPartition,
    OpenStream,
    SubscriptionReader,
    advance_cursors,
    behind,
    beyond,
    is_before,
    to_rows,
)
from penstock.wire.subscriptions import BATCHES, BatchCursor, BatchLine
from tests.unit.spark.foreign.nakadi_server import NakadiServer, line, offset

A, B = NakadiPartition("a.b", "0"), NakadiPartition("a.b", "1")
SOON = 300.0


def take_line(subscription: SubscriptionReader) -> BatchLine:
    """The next line, of which note is taken as if its events were landed."""
    found = subscription.take(SOON)
    assert found is not None
    subscription.note(found.cursor)
    return found


def at(number: int, timeline: int = 1) -> str:
    return f"001-{timeline:04x}-{number:018}" if number >= 0 else f"001-{timeline:04x}--1"


@pytest.mark.parametrize(
    ("one", "other", "is_so"),
    [
        (None, at(-1), True),
        (at(-1), at(0), True),
        (at(9), at(10), True),
        (at(10), at(10), False),
        (at(99), at(0, timeline=2), True),
        (at(0, timeline=2), at(99), False),
    ],
)
def test_cursors_are_ordered_by_timeline_and_number(one: str | None, other: str, is_so: bool) -> None:
    assert is_before(one, other) is is_so


def test_cursors_not_yet_reached_are_behind() -> None:
    assert behind({A: at(5)}, {A: at(5), B: at(0)}) == {B: at(0)}
    assert behind({A: at(4), B: at(1)}, {A: at(5), B: at(0)}) == {A: at(5)}


def test_only_known_partitions_that_moved_on_are_beyond() -> None:
    assert beyond({A: at(6), B: at(7)}, {A: at(5)}) == {A: at(6)}
    assert beyond({A: at(5)}, {A: at(5)}) == {}


def test_the_end_of_a_timeline_is_the_beginning_of_the_next() -> None:
    assert beyond({A: at(-1, timeline=2)}, {A: at(5)}) == {}
    assert beyond({A: at(0, timeline=2)}, {A: at(5)}) == {A: at(0, timeline=2)}


def test_advanced_cursors_never_go_back() -> None:
    assert advance_cursors({A: at(5)}, {A: at(3), B: at(1)}) == {A: at(5), B: at(1)}


def test_place_is_shown_as_partition_and_event_type() -> None:
    assert str(A) == "partition 0 of 'a.b'"


def batch(*events: str) -> BatchLine:
    cursor = '{"partition":"0","offset":"001-0001-000000000000000042","event_type":"a.b"}'
    return BATCHES.decode(f'{{"cursor":{cursor},"events":[{",".join(events)}]}}')


def test_each_event_is_a_row_with_the_cursor_of_its_batch() -> None:
    rows = to_rows(batch('{"n" : 1.50,"t":"\\u00e4ä"}', "{}")).to_pylist()

    assert [each["data"] for each in rows] == ['{"n" : 1.50,"t":"\\u00e4ä"}', "{}"]
    assert [each["place"] for each in rows] == [0, 1]
    assert {(each["event_type"], each["partition"], each["cursor"]) for each in rows} == {
        ("a.b", "0", "001-0001-000000000000000042")
    }
    assert {(each["id"], each["received_at"]) for each in rows} == {(None, None)}


def test_event_metadata_fill_the_id_and_received_at_columns() -> None:
    [row] = to_rows(batch('{"metadata":{"eid":"x","received_at":"2026-11-20T10:00:00.123456Z"}}')).to_pylist()

    assert (row["id"], row["received_at"]) == ("x", datetime(2026, 11, 20, 10, 0, 0, 123456, UTC))


@pytest.mark.parametrize(
    "metadata",
    [
        "3",
        "null",
        '"x"',
        '{"eid":3,"received_at":"soon"}',
        '{"received_at":17}',
        '{"received_at":"2026-11-20T10:00:00"}',
    ],
)
def test_metadata_of_another_shape_are_kept_as_data(metadata: str) -> None:
    [row] = to_rows(batch(f'{{"metadata":{metadata}}}')).to_pylist()

    assert (row["id"], row["received_at"]) == (None, None)
    assert row["data"] == f'{{"metadata":{metadata}}}'


def test_a_window_is_larger_than_a_micro_batch(nakadi: NakadiServer) -> None:
    subscription = SubscriptionReader(nakadi.query(max_events_per_trigger=1000, batch_limit=50, commit_timeout=30))
    subscription.open({})
    subscription.close()

    [query] = [path.partition("?")[2] for _, path, _ in nakadi.asked if "/events" in path]
    assert query == "batch_limit=50&batch_flush_timeout=1&max_uncommitted_events=2000&commit_timeout=30"


def test_each_request_has_the_token_that_the_file_has_then(nakadi: NakadiServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    nakadi.committed = {"0": offset(0)}
    nakadi.streams = [[line(1, 1)]]
    subscription = SubscriptionReader(nakadi.query(token_file=str(file)))
    file.write_text("geheim-1")
    subscription.load_committed()
    file.write_text("geheim-2")
    subscription.open({})
    take_line(subscription)
    file.write_text("geheim-3")
    subscription.commit({A: offset(1)})
    subscription.close()

    assert [each["authorization"][-1] for each in nakadi.headers] == ["1", "2", "2", "3"]


def test_token_is_not_sent_to_another_server(nakadi: NakadiServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheim")
    elsewhere = f"{nakadi.url.replace('127.0.0.1', 'localhost')}/event-types/a.b/partitions"
    nakadi.answers = {
        ("GET", "/s"): [(302, f"{nakadi.url}/subscriptions/t")],
        ("GET", "/partitions"): [(302, elsewhere)],
    }
    SubscriptionReader(nakadi.query(token_file=str(tmp_path / "token"))).ends()

    assert [path for _, path, _ in nakadi.asked] == [
        "/subscriptions/s", "/subscriptions/t", "/event-types/a.b/partitions", "/event-types/a.b/partitions",
    ]  # fmt: skip
    assert ["authorization" in each for each in nakadi.headers] == [True, True, True, False]


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (401, "Unauthorized", ServerError),
        (403, "Access on READ subscription:s denied", Forbidden),
        (404, 'Subscription with id "s" does not exist', NotFound),
        (422, "Session with stream id x not found", Invalid),
        (503, "try later", ServerError),
    ],
)
def test_refused_request_raises_the_answer_without_the_token(
    nakadi: NakadiServer, tmp_path: Path, status: int, said: str, kind: type[Exception]
) -> None:
    file = tmp_path / "token"
    file.write_text("geheim")
    nakadi.answers = {("GET", "/cursors"): [(status, said)]}

    with pytest.raises(kind) as refused:
        SubscriptionReader(nakadi.query(token_file=str(file))).load_committed()

    shown = str(refused.value) + repr(vars(refused.value))
    assert said in shown.replace("\\", "")
    assert "geheim" not in shown


def test_server_that_is_not_nakadi_is_reported(nakadi: NakadiServer) -> None:
    nakadi.answers = {("GET", "/s"): [(404, {"what": "ever"})], ("GET", "/cursors"): [(200, {"nothing": 1})]}
    subscription = SubscriptionReader(nakadi.query())

    with pytest.raises(WrongAddress, match="no Nakadi server answers at"):
        subscription.ends()
    with pytest.raises(MalformedAnswer, match="not what was asked for"):
        subscription.load_committed()


def test_server_error_is_retried(nakadi: NakadiServer) -> None:
    nakadi.answers = {("GET", "/cursors"): [(503, "try later"), (500, "oh")]}

    assert SubscriptionReader(nakadi.query(retry_timeout=30.0)).load_committed() == {}


def test_move_is_retried_while_a_cursor_reset_is_in_progress(nakadi: NakadiServer) -> None:
    nakadi.committed = {"0": offset(1)}
    nakadi.answers = {("PATCH", "/cursors"): [(409, "Cursors reset is already in progress")] * 2}
    with pytest.raises(Unavailable, match="others are in the way: Cursors reset"):
        SubscriptionReader(nakadi.query()).open({A: offset(3)})

    subscription = SubscriptionReader(nakadi.query(retry_timeout=30.0))
    subscription.open({A: offset(3)})
    subscription.close()

    assert nakadi.committed == {"0": offset(3)}


@pytest.mark.parametrize(
    ("text", "kind"), [(b'{"cursor":{"parti', ConnectionLost), (b"soon\n", MalformedAnswer), (b"{}\n", MalformedAnswer)]
)
def test_malformed_line_ends_the_stream(nakadi: NakadiServer, text: bytes, kind: type[Exception]) -> None:
    nakadi.streams = [[text], []]
    ended = OpenStream(f"{nakadi.url}/subscriptions/s/events", {}).take(300)

    assert isinstance(ended, StreamEnded)
    assert isinstance(ended.error, kind)


def test_defect_while_a_stream_is_read_is_raised(nakadi: NakadiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LineReader", None)

    with pytest.raises(TypeError):
        OpenStream(f"{nakadi.url}/subscriptions/s/events", {}).take(300)


def test_stream_with_a_full_inbox_is_closed(nakadi: NakadiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNKS_AHEAD", 1)
    nakadi.streams = [[line(number, 1) * 4000 for number in range(50)], []]
    stream = OpenStream(f"{nakadi.url}/subscriptions/s/events", {})
    [thread] = [each for each in threading.enumerate() if each.name == "penstock-nakadi-stream"]

    stream.close()

    assert not thread.is_alive()


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (409, Unavailable), (503, ServerError)])
def test_stream_that_cannot_be_opened_raises_the_refusal(
    nakadi: NakadiServer, status: int, kind: type[Exception]
) -> None:
    nakadi.answers = {("GET", "/events"): [(status, "No free slots for streaming available")]}

    with pytest.raises(kind, match="No free slots"):
        SubscriptionReader(nakadi.query()).open({})


def test_subscription_is_created_when_first_needed(nakadi: NakadiServer) -> None:
    query = nakadi.query(subscription=None, owning_application="lake", event_type=("a.b",))
    subscription = SubscriptionReader(query)
    assert nakadi.asked == []

    assert [subscription.id, subscription.id] == ["s", "s"]
    assert nakadi.asked == [("POST", "/subscriptions", query.definition())]


def test_a_stream_that_begins_where_the_query_is_needs_no_move(nakadi: NakadiServer) -> None:
    nakadi.committed = {"0": offset(4), "1": offset(7)}
    subscription = SubscriptionReader(nakadi.query())

    assert subscription.open({A: offset(4)}) == {A: offset(4), B: offset(7)}
    assert subscription.is_open
    assert nakadi.asked_of("PATCH", "/cursors") == []
    subscription.close()
    assert not subscription.is_open


def test_new_subscription_has_cursors_once_a_stream_is_open(nakadi: NakadiServer) -> None:
    subscription = SubscriptionReader(nakadi.query())

    assert subscription.open({}) == {A: offset(-1)}
    subscription.close()


def test_subscription_behind_the_query_is_moved_before_streaming(nakadi: NakadiServer) -> None:
    nakadi.committed = {"0": offset(4), "1": offset(7)}
    subscription = SubscriptionReader(nakadi.query())
    subscription.open({A: offset(9), B: offset(7)})
    subscription.close()

    methods = [(method, path.partition("?")[0].rpartition("/")[2]) for method, path, _ in nakadi.asked]
    assert methods == [("GET", "cursors"), ("PATCH", "cursors"), ("GET", "events")]
    assert nakadi.asked_of("PATCH", "/cursors") == [
        {"items": [{"event_type": "a.b", "partition": "0", "offset": offset(9)}]}
    ]


def test_subscription_without_admin_right_to_move_it_is_not_streamed(nakadi: NakadiServer) -> None:
    nakadi.committed = {"0": offset(4)}
    nakadi.answers = {("PATCH", "/cursors"): [(403, "Access on ADMIN subscription:s denied")]}

    with pytest.raises(Forbidden, match=r"ADMIN subscription:s denied: the query moves .* admin right"):
        SubscriptionReader(nakadi.query()).open({A: offset(9)})

    assert nakadi.asked_of("GET", "/events") == []


def test_cursors_committed_by_another_consumer_are_events_lost(
    nakadi: NakadiServer, caplog: pytest.LogCaptureFixture
) -> None:
    nakadi.committed = {"0": offset(9)}
    with pytest.raises(EventsLost, match=f"partition 0, can no longer be read: the query has come to {offset(4)}, wh"):
        SubscriptionReader(nakadi.query()).open({A: offset(4)})

    subscription = SubscriptionReader(nakadi.query(fail_on_data_loss=False))
    assert subscription.open({A: offset(4)}) == {A: offset(9)}
    subscription.close()
    assert "going on without them" in caplog.text
    assert nakadi.asked_of("PATCH", "/cursors") == []


def test_cursor_removed_by_retention_stays_and_the_other_cursors_are_moved(nakadi: NakadiServer) -> None:
    nakadi.committed = {"0": offset(4), "1": offset(7)}
    refusals = [(422, "cursors are not valid")] * 2
    nakadi.answers = {("PATCH", "/cursors"): [*refusals]}
    with pytest.raises(
        EventsLost, match=r"partition 0, can no longer be read: .* not go on from: cursors are not valid"
    ):
        SubscriptionReader(nakadi.query()).open({A: offset(5), B: offset(8)})

    nakadi.answers = {("PATCH", "/cursors"): [*refusals]}
    subscription = SubscriptionReader(nakadi.query(fail_on_data_loss=False))
    subscription.open({A: offset(5), B: offset(8)})
    subscription.close()
    assert nakadi.committed == {"0": offset(4), "1": offset(8)}


def test_cursors_are_committed_once_with_their_stream_id(nakadi: NakadiServer) -> None:
    nakadi.streams = [[line(1, 2), line(4, 3), line(4)]]
    subscription = SubscriptionReader(nakadi.query())
    subscription.open({})
    take_line(subscription)
    take_line(subscription)

    subscription.commit({A: offset(1)})
    subscription.commit({A: offset(1)})
    take_line(subscription)
    subscription.commit({A: offset(4)})
    subscription.commit({A: offset(4), B: offset(0)})
    subscription.close()

    assert [body["items"] for body in nakadi.asked_of("POST", "/cursors")] == [
        [{"partition": "0", "offset": offset(number), "event_type": "a.b", "cursor_token": f"t{number}"}]
        for number in (1, 4)
    ]
    assert nakadi.headers[-1]["x-nakadi-streamid"] == "stream-1"


def test_cursor_that_is_already_committed_is_not_committed_again(nakadi: NakadiServer) -> None:
    nakadi.committed = {"0": offset(4)}
    subscription = SubscriptionReader(nakadi.query())
    subscription.open({})
    subscription.note(BatchCursor("0", offset(4), "a.b", "t"))
    subscription.commit({A: offset(4)})
    subscription.close()

    assert nakadi.asked_of("POST", "/cursors") == []


def test_stream_whose_session_is_gone_is_closed_on_commit(
    nakadi: NakadiServer, caplog: pytest.LogCaptureFixture
) -> None:
    nakadi.streams = [[line(1, 2)]]
    nakadi.answers = {("POST", "/cursors"): [(422, "Session with stream id stream-1 not found")]}
    subscription = SubscriptionReader(nakadi.query())
    subscription.open({})
    take_line(subscription)

    subscription.commit({A: offset(1)})

    assert not subscription.is_open
    assert "cannot commit: Session with stream id stream-1 not found" in caplog.text


def test_unavailable_commit_is_repeated_later(nakadi: NakadiServer) -> None:
    nakadi.streams = [[line(1, 2)]]
    nakadi.answers = {("POST", "/cursors"): [(503, "later")]}
    subscription = SubscriptionReader(nakadi.query())
    subscription.open({})
    take_line(subscription)

    subscription.commit({A: offset(1)})
    assert subscription.is_open
    subscription.commit({A: offset(1)})
    subscription.close()

    assert len(nakadi.asked_of("POST", "/cursors")) == 2


def test_commit_to_a_deleted_subscription_fails(nakadi: NakadiServer) -> None:
    nakadi.streams = [[line(1, 2)]]
    nakadi.answers = {("POST", "/cursors"): [(404, 'Subscription with id "s" does not exist')]}
    subscription = SubscriptionReader(nakadi.query())
    subscription.open({})
    take_line(subscription)

    with pytest.raises(NotFound):
        subscription.commit({A: offset(1)})
    subscription.close()


def test_empty_streams_are_reopened_with_growing_delay_and_logged_reason(
    nakadi: NakadiServer, caplog: pytest.LogCaptureFixture
) -> None:
    nakadi.streams = [[], [line(0, debug="Consumption is blocked")], [], []]
    slept: list[float] = []
    subscription = SubscriptionReader(nakadi.query(), slept.append)
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        subscription.open({})
        assert slept == []
        assert subscription.take(SOON) is None
        assert not subscription.is_open
        subscription.open({})
        take_line(subscription)
        assert subscription.take(SOON) is None
        subscription.open({})
    subscription.close()

    assert len(slept) == 2
    assert all(0 < each <= 0.1 for each in slept), "a line was a sign of life"
    assert "a stream of subscription s has ended: Consumption is blocked" in caplog.messages


def test_delivered_cursors_can_be_committed_after_the_stream_ended(nakadi: NakadiServer) -> None:
    nakadi.streams = [[line(0, 1)], []]
    subscription = SubscriptionReader(nakadi.query())
    subscription.open({})
    take_line(subscription)
    assert subscription.take(SOON) is None

    subscription.commit({A: offset(0)})

    assert nakadi.headers[-1]["x-nakadi-streamid"] == "stream-1"
    assert BATCHES.decode(line(0, 1)).cursor.offset == nakadi.asked_of("POST", "/cursors")[0]["items"][0]["offset"]
