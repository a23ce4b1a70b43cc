"""`copy_streams` copies streams to a feed or a MessageDB once and in order, after failures and kills."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.client import Client
from penstock.errors import DatabaseUnavailable, PenstockError, ProducerFenced
from penstock.processing import FeedSource, InlineProcessor, Rules, StreamEvent
from penstock.processing.sources import MemorySource
from penstock.processing.targets import (
    Duplicate,
    HubTarget,
    MessagedbTarget,
    Partial,
    PrefixMissing,
    Written,
    copy_streams,
)
from penstock.processing.targets import hub as origins
from penstock.processing.targets.hub import Delivery
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import examples
from tests.faults.proxy import Line, unanswered
from tests.processing.programs import running
from tests.processing.reading import read_feed
from tests.spark.message_db import message_databases, message_db_url

__all__ = ["message_databases", "message_db_url"]

CUSTOMERS = 10
KILLS = examples(1, 3)
EVENTS = examples(600, 1_500)
"""So many are published before each kill, and before the end."""


@pytest.fixture
def hub(emptied_hub: LiveHub) -> LiveHub:
    return emptied_hub


@pytest.fixture
def client(hub: LiveHub) -> Iterator[Client]:
    with Client(hub.url) as client:
        for name in ("order.placed", "order.copied"):
            client.create_event_type(
                name, partition_count=2, partition_strategy="hash", partition_key_fields=["customer"]
            )
        yield client


def span(stream: str, *indices: int) -> list[StreamEvent]:
    return [StreamEvent(stream, at, "Placed", b'{"n":%d}' % at, key="7", _headers='{"a":"b"}') for at in indices]


def read_copies(client: Client) -> dict[str, list[int]]:
    """Return the numbers in the feed of copies, by the streams of their origins, in its order."""
    found: dict[str, list[int]] = defaultdict(list)
    for event in read_feed(client, "order.copied", ["penstock-stream"]):
        found[event.headers["penstock-stream"]].append(event.data["n"])
    return found


def rows(url: str, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True, options="-c search_path=message_store") as connection:
        return connection.execute(query, values).fetchall()


def messages(url: str, stream: str) -> list[tuple[Any, ...]]:
    """Return the positions and numbers of a stream of the MessageDB."""
    query = "SELECT position, (data ->> 'n')::int FROM messages WHERE stream_name = %s ORDER BY position"
    return rows(url, query, stream)


@pytest.fixture(params=["hub", "messagedb"])
def copying(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Callable[[], list[int]]]]:
    """A target, and a function that reads back the numbers of the stream `order-1` from it."""
    if request.param == "hub":
        client = request.getfixturevalue("client")
        yield HubTarget(client, "order.copied", "copier"), lambda: read_copies(client)["order-1"]
        return
    url = request.getfixturevalue("message_db_url")
    with MessagedbTarget(url) as target:
        yield target, lambda: [number for _, number in messages(url, "order-1")]


@pytest.mark.parametrize(
    ("appends", "numbers"),
    [
        (
            [
                (1, (1, 2), PrefixMissing(0)),
                (0, (0, 1), Written(2)),
                (0, (0, 1), Duplicate(2)),
                (1, (1, 2, 4), Partial(3, 1)),
                (4, (4,), PrefixMissing(3)),
                (1, (1, 2, 3), Partial(4, 1)),
            ],
            [0, 1, 2, 3],
        ),
        (
            [
                (None, (3, 5), Written(6)),
                (None, (3, 5), Duplicate(6)),
                (None, (5, 8, 9), Partial(10, 2)),
                (None, (3, 5, 8, 9), Duplicate(10)),
            ],
            [3, 5, 8, 9],
        ),
    ],
    ids=["dense", "with gaps"],
)
def test_append_reports_how_far_the_stream_has_come(
    copying: tuple[Any, Callable[[], list[int]]], appends: list[Any], numbers: list[int]
) -> None:
    target, read = copying
    for start, indices, attained in appends:
        assert target.append("order-1", start, span("order-1", *indices)) == attained
    assert read() == numbers


# A hub as the target.


def test_second_copier_reads_its_progress_back_and_fences_the_first(client: Client) -> None:
    first, second = (HubTarget(client, "order.copied", "copier") for _ in range(2))
    first.append("S", None, span("S", 3, 5))
    assert second.append("S", None, span("S", 3, 5)) == Duplicate(6)
    assert second.append("T", None, span("T", 0)) == Written(1)
    assert read_copies(client) == {"S": [3, 5], "T": [0]}
    with pytest.raises(ProducerFenced):
        first.append("S", None, span("S", 11))


def test_copies_have_the_key_headers_and_origin_of_their_events(client: Client) -> None:
    HubTarget(client, "order.copied", "copier").append("S", None, span("S", 3))
    found: list[Any] = []
    with FeedSource(client.parts()[0].url, "order.copied") as source:
        InlineProcessor(lambda _, events: found.extend(events), source).drain()
    [event] = found
    assert (event.stream, event.raw) == ("order.copied-7", b'{"n":3}')
    assert event.headers == {
        "a": "b", "penstock-stream": "S", "penstock-index": "3", "penstock-group": "copier",
    }  # fmt: skip


def test_dense_stream_waits_for_its_missing_beginning(client: Client) -> None:
    source = MemorySource()
    processor = InlineProcessor(copy_streams(HubTarget(client, "order.copied", "copier"), dense=True), source)
    source.deliver(span("S", 2, 3))
    processor.drain()
    assert read_copies(client) == {}
    source.deliver(span("S", 0, 1))
    processor.drain()
    processor.advance(60)
    processor.drain()
    assert read_copies(client) == {"S": [0, 1, 2, 3]}


def test_refused_stream_keeps_no_other_back(client: Client) -> None:
    target = origins.Origins(client, "order.copied", "copier")
    copier = HubTarget(client, "order.copied", "copier")
    copier._origins = target
    good, bad = span("S", 0), [StreamEvent("T", 0, "k", b"no JSON", key="7")]
    deliveries = [
        Delivery((events[0].stream, ""), None, [copier._make_entry(events[0].stream, event) for event in events])
        for events in (good, bad, span("U", 0))
    ]
    [first, second], [third] = target._publish(1, [deliveries[:2], deliveries[2:]])
    assert (first, third) == (Written(1), Written(1))
    assert isinstance(second, PenstockError)
    assert read_copies(client) == {"S": [0], "U": [0]}


def test_copier_finds_out_the_outcome_of_an_unanswered_publish(
    client: Client, hub: LiveHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origins, "DELIVERY_TIMEOUT", 0.4)
    with Line(hub.port) as line, Client(line.url) as through:
        target = HubTarget(through, "order.copied", "copier")
        assert target.append("S", None, span("S", 0, 1)) == Written(2)
        line.does(*[unanswered] * 100)
        with pytest.raises(PenstockError):
            target.append("S", None, span("S", 2, 3))
        assert line.left < 100
        line._fates.clear()
        assert target.append("S", None, span("S", 2, 3, 4)) == Partial(5, 1)
    assert read_copies(client) == {"S": [0, 1, 2, 3, 4]}


def publish(client: Client, numbers: range) -> None:
    client.publish("order.placed", [{"customer": f"{number % CUSTOMERS}", "n": number} for number in numbers])


def test_feed_is_copied_once_by_a_copier_that_is_killed_and_by_one_that_begins_again(
    client: Client, hub: LiveHub, tmp_path: Path
) -> None:
    chance = random.Random(seed := random.randrange(2**32))
    print("seed", seed)  # noqa: T201 - It is shown when the test fails.
    arguments = [hub.url, "order.placed", "order.copied", f"sqlite:///{tmp_path}/checkpoints.db"]
    for turn in range(KILLS + 1):
        publish(client, range(turn * EVENTS, (turn + 1) * EVENTS))
        count = (turn + 1) * EVENTS
        with running("-m", "tests.processing.copying", *arguments) as copier:
            assert copier.line() == "copying"
            if turn < KILLS:
                wait_for(client, count - chance.randrange(100, EVENTS))
                copier.kill()
            else:
                wait_for(client, count)
                copier.end()
    wanted = {f"order.placed-{key}": [*range(key, count, CUSTOMERS)] for key in range(CUSTOMERS)}
    assert read_copies(client) == wanted
    with FeedSource(hub.url, "order.placed") as source:
        handler = copy_streams(HubTarget(client, "order.copied", "copier"), dense=False)
        InlineProcessor(handler, source, rules=Rules(events_per_call=7)).drain()
    assert read_copies(client) == wanted, "a copy from the beginning has no effect"


def wait_for(client: Client, events: int) -> None:
    """Wait until so many events are copied."""
    with client.feed("order.copied") as feed:
        cursors, left = feed.cursors(), events
        while left > 0:
            page = feed.read(cursors, wait_seconds=10)
            cursors |= page.cursors
            left -= len(page.events)


# A MessageDB as the target.


@pytest.fixture
def url(message_db_url: str) -> str:
    return message_db_url


@pytest.fixture
def target(url: str) -> Iterator[MessagedbTarget]:
    with MessagedbTarget(url) as target:
        yield target


def test_dense_indices_are_the_positions_of_the_messages(url: str, target: MessagedbTarget) -> None:
    target.append("order-1", 0, span("order-1", 0, 1, 2))
    assert messages(url, "order-1") == [(0, 0), (1, 1), (2, 2)]
    [(kind, data, metadata)] = rows(url, "SELECT type, data, metadata FROM messages WHERE position = 2")
    assert (kind, data) == ("Placed", {"n": 2})
    assert metadata == {"a": "b", "penstock-stream": "order-1", "penstock-index": 2}


def test_copies_with_gaps_leave_messages_of_others_as_they_are(url: str, target: MessagedbTarget) -> None:
    assert target.append("order-1", None, span("order-1", 7, 9)) == Written(10)
    written = "SELECT write_message(gen_random_uuid()::varchar, 'order-1', 'Other', '{\"n\": -1}', NULL)"
    assert rows(url, written) == [(2,)]
    assert target.append("order-1", None, span("order-1", 9, 12)) == Partial(13, 1)
    assert messages(url, "order-1") == [(0, 7), (1, 9), (2, -1), (3, 12)]


def test_messages_of_another_numbering_are_other_events(url: str, target: MessagedbTarget) -> None:
    for numbering in ("order/0@1", "order/2@1", "order/0@2"):
        events = span("order-1", 0, 1)
        for event in events:
            event.numbering = numbering
        assert target.append("order-1", None, events) == Written(2)
        assert target.append("order-1", None, events) == Duplicate(2)
    found = rows(
        url, "SELECT (data ->> 'n')::int, metadata ->> 'penstock-numbering' FROM messages ORDER BY global_position"
    )
    assert found == [(n, numbering) for numbering in ("order/0@1", "order/2@1", "order/0@2") for n in (0, 1)]


def test_stream_is_copied_under_another_name(url: str) -> None:
    with MessagedbTarget(url, name=lambda stream: f"mirror:{stream}") as target:
        assert target.append("order-1", 0, span("order-1", 0)) == Written(1)
    assert messages(url, "mirror:order-1") == [(0, 0)]


def test_refused_event_takes_no_other_with_it(url: str, target: MessagedbTarget) -> None:
    bad = StreamEvent("order-1", 1, "Placed", b'{"n":"\\u0000"}')
    with pytest.raises(psycopg.DataError):
        target.append("order-1", 0, [*span("order-1", 0), bad])
    assert messages(url, "order-1") == []
    assert target.append("order-1", 0, span("order-1", 0)) == Written(1)


def test_copiers_at_once_write_each_event_once(url: str) -> None:
    def copy(seed: int) -> None:
        with MessagedbTarget(url) as target:
            at = 0
            while at < 60:
                count = 1 + (seed * 31 + at) % 7
                attained = target.append("order-1", at, span("order-1", *range(at, min(60, at + count))))
                assert not isinstance(attained, PrefixMissing)
                at = attained.position

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(copy, (41, 19, 50, 83))] == [None] * 4
    assert messages(url, "order-1") == [(at, at) for at in range(60)]


def test_target_in_an_absent_database_raises_database_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.processing.targets.messagedb.ANSWER_TIMEOUT", 0.5)
    with MessagedbTarget("postgresql://127.0.0.1:1/none") as target, pytest.raises(DatabaseUnavailable):
        target.append("order-1", 0, span("order-1", 0))
