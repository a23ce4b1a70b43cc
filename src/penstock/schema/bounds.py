"""Bounds the work of validation: refuses schemas by which a single event could block a process.

Three bounds apply:

- The number of schemas applied to one value. A validator follows each reference whenever it meets it. So a small schema
can cause exponential work, by definitions that each refer twice to the next, or by one that refers twice to itself for
the same member. A large schema can be applied to many values. `check_unfolding` bounds the number for all events and
values.
- The size of patterns. `check_patterns` bounds the states that RE2 compiles them to, and refuses patterns that RE2 does
not support.
- The time of matching, which grows with the bytes of the text and the states of the pattern: at the worst some ten
nanoseconds for each byte and state, during which no other thread runs. For large events the validator uses
`MeteredPattern`, which bounds the work of each event.
"""

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import jsonschema_rs
import re2

from penstock.errors import InvalidEventType
from penstock.schema.json_text import DEPTH_MAX, is_extreme
from penstock.schema.traversal import (
    COMBINED,
    HOLDING,
    Schema,
    abbreviate,
    format_pointer,
    list_nodes,
    make_schema_error,
    target,
)

STATES_MAX: Final = 10_000
"""Upper bound of the states of one pattern, which also determine the time to compile it."""
ALL_STATES_MAX: Final = 1_000_000
"""Upper bound of the states of all patterns of a schema, which determine their memory."""
NAMES_MAX: Final = 100
"""Upper bound of the patterns for the names of an object's members: each takes memory for each member."""
_LACKING: Final = re.compile(r"invalid perl operator: \(\?(<?[=!]|P$)|invalid escape sequence: \\[1-9k]")
"""RE2's errors for look-around and back-references; `(?P` is its whole message for `(?P=name)`."""
_QUIET: Final = re2.Options()
_QUIET.log_errors = False


def check_patterns(schema: Schema) -> None:
    """Raise InvalidEventType unless RE2 supports all patterns of *schema*, and they are within bounds.

    >>> check_patterns({"pattern": "^(a+)+$"})
    >>> check_patterns({"pattern": "(?=a)"})
    Traceback (most recent call last):
    ...
    penstock.errors.registry.InvalidEventType: Field "schema.schema" has a pattern at # that is not taken, ...
    """
    states = 0
    for where, pattern in _list_patterns(schema):
        size = _measure_pattern(where, pattern)
        states += size
        if size > STATES_MAX or states > ALL_STATES_MAX:
            raise make_schema_error(
                f"has a pattern at {where} that is too large, {abbreviate(pattern)}: it makes {size} states, where "
                f"{STATES_MAX} are allowed, and {ALL_STATES_MAX} for all patterns; maxLength bounds a text more cheaply"
            )


def _list_patterns(schema: Schema) -> Iterator[tuple[str, str]]:
    for at, node in list_nodes(schema):
        if isinstance(node.get("pattern"), str):
            yield format_pointer(at), node["pattern"]
        names = node.get("patternProperties")
        if isinstance(names, dict):
            if len(names) > NAMES_MAX:
                raise make_schema_error(
                    f"has {len(names)} patternProperties at {format_pointer(at)}, where {NAMES_MAX} are allowed"
                )
            yield from ((format_pointer(at), name) for name in names)


def count_states(pattern: str) -> int:
    """Return the number of states that RE2 compiles *pattern* to.

    A pattern that was stored before RE2 refused it counts STATES_MAX.

    >>> count_states("^a$") < count_states("^[ab]{9}$")
    True
    """
    try:
        return _measure_program(pattern)
    except re2.error:
        return STATES_MAX


def _measure_pattern(where: str, pattern: str) -> int:
    try:
        return _measure_program(pattern)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error
        lacks = " (RE2 has no look-around and no back-references)" if _LACKING.match(str(why)) else ""
        raise make_schema_error(
            f"has a pattern at {where} that is not taken, {abbreviate(pattern)}: {why}{lacks}"
        ) from None


def _measure_program(pattern: str) -> int:
    return int(re2.compile(pattern, _QUIET).programsize)


APPLIED_MAX: Final = 10_000
"""Upper bound of the schemas applied to one value."""
REFERENCES_MAX: Final = 100
"""Upper bound of the references in a row."""
VISITS_MAX: Final = 1_000_000
"""Upper bound of the nodes that the check itself visits."""
BOUNDLESS: Final = 1 << 62
"""More than any possible work."""
_CHOICES: Final = 20
"""This many values of an enum take as long as one schema."""
_DIVISION: Final = 200
"""`multipleOf` takes as long as this many schemas, since it is computed exactly."""
_EXTREME_DIVISION: Final = 1_000
"""The same if the divisor is extreme."""
_IN_PLACE: Final = ("not", "if", "then", "else")


