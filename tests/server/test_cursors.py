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


def at(number: int) -> str:
    return f"001-0001-{number:018}" if number >= 0 else BEFORE


def place(offset: Any = "BEGIN", partition: Any = "0", **others: Any) -> dict[str, Any]:
    return {"partition": partition, "offset": offset, **others}


def pair(initial: Any, final: Any) -> dict[str, Any]:
    return {"initial_cursor": initial, "final_cursor": final}


def path(feed: Served, rest: str) -> str:
    return f"/event-types/{feed.name}/{rest}"


def post(feed: Served, rest: str, *given: Any) -> httpx2.Response:
    return feed.http.post(path(feed, rest), json=given)


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


@pytest.mark.parametrize(
    ("operation", "given", "detail"),
    [
        ("cursors-lag", place("x"), f"it is neither of the form {at(41)} nor BEGIN"),
        ("shifted-cursors", place(at(0), shift=10**18), "partition 0"),
        ("cursor-distances", pair(place(None), place()), '"[0].initial_cursor.offset" may not be null'),
    ],
)
def test_unusable_cursor_is_refused_with_its_reason(feed: Served, operation: str, given: Any, detail: str) -> None:
    problem = problem_of(post(feed, operation, given), 422, "unusable-cursor")

    assert detail in problem["detail"]
    if operation == "shifted-cursors":
        assert (problem["partition"], problem["offset"]) == ("0", given["offset"])
    large = json.dumps([place("x" * 1_000_000, "0" * 100_000)]).encode()
    problem_of(feed.http.post(path(feed, operation), content=large), 413, "body-too-large")


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

    answer = feed2.http.get(path(feed2, "cursors"), params={"at": "yesterday"})
    assert problem_of(answer, 400, "bad-parameter")["parameter"] == "at"
    answer = feed2.http.get("/event-types/no.such/cursors", params={"at": between.isoformat()})
    assert problem_of(answer, 404, "event-type-not-found")["event_type"] == "no.such"


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
    for offset in ("BEGIN", at(2)):
        [lag] = post(retained, "cursors-lag", place(offset)).json()
        assert (lag["newest_available_offset"], lag["unconsumed_events"]) == (at(4), 2)
    problem = problem_of(post(retained, "cursors-lag", place(at(0))), 422, "unusable-cursor")
    assert problem["reason"] == "retention has removed 2 events after it"
    assert problem["oldest_available_offset"] == at(3)

    shifted = post(retained, "shifted-cursors", place(shift=0), place(at(2), shift=-3)).json()
    assert [each["offset"] for each in shifted] == [at(2), BEFORE]
    [compared] = post(retained, "cursor-distances", pair(place("-1"), place())).json()
    assert compared["distance"] == 3
    assert positions_at(retained, "1999-01-01T00:00:00Z") == [place(at(2))]
