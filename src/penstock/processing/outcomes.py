"""Outcomes of a call: the answers of a handler about its span."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.errors import BadOutcome, BadParameter
from penstock.processing.parameters import INDEX_END, check_kind, check_name, check_seconds
from penstock.processing.stats import Stats

__all__ = ["Outcome", "done", "done_to", "retry", "skip_to"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a handler for a span; made by `done`, `done_to`, `retry` and `skip_to`."""

    next: int | None = None
    """The next index that is wanted: events below it are done, seen or not. None: the whole span is done."""
    after_seconds: float | None = None
    """Seconds until the rest comes again; None: at once."""
    tag: str | None = None
    """Its tag in views, logs and metrics."""
    counts: Mapping[str, int] | None = None
    """Amounts to add to the user's own counters."""
    stats: Stats | None = None
    """Further statistics under the user's own names."""
    skips: bool = field(default=False, compare=False)
    """True if `next` may lie beyond the span."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The result of a call that has raised, or has lasted too long."""

    tag: str
    """The kind of failure: the exception's class, `timeout`, or the user's classification."""
    detail: str
    """The exception as a text."""
    error: BaseException | None = field(default=None, compare=False, repr=False)
    """The exception, in the process that has made the call; None in others."""

    def __reduce__(self) -> tuple[type["Failure"], tuple[str, str]]:
        return Failure, (self.tag, self.detail)


ALL: Final = Outcome()
_NO_COUNTS: Final = ("after", "after_seconds", "index", "next")
"""Parameters of other functions here: as the name of a count they are a mistake."""


def to_timeout(seconds: float) -> Failure:
    """Return the failure of a call that was not done after *seconds*."""
    return Failure("timeout", f"the handler was not done after {seconds:g} s")


def done(*, tag: str | None = None, stats: Stats | None = None, **counts: int) -> Outcome:
    """Return the outcome that the whole span is done; a handler may also return None.

    *tag*, *stats* and *counts* describe the call further, likewise in the other functions.

    Raises:
        BadParameter: (likewise in the other functions) an argument is invalid.
    """
    return _outcome(None, None, tag, stats, counts)


def done_to(
    index: int,
    *,
    after_seconds: float | None = None,
    tag: str | None = None,
    stats: Stats | None = None,
    **counts: int,
) -> Outcome:
    """Return the outcome that events below *index* are done. The others come again at once, or after *after_seconds*.

    *index* lies in the span, or just behind it: only `skip_to` may skip unseen events.
    """
    _check_index(index)
    if after_seconds is not None:
        check_seconds("after_seconds", after_seconds, zero=True)
    return _outcome(index, after_seconds, tag, stats, counts)


def retry(after_seconds: float, *, tag: str | None = None, stats: Stats | None = None, **counts: int) -> Outcome:
    """Return the outcome that no event is done yet, without an error: the span comes again after *after_seconds*."""
    check_seconds("after_seconds", after_seconds, zero=True)
    return _outcome(-1, after_seconds, tag, stats, counts)


def skip_to(index: int, *, tag: str | None = None, stats: Stats | None = None, **counts: int) -> Outcome:
    """Return the outcome that events below *index*, even unseen ones, are done: they are dropped when they come."""
    _check_index(index)
    return replace(_outcome(index, None, tag, stats, counts), skips=True)


def _outcome(
    index: int | None, after_seconds: float | None, tag: str | None, stats: Stats | None, counts: dict[str, int]
) -> Outcome:
    if tag is not None:
        check_name("tag", tag)
    if stats is not None:
        check_kind("stats", stats, Stats, "Stats()")
    for name, count in counts.items():
        if name in _NO_COUNTS:
            allowed = (
                "a count of another name; what is left comes later by "
                "done_to(index, after_seconds=…) or retry(after_seconds)"
            )
            raise BadParameter(parameter=name, value=count, allowed=allowed)
        if type(count) is not int or count < 0:
            raise BadParameter(parameter=name, value=count, allowed="a whole number from 0: it is counted")
    return Outcome(index, after_seconds, tag, counts or None, stats)


def _check_index(index: Any) -> None:
    if type(index) is not int or not 0 <= index <= INDEX_END:
        allowed = "a whole number from 0 to 2**63 - 1, such as event.next"
        raise BadParameter(parameter="index", value=index, allowed=allowed)


def to_outcome(returned: Any) -> Outcome:
    """Convert the value *returned* by a handler to an outcome: None is `done`, a number is `done_to`.

    Raises:
        BadOutcome: it is none of these.

    >>> to_outcome(None).next, to_outcome(7).next
    (None, 7)
    """
    if returned is None:
        return ALL
    if isinstance(returned, Outcome):
        return returned
    if type(returned) is int and returned >= 0:
        return Outcome(returned)
    raise BadOutcome(returned=f"{returned!r:.200}")
