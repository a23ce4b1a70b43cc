from typing import Any

import pytest

from penstock.errors import BadOutcome, BadParameter
from penstock.processing.engine.backoff import Backoff
from penstock.processing.engine.outcome import Outcome, done_to, outcome_of, retry
from penstock.processing.engine.rules import Rules


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"concurrency": 0}, "concurrency is 0; allowed: 1 or more"),
        ({"batches_ahead": 0}, "batches_ahead is 0; allowed: 1 or more"),
        ({"events_ahead": -1}, "events_ahead is -1; allowed: 1 or more"),
        ({"events_per_call": 0}, "events_per_call is 0; allowed: 1 or more"),
        ({"attempts_max": 0}, "attempts_max is 0; allowed: 1 or more, or None"),
        ({"timeout_s": 0}, "timeout_s is 0; allowed: more than 0, or None"),
        ({"require_all": True}, "require_all is True; allowed: False of a source whose indices have gaps"),
    ],
)
def test_rules_that_cannot_be_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        Rules(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"first": -1}, "backoff.first is -1; allowed: 0 or more"),
        ({"factor": 0.5}, "backoff.factor is 0.5; allowed: 1 or more"),
        ({"most": 0.01}, "backoff.most is 0.01; allowed: 0.1, which is the first delay, or more"),
        ({"jitter": 2}, "backoff.jitter is 2; allowed: from 0 to 1"),
    ],
)
def test_delays_that_cannot_be_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        Backoff(**given)


def test_chance_shortens_a_delay_and_never_makes_it_longer() -> None:
    backoff = Backoff(first=1.0, jitter=0.2)

    assert [backoff.delay(2, chance) for chance in (0.0, 0.5, 1.0)] == [2.0, 1.8, 1.6]


def test_a_handler_may_say_it_shortly() -> None:
    assert outcome_of(None) == Outcome()
    assert outcome_of(7) == done_to(7)
    assert outcome_of(retry(1.0)) == retry(1.0)


@pytest.mark.parametrize("returned", [True, "done", 1.5, [7]])
def test_anything_else_is_no_outcome(returned: Any) -> None:
    with pytest.raises(BadOutcome, match=r"a handler has returned .*, which is no outcome"):
        outcome_of(returned)
