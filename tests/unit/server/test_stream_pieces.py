"""Pieces of a stream of events, over a real store and in virtual time."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.core.log.batching import FeedStreamRules
from penstock.errors import Blocked, CursorExpired, DatabaseUnavailable, EventTypeNotFound
from penstock.hub.hub import Hub
from penstock.server.http import streaming as gathering
from penstock.server.log import event_stream as stream_pieces
from penstock.server.log.event_stream import StreamPieces
from penstock.storage import open_store
from penstock.testing.factories import a_business_event, a_new_event, an_event_type
from tests.store_contract import database_at
from tests.unit.hub.forwarding import ForwardingStore

NAME = "order.placed"


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Stream:
    """A stream of a hub in virtual time."""

    def __init__(self, hub: Hub, clock: Clock) -> None:
        self.hub = hub
        self.name = NAME
        self.clock = clock
        self.allowed: Callable[[], None] = lambda: None
        self.pieces: StreamPieces

    def open(
        self,
        positions: dict[int, int] | None = None,
        *,
        all_partitions: bool = False,
        **rules: float,
    ) -> "Stream":
        given = {"batch_limit": 1, "stream_limit": 0, "flush_timeout": 30, "timeout": 3600, "keep_alive_limit": 0}
        self.pieces = StreamPieces(
            self.hub,
            self.hub.registry.load(self.name),
            positions or {0: 0},
            check=self.ask,
            rules=FeedStreamRules(**{"bytes_max": 1 << 30} | given | rules),  # type: ignore[arg-type]
            encoding=None,
            all_partitions=all_partitions,
            clock=self.clock,
        )
        return self

    def ask(self) -> None:
        self.allowed()

    def raw(self) -> list[bytes]:
        """Return the pieces that are made now."""
        made = [self.pieces.begin()]
        while made[-1].more:
            made.append(self.pieces.next())
        return [piece.body for piece in made]

    def lines(self) -> list[Any]:
        """Return the lines that are sent now: of each its partition, its offset's number, and its events."""
        return lines_of(b"".join(self.raw()))


def lines_of(body: bytes) -> list[Any]:
    found = []
    for line in map(json.loads, body.splitlines()):
        number = int(line["cursor"]["offset"].removeprefix("001-0001-"))
        found.append((int(line["cursor"]["partition"]), number, [event["n"] for event in line.get("events", [])]))
    return found


@pytest.fixture
def store(sqlite_url: str) -> Iterator[ForwardingStore]:
    store = open_store(sqlite_url)
    store.migrate()
    yield ForwardingStore(store)
    store.close()


@pytest.fixture
def hub(store: ForwardingStore) -> Iterator[Hub]:
    hub = Hub(store)
    hub.registry.create(an_event_type(NAME, partition_count=2, partition_strategy="user_defined"))
    yield hub
    hub.stop()


@pytest.fixture
def stream(hub: Hub) -> Stream:
    return Stream(hub, Clock())


def publish(hub: Hub, *numbers: int, partition: int = 0, **others: Any) -> None:
    hub.log.publish(NAME, [a_new_event({"n": number}, partition=partition, **others) for number in numbers])


def test_stored_and_later_events_come_in_batches(hub: Hub, stream: Stream) -> None:
    publish(hub, 0, 1, 2, 3, 4)
    publish(hub, 10, partition=1)
    stream.open({0: 1, 1: 0}, batch_limit=2)

    assert stream.lines() == [(0, 2, [1, 2]), (0, 4, [3, 4])]
    publish(hub, 5, 6)
    publish(hub, 11, partition=1)
    assert stream.lines() == [(0, 6, [5, 6]), (1, 1, [10, 11])]
    assert stream.lines() == []
    first, second = hub.registry.load(NAME).partition_ids
    assert stream.pieces.waits_at == {first: 7, second: 2}
    assert not stream.pieces.is_over


