"""Where to start reading: what texts and values mean, and the ones that are refused."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from penstock.core.log.start import Start, check_start, format_start, parse_start, resolve_start
from penstock.errors import BadParameter

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
FORM = "allowed: earliest, latest, a time such as 2026-11-20T10:00:00Z, or a duration ago such as 1h"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", "earliest"),
        (" LATEST ", "latest"),
        ("2026-11-20T10:00:00Z", NOW),
        ("2026-11-20t11:00:00.5+01:00", NOW + timedelta(seconds=0.5)),
        ("1h", timedelta(hours=1)),
        ("30 minutes", timedelta(minutes=30)),
        ("1 day 12 hours", timedelta(days=1.5)),
        ("0s", timedelta()),
    ],
)
def test_start_is_parsed_from_text_and_written_back(text: str, start: Start) -> None:
    assert parse_start(text) == start
    assert parse_start(format_start(start)) == start


@pytest.mark.parametrize(
    "text",
    ["", "first", "begin", "_first", "17", "-1h", "1 fortnight", "h", "2026-11-20", "2026-11-20T10:00:00", "now",
     "999999999w", "\ud800", "1h ago", "Z"],
    ids=ascii,
)  # fmt: skip
def test_text_that_is_no_start_is_refused_with_the_four_that_are(text: str) -> None:
    with pytest.raises(BadParameter, match=FORM) as refused:
        parse_start(text, "--from")

    assert refused.value.parameter == "--from"


@pytest.mark.parametrize(
    "start", ["earliest", "latest", NOW, NOW.astimezone(timezone(timedelta(hours=5))), timedelta()]
)
def test_value_in_python_is_accepted(start: Start) -> None:
    assert check_start(start) == start


@pytest.mark.parametrize(
    "value", ["EARLIEST", "1h", "_last", NOW.replace(tzinfo=None), timedelta(seconds=-1), 17, None, []], ids=ascii
)
def test_value_in_python_that_is_no_start_is_refused(value: Any) -> None:
    with pytest.raises(BadParameter, match="'earliest', 'latest', a datetime with a time zone, or a timedelta"):
        check_start(value, "to")


def test_duration_is_the_time_so_long_ago_or_the_earliest_if_there_is_no_such_time() -> None:
    assert resolve_start(timedelta(days=2), NOW) == datetime(2026, 11, 18, 10, tzinfo=UTC)
    assert resolve_start(timedelta.max, NOW) == "earliest"
    assert [resolve_start(each, NOW) for each in ("latest", NOW)] == ["latest", NOW]
