"""Consumers of subscriptions, as clients of Nakadi are: streams of lines, and cursors that are committed."""

import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx2

from tests.nakadi import STREAM, EventType, Nakadi, business, json_schema, offset, problem

STREAM_ID = "X-Nakadi-StreamId"


class Batch(NamedTuple):
    """One line of a stream."""

    partition: str
    offset: str
    events: list[dict[str, Any]] | None
    """None where it is a keep-alive, or says why the stream ends."""
    debug: str | None
    event_type: str
    cursor: dict[str, str]
    """As it came."""
    said: list[int] | None = None
    """The offsets of the events, where the hub says them."""

    @property
    def offsets(self) -> list[int]:
        """Those of the events: where nothing is said, they follow each other up to the cursor's."""
        last = int(self.offset[9:])
        return self.said or [*range(last - len(self.numbers) + 1, last + 1)]

    @property
    def numbers(self) -> list[int]:
        return [event["n"] for event in self.events or []]

    @property
    def place(self) -> tuple[str, str]:
        return self.event_type, self.partition


def batch_of(text: str) -> Batch:
    """Read a line, whose members must be those that clients know."""
    line = json.loads(text)
    assert set(line) <= {"cursor", "events", "info"}, line
    assert set(line["cursor"]) == {"partition", "offset", "event_type", "cursor_token"}
    assert "events" not in line or line["events"], "a keep-alive has no events, rather than none of them"
    assert "info" not in line or {*line["info"]} & {"debug", "offsets"} == {*line["info"]} != set()
    cursor, info = line["cursor"], line.get("info", {})
    return Batch(
        cursor["partition"],
        cursor["offset"],
        line.get("events"),
        info.get("debug"),
        cursor["event_type"],
        cursor,
        info.get("offsets"),
    )


class Consumer:
    """One stream that is open."""

    def __init__(self, subscription: "Subscription", answer: httpx2.Response) -> None:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(STREAM)
        self.subscription = subscription
        self.id = answer.headers[STREAM_ID]
        assert str(uuid.UUID(self.id)) == self.id
        self.seen: list[Batch] = []
        self._answer = answer
        self._lines = answer.iter_lines()

    def next(self) -> Batch:
        """The next line, whatever it is."""
        self.seen.append(batch_of(next(self._lines)))
        return self.seen[-1]

    def batch(self) -> Batch:
        """The next line with events."""
        while not (found := self.next()).events:
            pass
        return found

    def batches(self, count: int) -> list[Batch]:
        return [self.batch() for _ in range(count)]

    def rest(self) -> list[Batch]:
        """All lines to the end of the stream; the last one must say why it ends."""
        found = [batch_of(text) for text in self._lines]
        self.seen += found
        assert found, "a stream that ends says why"
        assert found[-1].debug is not None
        assert found[-1].events is None
        return found

    def reason(self) -> str:
        """Why it ends, which is waited for."""
        return str(self.rest()[-1].debug)

    def commit(self, *cursors: Batch | dict[str, Any]) -> httpx2.Response:
        return self.subscription.commit(self.id, *cursors)

    def done(self, *batches: Batch) -> None:
        """Commit batches, all of which must move their positions."""
        answer = self.commit(*batches)
        assert (answer.status_code, answer.content) == (204, b""), answer.text

    def leave(self) -> None:
        """Close the connection."""
        self._answer.close()


