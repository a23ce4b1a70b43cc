import pytest

from penstock.core.times import format_duration, format_time, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("90 s", 90.0),
        ("15m", 900.0),
        (" 2h ", 7_200.0),
        ("7d", 604_800.0),
        ("1w", 604_800.0),
        ("250ms", 0.25),
        ("1.5 hours", 5_400.0),
        ("1 hour 30 minutes", 5_400.0),
        ("10 Seconds", 10.0),
        ("0", 0.0),
        ("604800", 604_800.0),
    ],
)
def test_duration_is_read_as_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "s", "-1m", "1x", "1 fortnight", "nan", "inf", "1e3", "\u0661s", "1:30", "1h30", "1h,30m", "1 2 hours ago"],
)
def test_malformed_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - its message is the text alone
        parse_duration(text)

    assert str(refused.value) == text


@pytest.mark.parametrize("seconds", [0.0, 0.25, 1.5, 120.0, 86_400.0])
def test_formatted_duration_is_read_back(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (999, "1970-01-01T00:00:00.000Z"),
        (1_999, "1970-01-01T00:00:00.001Z"),
        (1_700_000_000_999_999, "2023-11-14T22:13:20.999Z"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_time_is_cut_to_the_millisecond(at: int, text: str) -> None:
    assert format_time(at) == text
