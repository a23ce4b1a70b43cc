"""The definition of an event type: every field, its rule and its default, in Nakadi's shape.

The rules for names, annotations, labels and enumerations are here too, since subscriptions share them. So are the
limits: Penstock's own, and Nakadi's for clients that rely on them. Unknown members are kept, so a client can send a
definition back as it was returned.

Source: Nakadi's event types, https://nakadi.io/manual.html.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

from penstock.core.events.encoding import describe_mismatch
from penstock.core.events.event import EVENT_BYTES_MAX
from penstock.core.events.metadata import SERVER_MEMBERS
from penstock.core.fields import Definition, DefinitionReader, Violation, raise_violations
from penstock.core.group_names import is_group_name
from penstock.errors import InvalidEventType, UnsupportedFormat
from penstock.schema.effective import metadata_schema
from penstock.schema.json_text import json_type_name
from penstock.schema.parsing import check_schema, defines, parse_schema, pointer_to
from penstock.schema.traversal import Pointer, Schema, key_path

MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset(
        [
            *("name", "owning_application", "category", "schema", "enrichment_strategies", "compatibility_mode"),
            *("partition_strategy", "partition_key_fields", "partition_count", "default_statistic", "max_event_bytes"),
            *("ordering_key_fields", "ordering_instance_ids", "options", "cleanup_policy", "audience"),
            *("authorization", "event_owner_selector", "annotations", "labels", "created_at", "updated_at"),
        ]
    ),
    "schema": frozenset(["type", "schema", "version", "created_at"]),
    "options": frozenset(["retention_time", "retention_bytes", "retention_wait", "publishing", "evolution"]),
    "options.retention_wait": frozenset(["groups", "retention_time", "retention_bytes"]),
    "default_statistic": frozenset(["messages_per_minute", "message_size", "read_parallelism", "write_parallelism"]),
    "authorization": frozenset(["admins", "readers", "writers"]),
    "event_owner_selector": frozenset(["type", "name", "value"]),
}
"""The known members of a definition, and of those objects in it whose members the owner does not choose."""


class UnknownMember(NamedTuple):
    """A member of a definition that has no meaning. It is kept, so that clients can send members of newer versions."""

    at: Pointer
    suggestion: str | None
    """The known member that was probably meant; None: no name is similar."""

    def __str__(self) -> str:
        asks = f"; is it {self.suggestion}?" if self.suggestion else ""
        return f"{'.'.join(self.at)} is a member that means nothing to a hub{asks}"


def unknown_members(definition: Mapping[str, Any]) -> Iterator[UnknownMember]:
    """Yield the unknown members of a *definition* in Nakadi's shape.

    >>> [str(each) for each in unknown_members({"name": "a", "partition_stratgy": "hash"})]
    ['partition_stratgy is a member that means nothing to a hub; is it partition_strategy?']
    """
    for within, known in MEMBERS.items():
        at = tuple(within.split(".")) if within else ()
        held: Any = definition
        for name in at:
            held = held.get(name) if isinstance(held, Mapping) else None
        if isinstance(held, Mapping):
            yield from (
                UnknownMember((*at, name), _find_closest_member(name, within)) for name in held if name not in known
            )


def _find_closest_member(name: str, within: str) -> str | None:
    """Return the known member most similar to *name*: the same name elsewhere, or a similar one in the same object."""
    known = MEMBERS[within]
    for other, members in MEMBERS.items():
        if other != within and name in members and other != "schema":
            return f"{other}.{name}" if other else name
    close = get_close_matches(name.lower(), known, 1)
    return ".".join(filter(None, [within, *close])) if close else None


NAME_CHARS_MAX: Final = 255
NAME_PATTERN: Final = r"[a-zA-Z][-0-9a-zA-Z_]*(\.[0-9a-zA-Z][-0-9a-zA-Z_]*)*"
_NAME: Final = re.compile(NAME_PATTERN)


def is_name(text: str) -> bool:
    """Return whether *text* is a valid name of an event type.

    >>> is_name("order.placed"), is_name("order placed")
    (True, False)
    """
    return len(text) <= NAME_CHARS_MAX and _NAME.fullmatch(text) is not None


Category = Literal["undefined", "business", "data"]
"""Any object; a step of a business process, with metadata; a change of data, with metadata."""
PartitionStrategy = Literal["random", "hash", "user_defined"]
CleanupPolicy = Literal["delete", "compact", "compact_and_delete"]
"""Whether events are deleted by their age, or by compaction, which keeps the last event of each key, or by both."""
Mode = Literal["none", "forward", "compatible"]
"""The allowed changes of the schema: all; those that old consumers can read; those that break no client."""
Evolution = Literal["nakadi", "consumers"]
"""The list of changes that the mode `forward` allows: Nakadi's, or also those that the event guidelines call compatible
for consumers."""
ReadFrom = Literal["begin", "end", "cursors"]
"""Position at which a subscription starts."""
Unprocessable = Literal["SKIP_EVENT", "DEAD_LETTER_QUEUE"]
"""Nakadi's policies for an event that was sent as often as allowed, and never committed."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a hub; chosen once, at its start."""

    partitions_max: int
    """Upper bound of the partitions of an event type."""
    retention_ms: tuple[int | None, int | None]
    """Lower and upper bound of an event type's retention, in milliseconds; None: unbounded."""
    retention_default_ms: int | None
    """Retention of an event type that sets none, in milliseconds; None: events are kept forever."""
    subscription_partitions_max: int
    """Upper bound of the partitions of a subscription, over all its event types."""
    commit_timeout_max: int
    """Upper bound of a stream's commit timeout, in seconds."""
    stream_bytes_max: int
    """Upper bound of the bytes of unsent events that a stream holds."""
    strict: bool
    """Whether the hub behaves exactly like Nakadi where Penstock explains or allows more."""
    refuses_by_guidelines: bool = False
    """Whether event types that break a MUST guideline without a waiver are refused."""


