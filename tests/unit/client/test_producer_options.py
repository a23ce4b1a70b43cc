"""What a producer is told, and what it tells."""

from typing import Any

import pytest

from penstock.client.producer_options import PublishingProperties, RetryPolicy, properties_of
from penstock.errors import BadParameter, ProducerStateExpired
from penstock.wire.producers import Shown

SHOWN = Shown(
    producer_group="g",
    partition=2,
    owner_level=5,
    last_published_sequence=6,
    next_sequence=7,
    last_offset=99,
    previous=None,
    pinned=False,
    expired=False,
    updated_at="2026-11-22T00:00:00.000Z",
    expires_at=None,
    expires_after_s=240,
    sequence_modulus=16,
)


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_delay": 0}, "max_delay"),
        ({"max_delay": float("nan")}, "max_delay"),
    ],
    ids=["no attempt", "no delay", "no number"],
)
def test_a_policy_that_makes_no_sense_is_refused(given: dict[str, Any], parameter: str) -> None:
    with pytest.raises(BadParameter) as refused:
        RetryPolicy(**given)

    assert refused.value.fields["parameter"] == parameter


def test_what_a_hub_shows_becomes_properties() -> None:
    assert properties_of(SHOWN) == PublishingProperties(2, "g", 5, 6, 7, 99)


def test_what_has_expired_has_none() -> None:
    fields = {name: getattr(SHOWN, name) for name in SHOWN.__struct_fields__}
    gone = Shown(**fields | {"next_sequence": None, "expired": True})

    with pytest.raises(ProducerStateExpired) as refused:
        properties_of(gone)

    assert refused.value.fields == {"producer_group": "g", "partition": 2, "current_epoch": 5}
