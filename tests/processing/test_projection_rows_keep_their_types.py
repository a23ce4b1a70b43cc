"""Rows of a projection have the types that its key and state declare, and come back as they were.

A value that would not come back fails its event, which is named, and no other row.
"""

import datetime as dt
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pytest

from penstock.processing import InlineProcessor, Projection, Rules, StreamEvent
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.database import connector, transaction
from penstock.processing.engine import Backoff
from penstock.processing.engine.tranche import Batch, split_batch
from penstock.processing.sources import MemorySource
from penstock.processing.sources.source import ReadRequest
from tests.databases import EmptyDatabases
from tests.exhaustive import exhaustive
from tests.processing.sql import rows

NAMES = (f"states_{number}" for number in itertools.count())
NAME = "states"
"""The name of the projection of a test."""


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database for all tests of the file: to make its tables takes longer than to use them."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('states')}/states.db"
        return
    databases: EmptyDatabases = request.getfixturevalue("empty_databases")
    yield (url := databases.lend())
    databases.take_back(url)


ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite", exhaustive("postgres")], indirect=True)
"""Many values are refused before they come to the database."""


@pytest.fixture(autouse=True)
def own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "NAME", next(NAMES))


def by_stream(event: StreamEvent) -> str:
    return event.stream


def project(
    url: str, source: MemorySource, state: type, evolve: Any, key: Callable[..., Any] = by_stream, **options: Any
) -> InlineProcessor:
    """Fold all events with a projection of its own, as another process would; it reads its rows from the database."""
    processor = Projection(NAME, state, evolve, key=key).inline(source, url, **options)
    processor.drain()
    return processor


def stream(*data: Any, name: str = "A", source: MemorySource | None = None) -> MemorySource:
    """Return a source with a stream."""
    source = source or MemorySource()
    source.append(name, data)
    return source


def trouble(processor: InlineProcessor) -> tuple[int, str]:
    """Return the index of the only event that fails, and why it does."""
    [failing] = processor.engine.busy.failing.values()
    return failing.index, failing.detail or ""


def refold(url: str, state: type, states: Sequence[Any], key: Callable[..., Any] = by_stream) -> list[Any]:
    """Have a row be each of *states* in turn, by a process for each event; return the states that they were given."""
    found: list[Any] = []

    def evolve(before: Any, event: StreamEvent) -> Any:
        found.append(before)
        return states[event.data]

    source = MemorySource()
    for number in range(len(states) + 1):
        source.append("A", [number % len(states)])
        assert not project(url, source, state, evolve, key).engine.busy.failing
    return found[1:]


# States come back.


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


@dataclass
class Mixed:
    mark: Literal["1", 1, "null"] | None = None
    price: Decimal | int = 0
    names: list[int | str] = field(default_factory=list)


class Timed(msgspec.Struct):
    at: dt.datetime | None = None
    on: dt.date | None = None
    within: list[dt.datetime] = []
    clock: dt.time | None = None


class Lately(msgspec.Struct):
    counts: dict[str, int | float] = {}


WIDEST = "ä" * 31 + "b"
Wide = make_dataclass("Wide", [(WIDEST, int, 0)])
EAST, WEST = (dt.timezone(dt.timedelta(hours=hours)) for hours in (12, -12))
NAIVE = dt.datetime(2026, 11, 26, 12)  # noqa: DTZ001 - That is what is tested.
TIMES = [
    Timed(dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.date(1, 1, 1)),
    Timed(dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC), dt.date(9999, 12, 31)),
    Timed(dt.datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("UTC")), dt.date(2026, 7, 1)),
    Timed(None, None, [NAIVE, NAIVE.replace(tzinfo=EAST), dt.datetime(1, 1, 1, tzinfo=EAST)], dt.time(1, 2, 3)),
]