PENSTOCK: Final = Limits(
    partitions_max=256,
    retention_ms=(None, None),
    retention_default_ms=None,
    subscription_partitions_max=1_000,
    commit_timeout_max=3_600,
    stream_bytes_max=50_000_000,
    strict=False,
)
"""The default limits."""

NAKADI: Final = Limits(
    partitions_max=8,
    retention_ms=(10_800_000, 345_600_000),
    retention_default_ms=172_800_000,
    subscription_partitions_max=100,
    commit_timeout_max=60,
    stream_bytes_max=50_000_000,
    strict=True,
)
"""Nakadi's default limits: a retention of 3 hours to 4 days, by default 2 days."""


def limits_of(*, nakadi_strict: bool, refuses_by_guidelines: bool, stream_bytes_max: int = 50_000_000) -> Limits:
    """Return the limits of a hub with these settings.

    >>> limits_of(nakadi_strict=True, refuses_by_guidelines=False).partitions_max
    8
    """
    return msgspec.structs.replace(
        NAKADI if nakadi_strict else PENSTOCK,
        refuses_by_guidelines=refuses_by_guidelines,
        stream_bytes_max=stream_bytes_max,
    )


PREFIX_CHARS_MAX: Final = 253
LABEL_CHARS_MAX: Final = 63
ANNOTATION_CHARS_MAX: Final = 1_000
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_NAME: Final = re.compile(r"[a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?")


