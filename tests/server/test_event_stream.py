"""Streams of events over HTTP, beyond Nakadi's contract: large backlogs, ends, several hubs, and bounded resources."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock.testing.live_hub import LiveHub, live_hub
from tests.served import Served, client_of, create, until
from tests.server.outbox_rows import insert
from tests.server.process import KEPT_FILES, MIB, Process, leave_no_waits
from tests.server.streaming import Batch, header, lines, path, raw_request, streaming, whole


def test_line_is_byte_for_byte_as_clients_compare_it(either_http: httpx2.Client) -> None:
    feed = create(either_http, 2)
    feed.publish_lines([{"data": {"id": 1, "x": "é 🦑"}, "partition": 1}, {"data": {"id": 2}, "partition": 1}])
    limits = {"batch_limit": 5, "stream_limit": 5, "batch_flush_timeout": 1, "stream_timeout": 1}
    stream = either_http.get(path(feed), params=limits, headers=header((1, "BEGIN")))
    shown = '{"id": 1, "x": "\\u00e9 \\ud83e\\udd91"},{"id": 2}'
    cursor = '{"partition":"1","offset":"001-0001-000000000000000001"}'
    assert stream.text == f'{{"cursor":{cursor},"events":[{shown}]}}\n'


def test_backlog_of_several_partitions_comes_whole_in_batches_of_any_size(feed4: Served) -> None:
    count = 3_000
    for partition in range(3):
        feed4.publish_ids(range(count), partition=partition)
    cursors = [(partition, "BEGIN") for partition in range(4)]
    for limit in (1, 7, 100_000):
        ends = {"stream_limit": 3 * count} if limit < count else {"stream_timeout": 1, "batch_flush_timeout": 1}
        found = whole(feed4, *cursors, batch_limit=limit, **ends)
        for partition in range(3):
            own = [batch for batch in found if batch.partition == partition and batch.ids]
            assert [number for batch in own for number in batch.ids or ()] == list(range(count))
            assert all(batch.ids and batch.number == batch.ids[-1] for batch in own)
            assert max(len(batch.ids or ()) for batch in own) <= limit


def test_events_of_the_other_hub_on_a_database_come(migrated_url: str) -> None:
    with live_hub(migrated_url) as one, live_hub(migrated_url) as other, ExitStack() as stack:
        here, there = (stack.enter_context(client_of(hub)) for hub in (one, other))
        feed = create(here, 2)
        with streaming(Served(there, feed.name, 2)) as batches:
            for number in range(6):
                feed.publish_ids([number], partition=number % 2)
                assert next(batches) == Batch(number % 2, number // 2, [number])


def test_events_of_the_outbox_come(sqlite_hub: LiveHub, feed: Served) -> None:
    with streaming(feed) as batches:
        insert(sqlite_hub.database, [feed.name])
        assert next(batches) == Batch(0, 0, [0])


def test_stream_takes_a_cursor_for_each_of_the_most_partitions(http: httpx2.Client) -> None:
    feed = create(http, 256)
    feed.publish_ids([7], partition=255)
    cursors = [(partition, "001-0001--1") for partition in range(256)]
    assert whole(feed, *cursors, stream_limit=1) == [Batch(255, 0, [7])]


@contextmanager
def block(feed: Served) -> Iterator[None]:
    """Block the readers of the feed."""
    path = f"/settings/blacklist/CONSUMER_ET/{feed.name}"
    assert feed.http.put(path).status_code == 204
    try:
        yield
    finally:
        assert feed.http.delete(path).status_code == 204


def test_backlog_of_a_blocked_reader_ends_before_its_last_event(http: httpx2.Client) -> None:
    feed = create(http)
    feed.publish_lines({"data": {"id": number, "text": "x" * 10_000}} for number in range(3_000))
    with streaming(feed, (0, "BEGIN")) as batches:
        assert next(batches).ids == [0]
        with block(feed):
            assert len(list(batches)) < 2_999


def test_stream_of_a_dropped_event_type_ends(feed: Served) -> None:
    with streaming(feed, batch_flush_timeout=1) as batches:
        feed.drop()
        assert list(batches) == []


def test_stop_of_the_hub_ends_its_streams_whole_and_a_block_is_logged(sqlite_url: str, tmp_path: Path) -> None:
    log = tmp_path / "hub.log"
    with live_hub(sqlite_url, log=log) as hub, client_of(hub) as http:
        feed = create(http, 2)
        feed.publish_ids([1, 2], partition=1)
        with streaming(feed, (1, "BEGIN")) as batches:
            next(batches), next(batches)
            with block(feed):
                assert list(batches) == []
        until(lambda: '"blocked"' in log.read_text())  # The line is written once all is sent.
        with socket.create_connection(("127.0.0.1", hub.port)) as connection:
            connection.sendall(raw_request(feed))
            until(lambda: feed.waiters() == 1)
            assert hub.stop() == 0
            answer = b"".join(iter(lambda: connection.recv(MIB), b""))
    assert answer.endswith(b"\r\n\r\n0\r\n\r\n")
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    line = next(line for line in logged if line.get("path") == path(feed))
    assert (line["event"], line["status"], line["feed"]) == ("read", 200, feed.name)
    assert (line["n"], line["partitions"], line["events"], line["code"]) == (2, "1", 2, "blocked")
    assert line["bytes"] > 100


@contextmanager
def send_request(hub: LiveHub, request: bytes) -> Iterator[socket.socket]:
    """A connection on which a stream has been asked for, and of which nothing has been read."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        connection.connect(("127.0.0.1", hub.port))
        connection.sendall(request)
        yield connection


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub of this file, whose resources can be counted; a stream may hold 4 MB there."""
    folder = tmp_path_factory.mktemp("bounded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENSTOCK_STREAM_BYTES", "4000000")
        with live_hub(f"sqlite:///{folder}/hub.db", log=folder / "hub.log") as running:
            yield running


@pytest.fixture(scope="module")
def large(hub: LiveHub) -> Iterator[Served]:
    """A feed of forty MB."""
    with client_of(hub) as http:
        feed = create(http)
        line = b'{"data":{"text":"' + b"x" * 4_000 + b'"}}\n'
        for _ in range(5):
            assert feed.post(line * 2_000).status_code == 200
        yield feed


def test_streams_that_come_and_go_leave_no_waiters_threads_or_files(hub: LiveHub) -> None:
    with client_of(hub) as http:
        feed = create(http, 4)
        leave_no_waits(hub, feed, raw_request(feed))


def test_clients_that_leave_within_a_backlog_leave_no_threads_or_files(hub: LiveHub, large: Served) -> None:
    process = Process(hub)

    def take_some() -> None:
        with send_request(hub, raw_request(large, (0, "BEGIN"), batch_limit=10)) as connection:
            assert connection.recv(1_000).startswith(b"HTTP/1.1 200")

    for _ in range(3):
        take_some()
    files, threads = process.files(), process.threads()
    for _ in range(20):
        take_some()
    until(lambda: process.files() <= files + KEPT_FILES)
    until(lambda: large.waiters() == 0)
    assert process.threads() <= threads + 8


def test_memory_of_a_stream_is_bounded_although_it_asks_for_one_large_batch(hub: LiveHub, large: Served) -> None:
    process = Process(hub)
    arguments = {"batch_limit": 1_000_000, "stream_limit": 0, "batch_flush_timeout": 4_000}
    for _ in range(8):  # Its workers have their memory now.
        first_lines(large, 5, (0, "BEGIN"), **arguments)
    before = process.memory()
    with ExitStack() as stack:
        request = raw_request(large, (0, "BEGIN"), **arguments)
        stuck = [stack.enter_context(send_request(hub, request)) for _ in range(10)]
        assert all(connection.recv(1_000).startswith(b"HTTP/1.1 200") for connection in stuck)
        for _ in range(3):  # Meanwhile others are served.
            assert len(large.get(n=1, cursor0="_first", pagesizehint=1_000).content) > 3 * MIB
        assert process.memory() < before + 200 * MIB  # Their batches would have 400.
    sizes = [len(json.loads(line)["events"]) for line in first_lines(large, 9, (0, "BEGIN"), **arguments)]
    assert all(900 < size < 2_000 for size in sizes)


def first_lines(feed: Served, count: int, *cursors: tuple[Any, Any], **arguments: Any) -> list[str]:
    with lines(feed, *cursors, **arguments) as found:
        return list(islice(found, count))
