"""Documents: the JSON of an event that a producer publishes as a value of some type, and its metadata."""

import datetime as dt
import decimal
import enum
import pickle
import types
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, make_dataclass
from typing import Any

import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.core.events.encoding import encode_event, encode_together, is_one_event
from penstock.core.events.metadata import fill_metadata, fill_metadata_of
from penstock.errors import BadParameter, InvalidEvent
from penstock.schema.models import DataChange


@dataclass
class Order:
    order_id: int


class Struct(msgspec.Struct):
    order_id: int


class Model(pydantic.BaseModel):
    order_id: int


class Measured(pydantic.BaseModel):
    value: float


class Anything(pydantic.BaseModel):
    value: Any


class Color(enum.Enum):
    RED = "red"


def whole(form: str, kind: type) -> Any:
    """Return a class with members of every sort, one of them of that *kind*."""
    sorts = {"at": dt.datetime, "day": dt.date, "id": uuid.UUID, "total": decimal.Decimal, "color": Color, "item": kind}
    if form == "model":
        members: Any = {name: (sort, ...) for name, sort in sorts.items()}
        return pydantic.create_model("Whole", **members, note=(str | None, None), colors=(dict[Color, int], {}))
    if form == "Struct":
        return msgspec.defstruct(
            "Whole", [*sorts.items(), ("note", str | None, None), ("colors", dict[Color, int], {})]
        )
    others: Any = [
        ("note", str | None, field(default=None)),
        ("colors", dict[Color, int], field(default_factory=dict)),
    ]
    return make_dataclass("Whole", [*sorts.items(), *others])


class Renamed(msgspec.Struct, rename="camel"):
    order_id: int


class Aliased(pydantic.BaseModel):
    order_id: int = pydantic.Field(alias="orderId")


class AliasedApart(pydantic.BaseModel):
    order_id: int = pydantic.Field(validation_alias="id", serialization_alias="orderId")


@pydantic.dataclasses.dataclass
class AliasedDataclass:
    order_id: int = pydantic.Field(alias="orderId")


@dataclass(frozen=True, slots=True)
class Around:
    """A dataclass that holds another value."""

    held: Any


class AroundStruct(msgspec.Struct, frozen=True):
    """A Struct that holds another value."""

    held: Any


@dataclass
class Basket:
    """An event over which one can iterate, and which is one event nevertheless."""

    sku: str = "a"

    def __iter__(self) -> Iterator[str]:
        return iter(self.sku)


class Written(pydantic.BaseModel):
    """A model with a serializer of its own."""

    secret: str = pydantic.Field(exclude=True)

    @pydantic.model_serializer
    def as_written(self) -> dict[str, int]:
        return {"length": len(self.secret)}


def kind_of(value: Any) -> str:
    return type(value).__name__


ORDERS: list[Any] = [
    {"order_id": 7}, types.MappingProxyType({"order_id": 7}), Order(7), Struct(7), Model(order_id=7), '{"order_id":7}',
    b'{"order_id":7}', bytearray(b'{"order_id":7}'), memoryview(b'{"order_id":7}'), msgspec.Raw(b'{"order_id":7}'),
]  # fmt: skip


@pytest.mark.parametrize("event", ORDERS, ids=kind_of)
def test_every_form_of_an_event_is_the_same_document(event: Any) -> None:
    assert encode_event(event) == b'{"order_id":7}'


@pytest.mark.parametrize(
    "around",
    [
        lambda held: {"held": held},
        lambda held: types.MappingProxyType({"held": held}),
        Around,
        AroundStruct,
    ],
    ids=["dict", "mapping", "dataclass", "Struct"],
)
def test_nested_pydantic_dataclass_keeps_its_aliases(around: Callable[[Any], Any]) -> None:
    assert encode_event(around(AliasedDataclass(orderId=7))) == b'{"held":{"orderId":7}}'  # type: ignore[call-arg]
    deep = [(AliasedDataclass(orderId=7), Around(AliasedApart(id=8)))]  # type: ignore[call-arg]
    assert encode_event(around(deep)) == b'{"held":[[{"orderId":7},{"held":{"orderId":8}}]]}'


