"""The largest event is published and read in every way, although the hub adds metadata."""

import json
import sqlite3
import subprocess
from contextlib import closing

import httpx2
import psycopg
import pyarrow as pa
import pytest

import penstock.outbox
from penstock.client import Client
from penstock.core.events.event import EVENT_BYTES_MAX
from penstock.testing.live_hub import LiveHub
from tests.served import ARROW, CLOUD_EVENTS, Served, client_of, create, problem_of

CATEGORIES = pytest.mark.parametrize("category", ["undefined", "business", "data"])
METADATA = {"eid": "6f1b2f60-0000-4000-8000-000000000000", "occurred_at": "2026-01-01T00:00:00Z"}


def an_event_of(size: int, category: str) -> bytes:
    """Return an event of exactly *size* bytes, ending in its metadata."""
    members: dict[str, object] = {"text": ""}
    if category == "data":
        members = {"data": members, "data_type": "order", "data_op": "C"}
    if category != "undefined":
        members["metadata"] = METADATA
    event = json.dumps(members, separators=(",", ":"))
    return event.replace('"text":""', f'"text":"{"x" * (size - len(event))}"').encode()


def feed_named(http: httpx2.Client, name: str, category: str) -> Served:
    http.delete(f"/event-types/{name}")
    return create(http, 1, name, category=category)


def pipe(source: Served, target: Served) -> dict[str, object]:
    base = str(source.http.base_url).rstrip("/")
    read = f"curl -sSfN '{base}{source.path}?n=1&cursor0=_first&headers=_all'"
    piped = f"{read} | curl -s --data-binary @- '{base}{target.path}'"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", piped], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@CATEGORIES
def test_largest_event_is_read_as_line_and_as_row(either_http: httpx2.Client, category: str) -> None:
    feed = create(either_http, category=category)
    assert feed.post(b'{"data":' + an_event_of(EVENT_BYTES_MAX, category) + b"}").json()["count"] == 1

    (event,) = feed.read().events
    arrow = feed.events(sending={"accept": ARROW})
    (row,) = pa.ipc.open_stream(arrow.content).read_all().to_pylist()

    assert (len(json.dumps(event, separators=(",", ":"))) > EVENT_BYTES_MAX) == (category != "undefined")
    assert feed.read_v2().events == [json.loads(row["data"])] == [event]
    as_cloud_events = feed.events(sending={"accept": CLOUD_EVENTS})
    assert as_cloud_events.json()[0]["data"] == event
    published = feed.post(as_cloud_events.content, {"Content-Type": CLOUD_EVENTS})
    assert published.json()["count"] == 1


@CATEGORIES
def test_event_of_one_byte_more_or_with_metadata_of_the_hub_is_too_large(http: httpx2.Client, category: str) -> None:
    feed = create(http, category=category)
    answer = feed.post(b'{"data":' + an_event_of(EVENT_BYTES_MAX + 1, category) + b"}")
    problem = problem_of(answer, 413, "event-too-large")
    assert (problem["size"], problem["limit"]) == (EVENT_BYTES_MAX + 1, EVENT_BYTES_MAX)

    event = json.loads(an_event_of(EVENT_BYTES_MAX, category))
    event.setdefault("metadata", {})["published_by"] = "x" * 10_000
    problem_of(feed.post(json.dumps({"data": event}).encode()), 413, "event-too-large")


@CATEGORIES
def test_largest_event_is_piped_from_feed_to_feed(either_http: httpx2.Client, category: str) -> None:
    first = create(either_http, category=category)
    second = feed_named(either_http, "a" * 255, category)
    third = feed_named(either_http, "largest", category)
    first.post(b'{"data":' + an_event_of(EVENT_BYTES_MAX, category) + b"}")

    assert pipe(first, second)["count"] == 1
    assert pipe(second, third)["count"] == 1
    (event,) = third.read().events
    assert len(event["data"]["text"] if category == "data" else event["text"]) > EVENT_BYTES_MAX - 300


@CATEGORIES
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_largest_event_comes_through_the_outbox(request: pytest.FixtureRequest, database: str, category: str) -> None:
    hub: LiveHub = request.getfixturevalue(f"{database}_hub")
    event = an_event_of(EVENT_BYTES_MAX, category)
    with client_of(hub) as http:
        feed = create(http, category=category)
        if database == "sqlite":
            with closing(sqlite3.connect(hub.database.removeprefix("sqlite:///"), isolation_level=None)) as service:
                penstock.outbox.publish(service, feed.name, event)
        else:
            with psycopg.connect(hub.database) as service:
                penstock.outbox.publish(service, feed.name, event)
        (read,) = feed.read().events

    if category == "undefined":
        assert read == json.loads(event)
    else:
        assert read["metadata"]["eid"] == METADATA["eid"]


def test_metadata_of_the_client_counts_before_the_event_is_sent(http: httpx2.Client) -> None:
    feed = create(http, category="business")
    event = {"text": "x" * (EVENT_BYTES_MAX - 100)}
    with Client(str(http.base_url)) as client, pytest.raises(penstock.errors.EventTooLarge) as refused:
        client.publish(feed.name, event)
    assert refused.value.line == 1
    assert feed.read().events == []
