"""The typed columns of a query, from what the registry says of its event types."""

from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.spark.connection import RegisteredSchema
from penstock.spark.options import parse_options
from penstock.spark.registry import find_typed_columns

NUMBERS = {"properties": {"id": {"type": "integer"}, "amount": {"type": "number"}}}
NAMES = {"properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}


class Registered:
    """A registry that notes what it is asked for."""

    def __init__(self, **schemas: dict[str, Any]) -> None:
        self.schemas = schemas
        self.asked: list[tuple[str, str | None]] = []

    def load_schema(self, event_type: str, version: str | None) -> RegisteredSchema:
        self.asked.append((event_type, version))
        return RegisteredSchema(version or "2.0.0", "undefined", self.schemas[event_type])


def options(**given: str) -> Any:
    return parse_options({"url": "http://localhost:1", "eventType": "a,b", "payload": "typed"} | given)


def test_the_members_of_all_event_types_are_columns() -> None:
    found = find_typed_columns(Registered(a=NUMBERS, b=NAMES), options())

    assert found.columns.simpleString() == "struct<id:bigint,amount:double,name:string>"
    assert found.versions == {"a": "2.0.0", "b": "2.0.0"}


def test_versions_are_those_that_were_asked_for() -> None:
    registry = Registered(a=NUMBERS, b=NAMES)

    found = find_typed_columns(registry, options(schemaVersion='{"b": "1.1.0"}'))

    assert registry.asked == [("a", None), ("b", "1.1.0")]
    assert found.versions == {"a": "2.0.0", "b": "1.1.0"}


def test_a_schema_without_members_makes_no_columns() -> None:
    with pytest.raises(BadParameter, match=r"the schema of 'b', version 2\.0\.0, names no members\. Name them"):
        find_typed_columns(Registered(a=NUMBERS, b={}), options())
