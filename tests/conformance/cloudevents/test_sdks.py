"""The SDKs of CloudEvents publish in all three modes, and read as a batch what they have published."""

import json
import os
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
from cloudevents.core.bindings.http import HTTPMessage, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from tests.conformance.cloudevents.sending import cloud_event, read
from tests.served import CLOUD_EVENTS, Served, create

MODULES = Path(__file__).parents[3] / "build" / "cloudevents" / "node_modules"
TEXT = 'Zürich 🦑 "50%" %41 \\ 日本語'
EXTENSIONS = {
    "text": TEXT,
    "digits": "5",
    "count": -5,
    "final": True,
    "open": False,
    "binary": "AAH/",
    "uri": "https://shop.example/a%20b?c=d#e",
    "uriref": "../a;b=c",
    "timestamp": "2026-11-20T10:00:00.5-03:00",
}
EVENTS = [
    cloud_event(1, time="2026-11-20T10:00:00.000Z", data={"text": TEXT, "list": [1.5, None, {"a": {}}]}),
    cloud_event(2, time="2026-11-20T10:00:00.123Z", subject=TEXT, datacontenttype="application/json", **EXTENSIONS),
    cloud_event(
        TEXT,
        source="urn:event:from:shop:%C3%BC",
        type="shop.Größe",
        time="2026-11-20T23:59:59.999Z",
        dataschema="https://shop.example/order.json#/x",
        datacontenttype="application/vnd.shop.order+json; charset=utf-8",
        partitionkey='k "%" é',
        data={},
    ),
]
TIMES = ["2026-11-20T10:00:00.123456+05:30", "2026-11-20T00:00:00-11:00", "2026-11-20T10:00:00.000001Z"]


def as_texts(event: dict[str, Any], *, false: str, true: str) -> dict[str, Any]:
    """Return a CloudEvent as binary mode has it: without the types of extension attributes."""
    words = {False: false, True: true}
    return {name: str(words.get(value, value)) if isinstance(value, int) else value for name, value in event.items()}


def to_sdk(event: dict[str, Any]) -> CloudEvent:
    attributes = {name: value for name, value in event.items() if name != "data"}
    return CloudEvent(attributes | {"time": datetime.fromisoformat(event["time"])}, event.get("data"))


def members(event: CloudEvent) -> dict[str, Any]:
    data = event.get_data()
    return dict(event.get_attributes()) | ({} if data is None else {"data": data})


def test_python_sdk_publishes_in_three_modes_and_reads_what_it_has_published(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    given = EVENTS + [
        cloud_event(number, time=time, data={"n": 1} if number else None) for number, time in enumerate(TIMES)
    ]
    json_format = JSONFormat()

    def send(message: HTTPMessage) -> None:
        answer = feed.post(message.body, message.headers)
        assert answer.status_code == 200, answer.text

    for event in given:
        send(to_structured(to_sdk(event), json_format))
    for event in given:
        send(to_binary(to_sdk(event), json_format))
    batch = b"[%b]" % b",".join(json_format.write(to_sdk(event)) for event in given)
    send(HTTPMessage({"content-type": CLOUD_EVENTS}, batch))

    found = [members(json_format.read(None, json.dumps(each))) for each in read(feed)]
    as_binary = [as_texts(event, false="False", true="True") for event in given]
    assert found == [members(to_sdk(event)) for event in (*given, *as_binary, *given)]


def run_javascript(feed: Served, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Publish *events* with the JavaScript SDK in each mode, and return those of the feed as the SDK reads them."""
    done = subprocess.run(
        ["node", Path(__file__).with_name("client.cjs"), str(feed.http.base_url.join(feed.path))],
        input=json.dumps(events),
        env=os.environ | {"NODE_PATH": str(MODULES)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr if MODULES.exists() else "run `scripts/setup-npm cloudevents`"
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_javascript_sdk_publishes_in_three_modes_and_reads_what_it_has_published(http: httpx2.Client) -> None:
    feed = create(http)
    found = run_javascript(feed, EVENTS)
    as_binary = [
        {"datacontenttype": "application/json; charset=utf-8"} | as_texts(each, false="false", true="true")
        for each in EVENTS
    ]
    assert found == [*EVENTS, *as_binary, *EVENTS]
    assert read(feed) == found


def test_sdks_read_events_that_were_published_as_lines(http: httpx2.Client) -> None:
    feed = create(http, category="business")
    metadata = {"eid": "6f1b2f60-0000-4000-8000-000000000001", "occurred_at": "2026-01-02T03:04:05.678Z"}
    feed.publish({"text": TEXT, "metadata": metadata}, key=TEXT, headers={"ce_subject": TEXT, "tenant": "blue"})
    [found] = run_javascript(feed, [])
    assert read(feed) == [found]
    assert members(JSONFormat().read(None, json.dumps(found))) == members(to_sdk(found))
    assert (found["id"], found["time"], found["subject"], found["partitionkey"]) == (*metadata.values(), TEXT, TEXT)
