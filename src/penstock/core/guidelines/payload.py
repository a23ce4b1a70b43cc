"""What a schema says of the events: what it must not hold, and what it should leave unsaid."""

from collections.abc import Iterator
from typing import Any, Final

from penstock.core.guidelines import rules
from penstock.core.guidelines.draft import Draft
from penstock.core.guidelines.fields import DEFINED, Node, names_on, parts, resolved, top_level
from penstock.core.guidelines.guideline import Finding, Guideline
from penstock.core.guidelines.personal import entity_of, personal_kind, says_whose
from penstock.core.schema import is_openapi
from penstock.core.walk import Pointer, Schema, shown, steps

_ADDED_BY_CATEGORY: Final = {"business": ("metadata",), "data": ("metadata", "data_type", "data_op")}
_OPENAPI_KEYWORDS: Final = ("nullable", "discriminator", "xml", "example", "externalDocs", "x-extensible-enum")
_COMPONENTS: Final = "#/components/"
_DESCRIBES: Final = frozenset(["properties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref"])


def check_payload(draft: Draft) -> Iterator[Finding]:
    """Yield what is wrong with what the schema says."""
    schema = draft.schema
    if schema is None:
        given = draft.definition.get("schema")
        found = "it has no schema" if given is None else "its schema is not the text of a JSON object"
        yield Finding(rules.PAYLOAD_SCHEMA, "definition", "#/schema", found)
        return
    if not _DESCRIBES & schema.keys():
        yield Finding(rules.PAYLOAD_SCHEMA, "schema", "#", "it names no field")
    if is_openapi(schema):
        yield Finding(rules.JSON_SCHEMA, "schema", "#", "it is a whole OpenAPI document, so it says nothing of events")
    yield from _hub_members(draft.category, schema)
    personal = _Personal(draft, schema)
    for node in parts(schema):
        yield from _openapi(node)
        yield from _additional(node)
        yield from personal.findings(node)


def _broken(rule: Guideline, node: Node, found: str, *below: str) -> Finding:
    return Finding(rule, "schema", shown((*node.at, *below)), found)


def _hub_members(category: str, schema: Schema) -> Iterator[Finding]:
    added = _ADDED_BY_CATEGORY.get(category, ())
    for field in top_level(schema):
        if field.name in added:
            yield _broken(rules.PAYLOAD_ONLY, field, f"`{field.name}` comes with the category {category}")


def _openapi(node: Node) -> Iterator[Finding]:
    reference = node.schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_COMPONENTS):
        yield _broken(rules.JSON_SCHEMA, node, f"{reference!r} leads into an OpenAPI document", "$ref")
    elif not isinstance(reference, str):
        for keyword in _OPENAPI_KEYWORDS:
            if keyword in node.schema:
                yield _broken(rules.JSON_SCHEMA, node, f"`{keyword}` is OpenAPI's, and ignored here", keyword)


def _additional(node: Node) -> Iterator[Finding]:
    given = node.schema.get("additionalProperties")
    if given is None or "$ref" in node.schema:
        return
    found = "nothing can be added later" if given is False else "anything may appear in it, without a name"
    if isinstance(given, dict) and given:
        found = "any name may appear in it, as in a map"
    yield _broken(rules.ADDITIONAL_PROPERTIES, node, found, "additionalProperties")


class _Personal:
    """Finds the fields that seem to hold personal data; of an object that does as a whole, the object alone."""

    def __init__(self, draft: Draft, root: Schema) -> None:
        self._entity = entity_of(draft.text("name"))
        self._root = root
        self._referring = _referring(root)
        self._found: set[tuple[str, Pointer]] = set()

    def findings(self, node: Node) -> Iterator[Finding]:
        """Yield the finding that *node* is, if it is one; nodes are to be handed in from the outside inwards."""
        if node.name is None:
            return
        schema = resolved(self._root, node).schema
        if "enum" in schema or "const" in schema or _is_flag(schema) or _is_count(node.name, schema):
            return
        kinds = (personal_kind(node.name, owners, _format(schema)) for owners in self._owners(node.at))
        kind = next(filter(None, kinds), None)
        if kind and not any((kind.id, node.at[:end]) in self._found for end in range(len(node.at))):
            self._found.add((kind.id, node.at))
            yield _broken(rules.PERSONAL_DATA, node, f"{node.name!r} seems to hold {kind.holds}")

    def _owners(self, at: Pointer) -> Iterator[list[str]]:
        """Yield the names of what a field lies in, from the nearest on, for each place at which it is referred to."""
        *outer, _ = names_on(at)
        owners = outer[::-1]
        if at[0] not in DEFINED:
            yield [*owners, self._entity]
        elif says_whose(outer[0]) or at[:2] not in self._referring:
            yield owners
        else:
            yield from ([*owners[:-1], name] for name in sorted(self._referring[at[:2]]))


def _referring(root: Schema) -> dict[Pointer, set[str]]:
    """Return by the place of a definition the names of the fields that refer to it."""
    found: dict[Pointer, set[str]] = {}
    for node in parts(root):
        if isinstance(reference := node.schema.get("$ref"), str) and (names := names_on(node.at)):
            found.setdefault(steps(reference), set()).add(names[-1])
    return found


def _format(schema: Schema) -> str | None:
    """Return the format of a text, or of the texts in a list."""
    items = schema.get("items")
    for each in (schema, items if isinstance(items, dict) else {}):
        if isinstance(said := each.get("format"), str):
            return said.lower()
    return None


def _is_count(name: str, schema: Schema) -> bool:
    """Return whether it is about a number of things, as in `phones` that is an integer."""
    return schema.get("type") in ("integer", "number") and name.endswith("s")


def _is_flag(schema: Schema) -> bool:
    """Tell whether it is about something that holds yes or no."""
    given: Any = schema.get("type")
    return bool(given == "boolean" or (isinstance(given, list) and set(map(str, given)) <= {"boolean", "null"}))
