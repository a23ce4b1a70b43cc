"""Event types as their owners define them."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.event_type import EventType
from penstock.core.limits import NAKADI
from penstock.errors import InvalidEventType, MalformedEventType
from penstock.testing.factories import an_event_type

STATISTIC = {"messages_per_minute": 1, "message_size": 1, "read_parallelism": 3, "write_parallelism": 257}


def test_the_defaults_are_random_and_one_partition() -> None:
    definition = an_event_type()
    del definition["partition_count"]
    found = EventType.parse(definition)

    assert (found.partition_strategy, found.partition_count, found.partition_key_fields) == ("random", 1, ())
    assert (found.compatibility_mode, found.cleanup_policy, found.schema_version) == ("forward", "delete", "1.0.0")
    assert not found.exactly_once
    assert not found.compacted


@pytest.mark.parametrize("category", ["undefined", "business", "data", "BUSINESS", "Data"])
def test_categories_may_be_written_in_any_case(category: str) -> None:
    definition = an_event_type(category=category)

    assert EventType.parse(definition).category == category.lower()


def test_what_is_not_known_is_kept_and_what_the_store_knows_is_not() -> None:
    found = EventType.parse(an_event_type(x=[1, None], created_at="then", updated_at="now", partition_count=3))

    assert found.definition["x"] == [1, None]
    assert not {"created_at", "updated_at", "partition_count"} & found.definition.keys()
    assert found.partition_count == 3


def test_parallelism_asks_for_partitions_up_to_the_limit() -> None:
    definition = an_event_type(default_statistic=STATISTIC)
    del definition["partition_count"]

    assert EventType.parse(definition).partition_count == 256
    assert EventType.parse(definition, NAKADI).partition_count == 8


def test_more_partitions_than_allowed_are_refused() -> None:
    with pytest.raises(InvalidEventType, match="1 to 256"):
        EventType.parse(an_event_type(partition_count=257))


def test_a_definition_that_was_parsed_is_read_again_as_it_is() -> None:
    found = EventType.parse(an_event_type(category="data", partition_count=2))

    assert EventType.of(found.definition, 2) == found


FIELDS = [*an_event_type(), "options", "annotations", "labels", "authorization", "audience", "ordering_key_fields"]
VALUES = (
    st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.none())
)


@given(st.dictionaries(st.sampled_from(FIELDS), VALUES))
def test_no_definition_is_worse_than_invalid(definition: dict[str, Any]) -> None:
    with suppress(InvalidEventType):
        found = EventType.parse(an_event_type() | definition)
        assert 1 <= found.partition_count <= 256


@pytest.mark.parametrize("definition", [None, [], "x", 1])
def test_a_definition_is_an_object(definition: Any) -> None:
    with pytest.raises(MalformedEventType):
        EventType.parse(definition)


def test_events_are_light_once_the_validator_is_compiled_if_there_is_little_to_look_at() -> None:
    schema = '{"title": "light", "required": ["a"]}'
    found = EventType.parse(an_event_type(schema={"type": "json_schema", "schema": schema}))
    assert not found.is_light(10)

    assert found.validator.first_invalid([{}]) == 0

    assert found.is_light(10)
    assert not found.is_light(1 << 30)
