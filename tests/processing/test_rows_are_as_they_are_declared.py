"""A projection's rows have the types that its key and its state declare, or their events fail and are named."""

import datetime as dt
import random
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import psycopg
import pytest

from penstock.processing import Backoff, Inline, MemorySource, Rules, StreamEvent
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.connecting import connector, transaction
from penstock.processing.engine.item import Batch, in_parts
from penstock.processing.projections.projection import Projection
from penstock.processing.sources.source import Want


@dataclass
class Total:
    total: int = 0
    share: float = 0.5
    names: list[str] = field(default_factory=list)
    parts: dict[str, list[float | None]] = field(default_factory=lambda: {"none": [None]})
    note: str = r"C:\u0000"
    price: Decimal = Decimal("0.1") / 3


def by_stream(event: StreamEvent) -> str:
    return event.stream


def put(state: Total, event: StreamEvent) -> Any:
    """Do to a state what an event says."""
    if "shares" in event.data:
        state.share = float(event.data["shares"])
        return state
    if "part" in event.data:
        state.parts["a"] = [0.5, float(event.data["part"])]
        return state
    if "fails" in event.data:
        raise ValueError("it fails")
    if "instead" in event.data:
        return event.data["instead"]
    for name, value in UNSENT.get(event.data.get("unsent"), event.data).items():
        setattr(state, name, value)
    return state


UNSENT: dict[str | None, dict[str, Any]] = {
    "surrogate": {"note": "\ud800"},
    "surrogate within": {"names": ["\ud800"]},
    "endless decimal": {"price": Decimal("nan")},
    "large decimal": {"price": Decimal("1e200000")},
    "small decimal": {"price": Decimal("1e-20000")},
    "all that fits": {"total": 2**63 - 1, "note": "é", "price": Decimal("1e-16383"), "names": [r"\u0000", str(2**64)]},
}
"""What no event can have, and a state can."""


def keyed_as_told(event: StreamEvent) -> str:
    key = event.data.get("key", "S")
    return "\ud800" if key == "surrogate" else key  # type: ignore[no-any-return] - That is what is tested.


def shown(url: str) -> list[tuple[Any, ...]]:
    opened: Any = sqlite3.connect(url[10:]) if url.startswith("sqlite") else psycopg.connect(url)
    with closing(opened) as connection:
        return list(connection.execute("SELECT key, total FROM totals ORDER BY key").fetchall())


def trouble(processor: Inline) -> str:
    [failing] = processor.engine.busy.failing.values()
    return failing.detail or ""


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"total": "7"}, "fields as Total declares them: Expected `int`, got `str` - at `$.total`"),
        ({"total": 7.5}, "fields as Total declares them: Expected `int`, got `float` - at `$.total`"),
        ({"total": True}, "fields as Total declares them: Expected `int`, got `bool` - at `$.total`"),
        ({"total": None}, "fields as Total declares them: Expected `int`, got `null` - at `$.total`"),
        ({"names": [1]}, "fields as Total declares them: Expected `str`, got `int` - at `$.names[0]`"),
        ({"shares": "nan"}, "finite numbers, as they can be kept anywhere, and no other share"),
        ({"shares": "-inf"}, "finite numbers, as they can be kept anywhere, and no other share"),
        ({"part": "nan"}, "finite numbers, as they can be kept anywhere, and no other parts"),
        ({"total": 2**63}, "whole numbers of 64 bits, as they can be kept anywhere, and no other total"),
        ({"total": -(2**63) - 1}, "whole numbers of 64 bits, as they can be kept anywhere, and no other total"),
        (
            {"note": "a\0b"},
            "texts without NUL and what else is not Unicode, as they can be kept anywhere, and no other note",
        ),
        (
            {"unsent": "surrogate"},
            "texts without NUL and what else is not Unicode, as they can be kept anywhere, and no other",
        ),
        (
            {"names": [r"\u0000", "\0"]},
            "texts without NUL and what else is not Unicode, as they can be kept anywhere, and",
        ),
        (
            {"parts": {"\0": []}},
            "texts without NUL and what else is not Unicode, as they can be kept anywhere, and no other parts",
        ),
        ({"unsent": "surrogate within"}, "what JSON can have ('utf-8' codec can't encode"),
        ({"unsent": "endless decimal"}, "finite numbers, as they can be kept anywhere, and no other price"),
        ({"unsent": "large decimal"}, "numbers of up to 131072 digits, and 16383 behind the point, as they can"),
        ({"unsent": "small decimal"}, "numbers of up to 131072 digits, and 16383 behind the point, as they can"),
        ({"instead": 7}, "state is '7'; allowed: a Total, or None"),
    ],
    ids=range(19),
)
def test_a_state_of_other_types_fails_at_its_event(database_url: str, wrong: dict[str, Any], told: str) -> None:
    source = MemorySource()
    source.append("A", [{"total": 1}, {"total": 2}, wrong, {}])
    source.append("B", [{"total": 4}])
    processor = Projection("totals", Total, put, key=by_stream).inline(source, database_url)

    processor.drain()

    assert shown(database_url) == [("A", 2), ("B", 4)]
    assert told in trouble(processor)
    assert processor.engine.busy.failing['["A"] in A'].index == 2


