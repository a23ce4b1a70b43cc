from typing import Any

import pytest

from penstock.errors import BadOutcome
from penstock.processing.engine.outcome import Outcome, done_to, outcome_of, retry


def test_a_handler_may_say_it_shortly() -> None:
    assert outcome_of(None) == Outcome()
    assert outcome_of(7) == done_to(7)
    assert outcome_of(retry(1.0)) == retry(1.0)


@pytest.mark.parametrize("returned", [True, "done", 1.5, [7]])
def test_anything_else_is_no_outcome(returned: Any) -> None:
    with pytest.raises(BadOutcome, match=r"a handler has returned .*, which is no outcome"):
        outcome_of(returned)
