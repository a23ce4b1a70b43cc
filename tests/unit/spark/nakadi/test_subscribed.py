import logging

import pytest

from penstock.errors import EventsLost, Forbidden, NotFound
from penstock.spark.nakadi.cursors import NakadiPartition
from penstock.spark.nakadi.options import WantedSubscription
from penstock.spark.nakadi.subscribed import SubscriptionReader
from penstock.wire.subscriptions import BATCHES, BatchCursor, BatchLine
from tests.unit.spark.nakadi.serving import Serving, line, offset

A, B = NakadiPartition("a.b", "0"), NakadiPartition("a.b", "1")
SOON = 300.0


def take_line(subscribed: SubscriptionReader) -> BatchLine:
    """The next line, of which note is taken as if its events were landed."""
    found = subscribed.take(SOON)
    assert found is not None
    subscribed.note(found.cursor)
    return found


def test_subscription_is_created_when_first_needed(nakadi: Serving) -> None:
    definition = WantedSubscription(owning_application="lake", event_types=("a.b",))
    subscribed = SubscriptionReader(nakadi.options(subscription=definition))
    assert nakadi.asked == []

    assert [subscribed.id, subscribed.id] == ["s", "s"]
    assert nakadi.asked == [("POST", "/subscriptions", definition.members())]


def test_a_stream_that_begins_where_the_query_is_needs_no_move(nakadi: Serving) -> None:
    nakadi.committed = {"0": offset(4), "1": offset(7)}
    subscribed = SubscriptionReader(nakadi.options())

    assert subscribed.open({A: offset(4)}) == {A: offset(4), B: offset(7)}
    assert subscribed.is_open
    assert nakadi.asked_of("PATCH", "/cursors") == []
    subscribed.close()
    assert not subscribed.is_open


def test_new_subscription_has_cursors_once_a_stream_is_open(nakadi: Serving) -> None:
    subscribed = SubscriptionReader(nakadi.options())

    assert subscribed.open({}) == {A: offset(-1)}
    subscribed.close()


def test_subscription_behind_the_query_is_moved_before_streaming(nakadi: Serving) -> None:
    nakadi.committed = {"0": offset(4), "1": offset(7)}
    subscribed = SubscriptionReader(nakadi.options())
    subscribed.open({A: offset(9), B: offset(7)})
    subscribed.close()

    methods = [(method, path.partition("?")[0].rpartition("/")[2]) for method, path, _ in nakadi.asked]
    assert methods == [("GET", "cursors"), ("PATCH", "cursors"), ("GET", "events")]
    assert nakadi.asked_of("PATCH", "/cursors") == [
        {"items": [{"event_type": "a.b", "partition": "0", "offset": offset(9)}]}
    ]


def test_subscription_without_admin_right_to_move_it_is_not_streamed(nakadi: Serving) -> None:
    nakadi.committed = {"0": offset(4)}
    nakadi.answers = {("PATCH", "/cursors"): [(403, "Access on ADMIN subscription:s denied")]}

    with pytest.raises(Forbidden, match=r"ADMIN subscription:s denied: the query moves .* admin right"):
        SubscriptionReader(nakadi.options()).open({A: offset(9)})

    assert nakadi.asked_of("GET", "/events") == []


