"""Feeds as server-sent events: ids that resume every partition, ends, errors, and many readers of one feed."""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from penstock.errors import DatabaseUnavailable
from penstock.hub.log.read import PageReading
from penstock.server.http import streaming
from penstock.server.log import server_sent_events
from penstock.testing.factories import a_new_event, an_event_type
from penstock.testing.live_hub import live_hub
from tests.messages import ACCEPT, Message, messages, messages_of, parse
from tests.served import Served, blocked_readers, client_of, create, problem_of, until
from tests.server.in_process import Here, make_scope, open_hub, serve

NAME = "order.placed"
V2 = {"token": "1-4", "partition": 1}


def take(stream: Any, count: int) -> list[Message]:
    """Return the next *count* messages that have an event."""
    found: list[Message] = []
    while len(found) < count:
        message = next(stream)
        found += [message] if message.data else []
    return found


@pytest.mark.parametrize("n", [None, 2, 4, 8])
def test_any_id_resumes_all_partitions_without_gaps_and_repeats(feed4: Served, n: int | None) -> None:
    for number in range(24):
        feed4.publish_ids([number], partition=number % 3, key=str(number))
    arguments = {} if n is None else {"n": n}
    with messages(feed4, last="_first", unnamed=1, **arguments) as stream:
        begin = next(stream)
        whole = take(stream, 24)
    assert sorted(each.number for each in whole) == list(range(24))
    for at, place in [*enumerate(whole)][::6]:
        with messages(feed4, last=place.id, unnamed=1, **arguments) as stream:
            rest = take(stream, 23 - at)
        assert Counter(each.number for each in rest) == Counter(each.number for each in whole[at + 1 :])
    with messages(feed4, last=whole[-1].id, **arguments) as stream:
        feed4.publish_ids([100], partition=3)
        assert take(stream, 1)[0].number == 100
    with messages(feed4, last_event_id=begin.id, **arguments) as stream:
        assert len({each.number for each in take(stream, 24)}) == 24


def test_stream_of_one_partition_has_the_cursors_of_pages_as_ids(feed4: Served) -> None:
    feed4.publish_ids(range(3), partition=1)
    with messages(feed4, "/events", **V2, cursor="_first") as stream:
        found = take(stream, 3)
        assert [(each.event, each.number) for each in found] == [(feed4.name, at) for at in range(3)]
    assert feed4.read_v2(found[1].id, partition=1).ids == [2]
    with messages(feed4, "/events", **V2) as stream:  # From the end, as browsers expect.
        assert next(stream) == Message(found[2].id, "message", "")


def test_position_of_a_filtered_stream_moves_past_what_it_leaves_out(feed: Served) -> None:
    kept = {"ce_type": "Kept"}
    feed.publish_lines([{"data": {"id": 0}}, {"data": {"id": 1}, "headers": kept}, {"data": {"id": 2}}])
    with messages(feed, last="_first", event_types="kept", heartbeat=1) as stream:
        begin, event, beat = (next(stream) for _ in range(3))
        assert (event.event, event.number) == ("Kept", 1)
        assert len({begin.id, event.id, beat.id}) == 3
        assert next(stream) == Message(beat.id, "message", "")  # From then on comments.
    with messages(feed, last=beat.id) as stream:
        feed.publish_ids([3])
        assert take(stream, 1)[0].number == 3


@pytest.mark.parametrize("n", [1, 4, 8])
def test_details_say_where_each_event_is_and_its_key_kind_and_time(feed4: Served, n: int) -> None:
    own = {"ce_type": 'The "Kind"'}
    first = {"partition": 2, "key": "k", "headers": own, "data": {"big": 1234567890123456789}}
    feed4.publish_lines([first, {"partition": 2, "data": {"id": 1}}])
    feed4.publish_lines([{"partition": 0, "key": "é", "data": {"id": 2}}])
    [line] = [each["details"] for each in feed4.read(4, {2: "_first"}, details=1).lines if "details" in each]
    with messages(feed4, n=n, last="_first", details=1, skip_event_types="none") as stream:
        found = {(each["partition"], each["offset"]): (name, each) for name, each in as_objects(take(stream, 3))}
    received = {"received_at": line["received_at"][0]}
    assert found[2, 0] == (
        own["ce_type"],
        {**received, "partition": 2, "offset": 0, "kind": own["ce_type"], "key": "k", "data": first["data"]},
    )
    plain = {**received, "partition": 2, "offset": 1, "kind": feed4.name, "data": {"id": 1}}
    assert found[2, 1] == (feed4.name, plain)
    assert (found[0, 0][1]["key"], found[0, 0][1]["data"]) == ("é", {"id": 2})
    with messages(feed4, "/events", **V2 | {"partition": 2}, cursor="_first", details=1, unnamed=1) as stream:
        assert as_objects(take(stream, 2)) == [("message", found[2, at][1]) for at in range(2)]


