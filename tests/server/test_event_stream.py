"""Streams of events over HTTP, beyond Nakadi's contract: large backlogs, ends, and several hubs."""

import json
import socket
from contextlib import ExitStack
from pathlib import Path

import httpx2

from penstock.testing.live_hub import LiveHub, live_hub
from tests.served import Served, blocked_readers, client_of, create, until
from tests.server.outbox_rows import insert
from tests.server.streaming import Batch, header, path, raw_request, streaming, whole


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


def test_backlog_of_a_blocked_reader_ends_before_its_last_event(http: httpx2.Client) -> None:
    feed = create(http)
    feed.publish_lines({"data": {"id": number, "text": "x" * 10_000}} for number in range(3_000))
    with streaming(feed, (0, "BEGIN")) as batches:
        assert next(batches).ids == [0]
        with blocked_readers(feed):
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
            with blocked_readers(feed):
                assert list(batches) == []
        until(lambda: '"blocked"' in log.read_text())  # The line is written once all is sent.
        with socket.create_connection(("127.0.0.1", hub.port)) as connection:
            connection.sendall(raw_request(feed))
            until(lambda: feed.waiters() == 1)
            assert hub.stop() == 0
            answer = b"".join(iter(lambda: connection.recv(1 << 20), b""))
    assert answer.endswith(b"\r\n\r\n0\r\n\r\n")
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    line = next(line for line in logged if line.get("path") == path(feed))
    assert (line["event"], line["status"], line["feed"]) == ("read", 200, feed.name)
    assert (line["n"], line["partitions"], line["events"], line["code"]) == (2, "1", 2, "blocked")
    assert line["bytes"] > 100
