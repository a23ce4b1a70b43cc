"""What a fold has made of a row is what the next process goes on with, whatever its class calls its fields in JSON."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg
import pytest

from penstock.processing import Inline, MemorySource, StreamEvent
from penstock.processing.projections.projection import Projection


class Part(msgspec.Struct, rename="camel"):
    part_count: int = 0


class Call(msgspec.Struct, tag="call", tag_field="kind", rename="camel"):
    call_count: int = 0


class Visit(msgspec.Struct, tag="visit", tag_field="kind", rename="camel"):
    visit_count: int = 0


class Renamed(msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    event_count: int = 0
    total: int = msgspec.field(default=0, name="t")
    last_part: Part | None = None
    all_parts: list[Part] = []
    last_contact: Call | Visit | None = None


class Swapped(msgspec.Struct, rename={"event_count": "total", "total": "event_count"}):
    event_count: int = 0
    total: int = 0


class Tagged(msgspec.Struct, tag="tagged", tag_field="event_kind", rename="pascal"):
    event_count: int = 0
    total: int = 0


class InArray(msgspec.Struct, array_like=True):
    event_count: int = 0
    total: int = 0


class OfBoth(msgspec.Struct, kw_only=True):
    total: int = 0


class InTaggedArray(OfBoth, array_like=True, tag=7):
    event_count: int = 0


@dataclass
class Plain:
    event_count: int = 0
    total: int = 0


def by_stream(event: StreamEvent) -> str:
    return event.stream


def counted(state: Any, event: StreamEvent) -> Any:
    state.event_count += 1
    state.total += event.data
    return state


def described(state: Renamed, event: StreamEvent) -> Renamed:
    count = event.data
    contact = Call(count) if count % 2 else Visit(count)
    return Renamed(state.event_count + 1, state.total + count, Part(count), [*state.all_parts, Part(count)], contact)


def processed_anew(url: str, source: MemorySource, state: type, evolve: Any) -> Inline:
    """Process what there is, by a process of its own: it reads the row from the database."""
    processor = Projection("states", state, evolve, key=by_stream).inline(source, url)
    processor.drain()
    return processor


def shown(url: str) -> tuple[list[str], list[Any]]:
    """Return the columns that there are, and the only row."""
    opened: Any = sqlite3.connect(url[10:]) if url.startswith("sqlite") else psycopg.connect(url)
    with closing(opened) as connection:
        cursor = connection.execute("SELECT * FROM states")
        [row] = cursor.fetchall()
        return [column[0] for column in cursor.description], [*row]


@pytest.mark.parametrize("state", [Swapped, Tagged, InArray, InTaggedArray, Plain])
def test_a_state_is_gone_on_with_whatever_its_fields_are_called_in_json(database_url: str, state: type) -> None:
    source = MemorySource()
    for amount in (1, 10, 100):
        source.append("A", [amount])
        processed_anew(database_url, source, state, counted)

    columns, row = shown(database_url)
    assert dict(zip(columns, row, strict=True)) == {"key": "A", "event_count": 3, "total": 111}


def test_what_is_within_columns_of_json_has_its_names_there_and_comes_back(database_url: str) -> None:
    found: list[Renamed] = []

    def evolve(state: Renamed, event: StreamEvent) -> Renamed:
        found.append(state)
        return described(state, event)

    source = MemorySource()
    for amount in (1, 10, 100):
        source.append("A", [amount])
        processed_anew(database_url, source, Renamed, evolve)

    assert found == [
        Renamed(),
        Renamed(1, 1, Part(1), [Part(1)], Call(1)),
        Renamed(2, 11, Part(10), [Part(1), Part(10)], Visit(10)),
    ]
    columns, row = shown(database_url)
    assert columns == ["key", "event_count", "total", "last_part", "all_parts", "last_contact"]
    contact = msgspec.json.decode(row[-1]) if isinstance(row[-1], str) else row[-1]
    assert (row[:3], contact) == (["A", 3, 111], {"kind": "visit", "visitCount": 100})


def test_a_field_of_another_type_is_named_as_json_has_it(database_url: str) -> None:
    def evolve(state: Renamed, event: StreamEvent) -> Renamed:
        return Renamed(event.data, state.total + 1)

    source = MemorySource()
    source.append("A", [5, "6"])
    processor = processed_anew(database_url, source, Renamed, evolve)

    assert shown(database_url)[1][:3] == ["A", 5, 1]
    [failing] = processor.engine.busy.failing.values()
    assert failing.index == 1
    assert "fields as Renamed declares them: Expected `int`, got `str` - at `$.eventCount`" in (failing.detail or "")


class Lately(msgspec.Struct):
    counts: dict[str, int | float] = {}


def test_a_dict_comes_back_in_its_order_and_numbers_as_they_were(database_url: str) -> None:
    def evolve(state: Lately, event: StreamEvent) -> Lately:
        counts = {**state.counts, event.data: len(state.counts) or -0.0}
        return Lately(dict([*counts.items()][-3:]))

    source = MemorySource()
    for name in ("zz", "b", "ccc", "aa"):
        source.append("A", [name])
        processed_anew(database_url, source, Lately, evolve)

    [_, counts] = shown(database_url)[1]
    found = msgspec.json.decode(counts) if isinstance(counts, str) else counts
    assert [*found.items()] == [("b", 1), ("ccc", 2), ("aa", 3)]
