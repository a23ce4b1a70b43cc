"""Streams over HTTP: what they begin with, what they send, and how they end (digest of Nakadi's contract, 4.2)."""

import json
import socket
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2
import pytest
import zstandard

from penstock.testing.live_hub import LiveHub, live_hub
from tests.served import Served, client_of, create, problem_of, until
from tests.server.process import KEPT_FILES, MIB, Process, waits_leave_nothing
from tests.server.streaming import Batch, batch_of, header, lines, path, raw_request, streaming, whole

LAST = "001-0001-000000000000000001"


class TestLines:
    def test_they_are_byte_for_byte_as_clients_compare_them(self, either_http: httpx2.Client) -> None:
        feed = create(either_http, 2)
        feed.publish_lines([{"data": {"id": 1, "x": "é 🦑"}, "partition": 1}, {"data": {"id": 2}, "partition": 1}])
        stream = either_http.get(
            path(feed), params={"batch_limit": 5, "stream_limit": 5, "batch_flush_timeout": 1, "stream_timeout": 1},
            headers=header((1, "BEGIN")),
        )  # fmt: skip
        shown = '{"id": 1, "x": "\\u00e9 \\ud83e\\udd91"},{"id": 2}'
        assert stream.text == f'{{"cursor":{{"partition":"1","offset":"{LAST}"}},"events":[{shown}]}}\n'

    def test_events_come_in_batches_and_the_last_is_what_is_left(self, feed4: Served) -> None:
        feed4.publish_ids(range(8), partition=2)
        found = whole(feed4, (2, "BEGIN"), batch_limit=3, stream_limit=8)
        assert found == [Batch(2, 2, [0, 1, 2]), Batch(2, 5, [3, 4, 5]), Batch(2, 7, [6, 7])]

    def test_one_event_is_a_batch_unless_more_are_asked_for(self, feed4: Served) -> None:
        feed4.publish_ids(range(3), partition=0)
        assert whole(feed4, (0, 0), stream_limit=2) == [Batch(0, 1, [1]), Batch(0, 2, [2])]

    def test_many_events_of_several_partitions_come_whole(self, feed4: Served) -> None:
        for partition in range(3):
            feed4.publish_ids(range(9_000), partition=partition)
        cursors = [(partition, "BEGIN") for partition in range(4)]
        for limit in (1, 7, 1_000, 100_000):
            found = whole(feed4, *cursors, batch_limit=limit, stream_limit=27_000 if limit < 27_000 else 0,
                          batch_flush_timeout=1, stream_timeout=1 if limit > 27_000 else 60)  # fmt: skip
            for partition in range(3):
                own = [batch for batch in found if batch.partition == partition and batch.ids]
                assert [number for batch in own for number in batch.ids or ()] == list(range(9_000))
                assert all(batch.ids and batch.number == batch.ids[-1] for batch in own)
                assert max(len(batch.ids or ()) for batch in own) <= limit

    def test_time_sends_what_there_is_and_ends_the_stream(self, http: httpx2.Client) -> None:
        feed = create(http, 8)
        feed.publish_ids([1, 2], partition=3)
        feed.publish_ids(range(8), partition=5)
        cursors = [(partition, "BEGIN") for partition in range(8)]
        found = whole(feed, *cursors, batch_limit=5, batch_flush_timeout=1, stream_timeout=1)
        assert sorted(found) == sorted(
            [Batch(partition, -1, None) for partition in (0, 1, 2, 4, 6, 7)]
            + [Batch(3, 1, [1, 2]), Batch(5, 4, [0, 1, 2, 3, 4]), Batch(5, 7, [5, 6, 7])]
        )

    def test_keep_alives_end_a_stream_without_a_header_at_the_newest_offsets(self, http: httpx2.Client) -> None:
        feed = create(http, 8)
        feed.publish_ids([1, 2], partition=3)
        found = whole(feed, batch_flush_timeout=1, stream_keep_alive_limit=1)
        assert sorted(found) == [Batch(partition, 1 if partition == 3 else -1, None) for partition in range(8)]


