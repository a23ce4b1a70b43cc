"""What a fold has made of a row is what the next process goes on with, whatever its class calls its fields in JSON."""

import datetime as dt
import sqlite3
from contextlib import closing
from dataclasses import dataclass, make_dataclass
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

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


WIDEST = "ä" * 31 + "b"


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


def test_the_longest_name_that_a_field_may_have_is_its_columns(database_url: str) -> None:
    state, source = make_dataclass("Wide", [(WIDEST, int, 0)]), MemorySource()
    for _ in range(2):
        source.append("A", [1])
        processed_anew(database_url, source, state, lambda found, _: state(getattr(found, WIDEST) + 1))

    assert shown(database_url) == (["key", WIDEST], ["A", 2])


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


class Timed(msgspec.Struct):
    at: dt.datetime | None = None
    on: dt.date | None = None
    within: list[dt.datetime] = []
    clock: dt.time | None = None


EAST, WEST = (dt.timezone(dt.timedelta(hours=hours)) for hours in (12, -12))
NAIVE = dt.datetime(2026, 11, 26, 12)  # noqa: DTZ001 - That is what is tested.
KEPT = [
    Timed(dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.date(1, 1, 1)),
    Timed(dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC), dt.date(9999, 12, 31)),
    Timed(dt.datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("UTC")), dt.date(2026, 7, 1)),
    Timed(None, None, [NAIVE, NAIVE.replace(tzinfo=EAST), dt.datetime(1, 1, 1, tzinfo=EAST)], dt.time(1, 2, 3)),
]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_times_come_back_as_they_were_whichever_zone_a_session_has(database_url: str, zone: str) -> None:
    if database_url.startswith("postgres"):
        database_url = f"{database_url}?options=-ctimezone%3D{zone}"
    found: list[Timed] = []

    def evolve(state: Timed, event: StreamEvent) -> Timed:
        found.append(state)
        return KEPT[event.data]

    for count in range(1, len(KEPT) + 2):
        source = MemorySource()
        for number in range(count):
            source.append("A", [number % len(KEPT)])
        assert not processed_anew(database_url, source, Timed, evolve).engine.busy.failing

    assert found[1:] == KEPT


@pytest.mark.parametrize(
    "at",
    [
        NAIVE,
        dt.datetime(2026, 11, 26, 1, tzinfo=EAST),
        dt.datetime(1, 1, 1, 11, 59, tzinfo=EAST),
        dt.datetime(9999, 12, 31, 12, tzinfo=WEST),
        dt.datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/London")),
    ],
    ids=["naive", "of another date", "before the year 1", "behind 9999", "of a zone that is not always off by none"],
)
def test_a_time_that_is_not_the_same_one_anywhere_fails_at_its_event(database_url: str, at: dt.datetime) -> None:
    def evolve(state: Timed, event: StreamEvent) -> Timed:
        return KEPT[2] if event.data else Timed(at, state.on)

    source = MemorySource()
    source.append("A", [1, 0])
    source.append("B", [1])
    processor = processed_anew(database_url, source, Timed, evolve)

    [failing] = processor.engine.busy.failing.values()
    told = "times in UTC, as `.astimezone(UTC)` gives them, as they can be kept anywhere, and no other at"
    assert (failing.index, told in (failing.detail or "")) == (1, True), failing.detail
    with closing(
        sqlite3.connect(database_url[10:]) if "sqlite" in database_url else psycopg.connect(database_url)
    ) as db:
        assert [row[0] for row in db.execute("SELECT key FROM states ORDER BY key").fetchall()] == ["A", "B"]


class Loose(msgspec.Struct):
    found: dict[str, Any] = {}
    rest: Any = None
    ratio: float = 0.0
    parts: list[Part] = []


LIKE_JSON = {"a": [1, 1.5, "x", None, True, {"b": []}], "large": 1e22, "none": -0.0}
UNLIKE_JSON: list[dict[str, Any]] = [
    {"found": {"at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}},
    {"found": {"raw": b"x"}},
    {"found": {"price": Decimal("1.5")}},
    {"found": {"pair": (1, 2)}},
    {"found": {"seen": {1}}},
    {"rest": {1: "one"}},
    {"rest": dt.date(2026, 1, 1)},
    {"ratio": 2**53 + 1},
    {"parts": [Part(1), Part("2")]},  # type: ignore[arg-type] - That is what is tested.
]


@pytest.mark.parametrize("given", UNLIKE_JSON, ids=range(len(UNLIKE_JSON)))
def test_what_would_come_back_as_something_else_fails_at_its_event(database_url: str, given: dict[str, Any]) -> None:
    def evolve(state: Loose, event: StreamEvent) -> Loose:
        assert state == (Loose(LIKE_JSON, [LIKE_JSON], 2) if event.index else Loose())
        return Loose(**given) if event.data else Loose(LIKE_JSON, [LIKE_JSON], 2)

    source = MemorySource()
    source.append("A", [0])
    assert not processed_anew(database_url, source, Loose, evolve).engine.busy.failing
    source.append("A", [0, 1])
    [failing] = processed_anew(database_url, source, Loose, evolve).engine.busy.failing.values()

    [field] = given
    assert failing.index == 2
    assert f"as they can be kept anywhere, and no other {field}" in (failing.detail or "")