def test_event_around_a_pydantic_dataclass_is_left_as_it_was() -> None:
    event = Around([AliasedDataclass(orderId=7)])  # type: ignore[call-arg]

    encode_event(event)

    assert event == Around([AliasedDataclass(orderId=7)])  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("form", "item"),
    [
        *((form, item) for form in ("dataclass", "Struct") for item in (Order(7), Struct(7), Model(order_id=7))),
        *(("model", item) for item in (Order(7), Model(order_id=7))),  # Pydantic knows no Structs.
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_members_of_all_types_are_the_same_in_every_form(form: str, item: Any) -> None:
    event = whole(form, type(item))(
        at=dt.datetime(2026, 11, 20, 10, tzinfo=dt.UTC),
        day=dt.date(2026, 11, 20),
        id=uuid.UUID(int=7),
        total=decimal.Decimal("19.90"),
        color=Color.RED,
        item=item,
        colors={Color.RED: 2},
    )
    assert encode_event(event) == (
        b'{"at":"2026-11-20T10:00:00Z","day":"2026-11-20","id":"00000000-0000-0000-0000-000000000007","total":"19.90",'
        b'"color":"red","item":{"order_id":7},"note":null,"colors":{"red":2}}'
    )


@pytest.mark.parametrize(
    "event", [Renamed(7), Aliased(orderId=7), AliasedApart(id=7), AliasedDataclass(orderId=7)], ids=kind_of
)
def test_members_have_their_names_in_json(event: Any) -> None:
    assert encode_event(event) == b'{"orderId":7}'
    if not isinstance(event, AliasedDataclass):  # Within another value it is written as any other dataclass.
        assert encode_event({"orders": [event]}) == b'{"orders":[{"orderId":7}]}'
    assert encode_event(DataChange("order", "U", event)) == b'{"data_type":"order","data_op":"U","data":{"orderId":7}}'


def test_document_is_written_by_the_serializer_of_a_model() -> None:
    assert encode_event(Written(secret="four")) == b'{"length":4}'


def test_data_change_is_written_with_its_metadata() -> None:
    change = DataChange("order", "D", {"order_id": 7}, {"flow_id": "f"})

    assert (
        encode_event(change) == b'{"data_type":"order","data_op":"D","data":{"order_id":7},"metadata":{"flow_id":"f"}}'
    )
    assert pickle.loads(pickle.dumps(change)) == change
    assert penstock.DataChange is DataChange


def test_data_change_has_one_of_four_operations() -> None:
    for operation in ["u", "update", "", None, 1]:
        with pytest.raises(BadParameter, match=r"data_op .* allowed: C \(created\), U \(updated\), D \(deleted\) or S"):
            DataChange("order", operation, {})


def test_data_type_of_a_change_is_a_text() -> None:
    with pytest.raises(BadParameter, match="data_type"):
        DataChange(dict, "U", {})  # type: ignore[arg-type]


def test_one_event_is_distinguished_from_several() -> None:
    one = [*ORDERS[:8], AliasedDataclass(orderId=1), Basket(), DataChange("order", "C", {}), Order, Struct, Model]
    assert all(map(is_one_event, one))
    assert not any(map(is_one_event, ([{"a": 1}], (Order(1), Order(2)))))


def test_class_is_no_event() -> None:
    for kind in [Order, Struct, Model]:
        with pytest.raises(TypeError, match=f"{kind.__name__} is a class: publish an instance"):
            encode_event(kind)


def test_bytes_and_text_stay_as_they_are() -> None:
    assert encode_event('{ "a" : 1.50 }') == b'{ "a" : 1.50 }'


def test_values_of_python_are_written_in_their_usual_form() -> None:
    event = {
        "at": dt.datetime(2026, 11, 20, 10, tzinfo=dt.UTC),
        "id": uuid.UUID(int=7),
        "total": decimal.Decimal("19.90"),
        "orders": [Model(order_id=7), types.MappingProxyType({"order_id": 8})],
    }

    assert encode_event(event) == (
        b'{"at":"2026-11-20T10:00:00Z","id":"00000000-0000-0000-0000-000000000007","total":"19.90",'
        b'"orders":[{"order_id":7},{"order_id":8}]}'
    )
    assert encode_event({"a": None, "b": 1.5}) == b'{"a":null,"b":1.5}'
    assert encode_event(Anything(value=None)) == b'{"value":null}'
    assert encode_event([Anything(value={(1, 2): None})]) == b'[{"value":{"1,2":null}}]'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_number_without_a_form_in_json_is_refused_with_its_path(number: float) -> None:
    for path, event in {
        "a": {"a": number},
        r"a\[0\]\.b\[0\]": {"a": [{"b": (number,)}]},
        "value": Measured(value=number),
        r"value\[0\]": Anything(value=[number]),
        r"a\['b c'\]\.value": {"a": types.MappingProxyType({"b c": Anything(value=number)})},
        r"data\.value\.a": DataChange("order", "U", Anything(value={"a": number})),
    }.items():
        with pytest.raises(InvalidEvent, match=rf"{path} is {number}, which JSON has no number for"):
            encode_event(event)


AMSTERDAM = dt.timezone(dt.timedelta(minutes=19, seconds=32))
"""An offset that was in force, and that JSON's times cannot say."""
BORN = dt.datetime(1930, 1, 1, 12, tzinfo=AMSTERDAM)
IN_UTC = "1930-01-01T11:40:28Z"


def test_time_with_seconds_in_its_zone_offset_keeps_its_instant() -> None:
    for seconds in [1, 45, -20, 60 * 19 + 32]:
        at = dt.datetime(1930, 1, 1, 12, 0, 0, 5, tzinfo=dt.timezone(dt.timedelta(seconds=seconds)))

        written = msgspec.json.decode(encode_event({"days": [{"at": at}]}))["days"][0]["at"]

        assert written.endswith("Z")
        assert dt.datetime.fromisoformat(written) == at


def test_time_is_in_utc_only_where_its_offset_cannot_be_written() -> None:
    oslo = dt.datetime(2026, 7, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    event = Renamed({"born": BORN, "oslo": oslo, "naive": BORN.replace(tzinfo=None), BORN: None})  # type: ignore[arg-type]

    assert msgspec.json.decode(encode_event(event)) == {
        "orderId": {"born": IN_UTC, "oslo": "2026-07-01T12:00:00+02:00", "naive": "1930-01-01T12:00:00", IN_UTC: None}
    }
    assert encode_event({"born": {BORN: 1}}) == b'{"born":{"1930-01-01T11:40:28Z":1}}', "a name alone"


@pytest.mark.parametrize(
    ("path", "event"),
    [
        ("at", {"at": BORN.timetz()}),
        ("value", Anything(value=BORN)),
        (r"a\[1\]\.value", {"a": [BORN, Anything(value=BORN)]}),
        ("at", {"at": BORN, "raw": msgspec.Raw(b"1.50")}),
        ("at", {"at": dt.datetime(1, 1, 1, tzinfo=AMSTERDAM)}),
    ],
    ids=["time of day", "model", "model within", "beside raw JSON", "before year 1 in UTC"],
)
def test_time_that_cannot_be_written_in_utc_is_refused_with_its_path(path: str, event: Any) -> None:
    with pytest.raises(InvalidEvent, match=rf"{path} is .*its zone offset 0:19:32 has seconds"):
        encode_event(event)


def test_half_a_surrogate_pair_is_refused() -> None:
    for event in ['{"a":"\ud800"}', {"a": "\ud800"}, Anything(value="\ud800")]:
        with pytest.raises(InvalidEvent, match="surrogate"):
            encode_event(event)


def test_value_without_a_form_in_json_is_a_type_error() -> None:
    for event in ({"a": object()}, Anything(value=object()), {"a": [Anything(value=b"\xff")]}):
        with pytest.raises(TypeError, match="no form in JSON"):
            encode_event(event)


def itself() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["a"] = [found]
    return found


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    "event",
    [itself(), nested(100_000), types.MappingProxyType(itself()), Order.__new__(Order), Anything(value=nested(100_000)),
     {"m": Anything(value=itself())}, {"null": None, "a": nested(980)}, DataChange("order", "U", itself())],
    ids=["itself", "deep", "mapping", "dataclass", "deep model", "model", "deep with null", "data change"],
)  # fmt: skip
def test_endless_event_is_refused_with_the_depth_allowed(event: Any) -> None:
    if isinstance(event, Order):
        event.__dict__ |= {"order_id": event}
    with pytest.raises(InvalidEvent, match="it holds itself, or is nested too deeply: 256 levels are allowed"):
        encode_event(event)


class Failing(pydantic.BaseModel):
    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        raise ValueError("no total yet")


def test_error_of_a_models_own_code_is_raised_as_it_is() -> None:
    with pytest.raises(ValueError, match="no total yet"):
        encode_event(Failing())


# Metadata.


def fill(raw: bytes, moment: dt.datetime | None = None) -> bytes:
    at = moment or dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    return fill_metadata(raw, eid=lambda: uuid.UUID(int=7), occurred_at=lambda: at)


def test_complete_metadata_stays_as_it_is() -> None:
    raw = b'{"n": 1.50, "metadata" : {"occurred_at":"t", "eid":"e"} }'

    assert fill(raw) == raw


def test_missing_and_null_members_of_metadata_are_filled_in() -> None:
    eid = b'"eid":"00000000-0000-0000-0000-000000000007"'
    at = b'"occurred_at":"2024-01-01T00:00:00.000Z"'

    assert fill(b'{"n":1.50,"metadata":{"eid":null,"flow_id":"\\u0041"}}') == (
        b'{"n":1.50,"metadata":{%b,"flow_id":"\\u0041",%b}}' % (eid, at)
    )
    assert fill(b'{"n":1,"metadata":null}') == b'{"n":1,"metadata":{%b,%b}}' % (eid, at)
    assert fill(b'{"metadata":{"flow_id":null,"eid":"e","occurred_at":"t","parent_eids":null}}') == (
        b'{"metadata":{"eid":"e","occurred_at":"t"}}'
    )


def test_time_of_metadata_is_utc_to_the_millisecond() -> None:
    moment = dt.datetime(2024, 1, 1, 2, 0, 0, 123_999, tzinfo=dt.timezone(dt.timedelta(hours=2)))

    assert b'"2024-01-01T00:00:00.123Z"' in fill(b"{}", moment)


def test_metadata_other_than_an_object_is_refused() -> None:
    for raw in [b'{"metadata":3}', b'{"metadata":"null"}', b'{"metadata":[]}', b"[]"]:
        with pytest.raises(InvalidEvent, match="not an object"):
            fill(raw)


PLAIN_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(BORN)
    | st.sampled_from([msgspec.Raw(b"[1,\n2]"), msgspec.Raw(b"{\r}"), b"\n", Anything(value=1)])
    | st.sampled_from([1 << 63, -(1 << 64), "\ud800"]),
    lambda values: st.lists(values, max_size=3)
    | st.dictionaries(st.text(max_size=3) | st.integers() | st.floats(), values, max_size=3),
    max_leaves=5,
)  # fmt: skip


