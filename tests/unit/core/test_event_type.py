"""Event types as their owners define them."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.event_type import EventType, is_name
from penstock.errors import InvalidEventType

MINIMAL = {"name": "order.placed", "category": "undefined"}


def test_the_defaults_are_random_and_one_partition() -> None:
    found = EventType.parse(MINIMAL)
    assert (found.partition_strategy, found.partition_count, found.partition_key_fields) == ("random", 1, ())
    assert not found.exactly_once
    assert found.definition == MINIMAL


@pytest.mark.parametrize("category", ["undefined", "business", "data", "BUSINESS", "Data"])
def test_categories_may_be_written_in_any_case(category: str) -> None:
    assert EventType.parse(MINIMAL | {"category": category}).category == category.lower()


def test_what_is_not_known_is_kept() -> None:
    definition = MINIMAL | {"schema": {"type": "json_schema", "schema": "{}"}, "x": [1, None]}
    assert EventType.parse(definition).definition == definition


@pytest.mark.parametrize("name", ["a", "a.b", "A-1_x.2b", "order.placed", "a" * 255])
def test_a_name_is_made_of_parts_with_dots_between(name: str) -> None:
    assert is_name(name)
    assert EventType.parse(MINIMAL | {"name": name}).name == name


@pytest.mark.parametrize(
    "name", ["", ".", "a.", ".a", "a..b", "1a", "_a", "a b", "a/b", "é", "a\n", "a\x00", "a" * 256]
)
def test_nothing_else_is_a_name(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(InvalidEventType) as raised:
        EventType.parse(MINIMAL | {"name": name})
    assert raised.value.fields["field"] == "name"


def test_more_parallelism_than_partitions_allowed_is_refused() -> None:
    with pytest.raises(InvalidEventType, match="1 to 256"):
        EventType.parse(MINIMAL | {"default_statistic": {"read_parallelism": 257, "write_parallelism": 1}})


FIELDS = ["name", "category", "partition_strategy", "partition_key_fields", "partition_count", "default_statistic"]
VALUES = (
    st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.none())
)


@given(st.dictionaries(st.sampled_from([*FIELDS, "options"]), VALUES))
def test_no_definition_is_worse_than_invalid(definition: dict[str, Any]) -> None:
    with suppress(InvalidEventType):
        found = EventType.parse(MINIMAL | definition)
        assert is_name(found.name)
        assert 1 <= found.partition_count <= 256


@pytest.mark.parametrize("definition", [None, [], "x", 1])
def test_a_definition_is_an_object(definition: Any) -> None:
    with pytest.raises(InvalidEventType):
        EventType.parse(definition)