class _Met(NamedTuple):
    """A schema that a node leads to, and the number of references on the way."""

    node: Any
    references: int


class _Level(NamedTuple):
    """The schemas applied to the members of a value, or to its items: to all unnamed ones, and to each named one."""

    rest: list[_Met]
    named: dict[str, tuple[list[_Met], list[_Met]]]
    """For each name, the schemas that apply in addition, and those of the rest that do not apply."""


class _Load(NamedTuple):
    """Counts of the schemas applied to one member: those that lead back to the group, and all others."""

    back: int
    references: int
    else_: int

    def plus(self, other: "_Load", sign: int = 1) -> "_Load":
        return _Load(*(one + sign * another for one, another in zip(self, other, strict=True)))


def check_unfolding(schema: Schema) -> None:
    """Raise InvalidEventType if the work for an event can grow faster than the event.

    >>> check_unfolding({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}})
    >>> check_unfolding({"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}})
    Traceback (most recent call last):
    ...
    penstock.errors.registry.InvalidEventType: Field "schema.schema" leads from ...
    """
    find_most_applied(schema)


def find_most_applied(schema: Schema) -> int:
    """Return the most schemas that *schema* can apply to one value of an event.

    The references of *schema* have been checked.

    Raises:
        InvalidEventType: the number is unbounded or too high.

    >>> find_most_applied({"type": "object"})
    1
    >>> find_most_applied({"items": {"anyOf": [{"type": "null"}, {"minimum": 1}]}})
    3
    """
    return _Unfolding(schema, _weight, APPLIED_MAX).find_most_applied()


def find_highest_weight(schema: Schema, weigh: Callable[[Schema], int]) -> int:
    """Return the highest sum of weights of the schemas that *schema* applies to one value; BOUNDLESS if unbounded.

    A reference weighs 1.

    >>> find_highest_weight({"allOf": [{"title": "a"}, {"title": "bcd"}]}, lambda node: len(node.get("title", "")))
    4
    """
    try:
        return _Unfolding(
            schema, lambda node: weigh(node) if isinstance(node, dict) else 0, BOUNDLESS
        ).find_most_applied()
    except InvalidEventType:
        return BOUNDLESS


