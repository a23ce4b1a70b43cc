"""Which partition an event falls in: the vectors of 3.6, as clients see them who predict it."""

from typing import Any

import pytest

from tests.nakadi import EventType, Nakadi, business, change, json_schema

COUNTS = (3, 4, 8, 12)
VECTORS: dict[str, tuple[Any, tuple[int, int, int, int]]] = {
    "empty": ("", (0, 0, 0, 0)),
    "a": ("a", (1, 1, 1, 1)),
    "Hello": ("Hello", (2, 2, 2, 10)),
    "null": (None, (2, 3, 7, 9)),
    "the text null": ("null", (2, 3, 7, 9)),
    "true": (True, (1, 2, 6, 8)),
    "the text true": ("true", (1, 2, 6, 8)),
    "order": ("order-1", (2, 2, 6, 10)),
    "beyond 16 bits": ("\U0001f600", (1, 3, 3, 5)),
    "the least number": ("polygenelubricants", (2, 0, 0, 6)),
}
"""What the key is, and the partition that it falls in at each of `COUNTS`."""


def hashed(nakadi: Nakadi, partitions: int, *fields: str, **members: Any) -> EventType:
    return nakadi.create(
        partitions=partitions,
        partition_strategy="hash",
        partition_key_fields=list(fields),
        **{"compatibility_mode": "forward", "schema": json_schema("{}")} | members,
    )


def placed(created: EventType, *events: Any) -> list[int]:
    """Publish *events*, and return the partition of each; what is text is sent as it is."""
    for event in events:
        created.publish(f"[{event}]" if isinstance(event, str) else [event][0])
    found = {json_key(event): int(partition) for partition, _, event in created.read(len(events))}
    assert len(found) == len(events)
    return [found[number] for number in range(len(events))]


def json_key(event: dict[str, Any]) -> int:
    number: int = event.get("data", event)["number"]
    return number


@pytest.mark.parametrize("at", range(len(COUNTS)), ids=COUNTS.__getitem__)
def test_each_key_falls_where_its_hash_says(nakadi: Nakadi, at: int) -> None:
    """3.6: partitions are ordered as text, so that 10 stands before 2 (11, no. 22)."""
    created = hashed(nakadi, COUNTS[at], "key")
    found = placed(created, *({"number": number, "key": key} for number, (key, _) in enumerate(VECTORS.values())))
    assert dict(zip(VECTORS, found, strict=True)) == {name: where[at] for name, (_, where) in VECTORS.items()}


@pytest.mark.parametrize(
    ("keys", "where"),
    [
        (("order-1", "customer-42"), (1, 3, 7, 5)),
        (("customer-42", "order-1"), (1, 3, 7, 5)),
        (("sku=123", "price=512$"), (2, 0, 4, 6)),
    ],
)
def test_the_hashes_of_several_keys_are_summed(
    nakadi: Nakadi, keys: tuple[str, str], where: tuple[int, int, int, int]
) -> None:
    """3.6: their order does not matter."""
    for count, partition in zip(COUNTS, where, strict=True):
        created = hashed(nakadi, count, "one", "other")
        assert placed(created, {"number": 0, "one": keys[0], "other": keys[1]}) == [partition]


@pytest.mark.parametrize(
    ("spelling", "text"),
    [
        ("1", "1"),
        ("-7", "-7"),
        ("1.0", "1.0"),
        ("1.50", "1.5"),
        ("1e10", "1.0E10"),
        ("1E-5", "1.0E-5"),
        ("-0.0", "-0.0"),
        ("100.0", "100.0"),
        ("12345678.9", "1.23456789E7"),
        ("false", "false"),
        ("9223372036854775807", "9223372036854775807"),
    ],
)
def test_a_value_is_hashed_by_its_text_in_java(nakadi: Nakadi, spelling: str, text: str) -> None:
    """3.6, 3.2: among so many partitions that another text would fall elsewhere."""
    created = hashed(nakadi, 61, "key")
    one, other = placed(created, f'{{"number":0,"key":{spelling}}}', f'{{"number":1,"key":"{text}"}}')
    assert one == other


