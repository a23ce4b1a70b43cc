"""What differs between two definitions, member by member."""

import difflib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.schema.traversal import MISSING, Pointer, format_pointer, is_equal


class Difference(NamedTuple):
    """A member that one definition has otherwise than the other."""

    pointer: str
    before: Any
    """MISSING where it was not there."""
    after: Any

    def __str__(self) -> str:
        if self.before is MISSING:
            return f"+ {self.pointer}: {_text(self.after)}"
        if self.after is MISSING:
            return f"- {self.pointer}: {_text(self.before)}"
        return f"~ {self.pointer}: {_text(self.before)} -> {_text(self.after)}"

    def as_object(self) -> dict[str, Any]:
        """Return it for programs: what was not there has no member."""
        members = {"pointer": self.pointer, "before": self.before, "after": self.after}
        return {name: value for name, value in members.items() if value is not MISSING}


def differences(before: Any, after: Any, at: Pointer = ()) -> Iterator[Difference]:
    """Yield what differs, in the order of the names; lists are taken as a whole, and null is as good as nothing.

    >>> [str(each) for each in differences({"a": {"b": 1}, "c": None}, {"a": {"b": 2}, "d": "x"})]
    ['~ #/a/b: 1 -> 2', '+ #/d: "x"']
    """
    before, after = (MISSING if value is None else value for value in (before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            yield from differences(before.get(name), after.get(name), (*at, name))
    elif not is_equal(before, after) or type(before) is not type(after):
        yield Difference(format_pointer(at), before, after)


def schema_difference(before: str, after: str) -> list[str]:
    """Return how two schemas differ, as lines of a unified diff of their texts, each written in the same way.

    >>> schema_difference('{"a":1}', '{"a": 2}')
    [' {', '-  "a": 1', '+  "a": 2', ' }']
    """
    lines = difflib.unified_diff(_lines(before), _lines(after), lineterm="", n=3)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _lines(schema: str) -> list[str]:
    return json.dumps(json.loads(schema), indent=2, ensure_ascii=False).splitlines()


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
