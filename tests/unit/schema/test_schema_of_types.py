"""Schemas of Python types: Structs, dataclasses and pydantic models give one schema, valid for all their events."""

import datetime as dt
import enum
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from itertools import count
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar
from uuid import UUID

import jsonschema_rs
import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict  # Pydantic needs it before Python 3.12, and brings it.

from penstock.core.events.encoding import encode_event
from penstock.schema.evolution import judge
from penstock.schema.models import ANYTHING, DataChange, convert_to_draft_four, entity_type, model_schema
from penstock.schema.parsing import check_schema, close_schema, dialect
from tests.exhaustive import examples

T = TypeVar("T")
STRING, NULL = {"type": "string"}, {"type": "null"}


def refer(name: str) -> dict[str, str]:
    return {"$ref": f"#/definitions/{name}"}


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Form(NamedTuple):
    """One type in three forms, and the values of its instances' members."""

    struct: Any
    dataclass: Any
    model: Any
    values: Any
    """A strategy: the same value for each of the three."""


def same(kind: Any, values: Any) -> Form:
    return Form(kind, kind, kind, values.map(lambda value: (value, value, value)))


NUMBERS = count()
YEAR_1000 = dt.datetime(1000, 1, 1)  # noqa: DTZ001 - the strategy adds the zone
TIMES = st.datetimes(min_value=YEAR_1000, timezones=st.just(dt.UTC))
NAIVE = Annotated[dt.datetime, msgspec.Meta(tz=False)]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=3),
    lambda within: st.lists(within, max_size=2) | st.dictionaries(st.text(max_size=3), within, max_size=2),
    max_leaves=4,
)
FORMS: list[Form] = [
    same(int, st.integers(-(2**40), 2**40)),
    same(float, st.floats(allow_nan=False, allow_infinity=False)),
    same(str, st.text(max_size=5)),
    same(bool, st.booleans()),
    same(dt.datetime, TIMES),
    Form(NAIVE, NAIVE, pydantic.NaiveDatetime, st.datetimes(min_value=YEAR_1000).map(lambda at: (at, at, at))),
    same(dt.date, st.dates(min_value=YEAR_1000.date())),
    same(dt.time, st.times()),
    same(dt.timedelta, st.timedeltas(min_value=dt.timedelta(0), max_value=dt.timedelta(days=999))),
    same(UUID, st.uuids()),
    same(Decimal, st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-999, max_value=999)),
    same(Color, st.sampled_from(Color)),
    same(Size, st.sampled_from(Size)),
    same(Literal["a", "b"], st.sampled_from(["a", "b"])),
    same(Literal["only"], st.just("only")),
    same(Literal[1, 2] | None, st.sampled_from([1, 2, None])),
    same(Any, JSON),
    same(dict[str, Any], st.dictionaries(st.text(max_size=3), JSON, max_size=2)),
    same(list[Any], st.lists(JSON, max_size=2)),
    same(set[int], st.sets(st.integers(0, 9), max_size=3)),
    same(tuple[int, str], st.tuples(st.integers(0, 9), st.text(max_size=3))),
    same(int | str, st.integers(0, 9) | st.text(max_size=3)),
    same(int | str | None, st.none() | st.integers(0, 9) | st.text(max_size=3)),
    same(bytes, st.text(max_size=3).map(str.encode)),
]
LEAVES = st.sampled_from(FORMS)


def threefold(values: Any, make: Any) -> Any:
    """Return a strategy that applies *make* to each of three values."""
    return values.map(lambda each: tuple(make([one[number] for one in each]) for number in range(3)))


def listed(item: Form) -> Form:
    kinds = [list[each] for each in item[:3]]  # type: ignore[valid-type]
    return Form(*kinds, threefold(st.lists(item.values, max_size=2), list))


def mapped(item: Form) -> Form:
    kinds = [dict[str, each] for each in item[:3]]  # type: ignore[valid-type]
    pairs = st.dictionaries(st.text(max_size=3), item.values, max_size=2)
    values = pairs.map(lambda each: tuple({name: one[n] for name, one in each.items()} for n in range(3)))
    return Form(*kinds, values)