@given(st.lists(st.dictionaries(st.text(max_size=5), PLAIN_VALUES, max_size=4), min_size=1, max_size=3))
def test_events_encoded_together_are_those_encoded_one_by_one(events: list[dict[str, Any]]) -> None:
    together = encode_together(events)

    if together is not None:
        assert together == [encode_event(event) for event in events]
        assert not any(b"\n" in raw or b"\r" in raw for raw in together)


def test_events_of_plain_values_are_encoded_together_and_others_are_not() -> None:
    plain = {"a": None, "b": [1.5, -0.0, True, {"é\n": "\u2028", "12:30:15": 1e308}], "at": "2013-01-01T05:15:00+01:00"}
    assert encode_together([plain, {}]) == [encode_event(plain), b"{}"]

    for other in ([float("nan")], [None, float("-inf")], BORN, Anything(value=1), object(), "\ud800", itself()):
        assert encode_together([plain, {"a": other}]) is None
    assert encode_together([plain, b"{}"]) is None


METADATA = st.dictionaries(
    st.sampled_from(["eid", "occurred_at", "flow_id", "é"]), st.none() | st.text(max_size=3) | st.integers(0, 9)
)


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2), st.none() | METADATA | st.just("absent"))
def test_metadata_of_a_dict_is_filled_like_that_of_its_json(event: dict[str, Any], metadata: Any) -> None:
    if metadata != "absent":
        event = {"first": 1, "metadata": metadata, **event}
    raw = encode_event(event)
    when = dt.datetime(2026, 11, 20, 12, 30, 15, 999_999, tzinfo=AMSTERDAM)
    written: dict[str, Any] = {"eid": lambda: uuid.UUID(int=7), "occurred_at": lambda: when}

    assert fill_metadata_of(event, raw, **written) == fill_metadata(raw, **written)
