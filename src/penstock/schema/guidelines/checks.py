"""Checks a definition of an event type against the guidelines, and applies the waivers in its annotations."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final

from penstock.schema.guidelines import rules
from penstock.schema.guidelines.draft import (
    DEFINED,
    ENTITY_KEY_FIELDS,
    PROCESS_ID_FIELD,
    Draft,
    EventField,
    Node,
    find,
    is_required,
    names_on,
    parts,
    resolve_references,
    top_level_fields,
)
from penstock.schema.guidelines.names import says_change_id, says_entity_id, says_event_id, says_process_id
from penstock.schema.guidelines.personal_data import entity_of, personal_kind, says_whose
from penstock.schema.guidelines.rules import Guideline, GuidelineFinding
from penstock.schema.parsing import is_openapi
from penstock.schema.traversal import Pointer, Schema, format_pointer, steps

WAIVER_PREFIX: Final = "penstock.waiver/"
"""Prefix of an annotation that waives a guideline; the guideline's id follows, and the value is the reason.

Behind the id a period and the path of a field can follow, as in `personal-data.customer.phone`: such a waiver applies
to that field and its members only. The key and the value follow the rules for annotations: see
`penstock.core.registry.definition`.
"""


def apply_waivers(findings: Iterable[GuidelineFinding], annotations: Mapping[str, str]) -> Iterator[GuidelineFinding]:
    """Yield *findings*, those of waived guidelines with the reason, and the errors in the waivers themselves.

    A waiver of a guideline that reviewers judge is reported as a finding, too.
    """
    reasons = _reasons(annotations)
    needed = set[str]()
    for finding in findings:
        waivers = [waiver for waiver in _waivers(finding) if waiver in reasons]
        needed.update(waivers)
        yield finding._replace(waived=next(filter(None, map(reasons.get, waivers)), None))
    for waiver, reason in reasons.items():
        pointer = format_pointer(("annotations", WAIVER_PREFIX + waiver))
        rule_id, _, field = waiver.partition(".")
        rule = rules.GUIDELINES.get(rule_id)
        if rule is None:
            yield GuidelineFinding(rules.WAIVER, "definition", pointer, f"there is no guideline {rule_id!r}")
        elif not reason:
            yield GuidelineFinding(rules.WAIVER, "definition", pointer, "it gives no reason, so nothing is waived")
        elif not rule.is_checked:
            yield GuidelineFinding(rule, "definition", pointer, "this guideline is for people to judge", reason)
        elif waiver not in needed:
            where = f" at the field {field!r}" if field else ""
            yield GuidelineFinding(rules.WAIVER, "definition", pointer, f"nothing breaks {rule_id!r}{where}: it can go")


def reason_for(finding: GuidelineFinding, annotations: Mapping[str, str]) -> str | None:
    """Return the reason for which *annotations* waive a finding; None if they do not."""
    return next(filter(None, map(_reasons(annotations).get, _waivers(finding))), None)


def _reasons(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the reason of each waiver, by the part of its key after the prefix."""
    return {
        key.removeprefix(WAIVER_PREFIX): reason.strip()
        for key, reason in annotations.items()
        if key.startswith(WAIVER_PREFIX)
    }


def _waivers(finding: GuidelineFinding) -> Iterator[str]:
    """Yield the waivers that apply to a finding: for its field, for the fields around it, and for the event type."""
    names = names_on(steps(finding.pointer)) if finding.within == "schema" else []
    for count in range(len(names), -1, -1):
        yield ".".join([finding.rule.id, *names[:count]])


_URL_SAFE: Final = re.compile(r"[A-Za-z0-9._~-]+")
_STYLE: Final = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*")
_CATEGORIES: Final = ("business", "data")


def check_declaration(draft: Draft) -> Iterator[GuidelineFinding]:
    """Yield the findings about the name, owner, category, compatibility and partitions of the event type."""
    yield from _check_name(draft)
    yield from _check_owner(draft)
    yield from _check_category(draft)
    yield from _check_ids(draft)
    yield from _check_changes(draft)
    yield from _check_partitions(draft)


def _finding(rule: Guideline, member: str, description: str) -> GuidelineFinding:
    return GuidelineFinding(rule, "definition", f"#/{member}", description)


def _check_name(draft: Draft) -> Iterator[GuidelineFinding]:
    name = draft.definition.get("name")
    if not isinstance(name, str) or not name:
        yield _finding(rules.NAME_URL_SAFE, "name", "it has no name")
    elif not _URL_SAFE.fullmatch(name):
        strange = next(letter for letter in name if not _URL_SAFE.fullmatch(letter))
        yield _finding(rules.NAME_URL_SAFE, "name", f"the name holds {strange!r}, which a URL has to escape")
    elif not _STYLE.fullmatch(name):
        yield _finding(rules.NAME_STYLE, "name", f"{name!r} is not made of words in lower case with one separator each")