def test_stream_of_all_partitions_reads_added_ones_from_their_beginning(hub: Hub, stream: Stream) -> None:
    publish(hub, 0, partition=1)
    stream.open({0: 0, 1: 1}, flush_timeout=10, all_partitions=True)
    assert stream.lines() == []

    stream.clock.now = 5
    hub.registry.grow(NAME, 4)
    publish(hub, 20, 21, partition=2)
    publish(hub, 1, partition=1)

    assert stream.lines() == [(1, 1, [1]), (2, 0, [20]), (2, 1, [21])]
    publish(hub, 30, partition=3)
    assert stream.lines() == [(3, 0, [30])]
    stream.clock.now = 10
    assert stream.lines() == [(0, -1, [])]
    assert list(stream.pieces.waits_at.values()) == [0, 2, 2, 1]


def test_stream_of_named_partitions_reads_no_added_ones(hub: Hub, stream: Stream) -> None:
    stream.open({0: 0, 1: 0})
    hub.registry.grow(NAME, 3)
    publish(hub, 20, partition=2)
    publish(hub, 0)

    assert stream.lines() == [(0, 0, [0])]


def test_flush_timeout_sends_events_that_wait_and_stream_timeout_ends(hub: Hub, stream: Stream) -> None:
    publish(hub, 0)
    stream.open({0: 0, 1: 0}, batch_limit=9, flush_timeout=10, timeout=25)

    assert (stream.lines(), stream.pieces.idle_seconds) == ([], 10)
    stream.clock.now = 10
    assert stream.lines() == [(0, 0, [0]), (1, -1, [])]
    stream.clock.now = 20
    publish(hub, 1)
    assert stream.lines() == [(0, 1, [1]), (1, -1, [])]
    assert stream.pieces.idle_seconds == 5
    stream.clock.now = 25
    publish(hub, 2)
    assert stream.lines() == [(0, 2, [2])]
    assert stream.pieces.is_over
    assert stream.pieces.send_timeout == stream_pieces.SEND_TIMEOUT


def test_partitions_with_a_backlog_are_read_in_turn(hub: Hub, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_pieces, "PAGE_EVENTS", 4)
    publish(hub, *range(6))
    publish(hub, *range(10, 16), partition=1)
    stream.open({0: 0, 1: 0}, batch_limit=2)

    assert stream.lines() == [(0, 1, [0, 1]), (1, 1, [10, 11])]
    assert stream.pieces.has_unread
    assert stream.lines() == [(0, 3, [2, 3]), (1, 3, [12, 13])]
    assert stream.lines() == [(0, 5, [4, 5]), (1, 5, [14, 15])]
    assert not stream.pieces.has_unread


def test_deletion_marks_are_skipped(hub: Hub, stream: Stream) -> None:
    stream.name = "order.kept"
    hub.registry.create(an_event_type(stream.name, category="business", cleanup_policy="compact"))
    for number, deletes in enumerate((True, False, True, False, False, True, True)):
        event = a_business_event(number, n=number, metadata={"partition_compaction_key": "k"})
        hub.log.submit(stream.name, [a_new_event(event)], deletes=deletes).result()
    stream.open(batch_limit=2, flush_timeout=10)

    assert stream.lines() == [(0, 3, [1, 3])]
    stream.clock.now = 10
    assert stream.lines() == [(0, 6, [4])]
    hub.log.submit(stream.name, [a_new_event(event)], deletes=True).result()
    stream.clock.now = 20
    assert stream.lines() == [(0, 7, [])]


def test_line_larger_than_a_piece_comes_in_several_pieces(hub: Hub, stream: Stream) -> None:
    texts = [str(number) * 100_000 for number in range(10)]
    hub.log.publish(NAME, [a_new_event({"text": text}, partition=0) for text in texts])
    stream.open(batch_limit=10)

    pieces = stream.raw()

    assert len(pieces) > 2
    assert max(map(len, pieces)) < 2 * gathering.GATHER_BYTES
    assert [event["text"] for event in json.loads(b"".join(pieces))["events"]] == texts


