"""Checks of definitions: by themselves, against the event guidelines, and against the event types that a hub has."""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from penstock.cli.definitions.definition import Definition
from penstock.cli.definitions.document import FileLine, Unreadable
from penstock.cli.failures import CommandFailure
from penstock.core.access import LISTS, find_wrong_members
from penstock.core.registry.definition import UnknownMember, partition_count_of, unknown_members
from penstock.core.registry.event_type import EventType, WithoutEffect, find_members_without_effect
from penstock.core.registry.replacement import KEPT_WHEN_ABSENT, keep_retention, replace_definition
from penstock.errors import (
    Conflict,
    EventTypeNotFound,
    Forbidden,
    IncompatibleSchema,
    Invalid,
    InvalidEventType,
    NotOffered,
    PenstockError,
    TooLarge,
    UnsupportedFormat,
    WrongAddress,
)
from penstock.schema.guidelines import GuidelineFinding, check, reason_for
from penstock.schema.guidelines.rules import BACKWARD_COMPATIBLE
from penstock.schema.traversal import MISSING, Pointer, format_pointer, is_equal

if TYPE_CHECKING:
    from penstock.client import Client, Compatibility, ConsumerGroup

_OF_THE_HUB: Final = ("partition_count", "created_at", "updated_at")
_PARALLELISM: Final = ("read_parallelism", "write_parallelism")
_SCHEMA: Final = "schema"

Step = Literal["create", "replace", "grow"]


class Difference(NamedTuple):
    """A member that differs between two definitions."""

    pointer: str
    before: Any
    """MISSING where it was not there."""
    after: Any

    def __str__(self) -> str:
        if self.before is MISSING:
            return f"+ {self.pointer}: {_as_json(self.after)}"
        if self.after is MISSING:
            return f"- {self.pointer}: {_as_json(self.before)}"
        return f"~ {self.pointer}: {_as_json(self.before)} -> {_as_json(self.after)}"

    def as_object(self) -> dict[str, Any]:
        """Return the difference as an object for programs, without `before` or `after` where that is MISSING."""
        members = {"pointer": self.pointer, "before": self.before, "after": self.after}
        return {name: value for name, value in members.items() if value is not MISSING}


@dataclass(frozen=True, slots=True)
class EventTypePlan:
    """The steps from the registered event type to the wanted one; empty if they are equal."""

    name: str
    steps: tuple[Step, ...]
    body: Mapping[str, Any]
    """The definition to create, or to replace the registered one with."""
    allow_reordering: bool = False
    """Allow changes by which events of a key may lose their order."""
    partitions: tuple[int, int] | None = None
    """The numbers of partitions before and after, if partitions are added."""
    differences: tuple[Difference, ...] = ()
    """The differences of all members but the schema."""
    schemas: tuple[str, str] | None = None
    """The texts of the registered schema and the new one, if they mean something different."""
    refused: tuple[str, ...] = field(default=())
    """Reasons for which a hub would refuse it, as far as they are known without asking."""


@dataclass(frozen=True, slots=True)
class HubComparison:
    """A definition beside the event type of its name that a hub has, and the changes that applying it would make."""

    url: str
    plan: EventTypePlan
    version: str | None
    """The version of the registered schema; None if the hub has no such event type."""
    schema: "Compatibility | None"
    """The verdict on the change of the schema; None if the schema stays."""
    groups: "tuple[ConsumerGroup, ...]"
    """The consumer groups that read it."""
    findings: tuple[GuidelineFinding, ...]
    """Changes that break readers, although the mode lets them pass."""
    refused: tuple[str, ...] = ()
    """Reasons for which the hub would refuse it."""

    def as_object(self) -> dict[str, Any]:
        """Return the comparison as an object for programs."""
        import msgspec

        partitions: tuple[int, ...] = self.plan.partitions or ()
        return {
            "url": self.url,
            "registered": self.version is not None,
            "steps": self.plan.steps,
            "refused": self.refused,
            "differences": [each.as_object() for each in self.plan.differences],
            "partition_count": dict(zip(("before", "after"), partitions, strict=False)) or None,
            "schema_version": {"before": self.version, "after": self.schema.version if self.schema else self.version},
            "schema": msgspec.to_builtins(self.schema),
            "consumer_groups": msgspec.to_builtins(list(self.groups)),
        }


class Fault(NamedTuple):
    """A fault for which every hub refuses a definition."""

    place: FileLine
    reason: str


