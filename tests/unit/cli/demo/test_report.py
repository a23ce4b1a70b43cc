import io

import pytest
from rich.console import Console

from penstock.cli.demo.delays import Delay
from penstock.cli.demo.report import Step, print_delays, print_steps

DELAYS = [
    Delay("AA", "American Airlines Inc.", month, flights=32_000, cancelled=2_000, departure_delay=-5.4, late_share=0.25)
    for month in range(1, 13)
]


def printed(width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_delays(console, DELAYS)
    print_steps(console, [Step("publish", 1_000, 0.5), Step("start", 0, 1.0)])
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


@pytest.mark.parametrize(("width", "name"), [(80, "AA"), (130, "American Airlines Inc.")])
def test_nothing_is_cut_off(width: int, name: str) -> None:
    text = printed(width)

    row = next(line for line in text.splitlines() if line.strip().startswith(name))
    assert row.count("-5") == 13
    assert "…" not in text


def test_rates_are_told_where_there_are_rows() -> None:
    lines = printed(130).splitlines()

    assert next(line for line in lines if "publish" in line).split() == ["publish", "1", "000", "0.5", "2", "000"]
    assert next(line for line in lines if "start" in line).split() == ["start", "-", "1.0", "-"]
