"""The definition of a subscription: every field, its rule and its default, in Nakadi's shape.

Unknown members are kept, so a client can send a definition back as it was returned.

Annotations choose what happens to events that a consumer cannot process; `start_partition` applies them, per partition.
A partition counts the streams that end without committing the events that they were sent. At the limit the failed batch
is sent event by event, to find the poison event. When the count reaches the limit again, the hub gives that event up.

Source: Nakadi's subscriptions and dead letters, https://nakadi.io/manual.html; see docs/decisions/parked-keys.md.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from penstock.core.events.event import KEY_CHARS_MAX, is_key
from penstock.core.fields import Definition, DefinitionReader, Violation, raise_violations
from penstock.core.registry.definition import ReadFrom, Unprocessable, find_wrong_annotations, find_wrong_labels
from penstock.errors import InvalidSubscription
from penstock.schema.json_text import json_type_name

SEND_COUNT: Final = "nakadi.zalando.org/subscription-max-event-send-count"
POLICY: Final = "nakadi.zalando.org/subscription-unprocessable-event-policy"
PARK_AFTER: Final = "penstock/park-after-attempts"
OURS: Final = "penstock/"
SEND_COUNTS: Final = range(2, 11)


class UnprocessablePolicy(NamedTuple):
    """How a subscription treats events that its consumer cannot process."""

    send_count: int
    """How many times an event is sent."""
    policy: Unprocessable | Literal["PARK_KEY"]
    """What happens to it after that."""


class PartitionStart(NamedTuple):
    """How a stream starts to send a partition."""

    failed: int
    single_until: int
    """Events below this offset are sent one by one."""
    gives_up: bool
    """Whether the hub gives the next event up before it sends others."""


def read_unprocessable_policy(definition: Definition) -> UnprocessablePolicy | None:
    """Return the policy for events that cannot be processed; None: they are sent again without limit.

    >>> read_unprocessable_policy({"annotations": {SEND_COUNT: "3", POLICY: "SKIP_EVENT"}})
    UnprocessablePolicy(send_count=3, policy='SKIP_EVENT')
    >>> read_unprocessable_policy({"annotations": {PARK_AFTER: "5"}})
    UnprocessablePolicy(send_count=5, policy='PARK_KEY')
    """
    annotations = definition["annotations"]
    if SEND_COUNT in annotations:
        return UnprocessablePolicy(int(annotations[SEND_COUNT]), annotations[POLICY])
    return UnprocessablePolicy(int(annotations[PARK_AFTER]), "PARK_KEY") if PARK_AFTER in annotations else None


def start_partition(failed: int, offset: int, single_until: int, *, limit: int, batch_limit: int) -> PartitionStart:
    """Return how a partition is sent from *offset* on after *failed* failures in a row, out of *limit*.

    >>> start_partition(2, 0, 0, limit=3, batch_limit=10)
    PartitionStart(failed=2, single_until=0, gives_up=False)
    >>> start_partition(3, 0, 0, limit=3, batch_limit=10)
    PartitionStart(failed=0, single_until=10, gives_up=False)
    >>> start_partition(3, 4, 10, limit=3, batch_limit=10)
    PartitionStart(failed=0, single_until=10, gives_up=True)
    """
    if failed < limit:
        return PartitionStart(failed, single_until, gives_up=False)
    if offset < single_until:
        return PartitionStart(0, single_until, gives_up=True)
    return PartitionStart(0, offset + batch_limit, gives_up=False)


def find_wrong_policy_annotations(annotations: Definition) -> Iterator[tuple[str, str]]:
    """Yield each annotation about unprocessable events that breaks a rule, with the reason."""
    count, policy = annotations.get(SEND_COUNT), annotations.get(POLICY)
    if (count is None) != (policy is None):
        missing, there = (SEND_COUNT, POLICY) if count is None else (POLICY, SEND_COUNT)
        yield f"annotations[{missing}]", f"must be there, since {there} is"
    if PARK_AFTER in annotations and SEND_COUNT in annotations:
        yield f"annotations[{PARK_AFTER}]", f"cannot be there beside {SEND_COUNT}: they say two things of one event"
    for name in (SEND_COUNT, PARK_AFTER):
        if annotations.get(name) is not None and annotations[name] not in map(str, SEND_COUNTS):
            yield f"annotations[{name}]", f"must be a whole number from {SEND_COUNTS[0]} to {SEND_COUNTS[-1]}"
    for name in annotations:
        if name.startswith(OURS) and name != PARK_AFTER:
            yield f"annotations[{name}]", f"is not known; there is {PARK_AFTER}"
    if policy is not None and policy not in get_args(Unprocessable):
        yield f"annotations[{POLICY}]", f"must be one of {', '.join(get_args(Unprocessable))}"


GROUP: Final = "default"
SERVER_MEMBERS: Final = ("id", "created_at", "updated_at", "status", "_links")
"""Members that only a hub writes."""
_MALFORMED: Final = "malformed-subscription"
"""The code of errors about fields that have the wrong type, or a value outside of their enumeration."""
_FIXED: Final = ("owning_application", "event_types", "consumer_group", "read_from", "initial_cursors")
"""Fields that identify a subscription and cannot change."""

SubscriptionIdentity: TypeAlias = tuple[str, tuple[str, ...], str]
"""Owning application, event types, consumer group: there is one subscription for each combination."""


class SubscriptionSearch(NamedTuple):
    """A filter for subscriptions; all given criteria have to match."""

    owning_application: str | None = None
    event_types: Sequence[str] = ()
    """The subscription reads each of these event types."""
    reader: tuple[str, str] | None = None
    """The data type and value of an attribute among the subscription's readers."""