def optional(item: Form) -> Form:
    if item.struct is Any:
        return item
    kinds = [each | None if isinstance(each, type) else Any for each in item[:3]]
    return item if Any in kinds else Form(*kinds, st.just((None, None, None)) | item.values)


@st.composite
def whole(draw: Any, members: Any) -> Form:
    """Return a class with members, some of which have a default; no two have the same name."""
    name = f"Part{next(NUMBERS)}"
    fields = draw(st.lists(members, min_size=1, max_size=4))
    with_default = draw(st.integers(0, len(fields)))  # So many of the last ones have one.
    forms = {
        f"member_{n}": (optional(each), True) if n >= with_default else (each, False) for n, each in enumerate(fields)
    }
    struct = msgspec.defstruct(
        name, [(n, each.struct, None) if default else (n, each.struct) for n, (each, default) in forms.items()]
    )
    made = make_dataclass(
        name,
        [
            (n, each.dataclass, field(default=None)) if default else (n, each.dataclass)
            for n, (each, default) in forms.items()
        ],
    )
    parts: Any = {n: (each.model, None if default else ...) for n, (each, default) in forms.items()}
    kinds = (struct, made, pydantic.create_model(name, **parts))
    values = st.tuples(*(each.values for each, _ in forms.values())).map(
        lambda drawn: tuple(
            kind(**{n: one[number] for n, one in zip(forms, drawn, strict=True)}) for number, kind in enumerate(kinds)
        )
    )
    return Form(*kinds, values)


MEMBERS = st.recursive(
    LEAVES,
    lambda within: st.one_of(within.map(listed), within.map(mapped), within.map(optional), whole(within)),
    max_leaves=4,
)


@settings(max_examples=examples(10, 100))
@given(st.data())
def test_three_sorts_of_types_give_one_schema_for_which_their_events_are_valid(data: st.DataObject) -> None:
    form = data.draw(whole(MEMBERS))
    events = data.draw(form.values)

    schemas = [model_schema(kind) for kind in form[:3]]

    assert schemas[0] == schemas[1] == schemas[2]
    check_schema(schemas[0], compatible=True, business=True)
    for event in events:
        written = msgspec.json.decode(encode_event(event))
        for schema in (schemas[0], close_schema(schemas[0])):
            jsonschema_rs.Draft4Validator(schema, validate_formats=True).validate(written)


def test_members_of_every_type_have_the_same_schema_in_three_sorts_of_types() -> None:
    forms = {f"member_{number}": form for number, form in enumerate(FORMS)}
    parts: Any = {name: (form.model, ...) for name, form in forms.items()}

    struct = model_schema(msgspec.defstruct("All", [(name, form.struct) for name, form in forms.items()]))
    made = model_schema(make_dataclass("All", [(name, form.dataclass) for name, form in forms.items()]))
    assert struct == made == model_schema(pydantic.create_model("All", **parts))


class StructLine(msgspec.Struct):
    sku: Annotated[str, msgspec.Meta(pattern="^[a-z]+$", max_length=8, description="What is sold.")]
    count: Annotated[int, msgspec.Meta(gt=0, le=100)] = 1


class StructOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """An order that was placed."""

    order_id: int
    lines: Annotated[list[StructLine], msgspec.Meta(min_length=1)]
    replaces: "StructOrder | None" = None
    note: str = "-"
    share: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.5
    tags: list[str] = []
    placed_at: dt.datetime | None = None


class ModelLine(pydantic.BaseModel, title="StructLine"):
    sku: str = pydantic.Field(pattern="^[a-z]+$", max_length=8, description="What is sold.")
    count: int = pydantic.Field(1, gt=0, le=100)


