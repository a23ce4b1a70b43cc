"""The members that a definition can have, and what others in one were probably meant to be.

Reads the members of a JSON object that a client hands in, and collects what is wrong with them.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from penstock.core.events.encoding import describe_mismatch
from penstock.errors import Invalid

Definition = dict[str, Any]


class Violation(NamedTuple):
    """A field, and what is wrong with it."""

    field: str
    reason: str


def raise_violations(wrong: Sequence[Violation], kind: type[Invalid]) -> None:
    """Raise an error of that *kind* which names all that is *wrong*, if anything is."""
    if wrong:
        detail = "\n".join(f'Field "{each.field}" {each.reason}' for each in wrong)
        violations = [each._asdict() for each in wrong]
        raise kind(detail, **violations[0], violations=violations)


class DefinitionReader:
    """The members of one object. What is wrong with a member is noted, and something of its type returned."""

    def __init__(self, given: Definition) -> None:
        self.given = given
        self._wrong: list[Violation] = []
        self._is_malformed = False

    def raise_if_wrong(self, invalid: type[Invalid], malformed: type[Invalid]) -> None:
        """Raise an error that names all the fields found wrong, if there are any."""
        raise_violations(self._wrong, malformed if self._is_malformed else invalid)

    def note(self, field: str, reason: str) -> None:
        """Take note that a member breaks a rule."""
        self._wrong.append(Violation(field, reason))

    def note_malformed(self, field: str, reason: str) -> None:
        """Take note that a member is of the wrong type, or none of the values that it can have."""
        self._is_malformed = True
        self.note(field, reason)

    def text(self, field: str, *, required: bool = False) -> str:
        """Return a text; an empty one where it is not there."""
        value = self.given.get(field)
        if value is None and required:
            self.note(field, "may not be null")
            return ""
        return str(self.typed(field, value if value is not None else "", str, "a text") or "")

    def texts(self, field: str) -> list[str]:
        """Return a list of texts, none of which may be empty."""
        values = self.given.get(field, [])
        if values is None:
            return []
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            self.note_malformed(field, describe_mismatch(values, "a list of texts"))
            return []
        if not all(values):
            self.note(field, "must not have an empty text in it")
        return list(values)

    def one_of(self, field: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        """Return one of the texts *allowed*, in lower case; the *default* where there is none."""
        value = self.given.get(field)
        if value is None:
            if default is None:
                self.note(field, f"may not be null; it is one of {', '.join(allowed)}")
            return default or allowed[0]
        if isinstance(value, str) and value.lower() in allowed:
            return value.lower()
        self.note_malformed(field, describe_mismatch(value, f"one of {', '.join(allowed)}"))
        return default or allowed[0]

    def authorization(self, *names: str) -> Definition | None:
        """Return the member `authorization`, whose lists have these *names*."""
        given = self.given.get("authorization")
        if given is None:
            return None
        if self.typed("authorization", given, dict, "an object") is None:
            return None
        for name in names:
            self.check_attributes(f"authorization.{name}", given.get(name))
        return dict(given)

    def check_attributes(self, field: str, given: Any) -> None:
        """Look at a list of who may: at least one, each once, with its data_type and its value."""
        attributes = self.typed(field, [] if given is None else given, list, "a list")
        if attributes == []:
            self.note(field, "must contain at least one attribute")
        seen = set()
        for each in attributes or []:
            if self.typed(field, each, dict, "a list of objects") is None:
                continue
            pair = tuple(each.get(part) for part in ("data_type", "value"))
            if not all(isinstance(part, str) for part in pair):
                self.note(field, "must have data_type and value, both texts, in each attribute")
                continue
            if pair in seen:
                self.note(field, f"must not have an attribute twice: {pair[0]}:{pair[1]}")
            seen.add(pair)

    def attached(self, field: str, wrong: Callable[[Definition], Any]) -> Definition:
        """Return labels or annotations; *wrong* says what is wrong with them."""
        given = self.object(field)
        for key, reason in wrong(given):
            self.note(f"{field}[{key}]", reason)
        return dict(given)

    def counted(self, field: str, value: Any, low: int, high: int) -> int:
        """Return *value* if it is a whole number from *low* to *high*, else *low*."""
        right = f"a whole number from {low} to {high}"
        if value is not None and type(value) is not int:
            self.note_malformed(field, describe_mismatch(value, right))
            return low
        if value is None or not low <= value <= high:
            self.note(field, describe_mismatch(value, right))
            return low
        return int(value)

    def object(self, field: str) -> Definition:
        """Return an object; an empty one where it is not there."""
        given = self.given.get(field)
        return self.typed(field, {} if given is None else given, dict, "an object") or {}

    def typed(self, field: str, value: Any, kind: type, right: str) -> Any:
        """Return *value* if it is of that *kind*; None where it is not, which is noted then."""
        if isinstance(value, kind):
            return value
        self.note_malformed(field, describe_mismatch(value, right))
        return None
