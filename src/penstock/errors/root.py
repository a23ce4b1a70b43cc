"""The root class of all errors, and the classes that errors of several capabilities inherit."""

import inspect
from collections.abc import Mapping
from functools import partial
from types import NoneType
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self, get_args, get_origin

SHOWN_MAX: Final = 500
"""Maximum number of characters of a value in a message."""


class _Field:
    """Descriptor for an annotated field of an error class: reads and writes the entry of that name in `fields`.

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


class Case(NamedTuple):
    """The text of one code of a class that has several."""

    message: str
    hint: str | None = None
    """What to do about it, in one or two sentences."""


class PenstockError(Exception):
    """The root of all errors.

    `code` is stable and part of the protocol. Most classes have one code. A class for several causes that callers
    handle alike has a code for each of them, in `cases`; `of` makes an error of any code of its class.

    A class annotates its fields, which are then attributes of its errors. `fields` has all of them by name, as they are
    sent over HTTP, and also those that no class declares.
    """

    code: str = "penstock-error"
    message: ClassVar[str] = "{detail}"
    hint: str | None = None
    """What to do about it, in one or two sentences."""
    cases: ClassVar[Mapping[str, Case]] = {}
    """The texts of further codes; `message` and `hint` are the text of `code`."""
    retryable: ClassVar[bool] = False
    """Whether the same request can succeed later, unchanged."""

    retry_after: float | None
    """Seconds after which the client should repeat the request; None if the hub does not say."""
    outcome: Literal["not_stored", "unknown"] | None
    """Whether events of a failed call of `IdempotentProducer` may be stored; None in errors of other calls."""
    published: int | None
    """Number of events of a failed call of `Client.publish` that were published before it failed; else None."""

    def __init_subclass__(cls) -> None:
        cls.cases = vars(cls).get("cases", {})  # Codes are not inherited.
        _declare(cls)

    def __init__(self, detail: str | None = None, /, **fields: Any) -> None:
        self.detail = detail if detail is not None else self.message.format_map(_Values(fields))
        self.fields = fields
        super().__init__(self.detail)

    @classmethod
    def of(cls, code: str, detail: str | None = None, /, **fields: Any) -> Self:
        """Return the error of one of the class's codes, with the text of that code or with *detail*."""
        message, hint = (cls.message, cls.hint) if code == cls.code else cls.cases[code]
        error = cls(message.format_map(_Values(fields)) if detail is None else detail, **fields)
        error.code, error.hint = code, hint
        return error

    def __str__(self) -> str:
        return with_hint(self.detail, self.hint)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self).of, self.code, self.detail, **self.fields), ()


def _declare(cls: type[PenstockError]) -> None:
    """Make every field that *cls* annotates an attribute of its errors."""
    for name, kind in inspect.get_annotations(cls).items():
        origin: Any = get_origin(kind)
        if origin is not ClassVar and name not in vars(cls):
            setattr(cls, name, _Field(name, kind))


_declare(PenstockError)


class Invalid(PenstockError):
    """The input is wrong and will be refused every time."""

    code = "invalid"


class TooLarge(PenstockError):
    """The input exceeds a size limit."""

    code = "too-large"


class NotFound(PenstockError):
    """The named thing does not exist."""

    code = "not-found"


class Conflict(PenstockError):
    """The request is valid, but the present state does not allow it."""

    code = "conflict"


class Forbidden(PenstockError):
    """The caller, or every caller of this hub, lacks the right to do this, or a page of another origin asks."""

    code = "forbidden"
    cases: ClassVar = {
        "cross-site": Case(
            "the request comes from a web page of another origin: {origin}",
            "Ask the hub from a program, or from a page that it serves itself.",
        ),
        "foreign-host": Case(
            "{host!r} is not a name of this hub", "Ask it by its address, or serve it with --host-name and this name."
        ),
    }

    origin: str | None
    """The origin of the page in `cross-site`, if the browser tells it."""
    host: str | None
    """The header Host in `foreign-host`."""


