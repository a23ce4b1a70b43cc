"""What a schema says of the events: what it must not hold, and what it should leave unsaid."""

from collections.abc import Iterator
from typing import Any, Final

from penstock.core.guidelines import rules
from penstock.core.guidelines.draft import Draft
from penstock.core.guidelines.fields import Node, parts, resolved, top_level
from penstock.core.guidelines.guideline import Finding, Guideline
from penstock.core.guidelines.names import says_contact
from penstock.core.schema import is_openapi
from penstock.core.walk import Schema, shown

_ADDED_BY_CATEGORY: Final = {"business": ("metadata",), "data": ("metadata", "data_type", "data_op")}
_OPENAPI_KEYWORDS: Final = ("nullable", "discriminator", "xml", "example", "externalDocs", "x-extensible-enum")
_COMPONENTS: Final = "#/components/"
_CONTACT_FORMATS: Final = frozenset(["email", "idn-email", "phone", "phone-number", "e.164"])
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
    for node in parts(schema):
        yield from _openapi(node)
        yield from _additional(node)
        yield from _personal(schema, node)


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


def _personal(root: Schema, node: Node) -> Iterator[Finding]:
    if node.name is None:
        return
    schema = resolved(root, node).schema
    if _is_contact(schema) or (says_contact(node.name) and not _is_flag(schema)):
        found = f"{node.name!r} seems to hold an e-mail address or a phone number"
        yield _broken(rules.PERSONAL_DATA, node, found)


def _is_contact(schema: Schema) -> bool:
    items = schema.get("items")
    formats = [schema.get("format"), items.get("format") if isinstance(items, dict) else None]
    return any(isinstance(each, str) and each.lower() in _CONTACT_FORMATS for each in formats)


def _is_flag(schema: Schema) -> bool:
    """Tell whether it is about something that holds yes or no."""
    given: Any = schema.get("type")
    return bool(given == "boolean" or (isinstance(given, list) and set(map(str, given)) <= {"boolean", "null"}))
