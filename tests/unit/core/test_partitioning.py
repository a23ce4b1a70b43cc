"""Partitioning, bit for bit as in Nakadi: the vectors were computed independently of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.events.event import stream_name
from penstock.core.events.partitioning import hash_partition, java_hash, key_text, text_order
from penstock.core.log.acceptance import Partitioner
from penstock.core.registry.event_type import EventType
from penstock.schema.json_text import java_double
from penstock.schema.traversal import key_path
from penstock.testing.factories import an_event_type

VECTORS = [
    (("",), 0, {3: 0, 4: 0, 8: 0, 12: 0}),
    (("a",), 97, {3: 1, 4: 1, 8: 1, 12: 1}),
    (("Hello",), 69609650, {3: 2, 4: 2, 8: 2, 12: 10}),
    (("null",), 3392903, {3: 2, 4: 3, 8: 7, 12: 9}),
    (("true",), 3569038, {3: 1, 4: 2, 8: 6, 12: 8}),
    (("order-1",), -1207111310, {3: 2, 4: 2, 8: 6, 12: 10}),
    (("order-1", "customer-42"), 1315744831, {3: 1, 4: 3, 8: 7, 12: 5}),
    (("customer-42", "order-1"), 1315744831, {3: 1, 4: 3, 8: 7, 12: 5}),
    (("\U0001f600",), 1772899, {3: 1, 4: 3, 8: 3, 12: 5}),
    (("polygenelubricants",), -2147483648, {3: 2, 4: 0, 8: 0, 12: 6}),
    (("sku=123", "price=512$"), 660439892, {3: 2, 4: 0, 8: 4, 12: 6}),
]


@pytest.mark.parametrize(("texts", "total", "partitions"), VECTORS, ids=[",".join(v[0]) or "empty" for v in VECTORS])
def test_key_has_the_partition_of_its_hash(texts: tuple[str, ...], total: int, partitions: dict[int, int]) -> None:
    wrapped = sum(map(java_hash, texts)) & 0xFFFFFFFF
    assert (wrapped - (1 << 32) if wrapped >> 31 else wrapped) == total
    assert {count: hash_partition(texts, count) for count in partitions} == partitions


@given(st.text(), st.integers(1, 256))
def test_any_key_has_an_existing_partition_by_the_hash_of_its_utf_16_units(text: str, count: int) -> None:
    assert 0 <= hash_partition((text,), count) < count
    units = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "little")) % (1 << 32)
    assert java_hash(text) == (value - (1 << 32) if value >> 31 else value)


def test_partitions_are_numbered_in_the_order_of_their_names_as_text() -> None:
    assert text_order(3) == (0, 1, 2)
    assert text_order(12) == (0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9)


KEYS = [
    ("x", "x"),
    ("", ""),
    (None, "null"),
    (True, "true"),
    (False, "false"),
    (7, "7"),
    (-7, "-7"),
    (10**20, "1" + "0" * 20),
    (1.0, "1.0"),
    (-0.0, "-0.0"),
    (1e10, "1.0E10"),
    (1e-5, "1.0E-5"),
    (1e7, "1.0E7"),
    (9999999.0, "9999999.0"),
    (0.001, "0.001"),
    (0.00099, "9.9E-4"),
    (1.5e300, "1.5E300"),
    (123456789.125, "1.23456789125E8"),
    ({"a": [1, "é"]}, '{"a":[1,"é"]}'),
    ([], "[]"),
]


def test_value_is_a_key_as_java_writes_it() -> None:
    for value, text in KEYS:
        assert key_text({"field": {"inner": value}}, ("field", "inner")) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_number_as_java_writes_it_is_the_same_number(value: float) -> None:
    assert float(java_double(value)) == value


def test_path_is_split_at_dots_unless_quoted_or_escaped() -> None:
    rows: list[tuple[str, tuple[str, ...]]] = [
        ("id", ("id",)), ("order.id", ("order", "id")), ("'a.b'.c", ("a.b", "c")), (r"a\.b.c", ("a.b", "c")),
        (r"a\'b", ("a'b",)), (r"a\\b", (r"a\b",)), ("a.'b'.c", ("a", "b", "c")), ("", ("",)),
    ]  # fmt: skip
    for field, path in rows:
        assert key_path(field) == path


def test_missing_key_is_named() -> None:
    rows: list[dict[str, object]] = [{}, {"order": None}, {"order": []}, {"order": "id"}, {"order": {"ID": 1}}]
    for event in rows:
        with pytest.raises(KeyError, match=r"order\.id"):
            key_text(event, ("order", "id"))


def test_random_partitions_are_all_partitions_and_no_others() -> None:
    five, one = (Partitioner(EventType.parse(an_event_type(partition_count=count))) for count in (5, 1))

    assert set(five.choose_random(1_000)) == {*range(5)}
    assert {number for _ in range(200) for number in five.choose_random(1)} == {*range(5)}
    assert (one.choose_random(2), one.choose_random(1)) == ([0, 0], [0])


@pytest.mark.parametrize(
    ("key", "is_hashed", "name"),
    [("7", True, "order-7"), ("7", False, "order-3_7"), (None, True, "order-3_"), (None, False, "order-3_")],
)
def test_name_of_a_stream_has_its_partition_unless_the_key_decides_it(
    key: str | None, is_hashed: bool, name: str
) -> None:
    assert stream_name("order", 3, key, is_hashed=is_hashed) == name
    assert stream_name("order", 3, "", is_hashed=True) != stream_name("order", 3, None, is_hashed=True)
