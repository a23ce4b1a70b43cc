"""CloudEvents are published in the three modes of the HTTP protocol binding, all or none, and read as they were."""

import json

import httpx2

from tests.conformance.cloudevents.sending import STRUCTURED, cloud_event, publish, read
from tests.served import Served, create, problem_of

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
RICH = cloud_event(
    subject='50% "off" in Zürich 🦑',
    time="2026-11-20T10:00:00.123456789+05:30",
    dataschema="https://shop.example/order.json",
    datacontenttype="application/vnd.shop+json",
    traceparent=TRACE,
    text="5",
    count=-5,
    final=True,
)


def test_cloud_event_of_each_mode_is_read_as_it_was_published(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    binary = {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/shop",
        "ce-type": "shop.order",
        "ce-subject": "50%25%20%22off%22 in Z%C3%BCrich%20%F0%9F%A6%91",
        "ce-time": RICH["time"],
        "ce-dataschema": RICH["dataschema"],
        "Content-Type": "application/vnd.shop+json",
        "CE-TraceParent": TRACE,
        "ce-text": "5",
        "ce-count": "-5",
        "ce-final": "true",
    }
    assert publish(feed, RICH).json()["count"] == 1
    assert feed.post(json.dumps(RICH).encode(), {"Content-Type": f"{STRUCTURED}; charset=UTF-8"}).status_code == 200
    assert feed.post(b'{"id": 1}', binary).status_code == 200
    of_binary = RICH | {"count": "-5", "final": "true"}  # Headers have no types.
    assert read(feed) == [RICH, RICH, of_binary]
    assert feed.read().events == [{"id": 1}] * 3
    headers = feed.read(headers="ce_id,ce_subject,ce_count").lines[0]["headers"]
    assert headers == {"ce_id": "1", "ce_subject": RICH["subject"], "ce_count": "-5"}


def test_type_is_the_kind_and_partitionkey_is_the_key(http: httpx2.Client) -> None:
    feed = create(http, 4, partition_strategy="hash", partition_key_fields=["id"])
    events = [cloud_event(number, type=f"kind.{number % 2}", partitionkey="k") for number in range(6)]
    assert list(publish(feed, *events).json()["cursors"]) == [next(iter(publish(feed, *events).json()["cursors"]))]
    lines = feed.read(event_types="KIND.1", details=1).lines
    assert [line["data"]["id"] for line in lines if "data" in line] == [1, 3, 5] * 2
    assert [line["details"]["keys"] for line in lines if "details" in line] == [["k"] * 6]
    assert publish(feed, cloud_event(7)).status_code == 200  # Its key is that of the partition key fields.


def test_batch_with_an_invalid_event_is_refused_as_a_whole(http: httpx2.Client) -> None:
    feed = create(http, schema={"type": "json_schema", "schema": '{"required": ["id"]}'})
    for bad, attribute, reason in (
        (cloud_event(id=""), "id", "#/id: must be not empty"),
        (cloud_event(Subject="x"), "Subject", "#/Subject: the name of an attribute"),
        (cloud_event(time="now"), "time", "#/time: must be a time as RFC 3339"),
        (cloud_event(data={}), None, "required key [id] not found"),
        (cloud_event(data=None), None, "required key [id] not found"),
    ):
        problem = problem_of(publish(feed, cloud_event(1), cloud_event(2), bad), 422, "invalid-event")
        assert (problem["line"], problem.get("attribute")) == (3, attribute)
        assert reason in problem["reason"]
    assert read(feed) == []


def test_cloud_events_are_committed_by_chunks(feed: Served) -> None:
    problem = problem_of(
        publish(feed, *map(cloud_event, range(3)), cloud_event(data={"a": 1 << 64}), chunk=2), 422, "invalid-event"
    )
    assert (problem["line"], problem["stored"]) == (4, 2)
    assert [each["id"] for each in read(feed)] == ["0", "1"]


def test_body_that_is_no_batch_or_no_event_is_refused(feed: Served) -> None:
    assert publish(feed).json() == {"count": 0, "cursors": {}}
    batched = {"Content-Type": "application/cloudevents-batch+json"}
    problem_of(feed.post(json.dumps(cloud_event()).encode(), batched), 400, "malformed-batch")
    structured = {"Content-Type": STRUCTURED}
    assert problem_of(feed.post(b"{", structured), 422, "invalid-event")["line"] == 1
    assert "stands twice" in problem_of(feed.post(b'{"id":"1","id":"2"}', structured), 422, "invalid-event")["reason"]
    missing = problem_of(
        feed.post(b'{"data":{}}', {"ce-id": "1", "ce-type": "a", "ce-source": "/"}), 422, "invalid-event"
    )
    assert (missing["attribute"], "header 'ce-specversion'" in missing["reason"]) == ("specversion", True)
    assert problem_of(feed.post(b"not JSON", {"ce-id": "1"}), 422, "invalid-event")
    assert read(feed) == []
    nowhere = feed.http.post("/feeds/no.such", content=b"[]", headers=batched)
    problem_of(nowhere, 404, "event-type-not-found")


def test_business_event_has_metadata_of_its_attributes_and_no_less(either_http: httpx2.Client) -> None:
    feed = create(either_http, category="business")
    uuid = "8c4f1a52-6d0e-4f7c-9a55-0d3a7c1be001"
    given = [
        cloud_event(id=uuid, time="2026-11-20T10:00:00Z"),
        RICH,
        cloud_event(data=None, time="2026-11-20T10:00:00z"),
    ]
    assert publish(feed, *given).status_code == 200
    assert read(feed) == given
    metadata = [event["metadata"] for event in feed.read().events]
    assert (metadata[0]["eid"], metadata[1]["span_ctx"]) == (uuid, {"traceparent": TRACE})
    assert metadata[1]["eid"] == metadata[2]["eid"] == "cd4365dc-bc5b-57bd-a72b-5492df1b809a"
    assert [each["occurred_at"] for each in metadata] == [each["time"] for each in given]
    assert all(each["received_at"] and each["event_type"] == feed.name for each in metadata)
    problem = problem_of(publish(feed, cloud_event()), 422, "invalid-event")
    assert (problem["attribute"], "business events" in problem["reason"]) == ("time", True)


def test_data_change_is_published_and_read_without_loss(http: httpx2.Client) -> None:
    feed = create(http, category="data")
    change = {"data_type": "shop.order", "data_op": "C", "data": {"id": 1}}
    given = cloud_event(data=change, time="2026-11-20T10:00:00Z")
    assert publish(feed, given, given | {"type": feed.name}).status_code == 200
    assert read(feed) == [given, given | {"type": feed.name}]


def test_cloud_events_of_one_feed_are_published_to_another(http: httpx2.Client) -> None:
    first, second = create(http, category="business"), create(http, category="business")
    metadata = {"eid": "6f1b2f60-0000-4000-8000-000000000001", "occurred_at": "2026-01-02T03:04:05.678Z"}
    first.publish({"metadata": metadata, "n": 1}, key="k", headers={"ce_subject": "s", "tenant": "blue"})
    publish(first, RICH)
    [of_lines, of_cloud_event] = read(first)
    assert (of_lines["id"], of_lines["time"], of_lines["partitionkey"]) == (*metadata.values(), "k")
    assert (of_lines["type"], of_lines["source"], of_lines["subject"]) == (
        first.name,
        f"/event-types/{first.name}",
        "s",
    )
    assert publish(second, of_lines, of_cloud_event).status_code == 200
    again, same = read(second)
    assert same == RICH
    assert {name: again[name] for name in again if name != "data"} == {
        name: of_lines[name] for name in of_lines if name != "data"
    }
    assert again["data"]["metadata"]["eid"] == metadata["eid"]
