"""Nodes of which the tests make schemas."""

from typing import Any

Schema = dict[str, Any]
STRING, NUMBER, OBJECT, ARRAY = ({"type": name} for name in ("string", "number", "object", "array"))


def within(node: Any, **beside: Any) -> Schema:
    """Return the schema of an event with the property `a`."""
    return {"properties": {"a": node}, **beside}


def draft(number: int) -> Schema:
    return {"$schema": f"http://json-schema.org/draft-0{number}/schema#"}
