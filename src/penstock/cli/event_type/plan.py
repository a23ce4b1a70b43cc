"""What has to be done so that a hub has an event type as a file defines it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from penstock.cli.event_type.difference import Difference, differences
from penstock.cli.failures import CommandFailure
from penstock.core.registry.definition import partition_count_of
from penstock.core.registry.event_type import EventType
from penstock.core.registry.replacement import KEPT_WHEN_ABSENT, keep_retention, replace_definition
from penstock.errors import IncompatibleSchema, InvalidEventType, PenstockError
from penstock.schema.traversal import is_equal

_OF_THE_HUB: Final = ("partition_count", "created_at", "updated_at")
_PARALLELISM: Final = ("read_parallelism", "write_parallelism")
_SCHEMA: Final = "schema"

Step = Literal["create", "replace", "grow"]


@dataclass(frozen=True, slots=True)
class EventTypePlan:
    """The steps from what is registered to what is wanted; none where it is so already."""

    name: str
    steps: tuple[Step, ...]
    body: Mapping[str, Any]
    """What to create or to replace it with."""
    allow_reordering: bool = False
    """Allow changes by which events of a key may lose their order."""
    partitions: tuple[int, int] | None = None
    """How many it has and how many it is to have, where there are to be more."""
    differences: tuple[Difference, ...] = ()
    """Of all but the schema."""
    schemas: tuple[str, str] | None = None
    """The texts of the registered schema and the new one, where they say something different."""
    refused: tuple[str, ...] = field(default=())
    """Why a hub would not do it, as far as that can be told from here."""


def planned(
    wanted: Mapping[str, Any], registered: Mapping[str, Any] | None, *, allow_reordering: bool = False
) -> EventTypePlan:
    """Return the plan that leads from *registered*, as a hub shows it, to the valid definition *wanted*.

    A schema that says the same with other spaces stays as it is, or it would become another version. Members that the
    file does not have become what they are by default, as with any replacement; some stay: see
    `penstock.core.registry.replacement`.

    Raises:
        CommandFailure: the hub shows event types in another way than this version knows.
    """
    name = wanted["name"]
    if registered is None:
        return EventTypePlan(name, ("create",), wanted)
    try:
        kept = {member: value for member, value in registered.items() if member not in _OF_THE_HUB}
        old = EventType.of(kept, registered["partition_count"])
        return _changed(wanted, old, allow_reordering=allow_reordering)
    except KeyError as missing:
        raise CommandFailure(
            f"the hub shows {name} without {missing}: is it of another version than this command?"
        ) from None


def _changed(wanted: Mapping[str, Any], old: EventType, *, allow_reordering: bool) -> EventTypePlan:
    count = _asked_count(wanted) or old.partition_count
    refused = []
    if count < old.partition_count:
        refused.append(f"it has {old.partition_count} partitions, and cannot have fewer: not {count}")
    body = _body(wanted, old.definition)
    texts = old.definition[_SCHEMA][_SCHEMA], body[_SCHEMA][_SCHEMA]
    try:
        after = replace_definition(old, body, admin=True, allow_reordering=allow_reordering).event_type.definition
    except (IncompatibleSchema, InvalidEventType) as error:
        refused += reasons(error)
        after = EventType.parse(_with_what_stays(body, old.definition)).definition
    found = tuple(differences(_but_schema(old.definition), _but_schema(after)))
    replaces, grows = bool(found) or texts[0] != texts[1] or bool(refused), count > old.partition_count
    wanted_steps: dict[Step, bool] = {"replace": replaces, "grow": grows}
    return EventTypePlan(
        old.name,
        tuple(step for step, is_wanted in wanted_steps.items() if is_wanted),
        body,
        allow_reordering=allow_reordering,
        partitions=(old.partition_count, count) if grows else None,
        differences=found,
        schemas=texts if texts[0] != texts[1] else None,
        refused=tuple(refused),
    )


def _asked_count(wanted: Mapping[str, Any]) -> int | None:
    """Return how many partitions a definition asks for, None where it leaves that open."""
    is_said = wanted.get("partition_count") is not None or wanted.get("default_statistic") is not None
    return partition_count_of(dict(wanted)) if is_said else None


def _body(wanted: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return what replaces *old*: partitions are added in a step of their own."""
    body = {member: value for member, value in wanted.items() if member not in _OF_THE_HUB}
    if (statistic := body.get("default_statistic")) is not None:
        before = old.get("default_statistic")
        body["default_statistic"] = before and statistic | {each: before[each] for each in _PARALLELISM}
    if is_equal(json.loads(body[_SCHEMA][_SCHEMA]), json.loads(old[_SCHEMA][_SCHEMA])):
        body[_SCHEMA] = {"type": "json_schema", _SCHEMA: old[_SCHEMA][_SCHEMA]}
    return body


def _with_what_stays(body: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return *body* as a hub would complete it, if it took it."""
    stays = {member: old[member] for member in KEPT_WHEN_ABSENT if body.get(member) is None}
    return {**body, **stays, "options": keep_retention(old.get("options") or {}, body.get("options") or {})}


def reasons(error: PenstockError) -> list[str]:
    """Return why a definition is refused, each reason by itself."""
    named = [error.fields] if {"field", "reason"} <= error.fields.keys() else []
    found = [f"{each['field']} {each['reason']}" for each in error.fields.get("violations") or named]
    return found or [error.detail]


def _but_schema(definition: Mapping[str, Any]) -> dict[str, Any]:
    return {member: value for member, value in definition.items() if member != _SCHEMA}