class ModelOrder(pydantic.BaseModel):
    """An order that was placed."""

    model_config = pydantic.ConfigDict(
        alias_generator=to_camel, extra="forbid", title="StructOrder", populate_by_name=True
    )

    order_id: int
    lines: list[ModelLine] = pydantic.Field(min_length=1)
    replaces: "ModelOrder | None" = None
    note: str = "-"
    share: float = pydantic.Field(0.5, ge=0, lt=1)
    tags: list[str] = []
    placed_at: dt.datetime | None = None


@dataclass
class DataclassOrder:
    """An order that was placed."""

    orderId: int  # noqa: N815 - a dataclass has no other way to be called so in JSON
    lines: Annotated[list[StructLine], msgspec.Meta(min_length=1)]
    replaces: "DataclassOrder | None" = None
    note: str = "-"
    share: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.5
    tags: list[str] = field(default_factory=list)
    placedAt: dt.datetime | None = None  # noqa: N815


ORDER = {
    "title": "StructOrder",
    "description": "An order that was placed.",
    "type": "object",
    "properties": {
        "orderId": {"type": "integer"},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/StructLine"}, "minItems": 1},
        "replaces": {"anyOf": [{"$ref": "#/definitions/StructOrder"}, {"type": "null"}]},
        "note": {"type": "string", "default": "-"},
        "share": {"type": "number", "minimum": 0, "maximum": 1, "exclusiveMaximum": True, "default": 0.5},
        "tags": {"type": "array", "items": {"type": "string"}},
        "placedAt": {"type": ["string", "null"], "format": "date-time"},
    },
    "required": ["orderId", "lines"],
}
LINE = {
    "title": "StructLine",
    "type": "object",
    "properties": {"sku": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 8, "description": "What is sold."},
        "count": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 100, "default": 1}},
    "required": ["sku"],
}  # fmt: skip


def renamed(schema: Any, **names: str) -> Any:
    text = msgspec.json.encode(schema).decode()
    for old, new in names.items():
        text = text.replace(old, new)
    return msgspec.json.decode(text)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (StructOrder, {}),
        (DataclassOrder, {"DataclassOrder": "StructOrder"}),
        (ModelOrder, {"ModelOrder": "StructOrder", "ModelLine": "StructLine"}),
    ],
    ids=["StructOrder", "DataclassOrder", "ModelOrder"],
)
def test_schema_has_names_bounds_defaults_and_descriptions(kind: Any, names: dict[str, str]) -> None:
    schema = renamed(model_schema(kind), **names)

    assert schema == ORDER | {"definitions": {"StructLine": LINE, "StructOrder": ORDER}}
    check_schema(schema, compatible=True, business=True)


class Newer(StructOrder, rename="camel"):
    voucher: str | None = None
    attributes: dict[str, int] = {}


def test_new_member_with_a_default_is_a_compatible_change() -> None:
    newer = renamed(model_schema(Newer), Newer="StructOrder") | {"description": "An order that was placed."}

    verdict = judge(model_schema(StructOrder), newer, "compatible")

    assert not verdict.refused
    assert verdict.level.name == "MINOR"
    assert verdict.consumers


class Placed(msgspec.Struct, tag_field="kind", tag="placed"):
    n: int


class Cancelled(msgspec.Struct, tag_field="kind", tag="cancelled"):
    why: str


@dataclass
class StructLog:
    last: Placed | Cancelled
    before: Placed | Cancelled | None = None


class PlacedModel(pydantic.BaseModel, title="Placed"):
    kind: Literal["placed"]
    n: int


class CancelledModel(pydantic.BaseModel, title="Cancelled"):
    kind: Literal["cancelled"]
    why: str


Step = Annotated[PlacedModel | CancelledModel, pydantic.Field(discriminator="kind")]


class ModelLog(pydantic.BaseModel, title="StructLog"):
    last: Step
    before: Step | None = None


def test_member_of_several_classes_is_any_of_them() -> None:
    schema = model_schema(StructLog)

    assert schema == renamed(model_schema(ModelLog), PlacedModel="Placed", CancelledModel="Cancelled")
    assert schema["properties"]["before"] == {"anyOf": [refer("Cancelled"), refer("Placed"), NULL]}
    assert schema["definitions"]["Placed"]["properties"]["kind"] == {"enum": ["placed"], "type": "string"}