class _Unfolding:
    """Unfolds the references of a schema. Schemas are identified by their Python object."""

    def __init__(self, schema: Schema, weigh: Callable[[Any], int], weight_max: int) -> None:
        self._schema = schema
        self._weigh_one = weigh
        self._weight_max = weight_max
        self._beside: dict[int, list[_Met]] = {}
        self._weights: dict[int, int] = {}
        self._visits = 0

    def find_most_applied(self) -> int:
        start = self._follow(self._schema)
        found: dict[int, Any] = {}
        levels: dict[int, list[_Level]] = {}
        waiting = [start.node]
        while waiting:
            node = waiting.pop()
            if id(node) not in levels:
                found[id(node)], levels[id(node)] = node, self._levels(node)
                waiting += (met.node for met in _targets(levels[id(node)]))
        groups = _group_cycles({at: [id(met.node) for met in _targets(each)] for at, each in levels.items()})
        members = defaultdict(list)
        for at, group in groups.items():
            members[group].append(found[at])
        most: dict[int, int] = {}
        for group in sorted(members):  # A group comes after all groups that it leads to.
            most[group] = self._count_most_applied(group, members[group], levels, groups, most)
        return start.references + most[groups[id(start.node)]]

    def _count_most_applied(
        self,
        group: int,
        members: list[Any],
        levels: dict[int, list[_Level]],
        groups: dict[int, int],
        most: dict[int, int],
    ) -> int:
        """Return the most schemas applied to a value by the members of one group, which lead to each other."""

        def load(met: Iterable[_Met]) -> _Load:
            back = references = others = 0
            for each in met:
                if groups[id(each.node)] == group:
                    back, references = back + 1, references + each.references
                else:
                    others += each.references + most[groups[id(each.node)]]
            return _Load(back, references, others)

        highest = joining = references = 0
        for node in members:
            highest = max(highest, self._weights[id(node)])
            for level in levels[id(node)]:
                rest = load(level.rest)
                for name in (None, *level.named):
                    more, less = level.named[name] if name is not None else ((), ())
                    whole = rest.plus(load(more)).plus(load(less), -1) if more or less else rest
                    if whole.back > 1:
                        raise self._make_doubling_error(node, [*level.rest, *more], less, group, groups)
                    if whole.back:
                        joining = max(joining, whole.else_)
                        references = max(references, whole.references)
                    else:
                        highest = max(highest, whole.else_)
        # One schema of the group is applied at each level of an event; at each level it applies others besides.
        applied = highest + references + DEPTH_MAX * joining
        if applied > self._weight_max:
            raise self._make_excess_error(members[0])
        return applied

    def _levels(self, start: Any) -> list[_Level]:
        """Return the schemas applied within the value that *start* is applied to."""
        if not isinstance(start, dict) or HOLDING.isdisjoint(start):
            self._weights[id(start)] = self._weigh_one(start)
            return []
        self._weigh(start)
        members, items, names = (_Level([], defaultdict(lambda: ([], []))) for _ in range(3))
        waiting = [start]
        while waiting:
            node = waiting.pop()
            self._visit()
            if isinstance(node, dict):
                waiting += (met.node for met in self._list_in_place(node))
                self._members(node, members)
                self._items(node, items)
                names.rest.extend(self._subschema(node, "propertyNames"))
        return [level for level in (members, items, names) if level.rest or level.named]

    def _members(self, node: Schema, level: _Level) -> None:
        rest = self._subschema(node, "additionalProperties")
        level.rest.extend(
            [*rest, *(self._follow(each) for each in _subschemas_by_name(node, "patternProperties").values())]
        )
        for name, each in _subschemas_by_name(node, "properties").items():
            self._name(level, name, each, rest)

    def _items(self, node: Schema, level: _Level) -> None:
        items = node.get("items")
        rest = self._subschema(node, "additionalItems" if isinstance(items, list) else "items")
        level.rest.extend([*rest, *self._subschema(node, "contains")])
        for number, each in enumerate(items if isinstance(items, list) else ()):
            self._name(level, str(number), each, rest)

    def _name(self, level: _Level, name: str, node: Any, rest: list[_Met]) -> None:
        self._visit()
        more, less = level.named[name]
        more.append(self._follow(node))
        less += rest

    def _weigh(self, start: Any) -> None:
        """Compute the weight of all schemas applied to the same value as *start*, and of each of these."""
        if id(start) in self._weights:
            return
        sums = {id(start): self._weigh_one(start)}
        way = [(start, iter(self._list_in_place(start)))]
        while way:
            node, ahead = way[-1]
            met = next(ahead, None)
            if met is None:
                way.pop()
                self._weights[id(node)] = sums.pop(id(node))
                if way:
                    sums[id(way[-1][0])] += self._weights[id(node)]
            elif id(met.node) in sums:
                raise self._make_endless_error(node)
            else:
                sums[id(node)] += met.references
                if id(met.node) in self._weights:
                    sums[id(node)] += self._weights[id(met.node)]
                else:
                    sums[id(met.node)] = self._weigh_one(met.node)
                    way.append((met.node, iter(self._list_in_place(met.node))))
            if way and sums[id(way[-1][0])] > self._weight_max:
                raise self._make_excess_error(way[-1][0])

    def _list_in_place(self, node: Any) -> list[_Met]:
        """Return the subschemas that apply to the same value as *node*."""
        if not isinstance(node, dict):
            return []
        if id(node) not in self._beside:
            held = [each for method in COMBINED for each in (node.get(method) or ())]
            held += (node[keyword] for keyword in _IN_PLACE if keyword in node)
            held += (each for each in _subschemas_by_name(node, "dependencies").values() if not isinstance(each, list))
            self._beside[id(node)] = list(map(self._follow, held))
        return self._beside[id(node)]

    def _subschema(self, node: Schema, keyword: str) -> list[_Met]:
        return [self._follow(node[keyword])] if isinstance(node.get(keyword), dict) else []

    def _follow(self, node: Any) -> _Met:
        """Return the schema that *node* is or refers to."""
        at, references, seen = node, 0, {id(node)}
        while isinstance(at, dict) and isinstance(at.get("$ref"), str):
            at, references = target(self._schema, at["$ref"]), references + 1
            if id(at) in seen:
                raise self._make_endless_error(node)
            if references > REFERENCES_MAX:
                raise make_schema_error(f"follows more than {REFERENCES_MAX} references from {self._place(node)}")
            seen.add(id(at))
        return _Met(at, references)

    def _visit(self) -> None:
        self._visits += 1
        if self._visits > VISITS_MAX:
            raise make_schema_error(
                f"is too entangled: it takes more than {VISITS_MAX} visits to determine how much work it makes"
            )

    def _place(self, node: Any) -> str:
        return next((format_pointer(at) for at, each in list_nodes(self._schema) if each is node), "#")

    def _make_endless_error(self, node: Any) -> InvalidEventType:
        return make_schema_error(f"refers at {self._place(node)} to itself without end")

    def _make_excess_error(self, node: Any) -> InvalidEventType:
        return make_schema_error(
            f"applies more than {APPLIED_MAX} schemas to one value at {self._place(node)} or within"
        )

    def _make_doubling_error(
        self, node: Any, more: list[_Met], less: Sequence[_Met], group: int, groups: dict[int, int]
    ) -> InvalidEventType:
        counted = Counter(id(met.node) for met in more)
        counted.subtract(id(met.node) for met in less)
        led_to = {id(met.node): met.node for met in more}
        back = [led_to[at] for at in counted.elements() if groups[at] == group]
        ways = " and to ".join(map(self._place, back[:2]))
        return make_schema_error(
            f"leads from {self._place(node)} to {ways} for the same member, and back: "
            "the work for an event would double with each of its levels"
        )


