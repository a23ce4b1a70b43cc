"""Keeps schemas out by which a single event could keep a validator busy for ever.

A validator follows every reference each time it meets it. So a small schema can ask for exponentially many looks: by
definitions that each refer twice to the next, or by one that refers to itself twice for the same member, which doubles
the work with each level of an event. Patterns are another matter: RE2 bounds what they take.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from penstock.core.walk import COMBINED, Pointer, Schema, nodes, shown, steps
from penstock.errors import InvalidEventType

APPLIED_MAX: Final = 10_000
"""How many schemas may be applied to one value."""
_IN_PLACE: Final = ("not", "if", "then", "else")
_REST: Final = "/"
"""Begins the label of a member, and stands alone for all that are not named."""
_REST_ITEMS: Final = "#"
"""The same for items."""
_PATTERNS: Final = "~"
"""Stands for what is applied to members by their pattern, which any of them may fit."""

Loads = Counter[Pointer]
"""How often each schema, known by its place, is applied."""


def check_unfolding(schema: Schema) -> None:
    """Raise InvalidEventType where the work for an event could grow faster than the event does.

    >>> check_unfolding({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}})
    >>> check_unfolding({"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}})
    Traceback (most recent call last):
    ...
    penstock.errors.refused.InvalidEventType: Field "schema.schema" leads from ...
    """
    if any("$ref" in node for _, node in nodes(schema)):  # Without, each schema is met where it stands alone.
        _Unfolding(schema).check()


class _Unfolding:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._applied: dict[Pointer, Loads] = {}
        self._open: set[Pointer] = set()
        self._nodes: dict[Pointer, Schema] = {}

    def check(self) -> None:
        within: dict[Pointer, list[Loads]] = {}
        waiting: list[Pointer] = [()]
        while waiting:
            at = waiting.pop()
            if at not in within:
                within[at] = self._within(at)
                waiting += (place for loads in within[at] for place in loads)
        groups = _circles(
            {at: [*dict.fromkeys(place for loads in each for place in loads)] for at, each in within.items()}
        )
        growth: dict[int, int] = {}
        for at in sorted(within, key=groups.__getitem__):  # What others lead to comes before them.
            own = groups[at]
            for loads in within[at]:
                back = [place for place in loads.elements() if groups[place] == own]
                if len(back) > 1:
                    raise _wrong(
                        f"leads from {shown(back[0])} and {shown(back[1])} back to {shown(at)} for the same member: "
                        "the work for an event would double with each of its levels"
                    )
                size = sum(times * growth.get(groups[place], 1) for place, times in loads.items())
                growth[own] = max(growth.get(own, 1), size)
                if size > APPLIED_MAX:
                    raise _wrong(f"applies more than {APPLIED_MAX} schemas to one value within {shown(at)}")

    def _within(self, at: Pointer) -> list[Loads]:
        """Return what is applied to each member or item of the value that *at* is applied to."""
        parts = [(times, self._parts(place)) for place, times in self._in_place(at).items()]
        found = []
        for rest in (_REST, _REST_ITEMS):
            for label in dict.fromkeys([rest, *(label for _, each in parts for label in each if label[0] == rest)]):
                loads: Loads = Counter()
                for times, each in parts:
                    for child in (
                        *each.get(label, each.get(rest, ())),
                        *(each.get(_PATTERNS, ()) if rest == _REST else ()),
                    ):
                        loads[child] += times
                if loads:
                    found.append(loads)
        return found

    def _in_place(self, at: Pointer) -> Loads:
        """Return all the schemas that are applied to the value that *at* is applied to."""
        if at in self._applied:
            return self._applied[at]
        if at in self._open:
            raise _wrong(f"refers at {shown(at)} to itself without end")
        self._open.add(at)
        found: Loads = Counter({at: 1})
        for child in self._beside(at):
            found.update(self._in_place(child))
            if found.total() > APPLIED_MAX:
                raise _wrong(f"applies more than {APPLIED_MAX} schemas to one value at {shown(at)}")
        self._open.discard(at)
        self._applied[at] = found
        return found

    def _beside(self, at: Pointer) -> Iterator[Pointer]:
        """Yield what is applied to the same value as *at*."""
        node = self._node(at)
        if isinstance(reference := node.get("$ref"), str):
            yield steps(reference)
            return
        for method in COMBINED:
            held = node.get(method)
            yield from ((*at, method, str(number)) for number in range(len(held) if isinstance(held, list) else 0))
        yield from ((*at, keyword) for keyword in _IN_PLACE if isinstance(node.get(keyword), dict))
        for name, each in _named(node, "dependencies"):
            if isinstance(each, dict):
                yield (*at, "dependencies", name)

    def _parts(self, at: Pointer) -> dict[str, list[Pointer]]:
        """Return what *at* applies to which members and items; to those that it does not name, the rest."""
        node = self._node(at)
        if "$ref" in node:
            return {}
        parts: dict[str, list[Pointer]] = {}
        for name, _ in _named(node, "properties"):
            parts[_REST + name] = [(*at, "properties", name)]
        if patterns := [(*at, "patternProperties", name) for name, _ in _named(node, "patternProperties")]:
            parts[_PATTERNS] = patterns
        items = node.get("items")
        if isinstance(items, list):
            parts |= {f"{_REST_ITEMS}{number}": [(*at, "items", str(number))] for number in range(len(items))}
        rests = {"additionalProperties": _REST, "additionalItems" if isinstance(items, list) else "items": _REST_ITEMS}
        parts |= {label: [(*at, keyword)] for keyword, label in rests.items() if isinstance(node.get(keyword), dict)}
        if isinstance(node.get("contains"), dict):
            for label in [_REST_ITEMS, *(label for label in parts if label[0] == _REST_ITEMS)]:
                parts.setdefault(label, []).append((*at, "contains"))
        return parts

    def _node(self, at: Pointer) -> Schema:
        """Return the schema at a place, which was found to be there."""
        if at not in self._nodes:
            found: Any = self._schema
            for step in at:
                found = found[int(step)] if isinstance(found, list) else found.get(step, {})
            self._nodes[at] = found if isinstance(found, dict) else {}
        return self._nodes[at]


def _circles(within: dict[Pointer, list[Pointer]]) -> dict[Pointer, int]:
    """Return for each place the number of its group: two are in one when each leads to the other (Tarjan, 1972).

    A group's number is higher than those of all to which it leads.
    """
    order: dict[Pointer, int] = {}
    lowest: dict[Pointer, int] = {}
    stack: list[Pointer] = []
    group: dict[Pointer, int] = {}
    groups = 0
    for root, leads_to in within.items():
        if root in order:
            continue
        order[root] = lowest[root] = len(order)
        stack.append(root)
        way = [(root, iter(leads_to))]
        while way:
            at, ahead = way[-1]
            following = next(ahead, None)
            if following is None:
                way.pop()
                if way:
                    lowest[way[-1][0]] = min(lowest[way[-1][0]], lowest[at])
                if lowest[at] == order[at]:
                    number, groups = groups, groups + 1
                    while at not in group:
                        group[stack.pop()] = number
            elif following not in order:
                order[following] = lowest[following] = len(order)
                stack.append(following)
                way.append((following, iter(within[following])))
            elif following not in group:
                lowest[at] = min(lowest[at], order[following])
    return group


def _named(node: Schema, keyword: str) -> Iterator[tuple[str, Any]]:
    held = node.get(keyword)
    yield from held.items() if isinstance(held, dict) else ()


def _wrong(reason: str) -> InvalidEventType:
    return InvalidEventType(field="schema.schema", reason=reason)
