from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.processing.engine.rules import Rules


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"concurrency": 0}, "concurrency is 0; allowed: 1 or more"),
        ({"batches_ahead": 0}, "batches_ahead is 0; allowed: 1 or more"),
        ({"events_ahead": -1}, "events_ahead is -1; allowed: 1 or more"),
        ({"events_per_call": 0}, "events_per_call is 0; allowed: 1 or more"),
        ({"exhausted": "prak"}, "exhausted is 'prak'; allowed: stop or park"),
        ({"attempts_max": 0}, "attempts_max is 0; allowed: 1 or more, or None"),
        ({"timeout_s": 0}, "timeout_s is 0; allowed: more than 0, or None"),
        ({"timeout_s": float("nan")}, "timeout_s is nan; allowed: more than 0, or None"),
        ({"backoff": 3}, "backoff is 3; allowed: Backoff"),
        ({"health": 5}, "health is 5; allowed: Health"),
    ],
)
def test_rules_that_cannot_be_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        Rules(**given)
