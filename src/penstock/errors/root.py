"""What all errors have in common."""

from functools import partial
from typing import Any, ClassVar, Final

SHOWN_MAX: Final = 500
"""So many characters of a value are shown."""


class PenstockError(Exception):
    """The root. `code` is stable and part of the protocol; `fields` are what a program can use."""

    code: ClassVar[str] = "penstock-error"
    message: ClassVar[str] = "{detail}"
    hint: ClassVar[str | None] = None
    """What to do about it, where one sentence can say that."""
    retryable: ClassVar[bool] = False
    """Whether the same request can succeed later, unchanged."""

    def __init__(self, detail: str | None = None, /, **fields: Any) -> None:
        self.detail = detail if detail is not None else self.message.format_map(_Said(fields))
        self.fields = fields
        super().__init__(self.detail)

    def __str__(self) -> str:
        return with_hint(self.detail, self.hint)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.detail, **self.fields), ()


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