class TestEnds:
    """A stream that ends before its time does not cut a line."""

    def test_blocked_reader_gets_no_more(self, hub: Hub, stream: Stream) -> None:
        publish(hub, 0)
        stream.open()
        assert stream.lines() == [(0, 0, [0])]
        publish(hub, 1)

        def refuse() -> None:
            raise Blocked(event_type=NAME, application="x")

        stream.allowed = refuse
        with pytest.raises(Blocked):
            stream.raw()

    def test_retention_that_overtakes_the_stream_ends_it(
        self, hub: Hub, stream: Stream, store: ForwardingStore
    ) -> None:
        publish(hub, 0, 1, 2, 3)
        stream.open()
        assert len(stream.lines()) == 4
        publish(hub, 4, 5)
        retain(store.url, 5)

        with pytest.raises(CursorExpired):
            stream.raw()

    @pytest.mark.parametrize("again", [True, False])
    def test_dropped_event_type_ends_the_stream(self, hub: Hub, stream: Stream, again: bool) -> None:
        stream.open()
        assert stream.lines() == []
        hub.registry.delete(NAME)
        if again:
            hub.registry.create(an_event_type(NAME, partition_count=2, partition_strategy="user_defined"))

        with pytest.raises(CursorExpired if again else EventTypeNotFound):
            stream.raw()

    def test_line_that_has_begun_is_completed_before_the_end(self, hub: Hub, stream: Stream) -> None:
        """Each chunk is asked for by itself: at the second the reader is blocked, the first makes a line and a half."""
        hub.log.publish(NAME, [a_new_event({"n": n, "text": "x" * 400_000}, partition=0) for n in range(12)])
        stream.open(batch_limit=5)
        asked: list[None] = []

        def refuse() -> None:
            asked.append(None)
            if len(asked) > 2:
                raise Blocked(event_type=NAME, application="x")

        stream.allowed = refuse
        pieces = [stream.pieces.begin()]
        while pieces[-1].body.count(b"\n") == 0:
            pieces.append(stream.pieces.next())
        with pytest.raises(Blocked):
            stream.pieces.next()

        body = b"".join(piece.body for piece in pieces)
        assert body.endswith(b"]}\n")
        assert [events for _, _, events in lines_of(body)] == [[0, 1, 2, 3, 4]]

    def test_stop_of_the_hub_ends_the_stream(self, hub: Hub, stream: Stream) -> None:
        publish(hub, *range(5))
        stream.open(batch_limit=9)
        hub.drain()

        assert stream.lines() == []
        assert stream.pieces.is_over


class TestWithoutDatabase:
    """A database that is away for a while."""

    def away(self, _: int) -> None:
        raise DatabaseUnavailable(reason="away", retry_after=1)

    def test_stream_without_backlog_waits_until_the_database_is_back(
        self, hub: Hub, stream: Stream, store: ForwardingStore
    ) -> None:
        publish(hub, 0)
        stream.open({0: 0}, flush_timeout=10)
        assert stream.lines() == [(0, 0, [0])]
        store.at_read = self.away
        stream.clock.now = 10

        assert stream.lines() == [(0, 0, [])]
        store.at_read = lambda _: None
        publish(hub, 1)
        assert stream.lines() == [(0, 1, [1])]

    @pytest.mark.parametrize("has_begun", [False, True], ids=["has not begun", "has a backlog"])
    def test_other_stream_fails_while_the_database_is_away(
        self, hub: Hub, stream: Stream, store: ForwardingStore, monkeypatch: pytest.MonkeyPatch, *, has_begun: bool
    ) -> None:
        monkeypatch.setattr(stream_pieces, "PAGE_EVENTS", 1)
        publish(hub, 0, 1)
        stream.open()
        assert not has_begun or stream.lines() == [(0, 0, [0])]
        store.at_read = self.away

        with pytest.raises(DatabaseUnavailable):
            stream.raw()


def retain(url: str, floor: int) -> None:
    """Remove what lies below *floor* in the first partition, as retention does."""
    database = database_at(url)
    database.run("UPDATE penstock_partition SET floor = ? WHERE number = 0", floor)
    gone = "(SELECT id FROM penstock_partition WHERE number = 0)"
    database.run(f'DELETE FROM penstock_event WHERE "offset" < ? AND partition_id = {gone}', floor)