def _check_owner(draft: Draft) -> Iterator[GuidelineFinding]:
    if not draft.text("owning_application"):
        yield _finding(rules.OWNERSHIP, "owning_application", "it names no application that owns it")


def _check_category(draft: Draft) -> Iterator[GuidelineFinding]:
    if draft.category not in _CATEGORIES:
        given = f"the category is {draft.category!r}" if draft.category else "it has no category"
        yield _finding(rules.CATEGORY, "category", f"{given}, which says neither `business` nor `data`")
    if draft.category != "data" and find(draft.schema or {}, ("data_op",)):
        found = "the schema has a `data_op` of its own: the events seem to be changes of data"
        yield _finding(rules.DATA_CATEGORY, "category", found)
    elif draft.category not in _CATEGORIES and find(draft.schema or {}, ("metadata", "eid")):
        found = "the schema has a `metadata.eid` of its own: the events seem to be business events"
        yield _finding(rules.BUSINESS_CATEGORY, "category", found)


def _check_ids(draft: Draft) -> Iterator[GuidelineFinding]:
    if draft.category in _CATEGORIES:
        return  # Their events require `metadata.eid`.
    schema = draft.schema or {}
    likely = [
        ("metadata", "eid"),
        *((field.name,) for field in top_level_fields(schema) if field.name and says_event_id(field.name)),
    ]
    if not any(is_required(schema, path) for path in likely):
        yield GuidelineFinding(
            rules.UNIQUE_IDS, "schema", "#/required", "no field is required that could be the event's own id"
        )


def _check_changes(draft: Draft) -> Iterator[GuidelineFinding]:
    if draft.text("compatibility_mode").lower() == "none":
        found = "the mode is `none`, in which any change of the schema goes through"
        yield _finding(rules.BACKWARD_COMPATIBLE, "compatibility_mode", found)


def _check_partitions(draft: Draft) -> Iterator[GuidelineFinding]:
    given = draft.definition.get("partition_count")
    counts: dict[str, Any] = {"partition_count": given}
    statistic = draft.definition.get("default_statistic")
    if given is None and isinstance(statistic, dict):
        both = ("read_parallelism", "write_parallelism")
        counts = {f"default_statistic/{name}": statistic.get(name) for name in both}
    member, count = max(((each, _count(counts[each])) for each in counts), key=itemgetter(1))
    if count & (count - 1):
        below = 1 << (count.bit_length() - 1)
        found = f"it has {count} partitions, which is no power of two as {below} and {2 * below} are"
        yield _finding(rules.PARTITION_COUNT, member, found)


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 1


_ORDER: Final = {"business": rules.PROCESS_ORDER, "data": rules.ENTITY_ORDER}
_PARENTS: Final = ("metadata", "parent_eids")


def check_ordering(draft: Draft) -> Iterator[GuidelineFinding]:
    """Yield the findings about the identity and the order of the events."""
    if draft.category == "business":
        yield from _check_process_id(draft)
    if draft.category == "data":
        yield from _check_entity(draft)
    yield from _check_order(draft)
    if draft.category == "data" and draft.strategy != "hash":
        found = f"partitions are chosen by {draft.strategy!r}: changes of one entity lose their order"
        yield GuidelineFinding(rules.HASH_PARTITIONING, "definition", "#/partition_strategy", found)
    if draft.strategy == "hash":
        yield from _check_keys(draft)


def _check_process_id(draft: Draft) -> Iterator[GuidelineFinding]:
    if named := draft.annotations.get(PROCESS_ID_FIELD, "").strip():
        yield from _check_named_field(rules.PROCESS_ID, draft.field(named), PROCESS_ID_FIELD)
        return
    yield from _check_usual_fields(rules.PROCESS_ID, draft, says_process_id, "a business process's id")


def _check_entity(draft: Draft) -> Iterator[GuidelineFinding]:
    if named := _entity_fields(draft):
        for field in named:
            yield from _check_named_field(rules.ENTITY_KEY, field, ENTITY_KEY_FIELDS)
        return
    if draft.strategy == "hash" and any(_is_of_entity(field) and field.is_known for field in draft.key_fields):
        return  # Events without the field have no partition, so they cannot be published.
    event_type = draft.text("name")
    yield from _check_usual_fields(
        rules.ENTITY_KEY, draft, lambda name: says_entity_id(name, event_type), "the entity's id"
    )