@dataclass
class Mixed:
    mark: Literal["1", 1, "null"] | None = None
    price: Decimal | int = 0
    names: list[int | str] = field(default_factory=list)


MIXED = [
    Mixed("1", Decimal(5), ["5", 5]),
    Mixed(1, 5, []),
    Mixed("null", Decimal("5.0"), ["null"]),
    Mixed(None, 7, [""]),
]


def test_a_field_of_several_types_comes_back_as_it_was(database_url: str) -> None:
    found: list[Mixed] = []

    def evolve(state: Mixed, event: StreamEvent) -> Mixed:
        found.append(state)
        return MIXED[event.data]

    for count in range(1, len(MIXED) + 2):
        source = MemorySource()
        for number in range(count):
            source.append("A", [number % len(MIXED)])
        Projection("mixed", Mixed, evolve, key=by_stream).inline(source, database_url).drain()

    assert [repr(each) for each in found[1:]] == [repr(each) for each in MIXED]


def test_a_wrong_state_before_another_failure_is_what_fails(database_url: str) -> None:
    source = MemorySource()
    source.append("A", [{"total": 1}, {"total": "2"}, {"fails": True}, {"total": 3}])
    processor = Projection("totals", Total, put, key=by_stream).inline(source, database_url)

    processor.drain()

    assert shown(database_url) == [("A", 1)]
    assert processor.engine.busy.failing['["A"] in A'].index == 1


def test_what_is_just_fit_to_be_kept_is(database_url: str) -> None:
    source = MemorySource()
    source.append("A", [{"total": -(2**63)}])
    source.append("B", [{"unsent": "all that fits"}])
    projection = Projection("totals", Total, put, key=by_stream)
    projection.inline(source, database_url).drain()

    assert shown(database_url) == [("A", -(2**63)), ("B", 2**63 - 1)]
    with transaction(connector(database_url)) as connection:
        found = projection.table.find(connection, [("A",), ("B",)])
    assert found["A",].state == Total(total=-(2**63))
    assert found["B",].state == Total(**UNSENT["all that fits"])


@pytest.mark.parametrize("key", ["a\0", "surrogate"])
def test_a_key_that_cannot_be_kept_fails_alone(database_url: str, key: str) -> None:
    source = MemorySource()
    source.append("A", [{"total": 1}, {"total": 2, "key": key}, {"total": 3, "key": "T"}])
    processor = Projection("totals", Total, put, key=keyed_as_told).inline(source, database_url)

    processor.drain()

    assert shown(database_url) == [("S", 1), ("T", 3)]
    assert "texts without NUL and what else is not Unicode only" in trouble(processor)


@pytest.mark.parametrize(("key", "told"), [(7, "int"), (7.5, "float"), (True, "bool"), (None, None)])
def test_a_key_of_another_type_fails_alone(database_url: str, key: Any, told: str | None) -> None:
    source = MemorySource()
    source.append("A", [{"total": 1}, {"total": 2, "key": key}, {"total": 3, "key": "T"}])
    processor = Projection("totals", Total, put, key=keyed_as_told).inline(source, database_url)

    processor.drain()

    assert [key for key, _ in shown(database_url)] == ["S", "T"]
    if told:
        assert f"key is '({key!r},)'; allowed: a key as it is annotated: Expected `str`, got `{told}`" in trouble(
            processor
        )


