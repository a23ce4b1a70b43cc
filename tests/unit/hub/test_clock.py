import time

import pytest

from penstock.hub.clock import rfc3339, system_clock, uptime


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (999, "1970-01-01T00:00:00.000Z"),
        (1_999, "1970-01-01T00:00:00.001Z"),
        (1_700_000_000_000_000, "2023-11-14T22:13:20.000Z"),
        (1_700_000_000_999_999, "2023-11-14T22:13:20.999Z"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_is_cut_to_the_millisecond_and_never_rounded_up(at: int, text: str) -> None:
    assert rfc3339(at) == text


def test_the_clock_gives_microseconds_of_utc() -> None:
    before = time.time()
    now = system_clock()

    assert before - 0.001 <= now / 1_000_000 <= time.time() + 0.001


def test_uptime_goes_on_and_counts_the_time_in_which_the_machine_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    before = uptime()
    time.sleep(0.01)
    assert 0.01 <= uptime() - before < 60

    monkeypatch.setattr(time, "clock_gettime", {time.CLOCK_MONOTONIC: 5.0, time.CLOCK_BOOTTIME: 65.0}.__getitem__)
    assert uptime() == 65.0