def _check_usual_fields(
    rule: Guideline, draft: Draft, is_usual: Callable[[str], bool], what: str
) -> Iterator[GuidelineFinding]:
    schema = draft.schema or {}
    likely = [field for field in top_level_fields(schema) if field.name and is_usual(field.name)]
    if not likely:
        yield GuidelineFinding(rule, "schema", "#/properties", f"no field has the name of {what}")
    elif not any(field.name and is_required(schema, (field.name,)) for field in likely):
        found = f"{likely[0].name!r} is not required, so an event can lack it"
        yield GuidelineFinding(rule, "schema", format_pointer(likely[0].at), found)


def _check_named_field(rule: Guideline, field: EventField, annotation: str) -> Iterator[GuidelineFinding]:
    pointer = format_pointer(("annotations", annotation))
    if not field.is_known:
        yield GuidelineFinding(rule, "definition", pointer, f"it names {field.text!r}, which the schema does not have")
    elif not field.is_required:
        yield GuidelineFinding(rule, "definition", pointer, f"it names {field.text!r}, which is not required")


def _check_order(draft: Draft) -> Iterator[GuidelineFinding]:
    rule = _ORDER.get(draft.category, rules.EXPLICIT_ORDER)
    if not draft.ordering_fields:
        yield GuidelineFinding(
            rule, "definition", "#/ordering_key_fields", "it names no field by which events are ordered"
        )
    for number, field in enumerate(draft.ordering_fields):
        pointer = f"#/ordering_key_fields/{number}"
        if not field.is_known:
            yield GuidelineFinding(rule, "definition", pointer, f"the schema has no field {field.text!r}")
        elif not field.is_required and field.path != _PARENTS:
            yield GuidelineFinding(
                rule, "definition", pointer, f"{field.text!r} is not required, so an event can lack it"
            )
        if field.is_time:
            found = f"{field.text!r} is the time of a clock"
            yield GuidelineFinding(rules.ORDER_NOT_BY_TIME, "definition", pointer, found)


def _check_keys(draft: Draft) -> Iterator[GuidelineFinding]:
    entity = {field.path for field in _entity_fields(draft)} if draft.category == "data" else set()
    for number, field in enumerate(draft.key_fields):
        pointer = f"#/partition_key_fields/{number}"
        if field.is_time:
            found = f"{field.text!r} is a moment: events of one entity go to many partitions"
            yield GuidelineFinding(rules.HASH_BY_ENTITY, "definition", pointer, found)
        elif says_change_id(field.path[-1]):
            found = f"{field.text!r} is another one for each event: events of one entity go to many partitions"
            yield GuidelineFinding(rules.HASH_BY_ENTITY, "definition", pointer, found)
        elif entity and field.path not in entity:
            found = f"{field.text!r} is none of the fields that `{ENTITY_KEY_FIELDS}` names"
            yield GuidelineFinding(rules.HASH_BY_ENTITY, "definition", pointer, found)
        if draft.schema is not None and not field.is_required:
            what = "is not required by the schema" if field.is_known else "is not in the schema"
            yield GuidelineFinding(rules.KEY_FIELDS_DEFINED, "definition", pointer, f"{field.text!r} {what}")


def _entity_fields(draft: Draft) -> list[EventField]:
    named = draft.annotations.get(ENTITY_KEY_FIELDS, "").split(",")
    return [draft.field(text.strip()) for text in named if text.strip()]


def _is_of_entity(field: EventField) -> bool:
    return not (field.is_time or says_change_id(field.path[-1]))


_ADDED_BY_CATEGORY: Final = {"business": ("metadata",), "data": ("metadata", "data_type", "data_op")}
_OPENAPI_KEYWORDS: Final = ("nullable", "discriminator", "xml", "example", "externalDocs", "x-extensible-enum")
_COMPONENTS: Final = "#/components/"
_DESCRIBES: Final = frozenset(["properties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref"])


def check_payload(draft: Draft) -> Iterator[GuidelineFinding]:
    """Yield the findings about the schema."""
    schema = draft.schema
    if schema is None:
        given = draft.definition.get("schema")
        found = "it has no schema" if given is None else "its schema is not the text of a JSON object"
        yield GuidelineFinding(rules.PAYLOAD_SCHEMA, "definition", "#/schema", found)
        return
    if not _DESCRIBES & schema.keys():
        yield GuidelineFinding(rules.PAYLOAD_SCHEMA, "schema", "#", "it names no field")
    if is_openapi(schema):
        yield GuidelineFinding(
            rules.JSON_SCHEMA, "schema", "#", "it is a whole OpenAPI document, so it says nothing of events"
        )
    yield from _check_hub_members(draft.category, schema)
    personal = _Personal(draft, schema)
    for node in parts(schema):
        yield from _check_openapi(node)
        yield from _check_additional_properties(node)
        yield from personal.findings(node)


