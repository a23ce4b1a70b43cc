"""The keywords of a schema that are compared as a whole: when they say nothing, and when they let more pass.

That a keyword is looser is certain only of a schema that events have to fit: within `not` it is the other way round,
and within `oneOf` neither. The one is compared as a whole; of the other whoever compares has to know.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.core.sameness import same
from penstock.core.walk import MISSING, Schema

_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_PLAIN: Final = (*_LOWER, *_UPPER, "multipleOf", "pattern", "format", "uniqueItems")
ATTRIBUTES: Final = (*_PLAIN, "const", "not", "contains", "if", "then", "else", "propertyNames")
_NEUTRAL: Final[Mapping[str, Sequence[Any]]] = {
    **dict.fromkeys(("minLength", "minItems", "minProperties"), (0,)),
    **dict.fromkeys(("uniqueItems", "exclusiveMinimum", "exclusiveMaximum", "not"), (False,)),
    **dict.fromkeys(("then", "else", "propertyNames"), (True, {})),
}
"""With which values a keyword says no more than if it were not there."""


def attribute(node: Schema, name: str) -> Any:
    """Return the value of a keyword; MISSING where it says no more than if it were not there.

    >>> attribute({"minLength": 1}, "minLength"), attribute({"minLength": 0}, "minLength") is MISSING
    (1, True)
    """
    value = node.get(name, MISSING)
    return MISSING if any(same(value, each) for each in _NEUTRAL.get(name, ())) else value


def without_neutral(node: Schema) -> Schema:
    """Return *node* without the keywords that say no more than if they were not there.

    >>> without_neutral({"type": "array", "uniqueItems": False})
    {'type': 'array'}
    """
    return {name: value for name, value in node.items() if name not in _NEUTRAL or attribute(node, name) is not MISSING}


def lets_all_pass(name: str, old: Any, new: Any) -> bool:
    """Tell whether it is certain that a keyword's value *new* lets whatever pass that *old* does; MISSING is no value.

    >>> lets_all_pass("minimum", 1, 0), lets_all_pass("format", "date", "time"), lets_all_pass("format", "", MISSING)
    (True, False, True)
    """
    if new is MISSING or old is MISSING:
        return new is MISSING
    if not {type(old), type(new)} <= {int, float}:  # In draft 4 an exclusive bound is true or false.
        return False
    if name in _LOWER:
        return bool(new <= old)
    if name in _UPPER:
        return bool(new >= old)
    return name == "multipleOf" and type(old) is type(new) is int and old % new == 0


def suits_consumers(name: str, old: Any, new: Any) -> bool:
    """Tell whether it is certain that what a keyword's value *new* lets pass, *old* does, whatever members are dropped.

    >>> suits_consumers("minimum", 0, 1), suits_consumers("not", MISSING, {"required": ["a"]})
    (True, False)
    """
    return name in _PLAIN and lets_all_pass(name, new, old)


def types_of(node: Schema) -> frozenset[str] | None:
    """Return which types *node* says a value may have; None where it does not say.

    >>> types_of({"type": "string"}), types_of({})
    (frozenset({'string'}), None)
    """
    types = node.get("type")
    if types is None:
        return None
    return frozenset(types if isinstance(types, list) else [types])


def has_all_types(wide: frozenset[str], narrow: frozenset[str]) -> bool:
    """Tell whether the types *wide* let every value pass that *narrow* do: an integer is a number.

    >>> has_all_types(frozenset(["number", "null"]), frozenset(["integer"]))
    True
    """
    return all(each in wide or (each == "integer" and "number" in wide) for each in narrow)