class Place(NamedTuple):
    shelf: int
    name: str
    label: str


def test_a_key_that_is_longer_than_an_index_has_room_for_fails_alone(database_url: str) -> None:
    chance = random.Random(7)
    longest = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=1_990))

    def place_of(event: StreamEvent) -> Place:
        return Place(event.index, longest, "é" * event.data["total"])

    source = MemorySource()
    source.append("A", [{"total": 5}, {"total": 6}, {"total": 4}])
    processor = Projection("totals", Total, put, key=place_of).inline(source, database_url)

    processor.drain()

    with transaction(connector(database_url)) as connection:
        found = [row[0] for row in connection.execute("SELECT total FROM totals ORDER BY shelf").fetchall()]
    assert found == [5, 4]
    assert "texts of up to 2000 bytes, as PostgreSQL can find them again" in trouble(processor)


def keyed_as_it_must(event: StreamEvent) -> str:
    return event.data["key"]  # type: ignore[no-any-return] - That is what is tested.


def test_an_event_whose_key_cannot_be_had_fails_alone_and_is_parked(database_url: str) -> None:
    source = MemorySource()
    source.append("A", [{"total": 1, "key": "S"}, {"total": 2}, {"total": 3, "key": "T"}, {"total": 4}])
    source.append("B", [{"total": 5, "key": "U"}])
    rules = Rules(attempts_max=2, exhausted="park", backoff=Backoff(first=0.001))
    processor = Projection("totals", Total, put, key=keyed_as_it_must).inline(source, database_url, rules=rules)

    processor.drain()
    assert trouble(processor) == "'key'"
    processor.drain(advance=True)

    assert shown(database_url) == [("S", 1), ("T", 3), ("U", 5)]
    [parked] = DatabaseCheckpoints(database_url, "totals_v1").parked()
    assert (parked.stream, parked.index, parked.tag, parked.attempts) == ("[] in A", 1, "KeyError", 2)


class InParts(MemorySource):
    """Reads each event as a part of its own, all at once."""

    def read(self, wants: Mapping[str, Want], wait_s: float) -> Sequence[Batch]:
        found = super().read(wants, wait_s)
        return [part for batch in found for part in in_parts(batch, 1, lambda item: item.index + 1)]


def counted(state: Total, _: StreamEvent) -> Total:
    return Total(state.total + 1)


def by_price(event: StreamEvent) -> float:
    price = event.data["price"]
    return float(price) if isinstance(price, str) else price  # type: ignore[no-any-return]


@pytest.mark.parametrize("prices", [[10, 10.0, 10], [0.0, -0.0, 0.0]], ids=str)
def test_equal_keys_are_one_row_however_they_are_written(database_url: str, prices: list[float]) -> None:
    source = InParts()
    source.append("A", [{"price": price} for price in prices])

    Projection("totals", Total, counted, key=by_price).inline(source, database_url).drain()

    assert shown(database_url) == [(prices[0], 3)]


@pytest.mark.parametrize("price", ["nan", "inf", "-inf"])
def test_a_key_that_could_not_be_found_again_fails_alone(database_url: str, price: str) -> None:
    source = MemorySource()
    source.append("A", [{"price": 1.5}, {"price": price}, {"price": 2.5}])
    processor = Projection("totals", Total, counted, key=by_price).inline(source, database_url)

    processor.drain()

    assert shown(database_url) == [(1.5, 1), (2.5, 1)]
    assert f"key is '({price},)'; allowed: a key as it is annotated: finite numbers only" in trouble(processor)


def test_a_date_that_is_given_as_text_is_found_again_by_the_next_process(database_url: str) -> None:
    def by_day(event: StreamEvent) -> dt.date:
        return event.data["day"]  # type: ignore[no-any-return] - That is what is tested.

    source = MemorySource()
    for _ in range(2):
        source.append("A", [{"day": "2026-11-26"}])
        Projection("totals", Total, counted, key=by_day).inline(source, database_url).drain()

    assert [total for _, total in shown(database_url)] == [2]