@dataclass(frozen=True, slots=True)
class CheckedDefinition:
    """A definition with its faults, its findings, and its comparison to a hub."""

    definition: Definition
    faults: tuple[Fault, ...]
    own_findings: tuple[GuidelineFinding, ...]
    against: HubComparison | None = None
    """The comparison to a hub; None if no hub was asked, or the definition is invalid."""

    @property
    def findings(self) -> tuple[GuidelineFinding, ...]:
        """Guidelines that the definition does not keep, waived ones too."""
        return self.own_findings + (self.against.findings if self.against else ())

    @property
    def strangers(self) -> list[tuple[FileLine, UnknownMember]]:
        """Members that mean nothing to a hub, which takes them all the same, with their lines."""
        document, at = self.definition.document, self.definition.at
        return [(document.place((*at, *each.at)), each) for each in unknown_members(self.definition.value)]

    @property
    def without_effect(self) -> list[tuple[FileLine, WithoutEffect]]:
        """Members of the definition that have no effect, with their lines.

        Those of `authorization` that stand for no caller are among them. A hub that authenticates callers refuses
        these, unless the event type has them already.
        """
        if self.faults:
            return []
        value = self.definition.value
        lists = {name: value["authorization"].get(name) for name in LISTS} if value.get("authorization") else {}
        nobody = [WithoutEffect(f"authorization.{field}", reason) for field, reason in find_wrong_members(lists)]
        return [(self.definition.field_at(each.field), each) for each in (*find_members_without_effect(value), *nobody)]

    @property
    def refusals(self) -> tuple[str, ...]:
        """Reasons for which the hub would refuse it; none if no hub was asked."""
        return self.against.refused if self.against else ()


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one run of the check."""

    definitions: tuple[CheckedDefinition, ...]
    unreadable: tuple[Unreadable, ...]

    @property
    def is_good(self) -> bool:
        """Return whether all definitions are readable, valid and acceptable, and break no MUST without a waiver."""
        return not self.error_count and not self.count("MUST")

    @property
    def error_count(self) -> int:
        """The number of unreadable definitions, faults and refusals."""
        return len(self.unreadable) + sum(len(each.faults) + len(each.refusals) for each in self.definitions)

    @property
    def waived_count(self) -> int:
        """The number of findings that are waived."""
        return sum(finding.waived is not None for each in self.definitions for finding in each.findings)

    def count(self, level: str) -> int:
        """Return the number of findings of *level* that are not waived."""
        found = (finding for each in self.definitions for finding in each.findings)
        return sum(finding.waived is None and finding.rule.level == level for finding in found)


def check_definitions(definitions: Iterable[Definition]) -> list[CheckedDefinition]:
    """Check each definition by itself, and that no two have the same name. Faults are returned, not raised."""
    first: dict[str, Definition] = {}
    found = []
    for definition in definitions:
        faults = [*_find_faults(definition)]
        name = definition.value.get("name")
        if isinstance(name, str) and (before := first.setdefault(name, definition)) is not definition:
            faults.append(Fault(definition.field_at("name"), f"{name!r} {_describe_repeat(definition, before)}"))
        found.append(CheckedDefinition(definition, tuple(faults), tuple(check(definition.value))))
    return found


def _describe_repeat(definition: Definition, before: Definition) -> str:
    if (definition.document, definition.at) == (before.document, before.at):
        return "is given twice: name its file once"
    return f"is defined twice, first at {before.place}"


def _find_faults(definition: Definition) -> Iterator[Fault]:
    try:
        EventType.parse(definition.value)
    except InvalidEventType as error:
        for each in error.fields.get("violations") or [error.fields]:
            yield Fault(definition.field_at(each["field"]), f"{each['field']} {each['reason']}".strip())
    except UnsupportedFormat as error:
        yield Fault(definition.field_at("schema"), error.detail)


def compare_with_hub(
    url: str, client: "Client", wanted: Mapping[str, Any], *, allow_reordering: bool = False
) -> HubComparison:
    """Compare the valid definition *wanted* with the hub's event type of its name; change nothing.

    Without *allow_reordering*, changes by which events of a key may lose their order are refused.

    Raises:
        PenstockError: the hub cannot be asked.
        CommandFailure: the hub is of a version that this one does not understand.
    """
    name = wanted["name"]
    try:
        registered = client.event_type(name)
    except EventTypeNotFound:
        plan = make_plan(wanted, None)
        return HubComparison(url, plan, None, None, (), (), tuple(_ask_refusals(client, plan)))
    plan = make_plan(wanted, registered, allow_reordering=allow_reordering)
    schema = client.check_compatibility(name, plan.schemas[1]) if plan.schemas else None
    said = [schema.error] if schema and schema.error and not schema.compatible else []
    return HubComparison(
        url,
        plan,
        version=str(registered["schema"]["version"]),
        schema=schema,
        groups=tuple(client.consumer_groups(name)),
        findings=tuple(_list_breaking(schema, wanted)) if schema else (),
        refused=plan.refused or tuple(said) or tuple(_ask_refusals(client, plan)),
    )


def _ask_refusals(client: "Client", plan: EventTypePlan) -> list[str]:
    """Return the hub's reasons against *plan*: only the hub knows its limits, features and guidelines.

    Raises:
        PenstockError: the hub cannot be asked.
        CommandFailure: the hub is of a version that this one does not understand.
    """
    if not plan.steps:
        return []
    more = {"partition_count": plan.partitions[1]} if plan.partitions else {}
    try:
        client.check_definition({**plan.body, **more}, allow_reordering=plan.allow_reordering)
    except WrongAddress as error:
        raise CommandFailure(
            "the hub cannot tell what it would take: is it of another version than this command?"
        ) from error
    except (Invalid, Conflict, Forbidden, NotOffered, TooLarge) as error:
        return list(error.fields.get("broken") or _list_reasons(error))
    return []


def _list_breaking(schema: "Compatibility", wanted: Mapping[str, Any]) -> list[GuidelineFinding]:
    """Return the changes that break readers, although the mode lets them pass; an annotation may waive them."""
    annotations = wanted.get("annotations") or {}
    findings = (
        GuidelineFinding(BACKWARD_COMPATIBLE, "schema", change.pointer, f"the change breaks readers: {change.says}")
        for change in schema.changes
        if change.level == "MAJOR" and not change.refused
    )
    return [finding._replace(waived=reason_for(finding, annotations)) for finding in findings]


def make_plan(
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
        return _plan_change(wanted, old, allow_reordering=allow_reordering)
    except KeyError as missing:
        raise CommandFailure(
            f"the hub shows {name} without {missing}: is it of another version than this command?"
        ) from None


def _plan_change(wanted: Mapping[str, Any], old: EventType, *, allow_reordering: bool) -> EventTypePlan:
    count = _find_partition_count(wanted) or old.partition_count
    refused = []
    if count < old.partition_count:
        refused.append(f"it has {old.partition_count} partitions, and cannot have fewer: not {count}")
    body = _make_body(wanted, old.definition)
    texts = old.definition[_SCHEMA][_SCHEMA], body[_SCHEMA][_SCHEMA]
    try:
        after = replace_definition(old, body, admin=True, allow_reordering=allow_reordering).event_type.definition
    except (IncompatibleSchema, InvalidEventType) as error:
        refused += _list_reasons(error)
        after = EventType.parse(_complete_body(body, old.definition)).definition
    found = tuple(find_differences(_without_schema(old.definition), _without_schema(after)))
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


def _find_partition_count(wanted: Mapping[str, Any]) -> int | None:
    """Return the number of partitions that a definition asks for; None if it leaves that open."""
    is_said = wanted.get("partition_count") is not None or wanted.get("default_statistic") is not None
    return partition_count_of(dict(wanted)) if is_said else None


def _make_body(wanted: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition that replaces *old*, without partitions, which are added in a step of their own."""
    body = {member: value for member, value in wanted.items() if member not in _OF_THE_HUB}
    if (statistic := body.get("default_statistic")) is not None:
        before = old.get("default_statistic")
        body["default_statistic"] = before and statistic | {each: before[each] for each in _PARALLELISM}
    if is_equal(json.loads(body[_SCHEMA][_SCHEMA]), json.loads(old[_SCHEMA][_SCHEMA])):
        body[_SCHEMA] = {"type": "json_schema", _SCHEMA: old[_SCHEMA][_SCHEMA]}
    return body


