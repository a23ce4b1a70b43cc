from dataclasses import make_dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from penstock.errors import BadParameter
from penstock.processing.projections.columns import check_declared
from penstock.processing.projections.projection import Projection, event_key
from penstock.spark.projections.typed_rows import Unfit, declare_file_columns


class Seat(NamedTuple):
    row: str
    place: str


class Turned(NamedTuple):
    place: str
    row: str


def seat(event: Any) -> Seat:
    return Seat(event.data["row"], event.data["place"])


def turned(event: Any) -> Turned:
    return Turned(event.data["place"], event.data["row"])


def row(event: Any) -> str:
    return str(event.data["row"])


def declare(of: Any, **fields: Any) -> dict[str, str]:
    state = make_dataclass("Held", [(name, kind | None, None) for name, kind in fields.items()])
    return declare_file_columns(Projection("held", state, lambda state, _: state, key=of).table)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (declare(row, a=int), declare(row, a=float), "a double'; .* a bigint"),
        (declare(row, a=str), declare(row, a=list), "a string COMMENT 'JSON'\"; .* a string"),
        (declare(row, a=int), declare(row, b=int), r"key string, b bigint, .* the columns key string, a bigint, .*"),
        (
            declare(seat, a=int),
            declare(turned, a=int),
            r"PRIMARY KEY \(place, row\)'; .* PRIMARY KEY \(row, place\)",
        ),
        (
            declare(event_key, row=str, place=str),
            declare(seat, key=str),
            r"PRIMARY KEY \(row, place\)'; .* PRIMARY KEY \(key\)",
        ),
    ],
    ids=["another type", "JSON", "another name", "the key turned", "another key"],
)
def test_incompatible_change_of_file_columns_needs_another_version(
    before: dict[str, str], after: dict[str, str], shown: str
) -> None:
    with pytest.raises(BadParameter, match=f"{shown}$"):
        check_declared(after, before, "a folder held_v1")


def test_the_order_of_columns_does_not_matter() -> None:
    check_declared(declare(seat, a=int, b=str), declare(seat, b=str, a=int), "a folder held_v1")


@pytest.mark.parametrize(
    ("price", "is_fit"),
    [
        (Decimal("99999999999999999999.999999999999999999"), True),
        (Decimal("1.10000000000000000000000"), True),
        (0.5, True),
        (None, True),
        (Decimal("1e-19"), False),
        (Decimal("1e20"), False),
    ],
)
def test_number_with_more_digits_than_files_keep_is_refused(price: Any, *, is_fit: bool) -> None:
    state = make_dataclass("Held", [("price", Decimal | None, None), ("count", int, 0)])
    projection = Projection("held", state, lambda state, _: state, key=row)
    unfit = Unfit(projection.table.columns, projection.fold.wrong)

    found = unfit(state(price))
    assert (found is None) == is_fit
    assert is_fit or "20 digits before the point, and 18 behind it, as files keep them, and no other price" in str(
        found
    )
    assert "whole numbers of 64 bits" in str(unfit(state(price, 2**63))), "what is wrong anywhere comes first"
    assert projection.fold.wrong(state(price)) is None
