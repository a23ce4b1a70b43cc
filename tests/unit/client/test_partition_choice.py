"""The client chooses the partition that the hub would choose."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.registry import PartitionChoice
from penstock.core.events.event import NewEvent
from penstock.core.log.acceptance import Partitioner
from penstock.core.registry.event_type import EventType
from penstock.errors import InvalidEvent
from penstock.testing.factories import an_event_type
from tests.failing import has_code

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
VALUES = TEXTS | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()


def definition(**traits: Any) -> dict[str, Any]:
    return EventType.parse(an_event_type("order.placed", **traits)).whole


def hub_chooses(traits: dict[str, Any], event: NewEvent) -> int:
    event_type = EventType.parse(an_event_type("order.placed", **traits))
    return Partitioner(event_type).place(event.key, event, json.loads(bytes(event.data)), 1)[0]


@given(
    count=st.integers(1, 70),
    fields=st.lists(st.sampled_from(["a", "b.c", "'d.e'"]), min_size=1, max_size=3, unique=True),
    values=st.tuples(VALUES, VALUES, VALUES),
    key=st.none() | TEXTS,
    category=st.sampled_from(["undefined", "data"]),
)
def test_hash_chooses_the_partition_of_the_hub(
    count: int, fields: list[str], values: tuple[Any, Any, Any], key: str | None, category: str
) -> None:
    own = {"a": values[0], "b": {"c": values[1]}, "d.e": values[2]}
    traits: dict[str, Any] = {"partition_count": count, "partition_strategy": "hash", "partition_key_fields": fields}
    if category == "data":
        traits |= {"category": "data", "enrichment_strategies": ["metadata_enrichment"]}
    event = NewEvent.of(json.dumps({"data": own} if category == "data" else own).encode(), key=key)

    assert PartitionChoice(definition(**traits)).of(event) == hub_chooses(traits, event)


@pytest.mark.parametrize(
    "event",
    [NewEvent.of(b"{}", partition=2), NewEvent.of(b'{"metadata":{"partition":"2"}}')],
    ids=["beside the event", "in its metadata"],
)
def test_user_defined_chooses_the_given_partition(event: NewEvent) -> None:
    traits: dict[str, Any] = {"partition_count": 3, "partition_strategy": "user_defined"}

    assert PartitionChoice(definition(**traits)).of(event) == hub_chooses(traits, event) == 2


def test_random_chooses_no_partition() -> None:
    assert PartitionChoice(definition(partition_count=3)).of(NewEvent.of(b"{}", key="k")) is None


@pytest.mark.parametrize(
    ("traits", "event", "reason"),
    [
        (
            {"partition_strategy": "hash", "partition_key_fields": ["a.b"]},
            b'{"a":{}}',
            "partition key field 'a.b' is missing; give the event the field, or a key",
        ),
        (
            {"partition_strategy": "user_defined", "partition_count": 2},
            b"{}",
            "its partition is missing; it must be one that there is, 0 to 1",
        ),
        (
            {"partition_strategy": "user_defined", "partition_count": 2},
            b'{"metadata":{"partition":"2"}}',
            'its partition must be one that there is, 0 to 1, not "2"',
        ),
    ],
    ids=["no key", "no partition", "no such partition"],
)
def test_event_without_a_partition_is_refused_with_the_reason(
    traits: dict[str, Any], event: bytes, reason: str
) -> None:
    with pytest.raises(InvalidEvent, check=has_code("partition-refused")) as refused:
        PartitionChoice(definition(**traits)).of(NewEvent.of(event))

    assert refused.value.fields == {"line": 1, "reason": reason}