def test_cursors_committed_by_another_consumer_are_events_lost(
    nakadi: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    nakadi.committed = {"0": offset(9)}
    with pytest.raises(EventsLost, match=f"partition 0, can no longer be read: the query has come to {offset(4)}, wh"):
        SubscriptionReader(nakadi.options()).open({A: offset(4)})

    subscribed = SubscriptionReader(nakadi.options(fail_on_data_loss=False))
    assert subscribed.open({A: offset(4)}) == {A: offset(9)}
    subscribed.close()
    assert "going on without them" in caplog.text
    assert nakadi.asked_of("PATCH", "/cursors") == []


def test_cursor_removed_by_retention_stays_and_the_other_cursors_are_moved(nakadi: Serving) -> None:
    nakadi.committed = {"0": offset(4), "1": offset(7)}
    refusals = [(422, "cursors are not valid")] * 2
    nakadi.answers = {("PATCH", "/cursors"): [*refusals]}
    with pytest.raises(
        EventsLost, match=r"partition 0, can no longer be read: .* not go on from: cursors are not valid"
    ):
        SubscriptionReader(nakadi.options()).open({A: offset(5), B: offset(8)})

    nakadi.answers = {("PATCH", "/cursors"): [*refusals]}
    subscribed = SubscriptionReader(nakadi.options(fail_on_data_loss=False))
    subscribed.open({A: offset(5), B: offset(8)})
    subscribed.close()
    assert nakadi.committed == {"0": offset(4), "1": offset(8)}


def test_cursors_are_committed_once_with_their_stream_id(nakadi: Serving) -> None:
    nakadi.streams = [[line(1, 2), line(4, 3), line(4)]]
    subscribed = SubscriptionReader(nakadi.options())
    subscribed.open({})
    take_line(subscribed)
    take_line(subscribed)

    subscribed.commit({A: offset(1)})
    subscribed.commit({A: offset(1)})
    take_line(subscribed)
    subscribed.commit({A: offset(4)})
    subscribed.commit({A: offset(4), B: offset(0)})
    subscribed.close()

    assert [body["items"] for body in nakadi.asked_of("POST", "/cursors")] == [
        [{"partition": "0", "offset": offset(number), "event_type": "a.b", "cursor_token": f"t{number}"}]
        for number in (1, 4)
    ]
    assert nakadi.headers[-1]["x-nakadi-streamid"] == "stream-1"


def test_cursor_that_is_already_committed_is_not_committed_again(nakadi: Serving) -> None:
    nakadi.committed = {"0": offset(4)}
    subscribed = SubscriptionReader(nakadi.options())
    subscribed.open({})
    subscribed.note(BatchCursor("0", offset(4), "a.b", "t"))
    subscribed.commit({A: offset(4)})
    subscribed.close()

    assert nakadi.asked_of("POST", "/cursors") == []


def test_stream_whose_session_is_gone_is_closed_on_commit(nakadi: Serving, caplog: pytest.LogCaptureFixture) -> None:
    nakadi.streams = [[line(1, 2)]]
    nakadi.answers = {("POST", "/cursors"): [(422, "Session with stream id stream-1 not found")]}
    subscribed = SubscriptionReader(nakadi.options())
    subscribed.open({})
    take_line(subscribed)

    subscribed.commit({A: offset(1)})

    assert not subscribed.is_open
    assert "cannot commit: Session with stream id stream-1 not found" in caplog.text


def test_unavailable_commit_is_repeated_later(nakadi: Serving) -> None:
    nakadi.streams = [[line(1, 2)]]
    nakadi.answers = {("POST", "/cursors"): [(503, "later")]}
    subscribed = SubscriptionReader(nakadi.options())
    subscribed.open({})
    take_line(subscribed)

    subscribed.commit({A: offset(1)})
    assert subscribed.is_open
    subscribed.commit({A: offset(1)})
    subscribed.close()

    assert len(nakadi.asked_of("POST", "/cursors")) == 2


def test_commit_to_a_deleted_subscription_fails(nakadi: Serving) -> None:
    nakadi.streams = [[line(1, 2)]]
    nakadi.answers = {("POST", "/cursors"): [(404, 'Subscription with id "s" does not exist')]}
    subscribed = SubscriptionReader(nakadi.options())
    subscribed.open({})
    take_line(subscribed)

    with pytest.raises(NotFound):
        subscribed.commit({A: offset(1)})
    subscribed.close()


def test_empty_streams_are_reopened_with_growing_delay_and_logged_reason(
    nakadi: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    nakadi.streams = [[], [line(0, debug="Consumption is blocked")], [], []]
    slept: list[float] = []
    subscribed = SubscriptionReader(nakadi.options(), slept.append)
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        subscribed.open({})
        assert slept == []
        assert subscribed.take(SOON) is None
        assert not subscribed.is_open
        subscribed.open({})
        take_line(subscribed)
        assert subscribed.take(SOON) is None
        subscribed.open({})
    subscribed.close()

    assert len(slept) == 2
    assert all(0 < each <= 0.1 for each in slept), "a line was a sign of life"
    assert "a stream of subscription s has ended: Consumption is blocked" in caplog.messages


def test_delivered_cursors_can_be_committed_after_the_stream_ended(nakadi: Serving) -> None:
    nakadi.streams = [[line(0, 1)], []]
    subscribed = SubscriptionReader(nakadi.options())
    subscribed.open({})
    take_line(subscribed)
    assert subscribed.take(SOON) is None

    subscribed.commit({A: offset(0)})

    assert nakadi.headers[-1]["x-nakadi-streamid"] == "stream-1"
    assert BATCHES.decode(line(0, 1)).cursor.offset == nakadi.asked_of("POST", "/cursors")[0]["items"][0]["offset"]
