"""The root of all errors, and the roots of the tree that errors of several capabilities share."""

import inspect
from functools import partial
from types import NoneType
from typing import Any, ClassVar, Final, Literal, get_args, get_origin

SHOWN_MAX: Final = 500
"""So many characters of a value are shown."""


class _Field:
    """An attribute that a class of errors declares: the entry of that name in `fields`.

    An error can lack a field, for instance if its problem came from another version of Penstock. The attribute is then
    None if its type allows None, and missing otherwise, so that its declared type holds.
    """

    def __init__(self, name: str, kind: Any) -> None:
        self._name = name
        self._is_optional = NoneType in get_args(kind)

    def __get__(self, error: "PenstockError | None", _: type["PenstockError"]) -> Any:
        if error is None:
            return self
        if self._name in error.fields or self._is_optional:
            return error.fields.get(self._name)
        raise AttributeError(f"this {type(error).__name__} has no field {self._name!r}", name=self._name, obj=error)

    def __set__(self, error: "PenstockError", value: Any) -> None:
        error.fields[self._name] = value


class PenstockError(Exception):
    """The root of all errors.

    `code` is stable and part of the protocol. A class annotates its fields, which are then attributes of its errors;
    `fields` has all of them by name, as they are sent over HTTP, and also those that no class declares.
    """

    code: ClassVar[str] = "penstock-error"
    message: ClassVar[str] = "{detail}"
    hint: ClassVar[str | None] = None
    """What to do about it, in one or two sentences."""
    retryable: ClassVar[bool] = False
    """Whether the same request can succeed later, unchanged."""

    retry_after: float | None
    """Seconds after which the hub wants to be asked again; None if it does not say."""
    outcome: Literal["not_stored", "unknown"] | None
    """Whether events of a failed call of `IdempotentProducer` may be stored; None in errors of other calls."""
    published: int | None
    """Number of events of a failed call of `Client.publish` that were published before it failed; else None."""

    def __init_subclass__(cls) -> None:
        _declare(cls)

    def __init__(self, detail: str | None = None, /, **fields: Any) -> None:
        self.detail = detail if detail is not None else self.message.format_map(_Said(fields))
        self.fields = fields
        super().__init__(self.detail)

    def __str__(self) -> str:
        return with_hint(self.detail, self.hint)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.detail, **self.fields), ()


def _declare(cls: type[PenstockError]) -> None:
    """Make an attribute of every field that *cls* annotates."""
    for name, kind in inspect.get_annotations(cls).items():
        origin: Any = get_origin(kind)
        if origin is not ClassVar:
            setattr(cls, name, _Field(name, kind))


_declare(PenstockError)


class Invalid(PenstockError):
    """What was handed in cannot be right; it will not be right later either."""

    code = "invalid"


class TooLarge(PenstockError):
    """More bytes than a limit allows."""

    code = "too-large"


class NotFound(PenstockError):
    """What was named does not exist."""

    code = "not-found"


class Conflict(PenstockError):
    """Right in itself, but not in the state that things are in."""

    code = "conflict"


class Forbidden(PenstockError):
    """It could be done, but not by whoever asks, or not here."""

    code = "forbidden"


class Unavailable(PenstockError):
    """The request can be repeated unchanged after a while."""

    code = "unavailable"
    message = "not available now: {reason}"
    retryable = True

    reason: str | None


class OutcomeUnknown(PenstockError):
    """The request may or may not have been carried out, and a repeat could do it twice."""

    code = "outcome-unknown"
    message = "it is not known whether this was carried out: {reason}"
    hint = "Look whether it was before you repeat it: in the feed, where it was a publish."

    reason: str
    doubtful: int | None
    """Number of events of a failed call of `Client.publish` that may be stored or not; else None."""


class BadParameter(Invalid):
    """A parameter is missing, malformed or out of range."""

    code = "bad-parameter"
    message = "parameter {parameter} {said}; allowed: {allowed}"

    parameter: str | None
    value: Any
    """None if it is missing."""
    allowed: str | None
    n: Any
    partition_count: int | None
    divisors: list[int] | None


class RequirementMissing(PenstockError):
    """Something that does not come with Penstock is not there, or too old."""

    code = "requirement-missing"
    message = "{needed} is needed, {found} found; {install}"

    needed: str
    found: str
    install: str


def with_hint(detail: str, hint: str | None) -> str:
    """Return *detail*, which may end with words of others and their full stop, and the *hint* as sentences.

    >>> with_hint("it is late", "Go home."), with_hint("it is late.", "Go home."), with_hint("it is late", None)
    ('it is late. Go home.', 'it is late. Go home.', 'it is late')
    """
    if not hint:
        return detail
    return f"{detail} {hint}" if detail.endswith((".", "!", "?", "…")) else f"{detail}. {hint}"


def _shown(value: Any) -> str:
    """Return *value* as `repr` has it, as far as it can, and not at any length."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - It is the user's, and the error is about it.
        return f"a {type(value).__name__}"
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


class _Said(dict[str, Any]):
    """Fields as a sentence says them; one that is missing leaves a hole, for an error about an error helps nobody."""

    def __getitem__(self, name: str) -> Any:
        if name == "partitions" and "partitions" not in self:
            count = self["partition_count"]
            return "1 partition" if count == 1 else f"{count} partitions"
        if name == "part" and "part" not in self:
            partition, event_type = self.get("partition"), repr(self.get("event_type", "?"))
            return event_type if partition is None else f"partition {partition} of {event_type}"
        if name == "stands":
            return "no epoch" if self.get("current_epoch") is None else f"epoch {self['current_epoch']}"
        if name.startswith("at_"):
            position = self.get(name.removeprefix("at_"), "?")
            return "at no position yet" if position is None else f"at {position}"
        if name == "said":
            return "is missing" if self.get("value") is None else f"is {_shown(self['value'])}"
        value = self.get(name, "?")
        if value and isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
            return "; ".join(map(printable, value))
        return "an unknown number of" if name == "lost" and value is None else value


def printable(text: str) -> str:
    """Return *text* without quotes around it, what cannot be printed written as `repr` writes it."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
