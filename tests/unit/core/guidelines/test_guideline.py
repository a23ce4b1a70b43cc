import pytest

from penstock.core.guidelines import Finding
from penstock.core.guidelines.guideline import LINE_CHARS_MAX
from penstock.core.guidelines.rules import NAME_STYLE


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ("it is plain", "it is plain"),
        ("two\r\nlines\tand a tab", "two lines and a tab"),
        ('"quoted" \\ back', "'quoted' / back"),
        ("größer, \ud800, \x00, \u2028", "gr??er, ?, ?, "),
    ],
)
def test_a_line_can_stand_in_a_header(found: str, line: str) -> None:
    assert Finding(NAME_STYLE, "definition", "#/name", found).line() == f"SHOULD name-style: definition #/name: {line}"


def test_a_line_is_never_long() -> None:
    line = Finding(NAME_STYLE, "schema", "#/a", "x" * 5000).line()

    assert len(line) == LINE_CHARS_MAX
    assert line.endswith("x...")


def test_a_finding_gives_the_advice_of_its_guideline() -> None:
    assert Finding(NAME_STYLE, "definition", "#/name", "").advice == NAME_STYLE.advice
