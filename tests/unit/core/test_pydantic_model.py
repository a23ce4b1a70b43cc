import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pydantic
import pydantic.dataclasses
import pytest

from penstock.core import pydantic_model
from penstock.core.pydantic_model import dumped, is_pydantic, mentions_pydantic


class Order(pydantic.BaseModel):
    order_id: int = pydantic.Field(alias="orderId")


@pydantic.dataclasses.dataclass
class Item:
    sku: str = pydantic.Field(alias="SKU")


@dataclass
class Other:
    sku: str


class Written(pydantic.BaseModel):
    """One that says itself what it is in JSON."""

    secret: str = pydantic.Field(exclude=True)

    @pydantic.model_serializer
    def as_written(self) -> dict[str, int]:
        return {"length": len(self.secret)}


def test_models_and_dataclasses_of_pydantic_are_known() -> None:
    assert [is_pydantic(kind) for kind in (Order, Item, Other, int, Order(orderId=1), Order | Item)] == [
        *(True, True, False, False, False, False)
    ]
    assert [mentions_pydantic(kind) for kind in (Order | Other, dict[str, list[Item]], Other | None, Literal["a"])] == [
        *(True, True, False, False)
    ]


def test_pydantic_is_not_loaded_for_what_is_not_made_with_it() -> None:
    program = """
import sys
from dataclasses import dataclass
from penstock import AsyncClient, Client, DataChange
from penstock.core.document import document
from penstock.core.event_decoder import EventDecoder
from penstock.core.model_schema import model_schema
from penstock.outbox import publish

@dataclass
class Order:
    number: int

EventDecoder(DataChange[Order]).decode(document(DataChange("order", "C", Order(1))))
model_schema(Order)
print("pydantic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert done.stdout == "False\n"


def test_models_are_dumped_as_they_are_in_json() -> None:
    assert dumped(Order(orderId=7)) == {"orderId": 7}
    assert dumped(Item(SKU="a")) == {"SKU": "a"}
    assert dumped(Written(secret="four")) == {"length": 4}


def test_an_error_tells_the_first_of_what_is_wrong_and_how_much_more_there_is() -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        pydantic_model.reading(tuple[Order, Order])(b'[{"orderId":"x"},{}]')

    steps, reason = pydantic_model.explained(caught.value)

    assert steps == [0, "orderId"]
    assert reason.endswith("(and 1 more)")


def test_a_schema_is_of_what_is_written() -> None:
    assert pydantic_model.schema(Order)["properties"] == {"orderId": {"type": "integer"}}
    assert pydantic_model.schema(Written)["additionalProperties"] == {"type": "integer"}


def test_what_has_no_schema_is_named() -> None:
    class Called(pydantic.BaseModel):
        above: "Called | None"
        number: int
        call: Callable[[], int]

    class Holding(pydantic.BaseModel):
        called: list[Called]

    with pytest.raises(TypeError, match=r"Called\.call: "):
        pydantic_model.schema(Called)
    with pytest.raises(TypeError, match=r"Called\.call: "):
        pydantic_model.schema(Holding)
