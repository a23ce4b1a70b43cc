"""Decoding of events into types: members that are ignored, and the member at fault where an event does not fit."""

import datetime as dt
import pickle
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

import msgspec
import pydantic
import pydantic.dataclasses
import pytest

from penstock.core.events.decoding import EventDecoder
from penstock.core.events.encoding import encode_event
from penstock.errors import RequirementMissing
from penstock.schema.models import DataChange

T = TypeVar("T")


class StructItem(msgspec.Struct):
    sku: str
    price: Decimal


class StructOrder(msgspec.Struct, rename={"placed_at": "placedAt"}):
    order_id: int
    placed_at: dt.datetime
    items: list[StructItem]
    id: UUID | None = None


@dataclass
class DataclassItem:
    sku: str
    price: Decimal


@dataclass
class DataclassOrder:
    order_id: int
    placedAt: dt.datetime  # noqa: N815 - a dataclass has no other way to be called so in JSON
    items: list[DataclassItem]
    id: UUID | None = None


class ModelItem(pydantic.BaseModel, extra="forbid"):
    sku: str
    price: Decimal


class ModelOrder(pydantic.BaseModel):
    order_id: int
    placed_at: dt.datetime = pydantic.Field(alias="placedAt")
    items: list[ModelItem]
    id: UUID | None = None


@pydantic.dataclasses.dataclass
class PydanticDataclass:
    order_id: int
    items: list[ModelItem]
    placed_at: dt.datetime = pydantic.Field(alias="placedAt")
    id: UUID | None = None


class MixedStruct(msgspec.Struct):
    order_id: int
    items: list[ModelItem]


KINDS = pytest.mark.parametrize(
    "kind", [StructOrder, DataclassOrder, ModelOrder, PydanticDataclass], ids=lambda kind: kind.__name__
)
ORDER = {
    "order_id": 7,
    "placedAt": "2026-11-20T10:00:00Z",
    "items": [{"sku": "a", "price": "19.90"}],
    "id": "00000000-0000-0000-0000-000000000007",
}


def raw(event: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(event))


def refused(kind: Any, event: Any) -> tuple[str, str]:
    decoder, given = EventDecoder(kind), raw(event)
    with pytest.raises(decoder.failures) as caught:
        decoder.decode(given)
    return decoder.explain(caught.value, bytes(given))


@KINDS
def test_event_becomes_an_instance(kind: Any) -> None:
    event = EventDecoder(kind).decode(raw(ORDER))

    assert type(event) is kind
    assert (event.order_id, event.id, event.items[0].price) == (7, UUID(int=7), Decimal("19.90"))
    assert msgspec.json.decode(encode_event(event)) == ORDER


@KINDS
def test_unknown_members_are_ignored_at_every_depth(kind: Any) -> None:
    newer = ORDER | {"items": [{"sku": "a", "price": "1", "color": "red"}], "voucher": {"code": 1}, "metadata": {}}

    event = EventDecoder(kind).decode(raw(newer))

    assert [item.sku for item in event.items] == ["a"]
    assert not hasattr(event, "voucher")


@KINDS
def test_data_change_is_decoded_with_its_record(kind: Any) -> None:
    change = {"data_type": "order", "data_op": "U", "data": ORDER, "metadata": {"eid": "e"}, "new_member": 1}

    read = EventDecoder(DataChange[kind]).decode(raw(change))

    assert (read.data_type, read.data_op, read.metadata) == ("order", "U", {"eid": "e"})
    assert (type(read.data), read.data.order_id) == (kind, 7)
    assert EventDecoder(DataChange).decode(raw(change)).data == ORDER


@KINDS
def test_member_at_fault_is_named(kind: Any) -> None:
    member, reason = refused(kind, ORDER | {"order_id": "seven"})
    assert member == "#/order_id"
    assert "int" in reason

    missing = {name: value for name, value in ORDER.items() if name != "items"}
    assert refused(kind, missing) == ("#/items", "is missing")
    assert refused(kind, ORDER | {"items": [ORDER["items"][0], {"sku": "b"}]}) == ("#/items/1/price", "is missing")  # type: ignore[index]
    change = {"data_type": "order", "data_op": "U", "data": missing}
    assert refused(DataChange[kind], change) == ("#/data/items", "is missing")


def test_number_of_further_faults_follows_the_first() -> None:
    _, reason = refused(ModelOrder, {"order_id": "x", "items": []})

    assert reason.endswith("(and 1 more)")


@KINDS
def test_unexpected_data_change_is_recognized(kind: Any) -> None:
    member, reason = refused(kind, {"data_type": "order", "data_op": "U", "data": ORDER})

    assert member == "#/order_id"
    assert reason.partition("; ")[2] == f"it is a change of data: read it as DataChange[{kind.__name__}]"


