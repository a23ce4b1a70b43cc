from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.processing.engine.rules import Rules


@pytest.mark.parametrize(
    ("given", "said"),
    [
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
        ({"timeout_s": 0}, "timeout_s is 0; allowed: more than 0, or None"),
        ({"timeout_s": float("nan")}, "timeout_s is nan; allowed: more than 0, or None"),
        ({"timeout_s": "5"}, "timeout_s is '5'; allowed: more than 0, or None"),
        ({"backoff": 3}, "backoff is 3; allowed: Backoff"),
        ({"health": 5}, "health is 5; allowed: Health"),
    ],
)
def test_rules_that_cannot_be_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        Rules(**given)