class Metadata(msgspec.Struct):
    eid: UUID | None = None


class Business(msgspec.Struct):
    n: int
    metadata: Metadata


def test_metadata_of_business_events_is_left_to_the_hub() -> None:
    business = model_schema(Business, business=True)

    assert business == {
        "title": "Business", "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
    }  # fmt: skip
    check_schema(business, compatible=True, business=True)
    assert model_schema(Business)["required"] == ["n", "metadata"]
    only = msgspec.defstruct("Only", [("metadata", Metadata)])
    assert model_schema(only, business=True) == {"title": "Only", "type": "object", "properties": {}}


def test_schema_of_a_data_change_is_that_of_its_record() -> None:
    assert model_schema(DataChange[StructOrder]) == model_schema(StructOrder)
    assert entity_type(DataChange[StructOrder]) is StructOrder
    assert entity_type(StructOrder) is None


@pydantic.dataclasses.dataclass
class PydanticDataclass:
    order_id: int = pydantic.Field(serialization_alias="orderId")


class Computed(pydantic.BaseModel):
    price: Decimal = Decimal("1.50")
    hidden: str = pydantic.Field("", exclude=True)

    @pydantic.computed_field
    def double(self) -> Decimal:
        return 2 * self.price


class Keyed(TypedDict):
    n: int
    note: NotRequired[str]


class Lacking(msgspec.Struct):
    note: str | msgspec.UnsetType = msgspec.UNSET


class Written(pydantic.BaseModel):
    """A model with a serializer of its own."""

    secret: str = pydantic.Field(exclude=True)

    @pydantic.model_serializer
    def as_written(self) -> dict[str, int]:
        return {"length": len(self.secret)}


def test_schema_describes_events_as_they_are_written() -> None:
    decimal = {"type": "string", "format": "decimal"}

    assert model_schema(PydanticDataclass)["properties"] == {"orderId": {"type": "integer"}}
    assert model_schema(Computed)["properties"] == {"price": decimal | {"default": "1.50"}, "double": decimal}
    assert model_schema(Computed)["required"] == ["double"]
    assert model_schema(Written)["patternProperties"] == {".*": {"type": "integer"}}
    assert model_schema(Keyed)["required"] == ["n"]
    assert model_schema(Lacking)["properties"] == {"note": STRING}
    assert model_schema(dict[str, int])["patternProperties"] == {".*": {"type": "integer"}}


def test_schema_gives_times_their_formats_unless_they_have_no_zone() -> None:
    times = [("at", dt.datetime), ("naive", NAIVE), ("day", dt.date), ("hour", dt.time)]

    formats = {"at": {"format": "date-time"}, "naive": {}, "day": {"format": "date"}, "hour": {}}
    assert model_schema(msgspec.defstruct("Order", times))["properties"] == {
        name: STRING | form for name, form in formats.items()
    }


class Currency(enum.Enum):
    """Units of amounts."""

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


def test_classes_are_defined_once_under_names_of_their_own() -> None:
    made = model_schema(Price)
    definitions = made["definitions"]

    assert definitions.keys() == {
        *("Money", "Money.Money", "Money.Currency", "Currency", "Box_int_", "Box_str_", "Box_Box_str__")
    }
    currency = {"title": "Currency", "description": "Units of amounts.", "enum": ["NOK"], "type": "string"}
    assert definitions["Currency"] == definitions["Money.Currency"] == currency
    assert definitions["Box_Box_str__"]["title"] == "Box[Box[str]]"
    assert definitions["Money.Money"]["properties"]["currency"] == refer("Money.Currency")
    assert definitions["Money"] == refer("Money.Money")


def test_classes_of_one_name_are_distinguished_by_their_modules() -> None:
    items = [(name, msgspec.defstruct("Item", [(name, int)], module=f"shop.{name}")) for name in "ab"]
    made = model_schema(msgspec.defstruct("Order", items))

    properties = {name: [*each["properties"]] for name, each in made["definitions"].items()}
    assert properties == {"shop_a_Item": ["a"], "shop_b_Item": ["b"]}