@KINDS
def test_bytes_other_than_an_object_are_refused(kind: Any) -> None:
    decoder = EventDecoder(kind)
    for text in (b'"text"', b'{"order_id":"\xff"}', b"[]", b"7"):
        with pytest.raises(decoder.failures) as caught:
            decoder.decode(msgspec.Raw(text))

        member, reason = decoder.explain(caught.value, text)
        assert member.startswith("#")
        assert reason


def test_unknown_operation_of_a_data_change_is_refused() -> None:
    for kind in (DataChange[ModelItem], DataChange[StructItem]):
        member, _ = refused(kind, {"data_type": "order", "data_op": "X", "data": {"sku": "a", "price": "1"}})
        assert member == "#/data_op"


def test_models_within_structs_are_decoded() -> None:
    decoder = EventDecoder(MixedStruct)

    assert decoder.decode(raw(ORDER)).items == [ModelItem(sku="a", price=Decimal("19.90"))]
    member, reason = refused(MixedStruct, {"order_id": 1, "items": [{"sku": "a", "price": "x", "new": 1}]})
    assert member == "#/items/0"
    assert reason.startswith("price: ")


class Keeping(pydantic.BaseModel, extra="allow"):
    item: ModelItem


def test_model_that_allows_unknown_members_keeps_them() -> None:
    event = EventDecoder(Keeping).decode(raw({"item": {"sku": "a", "price": "1", "x": 1}, "more": 2}))

    assert event.model_extra == {"more": 2}


class Closed(msgspec.Struct, forbid_unknown_fields=True):
    n: int


class Opened(Closed, forbid_unknown_fields=False):
    pass


class Holding(msgspec.Struct):
    closed: dict[str, list[Closed]]


@pytest.mark.parametrize("kind", [Closed, Holding, DataChange[Closed]], ids=str)
def test_struct_that_forbids_unknown_members_is_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"Closed forbids members .* subclass that has it False"):
        EventDecoder(kind)
    assert EventDecoder(Opened).decode(raw({"n": 1, "m": 2})).n == 1


class Simple(pydantic.BaseModel):
    n: int


def test_old_pydantic_is_refused_where_it_cannot_ignore_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pydantic, "VERSION", "2.11.7")

    with pytest.raises(RequirementMissing, match=r"Pydantic 2\.12.*2\.11\.7 found"):
        EventDecoder(ModelOrder)
    assert EventDecoder(Simple).decode(raw({"n": 1, "m": 2})).n == 1


class Plain:
    """None of the classes that events can be decoded into."""


@pytest.mark.parametrize(
    "kind", [Plain, list[Plain], DataChange[Plain], 5, "StructOrder", Simple | StructItem], ids=str
)
def test_type_without_a_decoder_is_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"cannot be read|not supported|pydantic-core schema"):
        EventDecoder(kind)


class Placed(msgspec.Struct, tag_field="kind", tag="placed"):
    n: int


class Cancelled(msgspec.Struct, tag_field="kind", tag="cancelled"):
    why: str


class PlacedModel(pydantic.BaseModel):
    kind: Literal["placed"]
    n: int


class CancelledModel(pydantic.BaseModel):
    kind: Literal["cancelled"]
    why: str


BY_KIND = Annotated[PlacedModel | CancelledModel, pydantic.Field(discriminator="kind")]


@pytest.mark.parametrize("kind", [Placed | Cancelled, PlacedModel | CancelledModel, BY_KIND], ids=["S", "P", "PA"])
def test_one_of_several_types_is_chosen_by_its_members(kind: Any) -> None:
    decoder = EventDecoder(kind)

    assert decoder.decode(raw({"kind": "placed", "n": 1, "new": 2})).n == 1
    assert decoder.decode(raw({"kind": "cancelled", "why": "late"})).why == "late"
    assert refused(kind, {"kind": "placed"})[0] == "#/n"
    assert "Placed" in decoder.name


class BoxStruct(msgspec.Struct, Generic[T]):
    value: T


@dataclass
class BoxDataclass(Generic[T]):
    value: T
    more: list[T] = field(default_factory=list)


class BoxModel(pydantic.BaseModel, Generic[T]):
    value: T


@pytest.mark.parametrize("box", [BoxStruct, BoxDataclass, BoxModel], ids=lambda box: box.__name__)
def test_generic_types_are_decoded(box: Any) -> None:
    assert EventDecoder(box[int]).decode(raw({"value": 1})).value == 1
    assert EventDecoder(DataChange[box[int]]).decode(raw({"data_type": "t", "data_op": "S", "data": {"value": 1}})).data
    assert refused(box[int], {"value": "a"})[0] == "#/value"


def test_decoder_can_be_sent_to_another_process() -> None:
    decoder = pickle.loads(pickle.dumps(EventDecoder(DataChange[ModelItem], "http://s/feed")))

    assert decoder.feed == "http://s/feed"
    assert decoder.name == "DataChange[ModelItem]"
    assert decoder.decode(raw({"data_type": "t", "data_op": "S", "data": {"sku": "a", "price": "1"}})).data.sku == "a"