def _finding_at(rule: Guideline, node: Node, description: str, *below: str) -> GuidelineFinding:
    return GuidelineFinding(rule, "schema", format_pointer((*node.at, *below)), description)


def _check_hub_members(category: str, schema: Schema) -> Iterator[GuidelineFinding]:
    added = _ADDED_BY_CATEGORY.get(category, ())
    for field in top_level_fields(schema):
        if field.name in added:
            yield _finding_at(rules.PAYLOAD_ONLY, field, f"`{field.name}` comes with the category {category}")


def _check_openapi(node: Node) -> Iterator[GuidelineFinding]:
    reference = node.schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_COMPONENTS):
        yield _finding_at(rules.JSON_SCHEMA, node, f"{reference!r} leads into an OpenAPI document", "$ref")
    elif not isinstance(reference, str):
        for keyword in _OPENAPI_KEYWORDS:
            if keyword in node.schema:
                yield _finding_at(rules.JSON_SCHEMA, node, f"`{keyword}` is OpenAPI's, and ignored here", keyword)


def _check_additional_properties(node: Node) -> Iterator[GuidelineFinding]:
    given = node.schema.get("additionalProperties")
    if given is None or "$ref" in node.schema:
        return
    found = "nothing can be added later" if given is False else "anything may appear in it, without a name"
    if isinstance(given, dict) and given:
        found = "any name may appear in it, as in a map"
    yield _finding_at(rules.ADDITIONAL_PROPERTIES, node, found, "additionalProperties")


class _Personal:
    """Finds fields that seem to hold personal data; if an object as a whole does, only the object."""

    def __init__(self, draft: Draft, root: Schema) -> None:
        self._entity = entity_of(draft.text("name"))
        self._root = root
        self._referring = _referring_names(root)
        self._found: set[tuple[str, Pointer]] = set()

    def findings(self, node: Node) -> Iterator[GuidelineFinding]:
        """Yield the finding about *node*, if any; call it for outer nodes before inner ones."""
        if node.name is None:
            return
        schema = resolve_references(self._root, node).schema
        if "enum" in schema or "const" in schema or _is_flag(schema) or _is_count(node.name, schema):
            return
        kinds = (personal_kind(node.name, owners, _format(schema)) for owners in self._owners(node.at))
        kind = next(filter(None, kinds), None)
        if kind and not any((kind.id, node.at[:end]) in self._found for end in range(len(node.at))):
            self._found.add((kind.id, node.at))
            yield _finding_at(rules.PERSONAL_DATA, node, f"{node.name!r} seems to hold {kind.holds}")

    def _owners(self, at: Pointer) -> Iterator[list[str]]:
        """Yield the names of the objects around a field, from the nearest on, for each place that refers to it."""
        *outer, _ = names_on(at)
        owners = outer[::-1]
        if at[0] not in DEFINED:
            yield [*owners, self._entity]
        elif says_whose(outer[0]) or at[:2] not in self._referring:
            yield owners
        else:
            yield from ([*owners[:-1], name] for name in sorted(self._referring[at[:2]]))


def _referring_names(root: Schema) -> dict[Pointer, set[str]]:
    """Return, by the place of each definition, the names of the fields that refer to it."""
    found: dict[Pointer, set[str]] = {}
    for node in parts(root):
        if isinstance(reference := node.schema.get("$ref"), str) and (names := names_on(node.at)):
            found.setdefault(steps(reference), set()).add(names[-1])
    return found


def _format(schema: Schema) -> str | None:
    """Return the format of a string, or of the strings in a list."""
    items = schema.get("items")
    for each in (schema, items if isinstance(items, dict) else {}):
        if isinstance(said := each.get("format"), str):
            return said.lower()
    return None


def _is_count(name: str, schema: Schema) -> bool:
    """Return whether the field is a number of things, such as `phones` with the type integer."""
    return schema.get("type") in ("integer", "number") and name.endswith("s")


def _is_flag(schema: Schema) -> bool:
    """Return whether the field is a boolean."""
    given: Any = schema.get("type")
    return bool(given == "boolean" or (isinstance(given, list) and set(map(str, given)) <= {"boolean", "null"}))


def check(definition: Any) -> list[GuidelineFinding]:
    """Return the places at which a definition of an event type breaks the event guidelines.

    It never raises: broken parts of *definition*, which is in Nakadi's shape, are ignored, or are findings themselves.
    `EventType.parse` decides whether the definition is valid.

    >>> [finding.rule.id for finding in check({"name": "order.placed", "category": "business"})]
    ['ownership', 'payload-schema', 'process-id', 'process-order']
    """
    if not isinstance(definition, dict):
        return []
    draft = Draft(definition)
    findings = [*check_declaration(draft), *check_payload(draft), *check_ordering(draft)]
    return [*apply_waivers(findings, draft.annotations)]
