import msgspec
import pytest

from penstock.core.limits import NAKADI, PENSTOCK

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def test_a_hub_by_default_keeps_everything_in_as_many_partitions_as_it_can_have() -> None:
    assert PENSTOCK.partitions_max == 256
    assert (PENSTOCK.retention_ms, PENSTOCK.retention_default_ms) == ((None, None), None)
    assert not PENSTOCK.strict


def test_nakadis_limits_are_those_of_its_contract() -> None:
    assert NAKADI.partitions_max == 8
    assert NAKADI.retention_ms == (3 * HOUR_MS, 4 * DAY_MS)
    assert NAKADI.retention_default_ms == 2 * DAY_MS
    assert NAKADI.stream_bytes_max == 50_000_000
    assert NAKADI.strict


def test_limits_do_not_change_while_a_hub_runs() -> None:
    with pytest.raises(AttributeError):
        PENSTOCK.partitions_max = 8  # type: ignore[misc]

    assert msgspec.structs.replace(PENSTOCK, partitions_max=8).partitions_max == 8
