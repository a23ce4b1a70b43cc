from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import BadOutcome, BadParameter
from penstock.processing.engine.outcome import Outcome, done, done_to, outcome_of, retry, skip_to


def test_a_handler_may_say_it_shortly() -> None:
    assert outcome_of(None) == Outcome()
    assert outcome_of(7) == done_to(7)
    assert outcome_of(retry(1.0)) == retry(1.0)


@pytest.mark.parametrize("returned", [True, "done", 1.5, [7]])
def test_anything_else_is_no_outcome(returned: Any) -> None:
    with pytest.raises(BadOutcome, match=r"a handler has returned .*, which is no outcome"):
        outcome_of(returned)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: retry(-1), "after is -1; allowed: 0 or more"),
        (lambda: retry(float("nan")), "after is nan; allowed: 0 or more"),
        (lambda: retry(10**400), "after is 10+; allowed: 0 or more"),
        (lambda: retry("5"), "after is '5'; allowed: 0 or more"),  # type: ignore[arg-type]
        (lambda: retry(None), "after is missing; allowed: 0 or more"),  # type: ignore[arg-type]
        (lambda: done_to(7, after=-2), "after is -2; allowed: 0 or more"),
        (lambda: done_to(-1), "index is -1; allowed: a whole number from 0"),
        (lambda: skip_to(2**63), r"index is 9223372036854775808; allowed: a whole number from 0 to 2\*\*63 - 1"),
        (lambda: skip_to("7"), "index is '7'; allowed: a whole number from 0"),  # type: ignore[arg-type]
        (lambda: done(tag=3), "tag is 3; allowed: a text of at least one character, not"),  # type: ignore[arg-type]
        (lambda: done(after=5), "after is 5; allowed: a count of another name; what is left comes later by done_to"),
        (lambda: skip_to(7, after=5), "after is 5; allowed: a count of another name"),
        (lambda: done(written="2"), "written is '2'; allowed: a whole number from 0"),  # type: ignore[arg-type]
        (lambda: retry(1.0, written=-1), "written is -1; allowed: a whole number from 0"),
    ],
)
def test_what_cannot_be_said_of_a_span_is_refused(call: Callable[[], Outcome], said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        call()
