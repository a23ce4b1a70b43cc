"""Rules and outcomes of handlers: impossible ones are refused with the allowed values."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import BadOutcome, BadParameter
from penstock.processing.engine.rules import Backoff, Health, Rules
from penstock.processing.outcomes import Outcome, done, done_to, retry, skip_to, to_outcome

NAN = float("nan")
REFUSED: list[tuple[Callable[..., object], dict[str, Any], str]] = [
    *[(Rules, members, said) for members, said in (
        ({"concurrency": 0}, "concurrency is 0; allowed: a whole number from 1"),
        ({"concurrency": "8"}, "concurrency is '8'; allowed: a whole number from 1"),
        ({"batches_ahead": True}, "batches_ahead is True; allowed: a whole number from 1"),
        ({"events_ahead": -1}, "events_ahead is -1; allowed: a whole number from 1"),
        ({"events_per_call": 1.5}, "events_per_call is 1.5; allowed: a whole number from 1"),
        ({"remember": 0}, "remember is 0; allowed: a whole number from 1"),
        ({"require_all": 1}, "require_all is 1; allowed: True or False"),
        ({"exhausted": "prak"}, "exhausted is 'prak'; allowed: stop or park"),
        ({"exhausted": "park"}, "attempts_max is missing; allowed: a whole number from 1, where exhausted is 'park'"),
        ({"attempts_max": 0}, "attempts_max is 0; allowed: a whole number from 1"),
        ({"timeout": 0}, "timeout is 0; allowed: more than 0, or None"),
        ({"timeout": NAN}, "timeout is nan; allowed: more than 0, or None"),
        ({"timeout": "5"}, "timeout is '5'; allowed: more than 0, or None"),
        ({"backoff": 3}, "backoff is 3; allowed: Backoff"),
        ({"health": 5}, "health is 5; allowed: Health"),
    )],
    *[(Backoff, members, said) for members, said in (
        ({"first_seconds": -1}, "backoff.first_seconds is -1; allowed: 0 or more"),
        ({"first_seconds": "1"}, "backoff.first_seconds is '1'; allowed: 0 or more"),
        ({"first_seconds": NAN}, "backoff.first_seconds is nan; allowed: 0 or more"),
        ({"factor": 0.5}, "backoff.factor is 0.5; allowed: 1 or more"),
        ({"factor": None}, "backoff.factor is missing; allowed: 1 or more"),
        ({"max_seconds": 0.01}, "backoff.max_seconds is 0.01; allowed: 0.1, which is the first delay, or more"),
        ({"jitter": 2}, "backoff.jitter is 2; allowed: from 0 to 1"),
        ({"jitter": True}, "backoff.jitter is True; allowed: from 0 to 1"),
    )],
    *[(Health, {name: value}, rf"health.{name} is {value!r}; allowed: more than 0, or None")
      for name in ("failing_seconds_max", "stalled_seconds_max", "unanswered_seconds_max")
      for value in (0, -1, NAN, float("inf"), "60", True)],
    *[(retry, {"after_seconds": after}, f"after_seconds is {said}; allowed: 0 or more")
      for after, said in ((-1, "-1"), (NAN, "nan"), (10**400, "10+"), ("5", "'5'"), (None, "missing"))],
    (done_to, {"index": 7, "after_seconds": -2}, "after_seconds is -2; allowed: 0 or more"),
    (done_to, {"index": -1}, "index is -1; allowed: a whole number from 0"),
    (skip_to, {"index": 2**63}, r"index is 9223372036854775808; allowed: a whole number from 0 to 2\*\*63 - 1"),
    (skip_to, {"index": "7"}, "index is '7'; allowed: a whole number from 0"),
    (done, {"tag": 3}, "tag is 3; allowed: a text of at least one character, not"),
    (done, {"after": 5}, "after is 5; allowed: a count of another name; what is left comes later by done_to"),
    (skip_to, {"index": 7, "after": 5}, "after is 5; allowed: a count of another name"),
    (done, {"written": "2"}, "written is '2'; allowed: a whole number from 0"),
    (retry, {"after_seconds": 1.0, "written": -1}, "written is -1; allowed: a whole number from 0"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "members", "said"), REFUSED, ids=[f"{make.__name__}-{said[:38]}" for make, _, said in REFUSED]
)
def test_impossible_rule_or_outcome_is_refused(make: Callable[..., object], members: dict[str, Any], said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        make(**members)


def test_handler_may_return_a_short_outcome() -> None:
    assert to_outcome(None) == Outcome()
    assert to_outcome(7) == done_to(7)
    assert to_outcome(retry(1.0)) == retry(1.0)


@pytest.mark.parametrize("returned", [True, "done", 1.5, [7]])
def test_malformed_outcome_is_refused(returned: Any) -> None:
    with pytest.raises(BadOutcome, match=r"a handler has returned .*, which is no outcome"):
        to_outcome(returned)


def test_jitter_shortens_a_delay_and_never_extends_it() -> None:
    backoff = Backoff(first_seconds=1.0, jitter=0.2)

    assert [backoff.delay(2, chance) for chance in (0.0, 0.5, 1.0)] == [2.0, 1.8, 1.6]
