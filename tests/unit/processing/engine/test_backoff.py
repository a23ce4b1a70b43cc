from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.processing.engine.backoff import Backoff


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"first": -1}, "backoff.first is -1; allowed: 0 or more"),
        ({"first": "1"}, "backoff.first is '1'; allowed: 0 or more"),
        ({"first": float("nan")}, "backoff.first is nan; allowed: 0 or more"),
        ({"factor": 0.5}, "backoff.factor is 0.5; allowed: 1 or more"),
        ({"factor": None}, "backoff.factor is missing; allowed: 1 or more"),
        ({"most": 0.01}, "backoff.most is 0.01; allowed: 0.1, which is the first delay, or more"),
        ({"jitter": 2}, "backoff.jitter is 2; allowed: from 0 to 1"),
        ({"jitter": True}, "backoff.jitter is True; allowed: from 0 to 1"),
    ],
)
def test_delays_that_cannot_be_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadParameter, match=said):
        Backoff(**given)


def test_chance_shortens_a_delay_and_never_makes_it_longer() -> None:
    backoff = Backoff(first=1.0, jitter=0.2)

    assert [backoff.delay(2, chance) for chance in (0.0, 0.5, 1.0)] == [2.0, 1.8, 1.6]
