import datetime as dt

import pytest

from penstock.errors import BadParameter
from penstock.spark.traversals.interval import interval_seconds


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [("1s", 1), ("90 s", 90), ("15m", 900), (" 2h ", 7_200), ("7d", 604_800), (dt.timedelta(seconds=1.5), 1)],
)
def test_an_interval_is_a_number_of_seconds(interval: str | dt.timedelta, seconds: int) -> None:
    assert interval_seconds(interval) == seconds


@pytest.mark.parametrize("interval", ["", "0s", "1.5h", "1 hour", "-1m", "\u0661s", dt.timedelta(milliseconds=900)])
def test_malformed_interval_is_refused(interval: str | dt.timedelta) -> None:
    with pytest.raises(BadParameter, match=r"option interval is '.*'; allowed: a (second or more|time such as 30s)"):
        interval_seconds(interval)