class Subscription:
    """One subscription that is there."""

    def __init__(self, http: httpx2.Client, shown: dict[str, Any]) -> None:
        self.http = http
        self.id: str = shown["id"]
        self.event_types: list[str] = shown["event_types"]
        self.path = f"/subscriptions/{self.id}"

    def get(self, path: str = "", **arguments: Any) -> Any:
        answer = self.http.get(self.path + path, params=arguments)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def put(self, **members: Any) -> httpx2.Response:
        """PUT the subscription back as it is shown, with *members* changed."""
        return self.http.put(self.path, json=self.get() | members)

    def drop(self) -> None:
        answer = self.http.delete(self.path)
        assert (answer.status_code, answer.content) == (204, b""), answer.text

    # Streams

    @contextmanager
    def asked(
        self, partitions: Any = None, headers: dict[str, str] | None = None, **parameters: Any
    ) -> Iterator[httpx2.Response]:
        """Ask for a stream; by POST where *partitions* are chosen."""
        path = f"{self.path}/events"
        if partitions is None:
            with self.http.stream("GET", path, params=parameters, headers=headers) as answer:
                yield answer
        else:
            body = parameters | {"partitions": list(map(self.place, partitions))}
            with self.http.stream("POST", path, json=body, headers=headers) as answer:
                yield answer

    @contextmanager
    def stream(
        self, partitions: Any = None, headers: dict[str, str] | None = None, **parameters: Any
    ) -> Iterator[Consumer]:
        """Have a stream open, which must be admitted."""
        with self.asked(partitions, headers, **parameters) as answer:
            if answer.status_code != 200:
                answer.read()
                raise AssertionError(f"{answer.status_code}: {answer.text}")
            yield Consumer(self, answer)

    @contextmanager
    def joined(self, partitions: Any = None, **parameters: Any) -> Iterator[Consumer]:
        """Have a stream open as soon as there is room for it: one who leaves is not gone at once."""
        while True:
            with self.asked(partitions, **parameters) as answer:
                if answer.status_code != 409:
                    yield Consumer(self, answer)
                    return
                answer.read()

    def refuse(self, status: int, partitions: Any = None, **parameters: Any) -> str:
        """Ask for a stream that must be refused; return the detail."""
        with self.asked(partitions, **parameters) as answer:
            assert answer.status_code == status, answer.status_code
            answer.read()
        return str(problem(answer, status)["detail"])

    def read(self, **parameters: Any) -> list[Batch]:
        """Read a stream to its end."""
        with self.stream(**parameters) as consumer:
            return consumer.rest()

    def place(self, given: Any) -> Any:
        """Name a partition, which is given as a number where there is one event type."""
        if isinstance(given, int):
            return {"event_type": self.event_types[0], "partition": str(given)}
        return {"event_type": given[0], "partition": str(given[1])} if isinstance(given, tuple) else given

    # Cursors

    def cursor(self, number: int | str, partition: int = 0, event_type: str | None = None) -> dict[str, str]:
        """A cursor at the event of that number, or at that text, without a token."""
        text = offset(number) if isinstance(number, int) else number
        return {"event_type": event_type or self.event_types[0], "partition": str(partition), "offset": text}

    def commit(self, stream: str | None, *cursors: Batch | dict[str, Any]) -> httpx2.Response:
        items = [each.cursor if isinstance(each, Batch) else each for each in cursors]
        headers = {} if stream is None else {STREAM_ID: stream}
        return self.http.post(f"{self.path}/cursors", json={"items": items}, headers=headers)

    def patch(self, *cursors: dict[str, Any], **members: Any) -> httpx2.Response:
        return self.http.patch(f"{self.path}/cursors", json={"items": list(cursors)} | members)

    def reset(self, *cursors: dict[str, Any]) -> None:
        """PATCH cursors, which must be taken."""
        answer = self.patch(*cursors)
        assert (answer.status_code, answer.content) == (204, b""), answer.text

    def cursors(self) -> dict[tuple[str, str], str]:
        """The committed offsets, by event type and partition."""
        items = self.get("/cursors")["items"]
        assert all(set(each) == {"partition", "offset", "event_type", "cursor_token"} for each in items)
        found = {(each["event_type"], each["partition"]): each["offset"] for each in items}
        assert len(found) == len(items)
        return found

    def committed(self) -> list[str]:
        """The committed offsets, in the order of event types and partitions."""
        return [offset for _, offset in sorted(self.cursors().items())]

    # Statistics

    def stats(self, **arguments: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/stats", **arguments)["items"]
        return found

    def partitions(self) -> list[dict[str, Any]]:
        """The statistics of all partitions, of one event type after the other."""
        return [each for item in self.stats() for each in item["partitions"]]

    def owners(self) -> dict[str, set[str]]:
        """The partitions that each stream has; none where somebody is about to have others."""
        found: dict[str, set[str]] = {}
        for item in self.stats():
            for each in item["partitions"]:
                if each["state"] == "reassigning":
                    return {}
                found.setdefault(each["stream_id"], set()).add(each["partition"])
        return found


def definition(*created: EventType, **members: Any) -> dict[str, Any]:
    """What to POST for a subscription that nobody else has."""
    return {
        "owning_application": "acceptance",
        "event_types": [each.name for each in created],
        "consumer_group": f"group.{uuid.uuid4().hex}",
    } | members


def subscribe(*created: EventType, **members: Any) -> Subscription:
    """Create a subscription of event types; it begins at their beginning unless told."""
    http = created[0].http
    answer = http.post("/subscriptions", json=definition(*created, **{"read_from": "begin"} | members))
    assert answer.status_code == 201, answer.text
    return Subscription(http, answer.json())


def numbered(nakadi: Nakadi, partitions: int = 1, **members: Any) -> EventType:
    """Create an event type of events that have numbers, of partitions that are chosen by whoever publishes."""
    traits = {"category": "business", "partition_strategy": "user_defined", "compatibility_mode": "forward"}
    return nakadi.create(partitions=partitions, schema=json_schema("{}"), **traits | members)


def put(created: EventType, *numbers: int, partition: int = 0) -> None:
    """Publish events of these numbers to one partition."""
    created.publish(*(business(n=number, meta={"partition": str(partition)}) for number in numbers))


def filled(nakadi: Nakadi, count: int, partitions: int = 1, **members: Any) -> Subscription:
    """A subscription, and so many events numbered from 0 in each partition of its event type."""
    created = numbered(nakadi, partitions)
    for number in range(partitions):
        if count:
            put(created, *range(count), partition=number)
    return subscribe(created, **members)


def event_type_of(subscription: Subscription) -> EventType:
    return EventType(subscription.http, subscription.event_types[0])


def told(batches: Iterable[Batch]) -> list[str]:
    """Lines in short: the number of the last event, the numbers of the events, and what is said besides."""
    found = []
    for each in batches:
        last = int(each.offset.rpartition("-")[2]) if each.offset != offset(-1) else -1
        said = "" if each.debug is None else f" {each.debug}"
        found.append(f"{last}{each.numbers}{said}")
    return found