@pytest.mark.parametrize(
    ("state", "states"),
    [
        *(
            (kind, [kind(event_count=1, total=1), kind(event_count=2, total=11)])
            for kind in (Swapped, Tagged, InArray, InTaggedArray, Plain)
        ),
        (
            Renamed,
            [Renamed(1, 1, Part(1), [Part(1)], Call(1)), Renamed(2, 11, Part(10), [Part(1), Part(10)], Visit(10))],
        ),
        (Wide, [Wide(1), Wide(2)]),
        (
            Mixed,
            [
                Mixed("1", Decimal(5), ["5", 5]),
                Mixed(1, 5, []),
                Mixed("null", Decimal("5.0"), ["null"]),
                Mixed(None, 7, [""]),
            ],
        ),
        (Lately, [Lately({"zz": -0.0}), Lately({"zz": -0.0, "b": 1}), Lately({"b": 1, "ccc": 2, "aa": 3})]),
    ],
    ids=lambda given: given.__name__ if isinstance(given, type) else "",
)  # fmt: skip
def test_state_comes_back_as_it_was_whatever_its_fields_are_called_in_json(
    database_url: str, state: type, states: list[Any]
) -> None:
    assert [repr(each) for each in refold(database_url, state, states)] == [repr(each) for each in states]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_times_come_back_as_they_were_in_any_session_time_zone(database_url: str, zone: str) -> None:
    if database_url.startswith("postgres"):
        database_url = f"{database_url}?options=-ctimezone%3D{zone}"
    assert refold(database_url, Timed, TIMES) == TIMES


class Everything(msgspec.Struct):
    whole: int = 0
    real: float = 0.0
    text: str | None = None
    flag: bool = False
    blob: bytes = b""
    at: dt.datetime | None = None
    on: dt.date | None = None
    parts: dict[str, list[int]] = {}


class Shelf(NamedTuple):
    kind: str
    day: dt.date
    is_late: bool
    number: int


def by_shelf(_: StreamEvent) -> Shelf:
    return Shelf("x", dt.date(2026, 1, 3), True, 7)


def test_state_and_key_with_fields_of_each_type_come_back_as_they_were(database_url: str) -> None:
    day = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    states = [
        Everything(1, 0.5, "é'\"", True, b"\x00\xff", day, day.date(), {"0": [0]}),
        Everything(2, 0.25, None, False, b"", None, None, {"0": [0], "2": []}),
    ]
    assert refold(database_url, Everything, states, by_shelf) == states


@pytest.mark.parametrize(
    ("state", "last", "columns"),
    [
        (Tagged, Tagged(3, 111), {"event_count": 3, "total": 111}),
        (Swapped, Swapped(3, 111), {"event_count": 3, "total": 111}),
        (Wide, Wide(2), {WIDEST: 2}),
        (Lately, Lately({"b": 1, "ccc": 2, "aa": 3}), {"counts": {"b": 1, "ccc": 2, "aa": 3}}),
        (Renamed, Renamed(last_contact=Visit(100)), {"last_contact": {"kind": "visit", "visitCount": 100}}),
    ],
    ids=["tag", "swapped names", "longest name", "dict in its order", "names within JSON"],
)
def test_column_has_the_name_of_its_field_and_json_within_has_the_names_of_json(
    database_url: str, state: type, last: Any, columns: dict[str, Any]
) -> None:
    project(database_url, stream(0), state, lambda *_: last)

    wanted = ", ".join(f'"{name}"' for name in columns)
    [values] = rows(database_url, f"SELECT {wanted} FROM {NAME}")
    found = [msgspec.json.decode(each) if isinstance(each, str) else each for each in values]
    assert [str(each) for each in found] == [str(each) for each in columns.values()]


# States that would not come back.


@dataclass
class Total:
    total: int = 0
    share: float = 0.5
    names: list[str] = field(default_factory=list)
    parts: dict[str, list[float | None]] = field(default_factory=lambda: {"none": [None]})
    note: str = r"C:\u0000"
    price: Decimal = Decimal("0.1") / 3


