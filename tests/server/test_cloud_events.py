"""CloudEvents are refused with advice in every way in: beside their data all that they say would be lost."""

import json

import pytest

from tests.served import Served, problem_of

EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.placed", "data": {"id": 1}}
ANNOUNCED = [
    ({"Content-Type": "application/cloudevents+json; charset=utf-8"}, EVENT),
    ({"Content-Type": "application/cloudevents-batch+json"}, [EVENT]),
    ({"Content-Type": "Application/CloudEvents+AVRO"}, {}),
    ({"ce-specversion": "1.0", "ce-id": "1", "Content-Type": "application/json"}, {"id": 1}),
]


@pytest.mark.parametrize(("headers", "body"), ANNOUNCED, ids=["structured", "batch", "another format", "binary"])
def test_announced_cloud_event_is_415_and_nothing_is_stored(
    feed: Served, headers: dict[str, str], body: object
) -> None:
    ways = (feed.path, f"/event-types/{feed.name}/events", f"/event-types/{feed.name}/partitions/0/events")
    for path in ways:
        answer = feed.http.post(path, content=json.dumps(body), headers=headers)
        problem = problem_of(answer, 415, "unsupported-media-type")
        assert "CloudEvent" in problem["given"]
        assert '"headers"' in problem["allowed"]
    assert feed.read().events == []


def test_cloud_event_that_is_not_announced_is_refused_as_a_line(feed: Served) -> None:
    for line in (EVENT, {name: value for name, value in EVENT.items() if name != "data"}):
        problem = problem_of(feed.post(b'{"data":{"id":0}}\n' + json.dumps(line).encode()), 422, "invalid-event")
        assert problem["line"] == 2
        assert "CloudEvent" in problem["reason"]
    assert feed.read().events == []
