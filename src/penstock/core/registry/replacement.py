"""The fields of an event type that an owner can change, and by which rules.

Source: Nakadi's rules for updates of event types, https://nakadi.io/manual.html.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from penstock.core.fields import Definition
from penstock.core.registry.definition import (
    MALFORMED,
    PENSTOCK,
    RETENTION_OPTIONS,
    Limits,
    check_object,
    partition_count_of,
    read_schema_member,
)
from penstock.core.registry.event_type import EventType
from penstock.errors import IncompatibleSchema, InvalidEventType, UnsupportedFormat
from penstock.schema.changes import EvolutionRules
from penstock.schema.evolution import (
    EvolutionVerdict,
    describe_changes,
    explain_refusal,
    judge,
    judge_history,
    raise_version,
)
from penstock.schema.parsing import check_schema, parse_schema
from penstock.schema.traversal import Schema

KEPT_WHEN_ABSENT: Final = ("annotations", "labels", "default_statistic")
_AUTHORIZATION_GONE: Final = "Changing authorization object to `null` is not possible due to existing one"
_REFUSED: Final = "cannot be changed so: "
_NEXT_MODE: Final = {"none": "forward", "forward": "compatible"}

EarlierVersions = Callable[[], Iterable[Definition]]
"""Returns the earlier versions of a schema that have the major number of the last one, newest first."""


def _list_no_versions() -> Iterable[Definition]:
    return ()


class Replacement(NamedTuple):
    """The event type after a change of its definition."""

    event_type: EventType
    verdict: EvolutionVerdict | None
    """The effect of the change of its schema; None if the text is the same."""


def replace_definition(
    old: EventType,
    definition: Any,
    *,
    admin: bool,
    allow_reordering: bool = False,
    limits: Limits = PENSTOCK,
    earlier: EarlierVersions = _list_no_versions,
) -> Replacement:
    """Return the event type *old* with a new *definition*; an *admin* can change more than an owner.

    Unless *allow_reordering*, changes that break the current order of events are refused: another strategy than `hash`
    or `user_defined`, and other key fields, a change which Nakadi allows. *earlier* versions of the schema, if given,
    are compared too.

    Raises:
        InvalidEventType: the definition breaks a rule, or changes a fixed field. If it also has another, valid schema,
            the error lists the schema's `changes` like IncompatibleSchema.
        IncompatibleSchema: the compatibility mode refuses the change of the schema.
    """
    check_object(definition)
    _check_partition_count(old, definition)
    whole = _keep_absent_members(old.definition, definition)
    try:
        new = EventType.parse(whole, limits)
    except InvalidEventType as error:
        raise _add_changes(error, old, whole) from None
    _check_fields(old, new, definition, admin=admin, allow_reordering=allow_reordering, limits=limits)
    verdict = None
    schema = old.definition["schema"]
    if new.definition["schema"]["schema"] != schema["schema"]:
        verdict = judge_schema_change(old, new, earlier)
        schema = new.definition["schema"] | {"version": raise_version(old.schema_version, verdict.level)}
    return Replacement(EventType.of(new.definition | {"schema": schema}, old.partition_count), verdict)


def judge_schema_change(
    old: EventType, new: EventType, earlier: EarlierVersions = _list_no_versions
) -> EvolutionVerdict:
    """Return the verdict on the change from the schema of *old* to that of *new*.

    Raises:
        IncompatibleSchema: the mode of *old* refuses it; `changes` explains each change, with an alternative.
    """
    before, after = (parse_schema(each.definition["schema"]["schema"]) for each in (old, new))
    rules = old.evolution_rules, new.evolution_rules
    verdict = judge(before, after, *rules)
    order = _explain_order(before, after, *rules) if verdict.refused else ""
    if rules[0] != "none":
        versions = ((each["version"], parse_schema(each["schema"])) for each in earlier())
        verdict = judge_history(verdict, after, versions)
    if verdict.refused:
        detail = f"Invalid schema: {explain_refusal(verdict)}{order}"
        raise IncompatibleSchema(
            detail,
            event_type=old.name,
            mode=old.compatibility_mode,
            evolution=old.evolution,
            **_describe_verdict(verdict, rules[0]),
        )
    return verdict


def _describe_verdict(verdict: EvolutionVerdict, rules: EvolutionRules) -> dict[str, Any]:
    return {"producers": verdict.producers, "consumers": verdict.consumers, "changes": describe_changes(verdict, rules)}


def _explain_order(before: Schema, after: Schema, mode: EvolutionRules, new_mode: EvolutionRules) -> str:
    """Explain how to change the schema and the mode one after the other, if both at once are refused."""
    if mode == new_mode:
        return ""
    setting = f"`compatibility_mode` to {new_mode}"
    if {mode, new_mode} == {"forward", "consumers"}:
        setting = f"`options.evolution` to {'consumers' if new_mode == 'consumers' else 'nakadi'}"
    judging = f"; the mode that it has, {mode}, judges this"
    if not judge(before, after, new_mode).refused:
        return f"{judging}: change {setting} by itself first, and the schema then"
    if not judge(before, after, mode).refused:
        way = f"change the schema by itself first, and {setting} then"
        return f"; on the way from {mode} to {new_mode} a schema can only be closed: {way}"
    return f"{judging}, and {new_mode} would refuse it too"


def _add_changes(error: InvalidEventType, old: EventType, definition: Definition) -> InvalidEventType:
    """Return *error* with the changes of the schema, so that one answer reports all problems."""
    if error.code == MALFORMED:
        return error  # The definition can have any shape.
    try:
        after = parse_schema(read_schema_member(definition.get("schema"))["schema"])
        mode: Any = str(definition.get("compatibility_mode") or "forward").lower()
        check_schema(after, compatible=mode == "compatible", business=definition.get("category") == "business")
        verdict = judge(parse_schema(old.definition["schema"]["schema"]), after, old.evolution_rules, mode)
    except (InvalidEventType, UnsupportedFormat):
        return error
    if not verdict.changes:
        return error
    fields = error.fields | _describe_verdict(verdict, old.evolution_rules)
    if not verdict.refused:
        return InvalidEventType(error.detail, **fields)
    fields["violations"] = [*fields["violations"], {"field": "schema", "reason": _REFUSED + explain_refusal(verdict)}]
    return InvalidEventType(f'{error.detail}\nField "schema" {_REFUSED}{explain_refusal(verdict)}', **fields)


def _keep_absent_members(old: Definition, definition: Definition) -> Definition:
    """Return *definition* with the old values of members that keep their value if they are absent."""
    merged = {name: value for name, value in definition.items() if name != "partition_count"}
    for name in KEPT_WHEN_ABSENT:
        if merged.get(name) is None:
            merged[name] = old[name]
    options = {} if merged.get("options") is None else merged["options"]
    if isinstance(options, dict):
        merged["options"] = keep_retention(old["options"], options)
    return merged


def keep_retention(old: Definition, new: Definition) -> Definition:
    """Return the options *new* with the retention of *old* where they state none, so that no event is lost by a slip.

    Nakadi's clients send null for a `retention_time` that they do not know; null removes the other limits.

    >>> keep_retention({"retention_time": 9, "retention_bytes": 7}, {"retention_time": None, "retention_bytes": None})
    {'retention_time': 9, 'retention_bytes': None}
    """
    kept = {name: old[name] for name in RETENTION_OPTIONS if name in old and name not in new}
    if new.get("retention_time") is None:
        kept["retention_time"] = old.get("retention_time")
    return new | kept


def _check_partition_count(old: EventType, definition: Definition) -> None:
    count = definition.get("partition_count")
    if count is not None and count != old.partition_count:
        path = f"PUT /event-types/{old.name}/partition-count"
        raise InvalidEventType(
            field="partition_count", reason=f"is {old.partition_count} and is raised by {path} alone"
        )


def _check_fields(
    old: EventType, new: EventType, definition: Definition, *, admin: bool, allow_reordering: bool, limits: Limits
) -> None:
    before, after = old.definition, new.definition
    if new.name != old.name:
        raise InvalidEventType(
            field="name", reason=f"must be {old.name!r}, as in the path: an event type keeps its name"
        )
    if new.cleanup_policy != old.cleanup_policy and (old.cleanup_policy, new.cleanup_policy) != (
        "delete",
        "compact_and_delete",
    ):
        raise InvalidEventType(
            field="cleanup_policy",
            reason=f"can change from delete to compact_and_delete alone, not from {old.cleanup_policy}",
        )
    if before.get("audience") is not None and after.get("audience") is None:
        raise InvalidEventType(field="audience", reason="may not become null once it is set")
    if before.get("authorization") is not None and definition.get("authorization") is None:
        raise InvalidEventType(_AUTHORIZATION_GONE, field="authorization", reason="may not become null once it is set")
    _check_category(old, new)
    _check_statistic(old, after["default_statistic"], limits)
    if not allow_reordering:
        _check_order(old, new, limits)
    if admin:
        return
    if new.compatibility_mode not in (old.compatibility_mode, _NEXT_MODE.get(old.compatibility_mode)):
        way = f"cannot change from {old.compatibility_mode} to {new.compatibility_mode}"
        raise InvalidEventType(field="compatibility_mode", reason=f"{way}, but by who administers the hub")
    if (old.evolution_rules, new.evolution_rules) == ("forward", "consumers"):
        raise InvalidEventType(
            field="options.evolution", reason="cannot change from nakadi to consumers, but by who administers the hub"
        )
    selector = before.get("event_owner_selector")
    if selector is not None and after.get("event_owner_selector") != selector:
        raise InvalidEventType(field="event_owner_selector", reason="cannot change once it is set")


def _check_order(old: EventType, new: EventType, limits: Limits) -> None:
    """Raise if events that are in order now would no longer be."""
    lost = "events that are in order now would fall in other partitions; to accept that, say allow_reordering"
    if new.partition_strategy != old.partition_strategy != "random":
        way = f"from {old.partition_strategy} to {new.partition_strategy}"
        raise InvalidEventType(field="partition_strategy", reason=f"cannot change {way}: {lost}")
    if limits.strict or old.partition_strategy != "hash" or new.partition_key_fields == old.partition_key_fields:
        return
    before, after = (", ".join(each.partition_key_fields) for each in (old, new))
    raise InvalidEventType(field="partition_key_fields", reason=f"cannot change from {before} to {after}: {lost}")


def _check_category(old: EventType, new: EventType) -> None:
    if new.category != old.category:
        if (old.category, new.category) != ("undefined", "business"):
            way = f"from {old.category} to {new.category}"
            raise InvalidEventType(field="category", reason=f"can change from undefined to business alone, not {way}")
        if new.compatibility_mode == "compatible":
            raise InvalidEventType(field="category", reason="can change in the modes none and forward alone")


def _check_statistic(old: EventType, after: Definition | None, limits: Limits) -> None:
    """Raise if the statistic asks for another partition count than the current one."""
    by = f"partitions are added by PUT /event-types/{old.name}/partition-count"
    before = old.definition["default_statistic"]
    if before is None:
        if after is not None and partition_count_of({"default_statistic": after}, limits) != old.partition_count:
            raise InvalidEventType(
                field="default_statistic", reason=f"must ask for {old.partition_count} partitions, as there are: {by}"
            )
        return
    for name in ("read_parallelism", "write_parallelism"):
        if after is not None and after[name] != before[name]:
            raise InvalidEventType(
                field=f"default_statistic.{name}", reason=f"is {before[name]} and cannot change: {by}"
            )
