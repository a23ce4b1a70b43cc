"""Partitions and cursors over HTTP, in Nakadi's shape, on both databases (digest of its contract, 4.4 to 4.6)."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from penstock.testing.live_hub import LiveHub
from penstock.testing.store_contract import database_at
from tests.served import Served, client_of, create, problem_of

FIRST = "001-0001-000000000000000000"
BEFORE = "001-0001--1"


def at(number: int, epoch: int = 1) -> str:
    return f"001-{epoch:04x}-{number:018}" if number >= 0 else f"001-{epoch:04x}--1"


def place(offset: Any = "BEGIN", partition: Any = "0", **others: Any) -> dict[str, Any]:
    return {"partition": partition, "offset": offset, **others}


def path(feed: Served, rest: str = "") -> str:
    return f"/event-types/{feed.name}/{rest}"


def post(feed: Served, rest: str, *given: Any) -> Any:
    answer = feed.http.post(path(feed, rest), json=given)
    assert answer.status_code == 200, answer.text
    return answer.json()


def lag(feed: Served, offset: Any = "BEGIN", partition: str = "0") -> tuple[str, int]:
    (found,) = post(feed, "cursors-lag", place(offset, partition))
    return found["newest_available_offset"], found["unconsumed_events"]


def shift(feed: Served, offset: str, by: int | None) -> str:
    (found,) = post(feed, "shifted-cursors", place(offset, shift=by))
    assert found["partition"] == "0"
    return str(found["offset"])


@pytest.fixture
def feed2(either_http: httpx2.Client) -> Served:
    """A feed with two partitions on both databases, without events."""
    return create(either_http, 2)


class TestLag:
    def test_it_grows_with_what_comes_after_the_cursor(self, feed2: Served) -> None:
        assert lag(feed2) == (BEFORE, 0)
        feed2.publish_ids([1, 2], partition=0)
        assert lag(feed2) == (at(1), 2)
        feed2.publish_ids([3, 4, 5], partition=0)
        assert lag(feed2) == (at(4), 5)
        assert lag(feed2, at(0)) == lag(feed2, 0) == lag(feed2, "0") == (at(4), 4)
        assert lag(feed2, at(4)) == (at(4), 0)
        assert lag(feed2, BEFORE) == lag(feed2, "begin") == (at(4), 5)
        assert lag(feed2, partition="1") == (BEFORE, 0)

    def test_it_is_told_in_the_order_that_it_was_asked_for(self, feed2: Served) -> None:
        feed2.publish_ids([1], partition=0)
        found = post(feed2, "cursors-lag", place(partition="1"), place(), place(0))
        assert [(each["partition"], each["unconsumed_events"]) for each in found] == [("1", 0), ("0", 1), ("0", 0)]
        assert found[1]["oldest_available_offset"] == FIRST
        assert post(feed2, "cursors-lag") == []

    @pytest.mark.parametrize(
        ("given", "detail"),
        [
            (place(partition="2"), "non existing partition 2"),
            (place(at(1)), f"offset {at(1)} of partition 0 cannot be used: it is beyond the newest event"),
            (place(at(0, 2)), "it is of the feed's epoch 2, which is now 1"),
            (place("x"), f"it is neither of the form {at(41)} nor BEGIN"),
            ({"partition": "0"}, 'Field "[0].offset" may not be null'),
            ({"offset": "BEGIN", "partition": None}, 'Field "[0].partition" may not be null'),
            (None, 'Field "[0]" may not be null'),
        ],
        ids=str,
    )
    def test_a_cursor_that_cannot_be_used_is_422(self, feed2: Served, given: Any, detail: str) -> None:
        feed2.publish_ids([1], partition=0)
        answer = feed2.http.post(path(feed2, "cursors-lag"), json=[given])
        assert detail in problem_of(answer, 422, "unusable-cursor")["detail"]


class TestShift:
    def test_it_goes_beyond_the_end_and_back_to_before_the_first_event(self, feed2: Served) -> None:
        assert shift(feed2, "BEGIN", 0) == shift(feed2, "BEGIN", None) == BEFORE
        feed2.publish_ids([1, 2], partition=0)
        assert [shift(feed2, "BEGIN", by) for by in (0, 1, 2, 3)] == [BEFORE, at(0), at(1), at(2)]
        assert [shift(feed2, at(1), by) for by in (0, -1, -2)] == [at(1), at(0), BEFORE]
        assert shift(feed2, at(7), -7) == at(0)

    def test_a_cursor_without_a_shift_stays(self, feed2: Served) -> None:
        assert post(feed2, "shifted-cursors", place(5), place("7", "1", shift=2)) == [place(at(5)), place(at(9), "1")]

    @pytest.mark.parametrize(("offset", "by"), [("BEGIN", -1), (at(3), -5), (at(0), 10**18), (at(0), -(2**63))])
    def test_there_is_nothing_before_the_first_event_or_after_all(self, feed2: Served, offset: str, by: int) -> None:
        answer = feed2.http.post(path(feed2, "shifted-cursors"), json=[place(offset, shift=by)])
        problem = problem_of(answer, 422, "unusable-cursor")
        assert (problem["partition"], problem["offset"]) == ("0", offset)


class TestDistances:
    def test_it_is_how_many_events_lie_between(self, feed2: Served) -> None:
        feed2.publish_ids([1, 2, 3], partition=0)
        pairs = [("BEGIN", at(2), 3), (at(0), at(1), 1), (at(1), at(0), -1), ("1", "1", 0), (BEFORE, at(99), 100)]
        given = [{"initial_cursor": place(first), "final_cursor": place(last)} for first, last, _ in pairs]
        found = post(feed2, "cursor-distances", *given)
        assert found == [each | {"distance": pair[2]} for each, pair in zip(given, pairs, strict=True)]

    @pytest.mark.parametrize(
        ("given", "detail"),
        [
            ({"initial_cursor": place(), "final_cursor": place(partition="1")}, "different partitions"),
            ({"initial_cursor": place(), "final_cursor": None}, 'Field "[0].final_cursor" may not be null'),
            ({"final_cursor": place()}, 'Field "[0].initial_cursor" may not be null'),
            ({"initial_cursor": place(None), "final_cursor": place()}, '"[0].initial_cursor.offset" may not be null'),
            ({"initial_cursor": place("-3"), "final_cursor": place()}, "offset -3 of partition 0 cannot be used"),
        ],
        ids=str,
    )
    def test_a_pair_that_makes_no_sense_is_422(self, feed2: Served, given: Any, detail: str) -> None:
        answer = feed2.http.post(path(feed2, "cursor-distances"), json=[given])
        assert detail in problem_of(answer, 422, "unusable-cursor")["detail"]


@pytest.mark.parametrize("rest", ["cursors-lag", "shifted-cursors", "cursor-distances"])
class TestBodies:
    @pytest.mark.parametrize("body", [b"", b"{", b"{}", b"null", b"[1]", b'["x"]', b"\xff", b"[" * 99_999], ids=repr)
    def test_a_body_that_is_no_list_of_cursors_is_400(self, http: httpx2.Client, rest: str, body: bytes) -> None:
        answer = http.post(path(create(http), rest), content=body)
        assert problem_of(answer, 400, "bad-parameter")["parameter"] == "body"

    def test_a_body_has_a_limit(self, http: httpx2.Client, rest: str) -> None:
        body = json.dumps([place("x" * 1_000_000, "0" * 100_000)])
        problem_of(http.post(path(create(http), rest), content=body), 413, "body-too-large")

    def test_an_event_type_that_is_not_there_is_named(self, http: httpx2.Client, rest: str) -> None:
        problem = problem_of(http.post(f"/event-types/no.such/{rest}", json=[]), 404, "event-type-not-found")
        assert problem["event_type"] == "no.such"


class TestPartitions:
    def test_one_is_shown_as_in_the_list(self, feed2: Served) -> None:
        feed2.publish_ids([1, 2], partition=1)
        listed = feed2.http.get(path(feed2, "partitions")).json()
        assert listed == [
            {"partition": "0", "oldest_available_offset": FIRST, "newest_available_offset": BEFORE},
            {"partition": "1", "oldest_available_offset": FIRST, "newest_available_offset": at(1)},
        ]
        assert [feed2.http.get(path(feed2, f"partitions/{number}")).json() for number in (0, 1)] == listed

    def test_those_with_a_cursor_come_last_with_what_was_not_consumed(self, either_http: httpx2.Client) -> None:
        feed = create(either_http, 4)
        feed.publish_ids([1, 2, 3], partition=1)
        cursors = json.dumps([place(partition="3"), place(at(0), "1")])
        found = feed.http.get(path(feed, "partitions"), params={"cursors": cursors}).json()
        assert [(each["partition"], each.get("unconsumed_events")) for each in found] == [
            ("0", None),
            ("2", None),
            ("3", 0),
            ("1", 2),
        ]
        assert len(feed.http.get(path(feed, "partitions"), params={"cursors": "[]"}).json()) == 4

    @pytest.mark.parametrize(
        "cursors",
        [
            "",
            "x",
            "{}",
            "[null]",
            "[{}]",
            json.dumps([place(), place()]),
            json.dumps([place(partition="7")]),
            json.dumps([place("99")]),
            json.dumps([place(None)]),
        ],
    )
    def test_cursors_that_cannot_be_used_are_422(self, http: httpx2.Client, cursors: str) -> None:
        answer = http.get(path(create(http, 2), "partitions"), params={"cursors": cursors})
        problem_of(answer, 422, "unusable-cursor")

    @pytest.mark.parametrize(("offset", "events"), [("BEGIN", 2), (BEFORE, 2), ("0", 1), (at(1), 0)])
    def test_one_tells_what_was_not_consumed(self, feed2: Served, offset: str, events: int) -> None:
        feed2.publish_ids([1, 2], partition=1)
        answer = feed2.http.get(path(feed2, "partitions/1"), params={"consumed_offset": offset})
        assert answer.json()["unconsumed_events"] == events

    @pytest.mark.parametrize("partition", ["2", "-1", "00", "x", "%00", "9" * 99])
    def test_one_that_is_not_there_is_404_and_422_with_an_offset(self, http: httpx2.Client, partition: str) -> None:
        feed = create(http, 2)
        answer = feed.http.get(path(feed, f"partitions/{partition}"))
        assert problem_of(answer, 404, "partition-not-found")["detail"] == "partition not found"
        answer = feed.http.get(path(feed, f"partitions/{partition}"), params={"consumed_offset": "BEGIN"})
        problem_of(answer, 422, "unusable-cursor")

    @pytest.mark.parametrize("offset", ["", "x", "7", "001-0002--1"])
    def test_an_offset_that_cannot_be_used_is_422(self, http: httpx2.Client, offset: str) -> None:
        answer = http.get(path(create(http), "partitions/0"), params={"consumed_offset": offset})
        problem_of(answer, 422, "unusable-cursor")

    @pytest.mark.parametrize("rest", ["partitions", "partitions/0", "cursors?at=2026-01-01T00:00:00Z"])
    @pytest.mark.parametrize("name", ["no.such", "1", "a b"])
    def test_an_event_type_that_is_not_there_is_named(self, http: httpx2.Client, rest: str, name: str) -> None:
        problem = problem_of(http.get(f"/event-types/{name}/{rest}"), 404, "event-type-not-found")
        assert problem["event_type"] == name


class TestTimes:
    def find(self, feed: Served, when: datetime | str) -> list[dict[str, str]]:
        text = when if isinstance(when, str) else when.isoformat()
        answer = feed.http.get(path(feed, "cursors"), params={"at": text})
        assert answer.status_code == 200, answer.text
        found: list[dict[str, str]] = answer.json()
        return found

    def test_a_cursor_stands_before_the_first_event_of_a_time(self, feed2: Served) -> None:
        feed2.publish_ids([1, 2], partition=0)
        between = datetime.now(UTC)
        feed2.publish_ids([3], partition=0)
        feed2.publish_ids([4], partition=1)

        assert self.find(feed2, between) == [place(at(1)), place(BEFORE, "1")]
        assert self.find(feed2, "1999-12-31T23:59:59.999999-11:00") == [place(BEFORE), place(BEFORE, "1")]
        assert self.find(feed2, between + timedelta(hours=1)) == [place(at(2)), place(at(0), "1")]

    def test_what_is_found_is_where_a_stream_begins(self, feed2: Served) -> None:
        feed2.publish_ids([1, 2], partition=0)
        found = self.find(feed2, datetime.now(UTC))
        feed2.publish_ids([3], partition=0)

        answer = feed2.http.get(
            path(feed2, "events"), params={"stream_limit": 1}, headers={"X-nakadi-cursors": json.dumps(found)}
        )
        assert answer.json()["events"] == [{"id": 3}]

    @pytest.mark.parametrize("when", ["", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "0"])
    def test_what_is_no_time_is_400(self, http: httpx2.Client, when: str) -> None:
        answer = http.get(path(create(http), "cursors"), params={"at": when})
        assert problem_of(answer, 400, "bad-parameter")["parameter"] == "at"
        assert problem_of(http.get(path(create(http), "cursors")), 400, "bad-parameter")["parameter"] == "at"


class TestRetention:
    @pytest.fixture(params=["sqlite", "postgres"])
    def retained(self, request: pytest.FixtureRequest) -> Any:
        """A feed with five events, of which the first three are gone."""
        hub: LiveHub = request.getfixturevalue(f"{request.param}_hub")
        with client_of(hub) as http:
            feed = create(http)
            feed.publish_ids(range(5))
            event_type = f"(SELECT id FROM penstock_event_type WHERE name = '{feed.name}')"
            partition = f"(SELECT id FROM penstock_partition WHERE event_type_id = {event_type})"
            database = database_at(hub.database)
            database.run(f"UPDATE penstock_partition SET floor = 3 WHERE id = {partition}")
            database.run(f'DELETE FROM penstock_event WHERE "offset" < 3 AND partition_id = {partition}')
            yield feed

    def test_what_is_gone_is_not_available(self, retained: Served) -> None:
        (shown,) = retained.http.get(path(retained, "partitions")).json()
        assert (shown["oldest_available_offset"], shown["newest_available_offset"]) == (at(3), at(4))
        assert lag(retained) == lag(retained, at(2)) == (at(4), 2)
        answer = retained.http.post(path(retained, "cursors-lag"), json=[place(at(0))])
        problem = problem_of(answer, 422, "unusable-cursor")
        assert problem["reason"] == "retention has removed 2 events after it"
        assert problem["oldest_available_offset"] == at(3)

    def test_distances_and_shifts_need_no_events(self, retained: Served) -> None:
        assert shift(retained, "BEGIN", 0) == at(2)
        assert shift(retained, at(2), -3) == BEFORE
        (found,) = post(retained, "cursor-distances", {"initial_cursor": place("-1"), "final_cursor": place()})
        assert found["distance"] == 3

    def test_a_time_before_it_begins_with_what_is_there(self, retained: Served) -> None:
        found = retained.http.get(path(retained, "cursors"), params={"at": "1999-01-01T00:00:00Z"}).json()
        assert found == [place(at(2))]


def test_an_offset_of_an_earlier_epoch_is_unavailable(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    feed.publish_ids([1, 2])
    feed.drop()
    again = create(either_http, 1, feed.name)
    again.publish_ids([1, 2])
    assert lag(again) == (at(1, epoch=2), 2)
    for offset in (at(0), "0", BEFORE):
        answer = again.http.post(path(again, "cursors-lag"), json=[place(offset)])
        assert "epoch 1, which is now 2" in problem_of(answer, 422, "unusable-cursor")["reason"]
