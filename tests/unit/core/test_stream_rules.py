"""A stream's rules: what is left out bounds nothing, and nobody changes them under a stream."""

import pytest

from penstock.core.assignment import Place
from penstock.core.delivery import Delivery
from penstock.core.stream_rules import Rules
from penstock.core.track import Read

P: Place = ("orders", 0)
RULES = Rules(max_uncommitted=10, batch_limit=1, flush_s=1, commit_s=60, bytes_max=1 << 20)
YEAR_S = 365 * 24 * 3600.0


def test_what_is_left_out_bounds_nothing() -> None:
    delivery = Delivery(RULES, 0.0)
    delivery.assign(P, 0, 0.0)
    for offset in range(100):
        delivery.add(P, Read([b"%d" % offset], range(offset, offset + 1), offset + 1))
        assert [batch.events for batch in delivery.take(0.0)] == [[b"%d" % offset]]
        delivery.commit(P, offset + 1, 0.0)
    for beat in range(1, 100):
        assert [len(batch.events) for batch in delivery.take(beat * RULES.flush_s)] == [0]
    assert list(delivery.take(YEAR_S)), "it still says that it has nothing after a year"
    assert delivery.reason is None


def test_nobody_changes_them_under_a_stream() -> None:
    with pytest.raises(AttributeError):
        RULES.batch_limit = 2  # type: ignore[misc]
