from typing import Any

import pytest

from penstock.core.guidelines.draft import Draft
from tests.unit.core.guidelines.definitions import COUNT, TEXT, described

SCHEMA = {
    "properties": {"id": TEXT, "data": {"properties": {"id": TEXT}}, "at": TEXT | {"format": "date"}, "day": COUNT},
    "required": ["id"],
}


def draft(category: str, **more: Any) -> Draft:
    return Draft({"category": category, "schema": described(SCHEMA)} | more)


@pytest.mark.parametrize(
    ("category", "text", "path", "is_so"),
    [
        ("business", "metadata.eid", ("metadata", "eid"), (True, True, True)),
        ("business", "metadata.flow_id", ("metadata", "flow_id"), (True, True, False)),
        ("business", "metadata.colour", ("metadata", "colour"), (False, False, False)),
        ("business", "metadata", ("metadata",), (False, False, False)),
        ("business", "data.id", ("data", "id"), (False, True, False)),
        ("undefined", "metadata.eid", ("metadata", "eid"), (False, False, False)),
        ("data", "data_op", ("data_op",), (True, True, True)),
        ("data", "data.id", ("data", "id"), (False, True, False)),
        ("data", "data.at", ("at",), (False, True, False)),
        ("data", "id", ("id",), (False, True, True)),
        ("data", "data", ("data",), (False, True, False)),
    ],
)
def test_a_field_is_one_of_the_payload_or_of_the_hub(
    category: str, text: str, path: tuple[str, ...], is_so: tuple[bool, bool, bool]
) -> None:
    field = draft(category).field(text)

    assert (field.path, (field.is_own, field.is_known, field.is_required)) == (path, is_so)


def test_the_keys_of_a_data_change_are_in_its_payload_alone() -> None:
    [key] = draft("data", partition_key_fields=["metadata.eid"]).key_fields

    assert (key.is_own, key.is_known) == (False, False)


@pytest.mark.parametrize(("text", "is_time"), [("at", True), ("day", True), ("id", False), ("metadata.eid", False)])
def test_a_moment_is_known_by_its_format_or_its_name(text: str, is_time: bool) -> None:
    assert draft("business").field(text).is_time == is_time


def test_a_format_that_is_none_of_time_goes_before_the_name() -> None:
    schema = described({"properties": {"updated": TEXT | {"format": "uuid"}}})

    assert not draft("business", schema=schema).field("updated").is_time


def test_odd_members_are_passed_over() -> None:
    odd = Draft({"category": 7, "annotations": {"a": 1, "b": "x"}, "partition_key_fields": ["a", 1, ""], "schema": []})

    assert (odd.category, odd.strategy, odd.schema) == ("", "random", None)
    assert odd.annotations == {"b": "x"}
    assert [field.text for field in odd.key_fields] == ["a"]