def complete_subscription(definition: Any) -> Definition:
    """Check each field of *definition*, and return it with the defaults filled in.

    Raises:
        InvalidSubscription: a field breaks a rule, or is malformed: it has the wrong type, or a value outside of its
            enumeration. The error lists all wrong fields.

    >>> found = complete_subscription({"owning_application": "shop", "event_types": ["order.placed", "order.placed"]})
    >>> found["event_types"], found["consumer_group"], found["read_from"]
    (['order.placed'], 'default', 'end')
    """
    if not isinstance(definition, dict):
        reason = f"a subscription is a JSON object, this is {json_type_name(definition)}"
        raise InvalidSubscription.of(_MALFORMED, reason, reason=reason)
    fields = _SubscriptionReader(definition)
    found = fields.definition()
    fields.raise_violations(InvalidSubscription, _MALFORMED)
    return found


def subscription_identity(definition: Definition) -> SubscriptionIdentity:
    """Return the fields that distinguish a subscription from all others."""
    return definition["owning_application"], tuple(definition["event_types"]), definition["consumer_group"]


def replace_subscription(old: Definition, definition: Any) -> Definition:
    """Return the replaced definition; only authorization, annotations and labels can differ from *old*.

    Raises:
        InvalidSubscription: *definition* is not a valid definition, or changes another field.
    """
    new = complete_subscription(definition)
    wrong = [
        Violation(field, "cannot be another: make a subscription of its own")
        for field in _FIXED
        if new[field] != old[field]
    ]
    if old["authorization"] is not None and new["authorization"] is None:
        wrong.append(Violation("authorization", "cannot be taken away, only be another"))
    raise_violations(wrong, InvalidSubscription)
    return new


class _SubscriptionReader(DefinitionReader):
    def definition(self) -> Definition:
        known: Definition = {
            "owning_application": self._read_required_string("owning_application"),
            "event_types": self._event_types(),
            "consumer_group": self._read_required_string("consumer_group", GROUP),
            "read_from": self.read_choice("read_from", get_args(ReadFrom), "end"),
            "initial_cursors": self._cursors(),
            "authorization": self.read_authorization("admins", "readers"),
            "annotations": self.read_string_map("annotations", find_wrong_annotations),
            "labels": self.read_string_map("labels", find_wrong_labels),
        }
        for field, reason in find_wrong_policy_annotations(known["annotations"]):
            self.note(field, reason)
        rest = {name: value for name, value in self.members.items() if name not in known and name not in SERVER_MEMBERS}
        for field, value in (known | rest).items():
            if field not in ("owning_application", "consumer_group") and _has_nul([field, value]):
                self.note(field, "must not have the character NUL in it: PostgreSQL cannot read it in JSON")
        return known | rest

    def _read_required_string(self, field: str, default: str | None = None) -> str:
        if default is not None and self.members.get(field) is None:
            return default
        text = self.read_string(field, required=True)
        if isinstance(self.members.get(field), str) and not (text and is_key(text) and text.isprintable()):
            self.note(field, f"must have 1 to {KEY_CHARS_MAX} characters, all of which can be printed")
        return text

    def _event_types(self) -> list[str]:
        found = sorted(set(self.read_strings("event_types")))
        if self.members.get("event_types") in (None, []):
            self.note("event_types", "must name at least one event type")
        return found

    def _cursors(self) -> list[Definition]:
        given = self.members.get("initial_cursors")
        found = self.check_type("initial_cursors", [] if given is None else given, list, "a list of cursors") or []
        for each in found:
            parts = [each.get(part) for part in ("event_type", "partition", "offset")] if isinstance(each, dict) else []
            if not parts or not all(isinstance(part, str) for part in parts):
                self.note("initial_cursors", "must have event_type, partition and offset, all texts, in each cursor")
                return []
        return list(found)


def _has_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return _has_nul([*value, *value.values()])
    return any(map(_has_nul, value)) if isinstance(value, list) else isinstance(value, str) and "\0" in value
