"""A hub as clients of Nakadi speak to it: event types, batches of events, streams of lines."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx2

PROBLEM = "application/problem+json"
STREAM = "application/x-json-stream"
SCHEMA = '{ "properties": { "foo": { "type": "string" } } }'
"""What Nakadi's own acceptance tests give to an event type; its spaces are to come back."""
STREAM_BYTES = 10_000
"""How much a stream may hold where acceptance tests run."""
DAY_MS = 24 * 60 * 60 * 1000
FIRST = "001-0001-000000000000000000"
BEFORE_FIRST = "001-0001--1"


def offset(number: int) -> str:
    """The offset of that number in a feed that was created once."""
    return f"001-0001-{number:018}" if number >= 0 else BEFORE_FIRST


def eid() -> str:
    return str(uuid.uuid4())


def metadata(**members: Any) -> dict[str, Any]:
    return {"eid": eid(), "occurred_at": "2026-01-02T03:04:05.678Z"} | members


def business(*, meta: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A business event of *fields*, with *meta* in its metadata."""
    return fields | {"metadata": metadata(**meta or {})}


def change(data: dict[str, Any], *, meta: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    """A change of *data*."""
    return {"data_type": "shop.order", "data_op": "C", "data": data, "metadata": metadata(**meta or {})} | members


class Line(NamedTuple):
    """One line of a stream."""

    partition: str
    offset: str
    events: list[dict[str, Any]] | None
    """None where it is a keep-alive."""


class EventType:
    """One event type that is there."""

    def __init__(self, http: httpx2.Client, name: str) -> None:
        self.http = http
        self.name = name
        self.path = f"/event-types/{name}"

    def get(self, path: str = "", **arguments: Any) -> httpx2.Response:
        """GET what lies at *path* below the event type."""
        return self.http.get(self.path + path, params=arguments)

    def post(self, path: str, body: Any, **arguments: Any) -> httpx2.Response:
        return self.http.post(self.path + path, json=body, params=arguments)

    def shown(self) -> dict[str, Any]:
        answer = self.get()
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def put(self, *without: str, **members: Any) -> httpx2.Response:
        """PUT the event type back as it is shown, *without* some members and with others changed."""
        body = {name: value for name, value in self.shown().items() if name not in without} | members
        return self.http.put(self.path, json=body)

    def changed(self, *without: str, **members: Any) -> dict[str, Any]:
        """Do the same, which must be allowed, and return the event type as it is shown afterwards."""
        answer = self.put(*without, **members)
        assert (answer.status_code, answer.content) == (200, b""), answer.text
        return self.shown()

    def drop(self) -> None:
        answer = self.http.delete(self.path)
        assert (answer.status_code, answer.content) == (200, b""), answer.text

    # Publishing

    def hand_in(self, *events: Any, path: str = "/events", headers: dict[str, str] | None = None) -> httpx2.Response:
        """POST a batch; what is bytes or text is sent as the body."""
        if len(events) == 1 and isinstance(events[0], (str, bytes)):
            sent = {"Content-Type": "application/json"} | (headers or {})
            return self.http.post(self.path + path, content=events[0], headers=sent)
        return self.http.post(self.path + path, json=events, headers=headers)

    def publish(self, *events: Any, headers: dict[str, str] | None = None) -> None:
        """POST a batch that must be taken."""
        answer = self.hand_in(*events, headers=headers)
        assert (answer.status_code, answer.content) == (200, b""), answer.text

    def refuse(self, *events: Any, path: str = "/events") -> list[dict[str, Any]]:
        """POST a batch that must be refused whole; return what is said of each event."""
        answer = self.hand_in(*events, path=path)
        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"].startswith("application/json"), "items are no problem"
        items: list[dict[str, Any]] = answer.json()
        assert all(set(each) == {"publishing_status", "step", "detail", "eid", "partition"} for each in items), items
        return items

    # Reading

    def partitions(self) -> list[dict[str, Any]]:
        answer = self.get("/partitions")
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()
        return found

    def newest(self) -> dict[str, str]:
        """The newest offset of each partition."""
        return {each["partition"]: each["newest_available_offset"] for each in self.partitions()}

    @contextmanager
    def streaming(
        self, cursors: Any = None, headers: dict[str, str] | None = None, **arguments: Any
    ) -> Iterator[httpx2.Response]:
        """Have a stream open; *cursors* that are text are sent as they are."""
        sent = dict(headers or {})
        if cursors is not None:
            sent["X-nakadi-cursors"] = cursors if isinstance(cursors, str) else json.dumps(cursors)
        with self.http.stream("GET", f"{self.path}/events", params=arguments, headers=sent) as answer:
            yield answer

    def lines(self, cursors: Any = None, **arguments: Any) -> list[Line]:
        """Read a stream to its end."""
        with self.streaming(cursors, **arguments) as answer:
            answer.read()
            return lines_of(answer)

    def begin(self, count: int | None = None) -> list[dict[str, str]]:
        """Cursors before the first event of each partition."""
        numbers = range(count) if count is not None else [each["partition"] for each in self.partitions()]
        return [{"partition": str(number), "offset": "BEGIN"} for number in numbers]

    def read(self, count: int) -> list[tuple[str, str, dict[str, Any]]]:
        """Return the first *count* events, each with its partition and its offset; they must be there."""
        found = self.lines(self.begin(), batch_limit=1, stream_limit=count, batch_flush_timeout=5, stream_timeout=5)
        return [(line.partition, line.offset, event) for line in found for event in line.events or []]

    def events(self, count: int) -> list[dict[str, Any]]:
        return [event for _, _, event in self.read(count)]

    def raw(self, count: int = 1) -> str:
        """Return the text of a stream of the first *count* events of partition 0, all in one line."""
        begin = [{"partition": "0", "offset": "BEGIN"}]
        limits = {"batch_limit": count, "stream_limit": count, "batch_flush_timeout": 5, "stream_timeout": 5}
        with self.streaming(begin, **limits) as answer:
            return answer.read().decode()


class Nakadi:
    """A hub."""

    def __init__(self, http: httpx2.Client) -> None:
        self.http = http

    def subscribe(self, created: EventType) -> EventType:
        """Let a subscription read an event type."""
        made = self.http.post(
            "/subscriptions", json={"owning_application": "acceptance", "event_types": [created.name]}
        )
        assert made.status_code == 201, made.text
        return created

    @staticmethod
    def definition(**members: Any) -> dict[str, Any]:
        """The event type that Nakadi's own acceptance tests create, of a name that nobody else has."""
        return {
            "name": f"test.{uuid.uuid4().hex}",
            "owning_application": "acceptance",
            "category": "undefined",
            "partition_strategy": "random",
            "compatibility_mode": "compatible",
            "cleanup_policy": "delete",
            "schema": {"type": "json_schema", "schema": SCHEMA},
            "options": {"retention_time": 2 * DAY_MS},
        } | members

    def post(self, **members: Any) -> httpx2.Response:
        """POST an event type, that of the acceptance tests but for *members*."""
        return self.http.post("/event-types", json=self.definition(**members))

    def create(self, *, partitions: int | None = None, **members: Any) -> EventType:
        """Create such an event type; business and data get the strategy of enrichment that they need."""
        if partitions is not None:
            members["default_statistic"] = statistic(partitions)
        if members.get("category", "undefined").lower() != "undefined":
            members = {"enrichment_strategies": ["metadata_enrichment"]} | members
        definition = self.definition(**members)
        answer = self.http.post("/event-types", json=definition)
        assert (answer.status_code, answer.content) == (201, b""), answer.text
        return EventType(self.http, definition["name"])

    def refuse(self, **members: Any) -> str:
        """Post an event type that must be refused by 422; return the detail."""
        return str(problem(self.post(**members), 422)["detail"])


def statistic(partitions: int) -> dict[str, int]:
    return {
        "messages_per_minute": 1,
        "message_size": 1,
        "read_parallelism": partitions,
        "write_parallelism": partitions,
    }


def json_schema(schema: Any) -> dict[str, str]:
    """The member `schema` of an event type."""
    return {"type": "json_schema", "schema": schema if isinstance(schema, str) else json.dumps(schema)}


def lines_of(answer: httpx2.Response) -> list[Line]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(STREAM)
    assert answer.text.endswith("\n") or not answer.text
    found = []
    for text in answer.text.splitlines():
        line = json.loads(text)
        assert set(line) <= {"cursor", "events"}, "info belongs to subscriptions alone"
        assert set(line["cursor"]) == {"partition", "offset"}
        found.append(Line(line["cursor"]["partition"], line["cursor"]["offset"], line.get("events")))
    return found


def problem(answer: httpx2.Response, status: int) -> dict[str, Any]:
    """Return the problem that *answer* must hold, in the shape that Nakadi's clients know; it may say more."""
    assert answer.status_code == status, f"{answer.status_code}: {answer.text}"
    assert answer.headers["content-type"].startswith(PROBLEM)
    found: dict[str, Any] = answer.json()
    assert found["status"] == status
    assert found["title"]
    assert isinstance(found["detail"], str)
    return found
