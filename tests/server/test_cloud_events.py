"""CloudEvents are published to feeds; elsewhere, in other formats, or as lines, they are refused with advice."""

import json

import pytest

from tests.served import Served, problem_of

EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.placed", "data": {"id": 1}}
STRUCTURED = "application/cloudevents+json"
ANNOUNCED = [
    ({"Content-Type": f"{STRUCTURED}; charset=utf-8"}, EVENT),
    ({"Content-Type": "application/cloudevents-batch+json"}, [EVENT]),
    ({"ce-specversion": "1.0", "ce-id": "1", "Content-Type": "application/json"}, {"id": 1}),
]


@pytest.mark.parametrize(("headers", "body"), ANNOUNCED, ids=["structured", "batched", "binary"])
def test_cloud_event_is_415_on_routes_that_take_other_bodies(
    feed: Served, headers: dict[str, str], body: object
) -> None:
    for path in (f"/event-types/{feed.name}/events", f"/event-types/{feed.name}/partitions/0/events"):
        answer = feed.http.post(path, content=json.dumps(body), headers=headers)
        problem = problem_of(answer, 415, "unsupported-media-type")
        assert problem["given"] == "a CloudEvent"
        assert "POST /feeds/" in problem["allowed"]
    assert feed.read().events == []


def test_cloud_event_in_another_format_is_415(feed: Served) -> None:
    for media_type in ("Application/CloudEvents+AVRO", "application/cloudevents+xml", f"{STRUCTURED}; charset=latin1"):
        problem = problem_of(feed.post(b"{}", {"Content-Type": media_type}), 415, "unsupported-media-type")
        assert problem["given"] == media_type
        assert STRUCTURED in problem["allowed"]
    assert feed.read().events == []


def test_cloud_event_that_is_not_announced_is_refused_as_a_line(feed: Served) -> None:
    for line in (EVENT, {name: value for name, value in EVENT.items() if name != "data"}):
        problem = problem_of(feed.post(b'{"data":{"id":0}}\n' + json.dumps(line).encode()), 422, "invalid-event")
        assert problem["line"] == 2
        assert STRUCTURED in problem["reason"]
    assert feed.read().events == []
