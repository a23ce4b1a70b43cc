"""How long producers are remembered."""

import pytest

from penstock.core.producer import State
from penstock.errors import InvalidSetting
from penstock.hub.expiry import DAY_S, IDLE_S_MIN, Expiry
from penstock.storage.producers import Producer
from penstock.testing.clock import START_AT

HEARD_OF = Producer(1, 100, "g", State(3, 0, 7), None, False, START_AT)
GONE = HEARD_OF._replace(state=State(3, 0, 0, is_expired=True))


@pytest.mark.parametrize("idle_s", [IDLE_S_MIN, IDLE_S_MIN + 0.5, 7 * DAY_S], ids=str)
def test_a_producer_may_expire_once_nobody_sends_its_last_batch_any_more(idle_s: float) -> None:
    expiry = Expiry(idle_s=idle_s)

    assert expiry.check() is expiry


@pytest.mark.parametrize("idle_s", [IDLE_S_MIN - 0.5, 1, 0, -1], ids=str)
def test_it_may_not_expire_before(idle_s: float) -> None:
    with pytest.raises(InvalidSetting) as told:
        Expiry(idle_s=idle_s).check()

    reason = f"is {idle_s:g} s; it has to be 240 or more, twice what a client may send a batch for"
    assert told.value.fields == {"field": "producer_ttl", "reason": reason}


def test_unless_it_is_said_otherwise_it_is_a_week_and_its_epoch_is_known_for_a_month() -> None:
    assert Expiry() == Expiry(idle_s=604_800, floor_s=2_592_000)


@pytest.mark.parametrize(
    ("producer", "expires_at"),
    [
        (HEARD_OF, START_AT + 500_500_000),
        (HEARD_OF._replace(updated_at=START_AT + 7), START_AT + 500_500_007),
        (HEARD_OF._replace(is_pinned=True), None),
        (GONE, None),
    ],
    ids=["heard of", "heard of later", "pinned", "expired"],
)
def test_it_expires_so_long_after_it_was_last_heard_of(producer: Producer, expires_at: int | None) -> None:
    assert Expiry(idle_s=500.5).expires_at(producer) == expires_at
