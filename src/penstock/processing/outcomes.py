"""Outcomes of a call: what a handler says about the span that it was given."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.errors import BadOutcome, BadParameter
from penstock.processing.parameters import INDEX_END, check_kind, check_name, check_seconds
from penstock.processing.stats import Stats

__all__ = ["Outcome", "done", "done_to", "retry", "skip_to"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has become of a span; made by `done`, `done_to`, `retry` and `skip_to`."""

    next: int | None = None
    """The index wanted next: events below it are done, seen or not. None: the whole span is done."""
    after_seconds: float | None = None
    """What is left is to wait for so many seconds; None: it comes again at once."""
    tag: str | None = None
    """What it is called in views, logs and metrics."""
    counts: Mapping[str, int] | None = None
    """What is to be counted under names of the user's own."""
    stats: Stats | None = None
    """Further statistics under names of the user's own."""
    skips: bool = field(default=False, compare=False)
    """Whether `next` may lie beyond the span."""


@dataclass(frozen=True, slots=True)
class Failure:
    """That a handler has raised, or has not ended in time."""

    tag: str
    """Which kind of failure: the exception's class, `timeout`, or what the user's classification says."""
    detail: str
    """What was raised, for people."""
    error: BaseException | None = field(default=None, compare=False, repr=False)
    """What was raised, where that is known: in the process that has made the call, and in no other."""

    def __reduce__(self) -> tuple[type["Failure"], tuple[str, str]]:
        return Failure, (self.tag, self.detail)


ALL: Final = Outcome()
_NO_COUNTS: Final = ("after", "after_seconds", "index", "next")
"""They mean something to others of these functions: whoever gives them to one that counts them has mistaken it."""


def timed_out(seconds: float) -> Failure:
    """Return what has come of a call that was not done after so many seconds."""
    return Failure("timeout", f"the handler was not done after {seconds:g} s")


def done(*, tag: str | None = None, stats: Stats | None = None, **counts: int) -> Outcome:
    """Say that the whole span is done; as a handler does that returns nothing.

    *tag*, *stats* and *counts* tell more of the call, as of the others.

    Raises:
        BadParameter: (as of the others) what is said is none of what it should be.
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
    """Say that the events below *index* are done. The others come again: at once, or after *after_seconds*.

    It lies in the span, or just behind: only `skip_to` passes over what was not seen.
    """
    _check_index(index)
    if after_seconds is not None:
        check_seconds("after_seconds", after_seconds, zero=True)
    return _outcome(index, after_seconds, tag, stats, counts)


def retry(after_seconds: float, *, tag: str | None = None, stats: Stats | None = None, **counts: int) -> Outcome:
    """Say that nothing is done yet, without an error: the span comes again after *after_seconds*."""
    check_seconds("after_seconds", after_seconds, zero=True)
    return _outcome(-1, after_seconds, tag, stats, counts)


def skip_to(index: int, *, tag: str | None = None, stats: Stats | None = None, **counts: int) -> Outcome:
    """Say that the handler has seen further than it was given: events below *index* are dropped when they come."""
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


def outcome_of(returned: Any) -> Outcome:
    """Return what a handler has *returned* as an outcome: nothing is `done`, a number is `done_to`.

    Raises:
        BadOutcome: it is none of these.

    >>> outcome_of(None).next, outcome_of(7).next
    (None, 7)
    """
    if returned is None:
        return ALL
    if isinstance(returned, Outcome):
        return returned
    if type(returned) is int and returned >= 0:
        return Outcome(returned)
    raise BadOutcome(returned=f"{returned!r:.200}")