def test_a_path_leads_into_objects(nakadi: Nakadi) -> None:
    """3.6: dots separate, single quotes protect, a backslash escapes."""
    for field, event in (
        ("a.b", {"a": {"b": "Hello"}}),
        ("'a.b'.c", {"a.b": {"c": "Hello"}}),
        ("a\\.b", {"a.b": "Hello"}),
        ("'it\\'s'", {"it's": "Hello"}),
    ):
        assert placed(hashed(nakadi, 12, field), {"number": 0} | event) == [10]


def test_the_keys_of_data_changes_lie_under_data(nakadi: Nakadi) -> None:
    """3.6."""
    created = hashed(nakadi, 12, "key", category="data")
    assert placed(created, change({"number": 0, "key": "Hello"})) == [10]
    assert created.refuse(change({"number": 0}) | {"data": {}})[0]["step"] == "partitioning"


def test_the_keys_of_business_events_lie_beside_the_metadata(nakadi: Nakadi) -> None:
    """3.6."""
    assert placed(hashed(nakadi, 12, "key", category="business"), business(number=0, key="Hello")) == [10]
    created = hashed(nakadi, 12, "metadata.flow_id", category="business")
    assert placed(created, business(number=0, meta={"flow_id": "Hello"})) == [10]


@pytest.mark.parametrize("event", [{}, {"a": 1}, {"a": {}}, {"a": ["b"]}, {"a": None}], ids=str)
def test_a_key_that_is_missing_is_told_of(nakadi: Nakadi, event: dict[str, Any]) -> None:
    """3.6: or what is no object on the way."""
    (item,) = hashed(nakadi, 3, "a.b").refuse(event)
    assert (item["publishing_status"], item["step"]) == ("failed", "partitioning")


def test_random_spreads_over_all_partitions(nakadi: Nakadi) -> None:
    """3.6: uniform, each event for itself; that one of three stays empty has a chance of 10⁻³⁴."""
    created = nakadi.create(partitions=3, schema=json_schema({"properties": {"number": {"type": "integer"}}}))
    created.publish(*({"number": number} for number in range(200)))
    assert {partition for partition, _, _ in created.read(200)} == {"0", "1", "2"}


@pytest.mark.parametrize("category", ["business", "undefined"])
def test_user_defined_goes_where_the_metadata_says(nakadi: Nakadi, category: str) -> None:
    """3.6; a decision: user_defined is allowed for undefined event types, which Nakadi refuses (2.9)."""
    created = nakadi.create(
        category=category,
        partitions=3,
        partition_strategy="user_defined",
        compatibility_mode="forward",
        schema=json_schema("{}"),
    )
    created.publish(*(business(number=number, meta={"partition": str(number)}) for number in (2, 0, 1)))
    assert {event["number"]: partition for partition, _, event in created.read(3)} == {0: "0", 1: "1", 2: "2"}
    for members in ({}, {"partition": "3"}, {"partition": "-1"}, {"partition": "x"}, {"partition": ""}):
        (item,) = created.refuse(business(number=0, meta=members))
        assert (item["publishing_status"], item["step"]) == ("failed", "partitioning")


def test_keys_fall_anew_once_there_are_more_partitions(nakadi: Nakadi) -> None:
    """4.6; UserJourneyAT.testRepartition."""
    created = hashed(nakadi, 3, "key")
    created.publish({"number": 0, "key": "order-1"})
    assert created.http.put(f"{created.path}/partition-count", json={"partition_count": 8}).status_code == 204
    created.publish({"number": 1, "key": "order-1"})
    assert {event["number"]: partition for partition, _, event in created.read(2)} == {0: "2", 1: "6"}
