"""What `sync` copies to a MessageDB is there once and in order, and others' events are left as they are."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from penstock.errors import DatabaseUnavailable
from penstock.processing import (
    Duplicate,
    Inline,
    MemorySource,
    MessagedbTarget,
    Partial,
    PrefixMissing,
    StreamEvent,
    Written,
    sync,
)
from tests.spark.message_db import message_databases, message_db_url

__all__ = ["message_databases", "message_db_url"]


@pytest.fixture
def url(message_db_url: str) -> str:
    return message_db_url


@pytest.fixture
def target(url: str) -> Iterator[MessagedbTarget]:
    with MessagedbTarget(url) as target:
        yield target


def span(stream: str, *indices: int) -> list[StreamEvent]:
    return [StreamEvent(stream, at, "Placed", b'{"n":%d}' % at, _headers='{"a":"b"}') for at in indices]


def rows(url: str, query: str, *given: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True, options="-c search_path=message_store") as connection:
        return connection.execute(query, given).fetchall()


def numbers(url: str, stream: str) -> list[tuple[Any, ...]]:
    return rows(
        url,
        "SELECT position, (data ->> 'n')::int FROM messages WHERE stream_name = %s ORDER BY position",
        stream,
    )


def test_dense_indices_are_the_positions_there(url: str, target: MessagedbTarget) -> None:
    assert target.append("order-1", 1, span("order-1", 1)) == PrefixMissing(0)
    assert target.append("order-1", 0, span("order-1", 0, 1)) == Written(2)
    assert target.append("order-1", 0, span("order-1", 0, 1)) == Duplicate(2)
    assert target.append("order-1", 1, span("order-1", 1, 2, 4)) == Partial(3, 1)
    assert target.append("order-1", 4, span("order-1", 4)) == PrefixMissing(3)
    assert numbers(url, "order-1") == [(0, 0), (1, 1), (2, 2)]
    [(kind, data, metadata)] = rows(url, "SELECT type, data, metadata FROM messages WHERE position = 2")
    assert (kind, data) == ("Placed", {"n": 2})
    assert metadata == {"a": "b", "penstock-stream": "order-1", "penstock-index": 2}


def test_indices_with_gaps_stand_in_the_metadata_and_others_may_write_too(url: str, target: MessagedbTarget) -> None:
    assert target.append("order-1", None, span("order-1", 7, 9)) == Written(10)
    written = "SELECT write_message(gen_random_uuid()::varchar, 'order-1', 'Other', '{\"n\": -1}', NULL)"
    assert rows(url, written) == [(2,)]
    assert target.append("order-1", None, span("order-1", 7, 9)) == Duplicate(10)
    assert target.append("order-1", None, span("order-1", 9, 12)) == Partial(13, 1)
    assert numbers(url, "order-1") == [(0, 7), (1, 9), (2, -1), (3, 12)]


def test_indices_of_another_numbering_are_of_other_events(url: str, target: MessagedbTarget) -> None:
    for numbering in ("order/0@1", "order/2@1", "order/0@2"):
        events = span("order-1", 0, 1)
        for event in events:
            event.numbering = numbering
        assert target.append("order-1", None, events) == Written(2)
        assert target.append("order-1", None, events) == Duplicate(2)
    assert [number for _, number in numbers(url, "order-1")] == [0, 1] * 3
    told = rows(url, "SELECT metadata ->> 'penstock-numbering' FROM messages ORDER BY global_position")
    assert told == [("order/0@1",)] * 2 + [("order/2@1",)] * 2 + [("order/0@2",)] * 2


def test_streams_may_have_other_names_there(url: str) -> None:
    with MessagedbTarget(url, name=lambda stream: f"mirror:{stream}") as target:
        assert target.append("order-1", 0, span("order-1", 0)) == Written(1)
    assert numbers(url, "mirror:order-1") == [(0, 0)]


def test_what_somebody_else_has_brought_there_is_done(url: str, target: MessagedbTarget) -> None:
    target.append("order-1", 0, span("order-1", 0, 1, 2, 3))
    source = MemorySource()
    processor = Inline(sync(target, dense=True), source)
    source.append("order-1", [{"n": 0}, {"n": 1}])
    processor.drain()
    source.append("order-1", [{"n": 2}, {"n": 3}, {"n": 4}])
    processor.drain()
    assert [number for _, number in numbers(url, "order-1")] == [0, 1, 2, 3, 4]


def test_an_event_that_is_refused_takes_nothing_with_it(url: str, target: MessagedbTarget) -> None:
    bad = StreamEvent("order-1", 1, "Placed", b'{"n":"\\u0000"}')
    with pytest.raises(psycopg.DataError):
        target.append("order-1", 0, [*span("order-1", 0), bad])
    assert numbers(url, "order-1") == []
    assert target.append("order-1", 0, span("order-1", 0)) == Written(1)


def test_several_copiers_at_once_write_each_event_once(url: str) -> None:
    chance = random.Random(7)

    def copy(seed: int) -> None:
        with MessagedbTarget(url) as target:
            at = 0
            while at < 60:
                count = 1 + (seed * 31 + at) % 7
                attained = target.append("order-1", at, span("order-1", *range(at, min(60, at + count))))
                assert not isinstance(attained, PrefixMissing)
                at = attained.position

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(copy, chance.sample(range(100), 4))] == [None] * 4
    assert numbers(url, "order-1") == [(at, at) for at in range(60)]


def test_a_database_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.processing.targets.messagedb.ANSWER_S", 0.5)
    with (
        MessagedbTarget("postgresql://127.0.0.1:1/none") as target,
        pytest.raises(DatabaseUnavailable),
    ):
        target.append("order-1", 0, span("order-1", 0))