def as_objects(found: Sequence[Message]) -> list[tuple[str, Any]]:
    """Return the name of each message, and its data."""
    return [(each.event, json.loads(each.data)) for each in found]


def test_large_events_come_whole_and_other_partitions_are_not_kept_waiting(feed4: Served) -> None:
    text = "x" * 998_000
    for _ in range(3):
        feed4.publish({"id": 0, "text": text}, {"id": 1, "text": text}, partition=0)
    feed4.publish_ids([7], partition=3)
    with messages(feed4, last="_first", n=4) as stream:
        found = take(stream, 7)
    assert sorted(each.number for each in found) == [0, 0, 0, 1, 1, 1, 7]
    assert found[-1].number != 7


def test_head_and_refusals_are_answered_before_a_stream_begins(feed4: Served) -> None:
    head = feed4.http.head(feed4.path, headers=ACCEPT)
    assert (head.status_code, head.headers["content-type"], head.content) == (200, "text/event-stream", b"")
    assert head.headers["cache-control"] == "no-store, no-transform"
    assert head.headers["x-accel-buffering"] == "no"
    problem_of(feed4.get(n=3, sending=ACCEPT), 400, "bad-partition-count")
    problem = problem_of(feed4.get(sending=ACCEPT | {"Last-Event-ID": "42"}), 400, "bad-cursor")
    assert problem["parameter"] == "Last-Event-ID"
    problem_of(feed4.get("/events", sending=ACCEPT, token="1-3", partition=0), 409, "stale-token")
    problem_of(feed4.http.get("/feeds/nobody.knows", headers=ACCEPT), 404, "event-type-not-found")
    problem_of(feed4.get(n=1, cursor0="_first", sending={"Accept": "text/html"}), 406, "not-acceptable")
    assert feed4.get(sending={"Accept": "*/*"}).json()["token"] == "1-4"