class Bare:
    """None of the classes that a schema can be made of."""


class Listed(msgspec.Struct, array_like=True):
    n: int


class Called(pydantic.BaseModel):
    above: "Called | None"
    number: int
    call: Callable[[], int]


class Holder(pydantic.BaseModel):
    called: list[Called]


OBJECT = msgspec.defstruct("Inner", [("thing", object)])


def holding(kind: Any) -> Any:
    return make_dataclass("Holding", [("item", list[kind])])


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Bare, "Bare'> has no schema: use a Struct, a dataclass or a pydantic model"),
        (holding(Bare), "Holding.item: .*Bare'> has no schema"),
        (msgspec.defstruct("Outer", [("inner", OBJECT)]), r"Outer\.inner: Inner\.thing: .*object.* has no schema"),
        (holding(Listed), "Holding.item: Listed is written as an array"),
        (Listed, "written as an array"),
        (StructOrder | DataclassOrder, "a union is no event type's"),
        (list[StructOrder], "is no object in JSON"),
        (int, "int is no object in JSON"),
        (pydantic.RootModel[list[int]], r"RootModel\[list\[int\]\] is no object in JSON"),
        (Called, r"Called\.call: "),
        (Holder, r"Called\.call: "),
        (StructOrder(1, []), "is no class"),
        ("StructOrder", "is no class"),
        (5, "5"),
    ],
    ids=lambda value: None if isinstance(value, str) else getattr(value, "__name__", str(value)[:20]),
)
def test_type_without_a_schema_is_refused_with_its_member(kind: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        model_schema(kind)


@pytest.mark.parametrize("kind", [dt.datetime, dt.datetime | None])
def test_default_without_a_time_zone_is_refused_with_its_member(kind: Any) -> None:
    naive = dt.datetime(2026, 1, 1)  # noqa: DTZ001
    for model in (
        msgspec.defstruct("Order", [("placed_at", kind, naive)]),
        pydantic.create_model("Order", placed_at=(kind, naive)),
    ):
        with pytest.raises(TypeError, match="placed_at: its default 2026-01-01T00:00:00 has no time zone; give it one"):
            model_schema(model)


def test_pydantic_is_not_loaded_for_other_types() -> None:
    program = """
import sys
from dataclasses import dataclass
from penstock import AsyncClient, Client, DataChange
from penstock.core.events.encoding import encode_event
from penstock.core.events.decoding import EventDecoder
from penstock.schema.models import model_schema
from penstock.outbox import publish

@dataclass
class Order:
    number: int

EventDecoder(DataChange[Order]).decode(encode_event(DataChange("order", "C", Order(1))))
model_schema(Order)
print("pydantic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert done.stdout == "False\n"


# The words of today's JSON Schema in those of draft 4.


def test_keyword_of_a_later_draft_is_written_in_draft_4() -> None:
    rows: list[tuple[Any, Any]] = [
        ({"const": "a"}, {"enum": ["a"], "type": "string"}),
        ({"enum": ["b", None, "a"]}, {"enum": ["a", "b", None], "type": ["string", "null"]}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 0, "exclusiveMinimum": True}),
        ({"minimum": 1, "exclusiveMinimum": 0}, {"minimum": 1}),
        ({"minimum": 0, "exclusiveMinimum": 1}, {"minimum": 1, "exclusiveMinimum": True}),
        ({"maximum": 9, "exclusiveMaximum": 9}, {"maximum": 9, "exclusiveMaximum": True}),
        ({"maximum": 9, "exclusiveMaximum": True}, {"maximum": 9, "exclusiveMaximum": True}),
        ({"anyOf": [STRING, NULL]}, {"type": ["string", "null"]}),
        ({"anyOf": [NULL, STRING, {"type": "integer"}]}, {"type": ["integer", "string", "null"]}),
        ({"anyOf": [{"const": 1}, NULL]}, {"enum": [1, None], "type": ["integer", "null"]}),
        ({"anyOf": [{"type": "string", "maxLength": 3}, NULL]}, {"type": ["string", "null"], "maxLength": 3}),
        ({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer", "minimum": 1}, NULL]},
         {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "maxLength": 3}, NULL]}),
        ({"anyOf": [STRING], "description": "d"}, {"type": "string", "description": "d"}),
        ({"allOf": [STRING, {"pattern": "a"}]}, {"allOf": [STRING, {"pattern": "a"}]}),
        ({"oneOf": [STRING, {"type": "array"}]}, {"oneOf": [{"type": "array", "items": ANYTHING}, STRING]}),
        ({"type": "object", "additionalProperties": STRING}, {"type": "object", "patternProperties": {".*": STRING}}),
        ({"type": "object", "additionalProperties": True}, {"type": "object", "patternProperties": {".*": {}}}),
        ({"type": "object", "additionalProperties": False}, {"type": "object"}),
        ({"type": "object", "properties": {}, "additionalProperties": True}, {"type": "object", "properties": {}}),
        ({"type": "object", "required": []}, {"type": "object"}),
        ({"patternProperties": {"^a": STRING}, "propertyNames": {}}, {"patternProperties": {"^a": STRING}}),
        ({"type": "array", "prefixItems": [STRING, {}], "items": False},
         {"type": "array", "items": [STRING, ANYTHING], "minItems": 2, "maxItems": 2}),
        ({"type": "array", "prefixItems": []}, {"type": "array", "minItems": 0, "maxItems": 0}),
        ({"type": "string", "format": "time"}, STRING),
        ({"type": "string", "format": "date", "examples": ["x"], "readOnly": True},
         {"type": "string", "format": "date"}),
        ({"type": "string", "contentEncoding": "base64", "deprecated": True}, STRING),
        ({}, ANYTHING),
        ({"description": "whatever", "default": 3}, ANYTHING | {"description": "whatever", "default": 3}),
    ]  # fmt: skip
    for node, expected in rows:
        assert convert_to_draft_four({"type": "object", "properties": {"x": node}})["properties"]["x"] == expected


def test_default_is_kept_unless_null_compound_or_not_a_number() -> None:
    rows: list[tuple[Any, bool]] = [
        (1, True), ("a", True), (False, True), (None, False), ([], False), (float("nan"), False),
    ]  # fmt: skip
    for default, is_kept in rows:
        node = convert_to_draft_four({"properties": {"x": STRING | {"default": default}}})["properties"]["x"]

        assert ("default" in node) == is_kept


def test_unused_definitions_are_left_out_and_the_root_is_inlined() -> None:
    tree = {"type": "object", "properties": {"below": {"$ref": "#/$defs/Tree", "default": 1}}}

    made = {"type": "object", "properties": {"below": refer("Tree")}}
    given = {"$ref": "#/$defs/Tree", "$defs": {"Tree": tree, "Other": STRING}}
    assert convert_to_draft_four(given) == made | {"definitions": {"Tree": made}}


def test_discriminated_branches_are_any_of_them() -> None:
    definitions = {"A": {"type": "object", "required": ["a"]}, "B": {"type": "object", "required": ["b"]}}
    either = {"oneOf": [{"$ref": "#/$defs/B"}, {"$ref": "#/$defs/A"}], "discriminator": {"propertyName": "kind"}}

    made = convert_to_draft_four(
        {"type": "object", "properties": {"x": {"anyOf": [either, NULL]}}, "$defs": definitions}
    )

    assert made["properties"]["x"] == {"anyOf": [refer("A"), refer("B"), NULL]}


def test_untyped_member_may_be_anything_in_the_mode_compatible() -> None:
    for value in [1, "a", None, [], [{"a": 1}], {"a": {"b": 1}}]:
        schema = convert_to_draft_four({"type": "object", "properties": {"x": {}, "xs": {"type": "array"}}})
        check_schema(schema, compatible=True, business=False)

        assert dialect(schema)(close_schema(schema)).is_valid({"x": value, "xs": [value]})
