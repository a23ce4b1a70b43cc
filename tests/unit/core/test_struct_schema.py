import datetime as dt
import enum
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import pydantic
import pytest

from penstock.core.struct_schema import schema

T = TypeVar("T")


class Currency(enum.Enum):
    """What is paid in."""

    NOK = "NOK"


class Box(msgspec.Struct, Generic[T]):
    value: T


class Money(pydantic.BaseModel):
    """An amount."""

    currency: Currency
    parts: "list[Money]" = []


@dataclass
class Price:
    money: Money
    currency: Currency
    box: Box[int]
    boxes: list[Box[Box[str]]]


def item(name: str) -> Any:
    """Return a class that is called Item, in a module of its own."""
    return msgspec.defstruct("Item", [(name, int)], module=f"shop.{name}")


def test_classes_are_defined_once_and_referred_to() -> None:
    made = schema(Price)

    assert made["$ref"] == "#/definitions/Price"
    assert made["definitions"].keys() == {
        *("Price", "Money", "Money.Money", "Money.Currency", "Currency", "Box_int_", "Box_str_", "Box_Box_str__")
    }
    assert made["definitions"]["Currency"] == {"title": "Currency", "description": "What is paid in.", "enum": ["NOK"]}
    assert made["definitions"]["Box_Box_str__"]["title"] == "Box[Box[str]]"


def test_a_model_within_brings_its_definitions_under_names_of_their_own() -> None:
    definitions = schema(Price)["definitions"]

    assert definitions["Money"]["$ref"] == "#/definitions/Money.Money"
    currency = definitions["Money.Money"]["properties"]["currency"]
    assert currency["$ref"] == "#/definitions/Money.Currency"


def test_classes_of_one_name_are_told_apart_by_their_modules() -> None:
    made = schema(msgspec.defstruct("Order", [("a", item("a")), ("b", item("b"))]))

    assert {name: [*each["properties"]] for name, each in made["definitions"].items() if name != "Order"} == {
        "shop_a_Item": ["a"],
        "shop_b_Item": ["b"],
    }


def test_a_time_is_a_date_time_whether_its_type_asks_for_a_zone_or_not() -> None:
    made = schema(msgspec.defstruct("Order", [("at", dt.datetime), ("day", dt.date), ("hour", dt.time)]))

    assert made["definitions"]["Order"]["properties"] == {
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "hour": {"type": "string"},
    }


def test_what_has_no_schema_is_named_with_the_member_that_holds_it() -> None:
    inner = msgspec.defstruct("Inner", [("thing", object)])

    with pytest.raises(TypeError, match=r"Outer\.inner: Inner\.thing: .*object.* has no schema"):
        schema(msgspec.defstruct("Outer", [("inner", inner)]))