def find_wrong_annotations(annotations: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each key of *annotations* that breaks a rule, or whose value does, with the reason.

    >>> list(find_wrong_annotations({"team/contact": "any text"}))
    []
    """
    for key, value in annotations.items():
        yield from ((key, wrong) for wrong in _find_key_violations(key))
        if not isinstance(value, str):
            yield key, "must have a text as its value"
        elif len(value) > ANNOTATION_CHARS_MAX:
            yield key, f"must have a value of at most {ANNOTATION_CHARS_MAX} characters"


def find_wrong_labels(labels: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each label that breaks a rule, with the reason; its value is empty or has the form of a name.

    >>> list(find_wrong_labels({"stage": "not a name"}))
    [('stage', 'Value should start and end with a letter or a digit, and have only those, "-", "_" and "." within')]
    """
    for key, value in labels.items():
        yield from ((key, wrong) for wrong in _find_key_violations(key))
        if not isinstance(value, str):
            yield key, "must have a text as its value"
        elif len(value) > LABEL_CHARS_MAX:
            yield key, f"Value cannot be longer than {LABEL_CHARS_MAX} characters"
        elif value and not _LABEL_NAME.fullmatch(value):
            yield key, f"Value {_LETTERS}"


_LETTERS: Final = 'should start and end with a letter or a digit, and have only those, "-", "_" and "." within'


def _find_key_violations(key: str) -> Iterator[str]:
    prefix, slash, name = key.rpartition("/")
    if not key:
        yield "Key cannot be empty"
    if slash and not _PREFIX.fullmatch(prefix):
        yield "Key prefix should be a DNS name in lower case"
    if len(prefix) > PREFIX_CHARS_MAX:
        yield f"Key prefix cannot be longer than {PREFIX_CHARS_MAX} characters"
    if not _LABEL_NAME.fullmatch(name):
        yield f"Key name {_LETTERS}"
    if len(name) > LABEL_CHARS_MAX:
        yield f"Key name cannot be longer than {LABEL_CHARS_MAX} characters"


AUDIENCES: Final = (
    *("component-internal", "business-unit-internal", "company-internal"),
    *("external-partner", "external-public"),
)
MALFORMED: Final = "malformed-event-type"
"""The code of errors about fields that have the wrong type, or a value outside of their enumeration."""
ENRICHMENT: Final = "metadata_enrichment"
STATISTICS: Final = ("messages_per_minute", "message_size", "read_parallelism", "write_parallelism")
WHOLE_MAX: Final = (1 << 31) - 1
RETENTION_OPTIONS: Final = ("retention_time", "retention_bytes", "retention_wait")
LIMIT_MAX: Final = 1 << 62
_SELECTORS: Final = ("path", "static", "metadata")
_ANY_SCHEMA: Final = {"type": "json_schema", "schema": "{}"}
"""Stands for a schema that cannot be read, until the error is raised."""


def complete_definition(definition: Any, limits: Limits = PENSTOCK) -> Definition:
    """Check each field of *definition*, and return it with the defaults filled in.

    Raises:
        InvalidEventType: a field breaks a rule, or is malformed: it has the wrong type, or a value outside of its
            enumeration.
        UnsupportedFormat: the schema is an Avro schema.

    The first lists all fields, the schema among them, that are wrong by themselves. Fields that contradict each other
    are reported once each is valid by itself.

    >>> complete_definition({"name": "t", "owning_application": "me", "category": "undefined",
    ...            "schema": {"type": "json_schema", "schema": "{}"}})["partition_strategy"]
    'random'
    """
    check_object(definition)
    reading = _DefinitionReader(definition, limits)
    found, schema = reading.definition()
    reading.raise_violations(InvalidEventType, MALFORMED)
    raise_violations([*_find_contradictions(found, schema, limits)], InvalidEventType)
    return found


def check_object(definition: Any) -> None:
    """Raise InvalidEventType unless *definition* is an object."""
    if not isinstance(definition, dict):
        reason = f"an event type is a JSON object, this is {json_type_name(definition)}"
        raise InvalidEventType.of(MALFORMED, reason, reason=reason)  # No single field is wrong.


def partition_count_of(definition: Definition, limits: Limits = PENSTOCK) -> int:
    """Return the partition count of a checked definition: `partition_count`, else by its statistic.

    The statistic is bounded by the limit.
    """
    if definition.get("partition_count") is not None:
        return int(definition["partition_count"])
    statistic = definition.get("default_statistic") or {}
    asked = max(statistic.get("read_parallelism", 1), statistic.get("write_parallelism", 1))
    return int(min(asked, limits.partitions_max))


class _DefinitionReader(DefinitionReader):
    """Reads the fields of one definition, and collects the violations."""

    def __init__(self, given: Definition, limits: Limits) -> None:
        super().__init__(given)
        self._limits = limits

    def definition(self) -> tuple[Definition, Schema]:
        """Return the definition and its parsed schema; both are usable only if `raise_violations` does not raise."""
        known: Definition = {
            "name": self._name(),
            "owning_application": self.read_string("owning_application", required=True),
            "category": self.read_choice("category", get_args(Category)),
            "enrichment_strategies": self._enrichment(),
            "partition_strategy": self._partition_strategy(),
            "partition_key_fields": self.read_strings("partition_key_fields"),
            "ordering_key_fields": self.read_strings("ordering_key_fields"),
            "ordering_instance_ids": self.read_strings("ordering_instance_ids"),
            "compatibility_mode": self.read_choice("compatibility_mode", get_args(Mode), default="forward"),
            "schema": self._schema(),
            "default_statistic": self._statistic(),
            "options": self._options(),
            "cleanup_policy": self.read_choice("cleanup_policy", get_args(CleanupPolicy), default="delete"),
            "authorization": self.read_authorization("admins", "readers", "writers"),
            "annotations": self.read_string_map("annotations", find_wrong_annotations),
            "labels": self.read_string_map("labels", find_wrong_labels),
        }
        if self.members.get("partition_count") is not None:
            known["partition_count"] = self._count("partition_count", 1, self._limits.partitions_max)
        if self.members.get("max_event_bytes") is not None:
            known["max_event_bytes"] = self._count("max_event_bytes", 1, EVENT_BYTES_MAX)
        if self.members.get("audience") is not None:
            known["audience"] = self.read_choice("audience", AUDIENCES)
        if self.members.get("event_owner_selector") is not None:
            known["event_owner_selector"] = self._selector()
        dropped = known.keys() | {"partition_count", "max_event_bytes", "audience", "event_owner_selector"}
        rest = {name: value for name, value in self.members.items() if name not in dropped}
        return known | rest, self._parse_schema(known)

    def _parse_schema(self, known: Definition) -> Schema:
        """Return the parsed schema."""
        compatible, business = known["compatibility_mode"] == "compatible", known["category"] == "business"
        try:
            schema = parse_schema(known["schema"]["schema"])
            check_schema(schema, compatible=compatible, business=business)
        except InvalidEventType as error:
            self.note(error.fields["field"], error.fields["reason"])
            return {}
        return schema

    def _name(self) -> str:
        name = self.read_string("name", required=True)
        if not 1 <= len(name) <= NAME_CHARS_MAX:
            if isinstance(self.members.get("name"), str):
                self.note("name", f"the length of the name must be >= 1 and <= {NAME_CHARS_MAX}")
        elif not is_name(name):
            self.note("name", f"must match {NAME_PATTERN}")
        return name

    def _enrichment(self) -> list[str]:
        field = "enrichment_strategies"
        if field in self.members and self.members[field] is None:
            self.note(field, "may not be null")
        strategies = [strategy.lower() for strategy in self.read_strings(field)]
        for strategy in strategies:
            if strategy not in ("", ENRICHMENT):
                self.note_malformed(field, describe_mismatch([strategy], f"a list of {ENRICHMENT}"))
        return strategies

    def _partition_strategy(self) -> str:
        value = self.members.get("partition_strategy", "random")
        allowed = get_args(PartitionStrategy)
        if isinstance(value, str) and value.lower() in allowed:
            return value.lower()
        note = self.note if value is None or isinstance(value, str) else self.note_malformed
        note("partition_strategy", describe_mismatch(value, f"one of {', '.join(allowed)}"))
        return "random"

    def _schema(self) -> Definition:
        given = self.members.get("schema")
        if given is None:
            self.note("schema", 'may not be null; it is {"type": "json_schema", "schema": "<a JSON Schema as text>"}')
            return dict(_ANY_SCHEMA)
        try:
            return read_schema_member(given)
        except InvalidEventType as error:
            note = self.note_malformed if error.code == MALFORMED else self.note
            note(error.fields["field"], error.fields["reason"])
            return dict(_ANY_SCHEMA)

    def _statistic(self) -> Definition | None:
        given = self.members.get("default_statistic")
        if given is None:
            return None
        if self.check_type("default_statistic", given, dict, "an object") is None:
            return None
        lowest = {"messages_per_minute": 0}
        for name in STATISTICS:
            self.check_integer(f"default_statistic.{name}", given.get(name), lowest.get(name, 1), WHOLE_MAX)
        return dict(given)

    def _options(self) -> Definition:
        given = self.read_object("options")
        options = {name: value for name, value in given.items() if not (name in RETENTION_OPTIONS and value is None)}
        if "retention_time" not in options:
            if self._limits.retention_default_ms is not None:  # Nakadi's clients rely on it.
                options = {"retention_time": self._limits.retention_default_ms} | options
        else:
            low, high = self._limits.retention_ms
            self.check_integer("options.retention_time", options["retention_time"], low or 1, high or LIMIT_MAX)
        if (size := options.get("retention_bytes")) is not None:
            self.check_integer("options.retention_bytes", size, 1, LIMIT_MAX)
        if (wait := options.get("retention_wait")) is not None:
            self._check_retention_wait(wait)
        if (publishing := options.get("publishing")) is not None and publishing not in ("any", "exactly-once"):
            self.note_malformed("options.publishing", describe_mismatch(publishing, "any or exactly-once"))
        if (evolution := options.get("evolution")) is not None and evolution not in get_args(Evolution):
            self.note_malformed("options.evolution", describe_mismatch(evolution, "nakadi or consumers"))
        return options

    def _check_retention_wait(self, wait: Any) -> None:
        field = "options.retention_wait"
        if self.check_type(field, wait, dict, "an object") is None:
            return
        groups = wait.get("groups")
        if not isinstance(groups, list) or not groups or not all(isinstance(each, str) for each in groups):
            self.note_malformed(f"{field}.groups", describe_mismatch(groups, "a list of names of consumer groups"))
        elif wrong := next((each for each in groups if not is_group_name(each)), None):
            self.note(f"{field}.groups", f"must have names of consumer groups, not {wrong[:80]!r}")
        limits = [name for name in ("retention_time", "retention_bytes") if wait.get(name) is not None]
        if not limits:
            self.note(
                field, "must have a retention_time or retention_bytes, after which events are deleted all the same"
            )
        for name in limits:
            self.check_integer(f"{field}.{name}", wait[name], 1, LIMIT_MAX)

    def _selector(self) -> Definition:
        given = self.check_type("event_owner_selector", self.members["event_owner_selector"], dict, "an object")
        if given is None:
            return {}
        kind = given.get("type")
        if not isinstance(kind, str) or kind.lower() not in _SELECTORS:
            self.note_malformed("event_owner_selector.type", describe_mismatch(kind, f"one of {', '.join(_SELECTORS)}"))
            return dict(given)
        if not isinstance(given.get("name"), str) or not given["name"]:
            self.note("event_owner_selector.name", "must be a text of at least one character")
        value = given.get("value")
        if kind.lower() == "metadata" and value is not None:
            self.note("event_owner_selector.value", "must not be given for the type metadata")
        if kind.lower() != "metadata" and not isinstance(value, str):
            self.note("event_owner_selector.value", f"must be a text for the type {kind.lower()}")
        return dict(given) | {"type": kind.lower()}

    def _count(self, field: str, low: int, high: int) -> int:
        return self.check_integer(field, self.members[field], low, high)


def read_schema_member(member: Any, within: str = "schema.") -> Definition:
    """Return the type and the text of the member `schema`; errors put *within* before the names of its fields.

    Raises:
        InvalidEventType: the member has another shape, or the type or the text is missing.
        UnsupportedFormat: it is an Avro schema, which is not supported.
    """
    if not isinstance(member, dict):
        raise InvalidEventType.of(
            MALFORMED, field="schema", reason=describe_mismatch(member, 'an object with "type" and "schema"')
        )
    kind, text = member.get("type"), member.get("schema")
    if isinstance(kind, str) and kind.lower() == "avro_schema":
        raise UnsupportedFormat.of(
            "unsupported-media-type", given="an Avro schema", allowed="a JSON Schema (json_schema)"
        )
    for name, value, right in (("type", kind, "json_schema"), ("schema", text, "a JSON Schema, as text")):
        if value is None:
            raise InvalidEventType(field=f"{within}{name}", reason=f"may not be null; it is {right}")
    if not isinstance(kind, str) or kind.lower() != "json_schema":
        raise InvalidEventType.of(MALFORMED, field=f"{within}type", reason=describe_mismatch(kind, "json_schema"))
    if not isinstance(text, str):
        raise InvalidEventType.of(
            MALFORMED, field=f"{within}schema", reason=describe_mismatch(text, "a JSON Schema, as text")
        )
    return {"type": "json_schema", "schema": text}


def _find_wait_contradictions(options: Definition, wait: Definition) -> Iterator[Violation]:
    """Yield limits of events that groups wait for which are below those of all events."""
    for name in ("retention_time", "retention_bytes"):
        limit, longest = options.get(name), wait.get(name)
        if limit is not None and longest is not None and longest < limit:
            yield Violation(f"options.retention_wait.{name}", f"must not be less than options.{name}, which is {limit}")


def _find_contradictions(definition: Mapping[str, Any], schema: Schema, limits: Limits) -> Iterator[Violation]:
    """Yield fields that are valid by themselves, but contradict each other."""
    category = definition["category"]
    if definition["cleanup_policy"] != "delete" and category == "undefined":
        reason = "must be delete for the category undefined: its events have no compaction key"
        yield Violation("cleanup_policy", reason)
    if wait := definition["options"].get("retention_wait"):
        yield from _find_wait_contradictions(definition["options"], wait)
    if reason := _find_wrong_enrichment(category, definition["enrichment_strategies"]):
        yield Violation("enrichment_strategies", reason)
    if definition["options"].get("evolution") == "consumers" and definition["compatibility_mode"] != "forward":
        reason = f"can be consumers in the compatibility_mode forward alone, not in {definition['compatibility_mode']}"
        yield Violation("options.evolution", reason)
    if definition["partition_strategy"] == "hash" and not definition["partition_key_fields"]:
        yield Violation("partition_key_fields", "must not be empty for the hash strategy")
    if limits.strict and (category, definition["partition_strategy"]) == ("undefined", "user_defined"):
        yield Violation("partition_strategy", "must not be user_defined for the category undefined, in Nakadi")
    selector = definition.get("event_owner_selector")
    if selector and selector["type"] == "path" and not _is_defined(schema, category, selector["value"]):
        missing = _describe_missing(category, selector["value"])
        yield Violation("event_owner_selector.value", f"must be a path in the schema, which has no {missing}")
    if definition["ordering_instance_ids"] and not definition["ordering_key_fields"]:
        yield Violation("ordering_instance_ids", "must be empty where there are no ordering_key_fields")
    for field in ("ordering_key_fields", "ordering_instance_ids"):
        for path in dict.fromkeys(definition[field]):
            if not _is_defined(schema, category, path):
                yield Violation(field, f"must be paths in the schema, which has no {_describe_missing(category, path)}")


def _find_wrong_enrichment(category: str, strategies: Sequence[str]) -> str:
    if category == "undefined" and strategies:
        return "must be empty for the category undefined: its events have no metadata"
    if category != "undefined" and ENRICHMENT not in strategies:
        return f"must have {ENRICHMENT} for the category {category}"
    return f"can have nothing but {ENRICHMENT}, once" if len(strategies) > 1 else ""


_METADATA: Final = SERVER_MEMBERS.union(metadata_schema("", compacted=True)["properties"])


def _is_defined(schema: Schema, category: str, path: str) -> bool:
    """Return whether *path* is defined in whole events of a *category* whose own schema is *schema*."""
    first, *rest = key_path(path)
    if category != "undefined" and first == "metadata":
        return rest[:1] == ["span_ctx"] or not rest or (len(rest) == 1 and rest[0] in _METADATA)
    if category == "data":
        return (first in ("data_type", "data_op") and not rest) or (first == "data" and defines(schema, rest))
    return defines(schema, [first, *rest])


def _describe_missing(category: str, path: str) -> str:
    """Return *path* as it was given, and the place at which the schema of a *category* should define it."""
    first, *rest = key_path(path)
    if category == "data" and first == "data":
        return f"{path!r} at {pointer_to(rest)}"
    if category == "data" or (category == "business" and first == "metadata"):
        return repr(path)
    return f"{path!r} at {pointer_to([first, *rest])}"