class Loose(msgspec.Struct):
    found: dict[str, Any] = {}
    rest: Any = None
    ratio: float = 0.0
    parts: list[Part] = []


LIKE_JSON = {"a": [1, 1.5, "x", None, True, {"b": []}], "large": 1e22, "none": -0.0}
KEPT = ", as they can be kept anywhere, and no other"
TEXTS = f"texts without NUL and what else is not Unicode{KEPT}"
DECLARED = "fields as {} declares them: Expected `{}`, got `{}` - at `$.{}`"
IN_UTC = f"times in UTC, as `.astimezone(UTC)` gives them{KEPT} at"
BAD_STATES: dict[str, tuple[Any, str]] = {
    "text for int": (Total(total="7"), DECLARED.format("Total", "int", "str", "total")),  # type: ignore[arg-type]
    "float for int": (Total(total=7.5), DECLARED.format("Total", "int", "float", "total")),  # type: ignore[arg-type]
    "bool for int": (Total(total=True), DECLARED.format("Total", "int", "bool", "total")),
    "null for int": (Total(total=None), DECLARED.format("Total", "int", "null", "total")),  # type: ignore[arg-type]
    "int in texts": (Total(names=[1]), DECLARED.format("Total", "str", "int", "names[0]")),  # type: ignore[list-item]
    "renamed": (Renamed(event_count="6"), DECLARED.format("Renamed", "int", "str", "eventCount")),  # type: ignore[arg-type]
    "NaN": (Total(share=float("nan")), f"finite numbers{KEPT} share"),
    "infinite": (Total(share=float("-inf")), f"finite numbers{KEPT} share"),
    "NaN within": (Total(parts={"a": [0.5, float("nan")]}), f"finite numbers{KEPT} parts"),
    "too large int": (Total(total=2**63), f"whole numbers of 64 bits{KEPT} total"),
    "too small int": (Total(total=-(2**63) - 1), f"whole numbers of 64 bits{KEPT} total"),
    "NUL": (Total(note="a\0b"), f"{TEXTS} note"),
    "NUL within": (Total(names=[r"\u0000", "\0"]), TEXTS),
    "NUL in a key": (Total(parts={"\0": []}), f"{TEXTS} parts"),
    "surrogate": (Total(note="\ud800"), TEXTS),
    "surrogate within": (Total(names=["\ud800"]), "what JSON can have ('utf-8' codec can't encode"),
    "endless decimal": (Total(price=Decimal("nan")), f"finite numbers{KEPT} price"),
    "large decimal": (Total(price=Decimal("1e200000")), "numbers of up to 131072 digits, and 16383 behind the point"),
    "small decimal": (Total(price=Decimal("1e-20000")), "numbers of up to 131072 digits, and 16383 behind the point"),
    "another state": (7, "state is '7'; allowed: a {}, or None"),
    "time in a dict": (Loose(found={"at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}), f"{KEPT} found"),
    "bytes": (Loose(found={"raw": b"x"}), f"{KEPT} found"),
    "decimal in a dict": (Loose(found={"price": Decimal("1.5")}), f"{KEPT} found"),
    "tuple": (Loose(found={"pair": (1, 2)}), f"{KEPT} found"),
    "set": (Loose(found={"seen": {1}}), f"{KEPT} found"),
    "tuple as a key": (Loose(rest={("a", 1): 1}), "what JSON can have (Only dicts with str-like"),
    "number as a key": (Loose(rest={1: "one"}), f"{KEPT} rest"),
    "date": (Loose(rest=dt.date(2026, 1, 1)), f"{KEPT} rest"),
    "int that no float is": (Loose(ratio=2**53 + 1), f"{KEPT} ratio"),
    "wrong part": (Loose(parts=[Part(1), Part("2")]), f"{KEPT} parts"),  # type: ignore[arg-type]
    "naive time": (Timed(NAIVE), IN_UTC),
    "time of another date": (Timed(dt.datetime(2026, 11, 26, 1, tzinfo=EAST)), IN_UTC),
    "time before the year 1": (Timed(dt.datetime(1, 1, 1, 11, 59, tzinfo=EAST)), IN_UTC),
    "time behind 9999": (Timed(dt.datetime(9999, 12, 31, 12, tzinfo=WEST)), IN_UTC),
    "time of a zone with summer": (Timed(dt.datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/London"))), IN_UTC),
}
GOOD_STATES: dict[type, Any] = {
    Total: Total(total=2), Renamed: Renamed(2), Loose: Loose(LIKE_JSON, [LIKE_JSON], 2), Timed: TIMES[2],
}  # fmt: skip


@ON_SQLITE
@pytest.mark.parametrize("name", BAD_STATES)
def test_state_that_would_come_back_as_another_fails_at_its_event(database_url: str, name: str) -> None:
    bad, told = BAD_STATES[name]
    kind = type(bad) if type(bad) in GOOD_STATES else Total
    good, given = GOOD_STATES[kind], list[Any]()

    def evolve(state: Any, event: StreamEvent) -> Any:
        given.append(state)
        return {"good": good, "bad": bad, "same": state}[event.data]

    source = stream("good", "good", "bad", "same")
    index, detail = trouble(project(database_url, source, kind, evolve))
    project(database_url, stream("good", name="B", source=source), kind, evolve)  # It reads the row.

    assert index == 2
    assert told.replace("a {}", f"a {kind.__name__}") in detail
    assert [key for (key,) in rows(database_url, f"SELECT key FROM {NAME} ORDER BY key")] == ["A", "B"]
    assert any(state == good for state in given)
    with transaction(connector(database_url)) as connection:
        table = Projection(NAME, kind, evolve, key=by_stream).table
        assert table.find(connection, [("A",)])["A",].state == good


@pytest.mark.parametrize(
    "state",
    [
        Total(total=-(2**63)),
        Total(2**63 - 1, note="é", price=Decimal("1e-16383"), names=[r"\u0000", str(2**64)]),
    ],
    ids=["least", "most"],
)
def test_state_at_the_limits_comes_back(database_url: str, state: Total) -> None:
    assert refold(database_url, Total, [state]) == [state]


@pytest.mark.parametrize(
    ("good", "bad"),
    [(Total(1), Total("2")), (Loose({}), Loose({1: "one"}))],
    ids=["scalars", "JSON"],  # type: ignore[arg-type]
)
def test_wrong_state_fails_though_the_next_event_of_the_call_would_mend_it(
    database_url: str, good: Any, bad: Any
) -> None:
    def evolve(_: Any, event: StreamEvent) -> Any:
        return {"good": good, "bad": bad}[event.data]

    processor = project(database_url, stream("good", "bad", "good"), type(good), evolve)

    assert trouble(processor)[0] == 1


def test_wrong_state_before_another_failure_is_the_event_that_fails(database_url: str) -> None:
    def evolve(state: Total, event: StreamEvent) -> Total:
        if event.data == "fails":
            raise ValueError("it fails")
        return Total(event.data)

    processor = project(database_url, stream(1, "2", "fails", 3), Total, evolve)

    assert rows(database_url, f"SELECT key, total FROM {NAME}") == [("A", 1)]
    assert trouble(processor)[0] == 1


# Keys.


def by_text(event: StreamEvent) -> str:
    return event.data  # type: ignore[no-any-return]


def by_number(event: StreamEvent) -> float:
    return event.data  # type: ignore[no-any-return]


def count(state: Total, _: StreamEvent) -> Total:
    return Total(state.total + 1)


NO_TEXT = "texts without NUL and what else is not Unicode only"
ANNOTATED = "key is '({!r},)'; allowed: a key as it is annotated: {}"
BAD_KEYS: dict[str, tuple[type, Any, str]] = {
    "NUL": (str, "a\0", NO_TEXT),
    "surrogate": (str, "\ud800", NO_TEXT),
    "int": (str, 7, ANNOTATED.format(7, "Expected `str`, got `int`")),
    "float": (str, 7.5, ANNOTATED.format(7.5, "Expected `str`, got `float`")),
    "bool": (str, True, ANNOTATED.format(True, "Expected `str`, got `bool`")),
    **{name: (float, float(name), ANNOTATED.format(float(name), "finite numbers only")) for name in ("nan", "-inf")},
}


@ON_SQLITE
@pytest.mark.parametrize("name", BAD_KEYS)
def test_key_that_could_not_be_found_again_fails_alone(database_url: str, name: str) -> None:
    kind, bad, told = BAD_KEYS[name]
    keys = ["S", bad, "T"] if kind is str else [1.5, bad, 2.5]

    def key(event: StreamEvent) -> Any:
        return keys[event.index]

    key.__annotations__["return"] = kind
    processor = project(database_url, stream(0, 0, 0), Total, count, key)

    assert rows(database_url, f"SELECT key, total FROM {NAME} ORDER BY key") == [(keys[0], 1), (keys[2], 1)]
    assert told in trouble(processor)[1]


def test_event_without_a_key_is_passed_over(database_url: str) -> None:
    assert not project(database_url, stream("S", None, "T"), Total, count, by_text).engine.busy.failing
    assert rows(database_url, f"SELECT key FROM {NAME} ORDER BY key") == [("S",), ("T",)]


class Place(NamedTuple):
    shelf: int
    name: str
    label: str


def test_key_that_is_longer_than_an_index_has_room_for_fails_alone(database_url: str) -> None:
    chance = random.Random(7)
    longest = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=1_990))

    def place_of(event: StreamEvent) -> Place:
        return Place(event.index, longest, "é" * event.data)

    processor = project(database_url, stream(5, 6, 4), Total, count, place_of)

    assert rows(database_url, f"SELECT shelf FROM {NAME} ORDER BY shelf") == [(0,), (2,)]
    assert "texts of up to 2000 bytes, as PostgreSQL can find them again" in trouble(processor)[1]


def test_event_whose_key_function_fails_is_parked_alone(database_url: str) -> None:
    def key(event: StreamEvent) -> str:
        return event.data["key"]  # type: ignore[no-any-return]

    rules = Rules(attempts_max=2, exhausted="park", backoff=Backoff(first_seconds=0.001))
    source = stream({"key": "U"}, name="B", source=stream({"key": "S"}, {}, {"key": "T"}, {}))
    processor = project(database_url, source, Total, count, key, rules=rules)
    assert trouble(processor)[1] == "'key'"
    processor.drain(advance=True)

    assert rows(database_url, f"SELECT key FROM {NAME} ORDER BY key") == [("S",), ("T",), ("U",)]
    [parked] = DatabaseCheckpoints(database_url, f"{NAME}_v1").parked()
    assert (parked.stream, parked.index, parked.tag, parked.attempts) == ("[] in A", 1, "KeyError", 2)


class InParts(MemorySource):
    """Reads each event as a part of its own, all at once."""

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        found = super().read(wants, timeout)
        return [part for batch in found for part in split_batch(batch, 1, lambda item: item.index + 1)]


@pytest.mark.parametrize("prices", [[10, 10.0, 10], [0.0, -0.0, 0.0]], ids=str)
def test_equal_keys_of_different_spelling_are_one_row(database_url: str, prices: list[float]) -> None:
    project(database_url, stream(*prices, source=InParts()), Total, count, by_number)

    assert rows(database_url, f"SELECT key, total FROM {NAME}") == [(prices[0], 3)]


def test_date_key_that_is_a_text_is_found_again_by_the_next_process(database_url: str) -> None:
    def by_day(event: StreamEvent) -> dt.date:
        return event.data  # type: ignore[no-any-return] - That is what is tested.

    source = MemorySource()
    for _ in range(2):
        project(database_url, stream("2026-11-26", source=source), Total, count, by_day)

    assert rows(database_url, f"SELECT total FROM {NAME}") == [(2,)]