def test_stream_of_a_feed_that_is_created_again_ends_and_its_id_has_expired(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    with messages(feed) as stream:
        begin = next(stream)
        feed.drop()
        create(either_http, name=feed.name)
        *_, last = stream
    assert last.event == "penstock-problem"
    assert json.loads(last.data)["type"].removeprefix("urn:penstock:problem:") in (
        "event-type-not-found",
        "cursor-expired",
    )
    problem = problem_of(feed.get(sending=ACCEPT | {"Last-Event-ID": begin.id}), 410, "cursor-expired")
    assert problem["parameter"] == "Last-Event-ID"


def test_stream_goes_on_over_added_partitions_and_ends_at_a_changed_token(feed4: Served) -> None:
    with messages(feed4) as whole, messages(feed4, "/events", **V2) as one:
        next(whole), next(one)
        count = f"/event-types/{feed4.name}/partition-count"
        assert feed4.http.put(count, json={"partition_count": 8}).status_code in (200, 204)
        feed4.publish_ids([1], partition=7)
        feed4.publish_ids([2], partition=1)
        assert sorted(each.number for each in take(whole, 2)) == [1, 2]
        *_, last = one
    assert json.loads(last.data)["type"] == "urn:penstock:problem:stale-token"


def test_stream_of_a_blocked_reader_ends_with_the_reason(feed: Served) -> None:
    with messages(feed) as stream:
        begin = next(stream)
        with blocked_readers(feed):
            *_, last = stream
            assert json.loads(last.data)["type"] == "urn:penstock:problem:blocked"
            problem_of(feed.get(sending=ACCEPT | {"Last-Event-ID": begin.id}), 403, "blocked")


def test_stream_counts_toward_the_limit_and_ends_whole_when_the_hub_stops(sqlite_url: str, tmp_path: Path) -> None:
    log = tmp_path / "hub.log"
    with live_hub(sqlite_url, log=log, options=["--limit", "streams=1"]) as hub, client_of(hub) as http:
        feed = create(http)
        with socket.create_connection(("127.0.0.1", hub.port)) as connection:
            connection.sendall(
                f"GET {feed.path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode()
            )
            until(lambda: feed.waiters() == 1)
            feed.publish_ids([1, 2])
            assert feed.get(sending=ACCEPT).status_code == 429
            until(lambda: feed.waiters() == 1)
            assert hub.stop() == 0
            answer = b"".join(iter(lambda: connection.recv(1 << 20), b""))
    assert answer.endswith(b"\n\n\r\n0\r\n\r\n")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    line = next(
        line for line in lines if line.get("path") == feed.path and line["status"] == 200 and line["event"] == "read"
    )
    assert (line["feed"], line["n"], line["partitions"], line["events"]) == (feed.name, 1, "0", 2)


class Reader:
    """A client of the application that takes what it is sent, or blocks."""

    def __init__(self, query: str = "") -> None:
        self.scope = make_scope("GET", f"/feeds/{NAME}", query, [(b"accept", b"text/event-stream")])
        self.body = b""
        self.takes = asyncio.Event()
        self.takes.set()
        self.leaves = asyncio.Event()
        self._came = asyncio.Condition()

    async def receive(self) -> dict[str, str]:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.takes.wait()
        async with self._came:
            self.body += message.get("body", b"")
            self._came.notify_all()

    async def wait_for(self, text: bytes) -> None:
        async with asyncio.timeout(120), self._came:
            await self._came.wait_for(lambda: text in self.body)

    @property
    def numbers(self) -> list[int]:
        return [each.number for each in parse(self.body.decode()) if each.data]


@asynccontextmanager
async def reading(here: Here, readers: Sequence[Reader]) -> AsyncIterator[list["asyncio.Task[None]"]]:
    """Have *readers* read the feed until the block ends; return their requests."""
    tasks = [asyncio.ensure_future(here.app(each.scope, each.receive, each.send)) for each in readers]
    try:
        yield tasks
    finally:
        for each in readers:
            each.takes.set()
            each.leaves.set()
        await asyncio.gather(*tasks)


@pytest.fixture
async def here(sqlite_url: str) -> AsyncIterator[Here]:
    hub = open_hub(sqlite_url)
    hub.registry.create(an_event_type(NAME, partition_count=2))
    async with serve(hub) as here:
        yield here


async def waiting(here: Here, count: int) -> None:
    while here.hub.log.watch.waiting < count:  # noqa: ASYNC110 - nobody tells when a wait has begun
        await asyncio.sleep(0.001)


@pytest.fixture
def opened(here: Here, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the feeds of which pages are opened from now on."""
    names: list[str] = []
    open_page = here.hub.log.reader.open

    def note(name: str, *given: Any, **named: Any) -> PageReading:
        names.append(name)
        return open_page(name, *given, **named)

    monkeypatch.setattr(here.hub.log.reader, "open", note)
    return names


@pytest.mark.anyio
async def test_readers_of_one_feed_share_what_is_read_for_an_event(here: Here, opened: list[str]) -> None:
    readers = [Reader() for _ in range(50)]
    async with reading(here, readers):
        await waiting(here, 50)
        opened.clear()
        await asyncio.to_thread(here.hub.log.publish, NAME, [a_new_event({"id": 1})])
        for each in readers:
            await each.wait_for(b"data: ")
    assert all(each.numbers == [1] for each in readers)
    assert len(opened) < 20


@pytest.mark.anyio
async def test_heartbeats_read_nothing(here: Here, opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_sent_events, "random", SimpleNamespace(uniform=lambda *_: 0.001))
    monkeypatch.setattr(streaming, "TICK_SECONDS", 0.001)
    reader = Reader()
    async with reading(here, [reader]):
        await reader.wait_for(b":\n\n" * 100)
    assert len(opened) < 10


@pytest.mark.anyio
async def test_stream_outlasts_a_database_that_is_unavailable(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any, **named: Any) -> PageReading:
        raise DatabaseUnavailable(reason="it restarts", retry_after=1)

    monkeypatch.setattr(server_sent_events, "RETRY_INTERVAL", 0.01)
    reader = Reader()
    async with reading(here, [reader]) as [task]:
        await waiting(here, 1)
        with monkeypatch.context() as patch:
            patch.setattr(here.hub.log.reader, "open", fail)
            await asyncio.to_thread(here.hub.log.publish, NAME, [a_new_event({"id": 1})])
            while here.hub.log.watch.waiting:  # noqa: ASYNC110 - it is about to fail
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)
        await reader.wait_for(b"data: ")
        assert not task.done()
    assert reader.numbers == [1]


@pytest.mark.anyio
async def test_client_that_takes_nothing_is_given_up(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_sent_events, "STALL_TIMEOUT", 0.0)
    reader = Reader()
    async with reading(here, [reader]) as [task]:
        await waiting(here, 1)
        reader.takes.clear()
        await asyncio.to_thread(here.hub.log.publish, NAME, [a_new_event({"id": 1})])
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(task), 120)
        assert task.done()
    assert reader.numbers == []


def test_parser_of_these_tests_takes_lines_as_they_come() -> None:
    assert next(messages_of(iter(["id: 1", "data: {}", ""]))) == Message("1", "message", "{}")