class Unavailable(PenstockError):
    """The request failed for now; the client can repeat it unchanged later."""

    code = "unavailable"
    message = "not available now: {reason}"
    hint = "Repeat the request unchanged later. The attribute retry_after says after how many seconds, if it is known."
    retryable = True

    reason: str | None


class OutcomeUnknown(PenstockError):
    """The request may or may not have been carried out; a repeat could do it twice."""

    code = "outcome-unknown"
    message = "it is unknown whether the request was carried out: {reason}"
    hint = "Check before you repeat it: after a publish, read the feed to see whether the events are there."

    reason: str
    doubtful: int | None
    """Number of events of a failed call of `Client.publish` that may be stored or not; else None."""


class BadParameter(Invalid):
    """A parameter is missing, malformed or out of range."""

    code = "bad-parameter"
    message = "parameter {parameter} {value_state}; allowed: {allowed}"
    cases: ClassVar = {
        "bad-stream-parameter": Case(
            "parameter {parameter} {value_state}; allowed: {allowed}", "Correct the parameter, or leave it out."
        ),
        "partition-required": Case(
            "an idempotent producer must name the partition: POST /event-types/{event_type}/partitions/.../events",
            "Send the batch to a partition, or leave out the headers of idempotent producers.",
        ),
        "bad-producer-headers": Case(
            "header {parameter} {value_state}; allowed: {allowed}",
            "Send Producer-Group, Producer-Epoch and Producer-Sequence together, or none of them.",
        ),
    }

    parameter: str | None
    value: Any
    """None if it is missing."""
    allowed: str | None
    n: Any
    partition_count: int | None
    divisors: list[int] | None
    event_type: str | None
    """The event type in `partition-required`."""


class RequirementMissing(PenstockError):
    """A program or library that Penstock needs here is missing or too old."""

    code = "requirement-missing"
    message = "{needed} is needed, {found} found; {install}"

    needed: str
    found: str
    install: str
    """How to install it."""


def with_hint(detail: str, hint: str | None) -> str:
    """Return *detail* and *hint* as sentences; add a full stop to *detail* unless it ends with punctuation.

    >>> with_hint("it is late", "Go home."), with_hint("it is late.", "Go home."), with_hint("it is late", None)
    ('it is late. Go home.', 'it is late. Go home.', 'it is late')
    """
    if not hint:
        return detail
    return f"{detail} {hint}" if detail.endswith((".", "!", "?", "…")) else f"{detail}. {hint}"


def _show(value: Any) -> str:
    """Return `repr(value)`, cut to `SHOWN_MAX` characters; the name of its type if `repr` fails."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - A user's __repr__ may raise anything.
        return f"a {type(value).__name__}"
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


class _Values(dict[str, Any]):
    """Fields as a message shows them, and words made from them. A missing field is shown as a question mark."""

    def __getitem__(self, name: str) -> Any:
        if name == "partitions" and "partitions" not in self:
            count = self["partition_count"]
            return "1 partition" if count == 1 else f"{count} partitions"
        if name == "where":
            partition, event_type = self.get("partition"), repr(self.get("event_type", "?"))
            return event_type if partition is None else f"partition {partition} of {event_type}"
        if name == "epoch_state":
            return "no epoch" if self.get("current_epoch") is None else f"epoch {self['current_epoch']}"
        if name.startswith("at_"):
            position = self.get(name.removeprefix("at_"), "?")
            return "at no position" if position is None else f"at {position}"
        if name == "value_state":
            return "is missing" if self.get("value") is None else f"is {_show(self['value'])}"
        value = self.get(name, "?")
        if value and isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
            return "; ".join(map(printable, value))
        return "an unknown number of" if name == "lost" and value is None else value


def printable(text: str) -> str:
    """Return *text* without quotes, with unprintable characters escaped as in `repr`."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
