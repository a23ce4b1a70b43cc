"""Reads the members of a JSON object that a client has sent, and collects the violations."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from penstock.core.events.encoding import describe_mismatch
from penstock.errors import Invalid

Definition = dict[str, Any]


class Violation(NamedTuple):
    """A field, and the rule that it breaks."""

    field: str
    reason: str


def raise_violations(wrong: Sequence[Violation], kind: type[Invalid], code: str | None = None) -> None:
    """Raise an error of class *kind* that lists all *wrong* fields; return if there are none.

    *code* is a code of that class, by default its own.
    """
    if wrong:
        detail = "\n".join(f'Field "{each.field}" {each.reason}' for each in wrong)
        violations = [each._asdict() for each in wrong]
        raise kind.of(code or kind.code, detail, **violations[0], violations=violations)


class DefinitionReader:
    """Reads the members of one object. Each method records a violation and still returns a value of the right type."""

    def __init__(self, members: Definition) -> None:
        self.members = members
        self._wrong: list[Violation] = []
        self._is_malformed = False

    def raise_violations(self, kind: type[Invalid], malformed: str) -> None:
        """Raise an error of class *kind* if violations were recorded; it lists all of them.

        Its code is *malformed* if any member has the wrong type or a value outside of its enumeration.
        """
        raise_violations(self._wrong, kind, malformed if self._is_malformed else None)

    def note(self, field: str, reason: str) -> None:
        """Record that a member breaks a rule."""
        self._wrong.append(Violation(field, reason))

    def note_malformed(self, field: str, reason: str) -> None:
        """Record that a member has the wrong type, or a value outside of its enumeration."""
        self._is_malformed = True
        self.note(field, reason)

    def read_string(self, field: str, *, required: bool = False) -> str:
        """Return a string member; the empty string if it is absent."""
        value = self.members.get(field)
        if value is None and required:
            self.note(field, "may not be null")
            return ""
        return str(self.check_type(field, value if value is not None else "", str, "a text") or "")

    def read_strings(self, field: str) -> list[str]:
        """Return a member that is a list of non-empty strings."""
        values = self.members.get(field, [])
        if values is None:
            return []
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            self.note_malformed(field, describe_mismatch(values, "a list of texts"))
            return []
        if not all(values):
            self.note(field, "must not have an empty text in it")
        return list(values)

    def read_choice(self, field: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        """Return a member that is one of the strings *allowed*, in lower case; *default* if it is absent."""
        value = self.members.get(field)
        if value is None:
            if default is None:
                self.note(field, f"may not be null; it is one of {', '.join(allowed)}")
            return default or allowed[0]
        if isinstance(value, str) and value.lower() in allowed:
            return value.lower()
        self.note_malformed(field, describe_mismatch(value, f"one of {', '.join(allowed)}"))
        return default or allowed[0]

    def read_authorization(self, *names: str) -> Definition | None:
        """Return the member `authorization`, whose lists have these *names*; None if it is absent."""
        given = self.members.get("authorization")
        if given is None:
            return None
        if self.check_type("authorization", given, dict, "an object") is None:
            return None
        for name in names:
            self.check_attributes(f"authorization.{name}", given.get(name))
        return dict(given)

    def check_attributes(self, field: str, value: Any) -> None:
        """Check a list of authorization attributes: at least one, no duplicates, each with `data_type` and `value`."""
        attributes = self.check_type(field, [] if value is None else value, list, "a list")
        if attributes == []:
            self.note(field, "must contain at least one attribute")
        seen = set()
        for each in attributes or []:
            if self.check_type(field, each, dict, "a list of objects") is None:
                continue
            pair = tuple(each.get(part) for part in ("data_type", "value"))
            if not all(isinstance(part, str) for part in pair):
                self.note(field, "must have data_type and value, both texts, in each attribute")
                continue
            if pair in seen:
                self.note(field, f"must not have an attribute twice: {pair[0]}:{pair[1]}")
            seen.add(pair)

    def read_string_map(self, field: str, wrong: Callable[[Definition], Any]) -> Definition:
        """Return labels or annotations; *wrong* yields each invalid key with the reason."""
        given = self.read_object(field)
        for key, reason in wrong(given):
            self.note(f"{field}[{key}]", reason)
        return dict(given)

    def check_integer(self, field: str, value: Any, low: int, high: int) -> int:
        """Return *value* if it is an integer from *low* to *high*, else *low*."""
        right = f"a whole number from {low} to {high}"
        if value is not None and type(value) is not int:
            self.note_malformed(field, describe_mismatch(value, right))
            return low
        if value is None or not low <= value <= high:
            self.note(field, describe_mismatch(value, right))
            return low
        return int(value)

    def read_object(self, field: str) -> Definition:
        """Return a member that is an object; an empty one if it is absent."""
        given = self.members.get(field)
        return self.check_type(field, {} if given is None else given, dict, "an object") or {}

    def check_type(self, field: str, value: Any, kind: type, right: str) -> Any:
        """Return *value* if it is an instance of *kind*; otherwise record a violation and return None."""
        if isinstance(value, kind):
            return value
        self.note_malformed(field, describe_mismatch(value, right))
        return None
