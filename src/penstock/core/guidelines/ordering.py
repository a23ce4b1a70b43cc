"""What a definition says of what events are about, how they are put in order, and into which partitions they go."""

from collections.abc import Callable, Iterator
from typing import Final

from penstock.core.guidelines import rules
from penstock.core.guidelines.draft import ENTITY_KEY_FIELDS, PROCESS_ID_FIELD, Draft, EventField
from penstock.core.guidelines.fields import is_required, top_level
from penstock.core.guidelines.guideline import Finding, Guideline
from penstock.core.guidelines.names import says_change_id, says_entity_id, says_process_id
from penstock.core.walk import shown

_ORDER: Final = {"business": rules.PROCESS_ORDER, "data": rules.ENTITY_ORDER}
_PARENTS: Final = ("metadata", "parent_eids")


def check_ordering(draft: Draft) -> Iterator[Finding]:
    """Yield what is wrong with what identifies and orders the events."""
    if draft.category == "business":
        yield from _process_id(draft)
    if draft.category == "data":
        yield from _entity(draft)
    yield from _order(draft)
    if draft.category == "data" and draft.strategy != "hash":
        found = f"partitions are chosen by {draft.strategy!r}: changes of one entity lose their order"
        yield Finding(rules.HASH_PARTITIONING, "definition", "#/partition_strategy", found)
    if draft.strategy == "hash":
        yield from _keys(draft)


def _process_id(draft: Draft) -> Iterator[Finding]:
    if named := draft.annotations.get(PROCESS_ID_FIELD, "").strip():
        yield from _must_be_there(rules.PROCESS_ID, draft.field(named), PROCESS_ID_FIELD)
        return
    yield from _one_of_usual(rules.PROCESS_ID, draft, says_process_id, "a business process's id")


def _entity(draft: Draft) -> Iterator[Finding]:
    if named := _entity_fields(draft):
        for field in named:
            yield from _must_be_there(rules.ENTITY_KEY, field, ENTITY_KEY_FIELDS)
        return
    if draft.strategy == "hash" and any(_is_of_entity(field) and field.is_known for field in draft.key_fields):
        return  # Without the field an event would have no partition: the hub refuses it.
    event_type = draft.text("name")
    yield from _one_of_usual(rules.ENTITY_KEY, draft, lambda name: says_entity_id(name, event_type), "the entity's id")


def _one_of_usual(rule: Guideline, draft: Draft, says: Callable[[str], bool], what: str) -> Iterator[Finding]:
    schema = draft.schema or {}
    likely = [field for field in top_level(schema) if field.name and says(field.name)]
    if not likely:
        yield Finding(rule, "schema", "#/properties", f"no field has the name of {what}")
    elif not any(field.name and is_required(schema, (field.name,)) for field in likely):
        found = f"{likely[0].name!r} is not required, so an event can lack it"
        yield Finding(rule, "schema", shown(likely[0].at), found)


def _must_be_there(rule: Guideline, field: EventField, annotation: str) -> Iterator[Finding]:
    pointer = shown(("annotations", annotation))
    if not field.is_known:
        yield Finding(rule, "definition", pointer, f"it names {field.text!r}, which the schema does not have")
    elif not field.is_required:
        yield Finding(rule, "definition", pointer, f"it names {field.text!r}, which is not required")


def _order(draft: Draft) -> Iterator[Finding]:
    rule = _ORDER.get(draft.category, rules.EXPLICIT_ORDER)
    if not draft.ordering_fields:
        yield Finding(rule, "definition", "#/ordering_key_fields", "it names no field by which events are ordered")
    for number, field in enumerate(draft.ordering_fields):
        pointer = f"#/ordering_key_fields/{number}"
        if not field.is_known:
            yield Finding(rule, "definition", pointer, f"the schema has no field {field.text!r}")
        elif not field.is_required and field.path != _PARENTS:
            yield Finding(rule, "definition", pointer, f"{field.text!r} is not required, so an event can lack it")
        if field.is_time:
            found = f"{field.text!r} is the time of a clock"
            yield Finding(rules.ORDER_NOT_BY_TIME, "definition", pointer, found)


def _keys(draft: Draft) -> Iterator[Finding]:
    entity = {field.path for field in _entity_fields(draft)} if draft.category == "data" else set()
    for number, field in enumerate(draft.key_fields):
        pointer = f"#/partition_key_fields/{number}"
        if field.is_time:
            found = f"{field.text!r} is a moment: events of one entity go to many partitions"
            yield Finding(rules.HASH_BY_ENTITY, "definition", pointer, found)
        elif says_change_id(field.path[-1]):
            found = f"{field.text!r} is another one for each event: events of one entity go to many partitions"
            yield Finding(rules.HASH_BY_ENTITY, "definition", pointer, found)
        elif entity and field.path not in entity:
            found = f"{field.text!r} is none of the fields that `{ENTITY_KEY_FIELDS}` names"
            yield Finding(rules.HASH_BY_ENTITY, "definition", pointer, found)
        if draft.schema is not None and not field.is_required:
            what = "is not required by the schema" if field.is_known else "is not in the schema"
            yield Finding(rules.KEY_FIELDS_DEFINED, "definition", pointer, f"{field.text!r} {what}")


def _entity_fields(draft: Draft) -> list[EventField]:
    named = draft.annotations.get(ENTITY_KEY_FIELDS, "").split(",")
    return [draft.field(text.strip()) for text in named if text.strip()]


def _is_of_entity(field: EventField) -> bool:
    return not (field.is_time or says_change_id(field.path[-1]))
