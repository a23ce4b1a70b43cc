"""`max_event_bytes` of an event type limits its events in every way to publish, and the lines of its feed."""

import json
import uuid
from typing import Any

import httpx2
import pytest

from penstock.core.events.event import NewEvent
from penstock.core.log.acceptance import line_bytes
from penstock.core.registry.event_type import EventType
from penstock.testing.factories import an_event_type
from tests.served import Served, create, problem_of

LIMIT = 2_000
METADATA = {"eid": "3f0d5e3c-4f0e-4f5e-9d6c-0a1b2c3d4e5f", "occurred_at": "2026-01-01T00:00:00Z"}


@pytest.fixture
def bounded(either_http: httpx2.Client) -> Served:
    return create(either_http, 2, max_event_bytes=LIMIT)


def compact(line: dict[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode()


def event(size: int) -> dict[str, str]:
    """Return an event of *size* bytes."""
    return {"text": "x" * (size - len('{"text":""}'))}


def overhead(feed: Served, **members: Any) -> int:
    """Return how many bytes a line has beside its event."""
    event_type = EventType.parse(an_event_type(feed.name))
    return line_bytes(event_type, NewEvent.of(b"{}", **members), {}, key=members.get("key"), kind=None) - len("{}")


def longest_line(feed: Served, **asked: Any) -> int:
    answer = feed.get(n=2, cursor0="_first", cursor1="_first", headers="_all", **asked)
    return max(map(len, answer.content.splitlines(keepends=True)))


def test_event_up_to_the_limit_is_taken_and_above_it_refused(bounded: Served) -> None:
    headers = {"a": "b" * 300}
    room = LIMIT - overhead(bounded, headers=headers)
    assert bounded.post(compact({"data": event(room), "headers": headers, "partition": 0})).status_code == 200
    line = compact({"data": event(room + 1), "headers": headers, "partition": 0})
    problem = problem_of(bounded.post(line), 413, "event-too-large")

    assert (problem["line"], problem["size"], problem["limit"]) == (1, LIMIT + 1, LIMIT)
    assert "max_event_bytes" in problem["detail"]
    assert LIMIT - len("32767") < longest_line(bounded) <= LIMIT


def test_lines_of_business_events_with_metadata_stay_below_the_limit(either_http: httpx2.Client) -> None:
    feed = create(
        either_http, 1, f"a{uuid.uuid4().hex}.{'b' * 221}",
        category="business", enrichment_strategies=["metadata_enrichment"], max_event_bytes=LIMIT,
    )  # fmt: skip
    refused = 0
    for size in range(100, 1_900, 60):
        answer = feed.http.post(
            f"/event-types/{feed.name}/events",
            json=[event(size) | {"metadata": METADATA}],
            headers={"X-Flow-Id": "f" * 128},
        )
        refused += answer.status_code == 422
    answer = feed.get(n=1, cursor0="_first", headers="_all")
    longest = max(map(len, answer.content.splitlines(keepends=True)))

    assert 0 < refused < 30
    assert LIMIT - 600 < longest <= LIMIT


WAYS = ["line", "batch", "partition", "idempotent", "upload"]


@pytest.mark.parametrize("way", WAYS)
def test_limit_holds_in_every_way_to_publish(bounded: Served, way: str) -> None:
    large, small = event(LIMIT), event(LIMIT - 400)
    statuses = [hand_in(bounded, way, each) for each in (small, large)]

    assert statuses[0] in (200, 201)
    assert statuses[1] in (413, 422)


def hand_in(feed: Served, way: str, data: dict[str, str]) -> int:
    line, at = compact({"data": data, "partition": 0}), f"/event-types/{feed.name}"
    lines = {"Content-Type": "application/x-ndjson"}
    if way == "line":
        return feed.post(line).status_code
    if way == "batch":
        body = [data | {"metadata": {"partition": "0"}}]
        return feed.http.post(f"{at}/events", json=body).status_code
    if way == "partition":
        return feed.http.post(f"{at}/partitions/0/events", content=line, headers=lines).status_code
    if way == "idempotent":
        group = uuid.uuid4().hex
        feed.http.put(f"{at}/partitions/0/producers/{group}", json={})
        numbers = {"Producer-Group": group, "Producer-Epoch": "0", "Producer-Sequence": "0"} | lines
        return feed.http.post(f"{at}/partitions/0/events", content=line, headers=numbers).status_code
    upload = feed.http.post(f"{at}/uploads", json={"producer_group": "p", "batch": 0, "query": "q"})
    assert upload.status_code == 201, upload.text
    chunk = f"{at}/uploads/{upload.json()['upload']}/chunks/0"
    return feed.http.put(chunk, content=line, headers=lines).status_code


def test_limit_can_be_lowered_and_removed_without_touching_stored_events(bounded: Served) -> None:
    shown = bounded.http.get(f"/event-types/{bounded.name}").json()
    bounded.publish(event(1_500), partition=0)
    put = bounded.http.put(f"/event-types/{bounded.name}", json=shown | {"max_event_bytes": 1_000})
    assert put.status_code == 200, put.text
    line = compact({"data": event(1_500), "partition": 0})
    assert bounded.post(line).status_code == 413
    assert len(bounded.read().events) == 1
    free = {name: value for name, value in shown.items() if name != "max_event_bytes"}
    assert bounded.http.put(f"/event-types/{bounded.name}", json=free).status_code == 200
    assert bounded.post(line).status_code == 200
    assert "max_event_bytes" not in bounded.http.get(f"/event-types/{bounded.name}").json()


@pytest.mark.parametrize("limit", [0, -1, 999_001, "many", 1.5, True])
def test_limit_outside_of_the_size_of_events_is_refused(http: httpx2.Client, limit: object) -> None:
    answer = http.post("/event-types", json=an_event_type("a.b", max_event_bytes=limit))
    assert answer.status_code in (400, 422)
    assert answer.json()["field"] == "max_event_bytes"