def _weight(node: Any) -> int:
    if not isinstance(node, dict):
        return 1
    divisor = node.get("multipleOf")
    divisions = 0 if divisor is None else _EXTREME_DIVISION if is_extreme(divisor) else _DIVISION
    return 1 + len(node.get("enum") or ()) // _CHOICES + divisions


def _targets(levels: Iterable[_Level]) -> Iterator[_Met]:
    for level in levels:
        yield from level.rest
        for more, _ in level.named.values():
            yield from more


def _group_cycles(within: dict[int, list[int]]) -> dict[int, int]:
    """Return the group of each node: nodes that lead to each other form one (Tarjan, 1972).

    The number of a group is higher than those of all groups that it leads to.
    """
    order: dict[int, int] = {}
    lowest: dict[int, int] = {}
    stack: list[int] = []
    group: dict[int, int] = {}
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


def _subschemas_by_name(node: Schema, keyword: str) -> dict[str, Any]:
    held = node.get(keyword)
    return held if isinstance(held, dict) else {}


MATCH_MAX: Final = 100_000_000
"""Upper bound of the bytes of one text times the states of one pattern: about a second at the worst."""
MATCHING_MAX: Final = 250_000_000
"""The same bound for all texts of one event together."""
_PATTERN_SHOWN_CHARS: Final = 80
_spent: Final = threading.local()


class MeteredPattern:
    """The keyword `pattern`, with a count of the work: see `begin_matching`."""

    def __init__(self, _schema: dict[str, Any], value: str, _path: list[str | int]) -> None:
        """Compile *value*; the parameters are those that jsonschema-rs passes to custom keywords."""
        self._pattern = value
        self._states = count_states(value)
        self._validator = jsonschema_rs.Draft7Validator(
            {"pattern": value}, pattern_options=jsonschema_rs.RegexOptions()
        )

    def validate(self, instance: Any) -> None:
        """Raise ValueError if *instance* does not match, or if matching would take too long."""
        if type(instance) is not str:
            return
        size = len(instance.encode())
        if _spent.why is None and (why := self._find_excess(size)):
            _spent.why = why
        if _spent.why is not None:
            raise ValueError(_spent.why)
        _spent.work += size * self._states
        if not self._validator.is_valid(instance):
            raise ValueError(self._pattern)

    def _find_excess(self, size: int) -> str | None:
        pattern = f"the pattern {self._pattern[:_PATTERN_SHOWN_CHARS]}, which has {self._states} states"
        if size * self._states > MATCH_MAX:
            return f"has a text of {size} bytes, where up to {MATCH_MAX // self._states} can be held against {pattern}"
        if _spent.work + size * self._states > MATCHING_MAX:
            return f"has more text than can be held against the patterns of its schema, such as {pattern}"
        return None


def begin_matching() -> None:
    """Reset the work of this thread; call it before each validation of an event."""
    _spent.work, _spent.why = 0, None


def matching_failure() -> str | None:
    """Return the reason for which matching took too long; None: the result of the validator is valid."""
    found: str | None = _spent.why
    return found


def find_most_text_states(schema: Schema) -> int:
    """Return the most states of patterns that one text of an event is matched against.

    >>> find_most_text_states({"properties": {"a": {"maxLength": 5}}})
    0
    """
    states = cache(count_states)
    return _find_most_states(
        schema, lambda node: states(node["pattern"]) if isinstance(node.get("pattern"), str) else 0
    )


def find_most_name_states(schema: Schema) -> int:
    """Return the most states of `patternProperties` that one name of a member is matched against."""
    states = cache(count_states)
    return _find_most_states(schema, lambda node: sum(map(states, node.get("patternProperties") or ())))


def count_name_bytes(event: Any) -> int:
    """Return the bytes of all member names within *event*.

    >>> count_name_bytes({"a": [{"bc": 1}], "é": "d"})
    5
    """
    count, waiting = 0, [event]
    while waiting:
        value = waiting.pop()
        if type(value) is dict:
            count += sum(len(name.encode()) for name in value)
            waiting += value.values()
        elif type(value) is list:
            waiting += value
    return count


def _find_most_states(schema: Schema, weigh: Any) -> int:
    return find_highest_weight(schema, weigh) if any(weigh(node) for _, node in list_nodes(schema)) else 0