def _complete_body(body: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return *body* as a hub would complete it, if it took it."""
    stays = {member: old[member] for member in KEPT_WHEN_ABSENT if body.get(member) is None}
    return {**body, **stays, "options": keep_retention(old.get("options") or {}, body.get("options") or {})}


def _list_reasons(error: PenstockError) -> list[str]:
    """Return the reasons for which a definition is refused, each by itself."""
    named = [error.fields] if {"field", "reason"} <= error.fields.keys() else []
    found = [f"{each['field']} {each['reason']}" for each in error.fields.get("violations") or named]
    return found or [error.detail]


def _without_schema(definition: Mapping[str, Any]) -> dict[str, Any]:
    return {member: value for member, value in definition.items() if member != _SCHEMA}


def find_differences(before: Any, after: Any, at: Pointer = ()) -> Iterator[Difference]:
    """Yield the differences in the order of the names; lists are compared as a whole, and null equals MISSING.

    >>> [str(each) for each in find_differences({"a": {"b": 1}, "c": None}, {"a": {"b": 2}, "d": "x"})]
    ['~ #/a/b: 1 -> 2', '+ #/d: "x"']
    """
    before, after = (MISSING if value is None else value for value in (before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            yield from find_differences(before.get(name), after.get(name), (*at, name))
    elif not is_equal(before, after) or type(before) is not type(after):
        yield Difference(format_pointer(at), before, after)


def diff_schemas(before: str, after: str) -> list[str]:
    """Return the lines of a unified diff of two schemas, regardless of spaces.

    >>> diff_schemas('{"a":1}', '{"a": 2}')
    [' {', '-  "a": 1', '+  "a": 2', ' }']
    """
    lines = difflib.unified_diff(_schema_lines(before), _schema_lines(after), lineterm="", n=3)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _schema_lines(schema: str) -> list[str]:
    return json.dumps(json.loads(schema), indent=2, ensure_ascii=False).splitlines()


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
