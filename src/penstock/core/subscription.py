"""What an application says of its subscription: every field, its rule and its default.

The shape is Nakadi's (digest of its contract, 5.1 and 5.2).
Members that are not known here are kept as they are, so that a client may send back whatever it was given.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias, get_args

from penstock.core.choices import ReadFrom
from penstock.core.event import KEY_CHARS_MAX, is_key
from penstock.core.fields import Definition, Fields, Violation, raise_wrong
from penstock.core.json_text import form_of
from penstock.core.labels import wrong_annotations, wrong_labels
from penstock.core.retrying import wrong_policy
from penstock.errors import InvalidSubscription, MalformedSubscription

GROUP: Final = "default"
SERVER_MEMBERS: Final = ("id", "created_at", "updated_at", "status", "_links")
"""Only a hub writes these."""
_FIXED: Final = ("owning_application", "event_types", "consumer_group", "read_from", "initial_cursors")
"""What a subscription is; another one is needed for others."""

Identity: TypeAlias = tuple[str, tuple[str, ...], str]
"""Owning application, event types, consumer group: there is one subscription for them."""


class Search(NamedTuple):
    """Which subscriptions are looked for: those that are all of this."""

    owning_application: str | None = None
    event_types: Sequence[str] = ()
    """They read each of these."""
    reader: tuple[str, str] | None = None
    """They name this one, by data type and value, among those who may read."""


def completed_subscription(given: Any) -> Definition:
    """Return the definition *given* with every field looked at and the defaults filled in.

    Raises:
        MalformedSubscription: a field is of the wrong type, or not among the values that it can have.
        InvalidSubscription: a field breaks a rule.

    Both name all the fields that are wrong.

    >>> found = completed_subscription({"owning_application": "shop", "event_types": ["order.placed", "order.placed"]})
    >>> found["event_types"], found["consumer_group"], found["read_from"]
    (['order.placed'], 'default', 'end')
    """
    if not isinstance(given, dict):
        reason = f"a subscription is a JSON object, this is {form_of(given)}"
        raise MalformedSubscription(reason, reason=reason)
    fields = _Reading(given)
    found = fields.definition()
    fields.raise_if_wrong(InvalidSubscription, MalformedSubscription)
    return found


def identity_of(definition: Definition) -> Identity:
    """Return by what a subscription is told from others."""
    return definition["owning_application"], tuple(definition["event_types"]), definition["consumer_group"]


def replaced_subscription(old: Definition, given: Any) -> Definition:
    """Return what a subscription is once it is what is *given*: only who may and what is attached can be others.

    Raises:
        MalformedSubscription, InvalidSubscription: it cannot be that.
    """
    new = completed_subscription(given)
    wrong = [
        Violation(field, "cannot be another: make a subscription of its own")
        for field in _FIXED
        if new[field] != old[field]
    ]
    if old["authorization"] is not None and new["authorization"] is None:
        wrong.append(Violation("authorization", "cannot be taken away, only be another"))
    raise_wrong(wrong, InvalidSubscription)
    return new


class _Reading(Fields):
    def definition(self) -> Definition:
        known: Definition = {
            "owning_application": self._filled("owning_application"),
            "event_types": self._event_types(),
            "consumer_group": self._filled("consumer_group", GROUP),
            "read_from": self.one_of("read_from", get_args(ReadFrom), "end"),
            "initial_cursors": self._cursors(),
            "authorization": self.authorization("admins", "readers"),
            "annotations": self.attached("annotations", wrong_annotations),
            "labels": self.attached("labels", wrong_labels),
        }
        for field, reason in wrong_policy(known["annotations"]):
            self.note(field, reason)
        rest = {name: value for name, value in self.given.items() if name not in known and name not in SERVER_MEMBERS}
        for field, value in (known | rest).items():
            if field not in ("owning_application", "consumer_group") and _has_nul([field, value]):
                self.note(field, "must not have the character NUL in it: PostgreSQL could look at no reader then")
        return known | rest

    def _filled(self, field: str, default: str | None = None) -> str:
        if default is not None and self.given.get(field) is None:
            return default
        text = self.text(field, required=True)
        if isinstance(self.given.get(field), str) and not (text and is_key(text) and text.isprintable()):
            self.note(field, f"must have 1 to {KEY_CHARS_MAX} characters, all of which can be printed")
        return text

    def _event_types(self) -> list[str]:
        found = sorted(set(self.texts("event_types")))
        if self.given.get("event_types") in (None, []):
            self.note("event_types", "must name at least one event type")
        return found

    def _cursors(self) -> list[Definition]:
        given = self.given.get("initial_cursors")
        found = self.typed("initial_cursors", [] if given is None else given, list, "a list of cursors") or []
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
