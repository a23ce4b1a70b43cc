"""Cursors over HTTP, beyond Nakadi's contract: problems by code and reason, times, retention, and epochs."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from penstock.testing.live_hub import LiveHub
from tests.served import Served, client_of, create, problem_of
from tests.store_contract import database_at

BEFORE = "001-0001--1"
OPERATIONS = ("cursors-lag", "shifted-cursors", "cursor-distances")


def at(number: int, epoch: int = 1) -> str:
    return f"001-{epoch:04x}-{number:018}" if number >= 0 else f"001-{epoch:04x}--1"


def place(offset: Any = "BEGIN", partition: Any = "0", **others: Any) -> dict[str, Any]:
    return {"partition": partition, "offset": offset, **others}


def pair(initial: Any, final: Any) -> dict[str, Any]:
    return {"initial_cursor": initial, "final_cursor": final}


def path(feed: Served, rest: str) -> str:
    return f"/event-types/{feed.name}/{rest}"


def post(feed: Served, rest: str, *given: Any) -> httpx2.Response:
    return feed.http.post(path(feed, rest), json=given)


def lag(feed: Served, offset: Any = "BEGIN", partition: str = "0") -> tuple[str, int]:
    [found] = post(feed, "cursors-lag", place(offset, partition)).json()
    return found["newest_available_offset"], found["unconsumed_events"]


def shift(feed: Served, offset: str, by: int | None) -> str:
    [found] = post(feed, "shifted-cursors", place(offset, shift=by)).json()
    return str(found["offset"])


def distance(feed: Served, initial: str, final: str) -> int:
    [found] = post(feed, "cursor-distances", pair(place(initial), place(final))).json()
    return int(found["distance"])


def positions_at(feed: Served, when: datetime | str) -> Any:
    answer = feed.http.get(path(feed, "cursors"), params={"at": when if isinstance(when, str) else when.isoformat()})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def feed2(either_http: httpx2.Client) -> Served:
    """A feed of two partitions on each database, with two events in the first."""
    feed = create(either_http, 2)
    feed.publish_ids([1, 2], partition=0)
    return feed


def test_lag_shift_and_distance_take_offsets_in_every_form(feed2: Served) -> None:
    assert lag(feed2) == lag(feed2, BEFORE) == lag(feed2, "begin") == (at(1), 2)
    assert lag(feed2, at(0)) == lag(feed2, 0) == lag(feed2, "0") == (at(1), 1)
    assert (lag(feed2, at(1)), lag(feed2, partition="1")) == ((at(1), 0), (BEFORE, 0))
    assert [shift(feed2, "BEGIN", by) for by in (None, 0, 1, 3)] == [BEFORE, BEFORE, at(0), at(2)]
    assert shift(feed2, at(7), -7) == at(0)
    assert [distance(feed2, *ends) for ends in (("BEGIN", at(1)), (at(1), at(0)), (BEFORE, at(99)))] == [2, -1, 100]


@pytest.mark.parametrize(
    ("operation", "given", "detail"),
    [
        ("cursors-lag", place(partition="2"), "non existing partition 2"),
        ("cursors-lag", place(at(2)), f"offset {at(2)} of partition 0 cannot be used: it is beyond the newest event"),
        ("cursors-lag", place(at(0, 2)), "it is of the feed's epoch 2, which is now 1"),
        ("cursors-lag", place("x"), f"it is neither of the form {at(41)} nor BEGIN"),
        ("cursors-lag", {"partition": "0"}, 'Field "[0].offset" may not be null'),
        ("cursors-lag", {"offset": "BEGIN", "partition": None}, 'Field "[0].partition" may not be null'),
        ("cursors-lag", None, 'Field "[0]" may not be null'),
        ("shifted-cursors", place(shift=-1), "partition 0"),
        ("shifted-cursors", place(at(3), shift=-5), "partition 0"),
        ("shifted-cursors", place(at(0), shift=10**18), "partition 0"),
        ("shifted-cursors", place(at(0), shift=-(2**63)), "partition 0"),
        ("cursor-distances", pair(place(), place(partition="1")), "different partitions"),
        ("cursor-distances", pair(place(), None), 'Field "[0].final_cursor" may not be null'),
        ("cursor-distances", {"final_cursor": place()}, 'Field "[0].initial_cursor" may not be null'),
        ("cursor-distances", pair(place(None), place()), '"[0].initial_cursor.offset" may not be null'),
        ("cursor-distances", pair(place("-3"), place()), "offset -3 of partition 0 cannot be used"),
    ],
    ids=str,
)
def test_unusable_cursor_is_refused_with_its_reason(feed2: Served, operation: str, given: Any, detail: str) -> None:
    problem = problem_of(post(feed2, operation, given), 422, "unusable-cursor")

    assert detail in problem["detail"]
    if operation == "shifted-cursors":
        assert (problem["partition"], problem["offset"]) == ("0", given["offset"])


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        *((body, 400, "bad-parameter") for body in (b"", b"{}", b"null", b"[1]", b'["x"]', b"\xff", b"[" * 99_999)),
        (json.dumps([place("x" * 1_000_000, "0" * 100_000)]).encode(), 413, "body-too-large"),
    ],
    ids=lambda value: repr(value[:10]) if isinstance(value, bytes) else "",
)
def test_body_that_is_no_list_of_cursors_is_refused(
    feed: Served, operation: str, body: bytes, status: int, code: str
) -> None:
    problem = problem_of(feed.http.post(path(feed, operation), content=body), status, code)
    assert status == 413 or problem["parameter"] == "body"


@pytest.mark.parametrize("cursors", ["", "[{}]", json.dumps([place("99")]), json.dumps([place(None)])])
def test_unusable_cursors_of_a_partition_list_are_refused(feed: Served, cursors: str) -> None:
    problem_of(feed.http.get(path(feed, "partitions"), params={"cursors": cursors}), 422, "unusable-cursor")
    assert len(feed.http.get(path(feed, "partitions"), params={"cursors": "[]"}).json()) == 1


@pytest.mark.parametrize("partition", ["1", "%00", "9" * 99])
def test_unknown_partition_is_not_found_and_its_offset_is_unusable(feed: Served, partition: str) -> None:
    answer = feed.http.get(path(feed, f"partitions/{partition}"))
    assert problem_of(answer, 404, "partition-not-found")["detail"] == "partition not found"
    answer = feed.http.get(path(feed, f"partitions/{partition}"), params={"consumed_offset": "BEGIN"})
    problem_of(answer, 422, "unusable-cursor")


@pytest.mark.parametrize("rest", ["partitions", "partitions/0", "cursors?at=2026-01-01T00:00:00Z", *OPERATIONS])
@pytest.mark.parametrize("name", ["no.such", "1", "a b"])
def test_cursors_of_an_unknown_event_type_are_not_found(http: httpx2.Client, rest: str, name: str) -> None:
    url = f"/event-types/{name}/{rest}"
    answer = http.post(url, json=[]) if rest in OPERATIONS else http.get(url)
    assert problem_of(answer, 404, "event-type-not-found")["event_type"] == name


def test_cursors_at_a_time_stand_before_the_first_later_event(feed2: Served) -> None:
    between = datetime.now(UTC)
    feed2.publish_ids([3], partition=0)
    feed2.publish_ids([4], partition=1)

    assert positions_at(feed2, between) == [place(at(1)), place(BEFORE, "1")]
    assert positions_at(feed2, "1999-12-31T23:59:59.999999-11:00") == [place(BEFORE), place(BEFORE, "1")]
    assert positions_at(feed2, between + timedelta(hours=1)) == [place(at(2)), place(at(0), "1")]
    headers = {"X-nakadi-cursors": json.dumps(positions_at(feed2, between)[:1])}
    stream = feed2.http.get(path(feed2, "events"), params={"stream_limit": 1}, headers=headers)
    assert stream.json()["events"] == [{"id": 3}]


@pytest.mark.parametrize("when", [None, "", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "0"])
def test_cursors_at_a_malformed_time_are_refused(feed: Served, when: str | None) -> None:
    answer = feed.http.get(path(feed, "cursors"), params={} if when is None else {"at": when})
    assert problem_of(answer, 400, "bad-parameter")["parameter"] == "at"


@pytest.fixture(params=["sqlite", "postgres"])
def retained(request: pytest.FixtureRequest) -> Iterator[Served]:
    """A feed of five events, of which retention has removed the first three."""
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


def test_offsets_behind_retention_are_unavailable_but_can_be_compared(retained: Served) -> None:
    (shown,) = retained.http.get(path(retained, "partitions")).json()
    assert (shown["oldest_available_offset"], shown["newest_available_offset"]) == (at(3), at(4))
    assert lag(retained) == lag(retained, at(2)) == (at(4), 2)
    problem = problem_of(post(retained, "cursors-lag", place(at(0))), 422, "unusable-cursor")
    assert problem["reason"] == "retention has removed 2 events after it"
    assert problem["oldest_available_offset"] == at(3)

    assert (shift(retained, "BEGIN", 0), shift(retained, at(2), -3)) == (at(2), BEFORE)
    assert distance(retained, "-1", "BEGIN") == 3
    assert positions_at(retained, "1999-01-01T00:00:00Z") == [place(at(2))]


def test_offset_of_an_earlier_epoch_is_unavailable(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    feed.publish_ids([1, 2])
    feed.drop()
    again = create(either_http, 1, feed.name)
    again.publish_ids([1, 2])

    assert lag(again) == (at(1, epoch=2), 2)
    for offset in (at(0), "0", BEFORE):
        problem = problem_of(post(again, "cursors-lag", place(offset)), 422, "unusable-cursor")
        assert "epoch 1, which is now 2" in problem["reason"]