class TestWaiting:
    def test_the_answer_begins_before_there_is_anything(self, http: httpx2.Client) -> None:
        feed = create(http)
        with http.stream("GET", path(feed)) as answer:
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "application/x-json-stream"
            assert answer.headers["transfer-encoding"] == "chunked"

    def test_what_is_published_comes_at_once(self, feed4: Served) -> None:
        feed4.publish_ids([0], partition=1)
        with streaming(feed4, batch_limit=2) as batches:
            feed4.publish_ids([1, 2], partition=1)
            assert next(batches) == Batch(1, 2, [1, 2])
            feed4.publish_ids([3, 4, 5], partition=0)
            assert next(batches) == Batch(0, 1, [3, 4])
            feed4.publish_ids([6], partition=0)
            assert next(batches) == Batch(0, 3, [5, 6])

    def test_those_partitions_alone_are_read_that_have_a_cursor(self, feed4: Served) -> None:
        feed4.publish_ids(range(4), partition=1)
        with streaming(feed4, (1, 2), (3, "begin")) as batches:
            assert next(batches) == Batch(1, 3, [3])
            feed4.publish_ids([9], partition=0)
            feed4.publish_ids([7], partition=3)
            assert next(batches) == Batch(3, 0, [7])

    def test_another_hub_on_the_database_sees_what_one_has_taken(self, migrated_url: str) -> None:
        with live_hub(migrated_url) as one, live_hub(migrated_url) as other, ExitStack() as stack:
            here, there = (stack.enter_context(client_of(hub)) for hub in (one, other))
            feed = create(here, 2)
            with streaming(Served(there, feed.name, 2)) as batches:
                for number in range(20):
                    feed.publish_ids([number], partition=number % 2)
                    assert next(batches) == Batch(number % 2, number // 2, [number])

    @pytest.mark.parametrize("encoding", ["gzip", "zstd"])
    def test_a_compressed_batch_can_be_read_when_it_comes(self, http: httpx2.Client, encoding: str) -> None:
        feed = create(http)
        decode: Any = zlib.decompressobj(31) if encoding == "gzip" else zstandard.ZstdDecompressor().decompressobj()
        with http.stream(
            "GET", path(feed), params={"stream_limit": 3}, headers={"Accept-Encoding": encoding}
        ) as answer:
            assert answer.headers["content-encoding"] == encoding
            assert answer.headers["vary"] == "Accept-Encoding"
            pieces = answer.iter_raw()
            for number in range(3):
                feed.publish_ids([number])
                text = b""
                while not text.endswith(b"\n"):
                    text += decode.decompress(next(pieces))
                assert batch_of(text) == Batch(0, number, [number])
            for piece in pieces:
                assert decode.decompress(piece) == b""
            assert decode.eof

    def test_what_a_service_has_committed_to_its_outbox_comes_by_itself(self, sqlite_url: str) -> None:
        import sqlite3

        with live_hub(sqlite_url) as hub, client_of(hub) as http:
            feed = create(http)
            with streaming(feed) as batches, sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as service:
                sql = "INSERT INTO penstock_outbox (event_type, data) VALUES (?, ?)"
                service.execute(sql, (feed.name, '{"id":5}'))
                service.commit()
                assert next(batches) == Batch(0, 0, [5])
            service.close()


class TestRefusals:
    @pytest.mark.parametrize("name", ["no.such", "1", "a b"])
    def test_an_event_type_that_is_not_there_comes_first(self, http: httpx2.Client, name: str) -> None:
        answer = http.get(f"/event-types/{name}/events?batch_limit=0", headers={"X-nakadi-cursors": "x"})
        assert problem_of(answer, 404, "event-type-not-found")["detail"] == "topic not found"

    @pytest.mark.parametrize("cursors", ["", "x", "{", "{}", "1", '[{"partition":[]}]', "[1]", "\xff"])
    def test_a_header_that_is_no_list_of_cursors_is_400(self, http: httpx2.Client, cursors: str) -> None:
        answer = http.get(
            f"{path(create(http))}?batch_limit=0", headers={"X-nakadi-cursors": cursors.encode("latin-1")}
        )
        problem = problem_of(answer, 400, "bad-parameter")
        assert problem["detail"] == "incorrect syntax of X-nakadi-cursors header"

    @pytest.mark.parametrize(
        ("cursors", "detail"),
        [
            ([], "X-nakadi-cursors names no partition"),
            ([None], 'Field "[0]" may not be null'),
            ([{"partition": "0"}], 'Field "[0].offset" may not be null'),
            ([{"offset": "BEGIN"}], 'Field "[0].partition" may not be null'),
            ([{"partition": "very_wrong_partition", "offset": "3"}], "non existing partition very_wrong_partition"),
            ([{"partition": "2", "offset": "BEGIN"}], "non existing partition 2"),
            ([{"partition": "0", "offset": "END"}], "offset END of partition 0 cannot be used"),
            ([{"partition": "0", "offset": "2"}], "it is beyond the newest event"),
            ([{"partition": "0", "offset": "001-0002--1"}], "it is of the feed's epoch 2, which is now 1"),
            ([{"partition": "0", "offset": "1"}, {"partition": "0", "offset": "0"}], "has more than one cursor"),
        ],
        ids=str,
    )
    def test_cursors_from_which_cannot_be_read_are_412(
        self, http: httpx2.Client, cursors: list[Any], detail: str
    ) -> None:
        feed = create(http, 2)
        feed.publish_ids([1, 2], partition=0)
        answer = http.get(f"{path(feed)}?batch_limit=0", headers={"x-NAKADI-cursors": json.dumps(cursors)})
        assert detail in problem_of(answer, 412, "unusable-start")["detail"]

    def test_parameters_that_make_no_sense_are_422(self, http: httpx2.Client) -> None:
        feed = create(http)
        for query, detail in (
            ("batch_limit=10&stream_limit=1", "stream_limit can't be lower than batch_limit"),
            ("stream_timeout=5", "stream_timeout can't be lower than batch_flush_timeout"),
            ("batch_limit=0", "batch_limit can't be lower than 1"),
        ):
            answer = http.get(f"{path(feed)}?{query}")
            assert problem_of(answer, 422, "bad-stream-parameter")["detail"] == detail
        assert problem_of(http.get(f"{path(feed)}?batch_limit=x"), 400, "bad-parameter")["parameter"] == "batch_limit"

    def test_the_head_of_a_stream_is_all_that_head_wants(self, http: httpx2.Client) -> None:
        feed = create(http)
        answer = http.head(path(feed))
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-json-stream")
        assert http.head(f"{path(feed)}?batch_limit=0").status_code == 422

    def test_as_many_cursors_as_a_feed_can_have_partitions_fit(self, http: httpx2.Client) -> None:
        feed = create(http, 256)
        feed.publish_ids([7], partition=255)
        cursors = [(partition, "001-0001--1") for partition in range(256)]
        assert whole(feed, *cursors, stream_limit=1) == [Batch(255, 0, [7])]


class TestEnds:
    def test_who_is_blocked_reads_no_more_until_it_is_lifted(self, either_http: httpx2.Client) -> None:
        feed = create(either_http)
        block = f"/settings/blacklist/CONSUMER_ET/{feed.name}"
        with streaming(feed) as batches:
            feed.publish_ids([1])
            assert next(batches) == Batch(0, 0, [1])
            assert feed.http.put(block).status_code == 204
            assert list(batches) == []
        problem_of(feed.http.get(path(feed)), 403, "blocked")
        assert feed.http.delete(block).status_code == 204
        assert whole(feed, (0, "BEGIN"), stream_limit=1) == [Batch(0, 0, [1])]

    def test_a_blocked_reader_of_a_backlog_is_stopped_in_it(self, http: httpx2.Client) -> None:
        feed = create(http)
        feed.publish_lines({"data": {"id": number, "text": "x" * 10_000}} for number in range(4_000))
        block = f"/settings/blacklist/CONSUMER_ET/{feed.name}"
        try:
            with streaming(feed, (0, "BEGIN")) as batches:
                assert next(batches).ids == [0]
                assert http.put(block).status_code == 204
                assert len(list(batches)) < 3_999
        finally:
            http.delete(block)

    def test_an_event_type_that_is_dropped_ends_its_streams(self, http: httpx2.Client) -> None:
        feed = create(http)
        with streaming(feed, batch_flush_timeout=1) as batches:
            feed.drop()
            assert list(batches) == []

    def test_a_hub_that_stops_ends_its_streams_whole(self, sqlite_url: str) -> None:
        with live_hub(sqlite_url) as hub, client_of(hub) as http:
            feed = create(http)
            with socket.create_connection(("127.0.0.1", hub.port)) as connection:
                connection.sendall(raw_request(feed))
                until(lambda: feed.waiters() == 1)
                assert hub.stop() == 0
                answer = b""
                while piece := connection.recv(MIB):
                    answer += piece
            assert answer.endswith(b"\r\n\r\n0\r\n\r\n")

    def test_why_a_stream_ended_is_in_the_access_log(self, sqlite_url: str, tmp_path: Path) -> None:
        log = tmp_path / "hub.log"
        with live_hub(sqlite_url, log=log) as hub, client_of(hub) as http:
            feed = create(http, 2)
            feed.publish_ids([1, 2], partition=1)
            with streaming(feed, (1, "BEGIN")) as batches:
                next(batches), next(batches)
                http.put(f"/settings/blacklist/CONSUMER_ET/{feed.name}")
                assert list(batches) == []
            until(lambda: '"blocked"' in log.read_text())  # The line is written once all is sent.
        logged = [json.loads(line) for line in log.read_text().splitlines()]
        (told,) = [line for line in logged if line.get("path") == path(feed)]
        assert (told["event"], told["status"], told["feed"]) == ("read", 200, feed.name)
        assert (told["n"], told["partitions"], told["events"], told["code"]) == (2, "1", 2, "blocked")
        assert told["bytes"] > 100


@pytest.fixture
def hub(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveHub]:
    """A hub that nobody else uses, so that what it holds can be counted; a stream holds 4 MB there."""
    monkeypatch.setenv("PENSTOCK_STREAM_BYTES", "4000000")
    with live_hub(sqlite_url, log=tmp_path / "hub.log") as running:
        yield running


@contextmanager
def asked(hub: LiveHub, request: bytes) -> Iterator[socket.socket]:
    """A connection on which a stream has been asked for, and of which nothing has been read."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        connection.connect(("127.0.0.1", hub.port))
        connection.sendall(request)
        yield connection


class TestNothingIsLeft:
    def test_a_client_that_goes_away_is_noticed_at_once(self, hub: LiveHub) -> None:
        with client_of(hub) as http:
            feed = create(http)
            with asked(hub, raw_request(feed)):
                until(lambda: feed.waiters() == 1)
            until(lambda: feed.waiters() == 0)

    def test_a_thousand_streams_that_come_and_go_leave_nothing(self, hub: LiveHub) -> None:
        with client_of(hub) as http:
            feed = create(http, 4)
            waits_leave_nothing(hub, feed, raw_request(feed))

    def test_clients_that_leave_in_the_middle_of_a_backlog_leave_nothing(self, hub: LiveHub) -> None:
        process = Process(hub)
        with client_of(hub) as http:
            feed = large(http)

            def take_some() -> None:
                with asked(hub, raw_request(feed, (0, "BEGIN"), batch_limit=10)) as connection:
                    assert connection.recv(1_000).startswith(b"HTTP/1.1 200")

            for _ in range(3):
                take_some()
            files, threads = process.files(), process.threads()
            for _ in range(40):
                take_some()
            until(lambda: process.files() <= files + KEPT_FILES)
            until(lambda: feed.waiters() == 0)
            assert process.threads() <= threads + 8

    def test_what_a_stream_holds_is_bounded_whatever_it_is_asked_for(self, hub: LiveHub) -> None:
        """Forty MB in one batch, of which a stream may hold four: it is sent in several."""
        process = Process(hub)
        with client_of(hub) as http:
            feed = large(http)
            arguments = {"batch_limit": 1_000_000, "stream_limit": 0, "batch_flush_timeout": 4_000}
            for _ in range(8):  # Its workers have their memory now.
                first_lines(feed, 5, (0, "BEGIN"), **arguments)
            before = process.memory()
            with ExitStack() as stack:
                request = raw_request(feed, (0, "BEGIN"), **arguments)
                stuck = [stack.enter_context(asked(hub, request)) for _ in range(10)]
                assert all(connection.recv(1_000).startswith(b"HTTP/1.1 200") for connection in stuck)
                for _ in range(3):  # Meanwhile others are served.
                    assert len(feed.get(n=1, cursor0="_first", pagesizehint=1_000).content) > 3 * MIB
                assert process.memory() < before + 200 * MIB  # Their batches would have 400.
            sizes = [len(json.loads(line)["events"]) for line in first_lines(feed, 9, (0, "BEGIN"), **arguments)]
            assert all(900 < size < 2_000 for size in sizes)

    def test_an_early_line_comes_when_too_much_waits(self, hub: LiveHub) -> None:
        with client_of(hub) as http:
            feed = create(http, 2)
            with streaming(feed, batch_limit=1_000_000, batch_flush_timeout=4_000) as batches:
                line = {"data": {"id": 1, "text": "x" * 100_000}, "partition": 1}
                for _ in range(5):
                    feed.publish_lines([line] * 10)
                found = next(batches)
            assert found.partition == 1
            assert 30 <= len(found.ids or ()) <= 50


def large(http: httpx2.Client) -> Served:
    """Return a feed of forty MB."""
    feed = create(http)
    line = b'{"data":{"text":"' + b"x" * 4_000 + b'"}}\n'
    for _ in range(5):
        assert feed.post(line * 2_000).status_code == 200
    return feed


def first_lines(feed: Served, count: int, *cursors: tuple[Any, Any], **arguments: Any) -> list[str]:
    with lines(feed, *cursors, **arguments) as found:
        return list(islice(found, count))
