"""A transaction that somebody forgot keeps PostgreSQL from vacuuming: what is published must not get slower for it."""

import pytest

from bench.figures.held_transaction import MINUTES, TARGET, publish_beside_a_held_transaction
from bench.place import place


@pytest.mark.soak
def test_the_last_of_ten_minutes_is_nearly_as_fast_as_the_first() -> None:
    with place() as lent:
        rates = publish_beside_a_held_transaction(lent, MINUTES, 60.0)

    for way, first in rates[0].items():
        assert TARGET.reached_by(rates[-1][way] / first), (way, rates)
