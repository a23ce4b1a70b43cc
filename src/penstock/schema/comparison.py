"""Compares two schemas of an event type, node by node.

It finds more than Nakadi's own comparison: patterns and formats that are added or removed, exclusive bounds, defaults,
`const`, `not`, conditions and `patternProperties`. It finds added properties by their names. It refuses a larger branch
of `oneOf`, and a new property that a pattern has described before.

A looser keyword is certain to accept more events only in a schema that events have to match. Within `not` the opposite
holds, and within `oneOf` neither. `not` is compared as a whole; a `SchemaPlace` knows whether it is within `oneOf`.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import re2

from penstock.errors import InvalidEventType
from penstock.schema.changes import (
    ADDITIONAL_ITEMS,
    ADDITIONAL_PROPERTIES,
    ADDITIONAL_PROPERTIES_NARROWED,
    ATTRIBUTE,
    BRANCH_COUNT,
    COMPOSITION,
    DEFAULT,
    DEPENDENCIES,
    DESCRIPTION,
    ENUM,
    ID,
    ITEMS_COUNT,
    ONE_OF,
    PROPERTY_ADDED,
    PROPERTY_REDEFINED,
    PROPERTY_REMOVED,
    REQUIRED_EXTENDED,
    REQUIRED_REDUCED,
    SCHEMA_REMOVED,
    TITLE,
    TYPE_CHANGED,
    TYPE_NARROWED,
    ChangeKind,
    Level,
    SchemaDifference,
)
from penstock.schema.parsing import PLACES_CHARS_MAX, is_empty, is_reached, names_all
from penstock.schema.traversal import (
    COMBINED,
    MISSING,
    Pointer,
    Schema,
    find_changed_places,
    format_pointer,
    is_equal,
    key_of,
    list_references,
    steps,
    target,
)

BESIDE: Final = "keep the property unchanged, and add an optional property with the new definition"
AROUND: Final = "keep it unchanged, and add an optional property with the new definition to an enclosing object"
NOWHERE: Final = "keep it unchanged, or create another event type with the new definition"


class SchemaPlace(NamedTuple):
    """A place in the compared schemas, and the facts about it that comparisons need."""

    pointer: str
    root: bool = False
    """Describes events themselves, which are objects, whether the schema says so or not."""
    open: bool = False
    """`close_schema` does not reach this place."""
    shared: bool = False
    """Other schemas can apply to the same value and see members that this one does not know: branches, patterns."""
    one_of: bool = False
    """Within a branch of `oneOf`: events match another branch because this one refuses them."""
    unique: bool = False
    """Within an array of unique items, which can become equal if members are dropped."""
    beside: bool = False
    """Within a member, and an optional property can be added next to it."""
    around: bool = False
    """Within a member, and an optional property can be added to an object around it."""

    def within(self, *names: str, **marks: bool) -> "SchemaPlace":
        """Return the place that *names* lead to from here."""
        return self._replace(pointer=self.pointer + format_pointer(names)[1:], root=False, **marks)

    def member(self, *names: str, beside: bool, **marks: bool) -> "SchemaPlace":
        """Return the place of a member of the value that is described here."""
        return self.within(*names, beside=beside, around=self.beside or self.around, **marks)

    @property
    def alternative(self) -> str:
        """The alternative to a refused change at this place.

        >>> SchemaPlace("#/minProperties").alternative
        'keep it unchanged, or create another event type with the new definition'
        """
        if self.beside:
            return BESIDE
        return AROUND if self.around else NOWHERE


_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_PLAIN: Final = (*_LOWER, *_UPPER, "multipleOf", "pattern", "format", "uniqueItems")
ATTRIBUTES: Final = (*_PLAIN, "const", "not", "contains", "if", "then", "else", "propertyNames")
_NEUTRAL: Final[Mapping[str, Sequence[Any]]] = {
    **dict.fromkeys(("minLength", "minItems", "minProperties"), (0,)),
    **dict.fromkeys(("uniqueItems", "exclusiveMinimum", "exclusiveMaximum", "not"), (False,)),
    **dict.fromkeys(("then", "else", "propertyNames"), (True, {})),
}
"""The values with which a keyword has the same effect as if it were absent."""


def attribute(node: Schema, name: str) -> Any:
    """Return the value of a keyword; MISSING if its effect is that of an absent keyword.

    >>> attribute({"minLength": 1}, "minLength"), attribute({"minLength": 0}, "minLength") is MISSING
    (1, True)
    """
    value = node.get(name, MISSING)
    return MISSING if any(is_equal(value, each) for each in _NEUTRAL.get(name, ())) else value


def drop_neutral(node: Schema) -> Schema:
    """Return *node* without keywords that have no effect.

    >>> drop_neutral({"type": "array", "uniqueItems": False})
    {'type': 'array'}
    """
    return {name: value for name, value in node.items() if name not in _NEUTRAL or attribute(node, name) is not MISSING}


def lets_all_pass(name: str, old: Any, new: Any) -> bool:
    """Return whether it is certain that value *new* of a keyword accepts all that *old* accepts; MISSING is no value.

    >>> lets_all_pass("minimum", 1, 0), lets_all_pass("format", "date", "time"), lets_all_pass("format", "", MISSING)
    (True, False, True)
    """
    if new is MISSING or old is MISSING:
        return new is MISSING
    if not {type(old), type(new)} <= {int, float}:  # In draft 4 an exclusive bound is a boolean.
        return False
    if name in _LOWER:
        return bool(new <= old)
    if name in _UPPER:
        return bool(new >= old)
    return name == "multipleOf" and type(old) is type(new) is int and old % new == 0


def suits_consumers(name: str, old: Any, new: Any) -> bool:
    """Return whether it is certain that *old* accepts all that *new* accepts, whichever members are dropped.

    >>> suits_consumers("minimum", 0, 1), suits_consumers("not", MISSING, {"required": ["a"]})
    (True, False)
    """
    return name in _PLAIN and lets_all_pass(name, new, old)


def types_of(node: Schema) -> frozenset[str] | None:
    """Return the types that *node* allows; None if it has no `type`.

    >>> types_of({"type": "string"}), types_of({})
    (frozenset({'string'}), None)
    """
    types = node.get("type")
    if types is None:
        return None
    return frozenset(types if isinstance(types, list) else [types])


def has_all_types(wide: frozenset[str], narrow: frozenset[str]) -> bool:
    """Return whether the types *wide* include all values of the types *narrow*: an integer is a number.

    >>> has_all_types(frozenset(["number", "null"]), frozenset(["integer"]))
    True
    """
    return all(each in wide or (each == "integer" and "number" in wide) for each in narrow)


EMPTY: Final = ("empty",)
REFERENCE: Final = ("reference",)
NARROWED_TO: Final = frozenset(["string", "number", "integer", "boolean", "array", "null"])
"""The kinds to which an empty node is narrowed; objects are not among them, since they are compared."""
_TYPICAL: Final[Mapping[str, frozenset[str]]] = {
    "object": frozenset(["properties", "required", "minProperties", "maxProperties", "additionalProperties"])
    | {"patternProperties", "dependencies", "propertyNames"},
    "array": frozenset(["items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"]),
    "string": frozenset(["minLength", "maxLength", "pattern", "format"]),
    "number": frozenset(["minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"]),
}


def node_of(schema: Any) -> Schema:
    """Return a schema as an object; true and false are converted.

    >>> node_of(True), node_of(False)
    ({}, {'not': {}})
    """
    if isinstance(schema, dict):
        return schema
    return {} if schema is True else {"not": {}}


def kind_of(node: Schema) -> object:
    """Return the kind of a node: a type, several types, a reference, a combination with the rest, or empty.

    Without `type`, keywords that have an effect determine the type.

    >>> kind_of({"minLength": 1}), kind_of({"minLength": 0}), kind_of({"type": ["string", "null"]})
    ('string', ('empty',), ('null', 'string'))
    """
    if "$ref" in node:
        return REFERENCE
    if any(method in node for method in COMBINED):
        return "combined", kind_of({name: value for name, value in node.items() if name not in COMBINED})
    if (types := node.get("type")) is not None:
        types = sorted(types) if isinstance(types, list) else [types]
        return types[0] if len(types) == 1 else tuple(types)
    effective = drop_neutral(node)
    for kind, keywords in _TYPICAL.items():
        if keywords & effective.keys():
            return kind
    return EMPTY if is_empty(effective) else "values"


def compare(old: Schema, new: Schema, *, closes: bool = False) -> list[SchemaDifference]:
    """Return the differences; *closes*: members that no schema names are refused (see `parsing.close_schema`).

    Raises:
        InvalidEventType: a schema has hundreds of levels, or differs at places whose pointers are too long.
    """
    comparison = _Comparison(old, new, closes=closes)
    try:
        comparison.compare_dialects(_draft_of(old), _draft_of(new))
        comparison.compare_nodes(old, new, SchemaPlace("#", root=True))
    except RecursionError:
        raise InvalidEventType(field="schema", reason="is nested too deeply to be compared with the last one") from None
    return comparison.changes


_SAME_DRAFT: Final = "keep it unchanged: another draft gives the same keywords other meanings"
_SAME_PATTERNS: Final = "keep the patterns unchanged, and add an optional property whose name matches none of them"
_ANOTHER_NAME: Final = "choose a name that no pattern of `patternProperties` matches"
_SAME_REACH: Final = (
    "keep the type and the keywords beside it unchanged: from them the mode `compatible` infers that the value is an "
    "object, whose unnamed members it refuses"
)


class _Comparison:
    def __init__(self, old: Schema, new: Schema, *, closes: bool) -> None:
        self.changes: list[SchemaDifference] = []
        self._old, self._new = old, new
        self._closes = closes
        self._places_chars = 0
        self._followed: set[tuple[int, int, SchemaPlace]] = set()

    def compare_dialects(self, old: str, new: str) -> None:
        """Record a change of the draft: keywords have another meaning, such as whether 1.0 is an integer."""
        if old != new:
            self._note(ATTRIBUTE, SchemaPlace("#/$schema"), old, new, instead=_SAME_DRAFT)

    def compare_nodes(self, old: Any, new: Any, at: SchemaPlace) -> None:
        """Record the differences between two nodes at the same place."""
        old, new = node_of(old), node_of(new)
        kinds = _kind_at(old, at), _kind_at(new, at)
        if kinds == (EMPTY, "object"):
            self._note(TYPE_NARROWED, at, old, new, consumers=True)
            old = old | {name: "object" for name in ("type",) if name in new}
        elif kinds[0] != kinds[1] and not self._is_comparable(old, new, at):
            return
        if kinds == (REFERENCE, REFERENCE):
            self._compare_references(old["$ref"], new["$ref"], at)
            return
        self._compare_texts(old, new, at)
        self._compare_types(old, new, at)
        self._compare_attributes(old, new, at)
        self._compare_enums(old, new, at)
        self._compare_objects(old, new, at)
        self._compare_arrays(old, new, at)
        self._compare_combined(old, new, at)

    def _is_comparable(self, old: Schema, new: Schema, at: SchemaPlace) -> bool:
        """Record that two nodes are of different kinds; return whether both allow some types."""
        kinds = _kind_at(old, at), _kind_at(new, at)
        if kinds[0] == EMPTY and kinds[1] in NARROWED_TO:
            alone = kinds[1] != "array" or not _is_entangled(old, at)  # Its items can require dropped members.
            self._note(TYPE_NARROWED, at, old, new, consumers=alone)
            return False
        types = types_of(old), types_of(new)
        is_wider = is_narrower = False
        if types[0] and types[1] and types[0] != types[1] and REFERENCE not in kinds:
            is_wider, is_narrower = has_all_types(types[1], types[0]), has_all_types(types[0], types[1])
        lets_all = kinds[1] == EMPTY and not self._closes
        self._note(TYPE_CHANGED, at, old, new, producers=is_wider or lets_all, consumers=is_narrower)
        return is_wider or is_narrower

    def _note(
        self,
        kind: ChangeKind,
        at: SchemaPlace,
        old: Any,
        new: Any,
        *,
        producers: bool = False,
        consumers: bool = False,
        instead: str | None = None,
    ) -> None:
        if at.one_of and kind not in (TITLE, DESCRIPTION):
            kind = ONE_OF if kind.compatible < Level.MAJOR or kind.forward < Level.MAJOR else kind
            producers = consumers = False
        self._places_chars += len(at.pointer)
        if self._places_chars > PLACES_CHARS_MAX:  # With references, a short schema can have very long pointers.
            reason = f"differs from the last one at places whose pointers have over {PLACES_CHARS_MAX} characters"
            raise InvalidEventType(field="schema", reason=reason)
        if instead is None:
            instead = at.alternative if kind.instead is None else kind.instead
        self.changes.append(SchemaDifference(kind, at.pointer, old, new, producers, consumers, instead))

    def _compare_references(self, old: str, new: str, at: SchemaPlace) -> None:
        one, other = target(self._old, old), target(self._new, new)
        if one is MISSING or other is MISSING:
            if old != new or () in self._changed:
                self._note(TYPE_CHANGED, at, old, new)
            return
        is_open = not (is_reached(steps(old)) and is_reached(steps(new)))
        at = at._replace(open=is_open)
        marks = at._replace(pointer="", beside=False, around=False)
        way = (id(one), id(other), marks)  # One target can be referred to in several spellings.
        if way not in self._followed:
            self._followed.add(way)
            self.compare_nodes(one, other, at)

    def _is_unchanged(self, old: Any, new: Any) -> bool:
        """Return whether two values, and all schemas that they refer to, are equal."""
        return is_equal(old, new) and all(
            steps(reference) not in self._changed for _, reference in list_references(old)
        )

    @cached_property
    def _changed(self) -> set[Pointer]:
        return find_changed_places(self._old, self._new)

    def _compare_texts(self, old: Schema, new: Schema, at: SchemaPlace) -> None:
        for name, kind in (("title", TITLE), ("description", DESCRIPTION)):
            if old.get(name) != new.get(name):
                self._note(kind, at.within(name), old.get(name), new.get(name), producers=True, consumers=True)
        for name in ("id", "$id"):
            if old.get(name) != new.get(name):
                self._note(ID, at.within(name), old.get(name), new.get(name))

    def _compare_types(self, old: Schema, new: Schema, at: SchemaPlace) -> None:
        """Record a type that is added where other keywords implied it, or removed."""
        if at.root or ("type" in old) == ("type" in new):
            return
        kind = TYPE_CHANGED if "type" in old else TYPE_NARROWED
        self._note(
            kind, at.within("type"), old.get("type"), new.get("type"), producers="type" in old, consumers="type" in new
        )

    def _compare_attributes(self, old: Schema, new: Schema, at: SchemaPlace) -> None:
        for name in ATTRIBUTES:
            before, after = attribute(old, name), attribute(new, name)
            if not self._is_unchanged(before, after):
                producers, consumers = lets_all_pass(name, before, after), suits_consumers(name, before, after)
                place = at.within(name)
                self._note(ATTRIBUTE, place, old.get(name), new.get(name), producers=producers, consumers=consumers)
        if not is_equal(old.get("default", MISSING), new.get("default", MISSING)):
            self._note(DEFAULT, at.within("default"), old.get("default"), new.get("default"), producers=True)

    def _compare_enums(self, old: Schema, new: Schema, at: SchemaPlace) -> None:
        before, after = old.get("enum"), new.get("enum")
        fewer = after is not None and (before is None or _are_all_in(after, before))
        more = before is not None and (after is None or _are_all_in(before, after))
        if before is not after and not (fewer and more):
            self._note(ENUM, at.within("enum"), before, after, producers=more, consumers=fewer)

    def _compare_objects(self, old: Schema, new: Schema, at: SchemaPlace) -> None:
        self._compare_properties(old, new, at)
        self._compare_required(old, new, at)
        self._compare_additional_properties(old, new, at)
        before, after = old.get("patternProperties", {}), new.get("patternProperties", {})
        if before.keys() != after.keys():
            instead = _SAME_PATTERNS if self._takes_names(old, at) else None
            self._note(ATTRIBUTE, at.within("patternProperties"), before, after, instead=instead)
        beside = self._takes_names(old, at)
        for pattern in before.keys() & after.keys():
            place = at.member("patternProperties", pattern, beside=beside, open=True, shared=True)
            self.compare_nodes(before[pattern], after[pattern], place)
        before, after = _dependencies(old.get("dependencies", {})), _dependencies(new.get("dependencies", {}))
        if not self._is_unchanged(before, after):
            fewer = all(name in before and self._is_unchanged(before[name], after[name]) for name in after)
            at = at.within("dependencies")
            self._note(DEPENDENCIES, at, old.get("dependencies"), new.get("dependencies"), producers=fewer)

    def _compare_properties(self, old: Schema, new: Schema, at: SchemaPlace) -> None:
        before, after = old.get("properties", {}), new.get("properties", {})
        demanded = set(old.get("required", [])), set(new.get("required", []))
        beside = self._takes_names(old, at)
        for name in sorted(before.keys() | after.keys()):
            place = at.member("properties", name, beside=beside)
            if name not in after:
                self._compare_removed(name, old, new, place, is_optional=not any(name in each for each in demanded))
            elif name not in before:
                self._compare_added(name, old, new, place, was_required=name in demanded[0])
            else:
                shared = at.shared or _is_matched(old, name) or _looks_within(old)
                self.compare_nodes(before[name], after[name], place._replace(shared=shared))

    def _compare_removed(self, name: str, old: Schema, new: Schema, at: SchemaPlace, *, is_optional: bool) -> None:
        is_described = _describes(new, name)
        producers = not (self._is_closed(new, at) or is_described)
        consumers = is_optional and not (is_described or _is_entangled(old, at))
        self._note(PROPERTY_REMOVED, at, old["properties"][name], None, producers=producers, consumers=consumers)

    def _compare_added(self, name: str, old: Schema, new: Schema, at: SchemaPlace, *, was_required: bool) -> None:
        is_described = _describes(old, name)
        is_closed = self._is_closed(old, at)
        is_impossible = was_required and is_closed
        kind = PROPERTY_REDEFINED if is_described or (self._closes and not is_closed) else PROPERTY_ADDED
        producers = is_closed and not is_described
        consumers = not (is_described or is_impossible or _is_entangled(old, at))
        instead = _ANOTHER_NAME if kind == PROPERTY_REDEFINED and at.beside else None
        added = new["properties"][name]
        self._note(kind, at, None, added, producers=producers, consumers=consumers, instead=instead)

    def _takes_names(self, node: Schema, at: SchemaPlace) -> bool:
        """Return whether a property can be added to *node* under a name that no pattern describes."""
        if at.one_of or isinstance(node.get("additionalProperties"), dict):
            return False
        return not self._closes or self._is_closed(node, at)

    def _is_closed(self, node: Schema, at: SchemaPlace) -> bool:
        return (self._closes and not at.open and names_all(node)) or node.get("additionalProperties", True) is False

    def _compare_required(self, old: Schema, new: Schema, at: SchemaPlace) -> None:
        before, after = set(old.get("required", [])), set(new.get("required", []))
        if before - after:
            self._note(REQUIRED_REDUCED, at.within("required"), sorted(before), sorted(after), producers=after < before)
        elif after - before:
            self._note(REQUIRED_EXTENDED, at.within("required"), sorted(before), sorted(after), consumers=True)

    def _compare_additional_properties(self, old: Schema, new: Schema, at: SchemaPlace) -> None:
        before, after = old.get("additionalProperties", True), new.get("additionalProperties", True)
        if self._closes and not at.open and _may_be_objects(old, new) and names_all(old) != names_all(new):
            allowed = not names_all(old), not names_all(new)
            self._note(ADDITIONAL_PROPERTIES, at.within("additionalProperties"), *allowed, instead=_SAME_REACH)
        others = at.member("additionalProperties", beside=self._takes_names(old, at), open=True)
        at = at.within("additionalProperties")
        if (before is False) != (after is False):
            self._note(ADDITIONAL_PROPERTIES, at, before, after, producers=before is False, consumers=after is False)
        elif isinstance(before, dict) and isinstance(after, dict):
            self.compare_nodes(before, after, others)
        elif isinstance(after, dict):
            everything, alone = is_empty(after), not _is_entangled(old, at)
            self._note(ADDITIONAL_PROPERTIES_NARROWED, at, before, after, producers=everything, consumers=alone)
        elif isinstance(before, dict):
            self._note(SCHEMA_REMOVED, at, before, after, producers=True)

    def _compare_arrays(self, old: Schema, new: Schema, at: SchemaPlace) -> None:
        is_unique = at.unique or old.get("uniqueItems") is True
        before, after = old.get("items"), new.get("items")
        at = at._replace(shared=at.shared or "contains" in old or _looks_within(old))
        items = at.within("items", unique=is_unique)
        if isinstance(before, list) and isinstance(after, list):
            if len(before) != len(after):
                self._note(ITEMS_COUNT, items, before, after)
            for number, (one, other) in enumerate(zip(before, after, strict=False)):
                self.compare_nodes(one, other, items.within(str(number)))
        elif before is None or after is None or isinstance(before, list) or isinstance(after, list):
            if before is not after:
                lets_all = after is None or (is_empty(node_of(after)) and not self._closes)
                self._note(SCHEMA_REMOVED, items, before, after, producers=lets_all)
        else:
            self.compare_nodes(before, after, items)
        before, after = old.get("additionalItems", True), new.get("additionalItems", True)
        extra = at.within("additionalItems", unique=is_unique)
        if (before is False) != (after is False):
            self._note(ADDITIONAL_ITEMS, extra, before, after, producers=before is False, consumers=after is False)
        elif isinstance(before, dict) and isinstance(after, dict):
            self.compare_nodes(before, after, extra._replace(open=True))
        elif before != after:
            self._note(SCHEMA_REMOVED, extra, before, after, producers=after is True)

    def _compare_combined(self, old: Schema, new: Schema, at: SchemaPlace) -> None:
        before, after = ([method for method in COMBINED if method in node] for node in (old, new))
        if before != after:
            self._note(COMPOSITION, at, before, after)
            return
        for method in before:
            within = at.within(method, one_of=at.one_of or method == "oneOf", shared=True)
            if len(old[method]) != len(new[method]):
                self._compare_branches(method, old[method], new[method], at.within(method))
                continue
            for number, (one, other) in enumerate(zip(old[method], new[method], strict=True)):
                self.compare_nodes(one, other, within.within(str(number)))

    def _compare_branches(self, method: str, before: Sequence[Any], after: Sequence[Any], at: SchemaPlace) -> None:
        """Record a changed number of branches: more branches accept more in `anyOf`, and less in `allOf`."""
        few, many = (after, before) if method == "allOf" else (before, after)
        is_looser = method != "oneOf" and _are_all_in(few, many) and self._is_unchanged(few, few)
        self._note(BRANCH_COUNT, at, len(before), len(after), producers=is_looser)


def _kind_at(node: Schema, at: SchemaPlace) -> object:
    return kind_of({"type": "object"} | node if at.root else node)


def _draft_of(schema: Schema) -> str:
    """Return the draft of JSON Schema that a schema is written in, by default draft 4."""
    spoken = str(schema.get("$schema", _DRAFT_4)).rstrip("#")
    return _DRAFT_4 if spoken == "http://json-schema.org/schema" else spoken


_DRAFT_4: Final = "http://json-schema.org/draft-04/schema"


def _may_be_objects(*nodes: Schema) -> bool:
    return all("object" in (types_of(node) or ["object"]) for node in nodes)


def _is_entangled(node: Schema, at: SchemaPlace) -> bool:
    """Return whether the validity of an event by *node* can depend on members that consumers drop."""
    return at.shared or at.unique or not _ENTANGLING.isdisjoint(node)


def _looks_within(node: Schema) -> bool:
    """Return whether *node* restricts the values within it by more than their own schemas."""
    return not _LOOKING_WITHIN.isdisjoint(node)


_LOOKING_WITHIN: Final = frozenset([*COMBINED, "not", "if", "dependencies", "enum", "const"])
_ENTANGLING: Final = _LOOKING_WITHIN | {"minProperties"}


def _describes(node: Schema, name: str) -> bool:
    """Return whether *node* describes the property *name* without naming it."""
    return isinstance(node.get("additionalProperties"), dict) or _is_matched(node, name)


def _is_matched(node: Schema, name: str) -> bool:
    """Return whether a pattern of *node* matches the property *name*."""
    try:
        return any(re2.search(pattern, name) for pattern in node.get("patternProperties", {}))
    except re2.error:
        return True  # An invalid pattern may match any name.


def _dependencies(given: Schema) -> Schema:
    return {name: sorted(each) if isinstance(each, list) else each for name, each in given.items()}


def _are_all_in(values: Sequence[Any], others: Sequence[Any]) -> bool:
    return set(map(key_of, values)) <= set(map(key_of, others))
